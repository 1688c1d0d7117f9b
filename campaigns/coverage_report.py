"""Runs benches of units and deduplicators with coverage, and reports what they reach."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lately.cli.progress import parallel_bar
from lately.cli.tables import print_table
from lately.golden import PartitionedTimingSpec, Specification, dictionary_preset, timing_preset
from lately.golden.files import write_json
from lately.golden.spec import GEBFSpec
from lately.golden.spec.all_presets import any_preset
from lately.sim.bench.code_coverage import Tally, read_points, tally
from lately.sim.bench.coverage import Counts, missed
from lately.sim.bench.runner import COUNTS, FUNCTIONAL, run_filter_bench, run_frame_bench

CROWDED_RING = replace(
    dictionary_preset("ring-tiny"), window=60, columns=2, rows=16, digest_bits=8, stash=4
)
"""A dictionary with moves that has fewer cells than entries: all are always on their way."""

PRESETS = ("apbbf-tiny", "apbf-tiny", "gebf-tiny", "blocked-gebf-tiny", "siphash-tiny",
           "timed-tiny", "timing-tiny", "timing-counted-tiny", "dictionary-tiny")  # fmt: skip
"""Presets whose units are run."""

SPECS: dict[str, Specification] = {name: any_preset(name) for name in PRESETS} | {
    "timing-decided": replace(timing_preset("tiny"), classes=2),
    "timing-counted-decided": PartitionedTimingSpec(
        window=20,
        block=4,
        hashes=3,
        cells=16,
        stamp_bits=5,
        key_bits=16,
        seed=3,
        classes=3,
        phase_bits=2,
    ),
    "dictionary-ring-crowded": CROWDED_RING,
}
"""Units that are run, by name: all families of rings, one with re-keying and one with a window in
time; timing filters by either clock, also where tables answer; and dictionaries."""

FRAMES_FILTER = GEBFSpec(window=72, epochs=3, hashes=3, bits=1536, key_bits=64, span=20)
"""Filter of the deduplicators of frames."""

SMALL_STORE = {"longest": 198, "store": 1024, "frames": 32}
"""Sizes of a store that is full soon."""

FRAMES: dict[str, dict[str, Any]] = {
    "frames-8": SMALL_STORE | {"width": 8},
    "frames-64": SMALL_STORE | {"width": 64},
    "frames-64-inner": {"width": 64, "longest": 198, "store": 4096, "inner": True},
    "frames-64-no-tready": SMALL_STORE | {"width": 64, "ready": False, "when_full": "drop"},
    "frames-512": {"width": 512, "longest": 1518, "store": 32768, "oversize": "pass"},
}
"""Deduplicators that are run, by name: their options."""

SEED = 20260807
"""Seed of the benches that are counted."""

COUNT = 60
"""Number of frames that a test of frames sends at a time."""

TARGET = 95.0
"""Share of the reachable lines and toggles of every unit that must be reached, in percent."""

KINDS = ("lines", "toggles")
"""Kinds of points that the simulator counts."""


@dataclass
class UnitCoverage:
    """Coverage that the bench reaches in one unit.

    Attributes
    ----------
    failed : list of str
        Tests that failed.
    functional : dict
        Goal and count of each situation.
    modules : dict
        Tallies by module and kind.
    reasons : dict
        Excluded points by reason.
    """

    failed: list[str]
    functional: Counts
    modules: dict[str, dict[str, Tally]]
    reasons: dict[str, int]

    def total(self, kind: str) -> Tally:
        """Tally of all modules together."""
        return sum((kinds[kind] for kinds in self.modules.values()), Tally())

    @property
    def passed(self) -> bool:
        """Whether all tests passed, all situations came about and enough code was reached."""
        enough = all(self.total(kind).percent >= TARGET for kind in KINDS)
        return enough and not self.failed and not missed(self.functional)

    def as_json(self) -> dict[str, Any]:
        """Everything, as it is written to the file."""
        modules = {
            name: {kind: _figures(kinds[kind]) | {"missed": kinds[kind].missed} for kind in KINDS}
            for name, kinds in self.modules.items()
        }
        return {
            "failed": self.failed,
            "functional": self.functional,
            "missed_situations": missed(self.functional),
            "modules": modules,
            "total": {kind: _figures(self.total(kind)) for kind in KINDS},
            "excluded": self.reasons,
        }


def _figures(counted: Tally) -> dict[str, Any]:
    names = ("reached", "reachable", "excluded")
    return {"percent": round(counted.percent, 2)} | {n: getattr(counted, n) for n in names}


def measure(
    spec: Specification,
    directory: Path,
    run: Callable[..., dict[str, bool]] = run_filter_bench,
    **options: Any,
) -> UnitCoverage:
    """Run the bench of a unit under Verilator with coverage; reuses the build in the folder."""
    for name in (FUNCTIONAL, COUNTS):
        (directory / name).unlink(missing_ok=True)
    outcomes = run(spec, "verilator", directory, seed=SEED, coverage=True, **options)
    verilog = (directory / "top.v").read_text()
    modules, reasons = tally(spec, read_points(directory / COUNTS, verilog))
    return UnitCoverage(
        failed=[name for name, passed in outcomes.items() if not passed],
        functional=json.loads((directory / FUNCTIONAL).read_text("utf-8")),
        modules=modules,
        reasons=reasons,
    )


def print_report(units: dict[str, UnitCoverage]) -> None:
    """Print units, parts, exclusions, and everything that was not reached."""
    print("Coverage of the benches")
    print_table([_row(name, unit) for name, unit in units.items()])
    print("Parts, all units together")
    parts: dict[str, list[dict[str, Tally]]] = {}
    reasons: Counter[str] = Counter()
    for unit in units.values():
        reasons.update(unit.reasons)
        for name, kinds in unit.modules.items():
            parts.setdefault(name, []).append(kinds)
    print_table(
        [
            {"part": name}
            | {kind: _share(sum((one[kind] for one in own), Tally())) for kind in KINDS}
            for name, own in sorted(parts.items())
        ]
    )
    print("Points that cannot be reached")
    print_table([{"points": n, "excluded because": why} for why, n in reasons.most_common()])
    for name, unit in units.items():
        ends = {"failed tests": unit.failed, "situations missed": missed(unit.functional)}
        ends |= {f"{kind} not reached": unit.total(kind).missed for kind in KINDS}
        for what, names in ends.items():
            if names:
                more = f" and {len(names) - 20} more" * (len(names) > 20)
                print(f"{name}, {what}: {', '.join(names[:20])}{more}")


def _share(counted: Tally) -> str:
    return f"{counted.percent:.1f} % of {counted.reachable:,}"


def _row(name: str, unit: UnitCoverage) -> dict[str, object]:
    every, totals = len(unit.functional), {kind: unit.total(kind) for kind in KINDS}
    row: dict[str, object] = {"unit": name}
    row["situations"] = f"{every - len(missed(unit.functional))} of {every}"
    row |= {kind: _share(total) for kind, total in totals.items()}
    return row | {f"excluded {kind}": total.excluded for kind, total in totals.items()}


def main(directory: Path = Path("build/coverage")) -> int:
    """Run, print and write everything; return an exit status."""
    units: dict[str, UnitCoverage] = {}
    benches = {name: partial(measure, spec) for name, spec in SPECS.items()} | {
        name: partial(measure, FRAMES_FILTER, run=run_frame_bench, count=COUNT, **options)
        for name, options in FRAMES.items()
    }
    with parallel_bar("benches", "units") as progress:
        for name, bench in benches.items():
            progress(len(units), len(benches), {name: ("bench", 0.0)})
            units[name] = bench(directory=directory.resolve() / name)
    print_report(units)
    path = directory / "coverage.json"
    write_json({name: unit.as_json() for name, unit in units.items()}, path)
    print(f"Written: {path}")
    return 0 if all(unit.passed for unit in units.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
