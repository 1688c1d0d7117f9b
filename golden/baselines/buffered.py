"""Windows made of two Bloom filters that take turns: Double Buffering and A2 Buffering."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..filter import Answers, CountedFilter, Words, key_hash, require_count
from ..sizing import bloom_rate, bloom_sizes
from ..spec.compared import A2BufferingSpec, DoubleBufferingSpec
from .bits import BitArray, packed, saved_count, unpack
from .bloom import shared_positions

_CHUNK = 1 << 15
_LOOK_AHEAD = 64


class _TwoFilters(CountedFilter):
    """Two bit arrays with the same hash functions, the first of which is the younger or warm-up."""

    _counters = ("insertions", "switches")

    def __init__(
        self, *, generation: int, bits: int, hashes: int, seed: int = 0, key_bits: int = 64
    ) -> None:
        require_count("generation", generation)
        require_count("bits", bits, least=4, most=1 << 33)
        require_count("hashes", hashes)
        self.generation = generation
        self.bits = bits
        self.hashes = hashes
        self.seed = seed
        self.key_bits = key_bits
        self._hash = key_hash([bits // 2] * hashes, seed=seed, key_bits=key_bits)
        self._young, self._old = BitArray(bits // 2), BitArray(bits // 2)
        self._filled = 0
        self.insertions = self.switches = 0

    def _window_text(self) -> str:
        return f"window of {self.generation:,} insertions"

    @property
    def storage_bits(self) -> int:
        """Bits of both filters."""
        return 2 * (self.bits // 2)

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of both filters, the younger first; shape (2, bits // 2)."""
        return np.stack([self._young.memory, self._old.memory])

    def _insert(self, keys: Words) -> None:
        self._check_and_insert(keys)

    def _check_and_insert(self, keys: Words) -> Answers:
        seen = np.empty(len(keys), np.bool_)
        for start in range(0, len(keys), _CHUNK):
            positions = shared_positions(self._hash, keys[start : start + _CHUNK])
            done = 0
            while done < len(positions):
                answers = self._stretch(positions[done:])
                seen[start + done : start + done + len(answers)] = answers
                done += len(answers)
        self.insertions += len(keys)
        return seen

    def _stretch(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Check and insert some of the first keys, at least one; return their answers."""
        raise NotImplementedError

    def _switch(self) -> None:
        self._old.clear()
        self._young, self._old = self._old, self._young
        self._filled = 0
        self.switches += 1

    def clear(self) -> None:
        """Forget everything."""
        self._young.clear()
        self._old.clear()
        self._filled = self.insertions = self.switches = 0

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        numbers = {
            "insertions": self.insertions,
            "switches": self.switches,
            "filled": self._filled,
        }
        return numbers, {"bits": packed(self._young, self._old)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.insertions = saved_count(numbers, "insertions")
        self.switches = saved_count(numbers, "switches")
        self._filled = saved_count(numbers, "filled", most=self.generation)
        unpack(arrays["bits"], self._young, self._old)


class DoubleBuffering(_TwoFilters):
    """Active Bloom filter, and another that warms up to take its place.

    Source: Francis Chang, Wu-chang Feng and Kang Li, "Approximate Caches for
    Packet Classification", INFOCOM 2004; as the APBF paper describes it in
    section 3.2.

    An insertion writes both filters, and a query asks the active one. When the
    warm-up filter has had `generation` insertions, which make it half full, the
    next insertion first makes it the active one, and the other, emptied, the
    warm-up. So the active filter holds the keys of the present generation and
    of the one before; all keys count, those that are repeated included.

    A key is guaranteed to be reported for the `generation` insertions after
    its own, and is forgotten after twice as many.

    Parameters
    ----------
    generation : int
        Insertions from switch to switch: half of what a filter is made for.
    bits : int
        Bits of both filters together, at least 4; an odd one is left unused.
    hashes : int
        Hash functions (k), the same in both filters.
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.

    Attributes
    ----------
    insertions, switches : int
        Since construction or clear.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = DoubleBufferingSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        # Before a switch the active filter has the keys of two generations.
        bits, hashes = bloom_sizes(2 * keys, fpr)
        return {"generation": keys, "bits": 2 * bits, "hashes": hashes}

    @property
    def window_false_positive_rate(self) -> float:
        """Expected false-positive rate before a switch, keys distinct."""
        return bloom_rate(2 * self.generation, self.bits // 2, self.hashes)

    @property
    def active(self) -> NDArray[np.bool_]:
        """Bits of the filter that is asked; shape (bits // 2,)."""
        return self._old.memory.copy()

    @property
    def warm_up(self) -> NDArray[np.bool_]:
        """Bits of the filter that comes next, a subset of `active`; shape (bits // 2,)."""
        return self._young.memory.copy()

    def _query(self, keys: Words) -> Answers:
        return self._old.match(shared_positions(self._hash, keys))

    def _stretch(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        if self._filled < self.generation:
            positions = positions[: self.generation - self._filled]
            seen = self._old.match_and_write(positions)
        else:
            # This query still asks the filter as it was.
            positions = positions[:1]
            seen = self._old.match(positions)
            self._switch()
            self._old.write(positions)
        self._young.write(positions)
        self._filled += len(positions)
        return seen


class A2Buffering(_TwoFilters):
    """Two active Bloom filters: one is written, and both are asked.

    Source: MyungKeun Yoon, "Aging Bloom Filter with Two Active Buffers for
    Dynamic Sets", IEEE Transactions on Knowledge and Data Engineering 22(1),
    2010; as the APBF paper describes it in section 3.2.

    A key that is in active1 is not inserted again. Any other is written into
    active1, also if active2 has it: then it is copied. When `generation` keys
    have been written into active1, the next one that must be first makes it
    active2, and the other, emptied, active1.

    A key is reported for the `generation` insertions after its own at least,
    and as long as no more than `generation` of the insertions after it are of
    keys that were not in active1. Repetitions do not age it, hence there is no
    bound in insertions after which no trace is left.

    Parameters
    ----------
    generation : int
        Keys that a filter is made for.
    bits : int
        Bits of both filters together, at least 4; an odd one is left unused.
    hashes : int
        Hash functions (k), the same in both filters.
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.

    Attributes
    ----------
    insertions, switches : int
        Since construction or clear.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = A2BufferingSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        bits, hashes = bloom_sizes(keys, -math.expm1(math.log1p(-fpr) / 2))
        return {"generation": keys, "bits": 2 * bits, "hashes": hashes}

    @property
    def window_false_positive_rate(self) -> float:
        """Expected false-positive rate of two full filters of distinct keys."""
        one = bloom_rate(self.generation, self.bits // 2, self.hashes)
        return -math.expm1(2 * math.log1p(-one))

    @property
    def active1(self) -> NDArray[np.bool_]:
        """Bits of the filter that is written; shape (bits // 2,)."""
        return self._young.memory.copy()

    @property
    def active2(self) -> NDArray[np.bool_]:
        """Bits of the other filter; shape (bits // 2,)."""
        return self._old.memory.copy()

    def _query(self, keys: Words) -> Answers:
        positions = shared_positions(self._hash, keys)
        return self._young.match(positions) | self._old.match(positions)

    def _stretch(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        left = self.generation - self._filled
        positions = positions[: max(left, _LOOK_AHEAD)]
        known = self._young.overlay(positions)
        fresh = np.cumsum(~known)
        # Up to the first key that active1 has no room for.
        fitting = int(np.searchsorted(fresh, left, side="right"))
        if fitting:
            positions, known = positions[:fitting], known[:fitting]
            seen = known | self._old.match(positions)
            self._young.write(positions)
            self._filled += int(fresh[fitting - 1])
            return seen
        positions = positions[:1]
        seen = self._old.match(positions)
        self._switch()
        self._young.write(positions)
        self._filled = 1
        return seen
