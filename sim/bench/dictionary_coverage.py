"""Functional coverage of dictionary units: where digests go, and how operations and the sweep meet.

Told from the operations, performed on a reference of its own, and, of the first column, from the
ports of its memory and what its sweep knows, clock by clock.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...golden import Operation, WindowDictionary
from ...golden.operations import OperationBit
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...hdl.dictionary.dictionary_figures import HAZARDS
from .coverage import Collector, Ports
from .dictionary_parts import Performed, Places, asks, steps
from .shell_coverage import shell_points

WRITES = ("insertion", "removal")
"""What an operation does to a cell."""

MEETS = ("query", *WRITES)
"""What one that comes later does with it."""


def points(spec: WindowDictionarySpec) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that the units of a specification have."""
    columns = tuple(f"column {column}" for column in range(spec.columns))
    distances = tuple(
        f"{clocks}, {first}, then {second}"
        for clocks in range(1, HAZARDS + 1)
        for first in WRITES
        for second in MEETS
    )
    return {
        "clocks between operations of a digest": distances,
        "clocks between operations of a cell": distances,
        "insertion of a new digest": (*columns, "stash"),
        "insertion of a digest that is held": (*columns, "stash to cell", "stash to stash"),
        "entry in the cell that is filled": ("none", "expires with the insertion"),
        "hit": (*columns, "stash"),
        "removal": (*columns, "stash", "nothing"),
        "full stash": ("an entry is given up", "another is given up", "an entry expires"),
        "guarantee": ("falls", "returns", "cleared"),
        "window of a query": ("0", "the longest", "the age", "one more than the age"),
        "query while less is guaranteed": ("within it", "beyond it"),
        "age": tuple(str(age) for age in range(spec.window)),
        "rounds of the timestamps": ("1", "3"),
        "read in the clock of": ("a write of its cell", "an erasure of its cell"),
        "sweep of a cell": ("nothing to erase", "erased", "called off"),
        "sweep waits": ("to read", "to erase"),
        "rows that are due": ("late", "overdue"),
        **shell_points(16, sweep=True),
    }


class DictionarySampler:
    """Follows one test from its reset on, and tells a collector what operations bring about.

    Parameters
    ----------
    spec : WindowDictionarySpec
        Specification of the unit.
    collector : Collector
        Counts what is seen.
    clock : int
        Length of a clock, in ns.
    """

    def __init__(self, spec: WindowDictionarySpec, collector: Collector, *, clock: int) -> None:
        self._spec = spec
        self._sample = collector.sample
        self._clock = clock
        self._golden = WindowDictionary.from_spec(spec)
        self._golden.compiled = False
        self._insertions = 0

    def follow(self, performed: Iterable[Performed]) -> None:
        """Look at all operations of a test in order; none may have loaded a secret."""
        performed = [*performed]
        places = Places.of(self._spec, [one.item.key for one in performed])
        # Clock, digest, rows and kind of what was written in the clocks before.
        before: deque[tuple[int, int, np.ndarray, str]] = deque(maxlen=HAZARDS)
        for one, digest, rows in zip(performed, places.digests, places.rows.T, strict=True):
            now = round(one.accepted / self._clock)
            writes = _writes(one.item.operation)
            queries = ("query",) if asks(one.item.operation) else ()
            self._met(now, digest, rows, (*queries, *writes), before)
            if queries:
                self._query(one)
            for step in steps(one.item.operation):
                self._perform(step, one.item.key)
            before += [(now, digest, rows, kind) for kind in writes]
        for least in (1, 3):
            if self._insertions >> self._spec.timestamp_bits >= least:
                self._sample("rounds of the timestamps", least)

    def _met(
        self,
        now: int,
        digest: int,
        rows: np.ndarray,
        kinds: Iterable[str],
        before: Iterable[tuple[int, int, np.ndarray, str]],
    ) -> None:
        """Compare an operation with those of the clocks before."""
        for time, other, cells, first in before:
            same = "digest" if other == digest else "cell" if (cells == rows).any() else ""
            for second in kinds if same else ():
                where = f"{now - time}, {first}, then {second}"
                self._sample(f"clocks between operations of a {same}", where)

    def _query(self, one: Performed) -> None:
        """Tell of a query before it is performed."""
        golden, window, outcome = self._golden, one.item.window, one.outcome
        age = int(golden.apply([Operation.QUERY], [one.item.key]).age[0])
        for name, holds in (
            ("0", window == 0),
            ("the longest", window == self._spec.window),
            ("the age", window == age),
            ("one more than the age", window == age + 1),
        ):
            if holds and (age >= 0 or name in ("0", "the longest")):
                self._sample("window of a query", name)
        if golden.guaranteed_window < self._spec.window:
            name = "beyond it" if outcome.status else "within it"
            self._sample("query while less is guaranteed", name)
        if outcome.seen:
            self._sample("age", outcome.age)
            self._sample("hit", self._place(age))

    def _place(self, age: int) -> str:
        """Return where the entry of an age is."""
        there = np.argwhere(self._golden.memory[0] == age + 1)
        return f"column {there[0][0]}" if len(there) else "stash"

    def _perform(self, step: Operation, key: int) -> None:
        golden = self._golden
        age = int(golden.apply([Operation.QUERY], [key]).age[0])
        held = self._place(age) if age >= 0 else "nothing"
        lost, guaranteed = golden.lost, golden.guaranteed_window
        cells, peak = golden.memory[0], golden.stashed
        golden.apply([step], [key])
        if step == Operation.REMOVE:
            self._sample("removal", held)
        elif step & OperationBit.INSERT and not step & OperationBit.ALONE:
            self._insertions += 1
            self._inserted(held, cells)
            self._given_up(golden.lost - lost, guaranteed, peak)
        elif step == Operation.CLEAR and guaranteed < self._spec.window:
            self._sample("guarantee", "cleared")

    def _inserted(self, held: str, cells: np.ndarray) -> None:
        """Tell where an insertion went, and what was in its cell before."""
        place = self._place(0)
        if held == "nothing":
            self._sample("insertion of a new digest", place)
        elif held == "stash":
            name = "stash to stash" if place == "stash" else "stash to cell"
            self._sample("insertion of a digest that is held", name)
        else:
            self._sample("insertion of a digest that is held", place)
        if place == "stash" or held not in ("nothing", "stash"):
            return
        column, row = np.argwhere(self._golden.memory[0] == 1)[0]
        expires = cells[column, row] == self._spec.window
        name = "expires with the insertion" if expires else "none"
        self._sample("entry in the cell that is filled", name)

    def _given_up(self, lost: int, guaranteed: int, stashed: int) -> None:
        whole = self._spec.window
        now = self._golden.guaranteed_window
        if lost:
            again = guaranteed < whole
            self._sample("full stash", "another is given up" if again else "an entry is given up")
        elif stashed == self._spec.stash > self._golden.stashed:
            self._sample("full stash", "an entry expires")
        if now < guaranteed:
            self._sample("guarantee", "falls")
        elif now == whole > guaranteed:
            self._sample("guarantee", "returns")


