"""What a timing filter needs so that the sweep comes back to each cell before its stamp does."""

from ...golden.spec.base import require
from ...golden.spec.timestamp import StampedPartsSpec

CELL_CLOCKS = 10
"""Clocks that the sweep takes a cell, while its port is free."""

BETWEEN = 7
"""Operations that read between the read of an operation and its write."""


def elision_need(cells: int) -> int:
    """Return the clocks of a lap of the sweep that its operations must leave free, at most.

    Beside the lap itself, with a cell more, the writes of one tick more than the lap has, as it
    may begin and end within a tick; and the clocks for which a stamp is under way.
    """
    return (CELL_CLOCKS + 1) * cells + 2 * CELL_CLOCKS


def elision_period(spec: StampedPartsSpec) -> int:
    """Return the fewest clocks of a tick with which `check_elision` accepts a filter.

    Parameters
    ----------
    spec : StampedPartsSpec
        Whose cells are a power of two.
    """
    swept = -(-elision_need(spec.cells) // spec.sweep_blocks)
    return max(BETWEEN + 1, spec.cells + swept)


def check_elision(spec: StampedPartsSpec, *, clocks: int) -> None:
    """Refuse a filter that hardware which elides writes cannot hold.

    In a tick each of the m cells of a part is written once at most. So of its C clocks at
    least C - m are free, whatever the keys, and in the V ticks that a stamp leaves
    (``spec.sweep_blocks``) the sweep has V (C - m) clocks for a lap.

    Parameters
    ----------
    spec : StampedPartsSpec
    clocks : int
        Clocks of a tick, at least.

    Raises
    ------
    SpecificationError
        If the number of cells is no power of two of 2 or more, there are not more clocks than cells
        and than `BETWEEN`, or a lap of the sweep needs more clocks than the stamps leave it.
    """
    cells = spec.cells
    require(
        cells > 1 and cells & (cells - 1) == 0,
        "cells",
        "must be a power of two greater than 1 in hardware",
        cells,
    )
    least = max(cells, BETWEEN) + 1
    require(clocks >= least, "clocks", f"must be at least {least} for {cells} cells a part", clocks)
    need, free = elision_need(cells), spec.sweep_blocks * (clocks - cells)
    require(
        free >= need,
        "stamp_bits",
        f"must leave the sweep {need} free clocks and not {free} "
        f"({spec.sweep_blocks} ticks of {clocks} - {cells})",
        spec.stamp_bits,
    )
