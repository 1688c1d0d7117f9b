"""Runs the bench of every tiny unit with coverage and reports what it reaches: `make coverage`."""

import json
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lately.golden import PartitionedTimingSpec, Specification, dictionary_preset, timing_preset
from lately.golden.files import write_json
from lately.golden.spec.all_presets import any_preset
from lately.sim.bench.code_coverage import Tally, read_points, tally
from lately.sim.bench.coverage import Counts, missed
from lately.sim.bench.runner import COUNTS, FUNCTIONAL, run_filter_bench

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

SEED = 20260807
"""Seed of the benches that are counted."""

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
    def situations(self) -> tuple[int, int]:
        """Situations that reached their goals, and all of them."""
        return len(self.functional) - len(missed(self.functional)), len(self.functional)

    @property
    def passed(self) -> bool:
        """Whether all tests passed, all situations came about and enough code was reached."""
        enough = all(self.total(kind).percent >= TARGET for kind in KINDS)
        return enough and not self.failed and not missed(self.functional)

    def as_json(self) -> dict[str, Any]:
        """Everything, as it is written to the file."""
        return {
            "failed": self.failed,
            "functional": self.functional,
            "missed_situations": missed(self.functional),
            "modules": {
                name: {kind: _tally_json(kinds[kind]) for kind in KINDS}
                for name, kinds in self.modules.items()
            },
            "total": {kind: _tally_json(self.total(kind), names=False) for kind in KINDS},
            "excluded": self.reasons,
        }


def _tally_json(counted: Tally, *, names: bool = True) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "percent": round(counted.percent, 2),
        "reached": counted.reached,
        "reachable": counted.reachable,
        "excluded": counted.excluded,
    }
    return figures | ({"missed": counted.missed} if names else {})


def measure(spec: Specification, directory: Path) -> UnitCoverage:
    """Run the bench of a unit under Verilator with coverage; reuses the build in the folder."""
    for name in (FUNCTIONAL, COUNTS):
        (directory / name).unlink(missing_ok=True)
    outcomes = run_filter_bench(spec, "verilator", directory, seed=SEED, coverage=True)
    verilog = (directory / "top.v").read_text()
    modules, reasons = tally(spec, read_points(directory / COUNTS, verilog))
    return UnitCoverage(
        failed=[name for name, passed in outcomes.items() if not passed],
        functional=json.loads((directory / FUNCTIONAL).read_text("utf-8")),
        modules=modules,
        reasons=reasons,
    )


def print_report(units: dict[str, UnitCoverage], console: Console) -> None:
    """Print units, modules, exclusions, and everything that was not reached."""
    for table in (_unit_table, _module_table, _reason_table):
        console.print(table(units))
    for name, unit in units.items():
        for what, names in _open_ends(unit):
            shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" * (len(names) > 20))
            console.print(f"{name}, {what}: {shown}", highlight=False, markup=False)


def _table(title: str, first: str, *numbers: str, **options: Any) -> Table:
    """Return an empty table with a column of names and columns of numbers."""
    table = Table(first, title=title, **options)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def _share(counted: Tally) -> str:
    return f"{counted.percent:.1f} % of {counted.reachable:,}"


def _unit_table(units: dict[str, UnitCoverage]) -> Table:
    numbers = ("situations", *KINDS, *(f"excluded {kind}" for kind in KINDS))
    table = _table("Coverage of the benches", "unit", *numbers)
    for name, unit in units.items():
        totals = [unit.total(kind) for kind in KINDS]
        excluded = (f"{counted.excluded:,}" for counted in totals)
        table.add_row(name, "{} of {}".format(*unit.situations), *map(_share, totals), *excluded)
    return table


def _module_table(units: dict[str, UnitCoverage]) -> Table:
    table = _table("Parts, all units together", "part", *KINDS)
    for name in sorted({name for unit in units.values() for name in unit.modules}):
        parts = [unit.modules[name] for unit in units.values() if name in unit.modules]
        totals = [sum((part[kind] for part in parts), Tally()) for kind in KINDS]
        table.add_row(name, *map(_share, totals))
    return table


def _reason_table(units: dict[str, UnitCoverage]) -> Table:
    title = "Points that cannot be reached"
    table = _table(title, "excluded because", "points", show_lines=True)
    reasons: Counter[str] = Counter()
    for unit in units.values():
        reasons.update(unit.reasons)
    for reason, count in reasons.most_common():
        table.add_row(reason, f"{count:,}")
    return table


def _open_ends(unit: UnitCoverage) -> list[tuple[str, list[str]]]:
    ends = [("failed tests", unit.failed), ("situations missed", missed(unit.functional))]
    ends += [(f"{kind} not reached", unit.total(kind).missed) for kind in KINDS]
    return [(what, names) for what, names in ends if names]


def main(directory: Path = Path("build/coverage")) -> int:
    """Run, print and write everything; return an exit status."""
    console = Console()
    units: dict[str, UnitCoverage] = {}
    for name, spec in SPECS.items():
        with console.status(f"Running the bench of {name}"):
            units[name] = measure(spec, directory.resolve() / name)
    print_report(units, console)
    path = directory / "coverage.json"
    write_json({name: unit.as_json() for name, unit in units.items()}, path)
    console.print(f"Written: {path}")
    return 0 if all(unit.passed for unit in units.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
