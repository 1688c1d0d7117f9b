"""Runs the test plan's units with coverage, and fails if a unit is not covered well enough.

Verilator counts how often each line and branch of a unit is executed, and how often each bit
toggles. Each rule in `exclusions.toml` excludes points that cannot be reached, and gives a reason.
A point that was reached is never excluded.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lately.cli.progress import parallel_bar
from lately.cli.tables import print_table
from lately.golden.files import write_json
from lately.hdl.verilog import TOP
from lately.sim.bench.coverage import missed
from lately.sim.bench.runner import COUNTS, FUNCTIONAL
from lately.sim.bench.runs import SEED, UNITS

TARGET = 95.0
"""Percentage of the reachable lines and toggles that must be reached in every unit."""

KINDS = {"v_line": "lines", "v_branch": "lines", "v_toggle": "toggles"}
"""Kinds of points in the report, by their names in Verilator's file; a branch counts as a line."""

RULES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("exclusions.toml").read_text("utf-8")
)["exclusion"]


class Point(NamedTuple):
    kind: str
    instance: str
    name: str
    text: str
    hits: int

    @property
    def bit(self) -> tuple[str, str]:
        return self.instance, self.name.rpartition(":")[0] or self.name


def read_points(counts: str, verilog: str) -> list[Point]:
    lines, points = verilog.splitlines(), []
    for entry, hits in re.findall(r"(?m)^C '(.*)' (\d+)$", counts):
        fields = dict(part.split("\2", 1) for part in entry.split("\1")[1:])
        kind = KINDS.get(fields["page"].partition("/")[0])
        if kind and fields["h"].startswith(TOP):
            # Verilator writes __024 for $.
            name = re.sub(r"__0([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), fields["o"])
            name = name if kind == "toggles" else f"{fields['l']} {fields['o']}"
            # Drop the numbers of identical instances, and the path to the filter of a deduplicator.
            instance = re.sub(r"\$\d+|\d+(?=[._]|$)", "", fields["h"][len(TOP) + 1 :])
            instance = re.sub(r"^unit\.unit\.unit(\.|$)", "", instance) or "(unit)"
            points.append(Point(kind, instance, name, lines[int(fields["l"]) - 1], int(hits)))
    return points


def excludes(rule: dict[str, Any], point: Point, *, hash: str, moved: bool) -> bool:
    return (
        point.kind == rule.get("kind", "toggles")
        and not (rule.get("still") and moved)
        and rule.get("hash", hash) == hash
        and all(
            re.fullmatch(rule.get(key, ".*"), value)
            for key, value in (
                ("instance", point.instance), ("name", point.name), ("text", point.text)
            )
        )
    )  # fmt: skip


@dataclass
class Tally:
    reached: int = 0
    excluded: int = 0
    missed: list[str] = field(default_factory=list)

    @property
    def percent(self) -> float:
        return 100 * self.reached / max(self.reached + len(self.missed), 1)


def tally(points: Iterable[Point], hash: str) -> dict[str, Tally]:
    points, counted = list(points), {"lines": Tally(), "toggles": Tally()}
    moved = {point.bit for point in points if point.hits}
    for point in points:
        kind_tally = counted[point.kind]
        if point.hits:
            kind_tally.reached += 1
        elif any(excludes(rule, point, hash=hash, moved=point.bit in moved) for rule in RULES):
            kind_tally.excluded += 1
        else:
            kind_tally.missed.append(f"{point.instance}: {point.name}")
    return counted


def passed(figures: dict[str, Any]) -> bool:
    enough = all(figures[kind].percent >= TARGET for kind in ("lines", "toggles"))
    return enough and not figures["failed"] and not figures["missed"]


def report(units: dict[str, dict[str, Any]]) -> None:
    print_table([
        {"unit": name, "situations": f"{figures['situations'] - len(figures['missed'])} of "
         f"{figures['situations']}"}
        | {kind: f"{figures[kind].percent:.1f} %" for kind in ("lines", "toggles")}
        | {f"excluded {kind}": figures[kind].excluded for kind in ("lines", "toggles")}
        for name, figures in units.items()
    ])  # fmt: skip
    for name, figures in units.items():
        for problem in ("failed", "missed"):
            if figures[problem]:
                print(f"{name}, {problem}: {', '.join(figures[problem])}")


def main(directory: Path = Path("build/coverage")) -> int:
    units: dict[str, dict[str, Any]] = {}
    chosen = {name: unit for name, unit in UNITS.items() if unit.coverage}
    with parallel_bar("benches", "units") as progress:
        for name, unit in chosen.items():
            progress(len(units), len(chosen), {name: ("bench", 0.0)})
            folder = directory / name
            for counted in (FUNCTIONAL, COUNTS):
                (folder / counted).unlink(missing_ok=True)
            outcomes = unit.run("verilator", folder, unit.sentences, seed=SEED, coverage=True)
            situations = json.loads((folder / FUNCTIONAL).read_text("utf-8"))
            counts, verilog = folder / COUNTS, (folder / "top.v").read_text()
            units[name] = {
                "failed": [sentence for sentence, held in outcomes.items() if not held],
                "situations": len(situations),
                "missed": missed(situations),
            }
            points = read_points(counts.read_text("latin-1"), verilog)
            units[name] |= tally(points, getattr(unit.spec, "hash", "h3"))
    report(units)
    path = directory / "coverage.json"
    rows = {
        name: {key: asdict(value) if isinstance(value, Tally) else value
               for key, value in figures.items()}
        for name, figures in units.items()
    }  # fmt: skip
    write_json(rows, path)
    print(f"Written: {path}")
    return 0 if all(map(passed, units.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
