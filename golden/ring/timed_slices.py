"""Slices that count in a query while they are within the span: the time-limited filters."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..filter import Answers, Words
from ..operations import Ages
from ..timed_filter import TimedFilter
from ..times import NEVER, Times
from .slices import chunks, find_runs, test_and_set

Hashes = NDArray[Any]
"""Indices or hash values of keys, shape (functions, n)."""


class TimeLimitedFilter(TimedFilter):
    """Base of the time-limited filters, whose slices retire by their times.

    Attributes
    ----------
    insertions, shifts : int
        Since the filter was made or cleared.
    """

    _counters = ("counters",)

    k: int
    l: int

    # Slices, of which the youngest is 0

    @property
    @abstractmethod
    def _settled(self) -> list[int]:
        """Time of the last insertion into each slice that takes no more, else `NEVER`."""

    @abstractmethod
    def _bits(self, i: int) -> NDArray[np.bool_]:
        """Bits of slice s_i, to be written, too."""

    @abstractmethod
    def _hashes(self, keys: Words) -> Hashes:
        """Return the values of every hash function for the keys."""

    @abstractmethod
    def _positions(self, hashes: Hashes, i: int) -> NDArray[np.intp]:
        """Bits of slice s_i for the keys, shape (n,)."""

    @abstractmethod
    def _due(self, now: int) -> bool:
        """Whether an insertion at `now` shifts first."""

    @abstractmethod
    def _begin(self, times: Times, start: int) -> slice:
        """Shift if that is due, and return the insertions from `start` on until the next change."""

    @abstractmethod
    def _count(self, times: Times) -> None:
        """Count insertions that were made."""

    @property
    def settled_times(self) -> list[int | None]:
        """Time of the last insertion into each slice that takes no more, else None."""
        return [None if time == NEVER else time for time in self._settled]

    @property
    def last_insertion(self) -> int | None:
        """Time of the last insertion, None before the first."""
        return None if self._last == NEVER else self._last

    def _deadline(self, i: int) -> int:
        """Last time at which slice s_i counts; all that are written have the last insertion's."""
        time = self._last if i < self.k else self._settled[i]
        return NEVER if time == NEVER else time + self.span

    # Operations

    def _insert(self, keys: Words, times: Times) -> None:
        for chunk in chunks(len(keys)):
            hashes, chunk_times, start = self._hashes(keys[chunk]), times[chunk], 0
            while start < len(chunk_times):
                part = self._begin(chunk_times, start)
                for i in range(self.k):
                    self._bits(i)[self._positions(hashes[:, part], i)] = True
                self._count(chunk_times[part])
                start = part.stop

    def _query(self, keys: Words, times: Times) -> Answers:
        return self._age(keys, times) >= 0

    def _check_and_insert(self, keys: Words, times: Times) -> Answers:
        return self._age_and_insert(keys, times) >= 0

    def _age(self, keys: Words, times: Times) -> Ages:
        ages = np.empty(len(keys), np.int64)
        for chunk in chunks(len(keys)):
            ages[chunk] = self._ask(self._hashes(keys[chunk]), times[chunk])
        return ages

    def _age_and_insert(self, keys: Words, times: Times) -> Ages:
        ages = np.empty(len(keys), np.int64)
        for chunk in chunks(len(keys)):
            hashes, chunk_times, start = self._hashes(keys[chunk]), times[chunk], 0
            while start < len(chunk_times):
                one, before = slice(start, start + 1), None
                if self._due(int(chunk_times[start])):
                    # The shift that its insertion needs comes after the query.
                    before = self._ask(hashes[:, one], chunk_times[one])
                part = self._begin(chunk_times, start)
                matches = self._check_and_write(hashes[:, part], chunk_times[part])
                ages[chunk][part] = find_runs(matches, self.k, part.stop - start)
                if before is not None:
                    ages[chunk][one] = before
                self._count(chunk_times[part])
                start = part.stop
        return ages

    def _ask(self, hashes: Hashes, times: Times) -> Ages:
        return find_runs(self._matches(hashes, times, 0), self.k, len(times))

    def _matches(self, hashes: Hashes, times: Times, first: int) -> Iterator[NDArray[np.bool_]]:
        """Matches of the slices from s_first on, as far as any is within the span."""
        for i in range(first, len(self._settled)):
            fresh = times <= self._deadline(i)
            if not fresh.any():
                # Those behind it are older.
                return
            match = self._bits(i)[self._positions(hashes, i)]
            match &= fresh
            yield match

    def _check_and_write(self, hashes: Hashes, times: Times) -> Iterator[NDArray[np.bool_]]:
        """Matches of all slices before each key's own insertion; none of them changes the ring."""
        for i in range(self.k):
            yield test_and_set(self._bits(i), self._positions(hashes, i))
        yield from self._matches(hashes, times, self.k)
