"""Exact answer to 'seen lately?': what a sliding-window filter approximates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden.hash.keys import sortable
from ..golden.spec import FilterSpec

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
    """Generations between the last insertion of the key and that of any; -1 for a new key."""
    kind: NDArray[np.int8]
    """Index into `CLASSES`."""
    repeat: NDArray[np.bool_]
    """Whether the key is among the last `window` insertions."""


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
        self._keys: Any = None
        self._last = np.empty(0, np.int64)

    @property
    def distinct_keys(self) -> int:
        """Different keys inserted so far."""
        return len(self._last)

    def check_and_insert(self, keys: NDArray[np.uint64]) -> Truth:
        """Judge each operation by the insertions before it, then insert its key.

        Keys have shape (n,), or (n, words) if they are wide.
        """
        flat = sortable(keys)
        number = self.insertions + 1 + np.arange(len(flat), dtype=np.int64)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        same = ordered[1:] == ordered[:-1]
        previous = np.zeros(len(flat), np.int64)
        previous[order[1:][same]] = number[order[:-1][same]]
        first = np.concatenate([np.ones(min(len(flat), 1), bool), ~same])
        last = np.concatenate([~same, np.ones(min(len(flat), 1), bool)])
        previous[order[first]] = self._lookup(ordered[first])
        self._remember(ordered[last], number[order[last]])
        self.insertions += len(flat)
        return self._judge(number, previous)

    def traceless(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which keys the filter can report only by error; shapes as for `check_and_insert`."""
        flat = sortable(keys)
        now = np.full(len(flat), self.insertions + 1, np.int64)
        return self._judge(now, self._lookup(flat)).kind == FRESH

    def _judge(self, number: NDArray[np.int64], previous: NDArray[np.int64]) -> Truth:
        known = previous > 0
        # The last insertion of any is the operation before this one.
        ages = (number - 2) // self._generation - (previous - 1) // self._generation
        age = np.where(known, ages, -1)
        distance = np.where(known, number - previous, 0)
        kind = np.full(len(number), FRESH, np.int8)
        kind[known & (age < self._traceless)] = SLACK
        kind[known & (age <= self._guaranteed)] = GUARANTEED
        return Truth(distance, age, kind, known & (distance <= self._window))

    def _lookup(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Return numbers of the last insertion, 0 where there is none."""
        if self._keys is None:
            self._keys = keys[:0]
        place, new = places(self._keys, keys)
        last = np.zeros(len(keys), np.int64)
        last[~new] = self._last[place[~new]]
        return last

    def _remember(self, keys: NDArray[Any], last: NDArray[np.int64]) -> None:
        """Take over sorted distinct keys."""
        place, new = places(self._keys, keys)
        self._last[place[~new]] = last[~new]
        self._keys = np.insert(self._keys, place[new], keys[new])
        self._last = np.insert(self._last, place[new], last[new])


def places(known: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where each value is among the known ones, or belongs, and whether it is new.

    The sorted `known` has shape (m,); `values` and both results have shape (n,).
    """
    place = np.searchsorted(known, values)
    new = place == len(known)
    new[~new] = known[place[~new]] != values[~new]
    return place, new
