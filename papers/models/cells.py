"""Baselines that keep numbers instead of bits: counters, decaying cells, and fingerprints."""

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.errors import SpecificationError, require_count
from lately.golden.filter import Words
from lately.golden.hash.functions import ConstantStream
from lately.golden.hash.keys import Keys, check_keys, scalar_or_array
from lately.golden.results import Ages
from lately.golden.sampling import sample
from lately.golden.sizing import bloom_rate, bloom_sizes, check_rate, smallest
from lately.golden.spec.base import Specification, optional, required

from .bloom import KeyByKey, match


class ByteCells(KeyByKey):
    """Base class of baselines with one-byte cells; a key is reported if none of its cells is 0."""

    _cells: bytearray
    _max: int

    @property
    def memory(self) -> NDArray[np.uint8]:
        return np.array(self._view())

    @property
    def fill(self) -> float:
        cells = sample(self._view())
        return np.count_nonzero(cells) / len(cells)

    def _view(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._cells, np.uint8)

    def _look(self, positions: list[int]) -> int:
        return match(self._cells, positions) - 1


def ring_order(buffer: NDArray[np.uint64], written: int) -> NDArray[np.uint64]:
    if written < len(buffer):
        return buffer[:written].copy()
    return np.roll(buffer, -(written % len(buffer)), axis=0)


@dataclass(frozen=True, kw_only=True)
class CountingBloomSpec(Specification, family="counting-bloom"):
    window: int = required()  # W
    counters: int = required(low=2, high=1 << 32)
    hashes: int = required()  # k
    counter_bits: int = optional(4, high=8)
    saturated: str = "kept"  # or "decremented": whether a counter at its maximum is decremented


