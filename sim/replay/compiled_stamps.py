"""Units of timing filters in compiled simulation, with a clock of ticks or of insertions."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.operations import Operation
from ...golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ...golden.times import Times, check_timestamps
from ...golden.timestamp.decisions import packed_entries
from ...hdl.latencies import CONTROL_LAG
from ...hdl.verilog import TIME_BITS
from .cell_blocks import CellBlocks, first_copy
from .compiled_cells import CompiledCells
from .driven import Told

_IDLE = 1 << 20


class TimingAnswers(NamedTuple):
    """Results of operations, shape (n,) each; as `TimingVerdicts` of the golden model."""

    seen: NDArray[np.bool_]
    """Whether the key was reported."""
    age: NDArray[np.int64]
    """Age of the oldest cell of the key in ticks, whether it was reported or not."""
    oldest: NDArray[np.int64]
    """Cells of that age."""
    time: Times
    """Ticks before the operation since reset; 0 if the clock counts insertions."""


class CompiledStamps(CompiledCells):
    """Base of the units of timing filters in compiled simulation; see `CompiledCells`.

    Parameters
    ----------
    spec : StampedPartsSpec
        What to build.
    memory : str
        Variant of the memory, as for `lately.hdl.timing.unit.TimingUnit`; explicit block RAMs are
        simulated with the models that answer with garbage what vendors leave undefined.
    protect : str
        As for `lately.hdl.timing.unit.TimingUnit`.
    options
        As for `CompiledCells`.

    Errors: as `CompiledCells`.
    """

    def __init__(
        self,
        spec: StampedPartsSpec,
        *,
        memory: str = "portable",
        protect: str = "none",
        **options: Any,
    ) -> None:
        self._stamps = spec
        core = ("core",) if spec.classes is None else ("core", "core")
        held, bits = first_copy(protect), spec.stamp_bits
        blocks = CellBlocks("part", spec.hashes, spec.cells, bits, memory, core, held)
        super().__init__(spec, blocks, protect=protect, **options)

    def decide_by(self, thresholds: ArrayLike) -> None:
        """Load a table, and have it answer from the next operation on; as the golden model's.

        Parameters
        ----------
        thresholds : array_like of int, shape (classes, ages, 2**phase_bits)

        Raises
        ------
        ToolError
            If the unit does not take them.
        """
        self._load_table(packed_entries(thresholds, self._stamps.hashes))

    def _ages(self, ticks: int) -> NDArray[np.int64]:
        """Return the ages of all cells after so many ticks, shape (hashes, cells)."""
        codes = (1 << self._stamps.stamp_bits) - 1
        ages = (np.uint64(ticks) - self._cells().astype(np.uint64)) & np.uint64(codes)
        return np.minimum(ages, self._stamps.window_blocks + 1).astype(np.int64)


class CompiledTiming(CompiledStamps):
    """A `TimingUnit` in compiled simulation; see `CompiledStamps`.

    Parameters
    ----------
    spec : TimedTimingSpec
    ticks : str
        As for `TimingUnit`. With "period" the unit makes ticks by itself, so that it answers
        `perform_freely` alone, and its memory has no known time.
    options
        As for `CompiledStamps`.
    """

    spec: TimedTimingSpec

    def __init__(self, spec: TimedTimingSpec, *, ticks: str = "tick", **options: Any) -> None:
        self.spec = spec
        self._source = ticks
        super().__init__(spec, ticks=ticks, time_bits=TIME_BITS, **options)

    def reset(self) -> None:
        """Reset the unit and its time, which clears its memory, and wait for that."""
        super().reset()
        self._reached = 0

    @property
    def ticks(self) -> int:
        """Ticks since reset, fewer than the time has after a long silence."""
        return int(self._library.lately_ticks(self._unit))

    @property
    def memory(self) -> NDArray[np.int64]:
        """Ages of all cells, as the golden model's `memory_at` after so many `ticks`.

        Returns
        -------
        ndarray of int64, shape (hashes, cells)
        """
        self.idle(2 * self._latency)
        return self._ages(self.ticks)

    def pass_ticks(self, ticks: int) -> None:
        """Let ticks come one after another, as close as they may, without an operation.

        Parameters
        ----------
        ticks : int
        """
        period = self.profile.least_period
        self._library.lately_period(self._unit, period)
        # In parts, so that an interrupt is heard between them.
        for done in range(0, ticks * period, _IDLE):
            self.idle(min(_IDLE, ticks * period - done))
        self._library.lately_period(self._unit, 0)
        self.idle(CONTROL_LAG)

    def apply(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        timestamps: ArrayLike | None = None,
        windows: ArrayLike | None = None,
    ) -> TimingAnswers:
        """Perform operations at times, by default that which was reached; as `perform`."""
        times = self._reached if timestamps is None else timestamps
        count = len(np.asarray(operations))
        return self.perform(operations, keys, np.broadcast_to(times, count), windows)

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        timestamps: ArrayLike,
        windows: ArrayLike | None = None,
        **pauses: Any,
    ) -> TimingAnswers:
        """Perform a mixed sequence of operations at times; as the golden model's method.

        Each tick between two operations takes `least_period` clocks; of a silence in which all
        cells expire, no more ticks than that takes.

        Parameters
        ----------
        operations, timestamps : array_like of int, shape (n,)
        keys, windows : array_like of int
            As for `TimedTimingFilter.perform`.
        pauses
            ``pause_before`` and ``pause_after``, the shares of the cycles in which no operation is
            offered, and no answer taken; and their ``seed``.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        ValueError
            If the timestamps decrease, or one is before that which was reached.
        """
        codes, words = np.asarray(operations), np.asarray(keys)
        times = check_timestamps(timestamps, len(codes), self._reached)
        asked = self.spec.query_numbers(windows, len(codes))
        gaps = np.diff(times // self.spec.period, prepend=self._reached // self.spec.period)
        starts = np.union1d(np.flatnonzero(gaps), [0])
        parts = []
        for start, stop in pairwise([*starts.tolist(), len(codes)]):
            if start < stop and gaps[start]:
                self.pass_ticks(int(min(gaps[start], self.spec.window_blocks + 1)))
            own = slice(start, stop)
            parts.append(self._send(codes[own], words[own], asked[own], **pauses))
        if len(times):
            self._reached = int(times[-1])
        return _answers(*parts)

    def perform_freely(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: ArrayLike | None = None,
        *,
        period: int | None = None,
        **pauses: Any,
    ) -> TimingAnswers:
        """Perform operations one per cycle while ticks come; their answers tell the times.

        Parameters
        ----------
        operations, keys, windows
            As for `perform`.
        period : int, optional
            Cycles from one tick to the next, by default the least.
        pauses
            As for `perform`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        codes = np.asarray(operations)
        asked = self.spec.query_numbers(windows, len(codes))
        self._library.lately_period(self._unit, period or self.profile.least_period)
        told = self._send(codes, keys, asked, **pauses)
        if self._source == "tick":
            self._library.lately_period(self._unit, 0)
        self.idle(CONTROL_LAG)
        return _answers(told)


