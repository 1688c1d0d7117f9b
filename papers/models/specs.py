"""Specifications of the filters that the papers compare with; fields as their models have them."""

from dataclasses import dataclass

from lately.golden.spec.base import Specification, optional, required
from lately.golden.times import TIME_LIMIT

_BITS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class BloomSpec(Specification, family="bloom"):
    """Bloom filter, with fields as `BloomFilter` has them."""

    bits: int = required(least=2, most=_BITS)
    hashes: int = required()


@dataclass(frozen=True, kw_only=True)
class PartitionedBloomSpec(BloomSpec, family="partitioned-bloom"):
    """Partitioned Bloom filter, with fields as `PartitionedBloomFilter` has them."""


@dataclass(frozen=True, kw_only=True)
class BlockedBloomSpec(BloomSpec, family="blocked-bloom"):
    """Blocked Bloom filter, with fields as `BlockedBloomFilter` has them."""

    block_bits: int = required(least=2)


@dataclass(frozen=True, kw_only=True)
class CountingBloomSpec(Specification, family="counting-bloom"):
    """Counting Bloom filter with a queue, with fields as `CountingBloomFilter` has them."""

    window: int = required()
    counters: int = required(least=2, most=_BITS)
    hashes: int = required()
    counter_bits: int = optional(4, most=8)
    saturated: str = "kept"


@dataclass(frozen=True, kw_only=True)
class StableBloomSpec(Specification, family="stable-bloom"):
    """Stable Bloom filter, with fields as `StableBloomFilter` has them."""

    cells: int = required(least=2, most=_BITS)
    hashes: int = required()
    decrements: int = required()
    cell_bits: int = optional(1, most=8)


@dataclass(frozen=True, kw_only=True)
class DoubleBufferingSpec(Specification, family="double-buffering"):
    """Two Bloom filters in turn, with fields as `DoubleBuffering` has them."""

    generation: int = required()
    bits: int = required(least=4, most=2 * _BITS)
    hashes: int = required()


@dataclass(frozen=True, kw_only=True)
class A2BufferingSpec(DoubleBufferingSpec, family="a2-buffering"):
    """Two Bloom filters, active and inactive, with fields as `A2Buffering` has them."""


@dataclass(frozen=True, kw_only=True)
class ForgetfulBloomSpec(Specification, family="forgetful-bloom"):
    """Forgetful Bloom filter, with fields as `ForgetfulBloomFilter` has them."""

    generation: int = required()
    past: int = required()
    bits: int = required()
    hashes: int = required()


@dataclass(frozen=True, kw_only=True)
class SwampSpec(Specification, family="swamp"):
    """SWAMP, a sliding window of fingerprints, with fields as `Swamp` has them."""

    window: int = required()
    fingerprint_bits: int = required(most=64)


@dataclass(frozen=True, kw_only=True)
class CuckooSpec(Specification, family="cuckoo"):
    """Time-decaying cuckoo dictionary, with fields as `CuckooDictionary` has them."""

    window: int = required()
    signature_bits: int = optional(0, least=0, most=32)
    positions: int = optional(most=1 << 30)
    moves: int = optional()


@dataclass(frozen=True, kw_only=True)
class TimeLimitedSpec(Specification, family="time-limited-apbf"):
    """Time-limited APBF whose slices grow with the rate, as `TimeLimitedAPBF`."""

    k: int = required()
    l: int = required()
    span: int = required(most=TIME_LIMIT - 1)
    capacity: int = required()
    slice_bits_limit: int = optional(1 << 24, least=2, most=1 << 32)