def _writes(code: int) -> tuple[str, ...]:
    """Return the kind of an operation that inserts or removes, if it does."""
    bits = OperationBit(code)
    if bits & OperationBit.ALONE or not bits & (OperationBit.INSERT | OperationBit.REMOVE):
        return ()
    return ("removal",) if bits & OperationBit.REMOVE else ("insertion",)


class ColumnClock(NamedTuple):
    """Values at the ports of the first column, and in its sweep, in one clock.

    `reads` is the row at the port that reads, and `writes` that of an operation that writes, if
    any; `hand` that of the sweep. The sweep is at its end if `ends`.
    """

    reads: int
    writes: int | None
    hand: int
    due: bool
    resting: bool
    ends: bool
    erases: bool
    expired: bool
    late: bool
    overdue: bool


class ColumnSampler:
    """Follows the first column, clock by clock, and tells a collector how it meets the sweep.

    Parameters
    ----------
    spec : WindowDictionarySpec
    collector : Collector
    lag : int
        Clocks from the acceptance of an operation until the column has the row of its cell.
    """

    def __init__(self, spec: WindowDictionarySpec, collector: Collector, *, lag: int) -> None:
        self._spec = spec
        self._sample = collector.sample
        self._lag = lag
        self._rows: dict[int, int] = {}
        self._reset()

    def _reset(self) -> None:
        self._accepted: deque[Ports | None] = deque([None] * self._lag, maxlen=self._lag)

    def clock(self, ports: Ports, column: ColumnClock) -> None:
        """Look at one clock; all clocks have to be shown, in order."""
        if ports.rst:
            self._reset()
            return
        one = self._accepted[0]
        self._accepted.append(ports if ports.offered and ports.ready else None)
        if one is not None and not one.operation & OperationBit.ALONE:
            row = self._row(one.key)
            assert column.reads == row, f"row {column.reads} at the column, not {row}"
            if column.writes == row:
                self._sample("read in the clock of", "a write of its cell")
            elif column.erases and column.writes is None and column.hand == row:
                self._sample("read in the clock of", "an erasure of its cell")
        self._sweep(column)

    def _row(self, key: int) -> int:
        if key not in self._rows:
            self._rows[key] = int(Places.of(self._spec, [key]).rows[0, 0])
        return self._rows[key]

    def _sweep(self, column: ColumnClock) -> None:
        busy = column.writes is not None
        for name, holds in (("late", column.late), ("overdue", column.overdue)):
            if holds:
                self._sample("rows that are due", name)
        if column.due and busy and not column.resting:
            self._sample("sweep waits", "to read")
        if column.ends and column.erases and busy:
            self._sample("sweep waits", "to erase")
        elif column.ends:
            name = "called off" if column.expired else "nothing to erase"
            self._sample("sweep of a cell", "erased" if column.erases else name)


def read_column(dut) -> ColumnClock:
    """Read what a `ColumnSampler` looks at."""
    column = dut.core.column0
    flight = int(column.flight.value)
    return ColumnClock(
        reads=int(column.memory.read__addr.value),
        writes=int(column.write_row.value) if column.write.value else None,
        hand=int(column.swept.value),
        due=bool(int(column.due.value)),
        resting=bool(flight) or bool(column.rests.value),
        ends=bool(flight >> len(column.flight) - 1),
        erases=bool(column.erase.value),
        expired=bool(column.expired.value),
        late=bool(column.late.value),
        overdue=bool(column.overdue.value),
    )
