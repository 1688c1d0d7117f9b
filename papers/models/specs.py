"""Parameters of the baseline models, as specifications."""

from dataclasses import dataclass

from lately.golden.spec.base import Specification, optional, required
from lately.golden.times import TIME_LIMIT

_BITS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class BloomSpec(Specification, family="bloom"):
    bits: int = required(low=2, high=_BITS)  # m; a remainder of the division into parts is unused
    hashes: int = required()  # k; two of them may select the same bit


@dataclass(frozen=True, kw_only=True)
class PartitionedBloomSpec(BloomSpec, family="partitioned-bloom"):
    """Partitioned Bloom filter, with at least 2 bits for each hash function."""


@dataclass(frozen=True, kw_only=True)
class BlockedBloomSpec(BloomSpec, family="blocked-bloom"):
    block_bits: int = required(low=2)  # at most `bits`


@dataclass(frozen=True, kw_only=True)
class CountingBloomSpec(Specification, family="counting-bloom"):
    window: int = required()  # W
    counters: int = required(low=2, high=_BITS)
    hashes: int = required()  # k
    counter_bits: int = optional(4, high=8)
    saturated: str = "kept"  # or "decremented": whether a counter at its maximum is decremented


@dataclass(frozen=True, kw_only=True)
class StableBloomSpec(Specification, family="stable-bloom"):
    cells: int = required(low=2, high=_BITS)  # m
    hashes: int = required()  # K
    decrements: int = required()  # P, cells that an insertion decrements; at most `cells`
    cell_bits: int = optional(1, high=8)  # d


@dataclass(frozen=True, kw_only=True)
class DoubleBufferingSpec(Specification, family="double-buffering"):
    generation: int = required()  # insertions between two switches: W
    bits: int = required(low=4, high=2 * _BITS)  # total of both filters
    hashes: int = required()  # k, the same functions for both filters


@dataclass(frozen=True, kw_only=True)
class A2BufferingSpec(DoubleBufferingSpec, family="a2-buffering"):
    """Two active Bloom filters; `generation` counts the keys written to the first."""


@dataclass(frozen=True, kw_only=True)
class ForgetfulBloomSpec(Specification, family="forgetful-bloom"):
    generation: int = required()  # insertions between two shifts
    past: int = required()  # N, number of past segments
    bits: int = required()  # total of the N + 2 segments; a remainder is unused
    hashes: int = required()  # k


@dataclass(frozen=True, kw_only=True)
class SwampSpec(Specification, family="swamp"):
    window: int = required()  # W
    fingerprint_bits: int = required(high=64)  # L


@dataclass(frozen=True, kw_only=True)
class CuckooSpec(Specification, family="cuckoo"):
    window: int = required()  # n, the largest window
    signature_bits: int = optional(0, low=0, high=32)
    positions: int = optional(high=1 << 30)  # per table; the paper's 2 n by default
    # Maximum number of entries that an insertion moves, O(log n). Default: 3 times the bits of
    # `window`.
    moves: int = optional()


@dataclass(frozen=True, kw_only=True)
class TimeLimitedSpec(Specification, family="time-limited-apbf"):
    k: int = required()  # slices that an insertion writes
    l: int = required()  # generations per span
    span: int = required(high=TIME_LIMIT - 1)  # T, in units of the timestamps
    capacity: int = required()  # expected keys per span, used at the start; the filter adapts
    # A burst of g insertions within dt needs slices of g k T / (l dt ln 2) bits. The paper gives no
    # bound for this.
    slice_bits_limit: int = optional(1 << 24, low=2, high=1 << 32)
