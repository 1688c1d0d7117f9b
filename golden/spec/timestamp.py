"""Specifications of filters whose cells hold timestamps.

The fields are the parameters of the models. A field that a model can derive may be omitted; it is
then None.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from .. import analysis
from ..sizing import parts_rate
from ..times import TIME_LIMIT
from .base import Specification, optional, require, required

_LONGEST = 1 << 30
_HASHES = 1 << 10
_CLASSES = 1 << 12
_REQUIRED = {"required": True}


@dataclass(frozen=True, kw_only=True)
class TimingSpec(Specification, family="timing"):
    window: int = required(high=_LONGEST)  # w: insertions for which a key is always reported
    cells: int = required(high=_LONGEST)  # m: number of cells
    hashes: int = required(high=_HASHES)  # k: hash functions, which share all cells
    # Number of timestamps beyond the ``ceil(window / block) + 2`` that are needed. By default, the
    # smallest number for which the sweep examines at most `hashes` cells per insertion: about
    # ``cells / (hashes block)``.
    padding: int = optional(low=0, high=_LONGEST)


@dataclass(frozen=True, kw_only=True)
class BlockTimingSpec(TimingSpec, family="block-timing"):
    block: int = required(high=_LONGEST)  # B: number of insertions that share a timestamp


@dataclass(frozen=True, kw_only=True)
class InferentialSpec(TimingSpec, family="inferential"):
    block: int = optional(1, high=_LONGEST)  # B: insertions per block; 1 for a timing Bloom filter
    # D(j) of the stream, see `checked_distinct`, for j up to `block`; with `recurring`, up to
    # ``window + block - 1``.
    distinct: Mapping[str, Any] = field(default=cast(dict[str, Any], None), metadata=_REQUIRED)
    probability: float = field(default=cast(float, None), metadata=_REQUIRED)  # p_x
    false_positive: float = 1.0  # cost of an error; finite, at least 0
    false_negative: float = 1.0
    recurring: bool = False  # see `age_posterior`


@dataclass(frozen=True, kw_only=True)
class StampedPartsSpec(Specification):
    """Timing Bloom filter whose cells hold block numbers; each hash function has its own cells."""

    kind, _asks = "timing", True

    hashes: int = required(high=_HASHES)
    """k: number of parts, each with its own hash function."""
    cells: int = required(high=_LONGEST)
    """Number of cells in a part."""
    stamp_bits: int = optional(low=2, high=64)
    """c: width of a cell in hardware, where timestamps wrap after 2**c blocks. By default, the
    smallest width for which a sweep may take as many blocks as the window has."""
    classes: int = optional(high=_CLASSES)
    """Number of query classes of a filter that uses a table of thresholds. If omitted, there is no
    table, and each query has a window instead of a class."""
    phase_bits: int = optional(low=0, high=_LONGEST.bit_length())
    """q: number of bits that select a phase of the table; they are the leading bits of the number
    of insertions in the current block. By default, 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes is None:
            self._hold("phase_bits", self.phase_bits is None, "must not be given without classes")
        else:
            self._check_table()
        rule = f"must be a multiple of {self._block_field} = {self.block_units}"
        self._hold(self._window_field, self.guaranteed_window % self.block_units == 0, rule)
        low = (self.window_blocks + 2).bit_length()
        if self.stamp_bits is None:
            doubled = (2 * self.window_blocks + 1).bit_length()
            object.__setattr__(self, "stamp_bits", max(low, doubled))
        rule = f"must be at least {low} for a window of {self.window_blocks} blocks and the sweep"
        self._hold("stamp_bits", self.stamp_bits >= low, rule)

    def _check_table(self) -> None:
        # A threshold is at most `hashes` + 1, and must fit into a byte.
        self._hold("hashes", self.hashes < 255, "must be at most 254 with classes")
        if self.phase_bits is None:
            object.__setattr__(self, "phase_bits", 0)
        elif self.timed:
            self._hold("phase_bits", self.phase_bits == 0, "must be 0 if the filter has a span")
        else:
            digits = self.block_units.bit_length() - 1
            rule = f"must be at most {digits} for blocks of {self.block_units}"
            self._hold("phase_bits", self.phase_bits <= digits, rule)

    @property
    def cell_shape(self) -> tuple[int, int, int]:
        return self.hashes, self.cells, self.stamp_bits

    @property
    @abstractmethod
    def mean_false_positive_rate(self) -> float: ...

    @property
    def storage_bits(self) -> int:
        """Total number of bits in all cells in hardware."""
        return self.hashes * self.cells * self.stamp_bits

    @property
    def table_shape(self) -> tuple[int, int, int]:
        """Shape of a table of thresholds: numbers of classes, ages and phases."""
        return self.classes or 0, self.window_blocks + 2, 1 << (self.phase_bits or 0)

    @property
    def shape(self) -> str:
        return f"{self.family} k={self.hashes}, {self.cells:,} x {self.stamp_bits} bits"

    @property
    def sweep_blocks(self) -> int:
        """Maximum number of blocks after which the sweep must visit a cell again."""
        return (1 << self.stamp_bits) - 2 - self.window_blocks

    @property
    def index_sizes(self) -> tuple[int, ...]:
        """Ranges of the hash function's indices: the number of cells in each part."""
        return (self.cells,) * self.hashes


