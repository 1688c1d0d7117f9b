"""Block RAMs that yosys takes for a plain memory: what its pass `memory_libmap` weighs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ...hdl.memory.map import BLOCK_KINDS

SELECTION_COST = 0.5
"""Cost of each further block from which a port selects a bit; and of each that a word selects."""

EMULATION_COST, NEW_COST = 6, 11
"""Cost of a port, as it is to read 0 at first, and what was there before a write, or what is
written."""

TABLE_ROWS, TABLE_BITS = 16, 4
"""Words of a memory in look-up tables, and bits of each."""


@dataclass(frozen=True)
class InferredBlock:
    """A block RAM with a port that reads and one that writes, as yosys' library describes it.

    Attributes
    ----------
    widths : mapping of int to int
        Width of a word with its ninth bits, by that without.
    byte : int
        Bits that are written together; in words of fewer, all.
    cost : float
        Of a block. That of a bit in a register is 1.
    table_cost : float
        Of a bit of `TABLE_ROWS` words in look-up tables; infinite if there are none.
    """

    widths: Mapping[int, int]
    byte: int
    cost: float
    table_cost: float = inf


INFERRED: Mapping[str, InferredBlock] = {
    "ice40": InferredBlock({width: width for width in (2, 4, 8, 16)}, 1, 64),
    "gowin": InferredBlock({1: 1, 2: 2, 4: 4, 8: 9, 16: 18, 32: 36}, 9, 128, 1),
}
"""Block RAMs by family of devices."""


class Inferred(NamedTuple):
    """What a memory takes.

    Attributes
    ----------
    blocks : int
        Block RAMs.
    tables : int
        Look-up tables that hold bits, and that select one of several blocks or tables; about.
    """

    blocks: int
    tables: int


def inferred_memory(
    family: str, *, depth: int, width: int, reads: Sequence[range], new: bool = False
) -> Inferred:
    """Return what yosys takes for a memory of which one port writes whole words.

    Parameters
    ----------
    family : str
        One of `INFERRED`.
    depth, width : int
        Words, and bits of each.
    reads : sequence of range
        Bits that are used of what each port reads, in a clock.
    new : bool
        Whether a word that is read while it is written is what is written.
    """
    block, ports = INFERRED[family], len(reads)
    choices = [_geometry(family, plain, depth, width, ports) for plain in block.widths]
    cost, unit, banks, bits = min(choices, key=lambda choice: choice[0])
    rows = -(-depth // TABLE_ROWS)
    in_tables = ports * width * (rows * block.table_cost + (rows - 1) * SELECTION_COST)
    if min(in_tables, depth * width) < cost + (NEW_COST if new else EMULATION_COST) * (ports + 1):
        if depth * width <= in_tables:
            return Inferred(0, (depth - 1) * width * ports)
        tables = rows * TABLE_BITS * -(-width // TABLE_BITS)
        return Inferred(0, ports * (tables + (rows - 1) * width))
    # Blocks of which no bit is used go away.
    used = [{(bank * bits + bit) // unit for bank in range(banks) for bit in own} for own in reads]
    return Inferred(sum(map(len, used)), (banks - 1) * sum(map(len, reads)))


def _geometry(
    family: str, plain: int, depth: int, width: int, ports: int
) -> tuple[float, int, int, int]:
    """Return the cost with words of so many bits, their width, rows of blocks, and bits of each."""
    block = INFERRED[family]
    unit = block.widths[plain]
    byte = min(block.byte, unit)
    bits = -(-width // byte) * byte
    banks = -(-depth * plain // BLOCK_KINDS[family].bits)
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    blocks = ports * -(-banks * bits // unit)
    return blocks * block.cost + SELECTION_COST * selected, unit, banks, bits
