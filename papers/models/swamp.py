"""Sliding Window Approximate Measurement Protocol (Assaf, Ben Basat, Einziger, Friedman)."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden.errors import require_count
from lately.golden.hash.keys import Keys, scalar_or_array
from lately.golden.sizing import bloom_rate, check_rate, smallest
from lately.golden.spec.base import Specification, required

from .bits import KeyByKey, ring_order


@dataclass(frozen=True, kw_only=True)
class SwampSpec(Specification, family="swamp"):
    window: int = required()  # W
    fingerprint_bits: int = required(high=64)  # L


TABLE_SPARE = 0.2
"""Number of spare table slots, relative to the used slots: alpha.

The table works with any value, and is faster with more spare slots. Neither paper states a value.
The values for SWAMP in Table 4 of the APBF paper, which were read off a drawing, fit values from
0.19 to 0.23; 0.2 meets all four within 1.1 %.
"""

SLOT_OVERHEAD = 3  # Bits of a table slot in addition to the remainder of the fingerprint.


class Swamp(KeyByKey):
    """Fingerprints of the window in a cyclic buffer, and a count of each fingerprint.

    Source: Eran Assaf, Ran Ben Basat, Gil Einziger and Roy Friedman, "Pay for a Sliding Bloom
    Filter and Get Counting, Distinct Elements, and Entropy for Free", INFOCOM 2018. The counts are
    kept in a TinyTable (Gil Einziger and Roy Friedman, "Counting with TinyTable: Every Bit
    Counts!", 2015), which is exact. So results depend on the fingerprints only, and the model
    stores nothing else.

    A key is reported for all d < W = `window`, where d is the number of insertions after its own.
    Otherwise it is reported only if a key in the window has the same fingerprint. The window is
    exact, with no slack.
    """

    specification = SwampSpec

    window: int
    fingerprint_bits: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        bits = smallest(lambda bits: bloom_rate(keys, 1 << bits, 1) <= fpr, 16)
        return {"window": keys, "fingerprint_bits": bits}

    @property
    def fpr(self) -> float:
        return bloom_rate(self.window, 1 << self.fingerprint_bits, 1)

    @property
    def fill(self) -> float:
        return min(self.insertions, self.window) / self.window

    def _prepare(self) -> None:
        low = self.fingerprint_bits // 2
        self._low_bits = low
        self._make_hash([1 << (self.fingerprint_bits - low), 1 << low])
        self._buffer = np.zeros(self.window, np.uint64)

    @property
    def storage_bits(self) -> int:
        """Bits of buffer and table: W L + (1 + alpha) W (L - log2 W + 3), rounded up.

        A table slot stores 3 bits, and the part of a fingerprint that its bucket number does not
        imply: L - log2 W bits, or none if that is negative.
        """
        return math.ceil(_storage_bits(self.window, self.fingerprint_bits))

    @property
    def memory(self) -> NDArray[np.uint64]:
        return self._buffer.copy()

    def _fingerprint(self, position_pair: list[int]) -> int:
        return position_pair[0] << self._low_bits | position_pair[1]

    def _look(self, position_pair: list[int]) -> int:
        last = self._last.get(self._fingerprint(position_pair))
        return -1 if last is None else self.insertions - 1 - last

    def _write(self, position_pair: list[int]) -> None:
        now, slot = self.insertions, self.insertions % self.window
        oldest = int(self._buffer[slot])
        if self._last.get(oldest) == now - self.window:
            del self._last[oldest]
        fingerprint = self._fingerprint(position_pair)
        self._buffer[slot] = fingerprint
        self._last[fingerprint] = now

    @scalar_or_array
    def multiplicity(self, keys: Keys) -> NDArray[np.int64]:
        """Return how often each key's fingerprint is in the window, shape (n,): an upper bound."""
        counts = Counter(self.fingerprints.tolist())
        positions = self._positions(self._words(keys)).tolist()
        return np.array(
            [counts[self._fingerprint(position_pair)] for position_pair in positions], np.int64
        )

    def distinct(self) -> int:
        return len(np.unique(self.fingerprints))

    def estimated_distinct(self) -> float:
        """Estimate the number of distinct keys in the window by maximum likelihood.

        ln(1 - Z / 2^L) / ln(1 - 2^-L) for Z distinct fingerprints; infinite if the window contains
        every possible fingerprint.
        """
        share = self.distinct() * 2.0**-self.fingerprint_bits
        if share == 1:
            return math.inf
        return math.log1p(-share) / math.log1p(-(2.0**-self.fingerprint_bits))

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        return ring_order(self._buffer, self.insertions)

    def _empty(self) -> None:
        self._buffer[:] = 0
        self._last: dict[int, int] = {}
        self.insertions = 0

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"buffer": (self._buffer, (1 << self.fingerprint_bits) - 1)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        if self._buffer[self.insertions :].any():
            raise ValueError(f"buffer: holds more than {self.insertions} fingerprints")
        first = max(0, self.insertions - self.window)
        self._last = {
            fingerprint: at for at, fingerprint in enumerate(self.fingerprints.tolist(), first)
        }


def swamp_bits_per_element(window: int, false_positive_rate: float) -> float:
    """Return the bits for each insertion of the window: L + 1.2 (log2(1 / rate) + 3).

    Fingerprints have L = log2(W / rate) bits, not rounded up.
    """
    require_count("window", window)
    check_rate(false_positive_rate, "false_positive_rate")
    return _storage_bits(window, math.log2(window / false_positive_rate)) / window


def _storage_bits(window: int, fingerprint_bits: float) -> float:
    left = max(0.0, fingerprint_bits - math.log2(window))
    return window * (fingerprint_bits + (1 + TABLE_SPARE) * (left + SLOT_OVERHEAD))
