"""Block RAMs of units on a device; some are inferred by the rules of yosys's `memory_libmap`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import Any, NamedTuple

from ...hdl.build import unit_profile
from ...hdl.latencies import PAGE_WORDS, STATUS_BITS
from ...hdl.memory.map import BLOCK_KINDS, memory_shape
from ...hdl.parameters import ceil_log
from .devices import TABLES, Device, device_memory

SELECTION_COST = 0.5
"""Cost of each bit that a port selects from one more block, and of each block that it addresses."""

EMULATION_COST, NEW_COST = 6, 11
"""Costs of a port that initially reads 0 and that returns, during a write of its word, the old word
or the new word."""

TABLE_ROWS, TABLE_BITS = 16, 4
"""Depth and width of a memory in LUTs."""


@dataclass(frozen=True)
class InferredBlock:
    """A block RAM with a read port and a write port, as in the library of yosys."""

    bits: int  # bits of a block, without its ninth bits
    widths: Mapping[int, int]  # width of a word with its ninth bits, by the width without them
    byte: int  # bits per write enable; narrower words have one write enable
    cost: float  # cost of a block, relative to a bit in a register
    # Cost of a bit of `TABLE_ROWS` words in LUTs; infinite if LUTs cannot be memories.
    table_cost: float = inf
    # Widest word, in bits, with two read ports at different addresses; 0 if each read port needs a
    # copy.
    shared: int = 0
    # Minimum bits of a memory in blocks, for which yosys's older pass `memory_bram` selects the
    # fullest blocks.
    min_bits: int = 0
    # A smaller kind of block with a copy for each port, which has the same attribute: its `rows`
    # and `width`, and the `cost` of one. Empty if there is no such kind.
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
    """Return whether yosys infers block RAMs for all memories of units of a family."""
    return family in INFERRED and family not in BLOCK_KINDS


def has_lut_memory(family: str) -> bool:
    """Return whether small memories of a family can be in LUTs."""
    return family not in INFERRED or INFERRED[family].table_cost < inf


class Inferred(NamedTuple):
    """Resources of a memory."""

    blocks: int  # block RAMs
    tables: int  # approximate number of LUTs that hold bits, or select a block or LUT


def inferred_memory(
    family: str,
    *,
    depth: int,
    width: int,
    reads: Sequence[range],  # bits of each read port that are used in one cycle
    new: bool = False,  # whether a read during a write of its word returns the new word
    forced: bool = False,  # whether the memory has the attribute for block RAMs
) -> Inferred:
    """Return yosys's resources for a memory with one port that writes whole words."""
    block = INFERRED[family]
    small = _small_cost(block, depth, width, len(reads))
    if len(reads) == 2 and block.shared:
        reads = [range(width)]
        block = replace(block, widths={n: w for n, w in block.widths.items() if w <= block.shared})
    ports = len(reads)
    if block.min_bits:
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
    if all(len(bits_read) == width for bits_read in reads):
        return Inferred(ports * -(-banks * bits // unit), (banks - 1) * width * ports)
    # Blocks without a used bit are removed.
    used = [
        {(bank * bits + bit) // unit for bank in range(banks) for bit in bits_read}
        for bits_read in reads
    ]
    return Inferred(sum(map(len, used)), (banks - 1) * sum(map(len, reads)))


def _small_cost(block: InferredBlock, depth: int, width: int, ports: int) -> float:
    """Return the cost in the smaller kind of block; infinite if there is no such kind."""
    if not block.small:
        return inf
    banks = -(-depth // block.small["rows"])
    blocks = ports * banks * -(-width // block.small["width"])
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    return blocks * block.small["cost"] + SELECTION_COST * selected + EMULATION_COST * (ports + 1)


def _fullest(block: InferredBlock, depth: int, width: int, ports: int) -> Inferred:
    """Return the resources with the fullest blocks."""
    choices = []
    for plain, unit in block.widths.items():
        words = block.bits // plain
        banks, columns = -(-depth // words), -(-width // unit)
        filled = depth * width / (banks * columns * words * unit)
        choices.append((filled, -banks * columns, banks))
    filled, blocks, banks = max(choices)
    if depth * width < block.min_bits:
        return Inferred(0, ports * width * -(-depth // 32))
    return Inferred(-blocks * ports, (banks - 1) * width * ports)


def _geometry(
    block: InferredBlock, plain: int, depth: int, width: int, ports: int
) -> tuple[float, int, int, int]:
    """Return the cost with words of `plain` bits, their width, rows of blocks, and block bits."""
    unit = block.widths[plain]
    byte = min(block.byte, unit)
    bits = -(-width // byte) * byte
    banks = -(-depth * plain // block.bits)
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    blocks = ports * -(-banks * bits // unit)
    return blocks * block.cost + SELECTION_COST * selected, unit, banks, bits


# Units

INEXACT = ("cyclonev", "gatemate")
"""Families where yosys takes one block RAM more or fewer for a column of a dictionary."""


def is_exact(spec: Any, family: str) -> bool:
    """Return whether `unit_blocks` are those of synthesis, on all devices of a family."""
    if spec.kind == "ring" or not is_inferred(family):
        return True
    return spec.kind == "dictionary" and not spec.moves and family not in INEXACT


def unit_blocks(spec: Any, device: Device) -> int:
    """Return the block RAMs of the unit of a specification, without bus or frames, on a device."""
    family = device.family
    if spec.kind == "ring":
        blocks = _ring_blocks(spec, device)
        profile: Any = unit_profile(spec)
    else:
        profile = unit_profile(spec, levels=device.levels)
        if family not in INFERRED:
            return unit_profile(spec, memory=device_memory(device, spec)).block_rams
        depth, width, reads = _cells(spec)
        memories, forced = spec.cell_shape[0], is_inferred(family)
        each = inferred_memory(family, depth=depth, width=width, reads=reads, forced=forced)
        blocks = memories * each.blocks
    if has_lut_memory(family):
        return blocks
    new = spec.kind != "ring"
    return blocks + sum(_plain_blocks(family, *shape, new=new) for shape in _small(spec, profile))


def _ring_blocks(spec: Any, device: Device) -> int:
    """Return the block RAMs of the parts of all segments, including the spare."""
    bits, clear = spec.shard_bits, min(spec.clear, spec.shard_bits)
    if is_inferred(device.family):
        each = _plain_blocks(device.family, bits // clear, clear, forced=True)
    else:
        columns, rows = memory_shape(bits=bits, clear=clear, block_bits=device.bram_bits)
        each = columns * rows
    return spec.shards * spec.segments * spec.parts * each


def _cells(spec: Any) -> tuple[int, int, list[range]]:
    """Return depth and width of a memory of cells, and the bits that each port reads."""
    _, depth, width = spec.cell_shape
    whole = range(width)
    if spec.kind == "dictionary" and not spec.moves:
        return depth, width, [whole, range(1 + spec.timestamp_bits)]
    return depth, width, [whole] if spec.family == "partitioned-timing" else [whole, whole]


def _small(spec: Any, profile: Any) -> Iterator[tuple[int, int]]:
    """Yield depth and width of memories that are in LUTs where LUTs can be memories."""
    yield profile.result_depth, profile.options.tag_bits
    if spec.kind == "ring":
        ages = ceil_log(2, spec.window_generations + 1)
        yield profile.result_depth, 1 + ages
        if spec.timed:
            yield profile.result_depth, STATUS_BITS + profile.time_bits
            yield 1 << ages, profile.time_bits  # times of the generations
    elif spec.kind == "dictionary":
        yield profile.result_depth, 2 + (spec.window - 1).bit_length()
    else:
        ages = (spec.window_blocks + 1).bit_length()
        yield profile.result_depth, 1 + ages + spec.hashes.bit_length()
        if spec.family == "timed-timing":
            yield profile.result_depth, spec.stamp_bits
        # Windows wait for the hash and the cells.
        left = profile.latency_terms["hash"] + profile.latency_terms["cells"]
        while (cycles := min(left, PAGE_WORDS + 1)) > 1:
            yield cycles - 1, spec.window_blocks.bit_length()
            left -= cycles


@cache
def _plain_blocks(
    family: str, depth: int, width: int, *, new: bool = False, forced: bool = False
) -> int:
    reads = [range(width)]
    return inferred_memory(
        family, depth=depth, width=width, reads=reads, new=new, forced=forced
    ).blocks
