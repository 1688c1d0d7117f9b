"""Partitioned timing Bloom filters, with a window for each query, as in hardware.

As the block timing Bloom filter (inferential paper, section 3.2), with three
differences. Each hash function has its own part of the cells. A cell holds the number of the block
in which it was last touched, counted from the first block. Timestamps never wrap, so no sweep is
needed. The clock counts either insertions or time. A window is a whole number of blocks, so
definition 9 compares blocks: a key is reported if the age of its oldest cell is at most the window.
Alternatively, a table of thresholds of an inferential filter determines answers, as in hardware
(section 2.6).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import compilation
from ..analysis import mean_rate
from ..atomic import taking_single_keys
from ..convenience import State
from ..durations import default_tick
from ..filter import Answers, AnyWindowFilter, Filter, Windows, Words, require_count
from ..hash.keys import Keys, Nulls, one_or_all
from ..operations import Operation, OperationBit
from ..results import Ages, Results
from ..ring.slices import check_whole, chunks
from ..sampling import sample
from ..sizing import HASHES, parts_rate, shared_cells, smallest
from ..spec.base import require
from ..spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..timed_filter import TimedFilter
from ..times import NEVER, TIME_LIMIT, Now, Times
from .timestamps import Integers
from .timing_sizes import block_cells


class StampedParts(Filter):
    """Base of the partitioned timing Bloom filters.

    Attributes
    ----------
    insertions : int
        Insertions since construction, or since `clear`.
    thresholds : ndarray of uint8, shape (classes, ages, 2**phase_bits)
        With classes, the table that determines answers: see `decide_by`. At first all are 0, and
        every queried key is reported.
    compiled : bool
        Whether operations run in the extension; results are the same either way.
    """

    age_unit = "blocks"

    cells: int
    hashes: int
    stamp_bits: int
    classes: int | None
    phase_bits: int | None

    def _prepare(self) -> None:
        self._stamped = spec = cast(StampedPartsSpec, self.spec)
        self.stamp_bits, self.window_blocks = spec.stamp_bits, spec.window_blocks
        self.phase_bits = spec.phase_bits
        self.thresholds = np.zeros(spec.table_shape, np.uint8)
        self._make_hash(spec.index_sizes)
        self.compiled = compilation.wanted() and self.hashes <= compilation.MOST_PARTS
        self._hold({"stamps": np.zeros((self.hashes, self.cells), np.uint64)})

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._stamps = arrays["stamps"]
        self.thresholds = arrays.get("thresholds", self.thresholds)
        if self.compiled:
            core, key_hash = self._hash.compiled()
            block, timed = self._stamped.block_units, self._stamped.timed
            self._cells = core.Stamps(key_hash, self._stamps, self.expired_age, block, timed)
            # A table needs the phase, which the loop for single keys lacks.
            self._engine = self._cells if self.classes is None else None

    # State

    @property
    def expired_age(self) -> int:
        """Age that represents all ages past the window, in blocks."""
        return self.window_blocks + 1

    @property
    def storage_bits(self) -> int:
        """Bits of all cells in hardware."""
        return self._stamped.storage_bits

    @property
    def fill(self) -> float:
        """Share of the cells that have not expired, at the last insertion."""
        ages = self._ages(sample(self._stamps), np.int64(self._last_block))
        return float((ages != self.expired_age).mean())

    @property
    def memory(self) -> Integers:
        """Ages of all cells in blocks, at the last insertion, shape (hashes, cells).

        Cells past the window and untouched cells have `expired_age`.
        """
        return self._ages(self._stamps, np.int64(self._last_block))

    def fill_ratios(self, *now: int, window: int | None = None) -> NDArray[np.float64]:
        """Share of the cells of each part within a window, shape (hashes,).

        The share is at the time `now` if the clock counts time, and at the last insertion
        otherwise. The default `window` is the filter's window.
        """
        blocks = self.window_blocks if window is None else window // self._stamped.block_units
        fills: NDArray[np.float64] = np.mean(self._memory_at(*now) <= blocks, axis=1)
        return fills

    def estimated_false_positive_rate(self, *now: int, window: int | None = None) -> float:
        """Probability that a fresh key is reported, from the ages of all cells.

        Parameters: as `fill_ratios`. With classes, `window` is the class of the query.
        """
        if self.classes is None:
            return float(np.prod(self.fill_ratios(*now, window=window)))
        cells = self._memory_at(*now)
        # For each number of cells with an age, if no cell is older.
        chances = np.ones((self.expired_age + 1, 1))
        for part in cells:
            share = np.bincount(part, minlength=len(chances))[:, None] / len(part)
            fewer, more = np.pad(chances, ((0, 0), (0, 1))), np.pad(chances, ((0, 0), (1, 0)))
            chances = fewer * (np.cumsum(share, axis=0) - share) + more * share
        least = self.thresholds[window or 0, :, self.phase][:, None]
        oldest = np.arange(chances.shape[1])
        return float(chances[(oldest > 0) & (oldest >= least)].sum())

    def _memory_at(self, *now: int) -> Integers:
        """Return the ages of all cells, at a time if the clock counts time."""
        return self.memory

    @property
    @abstractmethod
    def _last_block(self) -> int:
        """Block of the last insertion."""

    @abstractmethod
    def _blocks(self, inserts: Answers, *times: Times) -> Integers:
        """Return the block of each operation; some operations insert."""

    def _ages(self, stamps: NDArray[np.uint64], blocks: "Integers | np.int64") -> Integers:
        """Ages of stamps; a stamp is its block number plus 1, or 0 if the cell is empty."""
        ages = np.minimum(blocks + 1 - stamps.astype(np.int64), self.expired_age)
        return np.where(stamps == 0, self.expired_age, ages)

    def _empty(self) -> None:
        if vars(self).get("insertions"):  # New memory is zero, and takes no pages until then.
            self._stamps[:] = 0
        self.insertions = 0

    def decide_by(self, thresholds: ArrayLike) -> None:
        """Load the table that determines answers from the next operation on; CLEAR keeps the table.

        Parameters
        ----------
        thresholds : array_like of int, shape (classes, ages, 2**phase_bits)
            Thresholds of a `lately.golden.DecisionTable` with the same `hashes`: the least number
            of cells with the oldest age with which a key is reported, 0 to ``hashes + 1``.

        Raises
        ------
        TypeError, SpecificationError
            If the thresholds are not integers, have another shape, or a threshold is out of range.
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
        """Phase of the current block, which selects thresholds of the table."""
        return int(np.ravel(self._phases(np.zeros(1, np.bool_)))[0])

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        arrays: dict[str, tuple[NDArray[Any], int]]
        arrays = {"stamps": (self._stamps, self._last_block + 1)}
        if self.classes is not None:
            arrays["thresholds"] = self.thresholds, self.hashes + 1
        return arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        # In earlier states, blocks that a SHIFT had ended were counted apart.
        if shifts := numbers.get("shifts", 0):
            require_count("shifts", shifts, most=1 << 61)
            if self._stamped.timed:
                stamps = arrays["stamps"]
                aged = np.where(stamps > shifts, stamps - np.uint64(shifts), np.uint64(0))
                arrays = {**arrays, "stamps": aged}
            else:
                insertions = numbers["insertions"] + shifts * self._stamped.block_units
                numbers = {**numbers, "insertions": insertions}
        super()._restore(numbers, arrays)

    @abstractmethod
    def _vector(self) -> Integers:
        """Insertions, the last time, three counts of single keys, for the extension."""

    def _lend(self) -> None:
        self._engine.arm(self._vector())

    def _disarmed(self) -> list[int]:
        """Return the same numbers, and the count of late insertions, from the extension."""
        numbers = np.zeros(6, np.int64)
        self._engine.disarm(numbers)
        values: list[int] = numbers.tolist()
        return values

    # Operations

    def _age(self, keys: Words, *times: Times) -> Ages:
        results = self._performed(Operation.QUERY, keys, *times)
        return np.where(results.seen, results.age, -1)

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> Integers:
        return self._stamped.query_numbers(windows, count)

    def _perform(
        self,
        codes: NDArray[np.uint8],
        keys: Words,
        times: Times | None = None,
        windows: "Integers | None" = None,
    ) -> Results:
        asked = self._checked_windows(None, len(keys)) if windows is None else windows
        ends = (np.flatnonzero(codes == Operation.CLEAR) + 1).tolist()
        results = []
        for start, stop in pairwise([0, *ends, len(keys)]):
            for part in chunks(stop - start):
                own = slice(start + part.start, start + part.stop)
                clock = () if times is None else (times[own],)
                results.append(self._perform_part(codes[own], asked[own], keys[own], *clock))
            if stop in ends:
                self._empty()
        return Results.joined(results)

    def _perform_part(
        self, codes: NDArray[np.uint8], asked: Integers, keys: Words, *times: Times
    ) -> Results:
        """Perform operations, of which only the last may be a CLEAR, without the CLEAR."""
        together = codes & OperationBit.ALONE == 0
        inserts = together & (codes & OperationBit.INSERT != 0)
        blocks = self._blocks(inserts, *times)
        oldest, cells = self._touch(keys, blocks, inserts)
        phases = self._phases(inserts)
        self.insertions += int(inserts.sum())
        if self.classes is None:
            reported = oldest <= asked
        else:
            reported = cells >= self.thresholds[asked, oldest, phases]
        seen = together & (codes & OperationBit.QUERY != 0) & reported
        return Results.of(seen, oldest, oldest=cells, **({"time": times[0]} if times else {}))

    def _phases(self, inserts: Answers) -> "Integers | int":
        """Return the phase of the block before each operation; some operations insert."""
        return 0

    def _touch(self, keys: Words, blocks: Integers, inserts: Answers) -> tuple[Integers, Integers]:
        """Age of each key's oldest cell before its operation, and cells that have it; insert some.

        Both have shape (n,).
        """
        if self.compiled:
            oldest, cells = np.empty((2, len(keys)), np.int64)
            self._cells.touch(blocks, inserts, np.ascontiguousarray(keys), oldest, cells)
            return oldest, cells
        ages = self._touched(keys, blocks, inserts)
        oldest = ages.max(axis=0)
        return oldest, (ages == oldest).sum(axis=0)

    def _touched(self, keys: Words, blocks: Integers, inserts: Answers) -> Integers:
        """Ages of the cells of each key before its operation, shape (hashes, n); insert some."""
        ages = np.empty((self.hashes, len(keys)), np.int64)
        for part, cells in enumerate(self._hash.indices(self._hash.state(keys), 0)):
            stamps = self._stamps[part, cells]
            before = _insertions_before(cells, inserts)
            stamps[before >= 0] = blocks[before[before >= 0]] + 1
            ages[part] = self._ages(stamps, blocks)
            # The last insertion into a cell stays.
            self._stamps[part, cells[inserts]] = blocks[inserts] + 1
        return ages


