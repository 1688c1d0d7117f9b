"""Memory map of a unit: its physical memories, and the position of each cell.

Replays, benches, netlists and the floorplan find the memories of a unit with this map, and the
memories take their shape from it. This module does not import Amaranth.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ...golden.spec import FilterSpec
from ...golden.spec.base import Specification
from ..latencies import (
    BANK_COLUMNS,
    BANK_ROWS,
    BLOCK_BITS,
    BLOCK_CLEAR_BITS,
    PROTECTIONS,
    SELECTED_DIGITS,
)
from ..parameters import ceil_log


class BlockKind(NamedTuple):
    """Kind of block RAM: its cell type, its capacity in bits, and its maximum word width."""

    cell: str
    bits: int
    width: int = BLOCK_CLEAR_BITS


# block RAMs, by the segment memory variants that instantiate them
BLOCK_KINDS = {
    "ecp5": BlockKind("DP16KD", 1 << 14, BANK_COLUMNS),
    "ice40": BlockKind("SB_RAM40_4K", 1 << 12),
    "gowin": BlockKind("DPB", 1 << 14),
}


CELL_VARIANTS = ("portable", "ecp5")  # variants of cell memories


def cell_columns(depth: int) -> int:
    """Return how many bits of each cell a DP16KD holds if it contains `depth` cells."""
    bits = min(16, BLOCK_KINDS["ecp5"].bits // depth)
    return bits + bits // 8


# segment memory variants that synthesis infers, without and with an output register
PORTABLE = ("portable", "portable-registered")


# suffix of variants that never use a word while another port writes a bit of the word
STRICT = "-strict"

BLOCK_KINDS |= {f"{name}{STRICT}": kind for name, kind in BLOCK_KINDS.items()}


@dataclass(frozen=True)
class PhysicalMemory:
    """Memory array or block RAM of a unit."""

    # names of the submodules from the unit to the memory. The last name is an array of words, or a
    # block RAM if there is a `cell`.
    path: tuple[str, ...]
    words: int  # `words`, `width`: number of used words, and bits per word
    width: int
    cell: str = ""  # type of the block RAM; empty for an array that the synthesis tool maps
    shard: int = 0  # shard of the memory; 0 in units of one lane


# function that returns the bits of a memory, shape (words, width), lowest bit first
Read = Callable[[PhysicalMemory], NDArray[np.bool_]]


class Position(NamedTuple):
    """Memory number, word number and lowest bit of a cell, or arrays of these for several cells."""

    memory: Any
    word: Any
    bit: Any


@dataclass(frozen=True)
class MemoryMap:
    """Memories of a unit, and the position of each cell in them."""

    # in the order of shard, segment, part, row and column, where these exist
    memories: tuple[PhysicalMemory, ...]
    # `segments`, `parts`, `cells`: shape of the bits. In a ring, one-bit cells are numbered like in
    # the golden model's `memory`. In the other filters, `parts` are the bits of a cell, lowest
    # first.
    segments: int
    parts: int
    cells: int
    # takes segment, part and cell, integers or arrays; returns the `Position` of the bit
    find: Callable[[Any, Any, Any], Position]
    # takes the bits from `gather` and the current time or number of insertions; returns the golden
    # model's `memory`
    decode: Callable[[NDArray[np.bool_], int], NDArray[Any]] = lambda bits, now: bits

    def view(self, read: Read, now: int = 0) -> NDArray[Any]:
        """Convert the contents of the memories to the format of the golden model's `memory`."""
        return self.decode(self.gather(read), now)

    def gather(self, read: Read) -> NDArray[np.bool_]:
        """Read all memories; return their bits, shape (segments, parts, cells)."""
        words = max(memory.words for memory in self.memories)
        width = max(memory.width for memory in self.memories)
        held = np.zeros((len(self.memories), words, width), np.bool_)
        for number, memory in enumerate(self.memories):
            held[number, : memory.words, : memory.width] = read(memory)
        cells = np.arange(self.cells)
        bits = np.zeros((self.segments, self.parts, self.cells), np.bool_)
        for segment, part in np.ndindex(self.segments, self.parts):
            position = self.find(segment, part, cells)
            bits[segment, part] = held[position.memory, position.word, position.bit]
        return bits

    def copied(self, copies: int) -> "MemoryMap":
        """Return the map with several copies of each memory; positions are in the first copy."""
        if copies == 1:
            return self
        memories = tuple(
            replace(memory, path=(*memory.path[:-1], f"copy{copy}", memory.path[-1]))
            for copy in range(copies)
            for memory in self.memories
        )
        return replace(self, memories=memories)

    def below(self, *path: str) -> tuple[PhysicalMemory, ...]:
        """Return the memories with `path` prepended to their paths."""
        return tuple(replace(memory, path=(*path, *memory.path)) for memory in self.memories)


