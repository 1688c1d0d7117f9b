"""Figures of a window dictionary in hardware: latency, sweep and limits. Needs no Amaranth."""

from dataclasses import dataclass
from typing import Any

from ...golden.errors import SpecificationError
from ...golden.spec.base import require
from ...golden.spec.dictionary_sizes import SWEEP_MARGIN, WindowDictionarySpec
from ..latencies import (
    CONTROL_LAG,
    DEFAULT_LEVELS,
    MOST_WORDS,
    PROTECTIONS,
    QUEUE_LATENCY,
    SPARE_SETTLE,
    check_bits,
    hash_latency,
)
from ..memory.map import BLOCK_KINDS, CELL_VARIANTS, cell_columns

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

    One for the digest, one for the rows, and those in which they are compared.

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


def check_buildable(spec: Any, *, memory: str = "portable") -> None:
    """Refuse what the hardware cannot hold.

    Parameters
    ----------
    spec : WindowDictionarySpec
    memory : str
        Variant of the memories.

    Raises
    ------
    SpecificationError
        If the family is another, the window too short, a stash with moves too small, or a column
        longer than the block RAMs, or so long that elaboration would not end.
    """
    if not isinstance(spec, WindowDictionarySpec):
        raise SpecificationError(
            f"family: must be window-dictionary for a DictionaryUnit, not {spec.family!r}"
        )
    if spec.window < LEAST_WINDOW:
        raise SpecificationError(
            f"window: must be at least {LEAST_WINDOW} in hardware, where {HAZARDS} operations are "
            f"under way, not {spec.window}"
        )
    if spec.moves and spec.stash <= spec.columns:
        raise SpecificationError(
            f"stash: must be at least {spec.columns + 1} in hardware with moves, as each of "
            f"{spec.columns} columns may hold a place, not {spec.stash}"
        )
    rule = f"must be at most {MOST_WORDS // spec.columns} for {spec.columns} columns in hardware"
    require(spec.rows * spec.columns <= MOST_WORDS, "rows", rule, spec.rows)
    most = BLOCK_KINDS["ecp5"].bits
    if memory == "ecp5" and spec.rows > most:
        raise SpecificationError(
            f"rows: must be at most {most} for ecp5, the bits of a block RAM, not {spec.rows}"
        )


def check_protection(protect: str) -> None:
    """Refuse a protection that there is not.

    Parameters
    ----------
    protect : str

    Raises
    ------
    SpecificationError
        If it is none of `lately.hdl.latencies.PROTECTIONS`.
    """
    require(protect in PROTECTIONS, "protect", f"must be {' or '.join(PROTECTIONS)}", protect)


@dataclass(frozen=True)
class DictionaryProfile:
    """Figures of the unit that a specification and build options give.

    Attributes
    ----------
    spec : WindowDictionarySpec
    memory : str
        Variant of the memories, one of `CELL_VARIANTS`; only `check_buildable` uses it.
    levels : int
        Levels of LUTs between two registers of the hash.
    protect : str
        What an upset of a memory may cost, one of `lately.hdl.latencies.PROTECTIONS`.
    """

    spec: WindowDictionarySpec
    memory: str = "portable"
    levels: int = DEFAULT_LEVELS
    protect: str = "none"

    @property
    def lanes(self) -> int:
        """Operations that the unit accepts per cycle."""
        return 1

    @property
    def segments(self) -> int:
        """Columns, each a memory of its own."""
        return self.spec.columns

    @property
    def block_rams(self) -> int:
        """Block RAMs of an ECP5 that the cells take; errors as `check_buildable`."""
        check_buildable(self.spec, memory="ecp5")
        return self.spec.columns * self.copies * -(-self.cell_bits // cell_columns(self.spec.rows))

    @property
    def cell_bits(self) -> int:
        """Bits of a cell: the entry, and with parity whether it is known, and the parity."""
        bits = self.spec.cell_bits
        return bits + 1 + check_bits(bits + 1) if self.protect == "parity" else bits

    @property
    def copies(self) -> int:
        """Copies of each memory, which answer as one."""
        return PROTECTIONS[self.protect] if self.protect == "ecc" else 1

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of an operation to its result, on an idle output."""
        return rows_latency(self.spec, levels=self.levels) + ANSWER + QUEUE_LATENCY - 1

    @property
    def least_period(self) -> int:
        """Least cycles between two ticks: 0, as the window counts insertions."""
        return 0

    @property
    def longest_pause(self) -> int:
        """Most cycles for which a CLEAR keeps the input closed."""
        return self.spec.rows + 2 * self.latency

    @property
    def reset_pause(self) -> int:
        """Most cycles from the end of a reset to the first acceptance."""
        return self.longest_pause + SPARE_SETTLE + 1

    def check_buildable(self) -> None:
        """Refuse what the hardware cannot hold.

        Raises
        ------
        SpecificationError
            As `check_buildable`, or if there is no such memory or protection for dictionaries.
        """
        check_protection(self.protect)
        if self.memory not in CELL_VARIANTS:
            raise SpecificationError(
                f"memory: must be {' or '.join(CELL_VARIANTS)} for family {self.spec.family}, "
                f"not {self.memory!r}"
            )
        check_buildable(self.spec, memory=self.memory)