class PartitionedTimingFilter(StampedParts, AnyWindowFilter):
    """Partitioned timing Bloom filter: a block ends with its last insertion (section 3.2).

    A query for a window of w reports a key for all d < w, where d is the number of insertions
    after its own; w is rounded up to a multiple of `block`. If d >= w + `block` - 1, the key is
    reported only if other keys have touched all its cells within the window.

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
        Number of query classes: queries then have a class instead of a window, and a table
        determines answers, see `decide_by`.
    phase_bits : int, optional
        Leading bits of the number of insertions into the block that select a phase of the table.
    """

    specification = PartitionedTimingSpec
    _counts: ClassVar = {"insertions": 1 << 61}

    window: int
    block: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        block = -(-keys // 32)
        window = -(-keys // block) * block
        parts = [(block_cells(window, block, fpr, k, parts_rate), k) for k in HASHES]
        cells, hashes = min(parts, key=lambda part: part[0] * part[1])
        return {"window": window, "block": block, "cells": cells, "hashes": hashes}

    @property
    def fpr(self) -> float:
        """Expected false-positive rate of distinct keys, averaged over a block."""
        return self._stamped.mean_false_positive_rate

    @property
    def _last_block(self) -> int:
        return self.insertions // self.block

    def _asked_windows(self, windows: Windows, count: int) -> "Integers | None":
        """Return the blocks or classes of queries; None for the filter's window or class 0."""
        if windows is None:
            return None
        asked = windows if self.classes else self._each_window(windows, count)
        return self._stamped.query_numbers(asked, count, "window")

    def _one_operation(
        self, operation: Operation, keys: Words, windows: "Integers | None" = None, *_: Any
    ) -> Answers:
        # With one operation and one window for all keys, the extension does the rest.
        if self._engine is None or windows is not None:
            return self._performed(operation, keys, None, windows).seen
        seen, numbers = np.empty(len(keys), np.bool_), self._vector()
        words = np.ascontiguousarray(keys)
        self._engine.perform(numbers, operation, self.window_blocks, words, seen)
        self.insertions = int(numbers[0])
        return seen

    def _vector(self) -> Integers:
        return np.array([self.insertions, NEVER, 0, 0, 0], np.int64)

    def _regain(self) -> list[int]:
        self.insertions, _, *counts, _ = self._disarmed()
        return counts

    def _before(self, inserts: Answers) -> Integers:
        """Return the insertions before each operation; some operations insert."""
        before: Integers = self.insertions + np.cumsum(inserts) - inserts
        return before

    def _blocks(self, inserts: Answers, *_: Times) -> Integers:
        return self._before(inserts) // self.block

    def _phases(self, inserts: Answers) -> "Integers | int":
        if not self.phase_bits:
            return 0
        return (self._before(inserts) % self.block << self.phase_bits) // self.block


@taking_single_keys
class TimedTimingFilter(StampedParts, TimedFilter):
    """Partitioned timing Bloom filter with a window of time (inferential paper, section 3.2).

    Blocks are periods of time, *ticks*. A query with a window of w reports every key that was
    inserted at most w ago, even after a pause in the stream; w is rounded up to a multiple of
    `period`. A key that was inserted at least w + `period` ago is reported only if other keys have
    touched all its cells within the window.

    Parameters
    ----------
    span : int
        W, the time for which keys are kept, in units of the timestamps: a multiple of `period`.
    period : int
        Time of a tick; 1 by default.
    hashes, cells, stamp_bits, classes : int
        As for `PartitionedTimingFilter`.
    phase_bits : int, optional
        Must be 0 if given: the time within a tick is unknown.
    """

    specification = TimedTimingSpec
    _uncompared = ("insertions",)
    _counts: ClassVar = {"insertions": None}

    period: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        # A fill of one half is best for any rate.
        return {"hashes": math.ceil(-math.log2(fpr)), "cells": shared_cells(keys, 0.5, 1)}

    @classmethod
    def _for_keys(
        cls, keys: int, fpr: float, given: dict[str, int], options: Mapping[str, Any]
    ) -> Self:
        """Choose cells that meet the mean rate over a tick; a span is a whole number of ticks."""
        period, sizes = options.get("period", 1), cls._sizes(keys, fpr)
        require_count("period", period)
        hashes, each = sizes["hashes"], keys / given["span"]

        def keeps(cells: int) -> bool:
            def rate(phase: float) -> float:
                return parts_rate(keys + phase * period * each, cells, hashes)

            return cells > 1 and mean_rate(rate, period) <= 0.5**hashes

        cells = smallest(keeps, sizes["cells"])
        return super()._for_keys(keys, fpr, {**given, "cells": cells}, options)

    @classmethod
    def _spanned(cls, span: int, options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        period = options.get("period", default_tick(span))
        return -(-span // period) * period, {**options, "period": period}

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over a tick, with half of the cells in use."""
        return self._stamped.mean_false_positive_rate

    @one_or_all
    def query(
        self, keys: Keys, now: Now = None, *, window: Windows = None, nulls: Nulls = "refuse"
    ) -> Answers:
        """Report whether each key was inserted at most `window` before `now`; changes nothing.

        The `window` is one time, or one for each key with shape (n,), from 0 to the span, which is
        the default. It is rounded up to a multiple of `period`. With `classes`, it is the class.

        Parameters, errors, result: as `TimedFilter.query`.
        """
        words = self._words(keys)
        times = self._moments(now, len(words))
        return self._query(words, times, self._asked_windows(window, len(words)))

    @one_or_all
    def check_and_insert(
        self,
        keys: Keys,
        now: Now = None,
        *,
        window: Windows = None,
        refresh: bool = True,
        nulls: Nulls = "refuse",
    ) -> Answers:
        """Query and insert keys one after another; each answer precedes its insertion.

        Parameters, errors, result: as `TimedFilter.check_and_insert`; `window` as for `query`.
        """
        words = self._words(keys)
        return self._check_each(words, now, refresh, self._asked_windows(window, len(words)))

    def _asked_windows(self, windows: Windows, count: int) -> "Integers | None":
        if windows is None:
            return None
        return self._stamped.query_numbers(windows, count, "window")

    def _empty(self) -> None:
        super()._empty()
        self._last = NEVER

    @property
    def _last_block(self) -> int:
        return max(self._last, 0) // self.period

    def _vector(self) -> Integers:
        # Python's integers are unbounded; this counts future insertions.
        return np.array([0, self._last, 0, 0, 0], np.int64)

    def _regain(self) -> list[int]:
        insertions, self._last, *counts, late = self._disarmed()
        self.insertions += insertions
        self.late += late
        return counts

    def _blocks(self, inserts: Answers, *times: Times) -> Integers:
        if inserts.any():
            self._last = int(times[0][inserts][-1])
        return times[0] // self.period

    def memory_at(self, now: Now = None) -> Integers:
        """Return the ages of all cells at the time `now`, as `memory`; errors as `query`.

        The default is `latest` if you gave the time of an insertion, or if there is no clock;
        otherwise the time of the clock.
        """
        block = np.int64(self._moment(now) // self.period)
        return self._ages(self._stamps, block)

    def _memory_at(self, *now: int) -> Integers:
        return self.memory_at(*now) if now else self.memory

    def _state(self) -> State:
        numbers, arrays = super()._state()
        return numbers | {"last": self._last}, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._last = numbers["last"]
        check_whole("last insertion", self._last, NEVER, TIME_LIMIT - 1)
        super()._restore(numbers, arrays)


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