def memory_shape(*, bits: int, clear: int, block_bits: int = BLOCK_BITS) -> tuple[int, int]:
    """Return how many columns and rows of block RAMs hold `bits` and clear `clear` per cycle."""
    columns = max(1, clear // BLOCK_CLEAR_BITS)
    return columns, max(1, bits // columns // block_bits)


def memory_latency(*, bits: int, clear: int, registers: int = 1) -> int:
    """Return the number of cycles from an address to its bit, the same for all variants."""
    _, rows = memory_shape(bits=bits, clear=clear)
    selection = ceil_log(1 << SELECTED_DIGITS, rows * clear)
    return 2 + registers + max(1, selection) + (registers > 2)


class BlockGrid(NamedTuple):
    """Grid of the block RAMs that hold one part of a segment."""

    columns: int
    rows: int
    low: int  # address bits below the bits that select the column

    @classmethod
    def of(cls, *, depth: int, clear_bits: int, block_bits: int) -> "BlockGrid":
        columns, rows = memory_shape(bits=depth, clear=clear_bits, block_bits=block_bits)
        return cls(columns, rows, min(clear_bits, BLOCK_CLEAR_BITS).bit_length() - 1)


def segment_map(variant: str, *, depth: int, clear_bits: int) -> MemoryMap:
    if variant in PORTABLE:
        array = PhysicalMemory(("words",), depth // clear_bits, clear_bits)
        return MemoryMap(
            (array,),
            1,
            1,
            depth,
            lambda s, p, cell: Position(0, cell // clear_bits, cell % clear_bits),
        )
    kind = BLOCK_KINDS[variant]
    grid = BlockGrid.of(depth=depth, clear_bits=clear_bits, block_bits=kind.bits)
    width = kind.width

    def find(segment: Any, part: Any, cell: Any) -> Position:
        column = cell >> grid.low & (grid.columns - 1)
        above = (cell >> grid.low) // grid.columns
        inside = above * (1 << grid.low) + cell % (1 << grid.low)
        row, inside = inside // kind.bits, inside % kind.bits
        word, bit = inside // BLOCK_CLEAR_BITS, inside % BLOCK_CLEAR_BITS
        # The ninth bits of bytes are unused.
        return Position(
            row * grid.columns + column, word, bit + bit // 8 * (width > BLOCK_CLEAR_BITS)
        )

    words = -(-min(depth // grid.columns, kind.bits) // BLOCK_CLEAR_BITS)
    blocks = tuple(
        PhysicalMemory((f"block{row}_{column}",), words, width, kind.cell)
        for row in range(grid.rows)
        for column in range(grid.columns)
    )
    return MemoryMap(blocks, 1, 1, depth, find)


def separate_map(spec: FilterSpec, variant: str) -> MemoryMap:
    """Return the map of a unit with a separate memory for each part of each segment and shard."""
    shard_bits = spec.part_bits // spec.shards
    store = segment_map(variant, depth=shard_bits, clear_bits=spec.clear)
    each = len(store.memories)

    def find(segment: Any, part: Any, cell: Any) -> Position:
        shard = cell // shard_bits
        position = store.find(0, 0, cell % shard_bits)
        number = (shard * spec.segments + segment) * spec.parts + part
        return position._replace(memory=number * each + position.memory)

    memories = tuple(
        replace(memory, shard=shard)
        for shard in range(spec.shards)
        for segment in range(spec.segments)
        for part in range(spec.parts)
        for memory in store.below(
            *([f"shard{shard}"] if spec.lanes > 1 else []),
            "core",
            "store",
            f"segment{segment}_part{part}",
        )
    )
    return MemoryMap(memories, spec.segments, spec.parts, spec.part_bits, find)


def cell_map(spec: Specification, variant: str) -> MemoryMap:
    """Return the map of the cells of a dictionary or timing filter, without parity bits."""
    parts, cells, bits = spec.cell_shape
    if variant == "portable":
        columns, blocks = bits, (PhysicalMemory(("words",), cells, bits),)
    else:
        columns, kind = cell_columns(cells), BLOCK_KINDS[variant]
        blocks = tuple(
            PhysicalMemory((f"block{number}",), BANK_ROWS, kind.width, kind.cell)
            for number in range(-(-bits // columns))
        )

    def find(part: Any, bit: Any, cell: Any) -> Position:
        block, within = divmod(bit, columns)
        number = part * len(blocks) + block
        if variant == "portable":
            return Position(number, cell, within)
        # Cells narrower than a byte do not use the ninth bits.
        whole = BANK_COLUMNS if columns >= 9 else BANK_COLUMNS // 9 * 8
        low = cell * columns % whole + within
        return Position(number, cell * columns // whole, low if columns >= 9 else low + low // 8)

    core = ("core",) if spec.classes is None else ("core", "core")
    memories = tuple(
        replace(block, path=(*core, f"{spec.part_name}{part}", "memory", *block.path))
        for part in range(parts)
        for block in blocks
    )
    decode = partial(decoded_entries if spec.kind == "dictionary" else decoded_ages, spec)
    return MemoryMap(memories, parts, bits, cells, find, decode)


def decoded_ages(spec: Any, bits: NDArray[np.bool_], now: int) -> NDArray[np.int64]:
    """Return the ages of a timing filter's cells after `now` ticks, shape (hashes, cells)."""
    ages = np.uint64(now) - _numbers(bits) & np.uint64((1 << spec.stamp_bits) - 1)
    return np.minimum(ages, spec.window_blocks + 1).astype(np.int64)


def decoded_entries(spec: Any, bits: NDArray[np.bool_], now: int) -> NDArray[np.int64]:
    """Return each cell's age plus 1, and its digest remainder; both are 0 if the cell is free."""
    rest = 1 + spec.timestamp_bits
    times = _numbers(bits[:, 1:rest]).astype(np.int64)
    distances = (now - times) % (1 << spec.timestamp_bits)
    live = bits[:, 0] & (distances <= spec.window)
    return np.stack([distances * live, _numbers(bits[:, rest:]).astype(np.int64) * live])


def _numbers(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Convert the bits along the middle axis, lowest first, to numbers."""
    values = np.uint64(1) << np.arange(bits.shape[1], dtype=np.uint64)
    numbers: NDArray[np.uint64] = np.tensordot(values, bits.astype(np.uint64), axes=(0, 1))
    return numbers


def memory_map(
    spec: Specification, *, memory: str = "portable", protect: str = "none"
) -> MemoryMap:
    if spec.kind == "ring":
        return separate_map(cast(FilterSpec, spec), memory).copied(PROTECTIONS[protect])
    # Parity is part of a cell.
    return cell_map(spec, memory).copied(PROTECTIONS[protect] if protect == "tmr" else 1)


def floorplan_groups(memories: Iterable[PhysicalMemory]) -> tuple[tuple[str, ...], ...]:
    """Return the dotted names of block RAMs, grouped by shard, to be placed side by side."""
    groups: dict[int, list[str]] = {}
    for memory in memories:
        if memory.cell:
            groups.setdefault(memory.shard, []).append(".".join(memory.path))
    return tuple(map(tuple, groups.values()))
