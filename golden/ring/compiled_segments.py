"""Segments of a filter whose operations run in the extension module."""

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hash.functions import shard_rotations
from ..operations import Operation
from ..results import Ages
from ..sampling import sample
from .layout import Layout
from .position import RingPosition
from .slices import chunks

_CHUNK = 1 << 15


def pitch(layout: Layout) -> int:
    """Return the bits from one block of a segment to the next; a small block stays in one word."""
    width = layout.parts * layout.cells
    return 1 << (width - 1).bit_length() if width <= 64 else width


class PackedSegments:
    """Bits of all physical segments in a `layout`, as the extension and state files hold them.

    With one hash function for all segments, a number of `memory` holds one bit of each segment;
    otherwise a row of it holds the bits of one segment.
    """

    engine: Any = None

    def __init__(self, layout: Layout, memory: NDArray[np.unsignedinteger] | None = None) -> None:
        self._layout = layout
        self._blocks = layout.spec.segment_blocks
        self._pitch = pitch(layout)
        self._columns = layout.hash.functions == 1 and layout.spec.segments <= 64
        self._memory = self._empty() if memory is None else memory

    @property
    def largest(self) -> int:
        """Largest number in `memory`."""
        return (1 << (self._layout.spec.segments if self._columns else 64)) - 1

    def packed(self) -> "PackedSegments":
        """Return the bits in the form of state files, without a copy if possible."""
        return self

    def _empty(self) -> NDArray[np.unsignedinteger]:
        segments, bits = self._layout.spec.segments, self._blocks * self._pitch
        if not self._columns:
            return np.zeros((segments, -(-bits // 64)), np.uint64)
        size = next(size for size in (8, 16, 32, 64) if segments <= size)
        return np.zeros(bits, f"u{size // 8}")

    @property
    def bits(self) -> NDArray[np.bool_]:
        """Bits as in `Segments`, shape (segments, bits); a new array each time."""
        memory, segments = self.packed().memory, self._layout.spec.segments
        used = self._blocks * self._pitch
        if self._columns:
            numbers = np.arange(segments, dtype=memory.dtype)[:, None]
            bits = (memory >> numbers & 1).astype(np.bool_)
        else:
            octets = memory.astype("<u8").view(np.uint8)
            bits = np.unpackbits(octets, axis=1, count=used, bitorder="little").view(np.bool_)
        layout = self._layout
        blocks = bits.reshape(segments, self._blocks, self._pitch)
        blocks = blocks[:, :, : layout.parts * layout.cells]
        parts = blocks.reshape(segments, self._blocks, layout.parts, layout.cells)
        return parts.swapaxes(1, 2).reshape(segments, layout.bits)

    @bits.setter
    def bits(self, values: NDArray[np.bool_]) -> None:
        layout, segments = self._layout, len(values)
        parts = values.reshape(segments, layout.parts, self._blocks, layout.cells)
        bits = np.zeros((segments, self._blocks, self._pitch), np.bool_)
        bits[:, :, : layout.parts * layout.cells] = parts.swapaxes(1, 2).reshape(
            segments, self._blocks, -1
        )
        flat = bits.reshape(segments, -1)
        self.memory[:] = 0
        if self._columns:
            for number, row in enumerate(flat.astype(self._memory.dtype)):
                self._memory |= row << row.dtype.type(number)
        else:
            octets = np.zeros((segments, 8 * self._memory.shape[1]), np.uint8)
            packed = np.packbits(flat, axis=1, bitorder="little")
            octets[:, : packed.shape[1]] = packed
            self._memory[:] = octets.view("<u8")

    @property
    def memory(self) -> NDArray[np.unsignedinteger]:
        """Array that holds all bits; do not write to it."""
        if self.engine is not None:
            self.engine.settle()
        return self._memory

    def erase(self, segment: int) -> None:
        """Clear a physical `segment`."""
        if self._columns:
            self._memory &= ~self._memory.dtype.type(1 << segment)
        else:
            self._memory[segment] = 0

    @property
    def _form(self) -> int:
        """1 if one word has all bits of a key in a segment, otherwise 0."""
        layout = self._layout
        return not self._columns and layout.blocked and layout.parts * layout.cells <= 64

    def shape(self) -> NDArray[np.uint64]:
        """Return the numbers that the extension calls the shape of a ring."""
        layout, spec = self._layout, self._layout.spec
        stride, rotations = 0, (0, 0, 0)
        if spec.shards > 1:
            stride = spec.segment_blocks // spec.shards * self._pitch or spec.shard_bits
            key_hash = layout.hash
            rotations = shard_rotations(key_hash.fields, key_hash.functions, key_hash.seed)
        part = layout.cells if layout.partitioned else 0
        flags = spec.segments, spec.run, self._form, spec.rekey, layout.blocked
        return np.array([*flags, self._pitch, part, stride, spec.shards, *rotations], np.uint64)


def _has_lines(layout: Layout) -> bool:
    spec = layout.spec
    eight = layout.blocked and spec.shards == 1 and layout.parts == spec.parts == 8
    return eight and layout.cells == 32 and layout.hash.functions == 1


def _is_mapped(array: Any) -> bool:
    """Whether an array is a file that is mapped."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


class CompiledSegments(PackedSegments):
    """Segments whose operations run in the extension; equal to `Segments` bit for bit.

    `numbers` are those of the `RingPosition`. `memory` and `live` are arrays that several processes
    share: the bits and the position. Without them, blocks of 256 bits with eight bits of a key are
    lines: one block of each segment beside the other, in which a processor with AVX2 finds a key
    faster.
    """

    def __init__(
        self,
        layout: Layout,
        numbers: NDArray[np.int64],
        memory: NDArray[np.unsignedinteger] | None = None,
        live: NDArray[np.int64] | None = None,
    ) -> None:
        core, key_hash = layout.hash.compiled()
        self._lines = memory is None and bool(core.LINES) and _has_lines(layout)
        super().__init__(layout, memory)
        self._numbers = numbers
        shared = () if live is None else (live,)
        self.engine = core.Ring(key_hash, self._memory, numbers, self.shape(), *shared)

    def holding(self, memory: NDArray[np.unsignedinteger]) -> "CompiledSegments":
        """Return segments with another `memory`; the array itself, unless it becomes lines."""
        if not self._lines or _is_mapped(memory):
            return CompiledSegments(self._layout, self._numbers, memory)
        segments = CompiledSegments(self._layout, self._numbers)
        segments.engine.columns(memory, False)
        return segments

    # Bits

    def _empty(self) -> NDArray[np.unsignedinteger]:
        if self._lines:
            # A line of the cache begins at the first block.
            shape = self._blocks, self._layout.spec.segments, 4
            room = np.zeros(math.prod(shape) + 7, np.uint64)
            start = -(room.ctypes.data // 8) % 8
            return room[start : start + math.prod(shape)].reshape(shape)
        return super()._empty()

    @property
    def _form(self) -> int:
        return 2 if self._lines else super()._form

    def packed(self) -> PackedSegments:
        """Return the bits in the form of state files, without a copy unless they are lines."""
        if not self._lines:
            return self
        packed = PackedSegments(self._layout)
        self.engine.settle()
        self.engine.columns(packed.memory, True)
        return packed

    @property
    def bits(self) -> NDArray[np.bool_]:
        """Bits as in `PackedSegments`."""
        return super().bits

    @bits.setter
    def bits(self, values: NDArray[np.bool_]) -> None:
        if not self._lines:
            PackedSegments.bits.__set__(self, values)  # type: ignore[attr-defined]
            return
        packed = PackedSegments(self._layout)
        packed.bits = values
        self._memory[:] = 0
        self.engine.columns(packed.memory, False)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self._memory.nbytes

    def fill(self) -> float:
        """Return the share of set bits of all physical segments, as `Filter.fill`."""
        self.engine.settle()
        part = sample(self._memory)
        octets = np.ascontiguousarray(part).view(np.uint8).reshape(-1)
        few = (octets[some] for some in chunks(len(octets), _CHUNK))
        held = sum(int(np.count_nonzero(np.unpackbits(each))) for each in few)
        bits = self._layout.spec.segments * self._layout.bits
        return held * (self._memory.size / part.size) / bits

    def counts(self) -> NDArray[np.int64]:
        """Count the set bits of each physical segment, shape (segments,)."""
        counts, memory = np.zeros(self._layout.spec.segments, np.int64), self.packed().memory
        bits: NDArray[Any]
        for part in chunks(memory.shape[-1], _CHUNK):
            for segment in range(len(counts)):
                if self._columns:
                    bits = memory[part] >> memory.dtype.type(segment) & 1
                else:
                    bits = np.unpackbits(memory[segment, part].view(np.uint8))
                counts[segment] += np.count_nonzero(bits)
        return counts

    # Operations

    def perform(
        self,
        codes: "NDArray[np.uint8] | Operation",
        keys: NDArray[np.uint64],
        ring: RingPosition,
    ) -> Ages:
        """Perform operations and return ages of shape (n,), as `Segments` does.

        The `codes` have shape (n,), or one code applies to all; the `keys` have shape (n, words).
        Changes the `ring`.
        """
        ages = np.empty(len(keys), np.int64)
        many = codes if isinstance(codes, Operation) else np.ascontiguousarray(codes)
        self.engine.perform(many, np.ascontiguousarray(keys), ages, None)
        return ages

    def seen(
        self, operation: Operation, keys: NDArray[np.uint64], ring: RingPosition
    ) -> NDArray[np.bool_]:
        """Perform one `operation` on all `keys`, and return whether each is reported.

        Parameters as for `perform`; the result has shape (n,).
        """
        seen = np.empty(len(keys), np.bool_)
        self.engine.perform(operation, np.ascontiguousarray(keys), None, seen)
        return seen
