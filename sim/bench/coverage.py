"""Functional coverage of the benches: situations that the tests of a unit must reach.

A point has a name, bins, and a function that returns the values that occur in a `Moment`. Each bin
is a situation. The points are derived from the unit's signature, so new families need no new code.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...golden import Operation
from ...golden.files import replace_file
from ...golden.operations import OperationBit
from .parts import PERIOD_NS, Performed
from .reference import queries

Hits = dict[str, int]  # number of moments in which each situation occurred


class Point(NamedTuple):
    name: str
    bins: Iterable[Any]
    values: Callable[[Any], Iterable[Any]]


def count(points: Iterable[Point], moments: Iterable[Any]) -> Hits:
    chosen = [(point, {*point.bins}) for point in points]
    hits = {
        f"{point.name}: {value}": 0 for point, bins in chosen for value in sorted(bins, key=str)
    }
    for moment in moments:
        for point, bins in chosen:
            for value in bins.intersection(point.values(moment)):
                hits[f"{point.name}: {value}"] += 1
    return hits


def collect(path: str, hits: Hits) -> None:
    file = Path(path)
    total = json.loads(file.read_text("utf-8")) if file.exists() else {}
    with replace_file(file) as new:
        added = {name: number + total.get(name, 0) for name, number in hits.items()}
        new.write(json.dumps(added, indent=1).encode())


def missed(hits: Hits) -> list[str]:
    return [name for name, number in hits.items() if not number]


RUNS = ("1", "2", "3 to 7", "8 or more")  # ranges for the lengths of pauses, in cycles


def length(cycles: int) -> list[str]:
    if cycles < 1:
        return []
    return [str(cycles) if cycles < 3 else RUNS[2] if cycles < 8 else RUNS[3]]


def only(condition: object, value: Any = True) -> list[Any]:
    return [value] if condition else []


def code_name(code: int) -> str:
    return Operation(code).name if code in list(Operation) else f"code {code}"


def cycles(first: Performed, second: Performed) -> int:
    return round((second.accepted - first.accepted) / PERIOD_NS)


@dataclass
class Moment:
    """An operation, and up to 32 earlier operations since the reset, most recent last."""

    now: Performed
    before: list[Performed]
    secrets: list[float]

    def __post_init__(self) -> None:
        self.last = self.before[-1] if self.before else None
        self.outcome, self.code = self.now.outcome, self.now.operation
        self.queries = queries(self.code)
        self.cycles = cycles(self.last, self.now) if self.last else 0
        self.passed = self.now.time - self.last.time if self.last else 0

    def changed(self, fact: str) -> int:
        last = self.last.facts.get(fact, 0) if self.last else 0
        return self.now.facts.get(fact, 0) - last

    def insertions(self) -> list[int]:
        alone, inserts = OperationBit.ALONE | OperationBit.REMOVE, OperationBit.INSERT
        return [
            cycles(earlier, self.now)
            for earlier in self.before
            if earlier.item["key"] == self.now.item["key"]
            and OperationBit(earlier.operation) & inserts
            and not OperationBit(earlier.operation) & alone
        ]


def moments(performed: Iterable[Performed], secrets: list[float]) -> Iterator[Moment]:
    before: list[Performed] = []
    for now in performed:
        yield Moment(now, before[-32:], secrets)
        before.append(now)


def unit_points(settings: Any) -> list[Point]:
    traits = settings.traits
    points = [*_streams(settings), *_results(settings)]
    points += [*_ring(settings)] if "ring" in traits else []
    points += [*_ticks(settings)] if traits & {"tick", "time"} else []
    points += [*_dictionary(settings)] if "dictionary" in traits else []
    points += [*_tables(settings)] if "tables" in traits else []
    if "secret" in traits:
        points.append(Point(
            "cycles from a secret to an operation", range(-4, 5),
            lambda m: {round((m.now.accepted - time) / PERIOD_NS) for time in m.secrets},
        ))  # fmt: skip
    return points


def _streams(settings: Any) -> Iterator[Point]:
    signature = settings.unit.signature
    if signature.lanes == 1:
        codes = [*map(code_name, range(1 << signature.request["operation"].width))]
        yield Point(
            "pair",
            map(", ".join, itertools.product(codes, repeat=2)),
            lambda m: only(
                m.last, m.last and f"{code_name(m.last.operation)}, {code_name(m.code)}"
            ),
        )
    yield Point("cycles of a waiting result", RUNS, lambda m: length(m.now.held))
    yield Point("cycles of a waiting operation", RUNS, lambda m: length(m.now.wait))
    yield Point("cycles without an operation", RUNS, lambda m: length(m.cycles - 1 - m.now.wait))
    yield Point(
        "cycles from an insertion to a query of its key",
        range(1, min(settings.unit.latency, 24) + 1),
        lambda m: m.insertions() if m.queries else [],
    )


def _results(settings: Any) -> Iterator[Point]:
    signature, spec = settings.unit.signature, settings.spec
    lane = signature.of_lane(signature.result, 0)
    # A block of one insertion ends with that insertion.
    youngest = int(getattr(spec, "block", 0) == 1)
    if "age" in lane.members:
        yield Point(
            "age", range(youngest, len(lane["age"].shape)),
            lambda m: only(m.now.seen or "oldest" in m.outcome, m.outcome.get("age")),
        )  # fmt: skip
    if "oldest" in lane.members:
        yield Point("oldest cells", range(1, spec.hashes + 1), lambda m: [m.outcome.get("oldest")])
    if "status" in lane.members:
        # 2 means that a ring contains more insertions than it was designed for.
        last = 2 if getattr(spec, "when_full", "") == "overfill" else 1
        yield Point("status", (0, last), lambda m: [m.outcome.get("status")])
    if "window" in signature.of_lane(signature.request, 0).members:
        ends = (0, spec.window_blocks)
        yield Point("window", ends, lambda m: only(m.queries, m.now.item["window"]))
        yield Point(
            "window beyond the age", (0, 1),
            lambda m: only(m.now.seen, m.now.item["window"] - m.outcome.get("age", 0)),
        )  # fmt: skip


def _ring(settings: Any) -> Iterator[Point]:
    turns = ("INSERT", "CHECK_AND_INSERT", "SHIFT")
    shift = Operation.SHIFT
    yield Point("turn by", turns, lambda m: only(m.changed("shifts") > 0, code_name(m.code)))
    yield Point(
        "right behind a SHIFT", ("SHIFT", "CLEAR"),
        lambda m: only(shift in {last.operation for last in m.before[-2:]}, code_name(m.code)),
    )  # fmt: skip
    if "window in time" in settings.traits:
        fact = "shortened" if settings.spec.when_full == "shorten" else "overfilled"
        yield Point(f"window is {fact}", [True], lambda m: [m.changed(fact) > 0])


def _ticks(settings: Any) -> Iterator[Point]:
    spec, carried = settings.spec, settings.ticks == "time"
    longest = spec.window_blocks if spec.query_field else spec.span
    spans = {"a window": longest, "two windows": 2 * longest}
    yield Point(
        "silence longer than", spans,
        lambda m: [name for name, ticks in spans.items() if m.passed > ticks],
    )  # fmt: skip
    yield Point(
        "tick between operations of consecutive cycles", [True],
        lambda m: [m.passed > 0 and (m.cycles == 1 or carried)],
    )  # fmt: skip
    yield Point(
        "tick right behind a CLEAR", [True],
        lambda m: [m.passed > 0 and m.last is not None and m.last.operation == Operation.CLEAR],
    )  # fmt: skip


def _dictionary(settings: Any) -> Iterator[Point]:
    removal = Operation.QUERY | Operation.REMOVE
    present = (True, False)
    yield Point("removed key is present", present, lambda m: only(m.code == removal, m.now.seen))
    if "moves" in settings.traits:
        yield Point("key is missed", [True], lambda m: [m.changed("missed") > 0])
        return
    yield Point("entry is lost", [True], lambda m: [m.changed("lost") > 0])
    for fact in ("stashed", "guaranteed_window"):
        yield Point(
            f"change of {fact}", (-1, 1),
            partial(_change, fact),
        )  # fmt: skip


def _change(fact: str, m: Any) -> list[int]:
    change = m.changed(fact)
    return [(change > 0) - (change < 0)]


def _tables(settings: Any) -> Iterator[Point]:
    classes, _, phases = settings.spec.table_shape
    yield Point(
        "class", range(classes), lambda m: only(m.queries, m.now.item.get("query_class", 0))
    )
    yield Point("phase", range(phases), lambda m: [m.now.facts["phase"]])
    yield Point("tables so far", range(4), lambda m: [m.now.facts["table"]])
