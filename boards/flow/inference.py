"""Predict a unit's block RAMs, including those that yosys's `memory_libmap` infers."""

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

# Cost per bit for selecting from one more block, and cost per block that a port addresses.
SELECTION_COST = 0.5

# Costs of a port that initially reads 0, and that returns the old or the new word if its word is
# written at the same time.
EMULATION_COST, NEW_COST = 6, 11

TABLE_ROWS, TABLE_BITS = 16, 4  # depth and width of a LUT memory


@dataclass(frozen=True)
class InferredBlock:
    """A block RAM with one read port and one write port, as described in yosys's library."""

    bits: int  # bits per block, without ninth bits
    widths: Mapping[int, int]  # word width with ninth bits, for each width without them
    byte: int  # bits per write enable; narrower words have one write enable
    cost: float  # cost of a block, in units of one register bit
    # Cost of one bit by `TABLE_ROWS` words in LUTs; infinite if LUTs cannot be memories.
    table_cost: float = inf
    # Widest word, in bits, that two read ports can share at different addresses; 0 if each read
    # port needs its own copy of the memory.
    shared: int = 0
    # Minimum size in bits of a memory in block RAM, for families whose older pass `memory_bram`
    # selects the fullest blocks.
    min_bits: int = 0
    # A smaller kind of block that the same attribute selects, with a copy per port: its `rows`,
    # `width` and `cost`. Empty if there is no such kind.
    small: Mapping[str, int] = field(default_factory=dict)


INFERRED: Mapping[str, InferredBlock] = {
    family: InferredBlock(
        **table["memory"] | {"widths": {int(n): w for n, w in table["memory"]["widths"].items()}}
    )
    for family, table in TABLES["families"].items()
    if "memory" in table
}


def is_inferred(family: str) -> bool:
    """Return whether yosys infers every block RAM of a unit on devices of a family."""
    return family in INFERRED and family not in BLOCK_KINDS


def has_lut_memory(family: str) -> bool:
    return family not in INFERRED or INFERRED[family].table_cost < inf


class Inferred(NamedTuple):
    blocks: int  # number of block RAMs
    tables: int  # approximate number of LUTs that hold bits or select among blocks


def inferred_memory(
    family: str,
    *,
    depth: int,
    width: int,
    reads: Sequence[range],  # for each read port, the bits used in one cycle
    new: bool = False,  # whether a read of a word being written returns the new word
    forced: bool = False,  # whether the memory has the attribute for block RAMs
) -> Inferred:
    """Predict the resources of a memory that has one write port, which writes whole words."""
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
    # yosys removes blocks without used bits.
    used = [
        {(bank * bits + bit) // unit for bank in range(banks) for bit in bits_read}
        for bits_read in reads
    ]
    return Inferred(sum(map(len, used)), (banks - 1) * sum(map(len, reads)))


def _small_cost(block: InferredBlock, depth: int, width: int, ports: int) -> float:
    if not block.small:
        return inf
    banks = -(-depth // block.small["rows"])
    blocks = ports * banks * -(-width // block.small["width"])
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    return blocks * block.small["cost"] + SELECTION_COST * selected + EMULATION_COST * (ports + 1)


def _fullest(block: InferredBlock, depth: int, width: int, ports: int) -> Inferred:
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
    unit = block.widths[plain]
    byte = min(block.byte, unit)
    bits = -(-width // byte) * byte
    banks = -(-depth * plain // block.bits)
    selected = (banks - 1) * width * ports + banks * (banks > 1)
    blocks = ports * -(-banks * bits // unit)
    return blocks * block.cost + SELECTION_COST * selected, unit, banks, bits


# Units

# Families where yosys may use one block RAM more or fewer per dictionary column than predicted.
INEXACT = ("cyclonev", "gatemate")


def is_exact(spec: Any, family: str) -> bool:
    """Return whether `unit_blocks` matches synthesis exactly on all devices of a family."""
    if spec.kind == "ring" or not is_inferred(family):
        return True
    return spec.kind == "dictionary" and not spec.moves and family not in INEXACT


def unit_blocks(spec: Any, device: Device) -> int:
    """Predict how many block RAMs a unit without a bus or frame streams uses on a device."""
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
    bits, clear = spec.shard_bits, min(spec.clear, spec.shard_bits)
    if is_inferred(device.family):
        each = _plain_blocks(device.family, bits // clear, clear, forced=True)
    else:
        columns, rows = memory_shape(bits=bits, clear=clear, block_bits=device.bram_bits)
        each = columns * rows
    return spec.shards * spec.segments * spec.parts * each


def _cells(spec: Any) -> tuple[int, int, list[range]]:
    _, depth, width = spec.cell_shape
    whole = range(width)
    if spec.kind == "dictionary" and not spec.moves:
        return depth, width, [whole, range(1 + spec.timestamp_bits)]
    return depth, width, [whole] if spec.family == "partitioned-timing" else [whole, whole]


def _small(spec: Any, profile: Any) -> Iterator[tuple[int, int]]:
    """Yield the depth and width of each memory that LUTs can hold on families with LUT memory."""
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
        # Query windows are delayed to match the hash and the cells.
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
