"""Specification of a filter: what golden, hdl, sim, boards and the command line share."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, cast

from . import analysis
from .errors import SpecificationError
from .files import replace_file
from .hash.functions import HASHES

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "apbf": ("k", "l", "slice_bits"),
    "apbbf": ("k", "l", "block_bits", "hashes_per_block", "blocks"),
    "gebf": ("window", "epochs", "hashes", "bits"),
    "blocked-gebf": ("window", "epochs", "hashes", "bits", "block_bits"),
}
"""Families, each with the parameters that it requires."""

UNSET = cast(int, None)
"""What a field is that was not given, or that the family does not have."""

_OPTIONAL = ("window", "generation", "key_bits", "seed", "lanes", "clear")
_AGE_PARTITIONED = ("apbf", "apbbf")
_SHARDS = {1: 1, 2: 3, 4: 6}
_SUMMED = 32
"""Insertions of a generation up to which the mean rate is a sum and not an integral."""
# Ages are 16-bit integers; the others keep the hash functions countable.
_AT_MOST = {
    "l": 32767, "epochs": 32767, "k": 4096, "hashes": 4096, "hashes_per_block": 4096,
    "key_bits": 4096,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FilterSpec:
    """A sliding-window filter, in the terms of the papers.

    The age-partitioned families take ``k``, ``l`` and the size of a segment;
    the guarded-epoch families take ``window``, ``epochs``, ``hashes`` and the
    ``bits`` of all segments together. What is left out gets the value that the
    papers size for; afterwards no derived field is None.

    Attributes
    ----------
    family : str
        One of `FAMILIES`.
    window : int
        Insertions for which a key is guaranteed to be reported. For the
        age-partitioned families it may be given in place of ``generation``.
    k, l : int
        Segments that an insertion writes, and generations in the window.
    slice_bits : int
        Bits of an APBF slice.
    block_bits, hashes_per_block, blocks : int
        B, b and the number of blocks of a segment.
    epochs, hashes, bits : int
        r, k and m of a GEBF: epochs in the window, hash functions, and bits
        of the r + 1 segments together.
    generation : int
        Insertions between two shifts (g; the epoch length of a GEBF).
    key_bits : int
        Width of a key.
    seed : int
        Selects the hash functions.
    lanes : int
        Keys that the hardware accepts per clock: 1, 2 or 4. Of several lanes, the bits of every
        segment are divided among `shards`, and a key has its bits in one of them.
    clear : int
        Bits of each memory that the hardware zeroes per clock. Power of two.
    hash : str
        "h3", whose constants are public, or "siphash", which takes a secret
        that is loaded at run time and is no part of a specification.
    rekey : bool
        Whether a new secret counts from the next segment on, so that no key is
        forgotten for it. Without, it counts from the next clear on.

    Raises
    ------
    SpecificationError
        If a field breaks a rule; the message names field, rule and value.
    """

    family: str
    window: int = UNSET
    k: int = UNSET
    l: int = UNSET
    slice_bits: int = UNSET
    block_bits: int = UNSET
    hashes_per_block: int = UNSET
    blocks: int = UNSET
    epochs: int = UNSET
    hashes: int = UNSET
    bits: int = UNSET
    generation: int = UNSET
    key_bits: int = 64
    seed: int = 0
    lanes: int = 1
    clear: int = 16
    hash: str = "h3"
    rekey: bool = False

    def __post_init__(self) -> None:
        self._check_fields()
        self._check_segment()
        if self.generation is None:
            object.__setattr__(self, "generation", self._default_generation())
        _require(self.generation >= 1, "generation", "must be at least 1", self.generation)
        covered = self.generation * self.window_generations
        if self.window is None:
            object.__setattr__(self, "window", covered)
        _require(
            self.window <= covered,
            "window",
            f"must be at most {self.window_generations} generations of {self.generation} "
            f"insertions = {covered}",
            self.window,
        )

    def _check_fields(self) -> None:
        if not isinstance(self.family, str) or self.family not in FAMILIES:
            raise SpecificationError(
                f"family: must be one of {', '.join(FAMILIES)}, not {self.family!r}"
            )
        required = FAMILIES[self.family]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("family", "hash", "rekey"):
                continue
            if value is None and field.default is UNSET:
                _require(
                    field.name not in required,
                    field.name,
                    f"must be given for family {self.family}",
                    None,
                )
                continue
            _require(
                field.name in required or field.name in _OPTIONAL,
                field.name,
                f"must not be given for family {self.family}",
                value,
            )
            _require(type(value) is int, field.name, "must be an integer", value)
            _require(
                value >= (0 if field.name == "seed" else 1),
                field.name,
                f"must be at least {0 if field.name == 'seed' else 1}",
                value,
            )
            most = _AT_MOST.get(field.name, 1 << 48)
            _require(
                value <= most or field.name == "seed",
                field.name,
                f"must be at most {most if most < 1 << 48 else '2**48'}",
                value,
            )
        _require(self.seed < 1 << 64, "seed", "must be below 2**64", self.seed)
        _require(self.lanes in _SHARDS, "lanes", "must be 1, 2 or 4", self.lanes)
        _require(_power_of_two(self.clear), "clear", "must be a power of two", self.clear)
        self._check_hash()

    def _check_hash(self) -> None:
        known = isinstance(self.hash, str) and self.hash in HASHES
        _require(known, "hash", f"must be one of {', '.join(HASHES)}", self.hash)
        _require(isinstance(self.rekey, bool), "rekey", "must be True or False", self.rekey)
        _require(
            self.hash == "siphash" or not self.rekey,
            "rekey",
            f"must be False for hash {self.hash}",
            self.rekey,
        )
        _require(
            self.lanes == 1 or self.hash == "h3",
            "hash",
            "must be h3 for several lanes",
            self.hash,
        )

    def _check_segment(self) -> None:
        if self.block_bits is not None:
            _require(
                _power_of_two(self.block_bits),
                "block_bits",
                "must be a power of two",
                self.block_bits,
            )
        if self.family == "apbbf":
            _require(
                _power_of_two(self.hashes_per_block) and self.hashes_per_block < self.block_bits,
                "hashes_per_block",
                f"must be a power of two below block_bits = {self.block_bits}",
                self.hashes_per_block,
            )
        self._check_shards()
        if self.family == "gebf":
            least = 2 * self.shards
            _require(
                self.part_bits >= least,
                "bits",
                f"must be at least {least} per hash and segment = "
                f"{least * self.hashes * (self.epochs + 1)}",
                self.bits,
            )
        if self.family == "blocked-gebf":
            _require(
                self.hashes < self.block_bits,
                "hashes",
                f"must be below block_bits = {self.block_bits}",
                self.hashes,
            )
            where = "segment" if self.shards == 1 else f"of the {self.shards} shards of a segment"
            _require(
                self.segment_blocks >= 1,
                "bits",
                f"must be at least one block in each {where} = "
                f"{self.shards * self.block_bits * (self.epochs + 1)}",
                self.bits,
            )
        _require(
            max(self.index_sizes) <= 1 << 32,
            {"apbf": "slice_bits", "apbbf": "blocks"}.get(self.family, "bits"),
            "must give at most 2**32 cells or blocks in a part",
            max(self.index_sizes),
        )

    def _check_shards(self) -> None:
        for name in ("slice_bits", "blocks"):
            size = getattr(self, name)
            _require(
                size is None or size % self.shards == 0,
                name,
                f"must be a multiple of the {self.shards} shards of {self.lanes} lanes",
                size,
            )

    def _default_generation(self) -> int:
        if self.window is not None:
            return -(-self.window // self.window_generations)
        if self.family == "apbf":
            return analysis.apbf_generation(self.slice_bits, self.k)
        return analysis.apbbf_generation(
            self.blocks, self.block_bits, self.hashes_per_block, self.k
        )

    # The ring

    @property
    def window_generations(self) -> int:
        """Generations in the window: l of an APBF, r of a GEBF."""
        return self.l if self.family in _AGE_PARTITIONED else self.epochs

    @property
    def run(self) -> int:
        """Consecutive segments that an insertion writes and a report needs.

        k of an APBF; 1 of a GEBF, whose query is satisfied by any segment.
        """
        return self.k if self.family in _AGE_PARTITIONED else 1

    @property
    def ring_segments(self) -> int:
        """Segments in the ring: k + l (APBF, section 5.1), r + 1 (GEBF)."""
        return self.run + self.window_generations

    @property
    def segments(self) -> int:
        """Segments that exist: those in the ring and the spare."""
        return self.ring_segments + 1

    # A segment

    @property
    def shards(self) -> int:
        """Shards that keys are spread over: three for every two lanes, so that none is full."""
        return _SHARDS[self.lanes]

    @property
    def segment_blocks(self) -> int:
        """Blocks of a segment; 1 where the family has none."""
        if self.family == "apbbf":
            return self.blocks
        if self.family == "blocked-gebf":
            blocks = self.bits // (self.epochs + 1) // self.block_bits
            return blocks // self.shards * self.shards
        return 1

    @property
    def parts(self) -> int:
        """Bits that one key sets in one segment, each in a part of its own."""
        if self.family == "apbf":
            return 1
        return self.hashes_per_block if self.family == "apbbf" else self.hashes

    @property
    def cells(self) -> int:
        """Bits of one part in one block (of the whole part without blocks)."""
        if self.family == "apbf":
            return self.slice_bits
        if self.family == "gebf":
            return self.bits // (self.epochs + 1) // self.hashes // self.shards * self.shards
        return self.block_bits // self.parts

    @property
    def part_bits(self) -> int:
        """Bits of one part of a segment, in all shards."""
        return self.segment_blocks * self.cells

    @property
    def shard_bits(self) -> int:
        """Bits of one part of a segment in one shard: the depth of one memory."""
        return self.part_bits // self.shards

    @property
    def index_sizes(self) -> tuple[int, ...]:
        """Ranges of the indices of a hash function: the block, if there are blocks, then cells.

        They are those within a shard.
        """
        if self.family in ("apbbf", "blocked-gebf"):
            return (self.segment_blocks // self.shards,) + (self.cells,) * self.parts
        return (self.shard_bits,) * self.parts

    @property
    def hash_functions(self) -> int:
        """Hash functions: one per segment for an APBF, one for all segments of a GEBF."""
        return self.segments if self.family in _AGE_PARTITIONED else 1

    # Derived figures

    @property
    def memory_bits(self) -> int:
        """Bits of the segments in the ring, as the papers count memory."""
        return self.ring_segments * self.parts * self.part_bits

    @property
    def storage_bits(self) -> int:
        """Bits that the hardware holds: the ring and the spare."""
        return self.segments * self.parts * self.part_bits

    @property
    def guaranteed_window(self) -> int:
        """Insertions for which a key is reported at every phase of a generation.

        l g (APBF, section 5.2); r epochs, at least the window (GEBF, lemma 1).
        """
        return self.window_generations * self.generation

    @property
    def slack(self) -> int:
        """Insertions past the guaranteed window after which no trace of a key is left.

        k g (APBF, section 5.2); one epoch (GEBF, proposition 1).
        """
        return self.run * self.generation

    @property
    def npws(self) -> float:
        """Normalised probability-weighted slack at its peak (APBF, section 5.2)."""
        if self.family in _AGE_PARTITIONED:
            survival = self.segment_false_positive_rates(phase=1.0)[-1]
            return analysis.npws(self.run, self.window_generations, survival)
        # The guard epoch is reported in full, and nothing older is.
        return 1 / self.window_generations

    def segment_false_positive_rates(self, *, phase: float) -> list[float]:
        """Probability that a fresh key matches, for each segment from youngest to oldest.

        Parameters
        ----------
        phase : float
            Share of the current generation that has been inserted, 0 to 1;
            every inserted key is taken to be distinct.
        """
        loads = analysis.segment_loads(self.run, self.window_generations, self.generation, phase)
        return [
            analysis.segment_false_positive_rate(
                load, blocks=self.segment_blocks, cells=self.cells, parts=self.parts
            )
            for load in loads
        ]

    def false_positive_rate(self, *, phase: float) -> float:
        """Return the expected false-positive rate at a phase of the generation, keys distinct.

        The recursion F of the APBF paper (section 5.3) over the expected
        match probabilities of the segments; for a GEBF it is 1 minus the
        product of the misses, the form of the paper's approximation.
        """
        return analysis.apbf_false_positive_rate(
            self.run,
            self.window_generations,
            fills=self.segment_false_positive_rates(phase=phase),
        )

    @cached_property
    def worst_false_positive_rate(self) -> float:
        """Expected false-positive rate just before a shift (APBF, section 5.3), keys distinct."""
        return self.false_positive_rate(phase=1.0)

    @cached_property
    def mean_false_positive_rate(self) -> float:
        """False-positive rate averaged over a generation, keys distinct.

        Over what a query meets after each of its insertions: a shift comes with the
        insertion after the last, so no query meets a generation without any.
        """
        if self.generation <= _SUMMED:
            moments = range(1, self.generation + 1)
            rates = [self.false_positive_rate(phase=i / self.generation) for i in moments]
            return sum(rates) / self.generation
        # Euler and Maclaurin: a sum is the integral and half of what its ends differ by.
        ends = self.worst_false_positive_rate - self.false_positive_rate(phase=0.0)
        return self._integrated_rate() + ends / (2 * self.generation)

    def _integrated_rate(self) -> float:
        # Gauss-Legendre: the rate is smooth in the phase, and 8 points are exact to rounding.
        points = (
            0.18343464249564980,
            0.52553240991632899,
            0.79666647741362674,
            0.96028985649753623,
        )
        weights = (
            0.36268378337836198,
            0.31370664587788729,
            0.22238103445337447,
            0.10122853629037626,
        )
        return sum(
            weight / 2 * self.false_positive_rate(phase=(1 + sign * point) / 2)
            for point, weight in zip(points, weights, strict=True)
            for sign in (-1, 1)
        )

    # Text

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build from a mapping of field names to values.

        Raises
        ------
        SpecificationError
            If a name is not a field, or a field breaks a rule.
        """
        names = [field.name for field in fields(cls)]
        for name, value in values.items():
            if name not in names:
                shown = name if name.isidentifier() else repr(name)
                raise SpecificationError(
                    f"{shown}: unknown field, must be one of {', '.join(names)} (value {value!r})"
                )
        _require("family" in values, "family", f"must be one of {', '.join(FAMILIES)}", None)
        return cls(**values)

    def to_dict(self) -> dict[str, str | int]:
        """Fields that are set, in order."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read a TOML file of fields.

        Parameters
        ----------
        path : path

        Raises
        ------
        SpecificationError
            If the file is not TOML, or its content is not a specification.
        OSError
            If the file cannot be read.
        """
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
        except (ValueError, RecursionError) as error:
            # Besides TOMLDecodeError: no UTF-8, integers of thousands of digits, deep nesting.
            raise SpecificationError(f"{os.fspath(path)}: must be a TOML file: {error}") from None
        try:
            return cls.from_dict(values)
        except SpecificationError as error:
            raise SpecificationError(f"{os.fspath(path)}: {error}") from None

    def to_toml(self, path: str | os.PathLike[str]) -> None:
        """Write a TOML file, named by `path`, of the fields that are set."""
        with replace_file(path) as file:
            file.write(self.toml().encode())

    def toml(self) -> str:
        """Return the fields that are set, as TOML."""
        return "".join(f"{name} = {_toml_value(value)}\n" for name, value in self.to_dict().items())


