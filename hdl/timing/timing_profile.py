"""Latency, ticks and limits of timing filters in hardware.

This module does not import Amaranth.
"""

from dataclasses import dataclass
from typing import Any

from ...golden.spec.base import require
from ...golden.spec.timestamp import StampedPartsSpec
from ..latencies import (
    CONTROL_LAG,
    MAX_PARTS,
    MAX_WORDS,
    PROTECTIONS,
    QUEUE_LATENCY,
    TIMING_TICKS,
)
from ..memory.map import BLOCK_KINDS, CELL_VARIANTS, cell_columns
from ..parameters import check_bits
from ..profile import Profile
from ..stages import hash_stages, oldest_stages
from .sweep_rules import (
    DECISION_LATENCY,
    PART_LATENCY,
    check_elision,
    check_rest,
    elision_period,
    rest_interval,
)


@dataclass(frozen=True)
class TimingProfile(Profile):
    """Latency and limits of a timing filter's unit."""

    spec: StampedPartsSpec

    MEMORIES = CELL_VARIANTS
    PROTECTIONS = tuple(PROTECTIONS)
    MAX_LEVELS = 1

    @property
    def decides(self) -> bool:
        """Whether a table of thresholds determines the answers."""
        return self.spec.classes is not None

    @property
    def counted(self) -> bool:
        """Whether ticks count insertions rather than time."""
        return not self.spec.timed

    @property
    def ticks(self) -> tuple[str, ...]:
        return () if self.counted else TIMING_TICKS

    @property
    def time_bits(self) -> int:
        return 0 if self.counted else self.spec.stamp_bits

    @property
    def segments(self) -> int:
        return self.spec.hashes

    @property
    def latency_terms(self) -> dict[str, int]:
        hashed = hash_stages(self.spec.key_bits, "h3", self.levels)
        return {
            "hash": max(CONTROL_LAG, hashed),
            # The parts are far apart, so the path to the comparison takes one cycle.
            "cells": PART_LATENCY + 1,
            "oldest": oldest_stages(self.spec.hashes),
            **({"decision": DECISION_LATENCY} if self.decides else {}),
            "queue": QUEUE_LATENCY - 1,
        }

    @property
    def min_period(self) -> int:
        return 0 if self.counted else elision_period(self.spec) + (self.protect == "parity")

    @property
    def rest_interval(self) -> int:
        """Maximum number of cycles from one idle cycle to the next; 0 if no cycle must be idle."""
        return rest_interval(self.spec) if self.counted else 0

    @property
    def longest_pause(self) -> int:
        # One cell of each part per cycle.
        return self.spec.cells + self.latency + 32

    @property
    def pauses(self) -> list[str]:
        interval = self.rest_interval
        every = f"Under continuous requests, the input stalls for one cycle in {interval}."
        return [every] if interval else []

    def promise(self, key: str, *, flags: bool) -> list[str]:
        spec, block = self.spec, self.spec.block_units
        if self.decides:
            last = f"the last {spec.guaranteed_window:,} {'ticks' if spec.timed else 'insertions'}"
            return [f"The table of thresholds determines which keys of {last} are reported."]
        window = f"A query with the window w, 1 to {spec.window_blocks:,}"
        if spec.timed:
            return [f"{window}, reports a key up to w ticks after its insertion, and not later."]
        edges = "while d < w, and not at d ≥ w"
        if block > 1:
            window += f" blocks of {block:,} insertions"
            edges = f"while d < {block:,} w, and not at d ≥ {block:,} w + {block - 1:,}"
        return [
            f"Let d be the number of insertions after a key's own insertion. {window}, reports the "
            f"key {edges}."
        ]

    @property
    def block_rams(self) -> int:
        blocks = -(-self.cell_bits // cell_columns(self.spec.cells))
        return self.spec.hashes * self.copies * blocks

    @property
    def cell_bits(self) -> int:
        """Number of bits per cell: the stamp and, with the protection "parity", its parity."""
        bits = self.spec.stamp_bits
        return bits + (check_bits(bits) if self.protect == "parity" else 0)

    @property
    def copies(self) -> int:
        return PROTECTIONS[self.protect] if self.protect == "tmr" else 1

    def check_buildable(self) -> None:
        super().check_buildable()
        spec: Any = self.spec
        self.check_sweep()
        if self.counted:
            even = spec.block & (spec.block - 1) == 0 or not self.decides
            require(even, "block", "must be a power of two for a table of thresholds", spec.block)
        rule = f"must be at most {MAX_PARTS} in hardware"
        require(spec.hashes <= MAX_PARTS, "hashes", rule, spec.hashes)
        rule = f"must be at most {MAX_WORDS // spec.hashes} for {spec.hashes} hashes in hardware"
        require(spec.hashes * spec.cells <= MAX_WORDS, "cells", rule, spec.cells)
        self._check_block_rams()

    def check_sweep(self) -> None:
        """Reject a filter whose sweep would be too late."""
        if self.counted:
            check_rest(self.spec)
        else:
            check_elision(self.spec, clocks=self.min_period)

    def _check_block_rams(self) -> None:
        spec, limit = self.spec, BLOCK_KINDS["ecp5"].bits
        rule = f"must be at most {limit}, the number of bits in an ecp5 block RAM"
        require(self.memory != "ecp5" or spec.cells <= limit, "cells", rule, spec.cells)
        if not self.decides:
            return
        explicit = isinstance(self.memory, str) and self.memory.startswith("ecp5")
        limit = limit if explicit else MAX_WORDS
        rule = f"must give at most {limit} table entries in the two banks together"
        require(self.table_words <= limit, "classes", rule, self.table_words)

    @property
    def table_words(self) -> int:
        """Number of words in the two banks of the table of thresholds together."""
        classes, ages, phases = self.spec.table_shape
        bits = (classes - 1).bit_length() + (ages - 1).bit_length() + (phases - 1).bit_length()
        return 2 << bits
