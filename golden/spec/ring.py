"""Specifications of ring filters.

The age-partitioned families have the fields ``k``, ``l`` and the size of a segment; the
guarded-epoch families have ``window``, ``epochs``, ``hashes`` and the total ``bits`` of all
segments.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

from .. import analysis
from ..cached import Cached
from ..times import TIME_LIMIT
from .base import UNSET, Specification, optional, require, required

# what to do when a generation is full and the oldest segment is still within the span
WHEN_FULL = ("shorten", "overfill")
# fields that only specifications with a time window have
TIME_FIELDS = ("span", "generation_span", "when_full")


SHARDS: Mapping[int, int] = {1: 1, 2: 3, 4: 6}  # number of shards, by number of lanes
# Ages are 16-bit integers; the other limits bound the number of hash functions.
_GENERATIONS = 32767
_HASHES = 4096


class Geometry(NamedTuple):
    generations: int
    run: int
    blocks: int
    parts: int
    cells: int
    functions: int
    shared_cells: int = 0


def _of_geometry(name: str) -> Any:
    return property(lambda spec: getattr(spec._geometry, name))


@dataclass(frozen=True, kw_only=True)
class FilterSpec(Specification):
    """Specification of a sliding-window filter whose segments form a ring.

    Omitted fields are derived from the other fields, as in the papers. If the window is counted in
    insertions, only `span`, `generation_span` and `when_full` are None after construction.
    """

    kind, part_name, cell_name = "ring", "segment", "bit"

    blocked: ClassVar[bool] = False  # whether a key's bits are in one block per segment
    size_field: ClassVar[str]  # name of the field that sets the segment size
    _shape: ClassVar[str]

    span: int = optional(high=TIME_LIMIT - 1)
    """Time for which a key is guaranteed to be reported, in units of the timestamps. Without
    `span`, the window is counted in insertions, and `generation_span` and `when_full` must be
    omitted."""
    generation_span: int = optional(high=TIME_LIMIT)
    """Time after which a generation ends even if it is not full; by default the shortest time for
    which the generations of the window last longer than `span`."""
    when_full: str = cast(str, None)
    """What to do when a generation is full while the oldest segment is still within the span:
    "shorten", the default, retires that segment; "overfill" continues the same generation."""
    window: int = optional()
    """Number of insertions for which a key is guaranteed to be reported; by default `l`
    generations."""
    generation: int = optional()
    """Number of insertions between two shifts: g of an APBF, the epoch length of a GEBF. By
    default, the smallest number that covers `window`; without `window`, the number that half-fills
    the segments."""
    lanes: int = optional(1)
    """Number of keys that the hardware accepts per cycle: 1, 2 or 4; must be 1 if there is a span.
    With several lanes, the bits of every segment are divided among shards, and the bits of a key
    are in one shard."""
    clear: int = optional()
    """Number of bits of each memory that the hardware reads or clears per cycle: a power of two. By
    default, the smallest number that clears a segment within a generation."""
    hash: str = "h3"
    """Hash function: "h3", whose constants are public, or "siphash", which uses a secret. The
    secret is loaded at run time and is not part of a specification."""
    rekey: bool = False
    """Whether a new secret takes effect with the next segment, so that no key is forgotten. If
    False, the secret takes effect at the next clear."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hold("lanes", self.lanes in SHARDS, "must be 1, 2 or 4")
        self._hold("rekey", isinstance(self.rekey, bool), "must be True or False")
        self._hold("rekey", self.keyed or not self.rekey, f"must be False for hash {self.hash}")
        single = self.lanes == 1 or not self.rekey
        self._hold("rekey", single, "must be False with several lanes")
        self._hold("lanes", self.lanes == 1 or not self.timed, "must be 1 with a span")
        self._check_segment()
        high = max(self.index_sizes)
        rule = "must give at most 2**32 cells or blocks in a part"
        require(high <= 1 << 32, self.size_field, rule, high)
        self._complete()
        if self.timed:
            self._complete_times(self.window_generations)
        for name in () if self.timed else TIME_FIELDS[1:]:
            self._hold(name, getattr(self, name) is None, "must not be given without span")

    @abstractmethod
    def _check_segment(self) -> None: ...

    def _complete(self) -> None:
        generations = self.window_generations
        if self.generation is None:
            object.__setattr__(self, "generation", self._default_generation())
        self._hold("generation", self.generation >= 1, "must be at least 1")
        high = self.generation * generations
        if self.window is None:
            object.__setattr__(self, "window", high)
        shown = f"{high} ({generations} generations of {self.generation} insertions)"
        self._hold("window", self.window <= high, f"must be at most {shown}")
        if self.clear is None:
            cycles = max(1, self.generation // self.lanes - 1)
            low = -(-self.shard_bits // cycles)
            object.__setattr__(self, "clear", 1 << (low - 1).bit_length())
        require_power_of_two("clear", self.clear)

    def _complete_times(self, generations: int) -> None:
        low, high = self.span // generations + 1, self.span + 1
        if self.generation_span is None:
            object.__setattr__(self, "generation_span", low)
        if self.when_full is None:
            object.__setattr__(self, "when_full", WHEN_FULL[0])
        rule = f"must be at least {low} for {generations} generations to take longer than span"
        self._hold("generation_span", self.generation_span >= low, f"{rule} = {self.span}")
        rule = f"must be at most {high}, one more than span"
        self._hold("generation_span", self.generation_span <= high, rule)
        choices = ", ".join(WHEN_FULL)
        self._hold("when_full", self.when_full in WHEN_FULL, f"must be one of {choices}")

    def _default_generation(self) -> int:
        return -(-self.window // self.window_generations)

    @property
    def timed(self) -> bool:
        return self.span is not None

    @property
    def untimed(self) -> Self:
        """The same specification with a window that is counted in insertions."""
        none: dict[str, Any] = dict.fromkeys(TIME_FIELDS)
        return replace(self, **none)

    @property
    def cell_shape(self) -> tuple[int, int, int]:
        return self.segments * self.parts, self.part_bits, 1

    @property
    @abstractmethod
    def _geometry(self) -> Geometry: ...

    # Number of generations in the window: l of an APBF, r of a GEBF.
    window_generations: ClassVar[int] = _of_geometry("generations")
    # Number of segments that an insertion writes and a report requires: k of an APBF, 1 of a GEBF.
    run: ClassVar[int] = _of_geometry("run")
    # Number of blocks in a segment, the same in every shard; 1 if the family has no blocks.
    segment_blocks: ClassVar[int] = _of_geometry("blocks")
    # Number of bits that a key sets in a segment, each in its own part: b of an APBBF, k of a GEBF.
    parts: ClassVar[int] = _of_geometry("parts")
    # Number of bits of one part in one block, in all shards; without blocks, of the whole part.
    cells: ClassVar[int] = _of_geometry("cells")
    # Number of hash functions: one for each physical segment (APBF), or one for all (GEBF).
    hash_functions: ClassVar[int] = _of_geometry("functions")
    # Number of bits that hash functions share if not partitioned; 0 if they cannot share.
    shared_cells: ClassVar[int] = _of_geometry("shared_cells")

    @property
    def ring_segments(self) -> int:
        """Number of segments in the ring: k + l for an APBF (section 5.1), r + 1 for a GEBF."""
        return self.run + self.window_generations

    @property
    def segments(self) -> int:
        """Number of physical segments: those of the ring and one spare segment."""
        return self.ring_segments + 1

    @property
    def shards(self) -> int:
        """Number of shards: 1 for one lane, otherwise 1.5 per lane to avoid bottlenecks."""
        return SHARDS[self.lanes]

    @property
    def shard_sizes(self) -> dict[str, int]:
        """Mapping from the name of the size field to its value in a shard's specification."""
        return {self.size_field: self._whole_size // self.shards}

    @property
    @abstractmethod
    def _whole_size(self) -> int:
        """Value of the size field, less any bits that the filter leaves unused."""

    @property
    def part_bits(self) -> int:
        """Number of bits in one part of a segment, summed over all shards."""
        return self.segment_blocks * self.cells

    @property
    def shard_bits(self) -> int:
        """Number of bits in one part of a segment in one shard: the depth of a memory."""
        return self.part_bits // self.shards

    @property
    def index_sizes(self) -> tuple[int, ...]:
        """Range of each hash index in a shard; in blocked families, the first selects a block."""
        if self.blocked:
            return (self.segment_blocks // self.shards,) + (self.cells,) * self.parts
        return (self.shard_bits,) * self.parts

    @property
    def shape(self) -> str:
        return f"{self.family} {self._shape.format(self)}"

    @property
    def memory_bits(self) -> int:
        """Number of bits in the segments of the ring, as the papers count memory."""
        return self.ring_segments * self.parts * self.part_bits

    @property
    def storage_bits(self) -> int:
        """Number of bits in hardware: those of the ring's segments and of a spare segment."""
        return self.segments * self.parts * self.part_bits

    @property
    def guaranteed_window(self) -> int:
        """Longest window in insertions: l g for an APBF (section 5.2), r epochs for a GEBF."""
        return self.window_generations * self.generation

    @property
    def slack(self) -> int:
        """Maximum slack in insertions: k g for an APBF, one epoch for a GEBF."""
        return self.run * self.generation

    @property
    def npws(self) -> float:
        """Peak normalised probability-weighted slack (APBF, section 5.2)."""
        survival = self.segment_false_positive_rates(phase=1.0)[-1]
        return analysis.npws(self.run, self.window_generations, survival)

    def segment_false_positive_rates(self, *, phase: float) -> list[float]:
        """Return the probability that a new key matches each segment, youngest first.

        `phase` is the elapsed fraction of the current generation.
        """
        shape = {"blocks": self.segment_blocks, "cells": self.cells, "parts": self.parts}
        loads = analysis.segment_loads(self.run, self.window_generations, self.generation, phase)
        return [analysis.segment_false_positive_rate(load, **shape) for load in loads]

    def false_positive_rate(self, *, phase: float) -> float:
        """Return the expected false-positive rate for distinct keys at a phase of a generation.

        `phase` is the elapsed fraction of the generation.
        """
        fills = self.segment_false_positive_rates(phase=phase)
        return analysis.apbf_false_positive_rate(self.run, self.window_generations, fills=fills)

    @Cached
    def worst_false_positive_rate(self) -> float:
        """Expected false-positive rate of distinct keys just before a shift (APBF, section 5.3)."""
        return self.false_positive_rate(phase=1.0)

    @Cached
    def mean_false_positive_rate(self) -> float:
        """False-positive rate for distinct keys, averaged over the insertions of a generation."""
        return analysis.mean_rate(lambda p: self.false_positive_rate(phase=p), self.generation)


@dataclass(frozen=True, kw_only=True)
class AgePartitionedSpec(FilterSpec):
    """Ring in which an insertion writes several segments, each with its own hash function."""

    k: int = required(high=_HASHES)
    """Number of segments that an insertion writes."""
    l: int = required(high=_GENERATIONS)
    """Number of generations in the window."""

    def _check_segment(self) -> None:
        whole = self._whole_size % self.shards == 0
        rule = f"must be a multiple of {self.shards}, the number of shards for {self.lanes} lanes"
        self._hold(self.size_field, whole, rule)

    def _default_generation(self) -> int:
        return self._full() if self.window is None else super()._default_generation()

    @abstractmethod
    def _full(self) -> int:
        """Generation length for which the segments are half full, as in the paper."""

    @property
    def _whole_size(self) -> int:
        size: int = getattr(self, self.size_field)
        return size

    def with_generations(self, generations: int) -> Self:
        """Return this specification with a window of `generations` and the same fill."""
        return replace(self, l=generations, window=UNSET, generation=UNSET)


@dataclass(frozen=True, kw_only=True)
class APBFSpec(AgePartitionedSpec, family="apbf"):
    """Age-partitioned Bloom filter."""

    size_field = "slice_bits"
    _shape = "k={0.k} l={0.l}, {0.slice_bits:,} bits"

    slice_bits: int = required()
    """Number of bits in a segment."""

    def _full(self) -> int:
        return analysis.apbf_generation(self.slice_bits, self.k)

    @Cached
    def _geometry(self) -> Geometry:
        slices = self.k + self.l + 1
        return Geometry(self.l, self.k, blocks=1, parts=1, cells=self.slice_bits, functions=slices)


@dataclass(frozen=True, kw_only=True)
class APBBFSpec(AgePartitionedSpec, family="apbbf"):
    """Age-partitioned blocked Bloom filter."""

    blocked = True
    size_field = "blocks"
    _shape = "k={0.k} l={0.l} b={0.hashes_per_block}, {0.blocks:,} x {0.block_bits}"

    block_bits: int = required()
    """B: number of bits in a block. In hardware, the number of bits in each part of a block must
    be a power of two."""
    hashes_per_block: int = required(high=_HASHES)
    """b: number of bits that a key sets in a block."""
    blocks: int = required()
    """Number of blocks in a segment."""

    def _check_segment(self) -> None:
        whole = self.block_bits % self.hashes_per_block == 0
        rule = f"must divide block_bits = {self.block_bits} and be smaller"
        self._hold("hashes_per_block", whole and self.hashes_per_block < self.block_bits, rule)
        super()._check_segment()

    def _full(self) -> int:
        return analysis.apbbf_generation(
            self.blocks, self.block_bits, self.hashes_per_block, self.k
        )

    @Cached
    def _geometry(self) -> Geometry:
        cells = self.block_bits // self.hashes_per_block
        segments = self.k + self.l + 1
        return Geometry(self.l, self.k, self.blocks, self.hashes_per_block, cells, segments)


@dataclass(frozen=True, kw_only=True)
class GuardedEpochSpec(FilterSpec):
    """Ring in which an insertion writes one segment; all segments share one hash function."""

    size_field = "bits"

    window: int = required()
    """W: number of insertions for which a key is guaranteed to be reported."""
    epochs: int = required(high=_GENERATIONS)
    """r: number of epochs in the window."""
    hashes: int = required(high=_HASHES)
    """k: number of hash functions."""
    bits: int = required()
    """m: total number of bits in the r + 1 segments."""

    @property
    def npws(self) -> float:
        """Peak slack: 1/r, because all keys of the guard epoch, but no older ones, are reported."""
        return 1 / self.epochs


@dataclass(frozen=True, kw_only=True)
class GEBFSpec(GuardedEpochSpec, family="gebf"):
    """Guarded-epoch Bloom filter."""

    _shape = "r={0.epochs} k={0.hashes}, {0.cells:,} bits"

    def _check_segment(self) -> None:
        low = 2 * self.shards
        total = low * self.hashes * (self.epochs + 1)
        rule = f"must be at least {total} ({low} per hash and segment)"
        self._hold("bits", self.part_bits >= low, rule)

    @Cached
    def _geometry(self) -> Geometry:
        shared = self.bits // (self.epochs + 1)
        cells = shared // self.hashes // self.shards * self.shards
        return Geometry(self.epochs, 1, 1, self.hashes, cells, 1, shared)

    @property
    def _whole_size(self) -> int:
        return self.memory_bits


@dataclass(frozen=True, kw_only=True)
class BlockedGEBFSpec(GuardedEpochSpec, family="blocked-gebf"):
    """Blocked guarded-epoch Bloom filter."""

    blocked = True
    _shape = "r={0.epochs} k={0.hashes}, {0.segment_blocks:,} x {0.block_bits}"

    block_bits: int = required()
    """Number of bits in a block: a power of two."""

    def _check_segment(self) -> None:
        where = "segment" if self.shards == 1 else f"of the {self.shards} shards of a segment"
        total = self.shards * self.block_bits * (self.epochs + 1)
        below = self.hashes < self.block_bits
        require_power_of_two("block_bits", self.block_bits)
        self._hold("hashes", below, f"must be below block_bits = {self.block_bits}")
        rule = f"must be at least {total} (one block in each {where})"
        self._hold("bits", self.segment_blocks >= 1, rule)

    @Cached
    def _geometry(self) -> Geometry:
        blocks = self.bits // (self.epochs + 1) // self.block_bits // self.shards * self.shards
        cells = self.block_bits // self.hashes
        return Geometry(self.epochs, 1, blocks, self.hashes, cells, 1, self.block_bits)

    @property
    def _whole_size(self) -> int:
        return self.segment_blocks * self.block_bits * self.ring_segments


FAMILIES: Mapping[str, tuple[str, ...]] = {
    family: kind.required_fields() for family, kind in FilterSpec.families().items()
}
"""Names of the ring families, with the required parameters of each family."""


def require_power_of_two(name: str, value: int) -> None:
    require(value >= 1 and value & (value - 1) == 0, name, "must be a power of two", value)
