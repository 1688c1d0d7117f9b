"""Windows made of two Bloom filters that take turns: Double Buffering and A2 Buffering."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.analysis.segment_rates import mean_rate
from lately.golden.sizing import HASHES, bloom_rate, shared_cells, smallest

from .bits import BitArrays, match, write
from .specs import A2BufferingSpec, DoubleBufferingSpec


class _TwoFilters(BitArrays):
    """Two bit arrays with the same hash functions, of which the first is the younger."""

    _uncompared = ("insertions", "switches")
    _counts: ClassVar = {"insertions": None, "switches": None, "filled": "generation"}

    generation: int
    bits: int
    filled: int
    switches: int

    def _prepare(self) -> None:
        self.window = self.generation
        self._make_hash([self.bits // 2] * self.hashes)
        self._shape = (2, self.bits // 2)

    def _switch_if_full(self) -> None:
        """Begin a generation: the older array, emptied, becomes the younger."""
        if self.filled == self.generation:
            self._segments = [bytearray(self._shape[1]), self._segments[0]]
            self.filled = 0
            self.switches += 1
        self.filled += 1


class DoubleBuffering(_TwoFilters):
    """Active Bloom filter, and another that warms up to take its place.

    Source: Francis Chang, Wu-chang Feng and Kang Li, "Approximate Caches for
    Packet Classification", INFOCOM 2004; as the APBF paper describes it in
    section 3.2.

    An insertion writes both filters, and a query reads the active one. When the
    warm-up filter has had `generation` insertions, which make it half full, the
    next insertion first makes it the active one, and the other, emptied, the
    warm-up. So the active filter holds the keys of the present generation and
    of the one before. All keys count, repeated ones included.

    A key is reported for all d <= W = `generation`, where d is the number of insertions after
    its own, and forgotten for d >= 2 W.

    Parameters
    ----------
    generation : int
        Insertions from switch to switch: half of the keys for which a filter is sized.
    bits : int
        Bits of both filters together, at least 4; an odd one is left unused.
    hashes : int
        Hash functions (k), the same in both filters.

    Attributes
    ----------
    switches : int
        Switches since construction or clear.
    filled : int
        Insertions in the present generation.
    """

    specification = DoubleBufferingSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return _two_filters(_double_rate, keys, fpr, 2 * keys)

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over a generation, keys distinct."""
        return _double_rate(self.generation, self.bits // 2, self.hashes)

    @property
    def active(self) -> NDArray[np.bool_]:
        """Bits of the filter that queries read; shape (bits // 2,)."""
        return self.memory[1]

    @property
    def warm_up(self) -> NDArray[np.bool_]:
        """Bits of the filter that comes next, a subset of `active`; shape (bits // 2,)."""
        return self.memory[0]

    def _look(self, own: list[int]) -> int:
        return match(self._segments[1], own) - 1

    def _write(self, own: list[int]) -> None:
        self._switch_if_full()
        for bits in self._segments:
            write(bits, own)


class A2Buffering(_TwoFilters):
    """Two active Bloom filters: insertions write one, and queries read both.

    Source: MyungKeun Yoon, "Aging Bloom Filter with Two Active Buffers for
    Dynamic Sets", IEEE Transactions on Knowledge and Data Engineering 22(1),
    2010; as the APBF paper describes it in section 3.2.

    A key that is in active1 is not inserted again. Any other is written into
    active1, also if active2 has it: then it is copied. When `generation` keys
    have been written into active1, it becomes active2 as soon as another key
    must be written, and the other filter, emptied, becomes active1.

    A key is reported for all d <= W = `generation`, where d is the number of insertions after
    its own, and as long as no more than `generation` of these insertions are of keys
    that were not in active1. Repetitions do not age it, so no number of insertions
    guarantees that a key is forgotten.

    Parameters
    ----------
    generation : int
        Keys for which a filter is sized.
    bits, hashes : int
        As for `DoubleBuffering`.

    Attributes
    ----------
    switches : int
        Switches since construction or clear.
    filled : int
        Keys written into active1.
    """

    specification = A2BufferingSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return _two_filters(_a2_rate, keys, fpr, keys)

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over a generation, keys distinct."""
        return _a2_rate(self.generation, self.bits // 2, self.hashes)

    @property
    def active1(self) -> NDArray[np.bool_]:
        """Bits of the filter that is written; shape (bits // 2,)."""
        return self.memory[0]

    @property
    def active2(self) -> NDArray[np.bool_]:
        """Bits of the other filter; shape (bits // 2,)."""
        return self.memory[1]

    def _look(self, own: list[int]) -> int:
        return any(match(bits, own) for bits in self._segments) - 1

    def _write(self, own: list[int]) -> None:
        if not match(self._segments[0], own):
            self._switch_if_full()
            write(self._segments[0], own)


def _double_rate(generation: int, bits: int, hashes: int) -> float:
    """Return the mean rate of an active filter, which has the keys of one generation to two."""
    return mean_rate(lambda p: bloom_rate((1 + p) * generation, bits, hashes), generation)


def _a2_rate(generation: int, bits: int, hashes: int) -> float:
    """Return the mean rate of a full filter and one that fills up."""
    full = bloom_rate(generation, bits, hashes)
    fills = mean_rate(lambda p: bloom_rate(p * generation, bits, hashes), generation)
    return full + fills - full * fills


def _two_filters(
    rate: Callable[[int, int, int], float], keys: int, fpr: float, load: int
) -> dict[str, int]:
    """Return generation, bits and hashes of the two smallest filters whose mean rate is `fpr`."""
    found = []
    for hashes in HASHES:
        guess = shared_cells(load, fpr, hashes)
        keeps = partial(_keeps, rate, fpr, keys, hashes)
        found.append((smallest(keeps, guess), hashes))
    bits, hashes = min(found)
    return {"generation": keys, "bits": 2 * bits, "hashes": hashes}


def _keeps(
    rate: Callable[[int, int, int], float], fpr: float, keys: int, hashes: int, bits: int
) -> bool:
    return bits > 1 and rate(keys, bits, hashes) <= fpr
