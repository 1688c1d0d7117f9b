"""Functional coverage of units whose window is one in time: how turns and ticks meet.

Told from the operations with the times of their results, from the rules of `lately.golden.Turns`,
and from when ticks came to the port.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...golden import FilterSpec, Operation
from ...golden.operations import OperationBit
from ...golden.ring.turn_policy import TurnPolicy, Turns
from ...golden.times import NEVER
from .coverage import Collector
from .timed_parts import Answered


@dataclass(frozen=True)
class _Before:
    """What an operation finds: whether the generation is full or old, and the ring is out."""

    full: bool
    old: bool
    out: bool
    shortened: int
    overfilled: int


class TimedSampler:
    """Follows one test from its reset on, and tells a collector what happens.

    Parameters
    ----------
    spec : FilterSpec
        Specification of the unit.
    collector : Collector
        Counts what is seen.
    period : int
        Clocks after which a tick has had its effect, unless it waits for the spare.
    clock : int
        Length of a clock, in ns.
    """

    def __init__(self, spec: FilterSpec, collector: Collector, *, period: int, clock: int) -> None:
        self._spec = spec
        self._sample = collector.sample
        self._late = period * clock
        self._clock = clock
        self._turns = Turns(TurnPolicy.of(spec))

    def follow(self, answered: Iterable[Answered], ticks: Sequence[float]) -> None:
        """Look at all operations of a test in order, and at when the ticks came, in ns."""
        turned, last = False, None
        for one in answered:
            before = self._found(one.time)
            if last is not None:
                self._silence(one.time - last.time)
            self._waiting(one, ticks)
            now = self._perform(one, before)
            if last is not None and one.accepted - last.accepted == self._clock:
                self._beside(one.time - last.time, turned, now)
            turned, last = now, one

    def _found(self, time: int) -> _Before:
        turns = self._turns
        oldest = turns.settled[-1]
        return _Before(
            full=turns.filled >= turns.length,
            old=turns.filled > 0 and time - turns.first >= self._spec.generation_span,
            out=oldest != NEVER and time - oldest <= self._spec.span,
            shortened=turns.shortened,
            overfilled=turns.overfilled,
        )

    def _silence(self, ticks: int) -> None:
        if ticks > self._spec.span:
            wraps = ticks > 4 * self._spec.span
            self._sample("silence", "four spans" if wraps else "longer than the span")

    def _waiting(self, one: Answered, ticks: Sequence[float]) -> None:
        """Tell whether a tick waits, for longer than any other, that makes the generation old."""
        came = bisect_right(ticks, one.accepted - self._late)
        old_then = self._turns.filled and (
            one.time + 1 - self._turns.first == self._spec.generation_span
        )
        if came > one.time and old_then:
            self._sample("spare of an old generation", "not clean")

    def _perform(self, one: Answered, before: _Before) -> bool:
        """Tell what the operation does; return whether it turned the ring."""
        operation, turns = one.item.operation, self._turns
        if operation not in list(Operation):
            return False
        codes, times = np.array([operation], np.uint8), np.array([one.time])
        turned = bool(turns.follow(codes, times).turned[0])
        if operation == Operation.SHIFT:
            self._sample("SHIFT", "oldest counts" if before.out else "oldest does not count")
        elif turned:
            self._sample("turn", "by number and age" if before.full and before.old
                         else "by number" if before.full else "by age")  # fmt: skip
        elif operation & OperationBit.INSERT and not operation & OperationBit.ALONE:
            for reason, holds in (("full", before.full), ("old", before.old)):
                if holds and before.out:
                    self._sample("turn refused", reason)
        if turns.shortened > before.shortened and turned:
            self._sample("window", "shortened")
        if turns.overfilled > before.overfilled:
            self._sample("window", "overfilled")
        return turned or operation == Operation.SHIFT

    def _beside(self, ticks: int, turned: bool, turns: bool) -> None:
        """Tell what came between two operations of consecutive clocks."""
        if ticks:
            self._sample("tick between two clocks", "any")
            if turned:
                self._sample("tick between two clocks", "behind a turn")
            if turns:
                self._sample("tick between two clocks", "before a turn")
