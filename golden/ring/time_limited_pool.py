"""Time-limited APBF of a bounded pool: the profile of the time-limited filter for hardware."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..spec import APBFSpec
from ..spec.time_limited import PooledTimeLimitedSpec
from ..times import TIME_LIMIT
from .ring_sizes import apbf_sizes
from .timed_ring import TimedRing


class PooledTimeLimitedAPBF(TimedRing):
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

    Raises
    ------
    SpecificationError
        If l generations of `generation_span` do not take longer than `span`;
        and as `Filter`.
    """

    specification = PooledTimeLimitedSpec

    slice_bits: int
    generation_span: int
    when_full: str
    _generation: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        # Both ends of a span may have a key.
        return apbf_sizes(keys + 1, fpr)

    def _prepare(self) -> None:
        if not isinstance(self.when_full, str):
            raise TypeError(f"when_full: must be a string, not {self.when_full!r}")
        values: dict[str, Any] = {"generation": self._generation}
        for item in fields(self.specification):
            values.setdefault(item.name, getattr(self, item.name, None))
        spec = APBFSpec(**values)
        self.generation_span = spec.generation_span
        self._begin(spec)

    @property
    def storage_bits(self) -> int:
        """Bits of the slices of the ring; the spare is not counted."""
        return self._spec.memory_bits

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical slices, the empty spare included, shape (k + l + 1, m)."""
        return self._ring.memory[:, 0]

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(_upgraded(numbers, self.generation), arrays)


def _upgraded(numbers: dict[str, Any], generation: int) -> dict[str, Any]:
    """Bring the numbers of a file from before there were rings of other families in time."""
    if "turns" in numbers:
        return numbers
    base, filled = numbers["ring"]
    insertions, shifts, *_ = numbers["counters"]
    turns = {
        "generation": [filled, generation, generation],
        "times": [*numbers["times"], numbers["times"][1]],
        **{name: numbers[name] for name in ("settled", "overfull", "counters")},
    }
    ring = {
        "ring": [base, filled, TIME_LIMIT, TIME_LIMIT],
        "counters": [insertions, insertions, 0, shifts],
    }
    return {"ring": ring, "counters": [insertions, 0], "turns": turns}
