"""Turns of a ring: after a number of insertions, after a time, or both.

Turns depend only on operations and timestamps, never on keys. So `RotationState` runs before the
memory of a ring of any family, and determines its shifts.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..operations import Operation, OperationBit
from ..spec import FilterSpec
from ..times import NEVER, TIME_LIMIT, Times
from .slices import check_whole


class PoolStatus(StrEnum):
    """Guarantees of a ring whose window is a span of time, at a given time."""

    OK = "ok"
    """The whole span is covered, and the false-positive rate is within its bound."""
    WINDOW_SHORTENED = "window shortened"
    """A slice was retired within the span, so keys may be missing; the rate is within its bound."""
    RATE_EXCEEDED = "rate exceeded"
    """A slice is overfull, so the rate may exceed its bound; the whole span is covered."""

    @property
    def code(self) -> int:
        """Code of the status in arrays: 0, 1 or 2, in the order above."""
        return STATUSES.index(self)


STATUSES: tuple[PoolStatus, ...] = tuple(PoolStatus)
"""Statuses by their codes."""


BY_CLOCK = "by clock"
"""Policy of joinable rings: they turn at multiples of the time of a generation."""

_RULES = ("overfill", "shorten", BY_CLOCK)


@dataclass(frozen=True, kw_only=True)
class RotationPolicy:
    """Rule that ends a generation of a ring.

    Attributes
    ----------
    writes : int
        Number of youngest slices that every insertion writes: k of an APBF, 1 of a GEBF.
    settled : int
        Number of other slices of the ring: l of an APBF, r of a GEBF.
    generation : int
        Initial number of insertions that fill a generation.
    span : int, optional
        Time for which keys are kept. If None, only insertions end a generation, and slices count at
        any time.
    generation_span : int, optional
        Time after its first insertion at which a generation becomes old; only with `span`.
    when_full : str
        One of `WHEN_FULL`; "shorten" without `span`. With `BY_CLOCK`, insertions never turn the
        ring: only `shift` does.
    """

    writes: int
    settled: int
    generation: int
    span: int | None = None
    generation_span: int | None = None
    when_full: str = "shorten"

    @classmethod
    def of(cls, spec: FilterSpec) -> Self:
        """Return the policy of a specification."""
        return cls(
            writes=spec.run,
            settled=spec.window_generations,
            generation=spec.generation,
            span=spec.span,
            generation_span=spec.generation_span,
            when_full=spec.when_full or "shorten",
        )


class Followed(NamedTuple):
    """Effects of `RotationState` on n operations; all arrays have shape (n,)."""

    turned: NDArray[np.bool_]
    """Whether the ring turns between an operation's query and its insertion."""
    alive: NDArray[np.int64]
    """Number of youngest slices that count in the operation's query."""
    status: NDArray[np.uint8]
    """Code of the `PoolStatus` of the answer: at the operation's time, before its effects."""
    guaranteed_span: NDArray[np.int64]
    """Greatest age at which the answer reports every key; -1 if there is none."""

    @classmethod
    def empty(cls, count: int) -> Self:
        """Return arrays for `count` operations."""
        kinds: list[Any] = [np.bool_, np.int64, np.uint8, np.int64]
        return cls._make(np.zeros(count, kind) for kind in kinds)

    def part(self, part: slice) -> Self:
        """Return views of a `part` of the operations."""
        return type(self)._make(array[part] for array in self)


