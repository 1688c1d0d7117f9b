"""Figures of a window dictionary in hardware: latency, sweep and limits. Without Amaranth."""

from dataclasses import dataclass

from ...golden.spec.base import require
from ...golden.spec.dictionary_sizes import SWEEP_MARGIN, WindowDictionarySpec
from ..latencies import (
    CONTROL_LAG,
    DEFAULT_LEVELS,
    MOST_WORDS,
    PROTECTIONS,
    QUEUE_LATENCY,
    check_bits,
    hash_latency,
)
from ..memory.map import BLOCK_KINDS, CELL_VARIANTS, cell_columns
from ..profile import Profile

COMPARISON = 2
"""Cycles to compare the row of an operation with the rows of earlier operations."""

WORD = 2
"""Cycles from the address of a cell memory to its word."""

MATCH = WORD + 2
"""Cycles from the read of the cells to the answers of the columns."""

DECISION = MATCH + 2
"""Cycles from the read to the decision about the write."""

WRITE = DECISION + 2
"""Cycles from the read to the write."""

HAZARDS = WRITE
"""Earlier operations that have not written when an operation reads."""

STASH_HAZARDS = 3
"""Earlier operations that may change the stash during the search for a digest."""

VERDICT = 3
"""Cycles from the distances of a digest in column and stash to the verdict."""

ANSWER = WRITE + 2 + VERDICT
"""Cycles from the read to the verdict; the search of the stash ends two cycles after the write."""

LEAST_WINDOW = 16
"""Shortest window: longer than the pipeline, so that no operation in flight has expired."""

MOST_SWEPT_PER_ROW = 24
"""Maximum insertions per row of the sweep, so that a late sweep keeps its margin."""

SWEEP_BACKLOG = 4
"""Backlog of rows at which a column's sweep stalls the input for one cycle per row. Twice this
backlog closes the input."""

MAX_STALL = 64
"""Maximum length of an input stall, in cycles, while the stash lacks room, with moves."""

STALL_PERIOD = 1024
"""Minimum cycles from one such stall to the next. Power of two."""

BEHIND_ROWS = SWEEP_BACKLOG // 2
"""Backlog of rows at which a column's sweep accepts no more entries: less than the backlog that
stalls the input."""

WATCHED = 3
"""Cycles from an entry's arrival in a column to the comparison of operations with its row."""

KNOWN = 3
"""Cycles from the word of a cell to its digest, and to whether it is in the window."""

EARLIEST = WATCHED + 1 + WORD + KNOWN + 2
"""Minimum cycles from an entry's arrival to its exchange. The sweep leaves the port in one cycle,
and the entry waits two cycles for its write. By then, operations in flight at the arrival have
been compared with the row, on leaving, `HAZARDS` cycles after their read."""


def crowded_stash(spec: WindowDictionarySpec) -> int:
    """Return the number of stash entries at which the input stalls: three quarters of the places.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    return -(-3 * spec.stash // 4)


def rows_latency(spec: WindowDictionarySpec, *, levels: int = DEFAULT_LEVELS) -> int:
    """Return the cycles from a key to the addresses of its cells, at the memories.

    One cycle for the digest, one for the rows, and the cycles of the row comparison.

    Parameters
    ----------
    spec : WindowDictionarySpec
    levels : int
        As for `lately.hdl.latencies.hash_latency`.
    """
    return max(CONTROL_LAG, hash_latency(spec.key_bits, spec.hash, levels=levels)) + 2 + COMPARISON


def swept_per_row(spec: WindowDictionarySpec) -> int:
    """Return the insertions per row of the sweep.

    The sweep finds and erases an expired entry before its timestamp repeats. The window, a whole
    sweep and the margin together are at most 2**T.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    most = ((1 << spec.timestamp_bits) - spec.window - SWEEP_MARGIN) // spec.rows
    return min(MOST_SWEPT_PER_ROW, most)


@dataclass(frozen=True)
class DictionaryProfile(Profile):
    """Figures of a dictionary unit.

    Attributes
    ----------
    spec : WindowDictionarySpec
    options : UnitOptions
    """

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
        """Bits of a cell. With parity, these include the parity and whether the entry is known."""
        bits = self.spec.cell_bits
        return bits + 1 + check_bits(bits + 1) if self.protect == "parity" else bits

    @property
    def copies(self) -> int:
        """Copies of each memory, which vote."""
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
        return ["The input closes for single cycles if many insertions write to the same column."]

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
            f"must be at least {LEAST_WINDOW} in hardware, where {HAZARDS} operations are under way"
        )
        require(spec.window >= LEAST_WINDOW, "window", rule, spec.window)
        rule = (
            f"must be at least {spec.columns + 1} in hardware with moves, as each of "
            f"{spec.columns} columns may hold a place"
        )
        require(not spec.moves or spec.stash > spec.columns, "stash", rule, spec.stash)
        most = MOST_WORDS // spec.columns
        rule = f"must be at most {most} for {spec.columns} columns in hardware"
        require(spec.rows <= most, "rows", rule, spec.rows)
        if self.memory == "ecp5":
            self._check_rows()

    def _check_rows(self) -> None:
        """Reject a column that is longer than a block RAM."""
        most = BLOCK_KINDS["ecp5"].bits
        rule = f"must be at most {most} for ecp5, the bits of a block RAM"
        require(self.spec.rows <= most, "rows", rule, self.spec.rows)
