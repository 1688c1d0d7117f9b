"""Exact answer to 'seen lately?': what a sliding-window filter approximates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden.hash.keys import sortable
from ..golden.operations import Operation
from ..golden.ring.turn_policy import TurnPolicy, Turns
from ..golden.spec import FilterSpec
from ..golden.times import Times

GUARANTEED, SLACK, FRESH = 0, 1, 2
"""Classes of queries: the filter must report the key, may still have a trace of it, has none."""
CLASSES = ("guaranteed", "slack", "fresh")
"""Names of the classes, by number."""


@dataclass(frozen=True)
class Truth:
    """Facts about each operation before its own insertion, in arrays of shape (n,)."""

    distance: NDArray[np.int64]
    """Insertions since the key's last: 1 for the operation just before, 0 for a new key."""
    age: NDArray[np.int64]
    """Generations between the last insertion of the key and that of any, or blocks between the
    last insertion of the key and the present; -1 for a new key."""
    kind: NDArray[np.int8]
    """Index into `CLASSES`."""
    repeat: NDArray[np.bool_]
    """Whether the key is among the last `window` insertions, or was inserted within the span."""
    elapsed: Times | None = None
    """Ticks since the key's last insertion, -1 for a new key; None if insertions are counted."""


class Oracle:
    """Remembers the last insertion of every key.

    Insertion number n, from 1, belongs to generation ``(n - 1) // generation``;
    the shift takes place at the insertion that begins a generation, so the
    query of check-and-insert number n + 1 meets the state after n insertions.
    A key is guaranteed as long as the generation of its last insertion and
    that of the last insertion of any are at most `window_generations` apart,
    and without a trace from `ring_segments` on. Memory grows with the number
    of distinct keys.
    """

    def __init__(self, spec: FilterSpec) -> None:
        self.insertions = 0
        self._window = spec.window
        self._generation = spec.generation
        self._guaranteed = spec.window_generations
        self._traceless = spec.ring_segments
        self._last = LastInsertions(1)

    @property
    def distinct_keys(self) -> int:
        """Different keys inserted so far."""
        return len(self._last)

    def check_and_insert(self, keys: NDArray[np.uint64]) -> Truth:
        """Judge each operation by the insertions before it, then insert its key.

        Keys have shape (n,), or (n, words) if they are wide.
        """
        number = self.insertions + 1 + np.arange(len(keys), dtype=np.int64)
        previous = self._last.exchange(sortable(keys), number[:, None])
        self.insertions += len(keys)
        return self._judge(number, previous[:, 0])

    @property
    def present(self) -> tuple[int, ...]:
        """What a filter is told for a query now: nothing."""
        return ()

    def traceless(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which keys the filter can report only by error; shapes as for `check_and_insert`."""
        now = np.full(len(keys), self.insertions + 1, np.int64)
        return self._judge(now, self._last.find(sortable(keys))[:, 0]).kind == FRESH

    def _judge(self, number: NDArray[np.int64], previous: NDArray[np.int64]) -> Truth:
        known = previous > 0
        # The last insertion of any is the operation before this one.
        ages = (number - 2) // self._generation - (previous - 1) // self._generation
        age = np.where(known, ages, -1)
        distance = np.where(known, number - previous, 0)
        kind = kinds(known & (age <= self._guaranteed), known & (age < self._traceless))
        return Truth(distance, age, kind, known & (distance <= self._window))


class TimedOracle:
    """Remembers the last insertion of every key, and judges by time, in ticks.

    A key is guaranteed for the span after its last insertion, or as much of it as a filter
    that shortens its window still covers. A trace of it is left as long as one of the segments
    that it was written to counts: k generations write to the youngest of these, and it counts
    for the span after the last of their insertions, unless it is retired before. When
    generations end does not depend on keys, so it is that of `Turns`.

    Attributes
    ----------
    insertions : int
    now : int
        Tick of the last operation.
    """

    def __init__(self, spec: FilterSpec) -> None:
        self.insertions = self.now = 0
        self._span = spec.span
        self._turns = Turns(TurnPolicy.of(spec))
        self._last = LastInsertions(3)

    @property
    def distinct_keys(self) -> int:
        """Different keys inserted so far."""
        return len(self._last)

    def check_and_insert(self, keys: NDArray[np.uint64], times: Times) -> Truth:
        """Judge each operation by the insertions before it, then insert its key.

        Keys are as for `Oracle`; the times, in ticks, have shape (n,) and never decrease.
        """
        number = self.insertions + 1 + np.arange(len(keys), dtype=np.int64)
        shifts = self._turns.shifts
        codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
        passage = self._turns.follow(codes, times)
        generation = shifts + np.cumsum(passage.turned)
        facts = np.stack([number, times, generation], axis=1)
        previous = self._last.exchange(sortable(keys), facts)
        self.insertions += len(keys)
        if len(times):
            self.now = int(times[-1])
        # The query comes before the turn.
        asked = np.stack([number, times, generation - passage.turned], axis=1)
        return self._judge(asked, previous, passage.alive, passage.guaranteed_span)

    @property
    def present(self) -> tuple[int, ...]:
        """What a filter is told for a query now: the time."""
        return (self.now,)

    def traceless(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which keys the filter can report only by error, at the time of the last operation.

        Shapes as for `check_and_insert`.
        """
        asked = np.array([[self.insertions + 1, self.now, self._turns.shifts]])
        alive = self._turns.alive(asked[:, 1])
        guaranteed = np.array([self._turns.guaranteed_span(self.now)])
        return self._judge(asked, self._last.find(sortable(keys)), alive, guaranteed).kind == FRESH

    def _judge(
        self,
        asked: NDArray[np.int64],
        previous: NDArray[np.int64],
        alive: NDArray[np.int64],
        guaranteed: Times,
    ) -> Truth:
        """Compare what is asked with the insertion before: number, time and generation of each."""
        known = previous[:, 0] > 0
        distance, elapsed, age = (asked - previous).T
        distance, elapsed, age = (
            np.where(known, distance, 0),
            np.where(known, elapsed, -1),
            np.where(known, age, -1),
        )
        kind = kinds(known & (elapsed <= guaranteed), known & (age < alive))
        return Truth(distance, age, kind, known & (elapsed <= self._span), elapsed)


class WindowOracle:
    """Remembers the last insertion of every key, and judges by a window that ends with a block.

    A key is guaranteed within the window, and without a trace once its block is further back from
    the present one than the blocks of the window.

    Parameters
    ----------
    window : int
        In insertions, or in units of time.
    block : int
        Of which a block has so many; at least 1.
    timed : bool
        Whether these are units of time.

    Attributes
    ----------
    insertions : int
    now : int
        Time of the last operation, if the window is one in time.
    """

    def __init__(self, window: int, *, block: int = 1, timed: bool = False) -> None:
        self.insertions = self.now = 0
        self._window = window
        self._block = block
        self._timed = timed
        self._last = LastInsertions(2)

    @property
    def distinct_keys(self) -> int:
        """Different keys inserted so far."""
        return len(self._last)

    @property
    def present(self) -> tuple[int, ...]:
        """What a filter is told for a query now: the time, if the window is one in time."""
        return (self.now,) if self._timed else ()

    def traceless(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which of the `keys` are reported only by error, shape (n,).

        They have shape (n,), or (n, words) if they are wide.
        """
        moment = self.now if self._timed else self.insertions
        asked = np.array([[self.insertions + 1, moment]])
        return self._judge(asked, self._last.find(sortable(keys)), None).kind == FRESH

    def _exchange(
        self,
        keys: NDArray[np.uint64],
        times: Times | None = None,
        guaranteed: NDArray[np.int64] | None = None,
    ) -> Truth:
        """Judge each operation by the insertions before it, then insert its key."""
        number = self.insertions + 1 + np.arange(len(keys), dtype=np.int64)
        asked = np.stack([number, number - 1 if times is None else times], axis=1)
        previous = self._last.exchange(sortable(keys), asked)
        self.insertions += len(keys)
        if times is not None and len(times):
            self.now = int(times[-1])
        return self._judge(asked, previous, guaranteed)

    def _judge(
        self,
        asked: NDArray[np.int64],
        previous: NDArray[np.int64],
        guaranteed: NDArray[np.int64] | None,
    ) -> Truth:
        """Compare what is asked with the insertion before: number and moment of each.

        A moment is a time, or the insertions before an operation.
        """
        known = previous[:, 0] > 0
        distance, elapsed = (asked - previous).T
        blocks = asked[:, 1] // self._block - previous[:, 1] // self._block
        held = known & (blocks <= self._window // self._block)
        repeat = known & (elapsed <= self._window)
        kind = kinds(repeat if guaranteed is None else repeat & (elapsed <= guaranteed), held)
        return Truth(
            np.where(known, distance, 0),
            np.where(known, blocks, -1),
            kind,
            repeat,
            np.where(known, elapsed, -1) if self._timed else None,
        )


class LastInsertions:
    """What is remembered of the last insertion of each key: a row of integers, the first above 0.

    Keys are `sortable`, of shape (n,); rows have shape (n, columns).
    """

    def __init__(self, columns: int) -> None:
        self._keys: Any = None
        self._rows = np.empty((0, columns), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def exchange(self, keys: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Insert keys one after another; return what was remembered of each, zeros if nothing.

        The `keys` have shape (n,); the `rows` and the result have shape (n, columns).
        """
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        same = ordered[1:] == ordered[:-1]
        previous = np.zeros(rows.shape, np.int64)
        previous[order[1:][same]] = rows[order[:-1][same]]
        first = np.concatenate([np.ones(min(len(keys), 1), bool), ~same])
        last = np.concatenate([~same, np.ones(min(len(keys), 1), bool)])
        previous[order[first]] = self.find(ordered[first])
        self._remember(ordered[last], rows[order[last]])
        return previous

    def find(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Return what is remembered of each of the `keys`, (n,): shape (n, columns), or zeros."""
        if self._keys is None:
            self._keys = keys[:0]
        place, new = places(self._keys, keys)
        rows = np.zeros((len(keys), self._rows.shape[1]), np.int64)
        rows[~new] = self._rows[place[~new]]
        return rows

    def _remember(self, keys: NDArray[Any], rows: NDArray[np.int64]) -> None:
        """Take over sorted distinct keys."""
        place, new = places(self._keys, keys)
        self._rows[place[~new]] = rows[~new]
        self._keys = np.insert(self._keys, place[new], keys[new])
        self._rows = np.insert(self._rows, place[new], rows[new], axis=0)


def kinds(guaranteed: NDArray[np.bool_], traced: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return the class of each query, `guaranteed`, or `traced` at most, or fresh; shape (n,)."""
    kind = np.full(len(traced), FRESH, np.int8)
    kind[traced] = SLACK
    kind[guaranteed] = GUARANTEED
    return kind


def places(known: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where each value is among the known ones, or belongs, and whether it is new.

    The sorted `known` has shape (m,); `values` and both results have shape (n,).
    """
    place = np.searchsorted(known, values)
    new = place == len(known)
    new[~new] = known[place[~new]] != values[~new]
    return place, new
