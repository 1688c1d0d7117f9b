"""What a timing filter needs so that the sweep comes back to each cell before its stamp does."""

from ...golden.spec.base import require
from ...golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec

CELL_CLOCKS = 10
"""Cycles that the sweep takes a cell, while its port is free."""

BETWEEN = 7
"""Operations that read between the read of an operation and its write."""


def elision_need(cells: int) -> int:
    """Return the most cycles that a lap of the sweep needs free of operations.

    These are the cycles of the lap with one additional cell, the writes of one additional tick,
    because a lap may begin and end within a tick, and the latency of a stamp.
    """
    return (CELL_CLOCKS + 1) * cells + 2 * CELL_CLOCKS


def elision_period(spec: StampedPartsSpec) -> int:
    """Return the fewest cycles of a tick with which `check_elision` accepts a filter.

    Parameters
    ----------
    spec : StampedPartsSpec
        Whose cells are a power of two.
    """
    swept = -(-elision_need(spec.cells) // spec.sweep_blocks)
    return max(BETWEEN + 1, spec.cells + swept)


def check_elision(spec: StampedPartsSpec, *, clocks: int) -> None:
    """Refuse a filter that hardware which elides writes cannot hold.

    In a tick each of the m cells of a part is written once at most. So of its C cycles at
    least C - m are free, whatever the keys, and in the V ticks that a stamp leaves
    (``spec.sweep_blocks``) the sweep has V (C - m) cycles for a lap.

    Parameters
    ----------
    spec : StampedPartsSpec
    clocks : int
        Clocks of a tick, at least.

    Raises
    ------
    SpecificationError
        If the number of cells is no power of two of 2 or more, there are not more cycles than cells
        and than `BETWEEN`, or a lap of the sweep needs more cycles than the stamps leave it.
    """
    cells = spec.cells
    _check_cells(cells)
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


def rest_interval(spec: PartitionedTimingSpec) -> int:
    """Return of how many cycles the sweep needs one in which no operation comes.

    With B insertions to a block, and at most one insertion a cycle, the V blocks that a stamp
    leaves (``spec.sweep_blocks``) are V B cycles at least, for a lap of as many free cycles as
    there are cells. `BETWEEN` reads come before the write of a swept cell, and in one of the free
    cycles an operation without a key may give its result.

    Parameters
    ----------
    spec : PartitionedTimingSpec
    """
    return (spec.sweep_blocks * spec.block - BETWEEN - 1) // spec.cells


def check_rest(spec: PartitionedTimingSpec) -> None:
    """Refuse a filter that hardware which sweeps in cycles without an operation cannot hold.

    Parameters
    ----------
    spec : PartitionedTimingSpec

    Raises
    ------
    SpecificationError
        If the number of cells is no power of two of 2 or more, or the sweep needs every cycle.
    """
    cells, need = spec.cells, 2 * spec.cells + BETWEEN + 1
    _check_cells(cells)
    left = spec.sweep_blocks * spec.block
    require(
        left >= need,
        "stamp_bits",
        f"must leave the sweep {need} insertions for {cells} cells a part and not {left} "
        f"({spec.sweep_blocks} blocks of {spec.block})",
        spec.stamp_bits,
    )


def _check_cells(cells: int) -> None:
    rule = "must be a power of two greater than 1 in hardware"
    require(cells > 1 and cells & (cells - 1) == 0, "cells", rule, cells)
