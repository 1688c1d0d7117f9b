"""Requirements of the sweep: it must reach each cell before the cell's stamp repeats."""

from ...golden.spec.base import require
from ...golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec

CELL_CLOCKS = 10
"""Cycles that the sweep needs per cell while its port is free."""

BETWEEN = 7
"""Operations that may read between the read of an operation and its write."""


def elision_need(cells: int) -> int:
    """Return the maximum cycles without operations that a lap of the sweep needs.

    These are the cycles of the lap with one additional cell; the writes of one additional tick,
    because a lap may begin and end within a tick; and the latency of a stamp.
    """
    return (CELL_CLOCKS + 1) * cells + 2 * CELL_CLOCKS


def elision_period(spec: StampedPartsSpec) -> int:
    """Return the minimum cycles of a tick with which `check_elision` accepts a filter.

    Parameters
    ----------
    spec : StampedPartsSpec
        The number of cells must be a power of two.
    """
    swept = -(-elision_need(spec.cells) // spec.sweep_blocks)
    return max(BETWEEN + 1, spec.cells + swept)


def check_elision(spec: StampedPartsSpec, *, clocks: int) -> None:
    """Reject a filter if hardware with elided writes cannot implement it.

    In a tick each of the m cells of a part is written at most once. So at least C - m of the C
    cycles of a tick are free, for any keys. In the V ticks that a stamp leaves
    (``spec.sweep_blocks``), the sweep has V (C - m) cycles for a lap.

    Parameters
    ----------
    spec : StampedPartsSpec
    clocks : int
        Minimum cycles per tick.

    Raises
    ------
    SpecificationError
        If the number of cells is not a power of two of 2 or more, the cycles do not exceed both the
        cells and `BETWEEN`, or a lap of the sweep needs more cycles than the stamps leave.
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
    """Return the interval, in cycles, in which the sweep needs one cycle without an operation.

    A block has B insertions, at most one per cycle. So the V blocks that a stamp leaves
    (``spec.sweep_blocks``) last at least V B cycles. A lap needs one free cycle per cell. `BETWEEN`
    reads precede the write of a swept cell, and one free cycle may serve the result of an operation
    without a key.

    Parameters
    ----------
    spec : PartitionedTimingSpec
    """
    return (spec.sweep_blocks * spec.block - BETWEEN - 1) // spec.cells


def check_rest(spec: PartitionedTimingSpec) -> None:
    """Reject a filter if hardware with a sweep in idle cycles cannot implement it.

    Parameters
    ----------
    spec : PartitionedTimingSpec

    Raises
    ------
    SpecificationError
        If the number of cells is not a power of two of 2 or more, or the sweep needs every cycle.
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
