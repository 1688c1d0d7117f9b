"""Coverage of a unit's Verilog, from Verilator's counts of lines and bits.

The file of counts is text, with one point of the code per line. Rules with reasons exclude points
that cannot be reached. A rule excludes only points that were not reached, and the report states
their number.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from ...golden import Specification
from ...hdl.registers import Block, counters
from ...hdl.verilog import TOP

KINDS = {"v_line": "lines", "v_branch": "lines", "v_toggle": "toggles"}
"""Pages of Verilator's file, and their kinds. A branch is a line that may be skipped."""


class Point(NamedTuple):
    """One point of the code.

    Attributes
    ----------
    kind : str
        "lines" or "toggles".
    instance : str
        Instance in the unit, with "." between levels; empty for the unit itself.
    name : str
        A bit with the direction of its change, or a line number.
    text : str
        The line of Verilog.
    hits : int
        Number of times that the point was reached.
    """

    kind: str
    instance: str
    name: str
    text: str
    hits: int


@dataclass(frozen=True)
class Exclusion:
    """Points that cannot be reached.

    Attributes
    ----------
    reason : str
        Reason why they cannot be reached.
    kind, module, name, text : str
        Attributes of the points; the last three are regular expressions for the whole text.
    hash : str
        "h3" or "siphash" if the reason applies only to units with this hash.
    still : bool
        Whether the rule applies only to bits that changed in neither direction.
    """

    reason: str
    kind: str = "toggles"
    module: str = ".*"
    name: str = ".*"
    text: str = ".*"
    hash: str = ""
    still: bool = False

    def __call__(self, spec: Specification, point: Point, *, moved: bool) -> bool:
        """Return whether the rule excludes an unreached point; `moved` if its bit changed."""
        return (
            point.kind == self.kind
            and not (self.still and moved)
            and self.hash in ("", getattr(spec, "hash", "h3"))
            and all(
                re.fullmatch(pattern, value)
                for pattern, value in (
                    (self.module, module(point.instance)),
                    (self.name, point.name),
                    (self.text, point.text),
                )
            )
        )


EXCLUSIONS: list[Exclusion] = [
    Exclusion(**rule)
    for rule in tomllib.loads(files(__package__).joinpath("exclusions.toml").read_text("utf-8"))[
        "exclusion"
    ]
]
"""Points that cannot be reached in any unit, with reasons."""


def read_points(counts: Path, verilog: str) -> list[Point]:
    """Read Verilator's coverage file for a Verilog text."""
    lines = verilog.splitlines()
    points = []
    for line in counts.read_text("latin-1").splitlines():
        match = re.fullmatch(r"C '(.*)' (\d+)", line)
        if match is None:
            continue
        fields = dict(part.split("\2", 1) for part in match[1].split("\1")[1:])
        kind = KINDS.get(fields["page"].partition("/")[0])
        if kind is None or not fields["h"].startswith(TOP):
            continue
        number = int(fields["l"])
        name = unescaped(fields["o"]) if kind == "toggles" else f"{number} {fields['o']}"
        instance = fields["h"][len(TOP) + 1 :]
        points.append(Point(kind, instance, name, lines[number - 1], int(match[2])))
    return points


def unescaped(name: str) -> str:
    """Return a name as in the Verilog; Verilator writes ``__024`` for ``$``."""
    return re.sub(r"__0([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), name)


LEVELS = {"unit.unit.unit": "", "unit.unit": "frames", "unit": "bus"}
"""Parts of a deduplicator by instance: its filter has the names of a filter's unit."""


def module(instance: str) -> str:
    """Return the kind of an instance: its name without numbers."""
    name = re.sub(r"\$\d+", "", instance)
    name = re.sub(r"(segment|_part|hash|step|round)\d+", r"\1", name)
    for level, part in LEVELS.items():
        if f"{name}.".startswith(f"{level}."):
            name = (part + name.removeprefix(level)).lstrip(".")
            break
    own = {one.name for block in (Block.UNIT, Block.FRAMES) for one in counters(block)}
    name = "statistics" if name.rpartition(".")[2] in own else name
    return name or "(unit)"


@dataclass
class Tally:
    """Points of one kind in one part of a unit.

    Attributes
    ----------
    reached, excluded : int
        Number of reached points, and of points that cannot be reached.
    missed : list of str
        The other points.
    """

    reached: int = 0
    excluded: int = 0
    missed: list[str] = field(default_factory=list)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.reached + other.reached,
            self.excluded + other.excluded,
            self.missed + other.missed,
        )

    @property
    def reachable(self) -> int:
        """Points that are not excluded."""
        return self.reached + len(self.missed)

    @property
    def percent(self) -> float:
        """Share of the reachable points that were reached."""
        return 100 * self.reached / self.reachable if self.reachable else 100.0


def tally(
    spec: Specification, points: Iterable[Point]
) -> tuple[dict[str, dict[str, Tally]], dict[str, int]]:
    """Count points by module and kind, and the excluded ones by reason."""
    modules: dict[str, dict[str, Tally]] = {}
    reasons: Counter[str] = Counter()
    points = list(points)
    moved = {_bit(point) for point in points if point.hits}
    for point in points:
        kinds = modules.setdefault(module(point.instance), {"lines": Tally(), "toggles": Tally()})
        counted = kinds[point.kind]
        if point.hits:
            counted.reached += 1
            continue
        for exclusion in EXCLUSIONS:
            if exclusion(spec, point, moved=_bit(point) in moved):
                counted.excluded += 1
                reasons[exclusion.reason] += 1
                break
        else:
            counted.missed.append(f"{point.instance or '(unit)'}: {point.name}")
    return modules, reasons


def _bit(point: Point) -> tuple[str, str, str]:
    return point.kind, point.instance, point.name.rpartition(":")[0] or point.name