@dataclass(frozen=True, kw_only=True)
class PartitionedTimingSpec(StampedPartsSpec, family="partitioned-timing"):
    """Specification of a `PartitionedTimingFilter`."""

    window: int = required(high=_LONGEST)
    """W: number of insertions for which a key is guaranteed to be reported; a multiple of
    `block`."""
    block: int = optional(1, high=_LONGEST)
    """B: number of insertions in a block."""

    _block_field = "block"

    @property
    def mean_false_positive_rate(self) -> float:
        """Expected false-positive rate for distinct keys, averaged over a block."""
        return analysis.window_rate(
            lambda load: parts_rate(load, self.cells, self.hashes), self.window, self.block
        )

    @property
    def shape(self) -> str:
        return super().shape + (f", blocks of {self.block:,}" if self.block > 1 else "")


@dataclass(frozen=True, kw_only=True)
class TimedTimingSpec(StampedPartsSpec, family="timed-timing"):
    """Specification of a `TimedTimingFilter`."""

    span: int = required(high=TIME_LIMIT - 1)
    """W: time for which a key is guaranteed to be reported, in units of the timestamps; a multiple
    of `period`."""
    period: int = optional(1, high=TIME_LIMIT - 1)
    """Duration of a block, in units of the timestamps."""

    _block_field, _window_field = "period", "span"

    @property
    def timed(self) -> bool:
        return True

    @property
    def mean_false_positive_rate(self) -> float:
        """Expected false-positive rate, averaged over a tick, if half of the cells are in use."""
        return float(0.5**self.hashes)


def timing_preset(name: str) -> StampedPartsSpec:
    """Return the preset of `TIMINGS` called `name`; SpecificationError if there is none."""
    require(name in TIMINGS, "preset", f"must be one of {', '.join(TIMINGS)}", name)
    return TIMINGS[name]


TIMINGS: Mapping[str, StampedPartsSpec] = {
    "tiny": TimedTimingSpec(span=20, hashes=3, cells=16, stamp_bits=5, key_bits=16, seed=3),
    "small": TimedTimingSpec(span=1000, hashes=4, cells=1024, stamp_bits=11),
    # 32 block RAMs, 8 for each part.
    "default": TimedTimingSpec(span=32768, hashes=4, cells=8192, stamp_bits=16),
    "counted-tiny": PartitionedTimingSpec(
        window=20, hashes=3, cells=16, stamp_bits=7, key_bits=16, seed=3
    ),
    # 36 block RAMs, 9 for each part.
    "counted-default": PartitionedTimingSpec(window=5700, hashes=4, cells=8192, stamp_bits=18),
}
"""Presets of partitioned timing filters; names with "counted" have a window in insertions."""