class CountingBloomFilter(ByteCells):
    """Counting Bloom filter that deletes its oldest key when a new key is inserted.

    Source: Li Fan, Pei Cao, Jussara Almeida and Andrei Z. Broder, "Summary Cache: A Scalable Wide-
    Area Web Cache Sharing Protocol", IEEE/ACM Transactions on Networking 8(3), 2000. The baseline
    of the GEBF paper is this filter with a queue of the keys in the window.

    A key is reported for all d < W = `window`, where d is the number of insertions after its own. A
    counter at its maximum is not incremented; this counts as an overflow. If `saturated` is "kept",
    as in the source, such a counter keeps its value until `clear`. If it is "decremented", keys of
    the window may be missed after an overflow.
    """

    specification = CountingBloomSpec
    _uncompared = ("overflows",)
    _counts: ClassVar = {"insertions": 1 << 61, "overflows": None}

    window: int
    _counters: int
    counter_bits: int
    saturated: str
    overflows: int  # increments skipped because the counter was at its maximum

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        counters, hashes = bloom_sizes(keys, fpr)
        return {"window": keys, "counters": counters, "hashes": hashes}

    @property
    def fpr(self) -> float:
        return bloom_rate(self.window, self._counters, self.hashes)

    def _prepare(self) -> None:
        if self.saturated not in ("kept", "decremented"):
            raise SpecificationError(
                f"saturated: must be 'kept' or 'decremented', not {self.saturated!r}"
            )
        self._make_hash([self._counters] * self.hashes)
        self._max = (1 << self.counter_bits) - 1
        self._queue = np.zeros((self.window, -(-self.key_bits // 64)), np.uint64)

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "counters": self._counters}

    @property
    def storage_bits(self) -> int:
        """Memory of the counters in bits.

        Like the GEBF paper, the property does not count the queue; see `queue_bits`.
        """
        return self._counters * self.counter_bits

    @property
    def queue_bits(self) -> int:
        return self.window * self.key_bits

    @property
    def queue(self) -> NDArray[np.uint64]:
        return ring_order(self._queue, self.insertions)

    def _empty(self) -> None:
        self._cells = bytearray(self._counters)
        self._queue[:] = 0
        self._positions_of_window: deque[list[int]] = deque()
        self.insertions = self.overflows = 0

    def _perform_each(self, keys: Words, *, asked: bool, inserted: bool) -> Ages:
        before = self.insertions
        ages = super()._perform_each(keys, asked=asked, inserted=inserted)
        if inserted:
            last = keys[-self.window :]
            end = before + len(keys)
            self._queue[np.arange(end - len(last), end) % self.window] = last
        return ages

    def _write(self, positions: list[int]) -> None:
        cells, highest = self._cells, self._max
        stuck = highest if self.saturated == "kept" else -1
        if len(self._positions_of_window) == self.window:
            for cell in self._positions_of_window.popleft():
                if cells[cell] and cells[cell] != stuck:
                    cells[cell] -= 1
        self._positions_of_window.append(positions)
        for cell in positions:
            if cells[cell] < highest:
                cells[cell] += 1
            else:
                self.overflows += 1

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"counters": (self._view(), self._max), "queue": (self._queue, (1 << 64) - 1)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        check_keys(self._queue, self._hash.key_bits)
        if self._queue[self.insertions :].any():
            raise ValueError(f"queue: holds more than {self.insertions} keys")
        self._positions_of_window = deque(self._positions(self.queue).tolist())


@dataclass(frozen=True, kw_only=True)
class StableBloomSpec(Specification, family="stable-bloom"):
    cells: int = required(low=2, high=1 << 32)  # m
    hashes: int = required()  # K
    decrements: int = required()  # P, cells that an insertion decrements; at most `cells`
    cell_bits: int = optional(1, high=8)  # d


_WORD = (1 << 64) - 1
_DOWN = bytes([0, *range(255)])


class StableBloomFilter(ByteCells):
    """Cells that insertions set to their maximum, and that decay at random.

    Source: Fan Deng and Davood Rafiei, "Approximately Detecting Duplicates for Streaming Data Using
    Stable Bloom Filters", SIGMOD 2006.

    An insertion decrements `decrements` cells by one, but not below 0, then sets the cells of its
    hash functions to ``2**cell_bits - 1``. A key is reported if none of its cells is 0, so a key
    that was just inserted may be missed. The decremented cells are consecutive, starting at a
    random one, so that each cell is decremented with the probability that the paper's formulas
    need. Random numbers come from SplitMix64, whose state is the number of insertions.
    """

    specification = StableBloomSpec
    _counts: ClassVar = {"insertions": (1 << 63) - 1}

    cells: int
    decrements: int
    cell_bits: int

    def _prepare(self) -> None:
        require_count("decrements", self.decrements, high=self.cells)
        self._make_hash([self.cells] * self.hashes)
        self._start = ConstantStream(label="stable", seed=self.seed).word()
        self._max = (1 << self.cell_bits) - 1

    @property
    def storage_bits(self) -> int:
        return self.cells * self.cell_bits

    def _empty(self) -> None:
        self._cells = bytearray(self.cells)
        self.insertions = 0

    def _write(self, positions: list[int]) -> None:
        cells, size = self._cells, self.cells
        first = (self._draw() >> 32) * size >> 32
        last = first + self.decrements
        cells[first:last] = cells[first:last].translate(_DOWN)
        if last > size:
            cells[: last - size] = cells[: last - size].translate(_DOWN)
        for cell in positions:
            cells[cell] = self._max

    def _draw(self) -> int:
        word = self._start + (self.insertions + 1) * 0x9E3779B97F4A7C15 & _WORD
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
        return word ^ word >> 31

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"cells": (self._view(), self._max)}


def stable_zero_fraction(cells: int, hashes: int, decrements: int, cell_bits: int) -> float:
    """Return the fraction of cells that are 0 in the limit, at the stable point (theorem 2).

    The fraction is (1 / (1 + 1 / (P (1/K - 1/m)))) ^ Max, where Max = 2^d - 1. There must be more
    cells than hash functions. The formula holds for any stream if the cells of its keys are
    uniformly distributed. For other streams of distinct keys, it holds as a mean over hash
    functions.
    """
    for name, value in (("hashes", hashes), ("decrements", decrements), ("cell_bits", cell_bits)):
        require_count(name, value)
    require_count("cells", cells, low=hashes + 1)
    ratio = 1 / (decrements * (1 / hashes - 1 / cells))
    return float((1 + ratio) ** -((1 << cell_bits) - 1))


def stable_false_positive_rate(cells: int, hashes: int, decrements: int, cell_bits: int) -> float:
    """Return the probability that a fresh key is reported in the limit: (1 - zeros) ^ K."""
    return float((1 - stable_zero_fraction(cells, hashes, decrements, cell_bits)) ** hashes)


def stable_decrements(cells: int, hashes: int, cell_bits: int, false_positive_rate: float) -> int:
    """Return the smallest P for which fresh keys are reported at no more than this rate.

    The result is 1 / ((1 / (1 - rate^(1/K))^(1/Max) - 1) (1/K - 1/m)), rounded up.
    """
    require_count("hashes", hashes)
    require_count("cells", cells, low=hashes + 1)
    require_count("cell_bits", cell_bits)
    check_rate(false_positive_rate, "false_positive_rate")
    zeros: float = 1 - false_positive_rate ** (1 / hashes)
    base: float = zeros ** (-1 / ((1 << cell_bits) - 1)) - 1
    return math.ceil(1 / (base * (1 / hashes - 1 / cells)))


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
    """Cyclic buffer of the fingerprints in the window, and a count of each fingerprint.

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
        """Memory in bits: W L + (1 + alpha) W (L - log2 W + 3), rounded up.

        The buffer has W fingerprints of L bits. A slot of the table stores 3 bits and the part of a
        fingerprint that the bucket number does not imply. This part has L - log2 W bits, or none if
        the difference is negative.
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
        """Return how often each key's fingerprint occurs in the window, shape (n,).

        The result is an upper bound on the occurrences of the key itself.
        """
        counts = Counter(self.fingerprints.tolist())
        positions = self._positions(self._words(keys)).tolist()
        return np.array(
            [counts[self._fingerprint(position_pair)] for position_pair in positions], np.int64
        )

    def distinct(self) -> int:
        return len(np.unique(self.fingerprints))

    def estimated_distinct(self) -> float:
        """Estimate the number of distinct keys in the window by maximum likelihood.

        The estimate is ln(1 - Z / 2^L) / ln(1 - 2^-L) for Z distinct fingerprints. It is infinite
        if the window contains every possible fingerprint.
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
    """Return the memory in bits per key in the window: L + 1.2 (log2(1 / rate) + 3).

    A fingerprint has L = log2(W / rate) bits, not rounded up.
    """
    require_count("window", window)
    check_rate(false_positive_rate, "false_positive_rate")
    return _storage_bits(window, math.log2(window / false_positive_rate)) / window


def _storage_bits(window: int, fingerprint_bits: float) -> float:
    left = max(0.0, fingerprint_bits - math.log2(window))
    return window * (fingerprint_bits + (1 + TABLE_SPARE) * (left + SLOT_OVERHEAD))
