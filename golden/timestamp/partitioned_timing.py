"""Timing Bloom filters in parts, with a window for each query: the form that hardware has.

As the block timing Bloom filter (inferential paper, section 3.2), with three
differences. Each hash function has a part of the cells of its own. Cells hold the
number of the block in which they were last touched, counted from the first: no
timestamp comes round, so there is nothing to sweep. And the clock is either the
insertions or the time. A window is a whole number of blocks, so definition 9 is a
comparison of blocks: a key is reported if its oldest cell is at most so many old. Or else a table
of thresholds answers, as hardware looks it up: that of an inferential filter (section 2.6).
"""

import math
from abc import abstractmethod
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..convenience import State
from ..filter import Answers, CountedFilter, Filter, Words
from ..hash.keys import Keys
from ..operations import Ages, Operation, OperationBit, Verdicts
from ..ring.slices import check_whole, chunks
from ..sizing import HASHES, parts_cells, shared_cells
from ..spec.base import require
from ..spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..timed_filter import TimedFilter
from ..times import NEVER, TIME_LIMIT, Times, check_now
from .timestamps import Integers


class TimingVerdicts(NamedTuple):
    """Results of a sequence of operations, with all that the cells show."""

    seen: NDArray[np.bool_]
    """Whether the key was reported, shape (n,); False where nothing was asked."""
    age: Integers
    """Age in blocks of the oldest cell of the key, the paper's lambda_x; `expired_age` if that is
    past the filter's window; shape (n,)."""
    oldest: Integers
    """Cells of that age, c_x, shape (n,)."""