class RotationState:
    """State that decides when a ring turns: everything about its slices except their bits.

    A slice *counts* at a time if its last insertion is at most the span ago. The youngest slices,
    which are still written, have the time of the ring's last insertion. A generation is *full* when
    it has `length` insertions, and *old* when its first insertion is at least `generation_span`
    ago. The ring is *out* of slices while the oldest slice counts. An insertion first turns the
    ring if the generation is full or old and the ring is not out of slices. It also turns the ring
    if the generation is full, the ring is out of slices, and `when_full` is "shorten".

    Attributes
    ----------
    policy : RotationPolicy
    generation : int
        Length of the following generations, in insertions.
    length : int
        Insertions that fill the current generation.
    filled : int
        Insertions in the current generation so far; more than `length` if it is overfull.
    first, last : int
        Times of the generation's first insertion and the ring's last insertion; or `NEVER`.
    lost : int
        Time of the last slice that was retired while it still counted, or `NEVER`.
    latest : int
        Time of the last insertion or shift, or `NEVER`; no operation has an earlier time.
    settled : list of int
        Time of each slice that is no longer written, by position from the youngest; else `NEVER`.
    overfull : list of bool
        Whether each slice is overfull, by position.
    insertions, shifts, shortened, overfilled : int
        Counts since construction: insertions; turns; turns that retired a slice while it counted;
        insertions beyond the length of their generation.
    """

    def __init__(self, policy: RotationPolicy) -> None:
        self.policy = policy
        self.generation = policy.generation
        self._span = TIME_LIMIT if policy.span is None else policy.span
        self._old = TIME_LIMIT if policy.generation_span is None else policy.generation_span
        self.insertions = self.shifts = self.shortened = self.overfilled = 0
        self.clear()

    def clear(self) -> None:
        """Forget all insertions; the counters keep their values."""
        slices = self.policy.writes + self.policy.settled
        self.length = self.generation
        self.filled = 0
        self.first = self.last = self.lost = self.latest = NEVER
        self.settled = [NEVER] * slices
        self.overfull = [False] * slices

    def shift(self, now: int) -> None:
        """Turn at the time `now`, in any state of the generation."""
        if now <= self._deadline(self.settled[-1]) and self.policy.span is not None:
            self.lost = self.settled[-1]
            self.shortened += 1
        self.settled[self.policy.writes - 1] = self.last
        self.settled = [NEVER, *self.settled[:-1]]
        self.overfull = [False, *self.overfull[:-1]]
        self.latest = now
        self.filled = 0
        self.length = self.generation
        self.shifts += 1

    def join(self, others: "list[RotationState]") -> None:
        """Add the insertions of `others`, which turned at the same times."""
        states = [self, *others]
        self.first = min((one.first for one in states if one.filled), default=self.first)
        for name in ("last", "lost", "latest"):
            setattr(self, name, max(getattr(one, name) for one in states))
        for name in ("filled", "insertions", "shortened", "overfilled"):
            setattr(self, name, sum(getattr(one, name) for one in states))
        self.settled = [max(times) for times in zip(*(one.settled for one in states), strict=True)]
        self.overfull = [any(them) for them in zip(*(one.overfull for one in states), strict=True)]
        if self.filled > self.length:
            self.overfull[: self.policy.writes] = [True] * self.policy.writes

    # At given times

    def alive(self, times: Times) -> NDArray[np.int64]:
        """Number of youngest slices that count at each of the `times`, shape (n,)."""
        return self._alive(times, np.full(len(times), self.last))

    def status(self, now: int) -> PoolStatus:
        """Guarantees at the time `now`."""
        one, last = np.array([now]), np.array([self.last])
        code = self._status(one, last, np.array([self.filled]))[0]
        return STATUSES[int(code)]

    def guaranteed_span(self, now: int) -> int:
        """Greatest age at which every key is reported at the time `now`; -1 if there is none."""
        return int(self._guaranteed_span(np.array([now]))[0])

    def _deadline(self, time: int) -> int:
        """Last time at which a slice with a given time counts."""
        return NEVER if time == NEVER else time + self._span

    def _alive(self, times: Times, last: Times) -> NDArray[np.int64]:
        settled = self.settled[: self.policy.writes - 1 : -1]
        deadlines = [time + self._span for time in settled if time != NEVER]
        counting = len(deadlines) - np.searchsorted(deadlines, times)
        fresh = (last != NEVER) & (times - last <= self._span)
        return np.where(fresh, self.policy.writes + counting, 0)

    def _status(self, times: Times, last: Times, filled: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Codes at times, given the last insertion and the fill of the generation at each."""
        position = self.overfull.index(True) if True in self.overfull else None
        until: Any = NEVER
        if position is not None:
            written = position < self.policy.writes
            until = (last if written else self.settled[position]) + self._span
        until = np.where(filled > self.length, last + self._span, until)
        codes = np.where(times <= until, PoolStatus.RATE_EXCEEDED.code, PoolStatus.OK.code)
        if self.lost != NEVER:
            codes[times - self.lost <= self._span] = PoolStatus.WINDOW_SHORTENED.code
        return codes.astype(np.uint8)

    def _guaranteed_span(self, times: Times) -> NDArray[np.int64]:
        if self.policy.span is None or self.lost == NEVER:
            return np.full(len(times), -1 if self.policy.span is None else self._span)
        return np.minimum(self._span, times - self.lost - 1)

    # Many operations

    def follow(self, codes: NDArray[np.uint8], times: Times) -> Followed:
        """Follow operations one after another, and return the results that depend on times.

        The `codes`, shape (n,), are values of `Operation` without removal. The `times`, shape (n,),
        never decrease.
        """
        if (core := compilation.core()) is not None:
            return self._follow_compiled(core, codes, times)
        passage = Followed.empty(len(codes))
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        controls = np.flatnonzero(codes & OperationBit.ALONE)
        at, insertions = np.flatnonzero(inserts), times[inserts]
        start = 0
        while start < len(codes):
            ahead = int(np.searchsorted(at, start))
            one = times[start : start + 1]
            before = Followed.empty(1)
            self._tell(before, one, np.array([self.last]), np.array([self.filled]))
            if codes[start] == Operation.CLEAR:
                self.clear()
            elif codes[start] == Operation.SHIFT:
                self.shift(int(one[0]))
            elif inserts[start] and self._due(one) == 0:
                self.shift(int(one[0]))
                passage.turned[start] = True
            due = ahead + self._due(insertions[ahead:])
            control = int(np.searchsorted(controls, start, side="right"))
            ends = [*at[due : due + 1], *controls[control : control + 1], len(codes)]
            part = slice(start, int(min(ends)))
            self._stretch(inserts[part], times[part], passage.part(part))
            # The query comes before the turn.
            passage.alive[start] = before.alive[0]
            passage.status[start] = before.status[0]
            passage.guaranteed_span[start] = before.guaranteed_span[0]
            start = part.stop
        return passage

    def _follow_compiled(self, core: Any, codes: NDArray[np.uint8], times: Times) -> Followed:
        passage = Followed.empty(len(codes))
        vector = self.vector()
        core.follow(np.ascontiguousarray(codes), np.ascontiguousarray(times), *vector, *passage)
        self.take(*vector)
        return passage

    def vector(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the state for the extension: numbers, settled times, overfull slices."""
        policy = self.policy
        # Python's integers are unbounded; no part of a stream reaches this value.
        sizes = [min(size, TIME_LIMIT) for size in (self.filled, self.length, self.generation)]
        moments = self.first, self.last, self.lost, self.latest
        spanned, rule = policy.span is not None, _RULES.index(policy.when_full)
        limits = policy.writes, self._span, self._old, spanned, rule
        state = np.array([*sizes, *moments, 0, 0, 0, 0, *limits], np.int64)
        return state, np.array(self.settled, np.int64), np.array(self.overfull)

    def take(
        self, state: NDArray[np.int64], settled: NDArray[np.int64], overfull: NDArray[np.bool_]
    ) -> None:
        """Restore the state from the result of `vector`, which the extension has changed."""
        before = min(self.length, TIME_LIMIT)
        values = state.tolist()
        self.filled, length, _, self.first, self.last, self.lost, self.latest = values[:7]
        insertions, shifts, shortened, overfilled = values[7:11]
        self.settled, self.overfull = settled.tolist(), overfull.tolist()
        self.insertions += insertions
        self.shifts += shifts
        self.shortened += shortened
        self.overfilled += overfilled
        if length != before:
            self.length = self.generation

    def _tell(
        self, passage: Followed, times: Times, last: Times, filled: NDArray[np.int64]
    ) -> None:
        """Fill in the results at times, given the last insertion and the fill before each."""
        passage.alive[:] = self._alive(times, last)
        passage.status[:] = self._status(times, last, filled)
        passage.guaranteed_span[:] = self._guaranteed_span(times)

    def _due(self, times: Times) -> int:
        """Count the insertions at `times` that come before the first that turns."""
        if not len(times) or self.policy.when_full == BY_CLOCK:
            return len(times)
        first = int(times[0]) if self.filled == 0 else self.first
        full = max(0, self.length - self.filled)
        old = int(np.searchsorted(times, first + self._old))
        free = int(np.searchsorted(times, self._deadline(self.settled[-1]), side="right"))
        if self.policy.when_full == "shorten":
            return min(full, max(old, free))
        return max(min(full, old), free)

    def _stretch(self, inserts: NDArray[np.bool_], times: Times, passage: Followed) -> None:
        """Count one or more operations that do not turn the ring."""
        # Times never decrease: the last insertion has the greatest time.
        last = np.maximum.accumulate(np.where(inserts, times, self.last))
        filled = self.filled + np.cumsum(inserts)
        before = np.append(self.last, last[:-1]), np.append(self.filled, filled[:-1])
        self._tell(passage, times, *before)
        if not inserts.any():
            return
        if self.filled == 0:
            self.first = int(times[inserts.argmax()])
        beyond = int(filled[-1]) - max(self.filled, self.length)
        if beyond > 0:
            self.overfilled += beyond
            self.overfull[: self.policy.writes] = [True] * self.policy.writes
        self.insertions += int(filled[-1]) - self.filled
        self.filled = int(filled[-1])
        self.last = self.latest = int(last[-1])

    # Files

    def numbers(self) -> dict[str, Any]:
        """Return the state and the counters as numbers for JSON."""
        return {
            "generation": [self.filled, self.length, self.generation],
            "times": [self.first, self.last, self.lost, self.latest],
            "settled": list(self.settled),
            "overfull": list(self.overfull),
            "counters": [self.insertions, self.shifts, self.shortened, self.overfilled],
        }

    def restore(self, numbers: dict[str, Any]) -> None:
        """Restore the state and the counters from the result of `numbers`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the numbers cannot be the state of a ring with this policy.
        """
        self.insertions, self.shifts, self.shortened, self.overfilled = numbers["counters"]
        check_whole("insertions", self.insertions, 0)
        check_whole("shifts", self.shifts, 0)
        check_whole("shortened", self.shortened, 0, self.shifts)
        check_whole("overfilled", self.overfilled, 0, self.insertions)
        self.filled, self.length, self.generation = numbers["generation"]
        check_whole("insertions of the generation", self.filled, 0, self.insertions)
        check_whole("length of the generation", self.length, 1)
        check_whole("generation", self.generation, 1)
        self.first, self.last, self.lost, self.latest = numbers["times"]
        check_whole("last operation", self.latest, NEVER, TIME_LIMIT - 1)
        check_whole("last insertion", self.last, NEVER, self.latest)
        check_whole("first insertion", self.first, NEVER, self.last)
        check_whole("time of what was lost", self.lost, NEVER, self.last)
        self._restore_slices(list(numbers["settled"]), list(numbers["overfull"]))

    def _restore_slices(self, settled: list[Any], overfull: list[Any]) -> None:
        slices, writes = len(self.settled), self.policy.writes
        check_whole("settled times", len(settled), slices, slices)
        check_whole("overfull slices", len(overfull), slices, slices)
        latest = [NEVER] * writes + [self.last, *settled[writes:-1]]
        for time, most in zip(settled, latest, strict=True):
            check_whole("settled time", time, NEVER, most)
        if any(type(flag) is not bool for flag in overfull):
            raise ValueError(f"overfull slices: {overfull!r} does not fit the filter")
        self.settled, self.overfull = settled, overfull
