"""Limits and latency of a window dictionary in hardware.

This module does not import Amaranth.
"""

from dataclasses import dataclass

from ...golden.spec.base import require
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS, MAX_WORDS, PROTECTIONS, QUEUE_LATENCY
from ..memory.map import BLOCK_KINDS, CELL_VARIANTS, cell_columns
from ..parameters import check_bits
from ..profile import Profile
from ..stages import hash_stages
from .dictionary_figures import ANSWER, COMPARISON, HAZARDS, MIN_WINDOW


def rows_latency(spec: WindowDictionarySpec, *, levels: int = DEFAULT_LEVELS) -> int:
    """Return the number of cycles until the memories receive the addresses of a key's cells."""
    return max(CONTROL_LAG, hash_stages(spec.key_bits, spec.hash, levels)) + 2 + COMPARISON


@dataclass(frozen=True)
class DictionaryProfile(Profile):
    """Latency and limits of a unit with a window dictionary."""

    spec: WindowDictionarySpec

    MEMORIES = CELL_VARIANTS
    PROTECTIONS = tuple(PROTECTIONS)

    @property
    def segments(self) -> int:
        return self.spec.columns

    @property
    def block_rams(self) -> int:
        self._check_rows()
        return self.spec.columns * self.copies * -(-self.cell_bits // cell_columns(self.spec.rows))

    @property
    def cell_bits(self) -> int:
        """Width of a cell, including the parity bits and the unknown flag of a protected cell."""
        bits = self.spec.cell_bits
        return bits + 1 + check_bits(bits + 1) if self.protect == "parity" else bits

    @property
    def copies(self) -> int:
        return PROTECTIONS[self.protect] if self.protect == "tmr" else 1

    @property
    def latency_terms(self) -> dict[str, int]:
        rows = rows_latency(self.spec, levels=self.levels)
        return {"rows": rows, "answer": ANSWER, "queue": QUEUE_LATENCY - 1}

    @property
    def longest_pause(self) -> int:
        return self.spec.rows + 2 * self.latency

    @property
    def pauses(self) -> list[str]:
        return ["The input stalls for single cycles if many insertions write to the same column."]

    def promise(self, key: str, *, flags: bool) -> list[str]:
        return [
            self._both_ends(),
            "An entry may be lost if its columns are full: `lost` counts such entries.",
            f"A REMOVE erases a digest of {self.spec.digest_bits} bits. With a probability of "
            f"{self.spec.mean_false_positive_rate:.2g}, another key of a full window has the same "
            "digest and is erased too; `lost` and `status` do not show this.",
        ]

    def check_buildable(self) -> None:
        super().check_buildable()
        spec = self.spec
        rule = (
            f"must be at least {MIN_WINDOW} in hardware, where {HAZARDS} operations are in flight"
        )
        require(spec.window >= MIN_WINDOW, "window", rule, spec.window)
        rule = (
            f"must be at least {spec.columns + 1} in hardware with moves, because each of "
            f"{spec.columns} columns may hold an entry"
        )
        require(not spec.moves or spec.stash > spec.columns, "stash", rule, spec.stash)
        limit = MAX_WORDS // spec.columns
        rule = f"must be at most {limit} for {spec.columns} columns in hardware"
        require(spec.rows <= limit, "rows", rule, spec.rows)
        if self.memory == "ecp5":
            self._check_rows()

    def _check_rows(self) -> None:
        limit = BLOCK_KINDS["ecp5"].bits
        rule = f"must be at most {limit} for ecp5, the number of bits in a block RAM"
        require(self.spec.rows <= limit, "rows", rule, self.spec.rows)