class StampedParts(Filter):
    """Base of the partitioned timing Bloom filters.

    Attributes
    ----------
    insertions : int
        Insertions since construction, or since `clear`.
    shifts : int
        Operations SHIFT since then. Each makes the present block one later, beside the clock.
    thresholds : ndarray of uint8, shape (classes, ages, 2**phase_bits)
        With classes, the table that answers: see `decide_by`. At first all are 0, and every key
        that is asked for is reported.
    """

    age_unit = "blocks"
    _supported = (*Filter._supported, Operation.SHIFT)

    cells: int
    hashes: int
    stamp_bits: int
    classes: int | None
    phase_bits: int | None

    def _prepare(self) -> None:
        spec = self.spec
        assert isinstance(spec, StampedPartsSpec)
        self._stamped = spec
        self.stamp_bits, self.window_blocks = spec.stamp_bits, spec.window_blocks
        self.phase_bits = spec.phase_bits
        self.thresholds = np.zeros(spec.table_shape, np.uint8)
        self._make_hash(spec.index_sizes)

    # State

    @property
    def expired_age(self) -> int:
        """Age that stands for all that are past the window, in blocks."""
        return self.window_blocks + 1

    @property
    def storage_bits(self) -> int:
        """Bits of all cells in hardware."""
        return self._stamped.storage_bits

    @property
    def fill(self) -> float:
        """Share of the cells that have not expired, at the last insertion."""
        return float((self.memory != self.expired_age).mean())

    @property
    def memory(self) -> Integers:
        """Ages of all cells in blocks, at the last insertion, shape (hashes, cells).

        Those past the window, and those that were never touched, have `expired_age`.
        """
        return self._ages(self._stamps, np.int64(self._last_block + self.shifts))

    @property
    @abstractmethod
    def _last_block(self) -> int:
        """Block of the last insertion, by the clock alone."""

    @abstractmethod
    def _blocks(self, inserts: Answers, *times: Times) -> Integers:
        """Return the block of each operation, by the clock alone, of which some insert."""

    def _ages(self, stamps: NDArray[np.uint64], blocks: "Integers | np.int64") -> Integers:
        """Ages of stamps, each of which is the number of its block plus 1, or 0 without one."""
        ages = np.minimum(blocks + 1 - stamps.astype(np.int64), self.expired_age)
        return np.where(stamps == 0, self.expired_age, ages)

    def clear(self) -> None:
        """Forget everything."""
        self.insertions = self.shifts = 0
        self._stamps = np.zeros((self.hashes, self.cells), np.uint64)

    def shift(self) -> None:
        """Begin the next block now, beside the clock: every key is one block older."""
        self.shifts += 1

    def decide_by(self, thresholds: ArrayLike) -> None:
        """Have a table answer from the next operation on; a CLEAR leaves it.

        Parameters
        ----------
        thresholds : array_like of int, shape (classes, ages, 2**phase_bits)
            As those of a `lately.golden.DecisionTable` of as many hashes: the least number of
            cells of the oldest age with which a key is reported, 0 to one more than there are.

        Raises
        ------
        TypeError, SpecificationError
            If they are no integers, have another shape, or one is out of range.
        """
        table = np.asarray(thresholds)
        shape, most = self._stamped.table_shape, self.hashes + 1
        require(self.classes is not None, "classes", "must be given for a table", self.classes)
        require(table.shape == shape, "thresholds", f"must have shape {shape}", table.shape)
        if table.dtype.kind not in "ui":
            raise TypeError(f"thresholds: must be integers, not {table.dtype}")
        for value in (int(table.min()), int(table.max())):
            require(0 <= value <= most, "thresholds", f"must be 0 to {most}", value)
        self.thresholds = table.astype(np.uint8)

    @property
    def phase(self) -> int:
        """Phase of the present block, by which the table answers."""
        return int(np.ravel(self._phases(np.zeros(1, np.bool_)))[0])

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        arrays: dict[str, tuple[NDArray[Any], int]]
        arrays = {"stamps": (self._stamps, self._last_block + self.shifts + 1)}
        if self.classes is not None:
            arrays["thresholds"] = self.thresholds, self.hashes + 1
        return arrays

    # Operations

    def _insert(self, keys: Words, *times: Times) -> None:
        self._repeat(Operation.INSERT, keys, *times)

    def _query(self, keys: Words, *times: Times) -> Answers:
        return self._repeat(Operation.QUERY, keys, *times).seen

    def _check_and_insert(self, keys: Words, *times: Times) -> Answers:
        return self._repeat(Operation.CHECK_AND_INSERT, keys, *times).seen

    def _age(self, keys: Words, *times: Times) -> Ages:
        return _ages_of_seen(self._repeat(Operation.QUERY, keys, *times)).age

    def _age_and_insert(self, keys: Words, *times: Times) -> Ages:
        return _ages_of_seen(self._repeat(Operation.CHECK_AND_INSERT, keys, *times)).age

    def _repeat(self, operation: Operation, keys: Words, *times: Times) -> TimingVerdicts:
        return self._results(np.full(len(keys), operation), None, keys, *times)

    def _results(
        self, operations: ArrayLike, windows: ArrayLike | None, keys: Words, *times: Times
    ) -> TimingVerdicts:
        """Check operations and windows, and perform them from one CLEAR to the next."""
        codes = self._checked_operations(operations, len(keys)).astype(np.int64)
        asked = self._stamped.query_numbers(windows, len(keys))
        ends = (np.flatnonzero(codes == Operation.CLEAR) + 1).tolist()
        none = np.empty(0, np.int64)
        results = [TimingVerdicts(none > 0, none, none)]
        for start, stop in pairwise([0, *ends, len(keys)]):
            for part in chunks(stop - start):
                own = slice(start + part.start, start + part.stop)
                clock = [one[own] for one in times]
                results.append(self._perform(codes[own], asked[own], keys[own], *clock))
            if stop in ends:
                self.clear()
        seen, age, oldest = map(np.concatenate, zip(*results, strict=True))
        return TimingVerdicts(seen, age, oldest)

    def _perform(
        self, codes: Integers, asked: Integers, keys: Words, *times: Times
    ) -> TimingVerdicts:
        together = codes & OperationBit.ALONE == 0
        inserts = together & (codes & OperationBit.INSERT != 0)
        shifts = np.cumsum(codes == Operation.SHIFT)
        blocks = self._blocks(inserts, *times) + self.shifts + shifts
        ages = self._touch(keys, blocks, inserts)
        phases = self._phases(inserts)
        self.insertions += int(inserts.sum())
        self.shifts += int(shifts[-1])
        oldest = ages.max(axis=0)
        cells = (ages == oldest).sum(axis=0)
        if self.classes is None:
            reported = oldest <= asked
        else:
            reported = cells >= self.thresholds[asked, oldest, phases]
        seen = together & (codes & OperationBit.QUERY != 0) & reported
        return TimingVerdicts(seen, oldest, cells)

    def _phases(self, inserts: Answers) -> "Integers | int":
        """Return the phase of the block that each operation finds, of which some insert."""
        return 0

    def _touch(self, keys: Words, blocks: Integers, inserts: Answers) -> Integers:
        """Ages of the cells of each key before its operation, shape (hashes, n); insert some."""
        ages = np.empty((self.hashes, len(keys)), np.int64)
        for part, cells in enumerate(self._hash.indices(self._hash.state(keys), 0)):
            stamps = self._stamps[part, cells]
            before = _insertions_before(cells, inserts)
            stamps[before >= 0] = blocks[before[before >= 0]] + 1
            ages[part] = self._ages(stamps, blocks)
            # The last insertion into a cell is the one that stays.
            self._stamps[part, cells[inserts]] = blocks[inserts] + 1
        return ages


