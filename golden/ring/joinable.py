"""Rings that turn by the clock, so that rings of several processes can be joined."""

from copy import deepcopy
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..filter import Words
from ..operations import Operation, OperationBit
from ..results import Ages, Results
from ..spec import FilterSpec
from ..timed_filter import TimedFilter
from ..times import Times
from .rotation import RotationState
from .sliding import SlidingFilter


class Joinable(TimedFilter):
    """Mixin of `TimeLimitedRing` that turns and joins rings.

    A joinable ring turns at multiples of the specification's `generation_span`, counted from time
    0. Before an insertion it performs all turns that are due since the previous insertion. So a
    segment covers the same period in all rings.
    """

    # Two unions of two rings in two threads would wait for each other.
    _unlocked = (*TimedFilter._unlocked, "union")
    _spec: FilterSpec
    _joinable: bool
    _turns: RotationState
    _ring: SlidingFilter

    @property
    def joinable(self) -> bool:
        """Whether the clock alone turns the ring, and `union` can join it with others."""
        return self._joinable

    def union(self, *others: Self) -> Self:
        """Return a new ring with the keys of this ring and of `others`.

        The result equals, bit for bit, a ring that performed all insertions in order of time; its
        counters are the sums. So the union reports every key that any of the rings reports.

        Let n be the insertions of all rings in a generation, m the bits of a part and k the parts
        of a segment. Such a segment matches a fresh key with probability (1 - (1 - 1/m)^n)^k. The
        false-positive rate of a GEBF is 1 minus the product of the miss probabilities of its
        segments. So the `rate` of `for_span` must cover all rings together. `status` only reports
        whether a ring was overfull by itself, or is overfull now. The
        `estimated_false_positive_rate` counts the bits.

        Parameters
        ----------
        *others : TimeLimitedRing
            Joinable rings with the same specification and secrets, and times from the same clock.

        Raises
        ------
        TypeError, ValueError
            If a ring is not joinable, or its specification or secrets differ.
        """
        for one in (self, *others):
            if not isinstance(one, Joinable) or not one._joinable:
                raise TypeError(
                    "union: must have rings of for_span(joinable=True), which turn by the clock, "
                    f"not {one!r}"
                )
            if one._spec != self._spec:
                raise ValueError(f"union: must have one specification, not also {one._spec}")
        rings = [deepcopy(one) for one in (self, *others)]
        if any(_secrets(one) != _secrets(rings[0]) for one in rings[1:]):
            raise ValueError("union: must have rings with the same secrets, not others")
        latest = max(one._last for one in rings)
        for one in rings:
            one._advance(latest)
        joined = rings[0]
        joined._ring._ring.filled = sum(one._ring._ring.filled for one in rings)
        bits = [one._ring._segments.bits for one in rings]
        joined._ring._segments.bits = np.bitwise_or.reduce(bits)
        joined._turns.join([one._turns for one in rings[1:]])
        for name in ("operations", "_inserted_keys", "hits", "late"):
            setattr(joined, name, sum(getattr(one, name) for one in rings))
        joined._last, joined._event_times = latest, any(one._event_times for one in rings)
        joined.clock = self.clock
        return joined

    def _perform(self, codes: NDArray[np.uint8], keys: Words, times: Any, *_: Any) -> Results:
        if not self._joinable:
            return self._perform_in_turn(codes, keys, times)
        if (codes == Operation.SHIFT).any():
            raise ValueError("operations: must not be SHIFT for a joinable ring, which turns alone")
        ends = (np.flatnonzero(codes == Operation.CLEAR) + 1).tolist()
        parts = [slice(*ends) for ends in pairwise(dict.fromkeys([0, *ends, len(codes)]))]
        return Results.joined([self._turn_and_perform(codes[p], keys[p], times[p]) for p in parts])

    def _turn_and_perform(self, codes: NDArray[np.uint8], keys: Words, times: Times) -> Results:
        """Perform operations of which only the last may be a CLEAR, with a SHIFT for each turn."""
        before = max(self._last, 0) // self._spec.generation_span
        inserts = (codes & (OperationBit.INSERT | OperationBit.ALONE)) == OperationBit.INSERT
        reached = np.where(inserts, times // self._spec.generation_span, before)
        turns = self._shortest(np.diff(np.maximum.accumulate(reached), prepend=before))
        final = np.cumsum(turns + 1) - 1
        each = np.full(len(codes) + int(turns.sum()), Operation.SHIFT, np.uint8)
        each[final] = codes
        steps = np.repeat(keys, turns + 1, axis=0), np.repeat(times, turns + 1)
        return self._perform_in_turn(each, *steps).part(final)

    def _perform_in_turn(self, codes: NDArray[np.uint8], keys: Words, times: Times) -> Results:
        """Perform checked operations, and turn where the policy has it."""
        passage = self._turns.follow(codes, times)
        self._last = self._turns.latest
        # An operation that turns becomes a query, a shift and an insertion.
        turned, asks = passage.turned, codes == Operation.CHECK_AND_INSERT
        steps = 1 + turned + (turned & asks)
        final = np.cumsum(steps) - 1
        begin = final - steps + 1
        each = np.repeat(codes, steps)
        each[begin[turned & asks]] = Operation.QUERY
        each[final[turned] - 1] = Operation.SHIFT
        each[final[turned]] = Operation.INSERT
        found = self._ring._perform(each, np.repeat(keys, steps, axis=0)).age[begin]
        age = self._within(found, passage.alive)
        covered = passage.guaranteed_span + 1
        return Results.of(age >= 0, age, status=passage.status, time=times, covered=covered)

    def _within(self, age: Ages, alive: NDArray[np.int64]) -> Ages:
        """Ages of the runs that count, -1 for other runs."""
        return np.where(age + self._spec.run <= alive, age, -1)

    def _advance(self, now: int) -> None:
        """Perform the turns that an insertion at the time `now` would perform."""
        period = self._spec.generation_span
        turns = self._shortest(np.array([max(now, 0) // period - max(self._last, 0) // period]))
        codes = np.full(int(turns[0]), Operation.SHIFT, np.uint8)
        keys = np.zeros((len(codes), -(-self.key_bits // 64)), np.uint64)
        self._perform_in_turn(codes, keys, np.full(len(codes), now))

    def _shortest(self, turns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return fewer turns with the same effect if the turns clear every segment."""
        segments = self._spec.segments
        return np.where(turns < 2 * segments, turns, segments + turns % segments)


def _secrets(ring: Joinable) -> Any:
    return ring._ring._state()[0].get("secrets"), ring._digest_secret