def _toml_value(value: str | int) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _power_of_two(value: int) -> bool:
    return value >= 1 and value & (value - 1) == 0


def _require(condition: bool, field: str, rule: str, value: object) -> None:
    if not condition:
        raise SpecificationError(f"{field}: {rule}, not {value!r}")


def preset(name: str) -> FilterSpec:
    """Return the preset of that name.

    Raises
    ------
    SpecificationError
        If there is none.
    """
    if name not in PRESETS:
        raise SpecificationError(f"preset: must be one of {', '.join(PRESETS)}, not {name!r}")
    return PRESETS[name]


_SIPHASH: Mapping[str, Any] = {"hash": "siphash", "rekey": True}
_APBBF_TINY = FilterSpec(
    family="apbbf", k=2, l=2, block_bits=8, hashes_per_block=2, blocks=4, key_bits=8, clear=8
)
_APBBF_DEFAULT = FilterSpec(
    family="apbbf", k=2, l=5, block_bits=64, hashes_per_block=4, blocks=1024
)


def _with_lanes(shard: FilterSpec, lanes: int) -> FilterSpec:
    blocks = shard.blocks * _SHARDS[lanes]
    return replace(shard, lanes=lanes, blocks=blocks, window=UNSET, generation=UNSET)


PRESETS: Mapping[str, FilterSpec] = {
    "default": _APBBF_DEFAULT,
    # The largest of k = 3 with which block RAMs of the largest ECP5 are filled.
    "large": FilterSpec(family="apbbf", k=3, l=9, block_bits=64, hashes_per_block=4, blocks=4096),
    # The largest of its kind that fits the small iCE40 devices.
    "small": FilterSpec(family="apbbf", k=2, l=4, block_bits=64, hashes_per_block=4, blocks=256),
    "tiny": _APBBF_TINY,
    "apbbf-default": _APBBF_DEFAULT,
    "apbbf-tiny": _APBBF_TINY,
    "apbf-default": FilterSpec(family="apbf", k=10, l=7, slice_bits=16384),
    "apbf-tiny": FilterSpec(family="apbf", k=3, l=2, slice_bits=32, key_bits=8, clear=8),
    "gebf-default": FilterSpec(family="gebf", window=20000, epochs=8, hashes=4, bits=9 * 4 * 8192),
    "gebf-tiny": FilterSpec(
        family="gebf", window=16, epochs=2, hashes=2, bits=3 * 2 * 16, key_bits=8, clear=8
    ),
    "blocked-gebf-default": FilterSpec(
        family="blocked-gebf", window=20000, epochs=8, hashes=4, bits=9 * 32768, block_bits=64
    ),
    "blocked-gebf-tiny": FilterSpec(
        family="blocked-gebf",
        window=16,
        epochs=2,
        hashes=2,
        bits=3 * 32,
        block_bits=8,
        key_bits=8,
        clear=8,
    ),
    "siphash-default": replace(_APBBF_DEFAULT, **_SIPHASH),
    "siphash-tiny": replace(_APBBF_TINY, key_bits=16, **_SIPHASH),
    # In each shard as many blocks as the default has; of the tiny ones twice as many.
    "two-lanes": _with_lanes(_APBBF_DEFAULT, 2),
    "four-lanes": _with_lanes(_APBBF_DEFAULT, 4),
    "two-lanes-tiny": _with_lanes(replace(_APBBF_TINY, blocks=8), 2),
    "four-lanes-tiny": _with_lanes(replace(_APBBF_TINY, blocks=8), 4),
}
"""Named specifications, used alike by tests, synthesis and docs."""
