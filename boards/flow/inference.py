"""Number of block RAMs that yosys infers for a plain memory, from the rules of `memory_libmap`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from ...hdl.memory.map import BLOCK_KINDS
from .devices import TABLES

SELECTION_COST = 0.5
"""Cost of each further block from which a port selects a bit; and of each that a word selects."""

EMULATION_COST, NEW_COST = 6, 11
"""Cost of a port, as it is to read 0 at first, and what was there before a write, or what is
written."""

TABLE_ROWS, TABLE_BITS = 16, 4
"""Words of a memory in LUTs, and bits of each."""


@dataclass(frozen=True)
class InferredBlock:
    """A block RAM with a port that reads and one that writes, as yosys' library describes it.

    Attributes
    ----------
    bits : int
        Bits of a block, without ninth ones.
    widths : mapping of int to int
        Width of a word with its ninth bits, by that without.
    byte : int
        Bits that are written together; in words of fewer, all.
    cost : float
        Of a block. That of a bit in a register is 1.
    table_cost : float
        Of a bit of `TABLE_ROWS` words in LUTs; infinite if there are none.
    shared : int
        Bits of the widest word of which two ports may read, each its own; 0 if each port that
        reads needs a copy.
    least : int
        Bits of a memory in blocks, at least: then yosys' older pass `memory_bram` maps, which
        takes the fullest blocks.
    small : mapping of str to int
        A smaller kind of block with a copy for each port, which takes the attribute for block
        RAMs, too: its `rows` and `width`, and the `cost` of one. Empty if there is none.
    """

    bits: int
    widths: Mapping[int, int]
    byte: int
    cost: float
    table_cost: float = inf
    shared: int = 0
    least: int = 0
    small: Mapping[str, int] = field(default_factory=dict)


INFERRED: Mapping[str, InferredBlock] = {
    family: InferredBlock(
        **table["memory"] | {"widths": {int(n): w for n, w in table["memory"]["widths"].items()}}
    )
    for family, table in TABLES["families"].items()
    if "memory" in table
}
"""Block RAMs by family of devices."""


def is_inferred(family: str) -> bool:
    """Return whether yosys infers all memories of units for a family, in block RAMs."""
    return family in INFERRED and family not in BLOCK_KINDS


def has_lut_memory(family: str) -> bool:
    """Return whether small memories of a family may be in LUTs."""
    return family not in INFERRED or INFERRED[family].table_cost < inf


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
    family: str,
    *,
    depth: int,
    width: int,
    reads: Sequence[range],
    new: bool = False,
    forced: bool = False,
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
    forced : bool
        Whether the memory has the attribute that puts it into block RAMs.
    """
    block = INFERRED[family]
    small = _small_cost(block, depth, width, len(reads))
    if len(reads) == 2 and block.shared:
        reads = [range(width)]
        block = replace(block, widths={n: w for n, w in block.widths.items() if w <= block.shared})
    ports = len(reads)
    if block.least:
        return _fullest(block, depth, width, ports)
    choices = [_geometry(block, plain, depth, width, ports) for plain in block.widths]
    cost, unit, banks, bits = min(choices, key=lambda choice: choice[0])
    if small < cost:
        return Inferred(0, 0)
    rows = -(-depth // TABLE_ROWS)
    in_tables = ports * width * (rows * block.table_cost + (rows - 1) * SELECTION_COST)
    if not forced and min(in_tables, depth * width) < cost + (
        NEW_COST if new else EMULATION_COST
    ) * (ports + 1):
        if depth * width <= in_tables:
            return Inferred(0, (depth - 1) * width * ports)
        tables = rows * TABLE_BITS * -(-width // TABLE_BITS)
        return Inferred(0, ports * (tables + (rows - 1) * width))
    if all(len(own) == width for own in reads):
        return Inferred(ports * -(-banks * bits // unit), (banks - 1) * width * ports)
    # Blocks of which no bit is used go away.
    used = [{(bank * bits + bit) // unit for bank in range(banks) for bit in own} for own in reads]
    return Inferred(sum(map(len, used)), (banks - 1) * sum(map(len, reads)))


def _small_cost(block: InferredBlock, depth: int, width: int, ports: int) -> float:
    """Return the cost in the smaller kind of block; infinite if there is none."""
    if not block.small:
        return inf
    banks = -(-depth // block.small["rows"])
    blocks = ports * banks * -(-width // block.small["width"])
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    return blocks * block.small["cost"] + SELECTION_COST * selected + EMULATION_COST * (ports + 1)


def _fullest(block: InferredBlock, depth: int, width: int, ports: int) -> Inferred:
    """Return what the fullest blocks of a kind hold."""
    choices = []
    for plain, unit in block.widths.items():
        words = block.bits // plain
        banks, columns = -(-depth // words), -(-width // unit)
        filled = depth * width / (banks * columns * words * unit)
        choices.append((filled, -banks * columns, banks))
    filled, blocks, banks = max(choices)
    if depth * width < block.least:
        return Inferred(0, ports * width * -(-depth // 32))
    return Inferred(-blocks * ports, (banks - 1) * width * ports)


def _geometry(
    block: InferredBlock, plain: int, depth: int, width: int, ports: int
) -> tuple[float, int, int, int]:
    """Return the cost with words of so many bits, their width, rows of blocks, and bits of each."""
    unit = block.widths[plain]
    byte = min(block.byte, unit)
    bits = -(-width // byte) * byte
    banks = -(-depth * plain // block.bits)
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    blocks = ports * -(-banks * bits // unit)
    return blocks * block.cost + SELECTION_COST * selected, unit, banks, bits