class PartitionedTimingFilter(StampedParts, CountedFilter):
    """Partitioned timing Bloom filter: a block ends with its last insertion (section 3.2).

    With d insertions after its own, a key is reported by a query for a window of w if d < w. If
    d >= w + `block` - 1, it is not, unless others have touched all its cells within the window.

    Parameters
    ----------
    window : int
        Insertions for which a key is guaranteed to be reported, W: a multiple of `block`, at
        most 2**30.
    block : int
        Insertions of a block, B; 1 by default.
    hashes : int
        Hash functions and parts, k.
    cells : int
        Cells of a part.
    stamp_bits : int, optional
        Bits of a cell in hardware, 64 at most; see `StampedPartsSpec`.
    classes : int, optional
        Classes of queries, which have them in place of windows: a table answers, see `decide_by`.
    phase_bits : int, optional
        Digits of the insertions into the block that the table goes by.
    """

    specification = PartitionedTimingSpec
    _counts: ClassVar = {"insertions": 1 << 62, "shifts": 1 << 61}

    window: int
    block: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        block = -(-keys // 32)
        window = -(-keys // block) * block
        parts = [(parts_cells(window + block - 1, fpr, hashes), hashes) for hashes in HASHES]
        cells, hashes = min(parts, key=lambda part: part[0] * part[1])
        return {"window": window, "block": block, "cells": cells, "hashes": hashes}

    @property
    def window_false_positive_rate(self) -> float:
        """Expected false-positive rate of a full window of distinct keys, and most of a block."""
        return self._stamped.mean_false_positive_rate

    @property
    def _last_block(self) -> int:
        return self.insertions // self.block

    def _before(self, inserts: Answers) -> Integers:
        """Return the insertions before each operation, of which some insert."""
        before: Integers = self.insertions + np.cumsum(inserts) - inserts
        return before

    def _blocks(self, inserts: Answers, *_: Times) -> Integers:
        return self._before(inserts) // self.block

    def _phases(self, inserts: Answers) -> "Integers | int":
        if not self.phase_bits:
            return 0
        return (self._before(inserts) % self.block << self.phase_bits) // self.block

    def apply(
        self, operations: ArrayLike, keys: Keys, windows: ArrayLike | None = None
    ) -> Verdicts:
        """Perform a mixed sequence of operations; parameters, errors: as `perform`.

        Ages are those of `age`: in blocks, -1 where the key is not reported.
        """
        return _ages_of_seen(self.perform(operations, keys, windows))

    def perform(
        self, operations: ArrayLike, keys: Keys, windows: ArrayLike | None = None
    ) -> TimingVerdicts:
        """Perform a mixed sequence of operations; return all that the cells show.

        Parameters
        ----------
        operations, keys
            As for `CountedFilter.apply`, with its errors. SHIFT makes the present block one
            later, whatever the insertions into it.
        windows : array_like of int, shape (n,) or (), optional
            Insertions that count for each query: multiples of `block`, 0 to `window`, which is
            the default. If there are classes, the class of each query, by default 0.

        Raises
        ------
        TypeError, ValueError
            If the windows or classes are not integers, have another shape, or one of them is out
            of range or no multiple of `block`. Nothing is performed then.
        """
        return self._results(operations, windows, self._hash.check_keys(keys))


class TimedTimingFilter(StampedParts, TimedFilter):
    """Partitioned timing Bloom filter with a clock of time (inferential paper, section 3.2).

    Blocks are periods of time, *ticks*. A key that was inserted at most w ago is reported by a
    query for a window of w, after any silence, and one that was inserted w + `period` ago, or
    longer, is not, unless others have touched all its cells within the window.

    Parameters
    ----------
    span : int
        W, the time for which keys are kept, in units of the timestamps: a multiple of `period`.
    period : int
        Time of a tick; 1 by default.
    hashes, cells, stamp_bits, classes : int
        As for `PartitionedTimingFilter`.
    phase_bits : int, optional
        0, if given: of the time within a tick nothing is known.
    """

    specification = TimedTimingSpec
    _counters = ("insertions",)
    _counts: ClassVar = {"insertions": None, "shifts": 1 << 61}

    period: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        # Both ends of a span may have a key. Half of the cells touched is best for any rate.
        return {"hashes": math.ceil(-math.log2(fpr)), "cells": shared_cells(keys + 1, 0.5, 1)}

    @property
    def window_false_positive_rate(self) -> float:
        """Expected false-positive rate while half of the cells are within the span."""
        return self._stamped.mean_false_positive_rate

    def clear(self) -> None:
        """Forget everything, the time included."""
        super().clear()
        self._last = NEVER

    @property
    def _last_block(self) -> int:
        return max(self._last, 0) // self.period

    def _blocks(self, inserts: Answers, *times: Times) -> Integers:
        if inserts.any():
            self._last = int(times[0][inserts][-1])
        return times[0] // self.period

    def memory_at(self, now: int) -> Integers:
        """Return the ages of all cells at the time `now`, as `memory`; errors as `query`."""
        return self._ages(self._stamps, check_now(now, 1, self._last) // self.period + self.shifts)

    def apply(
        self,
        operations: ArrayLike,
        keys: Keys,
        timestamps: ArrayLike,
        windows: ArrayLike | None = None,
    ) -> Verdicts:
        """Perform a mixed sequence of operations; parameters, errors: as `perform`.

        Ages are those of `age`: in ticks, -1 where the key is not reported.
        """
        return _ages_of_seen(self.perform(operations, keys, timestamps, windows))

    def perform(
        self,
        operations: ArrayLike,
        keys: Keys,
        timestamps: ArrayLike,
        windows: ArrayLike | None = None,
    ) -> TimingVerdicts:
        """Perform a mixed sequence of operations; return all that the cells show.

        Parameters
        ----------
        operations, keys, timestamps
            As for `TimedFilter.apply`, with its errors. SHIFT is a tick beside the clock.
        windows : array_like of int, shape (n,) or (), optional
            Time that counts for each query: multiples of `period`, 0 to `span`, which is the
            default; classes and errors as for `PartitionedTimingFilter.perform`.
        """
        return self._results(operations, windows, *self._inserted(keys, timestamps))

    def _state(self) -> State:
        numbers, arrays = super()._state()
        return numbers | {"last": self._last}, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._last = numbers["last"]
        check_whole("last insertion", self._last, NEVER, TIME_LIMIT - 1)
        super()._restore(numbers, arrays)


def _ages_of_seen(verdicts: TimingVerdicts) -> Verdicts:
    return Verdicts(verdicts.seen, np.where(verdicts.seen, verdicts.age, -1))


def _insertions_before(cells: NDArray[np.intp], inserts: Answers) -> NDArray[np.intp]:
    """Return the last insertion before each operation that has its cell, or -1, shape (n,)."""
    order = np.argsort(cells, kind="stable")
    at = np.arange(len(cells))
    group = np.searchsorted(cells[order], cells[order])
    last = np.maximum.accumulate(np.where(inserts[order], at, -1))
    earlier = np.concatenate([[-1], last[:-1]])
    before = np.empty_like(order)
    before[order] = np.where(earlier >= group, order[earlier], -1)
    return before
