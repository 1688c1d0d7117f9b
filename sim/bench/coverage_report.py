"""Runs the bench of every tiny unit with coverage and reports what it reaches: `make coverage`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ...golden import PRESETS, FilterSpec
from .code_coverage import Tally, read_points, tally
from .coverage import Counts, missed
from .runner import COUNTS, FUNCTIONAL, run_filter_bench

UNITS = ("apbbf-tiny", "apbf-tiny", "gebf-tiny", "blocked-gebf-tiny", "siphash-tiny")
"""Presets whose units are run: all families, and one with re-keying."""

SEED = 20260807
"""Of the benches that are counted."""

TARGET = 95.0
"""Share of the reachable lines and toggles of every unit that must be reached, in percent."""

KINDS = ("lines", "toggles")
"""What the simulator counts."""


@dataclass
class UnitCoverage:
    """What the bench reaches in one unit.

    Attributes
    ----------
    failed : list of str
        Tests that failed.
    functional : dict
        Counts by point and bin.
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
        return summed(kinds[kind] for kinds in self.modules.values())

    @property
    def bins(self) -> tuple[int, int]:
        """Bins that were hit, and all bins."""
        every = sum(len(bins) for bins in self.functional.values())
        return every - len(missed(self.functional)), every

    @property
    def passed(self) -> bool:
        """Whether all tests passed, all bins were hit and enough of the code was reached."""
        enough = all(self.total(kind).percent >= TARGET for kind in KINDS)
        return enough and not self.failed and not missed(self.functional)

    def as_json(self) -> dict[str, Any]:
        """Everything, as it is written to the file."""
        return {
            "failed": self.failed,
            "functional": self.functional,
            "missed_bins": missed(self.functional),
            "modules": {
                name: {kind: _tally_json(kinds[kind]) for kind in KINDS}
                for name, kinds in self.modules.items()
            },
            "total": {kind: _tally_json(self.total(kind), names=False) for kind in KINDS},
            "excluded": self.reasons,
        }


def summed(tallies: Any) -> Tally:
    """Return tallies of one kind as one."""
    total = Tally()
    for part in tallies:
        total.reached += part.reached
        total.excluded += part.excluded
        total.missed += part.missed
    return total


def _tally_json(counted: Tally, *, names: bool = True) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "percent": round(counted.percent, 2),
        "reached": counted.reached,
        "reachable": counted.reachable,
        "excluded": counted.excluded,
    }
    return figures | ({"missed": counted.missed} if names else {})


def measure(spec: FilterSpec, directory: Path) -> UnitCoverage:
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
    table = Table("unit", title="Coverage of the benches")
    for column in ("bins hit", "lines", "toggles", "excluded lines", "excluded toggles"):
        table.add_column(column, justify="right")
    for name, unit in units.items():
        totals = [unit.total(kind) for kind in KINDS]
        shares = [f"{counted.percent:.1f} % of {counted.reachable:,}" for counted in totals]
        excluded = [f"{counted.excluded:,}" for counted in totals]
        table.add_row(name, f"{unit.bins[0]} of {unit.bins[1]}", *shares, *excluded)
    console.print(table)
    console.print(_module_table(units))
    console.print(_reason_table(units))
    for name, unit in units.items():
        for what, names in _open_ends(unit):
            shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" * (len(names) > 20))
            console.print(f"{name}, {what}: {shown}", highlight=False, markup=False)


def _module_table(units: dict[str, UnitCoverage]) -> Table:
    table = Table("part", title="Parts, all units together")
    for column in KINDS:
        table.add_column(column, justify="right")
    names = sorted({name for unit in units.values() for name in unit.modules})
    for name in names:
        parts = [unit.modules[name] for unit in units.values() if name in unit.modules]
        totals = [summed(part[kind] for part in parts) for kind in KINDS]
        table.add_row(name, *(f"{total.percent:.1f} % of {total.reachable:,}" for total in totals))
    return table


def _reason_table(units: dict[str, UnitCoverage]) -> Table:
    table = Table("excluded because", title="Points that cannot be reached", show_lines=True)
    table.add_column("points", justify="right")
    reasons: dict[str, int] = {}
    for unit in units.values():
        for reason, count in unit.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        table.add_row(reason, f"{count:,}")
    return table


def _open_ends(unit: UnitCoverage) -> list[tuple[str, list[str]]]:
    ends = [("failed tests", unit.failed), ("bins never hit", missed(unit.functional))]
    ends += [(f"{kind} not reached", unit.total(kind).missed) for kind in KINDS]
    return [(what, names) for what, names in ends if names]


def main(directory: Path = Path("build/coverage")) -> int:
    """Run, print and write everything; return an exit status."""
    console = Console()
    units: dict[str, UnitCoverage] = {}
    for name in UNITS:
        with console.status(f"Running the bench of {name}"):
            units[name] = measure(PRESETS[name], directory.resolve() / name)
    print_report(units, console)
    path = directory / "coverage.json"
    path.write_text(json.dumps({name: unit.as_json() for name, unit in units.items()}, indent=1))
    console.print(f"Written: {path}")
    return 0 if all(unit.passed for unit in units.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
