"""Rules for when a ring shifts: after a number of insertions, after a time, or both.

Shifts depend only on operations and timestamps, never on keys. So `RotationState` can simulate the
shifts of a ring of any family without the ring's memory.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..cached import Element
from ..errors import require_count
from ..operations import Operation
from ..spec.ring import FilterSpec
from ..state_files import check_whole
from ..times import NEVER, TIME_LIMIT, Times


class PoolStatus(StrEnum):
    """Which guarantees of a ring with a time window hold at a given time."""

    OK = "ok"
    """The whole span is covered, and the false-positive rate is within its bound."""
    WINDOW_SHORTENED = "window shortened"
    """A slice was retired within the span, so keys may be missing; the rate is within its bound."""
    RATE_EXCEEDED = "rate exceeded"
    """A slice is overfull, so the rate may exceed its bound; the whole span is covered."""

    @property
    def code(self) -> int:
        """Number of the status in arrays: 0 is OK, 1 is WINDOW_SHORTENED, 2 is RATE_EXCEEDED."""
        return STATUSES.index(self)


STATUSES: tuple[PoolStatus, ...] = tuple(PoolStatus)  # indexed by code
BY_CLOCK = "by clock"  # policy of joinable rings: shift at multiples of `generation_span`
_RULES = ("overfill", "shorten", BY_CLOCK)


@dataclass(frozen=True, kw_only=True)
class RotationPolicy:
    """Rule that decides when a generation of a ring ends."""

    writes: int  # number of slices that an insertion writes: k of an APBF, 1 of a GEBF
    settled: int  # number of other slices: l of an APBF, r of a GEBF
    generation: int  # initial number of insertions that fill a generation
    span: int | None = None  # time for which keys are kept; None: slices never expire
    generation_span: int | None = None  # time after its first insertion at which a generation ends
    # one of `WHEN_FULL`, or "shorten" if there is no `span`, or `BY_CLOCK` if only calls of
    # `shift` end a generation
    when_full: str = "shorten"

    @classmethod
    def of(cls, spec: FilterSpec) -> Self:
        """Return the policy that a specification describes."""
        return cls(
            writes=spec.run,
            settled=spec.window_generations,
            generation=spec.generation,
            span=spec.span,
            generation_span=spec.generation_span,
            when_full=spec.when_full or "shorten",
        )


class Followed(NamedTuple):
    """Results of `RotationState.follow` for n operations; all arrays have shape (n,)."""

    turned: NDArray[np.bool_]  # whether an insertion shifts the ring, after the query
    alive: NDArray[np.int64]  # number of youngest slices that the query can match
    status: NDArray[np.uint8]  # code of the `PoolStatus` before the operation
    guaranteed_span: NDArray[np.int64]  # maximum age at which every key is reported, or -1


_KINDS: list[Any] = [np.bool_, np.int64, np.uint8, np.int64]
_NUMBERS = 12  # elements of a `RotationState` before the times of its slices


class RotationState:
    """State that decides when a ring shifts: everything about its slices except their bits.

    A slice *counts* at a time if its last insertion is at most the span ago. The youngest slices,
    which are still written, have the time of the ring's last insertion. A generation is *full* when
    it has `length` insertions, and *old* when its first insertion is at least `generation_span`
    ago. The ring is *out of slices* while the oldest slice counts. An insertion first shifts the
    ring if the generation is full or old and the ring is not out of slices. An insertion also
    shifts the ring if the generation is full, the ring is out of slices, and `when_full` is
    "shorten".
    """

    # Number of insertions in the current generation; numbers that fill the current generation and
    # the following generations.
    filled, length, generation = map(Element, range(3))
    # Times of the generation's first insertion, the ring's last insertion, the last slice that was
    # retired while it counted, and the last insertion or shift; each may be `NEVER`.
    first, last, lost, latest = map(Element, range(3, 7))
    overfull = Element(7)  # position of the youngest overfull slice; -1 if there is none
    # Counts since construction: insertions; shifts; shifts that retired a slice while it counted;
    # insertions beyond the length of their generation.
    insertions, shifts, shortened, overfilled = map(Element, range(8, 12))

    def __init__(self, policy: RotationPolicy) -> None:
        require_count("generation", policy.generation, high=TIME_LIMIT)
        self.policy = policy
        self._span = TIME_LIMIT if policy.span is None else policy.span
        self._old = TIME_LIMIT if policy.generation_span is None else policy.generation_span
        self._slices = policy.writes + policy.settled
        self._numbers = np.zeros(_NUMBERS + self._slices, np.int64)
        self.generation = policy.generation
        self.clear()

    @property
    def settled(self) -> Times:
        """Times of the last insertions into the slices that are no longer written.

        The youngest slice is first, and a slice without insertions has `NEVER`.
        """
        return self._numbers[_NUMBERS:]

    def clear(self) -> None:
        """Forget all insertions; the counters keep their values."""
        self.length = self.generation
        self.filled = 0
        self.first = self.last = self.lost = self.latest = NEVER
        self.settled[:] = NEVER
        self.overfull = -1

    def shift(self, now: int) -> None:
        """Shift the ring to its next generation at the time `now`."""
        settled, oldest = self.settled, int(self.settled[-1])
        if self.policy.span is not None and self._counts(oldest, now):
            self.lost = oldest
            self.shortened += 1
        settled[self.policy.writes - 1] = self.last
        settled[1:] = settled[:-1].copy()
        settled[0] = NEVER
        if self.overfull >= 0:
            self.overfull = self.overfull + 1 if self.overfull + 1 < self._slices else -1
        self.latest = now
        self.filled = 0
        self.length = self.generation
        self.shifts += 1

    def insert(self, now: int) -> None:
        """Count an insertion at the time `now`, without shifting the ring."""
        if self.filled == 0:
            self.first = now
        self.filled += 1
        if self.filled > self.length:
            self.overfilled += 1
            self.overfull = 0
        self.insertions += 1
        self.last = self.latest = now

    def perform(self, code: int, now: int) -> bool:
        """Perform an operation at the time `now`; return whether an insertion shifted the ring."""
        due = code in (Operation.INSERT, Operation.CHECK_AND_INSERT) and self._is_due(now)
        if due or code == Operation.SHIFT:
            self.shift(now)
        if code in (Operation.INSERT, Operation.CHECK_AND_INSERT):
            self.insert(now)
        elif code == Operation.CLEAR:
            self.clear()
        return due

    def _is_due(self, now: int) -> bool:
        full = self.filled >= self.length
        if self.policy.when_full == BY_CLOCK:
            return False
        if self._counts(int(self.settled[-1]), now):
            return full and self.policy.when_full == "shorten"
        return full or (self.filled > 0 and now >= self.first + self._old)

    def due_by_clock(self, now: int) -> int:
        """Return the number of shifts that are due in a joinable ring.

        After a long pause, turns of the whole ring that would have no effect are not counted.
        """
        if self.policy.when_full != BY_CLOCK:
            return 0
        turns, segments = now // self._old - max(self.latest, 0) // self._old, self._slices + 1
        return turns if turns < 2 * segments else segments + turns % segments

    def join(self, others: "list[RotationState]") -> None:
        """Add the insertions of `others`, which shifted at the same times."""
        states = [self, *others]
        self.first = min((state.first for state in states if state.filled), default=self.first)
        for name in ("last", "lost", "latest"):
            setattr(self, name, max(getattr(state, name) for state in states))
        for name in ("filled", "insertions", "shortened", "overfilled"):
            setattr(self, name, sum(getattr(state, name) for state in states))
        self.settled[:] = np.max([state.settled for state in states], axis=0)
        self.overfull = min((state.overfull for state in states if state.overfull >= 0), default=-1)
        if self.filled > self.length:
            self.overfull = 0

    def alive(self, now: int) -> int:
        """Return how many of the youngest slices can still match at the time `now`."""
        if not self._counts(self.last, now):
            return 0
        settled = self.settled[self.policy.writes :].tolist()
        return self.policy.writes + sum(self._counts(time, now) for time in settled)

    def status(self, now: int) -> PoolStatus:
        """Return the guarantees that hold at the time `now`."""
        if self._counts(self.lost, now):
            return PoolStatus.WINDOW_SHORTENED
        written = self.overfull < self.policy.writes
        time = self.last if written else int(self.settled[self.overfull])
        exceeded = self.overfull >= 0 and self._counts(time, now)
        return PoolStatus.RATE_EXCEEDED if exceeded else PoolStatus.OK

    def guaranteed_span(self, now: int) -> int:
        """Return the age up to which every key is reported; -1 if the ring has no span."""
        if self.policy.span is None:
            return -1
        return self._span if self.lost == NEVER else min(self._span, now - self.lost - 1)

    def _counts(self, time: int, now: int) -> bool:
        """Whether a slice whose last insertion was at `time` counts at `now`."""
        return bool(time != NEVER and now - time <= self._span)

    def follow(self, codes: NDArray[np.uint8], times: Times) -> Followed:
        """Simulate operations `codes` at non-decreasing `times`, both of shape (n,)."""
        passage = Followed._make(np.zeros(len(codes), kind) for kind in _KINDS)
        if (core := compilation.core()) is not None:
            operands = np.ascontiguousarray(codes), np.ascontiguousarray(times)
            core.follow(*operands, *self.shared(), *passage)
            return passage
        for at, (code, now) in enumerate(zip(codes.tolist(), times.tolist(), strict=True)):
            passage.alive[at] = self.alive(now)
            passage.status[at] = self.status(now).code
            passage.guaranteed_span[at] = self.guaranteed_span(now)
            passage.turned[at] = self.perform(code, now)
        return passage

    def shared(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the state, which the C extension modifies in place, and the policy as arrays."""
        policy = self.policy
        limits = policy.writes, self._span, self._old, policy.span is not None
        return self._numbers, np.array([*limits, _RULES.index(policy.when_full)], np.int64)

    def saved(self) -> dict[str, Any]:
        """Return the state and the counters as JSON values."""
        return {
            "generation": [self.filled, self.length, self.generation],
            "times": [self.first, self.last, self.lost, self.latest],
            "settled": self.settled.tolist(),
            "overfull": [position == self.overfull for position in range(self._slices)],
            "counters": [self.insertions, self.shifts, self.shortened, self.overfilled],
        }

    def restore(self, numbers: dict[str, Any]) -> None:
        """Restore a state that `saved` returned.

        Raises KeyError, TypeError or ValueError if the state does not fit this ring.
        """
        insertions, shifts, shortened, overfilled = numbers["counters"]
        filled, length, generation = numbers["generation"]
        first, last, lost, latest = numbers["times"]
        settled, overfull = list(numbers["settled"]), list(numbers["overfull"])
        slices, writes = self._slices, self.policy.writes
        check_whole("insertions", insertions, 0, TIME_LIMIT)
        check_whole("shifts", shifts, 0, TIME_LIMIT)
        check_whole("shortened", shortened, 0, shifts)
        check_whole("overfilled", overfilled, 0, insertions)
        check_whole("insertions of the generation", filled, 0, insertions)
        check_whole("length of the generation", length, 1, TIME_LIMIT)
        check_whole("generation", generation, 1, TIME_LIMIT)
        check_whole("last operation", latest, NEVER, TIME_LIMIT - 1)
        check_whole("last insertion", last, NEVER, latest)
        check_whole("first insertion", first, NEVER, last)
        check_whole("last retired insertion", lost, NEVER, last)
        check_whole("settled times", len(settled), slices, slices)
        check_whole("overfull slices", len(overfull), slices, slices)
        for time, later in zip(
            settled, [NEVER] * writes + [last, *settled[writes:-1]], strict=True
        ):
            check_whole("settled time", time, NEVER, later)
        if any(type(flag) is not bool for flag in overfull):
            raise ValueError(f"overfull slices: must be True or False, not {overfull!r}")
        youngest = overfull.index(True) if True in overfull else -1
        self._numbers[:] = [
            filled, length, generation, first, last, lost, latest, youngest,
            insertions, shifts, shortened, overfilled, *settled,
        ]  # fmt: skip
