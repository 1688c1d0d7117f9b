"""Requirements of the sweep: it must reach each cell before the cell's stamp repeats."""

from ...golden.errors import SpecificationError
from ...golden.spec.base import require
from ...golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec

CELL_CLOCKS = 10  # cycles that the sweep needs per cell while its port is free
BETWEEN = 7  # number of operations that may read between the read of an operation and its write
PART_LATENCY = 7  # cycles from the address of a cell to its age
# cycles from the age of a key and its number of oldest cells to the answer of a table
DECISION_LATENCY = 3


def elision_need(cells: int) -> int:
    """Return the number of idle cycles that one lap of the sweep needs in the worst case.

    This number is the sum of the cycles of a lap over one additional cell, the writes of one
    additional tick (because a lap may begin and end within a tick), and the latency of a stamp.
    """
    return (CELL_CLOCKS + 1) * cells + 2 * CELL_CLOCKS


def elision_period(spec: StampedPartsSpec) -> int:
    """Return the minimum number of cycles per tick that `check_elision` accepts."""
    swept = -(-elision_need(spec.cells) // spec.sweep_blocks)
    return max(BETWEEN + 1, spec.cells + swept)


def check_elision(spec: StampedPartsSpec, *, clocks: int) -> None:
    """Reject a filter that hardware with elided writes cannot implement.

    An insertion writes a cell only if the cell does not hold the current stamp. So in a tick each
    of the m cells of a part is written at most once, and at least C - m of the C cycles of the tick
    are free, whatever the keys are. In the V ticks that remain before a stamp repeats
    (``spec.sweep_blocks``), the sweep has V (C - m) cycles for a lap.
    """
    cells = spec.cells
    _check_cells(cells)
    minimum = max(cells, BETWEEN) + 1
    require(
        clocks >= minimum,
        "clocks",
        f"must be at least {minimum} for {cells} cells per part",
        clocks,
    )
    need, free = elision_need(cells), spec.sweep_blocks * (clocks - cells)
    if free < need:
        raise SpecificationError(
            f"stamp_bits: the sweep needs {need} free cycles before a stamp repeats, but with "
            f"{spec.stamp_bits} bits it has {free}: {spec.sweep_blocks} ticks, each with {clocks} "
            f"cycles minus {cells} for writes"
        )


def rest_interval(spec: PartitionedTimingSpec) -> int:
    """Return the maximum number of cycles from one idle cycle to the next that the sweep allows.

    A block has B insertions, at most one per cycle. So the V blocks that remain before a stamp
    repeats (``spec.sweep_blocks``) last at least V B cycles. A lap needs one free cycle per cell.
    In addition, `BETWEEN` reads may come between the read and the write of the last cell, and one
    free cycle may be used by the result of an operation without a key.
    """
    return (spec.sweep_blocks * spec.block - BETWEEN - 1) // spec.cells


def check_rest(spec: PartitionedTimingSpec) -> None:
    """Reject a filter that hardware with a sweep in idle cycles cannot implement."""
    cells, need = spec.cells, 2 * spec.cells + BETWEEN + 1
    _check_cells(cells)
    left = spec.sweep_blocks * spec.block
    if left < need:
        raise SpecificationError(
            f"stamp_bits: the sweep of {cells} cells per part needs {need} insertions before a "
            f"stamp repeats, but with {spec.stamp_bits} bits it has {left}: {spec.sweep_blocks} "
            f"blocks of {spec.block}"
        )


def _check_cells(cells: int) -> None:
    rule = "must be a power of two greater than 1 in hardware"
    require(cells > 1 and cells & (cells - 1) == 0, "cells", rule, cells)
