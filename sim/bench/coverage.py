"""Functional coverage of the bench: a table of situations that its tests must cover.

A situation is a name, a predicate over an operation with its result, and a goal. The rows are
derived from the signature of the unit, so a new family has them immediately.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...golden import Operation
from ...golden.files import replace_file
from ...golden.operations import OperationBit
from .parts import PERIOD_NS, Performed

Counts = dict[str, dict[str, int]]
"""For each situation, ``goal`` and ``count``, the number of occurrences up to the goal."""

RUNS = {"1": (1, 1), "2": (2, 2), "3 to 7": (3, 7), "8 or more": (8, 1 << 30)}
"""Ranges of pause lengths, in cycles."""


@dataclass
class Moment:
    """An operation after earlier operations, as input of the predicates.

    Attributes
    ----------
    now : Performed
    before : list of Performed
        The last operations before it, most recent last; none from before a reset.
    spec : Specification
    secrets : list of float
        Times of accepted secrets, in ns.
    """

    now: Performed
    before: list[Performed]
    spec: Any
    secrets: list[float]

    @property
    def last(self) -> Performed | None:
        """The previous operation."""
        return self.before[-1] if self.before else None

    @property
    def outcome(self) -> Mapping[str, int]:
        """Fields of the result; none for SHIFT and CLEAR of a beat."""
        return self.now.outcome

    @property
    def queries(self) -> bool:
        """Whether the operation queries its key."""
        bits = OperationBit(self.now.operation)
        return bool(bits & OperationBit.QUERY) and not bits & OperationBit.ALONE

    @property
    def gap(self) -> int:
        """Cycles without an offered operation since the previous acceptance."""
        return self.cycles - 1 - self.now.wait if self.last else 0

    @property
    def cycles(self) -> int:
        """Cycles since the previous acceptance."""
        return cycles(self.last, self.now) if self.last else 0

    @property
    def passed(self) -> int:
        """Ticks since the previous operation."""
        return self.now.time - self.last.time if self.last else 0

    def changed(self, fact: str) -> int:
        """Return the increase of a fact that the operation caused."""
        last = self.last.facts.get(fact, 0) if self.last else 0
        return self.now.facts.get(fact, 0) - last

    def inserted(self, distance: int) -> bool:
        """Return whether the key was inserted a number of cycles earlier."""
        return any(
            inserts(one) and one.item["key"] == self.now.item["key"]
            and cycles(one, self.now) == distance
            for one in reversed(self.before)
        )  # fmt: skip


def cycles(one: Performed, other: Performed) -> int:
    """Return the cycles from one acceptance to another."""
    return round((other.accepted - one.accepted) / PERIOD_NS)


def inserts(one: Performed) -> bool:
    """Whether an operation inserts its key."""
    bits = OperationBit(one.operation)
    return bool(bits & OperationBit.INSERT) and not bits & (
        OperationBit.ALONE | OperationBit.REMOVE
    )


class Situation(NamedTuple):
    """A row of the table."""

    name: str
    holds: Callable[[Any], bool]
    goal: int = 1


def situations(settings: Any) -> list[Situation]:
    """Return the table of a unit."""
    traits = settings.traits
    rows = [*_streams(settings), *_results(settings)]
    rows += [*_ring(settings)] if "ring" in traits else []
    rows += [*_timed(settings)] if traits & {"tick", "time"} else []
    rows += [*_dictionary(settings)] if "dictionary" in traits else []
    rows += [*_secrets()] if "secret" in traits else []
    rows += [*_tables(settings)] if "tables" in traits else []
    return rows


def code_name(code: int) -> str:
    """Return the name of an operation, or its code if it has none."""
    return Operation(code).name if code in list(Operation) else f"code {code}"


def each(
    name: str, values: Iterable[Any], predicate: Callable[[Any, Any], bool]
) -> Iterator[Situation]:
    """Yield a row for each value: the name with the value, and the predicate for the value."""
    for value in values:
        shown = code_name(value) if isinstance(value, Operation) else value
        yield Situation(name.format(shown), partial(_holds, predicate, value))


def _holds(predicate: Callable[[Any, Any], bool], value: Any, moment: Any) -> bool:
    return predicate(moment, value)


def _streams(settings: Any) -> Iterator[Situation]:
    """Yield situations of operations and pauses at the two streams."""
    signature = settings.unit.signature
    if signature.lanes == 1:
        codes = range(1 << signature.request["operation"].width)
        for first in codes:
            for second in codes:
                name = f"{code_name(first)}, then {code_name(second)}"
                yield from each(name, [second], partial(_follows, first))
    for name, (least, most) in RUNS.items():
        run = [range(least, most + 1)]
        yield from each(f"result waits, cycles: {name}", run, lambda m, run: m.now.held in run)
        yield from each(f"no operation, cycles: {name}", run, lambda m, run: m.gap in run)
        yield from each(f"operation waits, cycles: {name}", run, lambda m, run: m.now.wait in run)
    yield from each(
        "query of a key inserted {} cycles before",
        range(1, min(settings.unit.latency, 24) + 1),
        lambda m, distance: m.queries and m.inserted(distance),
    )


def _follows(first: int, moment: Moment, second: int) -> bool:
    last = moment.last
    return moment.now.operation == second and last is not None and last.operation == first


def _results(settings: Any) -> Iterator[Situation]:
    """Yield situations of the fields of a result, and of windows of queries."""
    signature, spec = settings.unit.signature, settings.spec
    lane = signature.of_lane(signature.result, 0)
    # A block of one insertion ends with the insertion.
    least = int(getattr(spec, "block", 0) == 1)
    ages = len(lane["age"].shape) if "age" in lane.members else 0
    yield from each(
        "age {}",
        range(least, ages),
        lambda m, age: m.outcome.get("age") == age and (m.now.seen or "oldest" in m.outcome),
    )
    if "oldest" in lane.members:
        counts = range(1, spec.hashes + 1)
        yield from each("oldest cells: {}", counts, lambda m, n: m.outcome.get("oldest") == n)
    statuses = [0, 1] if "status" in lane.members else []
    if "window in time" in settings.traits and spec.when_full == "overfill":
        statuses = [0, 2]
    yield from each("status {}", statuses, lambda m, status: m.outcome.get("status") == status)
    if "window" in signature.of_lane(signature.request, 0).members:
        yield from each(
            "window of a query: {}",
            (0, spec.window_blocks),
            lambda m, window: m.queries and m.now.item["window"] == window,
        )
        yield from each(
            "window of a query: the age and {}",
            (0, 1),
            lambda m, more: m.now.seen and m.now.item["window"] == m.outcome["age"] + more,
        )


def _ring(settings: Any) -> Iterator[Situation]:
    """Yield situations of turns of a ring."""
    shift, clear = Operation.SHIFT, Operation.CLEAR
    yield from each(
        "{} turns the ring",
        (Operation.INSERT, Operation.CHECK_AND_INSERT, shift),
        lambda m, code: m.now.operation == code and m.changed("shifts") > 0,
    )
    yield from each(
        "{} right behind a SHIFT",
        (shift, clear),
        lambda m, code: m.now.operation == code and shift in {o.operation for o in m.before[-2:]},
    )
    if "window in time" in settings.traits:
        fact = "shortened" if settings.spec.when_full == "shorten" else "overfilled"
        yield from each("window is {}", [fact], lambda m, fact: m.changed(fact) > 0)


def _timed(settings: Any) -> Iterator[Situation]:
    """Yield situations of ticks between operations."""
    spec = settings.spec
    longest = spec.window_blocks if spec.query_field else spec.span
    yield from each(
        "silence longer than {} ticks", (longest, 2 * longest), lambda m, ticks: m.passed > ticks
    )
    carried = settings.ticks == "time"
    yield Situation(
        "tick between operations of consecutive cycles",
        lambda m: m.passed > 0 and (m.cycles == 1 or carried),
    )
    yield from each(
        "tick right behind a {}",
        [Operation.CLEAR],
        lambda m, code: m.passed > 0 and m.last is not None and m.last.operation == code,
    )


def _dictionary(settings: Any) -> Iterator[Situation]:
    """Yield situations of removals, losses, and the guaranteed window."""
    removal = Operation.QUERY | Operation.REMOVE
    yield from each(
        "removal of a key that is there: {}",
        (True, False),
        lambda m, there: m.now.operation == removal and m.now.seen == there,
    )
    if "moves" in settings.traits:
        yield Situation("key is missed, and the status says so", lambda m: m.changed("missed") > 0)
        return
    yield Situation("entry is given up", lambda m: m.changed("lost") > 0)
    for fact in ("stashed", "guaranteed_window"):
        yield from each(f"{fact} grows", [fact], lambda m, fact: m.changed(fact) > 0)
        yield from each(f"{fact} falls", [fact], lambda m, fact: m.changed(fact) < 0)


def _secrets() -> Iterator[Situation]:
    """Yield situations of operations near the acceptance of a secret."""
    yield from each(
        "operation {} cycles behind a secret",
        range(-4, 5),
        lambda m, distance: any(
            round((m.now.accepted - time) / PERIOD_NS) == distance for time in m.secrets
        ),
    )


def _tables(settings: Any) -> Iterator[Situation]:
    """Yield situations of classes, phases, and tables in use."""
    classes, _, phases = settings.spec.table_shape
    yield from each(
        "class {}",
        range(classes),
        lambda m, number: m.queries and m.now.item.get("query_class", 0) == number,
    )
    yield from each("phase {}", range(phases), lambda m, phase: m.now.facts["phase"] == phase)
    yield from each("tables so far: {}", range(4), lambda m, count: m.now.facts["table"] == count)


def count(settings: Any, performed: Iterable[Performed], secrets: list[float]) -> Counts:
    """Return the number of occurrences of each situation in one test.

    Parameters
    ----------
    settings : Settings
    performed : iterable of Performed
        All operations since the last reset, in order.
    secrets : list of float
        Times of accepted secrets, in ns.
    """
    return counted(situations(settings), _moments(settings.spec, performed, secrets))


def _moments(spec: Any, performed: Iterable[Performed], secrets: list[float]) -> Iterator[Moment]:
    before: list[Performed] = []
    for now in performed:
        yield Moment(now, before, spec, secrets)
        before.append(now)
        del before[:-32]


def counted(rows: Iterable[Situation], moments: Iterable[Any]) -> Counts:
    """Return the number of moments in which each situation holds, up to its goal."""
    rows = list(rows)
    counts = {row.name: {"goal": row.goal, "count": 0} for row in rows}
    for moment in moments:
        for row in [*rows]:
            if row.holds(moment):
                counts[row.name]["count"] += 1
                if counts[row.name]["count"] >= row.goal:
                    rows.remove(row)
    return counts


def collect(path: str, counts: Counts) -> None:
    """Add the situations of a finished test to the file of the run."""
    file = Path(path)
    before = [json.loads(file.read_text("utf-8"))] if file.exists() else []
    with replace_file(file) as new:
        new.write(json.dumps(merged([*before, counts]), indent=1).encode())


def merged(runs: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Return the sum of the counts of several runs."""
    total: Counts = {}
    for run in runs:
        for name, row in run.items():
            known = total.setdefault(name, {"goal": row["goal"], "count": 0})
            known["count"] += row["count"]
    return total


def missed(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the situations that occurred less often than their goals."""
    return [name for name, row in counts.items() if row["count"] < row["goal"]]
