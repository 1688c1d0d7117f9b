"""Functional coverage of the bench: a table of situations that its tests must bring about.

A situation is a name, a predicate over an operation with its result, and a goal. The rows follow
from the signature of the unit, so that a new family has them at once.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...golden import Operation
from ...golden.files import replace_file
from ...golden.operations import OperationBit
from .parts import Performed

Counts = dict[str, dict[str, int]]
"""For each situation its ``goal``, and ``count``, how often it came about, up to the goal."""

RUNS = {"1": (1, 1), "2": (2, 2), "3 to 7": (3, 7), "8 or more": (8, 1 << 30)}
"""Lengths of pauses that are told apart, in cycles."""

PERIOD_NS = 10


@dataclass
class Moment:
    """An operation among those before it, as the predicates see it.

    Attributes
    ----------
    now : Performed
    before : list of Performed
        The last operations before it, the youngest last; none from before a reset.
    spec : Specification
    secrets : list of float
        When secrets were accepted, in ns.
    """

    now: Performed
    before: list[Performed]
    spec: Any
    secrets: list[float]

    @property
    def last(self) -> Performed | None:
        """The operation before it."""
        return self.before[-1] if self.before else None

    @property
    def outcome(self) -> Mapping[str, int]:
        """Fields of the result; none for SHIFT and CLEAR of a beat."""
        return self.now.outcome or {}

    @property
    def queries(self) -> bool:
        """Whether the operation asks for its key."""
        bits = OperationBit(self.now.operation)
        return bool(bits & OperationBit.QUERY) and not bits & OperationBit.ALONE

    @property
    def gap(self) -> int:
        """Cycles from the acceptance before in which nothing was offered."""
        return self.cycles - 1 - self.now.wait if self.last else 0

    @property
    def cycles(self) -> int:
        """Cycles from the acceptance before."""
        return cycles(self.last, self.now) if self.last else 0

    def changed(self, fact: str) -> int:
        """Return by how much a fact has grown with the operation."""
        last = self.last.facts.get(fact, 0) if self.last else 0
        return self.now.facts.get(fact, 0) - last

    def inserted(self, distance: int) -> bool:
        """Whether the key was inserted so many cycles before."""
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
    holds: Callable[[Moment], bool]
    goal: int = 1


def situations(settings: Any) -> list[Situation]:
    """Return the table of a unit.

    Parameters
    ----------
    settings : Settings
    """
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


def _follows(first: int, second: int) -> Callable[[Moment], bool]:
    return lambda moment: (
        moment.now.operation == second
        and moment.last is not None and moment.last.operation == first
    )  # fmt: skip


def _within(value: Callable[[Moment], int], least: int, most: int) -> Callable[[Moment], bool]:
    return lambda moment: least <= value(moment) <= most


def _streams(settings: Any) -> Iterator[Situation]:
    """Operations and pauses at the two streams."""
    signature = settings.unit.signature
    codes = 1 << signature.of_lane(signature.request, 0)["operation"].width
    if signature.lanes == 1:
        for first in range(codes):
            for second in range(codes):
                name = f"{code_name(first)}, then {code_name(second)}"
                yield Situation(name, _follows(first, second))
    for name, run in RUNS.items():
        yield Situation(f"result waits, cycles: {name}", _within(lambda m: m.now.held, *run))
        yield Situation(f"no operation, cycles: {name}", _within(lambda m: m.gap, *run))
        yield Situation(f"operation waits, cycles: {name}", _within(lambda m: m.now.wait, *run))
    for distance in range(1, min(settings.unit.latency, 24) + 1):
        yield Situation(
            f"query of a key inserted {distance} cycles before",
            lambda moment, distance=distance: moment.queries and moment.inserted(distance),
        )


def _equals(field: str, value: int) -> Callable[[Moment], bool]:
    return lambda moment: moment.outcome.get(field) == value


def _results(settings: Any) -> Iterator[Situation]:
    """Values of the fields of a result, and windows of queries."""
    signature, spec = settings.unit.signature, settings.spec
    lane = signature.of_lane(signature.result, 0)
    # A block of one insertion ends with it.
    least = int(getattr(spec, "block", 0) == 1)
    for age in range(least, len(lane["age"].shape)):
        yield Situation(
            f"age {age}",
            lambda moment, age=age: (
                moment.outcome.get("age") == age and (moment.now.seen or "oldest" in moment.outcome)
            ),
        )
    if "oldest" in lane.members:
        for count in range(1, spec.hashes + 1):
            yield Situation(f"oldest cells: {count}", _equals("oldest", count))
    if "window" in signature.of_lane(signature.request, 0).members:
        longest = spec.window_blocks
        for name, window in (("0", 0), ("the longest", longest)):
            yield Situation(
                f"window of a query: {name}",
                lambda moment, window=window: (
                    moment.queries and moment.now.item["window"] == window
                ),
            )
        for more in (0, 1):
            yield Situation(
                f"window of a query: the age and {more}",
                lambda moment, more=more: (
                    moment.now.seen and moment.now.item["window"] == moment.outcome["age"] + more
                ),
            )


def _ring(settings: Any) -> Iterator[Situation]:
    """Turns of a ring."""
    for code in (Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.SHIFT):
        yield Situation(
            f"{code.name} turns the ring",
            lambda moment, code=code: moment.now.operation == code and moment.changed("shifts") > 0,
        )
    for code in (Operation.SHIFT, Operation.CLEAR):
        yield Situation(
            f"{code.name} behind a turn",
            lambda moment, code=code: (
                moment.now.operation == code
                and any(one.operation == Operation.SHIFT for one in moment.before[-2:])
            ),
        )
    if "window in time" in settings.traits:
        shortens = settings.spec.when_full == "shorten"
        fact = "shortened" if shortens else "overfilled"
        yield Situation(f"window is {fact}", lambda moment: moment.changed(fact) > 0)
        for status in (0, 1 if shortens else 2):
            yield Situation(f"status {status}", _equals("status", status))


def _timed(settings: Any) -> Iterator[Situation]:
    """Ticks between operations."""
    spec = settings.spec
    longest = spec.window_blocks if spec.query_field else spec.span

    def passed(moment: Moment) -> int:
        return moment.now.time - moment.last.time if moment.last else 0

    for name, least in (("the window", longest + 1), ("two windows", 2 * longest)):
        yield Situation(f"silence longer than {name}", _within(passed, least, 1 << 30))
    yield Situation(
        "tick between operations of consecutive cycles",
        lambda moment: passed(moment) > 0 and (moment.cycles == 1 or settings.ticks == "time"),
    )
    yield Situation(
        "tick right behind a CLEAR",
        lambda moment: (
            passed(moment) > 0
            and moment.last is not None and moment.last.operation == Operation.CLEAR
        ),
    )  # fmt: skip


def _dictionary(settings: Any) -> Iterator[Situation]:
    """Removals, losses, and the guaranteed window."""
    for name, seen in (("of a key", True), ("of nothing", False)):
        yield Situation(
            f"removal {name}",
            lambda moment, seen=seen: (
                moment.now.operation == Operation.QUERY | Operation.REMOVE
                and moment.now.seen == seen
            ),
        )
    for status in (0, 1):
        yield Situation(f"status {status}", _equals("status", status))
    if "moves" in settings.traits:
        yield Situation("key is missed, and the status says so", lambda m: m.changed("missed") > 0)
        return
    yield Situation("entry is given up", lambda moment: moment.changed("lost") > 0)
    yield Situation("entry goes to the stash", lambda moment: moment.changed("stashed") > 0)
    yield Situation("entry leaves the stash", lambda moment: moment.changed("stashed") < 0)
    for name, sign in (("falls", -1), ("grows", 1)):
        yield Situation(
            f"guaranteed window {name}",
            lambda moment, sign=sign: sign * moment.changed("guaranteed_window") > 0,
        )


def _secrets() -> Iterator[Situation]:
    """Operations about the acceptance of a secret."""
    for distance in range(-4, 5):
        yield Situation(
            f"operation {distance} cycles behind a secret",
            lambda moment, distance=distance: any(
                round((moment.now.accepted - time) / PERIOD_NS) == distance
                for time in moment.secrets
            ),
        )


def _tables(settings: Any) -> Iterator[Situation]:
    """Classes, phases, and tables that answer."""
    classes, _, phases = settings.spec.table_shape
    for number in range(classes):
        yield Situation(
            f"class {number}",
            lambda moment, number=number: (
                moment.queries and moment.now.item.get("query_class", 0) == number
            ),
        )
    for phase in range(phases):
        yield Situation(
            f"phase {phase}", lambda moment, phase=phase: moment.now.facts["phase"] == phase
        )
    for name, numbers in (("no table", (0, 0)), ("one table", (1, 1)), ("others", (2, 1 << 30))):
        yield Situation(f"{name} loaded", _within(lambda m: m.now.facts["table"], *numbers))


def count(settings: Any, performed: Iterable[Performed], secrets: list[float]) -> Counts:
    """Return how often each situation of a unit came about in one test.

    Parameters
    ----------
    settings : Settings
    performed : iterable of Performed
        All operations since the last reset, in order.
    secrets : list of float
        When secrets were accepted, in ns.
    """
    rows = situations(settings)
    counts = {row.name: {"goal": row.goal, "count": 0} for row in rows}
    before: list[Performed] = []
    for now in performed:
        moment = Moment(now, before, settings.spec, secrets)
        for row in [*rows]:
            if row.holds(moment):
                counts[row.name]["count"] += 1
                if counts[row.name]["count"] >= row.goal:
                    rows.remove(row)
        before.append(now)
        del before[:-32]
    return counts


def collect(bench: Any) -> None:
    """Add the situations of a test, which has ended, to the file of the run."""
    path = Path(bench.settings.coverage)
    found = count(bench.settings, bench.performed, bench.secrets)
    before = [json.loads(path.read_text("utf-8"))] if path.exists() else []
    with replace_file(path) as file:
        file.write(json.dumps(merged([*before, found]), indent=1).encode())


def merged(runs: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Return the sum of the counts of several runs."""
    total: Counts = {}
    for run in runs:
        for name, row in run.items():
            known = total.setdefault(name, {"goal": row["goal"], "count": 0})
            known["count"] += row["count"]
    return total


def missed(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the situations that came about less often than their goals."""
    return [name for name, row in counts.items() if row["count"] < row["goal"]]
