"""Timing Bloom filter and its blocked form (inferential paper, section 3).

`TimingBloomFilter` has a timestamp for every insertion (section 3.1), `BlockTimingBloomFilter` one
for every block of insertions (section 3.2). An insertion writes the current timestamp to the cells
of its key. The timestamp cycles from 0 to `last_timestamp`, one step after each block. A key is
reported unless one of its cells has expired. The sweep examines `swept` cells after each insertion,
and marks an expired timestamp before the current timestamp reaches the same value again. `padding`
makes the cycle longer than the window needs, so that the sweep can examine fewer cells at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..analysis import window_rate
from ..errors import require_count
from ..filter import (
    Answers,
    CountedFilter,
    Number,
    Words,
    check_and_insert_in_window,
    query_in_window,
    taking_single_keys,
)
from ..hash.keys import Keys, Nulls, scalar_or_array
from ..results import Ages
from ..sampling import chunks, sample
from ..sizing import HASHES, bloom_rate, shared_cells, smallest
from ..spec.timestamp import BlockTimingSpec, TimingSpec

Integers = NDArray[np.int64]  # the shape is given at each use


@dataclass(frozen=True)
class Evidence:
    """Evidence about the last insertion of each of n keys (definitions 10, 11).

    All attributes have shape (n,).
    """

    # age in blocks of the oldest timestamp in the key's cells, lambda_x; -1 if a cell has expired
    age: Integers
    oldest: Integers  # number of cells with this timestamp, c_x; of expired cells if `age` is -1
    touched: Integers  # number of distinct cells of the key, r_x
    filled: Integers  # number of insertions into the current block before the lookup, b
    insertions: Integers  # number of insertions before the lookup


@taking_single_keys
class TimestampFilter(CountedFilter):
    """Base class of the timing Bloom filters."""

    _NUMBERS: ClassVar = 4  # counters, then insertions
    _counts: ClassVar = {"insertions": 1 << 61}
    insertions = Number(3)  # since construction or `clear`
    query, check_and_insert = query_in_window, check_and_insert_in_window

    window: int
    block: int
    cells: int
    hashes: int
    padding: int

    def _prepare(self) -> None:
        if self.padding is None:
            self.padding = -(-self.cells // (self.hashes * self.block)) - 1
            require_count("padding", self.padding, low=0, high=1 << 30)
        self._make_hash([self.cells] * self.hashes)
        self.compiled = compilation.wanted() and self.hashes <= compilation.MAX_PARTS
        self._hold({"timestamps": np.empty(self.cells, np.uint32)})

    @property
    def fpr(self) -> float:
        """Expected false-positive rate for distinct keys, averaged over a block."""
        return window_rate(
            lambda load: bloom_rate(load, self.cells, self.hashes), self.window, self.block
        )

    @property
    def fill(self) -> float:
        """Fraction of cells that have not expired."""
        return float((sample(self._cells) != self.expired).mean())

    @property
    def last_timestamp(self) -> int:
        """Largest timestamp, T_Omega: the number of blocks in a window plus 1 plus the padding."""
        return -(-self.window // self.block) + 1 + self.padding

    @property
    def expired(self) -> int:
        """Value of a cell that has expired or was never touched; T_epsilon in the paper."""
        return self.last_timestamp + 1

    @property
    def timestamp_bits(self) -> int:
        """Width of a cell in bits; a cell holds every timestamp and the value `expired`."""
        return self.expired.bit_length()

    @property
    def storage_bits(self) -> int:
        """Total width of all cells in bits (section 3.2)."""
        return self.cells * self.timestamp_bits

    @property
    def swept(self) -> int:
        """Number of cells that the sweep examines per insertion (sections 3.1.3 and 3.2.3)."""
        return -(-self.cells // (self.block * (self.padding + 1)))

    @property
    def memory(self) -> NDArray[np.uint32]:
        """Copy of all cells, shape (cells,); `timestamps` is another name for this property."""
        return self._cells.copy()

    timestamps = memory

    @property
    def timestamp(self) -> int:
        """Current timestamp; T_+ in the paper."""
        return self.insertions // self.block % (self.last_timestamp + 1)

    @property
    def filled(self) -> int:
        """Number of insertions with the current timestamp; b in the paper."""
        return self.insertions % self.block

    def _empty(self) -> None:
        self.insertions = 0
        self._cells[:] = self.expired

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"timestamps": (self._cells, self.expired)}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._cells = arrays["timestamps"]
        if self.compiled:
            core, key_hash = self._hash.compiled()
            shape = self.window, self.block, self.last_timestamp, self.swept
            self._engine = core.Timing(key_hash, self._cells, self._numbers, *shape)

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        for part in chunks(self.cells):
            touched = self._cells[part][self._cells[part] != self.expired]
            blocks = self.insertions // self.block - self._ages(touched)
            if ((blocks < 0) | (blocks * self.block >= self.insertions)).any():
                raise ValueError(f"timestamps: do not match the {self.insertions} insertions")

    def _ages(self, stamps: NDArray[np.uint32]) -> Integers:
        """Convert timestamps to ages (definition 7)."""
        return (self.timestamp - stamps.astype(np.int64)) % (self.last_timestamp + 1)

    def _expired(self, stamps: NDArray[np.uint32], window: int) -> NDArray[np.bool_]:
        """Return which timestamps have expired (definition 9); the value `expired` always has."""
        limit = -(-(window - self.filled) // self.block) + 1
        expired: NDArray[np.bool_] = (stamps == self.expired) | (self._ages(stamps) >= limit)
        return expired

    def _inspect_cells(self, cells: NDArray[np.intp], window: int) -> tuple[int, int, int]:
        stamps = self._cells[cells]
        expired = self._expired(stamps, window)
        if expired.any():
            return -1, int(expired.sum()), len(cells)
        ages = self._ages(stamps)
        return int(ages.max()), int((ages == ages.max()).sum()), len(cells)

    def _touch_cells(self, cells: NDArray[np.intp]) -> None:
        # Sections 3.1.1, 3.2.1: insert the key.
        self._cells[cells] = self.timestamp
        first = self.insertions * self.swept
        self.insertions += 1  # The next block begins right after the last insertion of this one.
        # Sections 3.1.3, 3.2.3: mark expired timestamps.
        swept = (first + np.arange(self.swept)) % self.cells
        self._cells[swept[self._expired(self._cells[swept], self.window)]] = self.expired

    def _insert(self, keys: Words) -> None:
        self._look(keys, None, insert=True)

    def _query(self, keys: Words, windows: Integers | None = None) -> Answers:
        return self._look(keys, windows, insert=False) >= 0

    def _check_and_insert(self, keys: Words, windows: Integers | None = None) -> Answers:
        return self._look(keys, windows, insert=True) >= 0

    def _look(
        self, keys: Words, windows: Integers | None, *, insert: bool, counts: Any = None
    ) -> Ages:
        """Return the age of each key's oldest cell, lambda_x, or -1 if a cell has expired.

        The fields `oldest` and `touched` of `Evidence` are written to the rows of `counts`.
        """
        ages = np.empty(len(keys), np.int64)
        if self.compiled:
            words = np.ascontiguousarray(keys)
            self._engine.look(insert, words, windows, ages, counts)
            return ages
        columns = np.stack(self._hash.indices(self._hash.state(keys), 0), axis=1)
        for at, row in enumerate(columns):
            cells = np.unique(row)  # R_x, definition 4.
            window = self.window if windows is None else int(windows[at])
            ages[at], *rest = self._inspect_cells(cells, window)
            if counts is not None:
                counts[:, at] = rest
            if insert:
                self._touch_cells(cells)
        return ages

    @scalar_or_array
    def age(self, keys: Keys, *, nulls: Nulls = "refuse") -> Ages:
        """Return the minimum possible age of each key in insertions, without changing the filter.

        The bound follows from the oldest timestamp of the key (section 3.2.2), and is exact for
        blocks of one insertion, unless other keys have touched all cells since. Parameters and
        errors are those of `insert`. The result is an ndarray of int64, shape (n,), with -1 for a
        key that is not reported.
        """
        return self._age(self._words(keys))

    def _age(self, keys: Words) -> Ages:
        return self._ages_of(self._inspect(keys))

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._ages_of(self._inspect(keys, insert=True))

    def _ages_of(self, evidence: Evidence) -> Ages:
        low = np.maximum((evidence.age - 1) * self.block + evidence.filled, 0)
        return np.where(evidence.age < 0, -1, low)

    def inspect(self, keys: Keys) -> Evidence:
        """Return the evidence in each key's cells, shape (n,), without changing the filter.

        Parameters and errors are those of `insert`.
        """
        return self._inspect(self._words(keys))

    def inspect_and_insert(self, keys: Keys) -> Evidence:
        """Insert keys, and return the result of `inspect` for each before its insertion."""
        return self._inspect(self._words(keys), insert=True)

    def _inspect(self, keys: Words, *, insert: bool = False) -> Evidence:
        before = self.insertions + np.arange(len(keys)) * insert
        counts = np.empty((2, len(keys)), np.int64)
        ages = self._look(keys, None, insert=insert, counts=counts)
        return Evidence(ages, counts[0], counts[1], before % self.block, before)


def timing_bits(window: int, cells: int, hashes: int, block: int) -> int:
    """Return the total width of all cells in bits for the padding of the paper."""
    expired = -(-window // block) + 1 + -(-cells // (hashes * block))
    return cells * expired.bit_length()


def block_cells(
    window: int, block: int, fpr: float, hashes: int, rate: Callable[[float, int, int], float]
) -> int:
    """Return the minimum number of cells for which the mean of `rate` over a block meets `fpr`.

    The parameters of `rate` are those of `bloom_rate`.
    """

    def mean(cells: int) -> float:
        return window_rate(lambda load: rate(load, cells, hashes), window, block)

    return smallest(
        lambda cells: cells > 1 and mean(cells) <= fpr,
        shared_cells(window + block // 2, fpr, hashes),
    )


@lru_cache
def _timing_sizes(window: int, fpr: float, block: int = 1) -> dict[str, int]:
    sizes = [(block_cells(window, block, fpr, k, bloom_rate), k) for k in HASHES]
    _, hashes, cells = min((timing_bits(window, m, k, block), k, m) for m, k in sizes)
    return {"window": window, "cells": cells, "hashes": hashes}


class TimingBloomFilter(TimestampFilter):
    """Timing Bloom filter: every insertion has its own timestamp (section 3.1).

    A key is reported for all d < W = `window`, where d is the number of insertions after its own.
    Any other key is reported only if other keys have touched all its cells within the window. Its
    parameters are those of `TimingSpec`.
    """

    specification = TimingSpec
    block = 1
    _sizes = staticmethod(_timing_sizes)


class BlockTimingBloomFilter(TimestampFilter):
    """Block timing Bloom filter: all insertions of a block share a timestamp (section 3.2).

    A key is reported for all d < W = `window`, where d is the number of insertions after its own,
    and possibly for up to ``block - 1`` more insertions, while a later insertion of its block is in
    the window. Timestamps are shorter than in `TimingBloomFilter`. Its parameters are those of
    `BlockTimingSpec`.
    """

    specification = BlockTimingSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        block = -(-keys // 32)
        return {**_timing_sizes(keys, fpr, block), "block": block}
