"""Figures of the hardware of timing filters: latency, ticks and limits. Needs no Amaranth."""

from dataclasses import dataclass
from typing import Any

from ...golden.spec.base import require
from ...golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..latencies import (
    CONTROL_LAG,
    DEFAULT_LEVELS,
    MOST_PARTS,
    MOST_WORDS,
    PROTECTIONS,
    QUEUE_LATENCY,
    SPARE_SETTLE,
    ceil_log,
    check_bits,
    hash_latency,
)
from ..memory.map import BLOCK_KINDS, CELL_VARIANTS, cell_columns
from .sweep_rules import check_elision, check_rest, elision_period, rest_interval

PART_LATENCY = 7
"""Clocks from the address of a cell to its age."""

DECISION_LATENCY = 3
"""Clocks from the age of a key and the number of its oldest cells to the answer of a table."""


def oldest_latency(hashes: int) -> int:
    """Return the clocks from the ages of as many cells as `hashes` to a verdict."""
    return int(2 * ceil_log(2, hashes)) + (3 if hashes > 1 else 2)


@dataclass(frozen=True)
class TimingProfile:
    """Figures of the unit of a timing filter.

    Attributes
    ----------
    spec : StampedPartsSpec
    memory : str
        Variant of the memories, one of `CELL_VARIANTS`, or a class of them.
    levels : int
        Levels of look-up tables between two registers, see `lately.hdl.pipeline.Pipeline`.
    protect : str
        What an upset of a memory may cost, one of `PROTECTIONS`. With "parity" a tick is a clock
        longer at least, as what is found upset is written once more.
    """

    spec: StampedPartsSpec
    memory: Any = "portable"
    levels: int = DEFAULT_LEVELS
    protect: str = "none"

    @property
    def decides(self) -> bool:
        """Whether a table of decisions answers."""
        return self.spec.classes is not None

    @property
    def counted(self) -> bool:
        """Whether the clock counts insertions."""
        return isinstance(self.spec, PartitionedTimingSpec)

    @property
    def lanes(self) -> int:
        """Operations that the unit accepts per clock."""
        return 1

    @property
    def segments(self) -> int:
        """Parts, each with a memory of its own."""
        return self.spec.hashes

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of an operation to its result, on an idle output."""
        return sum(self.latency_terms.values())

    @property
    def latency_terms(self) -> dict[str, int]:
        """Cycles of the pipeline, stage by stage, in order."""
        hashed = hash_latency(self.spec.key_bits, levels=self.levels)
        return {
            "hash": max(CONTROL_LAG, hashed),
            # From the parts, which lie far apart, it is a clock to what compares them.
            "cells": PART_LATENCY + 1,
            "oldest": oldest_latency(self.spec.hashes),
            **({"decision": DECISION_LATENCY} if self.decides else {}),
            "queue": QUEUE_LATENCY - 1,
        }

    @property
    def least_period(self) -> int:
        """Least cycles between two ticks; 0 if the clock counts insertions."""
        return 0 if self.counted else elision_period(self.spec) + (self.protect == "parity")

    @property
    def rest_interval(self) -> int:
        """Cycles in one of which no operation is accepted; 0 if one is in all of them."""
        spec = self.spec
        return rest_interval(spec) if isinstance(spec, PartitionedTimingSpec) else 0

    @property
    def longest_pause(self) -> int:
        """Most cycles for which a CLEAR keeps the input closed: a cell of each part per clock."""
        return self.spec.cells + self.latency + 32

    @property
    def reset_pause(self) -> int:
        """Most cycles from the end of a reset to the first acceptance."""
        return self.longest_pause + SPARE_SETTLE + 1

    @property
    def block_rams(self) -> int:
        """Block RAMs of an ECP5 that the cells take."""
        blocks = -(-self.cell_bits // cell_columns(self.spec.cells))
        return self.spec.hashes * self.copies * blocks

    @property
    def cell_bits(self) -> int:
        """Bits of a cell: the stamp, and its parity if there is one."""
        bits = self.spec.stamp_bits
        return bits + (check_bits(bits) if self.protect == "parity" else 0)

    @property
    def copies(self) -> int:
        """Copies of each memory, which answer as one."""
        return PROTECTIONS[self.protect] if self.protect == "ecc" else 1

    def check_buildable(self) -> None:
        """Refuse what the hardware cannot hold.

        Raises
        ------
        SpecificationError
            If the family is another, the memory is none for timing filters, a part has more cells
            than a block RAM, or as `check_elision` or `check_rest`.
        """
        spec: Any = self.spec
        kinds = (TimedTimingSpec, PartitionedTimingSpec)
        families = " or ".join(kind.family for kind in kinds)
        require(isinstance(spec, kinds), "family", f"must be {families}", spec.family)
        named = f"for family {spec.family}"
        rule = f"must be {' or '.join(PROTECTIONS)}"
        require(self.protect in PROTECTIONS, "protect", rule, self.protect)
        known = not isinstance(self.memory, str) or self.memory in CELL_VARIANTS
        rule = f"must be {' or '.join(CELL_VARIANTS)} {named}"
        require(known, "memory", rule, self.memory)
        self.check_sweep()
        if self.counted:
            even = spec.block & (spec.block - 1) == 0 or not self.decides
            require(even, "block", "must be a power of two for tables", spec.block)
        rule = f"must be at most {MOST_PARTS} in hardware"
        require(spec.hashes <= MOST_PARTS, "hashes", rule, spec.hashes)
        rule = f"must be at most {MOST_WORDS // spec.hashes} for {spec.hashes} hashes in hardware"
        require(spec.hashes * spec.cells <= MOST_WORDS, "cells", rule, spec.cells)
        self._check_block_rams()

    def check_sweep(self) -> None:
        """Refuse a filter whose sweep would come too late.

        Raises
        ------
        SpecificationError
            As `check_rest` if the clock counts insertions, otherwise as `check_elision`.
        """
        if isinstance(self.spec, PartitionedTimingSpec):
            check_rest(self.spec)
        else:
            check_elision(self.spec, clocks=self.least_period)

    def _check_block_rams(self) -> None:
        spec, most = self.spec, BLOCK_KINDS["ecp5"].bits
        rule = f"must be at most {most} for ecp5, the bits of a block RAM"
        require(self.memory != "ecp5" or spec.cells <= most, "cells", rule, spec.cells)
        if not self.decides:
            return
        most = most if self.memory == "ecp5" else MOST_WORDS
        rule = f"must give at most {most} entries of two tables in hardware"
        require(self.table_words <= most, "classes", rule, self.table_words)

    @property
    def table_words(self) -> int:
        """Words of the memory of both tables, each field of an entry's place in bits of its own."""
        classes, ages, phases = self.spec.table_shape
        bits = (classes - 1).bit_length() + (ages - 1).bit_length() + (phases - 1).bit_length()
        return 2 << bits
