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

COUNTERS = ("operations", "insertions", "hits", "lost")
"""Counters of a unit."""

HAZARDS = 8
"""Operations before one that have not written yet, or just write, when it reads."""

DECISION = 6
"""Clocks from the address of a column's memory to the decision where an operation writes."""

ANSWER = 13
"""Clocks from that address to the verdict."""

LEAST_WINDOW = 16
"""Shortest window: longer than what is under way, so that nothing of it has expired."""

MOST_SWEPT_PER_ROW = 24
"""Most insertions to each row of the sweep, so that a late one keeps its margin."""

LATE_ROWS = 4
"""Rows by which the sweep of a column may be late until the input rests for a clock a row; twice
as many, until it is closed."""

PATIENCE = 64
"""Clocks for which the input of a ring rests, at most, until its stash has room again."""

RECOVERY = 1024
"""Clocks until it may rest anew. Power of two."""


def crowded_stash(spec: WindowDictionarySpec) -> int:
    """Return with how many entries in its stash the input of a ring rests: three quarters.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """
    return -(-3 * spec.stash // 4)


def rows_latency(spec: WindowDictionarySpec, *, levels: int = DEFAULT_LEVELS) -> int:
    """Return the clocks from a key to the addresses of its cells, at the memories.

    One for the digest, one for the rows, and two in which they are compared.

    Parameters
    ----------
    spec : WindowDictionarySpec
    levels : int
        As for `lately.hdl.latencies.hash_latency`.
    """
    return max(CONTROL_LAG, hash_latency(spec.key_bits, spec.hash, levels=levels)) + 4


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


def block_rams(spec: WindowDictionarySpec) -> int:
    """Return the block RAMs of an ECP5 that the cells take.

    Parameters, errors: as `check_buildable`.
    """
    return DictionaryProfile(spec).block_rams


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
        Variant of the memories, one of `CELL_VARIANTS`; only `check_buildable` asks for it.
    levels : int
        Levels of look-up tables between two registers of the hash.
    protect : str
        What an upset of a memory may cost, one of `lately.hdl.latencies.PROTECTIONS`.
    """

    spec: WindowDictionarySpec
    memory: str = "portable"
    levels: int = DEFAULT_LEVELS
    protect: str = "none"

    @property
    def lanes(self) -> int:
        """Operations that the unit accepts per clock."""
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
