"""Specification of the window dictionary, its cell sizes and its presets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..analysis import digest_false_positive_rate, stashed_entries
from ..hash.functions import RANGE_BITS
from ..sizing import smallest
from .base import Specification, optional, require, required

# fewest insertions per row of a sweep: six cycles to check the row, the others to find idle ones
SWEPT_PER_ROW = 10

SWEEP_MARGIN = 256  # insertions by which a sweep may be late, including operations in flight

MAX_COLUMNS = 12  # of a dictionary that is sized for a window

MAX_STASHED = 0.01  # greatest mean number of entries in its stash

MAX_MOVED = 1 / 40  # greatest share of insertions that find no cell in one with moves

MAX_MOVING_COLUMNS = 8  # of one with moves: with more columns this full, moves take long

# of one with moves: an entry without a cell waits in the stash
MOVING: Mapping[str, Any] = {"stash": 16, "moves": 64}


@dataclass(frozen=True, kw_only=True)
class WindowDictionarySpec(Specification, family="window-dictionary"):
    """Window dictionary, with the fields of `WindowDictionary`."""

    kind, part_name, _asks = "dictionary", "column", True

    window: int = required(high=1 << 30)
    """n: insertions after which an entry expires."""
    columns: int = required(high=64)
    """Columns, each of which has one cell for a key."""
    rows: int = required(low=2, high=1 << 30)
    """Cells of a column: a power of two."""
    digest_bits: int = required(high=62)
    """D: bits of a digest. Keys with equal digests are one key."""
    stash: int = optional(8, high=256)
    """Places for entries that find no free cell."""
    moves: int = optional(high=1 << 16)
    """Maximum number of entries that an insertion moves; if omitted, entries never move."""
    hash: str = "h3"
    """"h3", whose constants are public, or "siphash", which takes a secret. The secret is loaded at
    run time and is not part of a specification."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hold("rows", self.rows & (self.rows - 1) == 0, "must be a power of two")
        self._hold("columns", self.columns > 1 or not self.moves, "must be at least 2 with moves")
        low = self.row_bits
        self._hold(
            "digest_bits",
            low < self.digest_bits <= low + RANGE_BITS,
            f"must be {low + 1} to {low + RANGE_BITS}, {low} that select one of {self.rows} rows "
            f"and 1 to {RANGE_BITS} that a cell holds",
        )

    @property
    def cell_shape(self) -> tuple[int, int, int]:
        """Parts of the memory, cells per part, and bits per cell in hardware."""
        return self.columns, self.rows, self.cell_bits

    @property
    def shape(self) -> str:
        """Short description of family and parameters."""
        moves = ", moves" if self.moves else ""
        return f"{self.family} {self.columns} x {self.rows:,}, D={self.digest_bits}{moves}"

    @property
    def mean_false_positive_rate(self) -> float:
        """Expected false-positive rate with a full window of distinct keys."""
        return digest_false_positive_rate(self.window, self.digest_bits)

    @property
    def row_bits(self) -> int:
        """Bits of a digest that select a row."""
        return self.rows.bit_length() - 1

    @property
    def rest_bits(self) -> int:
        """Bits of a digest that a cell holds: the remainder."""
        return self.digest_bits - self.row_bits

    @property
    def timestamp_bits(self) -> int:
        """Bits of a timestamp, T: the sweep erases an expired entry before its timestamp repeats.

        2**T is at least the window, the insertions of a sweep and a margin.
        """
        return (self.window + SWEPT_PER_ROW * self.rows + SWEEP_MARGIN - 1).bit_length()

    @property
    def cell_bits(self) -> int:
        """Bits of a cell: a valid bit, the timestamp, and the remainder."""
        return 1 + self.timestamp_bits + self.rest_bits

    @property
    def storage_bits(self) -> int:
        """Bits of all cells and of the stash, which holds whole digests."""
        stashed = 1 + self.timestamp_bits + self.digest_bits
        return self.columns * self.rows * self.cell_bits + self.stash * stashed


def min_columns(window: int, rows: int, *, moves: bool = False) -> int | None:
    """Return the fewest columns of `rows` that meet `MAX_STASHED`, or `MAX_MOVED` with moves.

    None if more than `MAX_COLUMNS` would be needed, or `MAX_MOVING_COLUMNS`.
    """
    low, last, stashed = 1, MAX_COLUMNS, MAX_STASHED
    if moves:
        low, last, stashed = 2, MAX_MOVING_COLUMNS, MAX_MOVED * window
    for columns in range(low, last + 1):
        if stashed_entries(window, columns=columns, rows=rows) <= stashed:
            return columns
    return None


def min_digest_bits(window: int, fpr: float) -> int:
    """Return the fewest digest bits with which a full window meets the rate `fpr`."""
    return smallest(lambda bits: digest_false_positive_rate(window, bits) <= fpr, 16)


def dictionary_preset(name: str) -> WindowDictionarySpec:
    """Return the preset of `DICTIONARIES` with this `name`; errors as `require`."""
    require(name in DICTIONARIES, "preset", f"must be one of {', '.join(DICTIONARIES)}", name)
    return DICTIONARIES[name]


DICTIONARIES: Mapping[str, WindowDictionarySpec] = {
    "tiny": WindowDictionarySpec(window=40, columns=3, rows=16, digest_bits=8, stash=4, key_bits=8),
    # 2 block RAMs of 18 bits for each column make 10; in 1,024 rows their cells have 36 bits.
    "1000": WindowDictionarySpec(window=1000, columns=5, rows=1024, digest_bits=20, stash=4),
    # 3 block RAMs of 9 bits for each column make 30; in 2,048 rows their cells have 27 bits.
    "10000": WindowDictionarySpec(window=10_000, columns=10, rows=2048, digest_bits=22, stash=4),
    "ring-tiny": WindowDictionarySpec(
        window=40, columns=3, rows=32, digest_bits=9, stash=8, moves=64, key_bits=9
    ),
    # With moves, 3 or 8 columns are enough: 6 or 24 block RAMs.
    "ring-1000": WindowDictionarySpec(window=1000, columns=3, rows=1024, digest_bits=20, **MOVING),
    "ring-10000": WindowDictionarySpec(
        window=10_000, columns=8, rows=2048, digest_bits=22, **MOVING
    ),
}
"""Dictionaries by name, most named after their window: their cells just fill block RAMs of an ECP5.
"""
