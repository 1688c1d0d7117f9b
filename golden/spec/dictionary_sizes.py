"""Specification, sizing functions and presets of the window dictionary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..analysis import digest_false_positive_rate, stashed_entries
from ..hash.functions import RANGE_BITS
from ..sizing import smallest
from .base import Specification, optional, require, required

# minimum insertions per row of a sweep: six cycles check the row, the rest provide idle cycles
SWEPT_PER_ROW = 10
SWEEP_MARGIN = 256  # insertions by which a sweep may be late, operations in flight included
MAX_COLUMNS = 12  # maximum columns when a dictionary is sized for a window
MAX_STASHED = 0.01  # maximum mean number of entries in the stash
MAX_MOVED = 1 / 40  # with moves: maximum fraction of insertions without a free cell
MAX_MOVING_COLUMNS = 8  # with moves: more columns this full make moves slow
# with moves: an entry without a cell waits in the stash
MOVING: Mapping[str, Any] = {"stash": 16, "moves": 64}


@dataclass(frozen=True, kw_only=True)
class WindowDictionarySpec(Specification, family="window-dictionary"):
    """Specification of a `WindowDictionary`."""

    kind, part_name, _asks = "dictionary", "column", True

    window: int = required(high=1 << 30)
    """n: number of insertions after which an entry expires."""
    columns: int = required(high=64)
    """Number of columns. A key has one cell in each column."""
    rows: int = required(low=2, high=1 << 30)
    """Number of cells in a column: a power of two."""
    digest_bits: int = required(high=62)
    """D: width of a digest in bits. Keys with equal digests are treated as one key."""
    stash: int = optional(8, high=256)
    """Number of entries in the stash, which holds entries for which no cell is free."""
    moves: int = optional(high=1 << 16)
    """Maximum number of entries that an insertion moves to other cells; if omitted, entries never
    move."""
    hash: str = "h3"
    """Hash function: "h3", whose constants are public, or "siphash", which uses a secret. The
    secret is loaded at run time and is not part of a specification."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hold("rows", self.rows & (self.rows - 1) == 0, "must be a power of two")
        self._hold("columns", self.columns > 1 or not self.moves, "must be at least 2 with moves")
        low = self.row_bits
        self._hold(
            "digest_bits",
            low < self.digest_bits <= low + RANGE_BITS,
            f"must be from {low + 1} to {low + RANGE_BITS} ({low} bits select one of {self.rows} "
            f"rows, and a cell stores 1 to {RANGE_BITS} bits)",
        )

    @property
    def cell_shape(self) -> tuple[int, int, int]:
        return self.columns, self.rows, self.cell_bits

    @property
    def shape(self) -> str:
        moves = ", moves" if self.moves else ""
        return f"{self.family} {self.columns} x {self.rows:,}, D={self.digest_bits}{moves}"

    @property
    def mean_false_positive_rate(self) -> float:
        return digest_false_positive_rate(self.window, self.digest_bits)

    @property
    def row_bits(self) -> int:
        """Number of digest bits that select a row."""
        return self.rows.bit_length() - 1

    @property
    def rest_bits(self) -> int:
        """Number of digest bits that a cell stores: those that do not select a row."""
        return self.digest_bits - self.row_bits

    @property
    def timestamp_bits(self) -> int:
        """Width of a timestamp, which must not repeat before an expired entry is erased."""
        return (self.window + SWEPT_PER_ROW * self.rows + SWEEP_MARGIN - 1).bit_length()

    @property
    def cell_bits(self) -> int:
        """Width of a cell: a valid bit, the timestamp, and the stored digest bits."""
        return 1 + self.timestamp_bits + self.rest_bits

    @property
    def storage_bits(self) -> int:
        """Total number of bits in all cells and in the stash, which holds whole digests."""
        stashed = 1 + self.timestamp_bits + self.digest_bits
        return self.columns * self.rows * self.cell_bits + self.stash * stashed


def min_columns(window: int, rows: int, *, moves: bool = False) -> int | None:
    """Return the minimum number of columns for which few enough entries find no free cell.

    The result is None if even the maximum number of columns does not suffice.
    """
    low, last, stashed = 1, MAX_COLUMNS, MAX_STASHED
    if moves:
        low, last, stashed = 2, MAX_MOVING_COLUMNS, MAX_MOVED * window
    for columns in range(low, last + 1):
        if stashed_entries(window, columns=columns, rows=rows) <= stashed:
            return columns
    return None


def min_digest_bits(window: int, fpr: float) -> int:
    return smallest(lambda bits: digest_false_positive_rate(window, bits) <= fpr, 16)


def dictionary_preset(name: str) -> WindowDictionarySpec:
    """Return the preset of `DICTIONARIES` called `name`; SpecificationError if there is none."""
    require(name in DICTIONARIES, "preset", f"must be one of {', '.join(DICTIONARIES)}", name)
    return DICTIONARIES[name]


DICTIONARIES: Mapping[str, WindowDictionarySpec] = {
    "tiny": WindowDictionarySpec(window=40, columns=3, rows=16, digest_bits=8, stash=4, key_bits=8),
    # 10 block RAMs, two of 18 bits for each column: cells of 36 bits in 1,024 rows.
    "1000": WindowDictionarySpec(window=1000, columns=5, rows=1024, digest_bits=20, stash=4),
    # 30 block RAMs, three of 9 bits for each column: cells of 27 bits in 2,048 rows.
    "10000": WindowDictionarySpec(window=10_000, columns=10, rows=2048, digest_bits=22, stash=4),
    "ring-tiny": WindowDictionarySpec(
        window=40, columns=3, rows=32, digest_bits=9, stash=8, moves=64, key_bits=9
    ),
    # With moves, 3 or 8 columns suffice: 6 or 24 block RAMs.
    "ring-1000": WindowDictionarySpec(window=1000, columns=3, rows=1024, digest_bits=20, **MOVING),
    "ring-10000": WindowDictionarySpec(
        window=10_000, columns=8, rows=2048, digest_bits=22, **MOVING
    ),
}
"""Presets of dictionaries; the cells of most presets fill whole block RAMs of an ECP5."""
