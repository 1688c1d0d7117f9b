"""Bloom filters without a window, and windows that consist of rotating Bloom filters.

The APBF paper describes the windows in section 3.2.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.analysis import mean_rate
from lately.golden.errors import SpecificationError
from lately.golden.filter import CountedFilter, State, Words
from lately.golden.results import Ages
from lately.golden.sampling import chunks, sample
from lately.golden.sizing import HASHES, bloom_rate, shared_cells, smallest
from lately.golden.spec.base import Specification, required

_CHUNK = 1 << 15


class KeyByKey(CountedFilter):
    """Base class of baselines, which process one key at a time.

    A key maps to positions, which subclasses read and write.
    """

    _counts: ClassVar[dict[str, int | str | None]] = {"insertions": 1 << 61}

    hashes: int
    insertions: int  # since construction or clear

    @abstractmethod
    def _look(self, positions: list[int]) -> int:
        """Return the age of a key with these positions, or -1 if it is not reported."""

    @abstractmethod
    def _write(self, positions: list[int]) -> None:
        """Insert a key with these positions."""

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        return np.stack(self._hash.indices(self._hash.state(keys), 0), axis=1)

    def _perform_each(self, keys: Words, *, asked: bool, inserted: bool) -> Ages:
        ages = []
        for part in chunks(len(keys), _CHUNK):
            for positions in self._positions(keys[part]).tolist():
                ages.append(self._look(positions) if asked else -1)
                if inserted:
                    self._write(positions)
                    self.insertions += 1
        return np.array(ages, np.int64)

    def _insert(self, keys: Words) -> None:
        self._perform_each(keys, asked=False, inserted=True)

    def _age(self, keys: Words) -> Ages:
        return self._perform_each(keys, asked=True, inserted=False)

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._perform_each(keys, asked=True, inserted=True)


class BitArrays(KeyByKey):
    """Base class of baselines with bit arrays of equal size.

    For speed, a bit takes one byte.
    """

    _shape: tuple[int, int]
    _segments: list[bytearray]

    @property
    def storage_bits(self) -> int:
        return self._shape[0] * self._shape[1]

    @property
    def memory(self) -> NDArray[np.bool_]:
        return self._stacked()

    @property
    def fill(self) -> float:
        return float(np.mean([sample(_view(bits)).mean() for bits in self._segments]))

    @property
    def nbytes(self) -> int:
        return sum(map(len, self._segments))

    def _empty(self) -> None:
        count, size = self._shape
        self._segments = [bytearray(size) for _ in range(count)]
        for name in self._counts:
            setattr(self, name, 0)

    def _state(self) -> State:
        return super()._state()[0], {"bits": np.packbits(self._stacked(), axis=1)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        saved, (count, size) = arrays["bits"], self._shape
        if saved.dtype != np.uint8 or saved.shape != (count, -(-size // 8)):
            raise ValueError(f"bits of shape {saved.shape} do not fit {count} arrays of {size}")
        rows = np.unpackbits(saved, axis=1, count=size)
        self._segments = [bytearray(row.tobytes()) for row in rows]

    def _stacked(self) -> NDArray[np.bool_]:
        return np.stack([_view(bits) for bits in self._segments])


def _view(bits: bytearray) -> NDArray[np.bool_]:
    return np.frombuffer(bits, np.bool_)


def match(bits: bytearray, positions: list[int]) -> bool:
    return all(map(bits.__getitem__, positions))


def write(bits: bytearray, positions: list[int]) -> None:
    for position in positions:
        bits[position] = 1


@dataclass(frozen=True, kw_only=True)
class BloomSpec(Specification, family="bloom"):
    bits: int = required(low=2, high=1 << 32)  # m; a remainder of the division into parts is unused
    hashes: int = required()  # k; two of them may select the same bit


@dataclass(frozen=True, kw_only=True)
class PartitionedBloomSpec(BloomSpec, family="partitioned-bloom"):
    """Parameters of a `PartitionedBloomFilter`."""


@dataclass(frozen=True, kw_only=True)
class BlockedBloomSpec(BloomSpec, family="blocked-bloom"):
    block_bits: int = required(low=2)  # at most `bits`


class BloomFilter(BitArrays):
    """Classical Bloom filter: all hash functions share one array.

    Source: Burton H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors",
    Communications of the ACM 13(7), 1970. The probability that a fresh key is reported is
    the fill ratio to the power of `hashes`.
    """

    specification = BloomSpec
    _uncompared = ("insertions",)

    bits: int

    def _prepare(self) -> None:
        self._make_hash([self.bits] * self.hashes)
        self._shape = (1, self.bits)

    @property
    def memory(self) -> NDArray[np.bool_]:
        return self._stacked()[0]

    def _look(self, positions: list[int]) -> int:
        return match(self._segments[0], positions) - 1

    def _write(self, positions: list[int]) -> None:
        write(self._segments[0], positions)


class PartitionedBloomFilter(BloomFilter):
    """Bloom filter in which each hash function has its own part of the array.

    Source: James K. Mullin, "A Second Look at Bloom Filters", Communications of the ACM 26(8),
    1983; as used by the APBF paper, section 2.
    """

    specification = PartitionedBloomSpec

    def _prepare(self) -> None:
        self._part_bits = self.bits // self.hashes
        if self._part_bits < 2:
            raise SpecificationError(
                f"bits: must be at least 2 for each of {self.hashes} hash functions, "
                f"not {self.bits}"
            )
        self._make_hash([self._part_bits] * self.hashes)
        self._shape = (1, self.hashes * self._part_bits)

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        return super()._positions(keys) + np.arange(self.hashes) * self._part_bits


class BlockedBloomFilter(BloomFilter):
    """Bloom filter in which one hash selects a block, and all others select bits of this block.

    Source: Felix Putze, Peter Sanders and Johannes Singler, "Cache-, Hash- and Space-Efficient
    Bloom Filters", WEA 2007. Blocks fill unevenly, so a blocked filter reports more fresh keys than
    a `BloomFilter` of the same size.
    """

    specification = BlockedBloomSpec

    block_bits: int

    def _prepare(self) -> None:
        blocks = self.bits // self.block_bits
        if not blocks:
            raise SpecificationError(
                f"block_bits: must be at most bits = {self.bits}, not {self.block_bits}"
            )
        self._make_hash([blocks] + [self.block_bits] * self.hashes)
        self._shape = (1, blocks * self.block_bits)

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        indices = super()._positions(keys)
        return indices[:, :1] * self.block_bits + indices[:, 1:]


# Windows of Bloom filters that take turns


@dataclass(frozen=True, kw_only=True)
class DoubleBufferingSpec(Specification, family="double-buffering"):
    generation: int = required()  # insertions between two switches: W
    bits: int = required(low=4, high=1 << 33)  # total of both filters
    hashes: int = required()  # k, the same functions for both filters


@dataclass(frozen=True, kw_only=True)
class A2BufferingSpec(DoubleBufferingSpec, family="a2-buffering"):
    """Parameters of an `A2Buffering` filter.

    `generation` is the number of keys that are written to active1 before the filters switch.
    """


@dataclass(frozen=True, kw_only=True)
class ForgetfulBloomSpec(Specification, family="forgetful-bloom"):
    generation: int = required()  # insertions between two shifts
    past: int = required()  # N, number of past segments
    bits: int = required()  # total of the N + 2 segments; a remainder is unused
    hashes: int = required()  # k


class _Turns(BitArrays):
    _uncompared = ("insertions", "shifts")
    _counts: ClassVar = {"insertions": None, "shifts": None, "filled": "generation"}

    generation: int
    bits: int
    filled: int  # keys of the current generation
    shifts: int

    def _prepare(self) -> None:
        self.window = self.generation
        self._share(2)

    def _share(self, arrays: int) -> None:
        self._shape = (arrays, self.bits // arrays)
        self._make_hash([self._shape[1]] * self.hashes)

    def _shift_if_full(self) -> None:
        if self.filled == self.generation:
            self._segments = [bytearray(self._shape[1]), *self._segments[:-1]]
            self.filled = 0
            self.shifts += 1
        self.filled += 1


class _Buffering(_Turns):
    @staticmethod
    @abstractmethod
    def _rate(generation: int, bits: int, hashes: int) -> float:
        """Return the false-positive rate of two arrays of `bits`, averaged over a generation."""

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        bits, hashes = _fewest(partial(cls._rate, keys), fpr, keys)
        return {"generation": keys, "bits": 2 * bits, "hashes": hashes}

    @property
    def fpr(self) -> float:
        return self._rate(self.generation, self._shape[1], self.hashes)


class DoubleBuffering(_Buffering):
    """Pair of Bloom filters: one is active, and the other one warms up to replace it.

    Source: Francis Chang, Wu-chang Feng and Kang Li, "Approximate Caches for Packet
    Classification", INFOCOM 2004.

    An insertion writes both filters, and a query reads the active one. After `generation`
    insertions the warm-up filter becomes active, and the formerly active one is cleared and warms
    up. A key is reported for all d <= W = `generation`, where d is the number of insertions after
    its own, and forgotten for d >= 2 W.
    """

    specification = DoubleBufferingSpec

    @staticmethod
    def _rate(generation: int, bits: int, hashes: int) -> float:
        return mean_rate(lambda p: bloom_rate((1 + p) * generation, bits, hashes), generation)

    def _look(self, positions: list[int]) -> int:
        return match(self._segments[1], positions) - 1

    def _write(self, positions: list[int]) -> None:
        self._shift_if_full()
        for bits in self._segments:
            write(bits, positions)


class A2Buffering(_Buffering):
    """Two active Bloom filters: insertions write the first, and queries read both.

    Source: MyungKeun Yoon, "Aging Bloom Filter with Two Active Buffers for Dynamic Sets", IEEE
    Transactions on Knowledge and Data Engineering 22(1), 2010.

    A key that is not in active1 is written there, even if active2 contains it. When `generation`
    keys have been written, active1 becomes active2, and the former active2 is cleared and becomes
    active1. A key is reported for all d <= W = `generation`, where d is the number of insertions
    after its own. Insertions of keys that active1 already contains do not age the filter, so no
    number of insertions guarantees that a key is forgotten.
    """

    specification = A2BufferingSpec

    @staticmethod
    def _rate(generation: int, bits: int, hashes: int) -> float:
        full = bloom_rate(generation, bits, hashes)
        fills = mean_rate(lambda p: bloom_rate(p * generation, bits, hashes), generation)
        return full + fills - full * fills

    def _look(self, positions: list[int]) -> int:
        return any(match(bits, positions) for bits in self._segments) - 1

    def _write(self, positions: list[int]) -> None:
        if not match(self._segments[0], positions):
            self._shift_if_full()
            write(self._segments[0], positions)


class ForgetfulBloomFilter(_Turns):
    """Sequence of future, present and past Bloom filters; each key is in two neighbouring filters.

    Source: Rajath Subramanyam, Indranil Gupta, Luke M. Leslie and Wenting Wang, "Idempotent
    Distributed Counters Using a Forgetful Bloom Filter", Cluster Computing 19(2), 2016.

    An insertion writes the future and the present filter. A key is reported if two neighbours
    match. After `generation` insertions each filter moves one step towards the past; the oldest is
    cleared and becomes the future. A key is reported for all d <= W = ``past * generation``, where
    d is the number of insertions after its own, and forgotten within two more generations. All
    filters share their hash functions, so the two matches are not independent.
    """

    specification = ForgetfulBloomSpec
    age_unit = "generations"

    past: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return _forgetful_sizes(keys, fpr)

    @property
    def fpr(self) -> float:
        return _forgetful_rate(self.generation, self.past, self._shape[1], self.hashes)

    def _prepare(self) -> None:
        self.window = self.past * self.generation
        if not 2 <= self.bits // (self.past + 2) <= 1 << 32:
            raise SpecificationError(
                f"bits: must be 2 to 2**32 for each of {self.past + 2} segments, not {self.bits}"
            )
        self._share(self.past + 2)

    def _look(self, positions: list[int]) -> int:
        matches = [match(bits, positions) for bits in self._segments]
        pairs = (i for i in range(len(matches) - 1) if matches[i] and matches[i + 1])
        return next(pairs, -1)

    def _write(self, positions: list[int]) -> None:
        self._shift_if_full()
        for bits in self._segments[:2]:
            write(bits, positions)


# Sizes: false-positive rates of arrays of `bits`, averaged over a generation of distinct keys


def _forgetful_rate(generation: int, past: int, bits: int, hashes: int) -> float:
    """Approximate the false-positive rate by the expected number of matching runs.

    The approximation is close because two runs rarely match at once.
    """
    blank = hashes * generation * math.log1p(-1 / bits)
    full = -math.expm1(blank)

    def two(a: float, b: float, c: float) -> float:
        # Three generations, youngest first. Each sets bits in two segments; both share the second.
        return float((b + (1 - b) * a * c) ** hashes)

    def three(a: float, b: float, c: float, d: float) -> float:
        return float((b * (c + (1 - c) * d) + (1 - b) * a * c) ** hashes)

    oldest = (past - 1) * two(full, full, full) - max(0, past - 2) * three(full, full, full, full)

    def runs(phase: float) -> float:
        # All pairs of neighbours, but for each run only its first pair.
        part = -math.expm1(phase * blank)
        pairs = two(0.0, part, full) + two(part, full, full)
        return pairs - three(0.0, part, full, full) - (past > 1) * three(part, full, full, full)

    return min(1.0, oldest + mean_rate(runs, generation))


@lru_cache
def _forgetful_sizes(window: int, fpr: float) -> dict[str, int]:
    sizes = []
    for past in range(1, min(window, 16) + 1):
        each = -(-window // past)

        def rate(bits: int, k: int, past: int = past, each: int = each) -> float:
            return _forgetful_rate(each, past, bits, k)

        bits, hashes = _fewest(rate, fpr, 2 * each)
        sizes.append((bits * (past + 2), past, each, hashes))
    return dict(zip(("bits", "past", "generation", "hashes"), min(sizes), strict=True))


def _fewest(rate: Callable[[int, int], float], fpr: float, load: int) -> tuple[int, int]:
    sizes = []
    for k in HASHES:
        keeps = partial(lambda bits, k: bits > 1 and rate(bits, k) <= fpr, k=k)
        sizes.append((smallest(keeps, shared_cells(load, fpr, k)), k))
    return min(sizes)
