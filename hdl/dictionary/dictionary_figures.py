"""Figures of a window dictionary in hardware: latency, sweep and limits. Needs no Amaranth."""

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
"""Cycles in which the row of an operation is compared with the rows of the operations ahead."""

WORD = 2
"""Cycles from the address of a memory of cells to its word."""

MATCH = WORD + 2
"""Cycles from the read of its cells to what the columns answer an operation."""

DECISION = MATCH + 2
"""Cycles from the read to the decision where the operation writes."""

WRITE = DECISION + 2
"""Cycles from the read to the write."""

HAZARDS = WRITE
"""Operations before one that have not written yet, or just write, when it reads."""

STASH_HAZARDS = 3
"""Operations before one that may change the stash while that looks for its digest."""

VERDICT = 3
"""Cycles from the distances of a digest in its column and in the stash to the verdict."""

ANSWER = WRITE + 2 + VERDICT
"""Cycles from the read to the verdict; the stash looks for the digest until two cycles after the
write."""

LEAST_WINDOW = 16
"""Shortest window: longer than what is under way, so that nothing of it has expired."""

MOST_SWEPT_PER_ROW = 24
"""Most insertions to each row of the sweep, so that a late one keeps its margin."""

SWEEP_BACKLOG = 4
"""Rows by which the sweep of a column may be late until the input stalls for a cycle per row; twice
as many, until the input is closed."""

MAX_STALL = 64
"""Most cycles for which the input stalls, if entries move, until the stash has room again."""

STALL_PERIOD = 1024
"""Cycles until the input may stall again. Power of two."""

BEHIND_ROWS = SWEEP_BACKLOG // 2
"""Rows by which the sweep of a column may be late until no more entries come there: fewer than
those with which the input stalls."""

WATCHED = 3
"""Cycles from an entry's arrival in a column until operations are compared with its row."""

KNOWN = 3
"""Cycles from the word of a cell to its digest, and whether it is within the window."""

EARLIEST = WATCHED + 1 + WORD + KNOWN + 2
"""Least cycles from an entry's arrival to its exchange: one until the sweep has left the port, and
two in which the entry waits for its write. An operation that was in flight when the entry came has
been compared with its row by then, on leaving, `HAZARDS` cycles after its read."""


def crowded_stash(spec: WindowDictionarySpec) -> int:
    """Return with how many entries in the stash the input stalls, if entries move: three quarters.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    return -(-3 * spec.stash // 4)


def rows_latency(spec: WindowDictionarySpec, *, levels: int = DEFAULT_LEVELS) -> int:
    """Return the cycles from a key to the addresses of its cells, at the memories.

    One cycle for the digest, one for the rows, and the cycles of their comparison.

    Parameters
    ----------
    spec : WindowDictionarySpec
    levels : int
        As for `lately.hdl.latencies.hash_latency`.
    """
    return max(CONTROL_LAG, hash_latency(spec.key_bits, spec.hash, levels=levels)) + 2 + COMPARISON


def swept_per_row(spec: WindowDictionarySpec) -> int:
    """Return the insertions to each row of the sweep.

    An entry is seen expired, and erased, before its timestamp repeats: after the window, a
    whole sweep and the margin at the latest, which together are 2**T at most.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    most = ((1 << spec.timestamp_bits) - spec.window - SWEEP_MARGIN) // spec.rows
    return min(MOST_SWEPT_PER_ROW, most)


@dataclass(frozen=True)
class DictionaryProfile(Profile):
    """Figures of the unit of a dictionary.

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
        """Bits of a cell: the entry, and with parity whether it is known, and the parity."""
        bits = self.spec.cell_bits
        return bits + 1 + check_bits(bits + 1) if self.protect == "parity" else bits

    @property
    def copies(self) -> int:
        """Copies of each memory, which answer as one."""
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
            f"Every key of the last {self.spec.window} insertions is reported. Older keys are "
            "forgotten.",
            "An entry may be lost if its columns are full: `lost` counts such entries.",
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
        """Refuse a column that is longer than a block RAM."""
        most = BLOCK_KINDS["ecp5"].bits
        rule = f"must be at most {most} for ecp5, the bits of a block RAM"
        require(self.spec.rows <= most, "rows", rule, self.spec.rows)
