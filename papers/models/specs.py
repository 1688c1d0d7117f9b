"""Specifications of the filters that the papers compare with: the parameters of their models."""

from dataclasses import dataclass

from lately.golden.spec.base import Specification, optional, required
from lately.golden.times import TIME_LIMIT

_BITS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class BloomSpec(Specification, family="bloom"):
    bits: int = required(low=2, high=_BITS)  # m; what does not divide evenly is left unused
    hashes: int = required()  # k; two of them may select the same bit


@dataclass(frozen=True, kw_only=True)
class PartitionedBloomSpec(BloomSpec, family="partitioned-bloom"):
    """Partitioned Bloom filter: 2 bits at least for each hash function."""


@dataclass(frozen=True, kw_only=True)
class BlockedBloomSpec(BloomSpec, family="blocked-bloom"):
    block_bits: int = required(low=2)  # `bits` at most


@dataclass(frozen=True, kw_only=True)
class CountingBloomSpec(Specification, family="counting-bloom"):
    window: int = required()  # W
    counters: int = required(low=2, high=_BITS)
    hashes: int = required()  # k
    counter_bits: int = optional(4, high=8)
    saturated: str = "kept"  # or "decremented": what happens to a counter at its maximum


@dataclass(frozen=True, kw_only=True)
class StableBloomSpec(Specification, family="stable-bloom"):
    cells: int = required(low=2, high=_BITS)  # m
    hashes: int = required()  # K
    decrements: int = required()  # P, cells that an insertion decrements; `cells` at most
    cell_bits: int = optional(1, high=8)  # d


@dataclass(frozen=True, kw_only=True)
class DoubleBufferingSpec(Specification, family="double-buffering"):
    generation: int = required()  # insertions from switch to switch: W
    bits: int = required(low=4, high=2 * _BITS)  # of both filters
    hashes: int = required()  # k, the same in both


@dataclass(frozen=True, kw_only=True)
class A2BufferingSpec(DoubleBufferingSpec, family="a2-buffering"):
    """Two active Bloom filters; `generation` counts the keys that are written."""


@dataclass(frozen=True, kw_only=True)
class ForgetfulBloomSpec(Specification, family="forgetful-bloom"):
    generation: int = required()  # insertions between two shifts
    past: int = required()  # N, segments of the past
    bits: int = required()  # of the N + 2 segments; what does not divide evenly is left unused
    hashes: int = required()  # k


@dataclass(frozen=True, kw_only=True)
class SwampSpec(Specification, family="swamp"):
    window: int = required()  # W
    fingerprint_bits: int = required(high=64)  # L


@dataclass(frozen=True, kw_only=True)
class CuckooSpec(Specification, family="cuckoo"):
    window: int = required()  # n, the largest window
    signature_bits: int = optional(0, low=0, high=32)
    positions: int = optional(high=1 << 30)  # of each table, by default the paper's 2 n
    # Entries that an insertion may move before it gives up, O(log n); by default 3 times the bits
    # of `window`.
    moves: int = optional()


@dataclass(frozen=True, kw_only=True)
class TimeLimitedSpec(Specification, family="time-limited-apbf"):
    """Time-limited APBF whose slices grow with the rate."""

    k: int = required()  # slices that an insertion writes
    l: int = required()  # generations into which the span is divided
    span: int = required(high=TIME_LIMIT - 1)  # T, in units of the timestamps
    capacity: int = required()  # keys expected in a span at first; the filter corrects it
    # A burst of g insertions in the time dt needs slices of g k T / (l dt ln 2) bits, for which
    # the paper has no bound.
    slice_bits_limit: int = optional(1 << 24, low=2, high=1 << 32)