class CompiledCountedTiming(CompiledStamps):
    """A `CountedTimingUnit` in compiled simulation; see `CompiledStamps`."""

    spec: PartitionedTimingSpec

    def __init__(self, spec: PartitionedTimingSpec, **options: Any) -> None:
        self.spec = spec
        super().__init__(spec, **options)

    def reset(self) -> None:
        """Reset the unit, which clears its memory, and wait for that."""
        super().reset()
        self._ticks = self._of_block = 0

    @property
    def memory(self) -> NDArray[np.int64]:
        """Ages of all cells, as the golden model's.

        Returns
        -------
        ndarray of int64, shape (hashes, cells)
        """
        self.idle(2 * self._latency)
        return self._ages(self._ticks)

    def apply(
        self, operations: ArrayLike, keys: ArrayLike, windows: ArrayLike | None = None
    ) -> TimingAnswers:
        """Perform a mixed sequence of operations; as `perform`."""
        return self.perform(operations, keys, windows=windows)

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        times: None = None,
        windows: ArrayLike | None = None,
        **pauses: Any,
    ) -> TimingAnswers:
        """Perform a mixed sequence of operations; as the golden model's method.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
        keys, windows : array_like of int
            As for `PartitionedTimingFilter.perform`.
        pauses
            As for `CompiledTiming.perform`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        codes = np.asarray(operations)
        told = self._send(codes, keys, self.spec.query_numbers(windows, len(codes)), **pauses)
        self._count(codes)
        return _answers(told)

    def _count(self, codes: NDArray[Any]) -> None:
        """Count the ticks, one for each block that is complete; with a CLEAR a block begins."""
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        clears = np.flatnonzero(codes == Operation.CLEAR)
        for number, part in enumerate(np.split(inserts, clears)):
            held = 0 if number else self._of_block
            blocks, self._of_block = divmod(held + int(part.sum()), self.spec.block)
            self._ticks += blocks


def _answers(*parts: Told) -> TimingAnswers:
    seen, age, oldest, time = (
        np.concatenate([getattr(part, name) for part in parts]) for name in TimingAnswers._fields
    )
    return TimingAnswers(seen, *(array.astype(np.int64) for array in (age, oldest, time)))
