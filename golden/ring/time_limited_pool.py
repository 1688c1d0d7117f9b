"""Time-limited APBF of a bounded pool: the profile of the time-limited filter for hardware."""

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import analysis
from ..errors import SpecificationError
from ..filter import Words, require_count
from ..spec.time_limited import PooledTimeLimitedSpec
from ..times import NEVER, TIME_LIMIT, Times, check_now
from .ring_sizes import apbf_rate, apbf_sizes
from .slice_ring import SliceRing
from .slices import check_whole
from .timed_slices import Hashes, TimeLimitedFilter

WHEN_FULL = ("shorten", "overfill")
"""Choices for a full generation while no slice of the pool is past the span."""


class PoolStatus(StrEnum):
    """Guarantees of a filter of a bounded pool at a given time."""

    OK = "ok"
    """The whole span is covered, and the false-positive rate is within its bound."""
    WINDOW_SHORTENED = "window shortened"
    """A slice was retired within the span: keys may be missing; the rate is within its bound."""
    RATE_EXCEEDED = "rate exceeded"
    """A slice has more keys than it should: the rate may be higher; the whole span is covered."""


class PooledTimeLimitedAPBF(TimeLimitedFilter):
    """Time-limited APBF of k + l + 1 slices of one size, for hardware.

    Slices are retired and queried by their times, as sections 6.1 and 6.4 of the
    paper ask, without slices of any size and in any number (sections 6.2 and 6.3),
    which hardware cannot have.

    The ring is that of an `APBF`, spare, hash functions, order and bits included,
    with two additions. Each slice has the time of its last insertion, settled when
    it leaves position k - 1, and counts in a query while that is at most `span`
    ago; the k youngest have the time of the last insertion of all. And a
    generation ends at an insertion that finds it *full*, with `generation`
    insertions, or *old*, `generation_span` or more after its first insertion.

    The shift takes the oldest slice out of the ring, to be zeroed as the next
    spare. If that slice is past the span, nothing is lost. Otherwise the pool has
    *run out*: a generation that is old but not full harmlessly goes on, and for a
    full one `when_full` decides:

    - "shorten": shift all the same. The false-positive rate keeps its bound;
      keys as old as the retired slice are lost before their time.
    - "overfill": insert beyond the capacity, until the oldest slice is past
      the span. No key is lost; the false-positive rate may exceed its bound.

    Every insertion takes place in either case. Operations and shifts depend
    on keys and timestamps alone, so hardware that holds an operation back until
    its spare has been zeroed agrees in every answer and bit.

    Parameters
    ----------
    k : int
        Slices that an insertion writes.
    l : int
        Further slices of the ring: generations into which the span is divided.
    span : int
        T, the time for which keys are kept, in units of the timestamps.
    slice_bits : int
        Bits of a slice, m; at most 2**32. Hardware needs a power of two.
    generation : int, optional
        Insertions that fill a generation; by default floor(m ln 2 / k), which
        fills a slice to one half.
    generation_span : int, optional
        Time after which a generation ends even if it is not full, at most T + 1. By
        default floor(T / l) + 1, the shortest with which time alone never exhausts
        the pool; a longer one leaves slices of the pool to bursts.
    when_full : str
        "shorten" or "overfill".

    Attributes
    ----------
    shortened : int
        Shifts that retired a slice within the span.
    overfilled : int
        Insertions beyond the capacity of their generation.

    Raises
    ------
    SpecificationError
        If l generations of `generation_span` do not take longer than `span`;
        and as `Filter`.
    """

    specification = PooledTimeLimitedSpec

    slice_bits: int
    generation: int
    generation_span: int
    when_full: str

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        # Both ends of a span may have a key.
        return apbf_sizes(keys + 1, fpr)

    @property
    def window_false_positive_rate(self) -> float:
        """Expected false-positive rate, averaged over full generations, keys distinct."""
        return apbf_rate(k=self.k, l=self.l, slice_bits=self.slice_bits, generation=self.generation)

    def _prepare(self) -> None:
        if self.generation is None:
            self.generation = analysis.apbf_generation(self.slice_bits, self.k)
        least = self.span // self.l + 1
        if self.generation_span is None:
            self.generation_span = least
        require_count("generation_span", self.generation_span, most=self.span + 1)
        if self.generation_span < least:
            raise SpecificationError(
                f"generation_span: must be at least {least} for l = {self.l} generations to "
                f"take longer than span = {self.span}, not {self.generation_span}"
            )
        if not isinstance(self.when_full, str):
            raise TypeError(f"when_full: must be a string, not {self.when_full!r}")
        if self.when_full not in WHEN_FULL:
            raise SpecificationError(
                f"when_full: must be one of {', '.join(WHEN_FULL)}, not {self.when_full}"
            )
        self._make_hash([self.slice_bits], functions=self.k + self.l + 1)

    def clear(self) -> None:
        """Forget everything, and return the ring to its first position."""
        self._ring = SliceRing(slices=self.k + self.l, bits=self.slice_bits)
        self._filled = 0
        self._first = self._last = self._lost = NEVER
        self.insertions = self.shifts = self.shortened = self.overfilled = 0

    # Guarantees

    def status(self, now: int) -> PoolStatus:
        """Tell whether span and false-positive rate are kept at the time `now`.

        Raises
        ------
        TypeError, ValueError
            If it is not a time, or before the last insertion; as `check_now`.
        """
        check_now(now, 1, self._last)
        if self._lost != NEVER and now - self._lost <= self.span:
            return PoolStatus.WINDOW_SHORTENED
        if any(full and now <= self._deadline(i) for i, full in enumerate(self._ring.overfull)):
            return PoolStatus.RATE_EXCEEDED
        return PoolStatus.OK

    def guaranteed_span(self, now: int) -> int:
        """Greatest age at which every key is reported at a time.

        It is `span` unless the window is shortened, and -1 if not even all keys
        that were inserted at `now` are reported. Parameters, errors: as `status`.
        """
        check_now(now, 1, self._last)
        return self.span if self._lost == NEVER else min(self.span, now - self._lost - 1)

    @property
    def worst_false_positive_rate(self) -> float:
        """Expected rate of fresh keys just before a shift, all slices within the span.

        It is a bound in all states but `PoolStatus.RATE_EXCEEDED`.
        """
        loads = analysis.segment_loads(self.k, self.l, self.generation, 1.0)
        fills = [
            analysis.segment_false_positive_rate(load, blocks=1, cells=self.slice_bits, parts=1)
            for load in loads
        ]
        return analysis.apbf_false_positive_rate(self.k, self.l, fills=fills)

    # State

    @property
    def storage_bits(self) -> int:
        """Bits of the slices of the ring; the spare is not counted."""
        return len(self._ring) * self.slice_bits

    @property
    def ring_position(self) -> int:
        """Physical slice that is the youngest now."""
        return self._ring.base

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical slices, the empty spare included, shape (k + l + 1, m)."""
        return self._ring.memory.copy()

    # The ring

    def _oldest_deadline(self) -> int:
        return self._deadline(len(self._ring) - 1)

    def _due(self, now: int) -> bool:
        full = self._filled >= self.generation
        if now <= self._oldest_deadline():
            return full and self.when_full == "shorten"
        return full or (self._filled > 0 and now - self._first >= self.generation_span)

    def _begin(self, times: Times, start: int) -> slice:
        now = int(times[start])
        if self._due(now):
            if now <= self._oldest_deadline():
                self._lost = self._ring.settled[-1]
                self.shortened += 1
            self._turn()
        return slice(start, self._stop(times, start))

    def _turn(self) -> None:
        """Begin a generation, and settle the time of the slice that takes no more."""
        self._ring.settled[self.k - 1] = self._last
        self._ring.turn()
        self._filled = 0
        self.shifts += 1

    def _stop(self, times: Times, start: int) -> int:
        """First insertion after `start` that may find something changed, or their number.

        That is where the generation is full, or old, or where the oldest slice
        is past the span; whether to shift is decided there.
        """
        first = int(times[start]) if self._filled == 0 else self._first
        full = start + self.generation - self._filled
        bounds = [full] if full > start else []
        for time in (first + self.generation_span, self._oldest_deadline() + 1):
            bounds.append(int(np.searchsorted(times, time)))
        return min([bound for bound in bounds if bound > start], default=len(times))

    def _count(self, times: Times) -> None:
        if self._filled == 0:
            self._first = int(times[0])
        before = self._filled
        self._filled += len(times)
        beyond = self._filled - max(before, self.generation)
        if beyond > 0:
            self.overfilled += beyond
            self._ring.overfull[: self.k] = [True] * self.k
        self._last = int(times[-1])
        self.insertions += len(times)

    # Bits

    @property
    def _settled(self) -> list[int]:
        return self._ring.settled

    def _bits(self, i: int) -> NDArray[np.bool_]:
        return self._ring.bits(i)

    def _hashes(self, keys: Words) -> NDArray[np.intp]:
        """Bits of the keys in the physical slices, shape (k + l + 1, n)."""
        state = self._hash.state(keys)
        return np.array([self._hash.indices(state, i)[0] for i in range(len(self._ring.memory))])

    def _positions(self, hashes: Hashes, i: int) -> NDArray[np.intp]:
        positions: NDArray[np.intp] = hashes[self._ring.physical(i)]
        return positions

    # Files

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        numbers = {
            "ring": [self._ring.base, self._filled],
            "times": [self._first, self._last, self._lost],
            "settled": self._ring.settled,
            "overfull": self._ring.overfull,
            "counters": [self.insertions, self.shifts, self.shortened, self.overfilled],
        }
        return numbers, {"bits": np.packbits(self._ring.memory)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.insertions, self.shifts, self.shortened, self.overfilled = numbers["counters"]
        check_whole("insertions", self.insertions, 0)
        check_whole("shifts", self.shifts, 0, self.insertions)
        check_whole("shortened", self.shortened, 0, self.shifts)
        check_whole("overfilled", self.overfilled, 0, self.insertions)
        base, self._filled = numbers["ring"]
        check_whole("insertions of the generation", self._filled, 0, self.insertions)
        self._first, self._last, self._lost = numbers["times"]
        check_whole("last insertion", self._last, NEVER, TIME_LIMIT - 1)
        check_whole("first insertion", self._first, NEVER, self._last)
        check_whole("time of what was lost", self._lost, NEVER, self._last)
        settled = numbers["settled"]
        self._ring.restore(
            base=base,
            settled=settled,
            overfull=numbers["overfull"],
            packed=arrays["bits"],
            latest=[NEVER] * self.k + [self._last, *settled[self.k : -1]],
        )
