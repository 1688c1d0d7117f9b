"""Partitioned timing Bloom filters, which also exist as hardware.

These are block timing Bloom filters (inferential paper, section 3.2), but each hash function has
its own part of the cells, and a cell holds the number of the block in which it was last touched. So
timestamps never wrap, and no sweep is needed. A block is a number of insertions or a period of
time. Each query can have its own window, which is a whole number of blocks: a key is reported if
the age of its oldest cell is at most the window (definition 9). Alternatively, a table of
thresholds from an inferential filter determines the answers (section 2.6).
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import compilation
from ..analysis import mean_rate
from ..durations import default_tick
from ..errors import require, require_count
from ..filter import (
    Answers,
    CountedFilter,
    Filter,
    Number,
    State,
    Windows,
    Words,
    check_and_insert_in_window,
    query_in_window,
    taking_single_keys,
)
from ..hash.keys import Keys, Nulls, scalar_or_array
from ..operations import Operation, OperationBit
from ..results import Ages, Codes, Results
from ..sampling import sample
from ..sizing import HASHES, parts_rate, shared_cells, smallest
from ..spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..state_files import check_whole
from ..timed_filter import TimedFilter
from ..times import NEVER, TIME_LIMIT, Now, Times
from .timing import Integers, block_cells


class StampedParts(Filter):
    """Base class of the partitioned timing Bloom filters."""

    age_unit = "blocks"
    _NUMBERS: ClassVar = 6  # counters, then insertions and the last time
    insertions = Number(4)  # since construction or `clear`

    cells: int
    hashes: int
    stamp_bits: int
    classes: int | None
    phase_bits: int | None
    fpr: float

    def _prepare(self) -> None:
        self._stamped = spec = cast(StampedPartsSpec, self.spec)
        self.stamp_bits, self.window_blocks = spec.stamp_bits, spec.window_blocks
        self.phase_bits = spec.phase_bits
        # With classes, the table that determines answers; initially every queried key is reported.
        self.thresholds = np.zeros(spec.table_shape, np.uint8)
        self._make_hash(spec.index_sizes)
        self.compiled = compilation.wanted() and self.hashes <= compilation.MAX_PARTS
        self._hold({"stamps": np.zeros((self.hashes, self.cells), np.uint64)})

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._stamps = arrays["stamps"]
        self.thresholds = arrays.get("thresholds", self.thresholds)
        if self.compiled:
            core, key_hash = self._hash.compiled()
            self._engine = core.Stamps(
                key_hash, self._stamps, self._numbers, self.thresholds, self.expired_age,
                self._stamped.block_units, self._stamped.timed, self.phase_bits or 0,
            )  # fmt: skip

    @property
    def expired_age(self) -> int:
        """Age, in blocks, that stands for all ages past the window."""
        return self.window_blocks + 1

    @property
    def fill(self) -> float:
        """Fraction of cells that had not expired at the last insertion."""
        ages = self._ages(sample(self._stamps), self._last_block)
        return float((ages != self.expired_age).mean())

    @property
    def memory(self) -> Integers:
        """Ages of all cells at the last insertion, in blocks, shape (hashes, cells)."""
        return self._ages(self._stamps, self._last_block)

    def fill_ratios(self, *now: int, window: int | None = None) -> NDArray[np.float64]:
        """Return the fraction of cells in the window at `now` for each part, shape (hashes,)."""
        blocks = self.window_blocks if window is None else window // self._stamped.block_units
        fills: NDArray[np.float64] = np.mean(self._memory_at(*now) <= blocks, axis=1)
        return fills

    def estimated_false_positive_rate(self, *now: int, window: int | None = None) -> float:
        """Return the probability that a query reports a key that was never inserted.

        `window` is the window or the class of the query.
        """
        if self.classes is None:
            return float(np.prod(self.fill_ratios(*now, window=window)))
        cells = self._memory_at(*now)
        # Sum over the number of cells with this age, if no cell is older.
        chances = np.ones((self.expired_age + 1, 1))
        for part in cells:
            share = np.bincount(part, minlength=len(chances))[:, None] / len(part)
            fewer, more = np.pad(chances, ((0, 0), (0, 1))), np.pad(chances, ((0, 0), (1, 0)))
            chances = fewer * (np.cumsum(share, axis=0) - share) + more * share
        low = self.thresholds[window or 0, :, self.phase][:, None]
        oldest = np.arange(chances.shape[1])
        return float(chances[(oldest > 0) & (oldest >= low)].sum())

    def _memory_at(self, *now: int) -> Integers:
        return self.memory

    @property
    def _last_block(self) -> int:
        """Number of the current block or, in a timed filter, of the last insertion's block."""
        last = max(int(self._numbers[5]), 0) if self._stamped.timed else self.insertions
        return last // self._stamped.block_units

    def _ages(self, stamps: NDArray[np.uint64], block: int) -> Integers:
        """Convert stamps (block number + 1, or 0 for an empty cell) to ages (definition 7)."""
        ages = np.minimum(block + 1 - stamps.astype(np.int64), self.expired_age)
        return np.where(stamps == 0, self.expired_age, ages)

    def _empty(self) -> None:
        if self.insertions:  # New memory is zero, and occupies no pages until written.
            self._stamps[:] = 0
        self._numbers[4:] = 0, NEVER

    def decide_by(self, thresholds: ArrayLike) -> None:
        """Load a table that determines all further answers; CLEAR does not remove it.

        The thresholds, shape (classes, ages, 2**phase_bits), are those of a `DecisionTable`, from 0
        to ``hashes + 1``: a key is reported if at least this number of its cells have the oldest
        age. Raises TypeError or SpecificationError if their type, shape or range is wrong.
        """
        table = np.asarray(thresholds)
        shape, high = self._stamped.table_shape, self.hashes + 1
        require(self.classes is not None, "classes", "must be given for a table", self.classes)
        require(table.shape == shape, "thresholds", f"must have shape {shape}", table.shape)
        if table.dtype.kind not in "ui":
            raise TypeError(f"thresholds: must be integers, not {table.dtype}")
        for value in (int(table.min()), int(table.max())):
            require(0 <= value <= high, "thresholds", f"must be 0 to {high}", value)
        self.thresholds[:] = table

    @property
    def phase(self) -> int:
        """Phase of the current block; it selects a column of thresholds in the table."""
        filled = 0 if self._stamped.timed else self.insertions % self._stamped.block_units
        return (filled << (self.phase_bits or 0)) // self._stamped.block_units

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        arrays: dict[str, tuple[NDArray[Any], int]]
        arrays = {"stamps": (self._stamps, self._last_block + 1)}
        if self.classes is not None:
            arrays["thresholds"] = self.thresholds, self.hashes + 1
        return arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        # Older states count blocks ended by SHIFT separately.
        if shifts := numbers.get("shifts", 0):
            require_count("shifts", shifts, high=1 << 61)
            if self._stamped.timed:
                stamps = arrays["stamps"]
                aged = np.where(stamps > shifts, stamps - np.uint64(shifts), np.uint64(0))
                arrays = {**arrays, "stamps": aged}
            else:
                insertions = numbers["insertions"] + shifts * self._stamped.block_units
                numbers = {**numbers, "insertions": insertions}
        super()._restore(numbers, arrays)

    def _age(self, keys: Words, *times: Times) -> Ages:
        results = self._performed(Operation.QUERY, keys, *times)
        return np.where(results.seen, results.age, -1)

    def _asked_windows(self, windows: Windows, count: int) -> Integers | None:
        if windows is None:
            return None
        if isinstance(self, CountedFilter) and self.classes is None:
            windows = self._each_window(windows, count)
        return self._stamped.query_numbers(windows, count, "window")

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> Integers:
        return self._stamped.query_numbers(windows, count)

    def _one_operation(self, operation: Operation, keys: Words, *operands: Any) -> Answers:
        operands = operands if self._stamped.timed else (None, *operands)
        times, windows = (*operands, None, None)[:2]
        if not self.compiled:
            return self._performed(operation, keys, times, windows).seen
        seen = np.empty(len(keys), np.bool_)
        self._run(int(operation), keys, times, windows, seen, None, None)
        return seen

    def _run(self, codes: Any, keys: Words, *operands: Any) -> None:
        times, windows, *answers = operands
        inputs = (None if each is None else np.ascontiguousarray(each) for each in (times, windows))
        self._engine.perform(codes, np.ascontiguousarray(keys), *inputs, *answers)

    def _perform(
        self, codes: Codes, keys: Words, times: Times | None = None, windows: Integers | None = None
    ) -> Results:
        seen, (ages, oldest) = np.empty(len(keys), np.bool_), np.empty((2, len(keys)), np.int64)
        if self.compiled:
            self._run(codes, keys, times, windows, seen, ages, oldest)
            return Results.of(seen, ages, oldest=oldest, time=times)
        asked = self._checked_windows(None, len(keys)) if windows is None else windows
        cells = np.stack(self._hash.indices(self._hash.state(keys), 0), axis=1)
        moments = np.zeros(len(keys), np.int64) if times is None else times
        for at, code in enumerate(codes.tolist()):
            seen[at], ages[at], oldest[at] = self._step(code, cells[at], asked[at], moments[at])
        return Results.of(seen, ages, oldest=oldest, time=times)

    def _step(
        self, code: int, cells: NDArray[np.intp], asked: np.int64, time: np.int64
    ) -> tuple[bool, np.int64, np.int64]:
        """Perform an operation; return `seen`, the age of the oldest cells, and their number."""
        key_cells = np.arange(self.hashes), cells
        block = (int(time) if self._stamped.timed else self.insertions) // self._stamped.block_units
        ages = self._ages(self._stamps[key_cells], block)
        age = ages.max()  # Lambda_x, equation 19.
        oldest = (ages == age).sum()  # c_x, definition 11.
        if self.classes is None:
            reported = age <= asked  # No cell has expired, definition 9.
        else:
            reported = oldest >= self.thresholds[asked, age, self.phase]  # Section 2.6.
        if code == Operation.CLEAR:
            self._empty()
        elif code & OperationBit.INSERT:  # Section 3.2.1.
            self._stamps[key_cells] = block + 1
            self._numbers[4:] = self.insertions + 1, time
        return code in (Operation.QUERY, Operation.CHECK_AND_INSERT) and reported, age, oldest


