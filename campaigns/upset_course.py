"""Operations in which bits are flipped: mixed at random, with keys that come back at every age."""

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import Operation, WindowDictionarySpec
from lately.golden.hash.keys import random_keys
from lately.golden.operations import OperationBit
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from lately.hdl.build import UnitSpec

from .soak import course_kind
from .soak_course import Course
from .timing_soak import TimingCourse

INSERTING = 0.8
"""About the share of the operations that insert, but for filters with a clock of ticks."""

SPELLS = 8
"""Spells of a sequence for a filter with a clock of ticks, each with a share of insertions."""


def upset_course(unit: Any, spec: UnitSpec, seed: int) -> Course:
    """Return a comparison with golden whose operations show what an upset does.

    Half of the operations come for a key that was inserted within the last `window_operations`,
    each of these insertions as likely; the others for random keys.

    Parameters
    ----------
    unit, spec, seed
        As for `campaigns.soak_course.Course`.
    """
    kind: Any = course_kind(spec)
    kind = _Timing if kind is TimingCourse else type(kind.__name__, (_Recurring, kind), {})
    course: Course = kind(unit, spec, seed)
    return course


def window_operations(unit: Any, spec: UnitSpec) -> int:
    """Return about how many operations come in a window.

    Parameters
    ----------
    unit : Compiled
    spec : UnitSpec
    """
    if isinstance(spec, TimedTimingSpec):
        return int((spec.window_blocks + 1) * unit.profile.least_period)
    return round(spec.guaranteed_window / INSERTING)


class _Recurring(Course):
    """Draws keys that come back."""

    def _choose(self, count: int) -> tuple[NDArray[np.uint8], Any]:
        codes, _ = super()._choose(count)
        random = self._random
        keys = random_keys(random, count, self._spec.key_bits)
        inserting = np.flatnonzero(_inserts(codes)).tolist()
        window = window_operations(self._unit, self._spec)
        for at in np.flatnonzero(random.random(count) < 0.5).tolist():
            first, last = bisect_left(inserting, at - window), bisect_left(inserting, at)
            if first < last:
                keys[at] = keys[inserting[int(random.integers(first, last))]]
        return codes, keys


def _inserts(codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))


class _Timing(_Recurring, TimingCourse):
    """Ticks come as close as they may, and few operations insert: a window has thousands."""

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        random, count = self._random, len(codes)
        begins = np.unique([0, *random.integers(0, count, SPELLS - 1)])
        # From an eighth of its cells to all of them are set within a window.
        most = self._spec.cells / window_operations(self._unit, self._spec)
        shares = most * 8 ** random.uniform(-1, 0, len(begins))
        stays = random.random(count) < np.repeat(shares, np.diff(begins, append=count))
        codes[~stays] = Operation.QUERY
        codes[random.integers(0, count)] = Operation.CLEAR

    def _performed(
        self, codes: NDArray[np.uint8], keys: Any, asked: NDArray[np.int64]
    ) -> tuple[Any, Any]:
        found = self._unit.perform_freely(codes, keys, asked)
        self._ticks = self._unit.ticks
        return found, self._model.perform(codes, keys, found.time * self._spec.period, asked)


def promised(spec: UnitSpec, sent: Any, beheld: Any) -> NDArray[np.bool_]:
    """Tell which results must report their key: it was inserted within the window.

    Parameters
    ----------
    spec : UnitSpec
    sent : Sent
        What was sent to the unit.
    beheld : Beheld
        What the unit told without an upset. A key that it does not report is not promised: a SHIFT
        or a status had ended its window.

    Returns
    -------
    ndarray of bool, shape (lanes times beats,)
    """
    lanes = len(sent.codes) // len(sent.alone)
    last: dict[tuple[int, ...], int] = {}
    insertions = 0
    found = np.zeros(len(sent.codes), np.bool_)
    reported = beheld.seen == 2
    for at, (code, key) in enumerate(zip(sent.codes.tolist(), sent.keys.tolist(), strict=True)):
        operation = code & 0x7F
        if at % lanes == 0 and sent.alone[at // lanes] == Operation.CLEAR:
            last.clear()
        if operation == Operation.CLEAR:
            last.clear()
        elif operation == Operation.REMOVE:
            last.pop(tuple(key), None)
        elif operation < OperationBit.ALONE:
            now, longest = _clock(spec, sent, beheld, at, insertions)
            if operation & OperationBit.QUERY and tuple(key) in last:
                found[at] = reported[at] and now - last[tuple(key)] <= longest
            if operation & OperationBit.INSERT:
                last[tuple(key)] = now
                insertions += 1
    return found


def _clock(spec: UnitSpec, sent: Any, beheld: Any, at: int, insertions: int) -> tuple[int, int]:
    """Return the time of an operation, and the age up to which it promises to report its key."""
    number = int(sent.numbers[at])
    if isinstance(spec, TimedTimingSpec):
        return int(beheld.time[at]), number
    if isinstance(spec, PartitionedTimingSpec):
        return insertions, number * spec.block
    if isinstance(spec, WindowDictionarySpec):
        return insertions, number
    return (number, spec.span or 0) if spec.timed else (insertions, spec.guaranteed_window)