@taking_single_keys
class PartitionedTimingFilter(StampedParts, CountedFilter):
    """Partitioned timing Bloom filter with blocks of a fixed number of insertions (section 3.2).

    A query for a window of w, rounded up to a multiple of `block`, reports a key for all d < w,
    where d is the number of insertions after its own. For d >= w + `block` - 1 the key is reported
    only if other keys have touched all its cells within the window. Its parameters are those of
    `PartitionedTimingSpec`.
    """

    specification = PartitionedTimingSpec
    _counts: ClassVar = {"insertions": 1 << 61}
    query, check_and_insert = query_in_window, check_and_insert_in_window

    window: int
    block: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        block = -(-keys // 32)
        window = -(-keys // block) * block
        parts = [(block_cells(window, block, fpr, k, parts_rate), k) for k in HASHES]
        cells, hashes = min(parts, key=lambda part: part[0] * part[1])
        return {"window": window, "block": block, "cells": cells, "hashes": hashes}


@taking_single_keys
class TimedTimingFilter(StampedParts, TimedFilter):
    """Partitioned timing Bloom filter with a time window (inferential paper, section 3.2).

    Blocks are periods of time, *ticks*. A query with a window of w, rounded up to a multiple of
    `period`, reports every key that was inserted at most w ago. A key that was inserted at least w
    + `period` ago is reported only if other keys have touched all its cells within the window. Its
    parameters are those of `TimedTimingSpec`.
    """

    specification = TimedTimingSpec
    _uncompared = ("insertions",)
    _counts: ClassVar = {"insertions": None}

    period: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        # A fill of one half is optimal for any rate.
        return {"hashes": math.ceil(-math.log2(fpr)), "cells": shared_cells(keys, 0.5, 1)}

    @classmethod
    def _for_keys(
        cls, keys: int, fpr: float, given: dict[str, int], options: Mapping[str, Any]
    ) -> Self:
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

    @scalar_or_array
    def query(
        self, keys: Keys, now: Now = None, *, window: Windows = None, nulls: Nulls = "refuse"
    ) -> Answers:
        """Return whether each key was inserted at most `window` before `now`.

        The filter is not changed. `window` is a time from 0 to the span, which is the default, or
        an array of shape (n,) with a time for each key. It is rounded up to a multiple of `period`.
        If the filter has `classes`, `window` is the class of the query. Other parameters, errors
        and the result, shape (n,), are those of `TimedFilter.query`.
        """
        words = self._words(keys)
        times = self._moments(now, len(words))
        return self._query(words, times, self._asked_windows(window, len(words)))

    @scalar_or_array
    def check_and_insert(
        self,
        keys: Keys,
        now: Now = None,
        *,
        window: Windows = None,
        refresh: bool = True,
        nulls: Nulls = "refuse",
    ) -> Answers:
        """Query each key within a `window` and then insert it, one key after another.

        `window` has the same meaning as in `query`. Other parameters, errors and the result, shape
        (n,), are those of `TimedFilter.check_and_insert`.
        """
        words = self._words(keys)
        return self._check_each(words, now, refresh, self._asked_windows(window, len(words)))

    @property
    def _last(self) -> int:
        return int(self._numbers[5])

    def memory_at(self, now: Now = None) -> Integers:
        """Return the ages of all cells at the time `now`, with the shape of `memory`."""
        return self._ages(self._stamps, self._moment(now) // self.period)

    def _memory_at(self, *now: int) -> Integers:
        return self.memory_at(*now) if now else self.memory

    def _state(self) -> State:
        numbers, arrays = super()._state()
        return numbers | {"last": self._last}, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        check_whole("last insertion", numbers["last"], NEVER, TIME_LIMIT - 1)
        self._numbers[5] = numbers["last"]
        super()._restore(numbers, arrays)
