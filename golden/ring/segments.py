"""Memory of a ring: bit positions of keys, and the order of segments.

`Segments` is the readable form in numpy, with one byte per bit; `CompiledSegments` runs in the C
extension, with equal bits and results. An APBF has k + l slices (APBF, section 5.1), an APBBF k + l
segments (section 6), and a GEBF r + 1 segments (GEBF, methodology), which is the case k = 1. Here k
is `run`, and segment 0 is the youngest.

With a keyed hash, a segment keeps the secret with which it enters the ring until it leaves the
ring, and all insertions and queries use the secret of each segment. So no key is forgotten when a
new secret is loaded. The spare is empty, so its secret has no effect.
"""

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cached import Element, Secret
from ..errors import require
from ..hash.functions import KeyHash, shard_rotations
from ..hash.siphash import check_secret
from ..operations import Operation
from ..results import Ages, Answers, Codes, Words
from ..sampling import chunks, sample
from ..spec.ring import FilterSpec


@dataclass(frozen=True)
class Layout:
    """Order of the bits in a segment: by part, then by shard, block and cell."""

    spec: FilterSpec
    partitioned: bool  # whether each hash function has its own part
    hash: KeyHash  # selects the block, if there are blocks, and a cell in each part
    cells: int  # range of a cell index: bits of a part in a block
    parts: int  # number of parts of a segment: 1 if all hash functions share the segment

    @classmethod
    def of(cls, spec: FilterSpec, partitioned: bool) -> "Layout":
        if not isinstance(partitioned, bool):
            raise TypeError(f"partitioned: must be True or False, not {partitioned!r}")
        sizes, cells = spec.index_sizes, spec.cells
        if not partitioned:
            shared = spec.shared_cells > 0
            require(shared, "partitioned", f"must be True for {spec.family}", False)
            require(spec.shards == 1, "partitioned", "must be True for several lanes", False)
            cells = spec.shared_cells
            sizes = sizes[: -spec.parts] + (cells,) * spec.parts
        key_hash = KeyHash(
            key_bits=spec.key_bits,
            sizes=sizes,
            functions=spec.hash_functions,
            seed=spec.seed,
            hash=spec.hash,
            shards=spec.shards,
        )
        return cls(spec, partitioned, key_hash, cells, spec.parts if partitioned else 1)

    @property
    def bits(self) -> int:
        return self.parts * self.spec.segment_blocks * self.cells

    @property
    def blocked(self) -> bool:
        return len(self.hash.fields) > self.spec.parts

    def positions(self, state: NDArray[np.uint64], segment: int) -> NDArray[np.intp]:
        """Return the bit positions of n states in one physical segment, shape (spec.parts, n)."""
        indices = self.hash.indices(state, segment % self.hash.functions)
        parts = self.spec.parts
        block = indices[0] * self.cells if self.blocked else np.intp(0)
        stride = self.spec.segment_blocks * self.cells if self.partitioned else 0
        if self.spec.shards > 1:
            block = block + self.hash.shard(state) * self.spec.shard_bits
        return np.stack([part * stride + block + indices[part - parts] for part in range(parts)])


# numbers of a ring: four counters of the filter, the position, three secrets of two words each, and
# the number of cleared bytes of the segment that last left the ring
NUMBERS = 21
BASE = 4  # index of the first number of the position
CLEARED = 19  # index of the number of cleared bytes
MAX_LENGTH = 1 << 62  # largest length of a generation


class RingPosition:
    """Position and secrets of a ring, in an array shared with the C extension."""

    base, filled, length, generation = map(Element, range(BASE, 8))
    insertions, shifts, older, waits = map(Element, range(8, 12))
    # The `older` oldest segments have the `older_secret`; if `waits` is set, `_waiting` is next.
    secret, older_secret, _waiting = map(Secret, (12, 14, 16))

    def __init__(self, spec: FilterSpec, secret: int, numbers: NDArray[np.int64]) -> None:
        self.spec, self._numbers = spec, numbers
        self.generation = self.length = spec.generation
        self.secret = secret

    @property
    def waiting(self) -> int | None:
        return self._waiting if self.waits else None

    @waiting.setter
    def waiting(self, secret: int | None) -> None:
        self.waits, self._waiting = secret is not None, secret or 0

    def ring(self) -> list[int]:
        """Physical segments in the ring, youngest to oldest."""
        segments, base = self.spec.segments, self.base
        return [(base + index) % segments for index in range(self.spec.ring_segments)]

    @property
    def spare(self) -> int:
        return (self.base - 1) % self.spec.segments

    def secret_of(self, index: int) -> int:
        """Return the secret of segment `index` of the ring; segment 0 is the youngest."""
        older = index >= self.spec.ring_segments - self.older
        return self.older_secret if older else self.secret

    def turn(self) -> None:
        """Make the spare the youngest segment, and the oldest segment the spare."""
        self.base = self.spare
        self.filled = 0
        self.length = self.generation
        self.shifts += 1
        self.older = max(0, self.older - 1)
        if self.spec.rekey and self.waiting is not None:
            self.older_secret, self.older = self.secret, self.spec.ring_segments - 1
            self.secret, self.waiting = self.waiting, None
        if self.older == 0:
            self.older_secret = 0

    def restart(self) -> None:
        """Return to the first position, and give all segments the newest secret."""
        self.base = self.filled = 0
        self.length = self.generation
        if self.waiting is not None:
            self.secret, self.waiting = self.waiting, None
        self.older = self.older_secret = 0

    def identity(self) -> tuple[Any, ...]:
        secrets = [self.secret_of(index) for index in range(self.spec.ring_segments)]
        return self.spec, *self.numbers(), secrets, self.waiting

    def numbers(self) -> list[int]:
        return [self.base, self.filled, self.length, self.generation]

    def set_numbers(self, numbers: list[Any], insertions: Any, shifts: Any) -> None:
        base, filled, length, generation = numbers
        whole = all(type(number) is int for number in [*numbers, insertions, shifts])
        if not (
            whole
            and 0 <= base < self.spec.segments
            and 0 <= filled <= length
            and 1 <= min(length, generation) <= max(length, generation) <= MAX_LENGTH
            and 0 <= min(insertions, shifts) <= max(insertions, shifts) < MAX_LENGTH
        ):
            numbers = [*numbers, insertions, shifts]
            raise ValueError(f"ring: the numbers {numbers} do not fit the specification")
        self._numbers[BASE:10] = *numbers, insertions, shifts

    def set_secrets(self, secret: Any, older_secret: Any, older: Any, waiting: Any) -> None:
        self.secret, self.older_secret = check_secret(secret), check_secret(older_secret)
        self.waiting = None if waiting is None else check_secret(waiting)
        high = self.spec.ring_segments - 1 if self.spec.rekey else 0
        if type(older) is not int or not 0 <= older <= high:
            raise ValueError(
                f"secrets: an older secret must be used by 0 to {high} segments, not {older!r}"
            )
        if older and self.spec.rekey and waiting is not None:
            raise ValueError("secrets: at most two can be in use or waiting, not three")
        self.older = older


_CHUNK = 1 << 15


def pitch(layout: Layout) -> int:
    """Return the distance between blocks in bits; no block of up to 64 bits crosses a word."""
    width = layout.parts * layout.cells
    return 1 << (width - 1).bit_length() if width <= 64 else width


class PackedSegments:
    """Bits of all physical segments, packed for the C extension and for state files.

    If all segments share one hash function, an element of `memory` holds one bit of each segment;
    otherwise a row of `memory` holds the bits of one segment.
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
        return (1 << (self._layout.spec.segments if self._columns else 64)) - 1

    def packed(self) -> "PackedSegments":
        """Return the bits in the format of state files, without a copy if possible."""
        return self

    def _empty(self) -> NDArray[np.unsignedinteger]:
        segments, bits = self._layout.spec.segments, self._blocks * self._pitch
        if not self._columns:
            return np.zeros((segments, -(-bits // 64)), np.uint64)
        size = next(size for size in (8, 16, 32, 64) if segments <= size)
        return np.zeros(bits, f"u{size // 8}")

    @property
    def bits(self) -> NDArray[np.bool_]:
        """Copy of the bits in the format of `Segments`, shape (segments, bits)."""
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
        self._set_bits(values)

    def _set_bits(self, values: NDArray[np.bool_]) -> None:
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
        if self._columns:
            self._memory &= ~self._memory.dtype.type(1 << segment)
        else:
            self._memory[segment] = 0

    @property
    def _form(self) -> int:
        """1 if all bits of a key in a segment are in one word, otherwise 0."""
        layout = self._layout
        return not self._columns and layout.blocked and layout.parts * layout.cells <= 64

    def shape(self) -> NDArray[np.uint64]:
        layout, spec = self._layout, self._layout.spec
        stride, rotations = 0, (0, 0, 0)
        if spec.shards > 1:
            stride = spec.segment_blocks // spec.shards * self._pitch or spec.shard_bits
            key_hash = layout.hash
            rotations = shard_rotations(key_hash.fields, key_hash.functions, key_hash.seed)
        part = layout.cells if layout.partitioned else 0
        flags = spec.segments, spec.run, self._form, spec.rekey, layout.blocked
        return np.array([*flags, self._pitch, part, stride, spec.shards, *rotations], np.uint64)


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


class CompiledSegments(PackedSegments):
    """Segments whose operations run in the C extension; their bits equal those of `Segments`."""

    def __init__(
        self,
        layout: Layout,
        numbers: NDArray[np.int64],
        memory: NDArray[np.unsignedinteger] | None = None,
        live: NDArray[np.int64] | None = None,
    ) -> None:
        core, key_hash = layout.hash.compiled()
        parts = layout.blocked and layout.spec.shards == 1 and layout.parts == layout.spec.parts
        shape = parts, layout.parts, layout.cells, layout.hash.functions
        self._lines = memory is None and bool(core.LINES) and shape == (True, 8, 32, 1)
        super().__init__(layout, memory)
        self._numbers = numbers
        shared = () if live is None else (live,)
        self.engine = core.Ring(key_hash, self._memory, numbers, self.shape(), *shared)

    def holding(self, memory: NDArray[np.unsignedinteger]) -> "CompiledSegments":
        """Return segments that use `memory`, or a copy of it if the layout is by cache lines."""
        if not self._lines or _is_mapped(memory):
            return CompiledSegments(self._layout, self._numbers, memory)
        segments = CompiledSegments(self._layout, self._numbers)
        segments.engine.columns(memory, False)
        return segments

    def _empty(self) -> NDArray[np.unsignedinteger]:
        if self._lines:
            # Align the first block to a cache line.
            shape = self._blocks, self._layout.spec.segments, 4
            room = np.zeros(math.prod(shape) + 7, np.uint64)
            start = -(room.ctypes.data // 8) % 8
            return room[start : start + math.prod(shape)].reshape(shape)
        return super()._empty()

    @property
    def _form(self) -> int:
        return 2 if self._lines else super()._form

    def packed(self) -> PackedSegments:
        """Return the bits in the format of state files; a layout by cache lines needs a copy."""
        if not self._lines:
            return self
        packed = PackedSegments(self._layout)
        self.engine.settle()
        self.engine.columns(packed.memory, True)
        return packed

    def _set_bits(self, values: NDArray[np.bool_]) -> None:
        if not self._lines:
            super()._set_bits(values)
            return
        packed = PackedSegments(self._layout)
        packed.bits = values
        self._memory[:] = 0
        self.engine.columns(packed.memory, False)

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    @property
    def fill(self) -> float:
        self.engine.settle()
        part = sample(self._memory)
        octets = np.ascontiguousarray(part).view(np.uint8).reshape(-1)
        few = (octets[some] for some in chunks(len(octets), _CHUNK))
        held = sum(int(np.count_nonzero(np.unpackbits(each))) for each in few)
        bits = self._layout.spec.segments * self._layout.bits
        return held * (self._memory.size / part.size) / bits

    def perform(self, codes: Codes | Operation, keys: Words, ring: RingPosition) -> Ages:
        """Perform operations and return ages, shape (n,); `codes` may be one code for all keys."""
        ages = np.empty(len(keys), np.int64)
        many = codes if isinstance(codes, Operation) else np.ascontiguousarray(codes)
        self.engine.perform(many, np.ascontiguousarray(keys), ages, None)
        return ages

    def seen(self, operation: Operation, keys: Words, ring: RingPosition) -> Answers:
        seen = np.empty(len(keys), np.bool_)
        self.engine.perform(operation, np.ascontiguousarray(keys), None, seen)
        return seen


_BATCH = 1 << 12


class Segments:
    """Bits of all physical segments, with one byte for each bit."""

    engine = None

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._memory = np.zeros((layout.spec.segments, layout.bits), np.bool_)

    @property
    def bits(self) -> NDArray[np.bool_]:
        """Bits of all segments, shape (segments, bits); the array must not be modified."""
        return self._memory

    @bits.setter
    def bits(self, values: NDArray[np.bool_]) -> None:
        self._memory[:] = values

    def packed(self) -> PackedSegments:
        packed = PackedSegments(self._layout)
        packed.bits = self._memory
        return packed

    def holding(self, memory: NDArray[np.unsignedinteger]) -> "Segments":
        """Replace the bits with those of a state file, and return `self`."""
        self.bits = PackedSegments(self._layout, memory).bits
        return self

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    @property
    def fill(self) -> float:
        part = sample(self._memory)
        return np.count_nonzero(part) / part.size

    def perform(self, codes: Codes, keys: Words, ring: RingPosition) -> Ages:
        """Perform operations and return ages, shape (n,); -1 where no key is reported."""
        ages = np.full(len(codes), -1, np.int64)
        for part, batch in self.batches(keys, ring):
            for at, code in enumerate(codes[part].tolist()):
                if code in (Operation.QUERY, Operation.CHECK_AND_INSERT):
                    ages[part.start + at] = batch.age(at)
                if code in (Operation.INSERT, Operation.CHECK_AND_INSERT):
                    if ring.filled >= ring.length:
                        batch.turn()
                    batch.insert(at)
                elif code == Operation.SHIFT:
                    batch.turn()
                elif code == Operation.CLEAR:
                    batch.clear()
        return ages

    def batches(self, keys: Words, ring: RingPosition) -> Iterator[tuple[slice, "Batch"]]:
        """Split `keys`, shape (n, words), into batches that are hashed together."""
        for part in chunks(len(keys), _BATCH):
            yield part, Batch(self._layout, self._memory, keys[part], ring)

    def seen(self, operation: Operation, keys: Words, ring: RingPosition) -> Answers:
        return self.perform(np.full(len(keys), operation, np.uint8), keys, ring) >= 0


class Batch:
    """Batch of keys, on which operations are performed one at a time."""

    def __init__(
        self, layout: Layout, memory: NDArray[np.bool_], keys: Words, ring: RingPosition
    ) -> None:
        self._layout, self._memory, self._keys, self._ring = layout, memory, keys, ring
        self._states = cache(partial(layout.hash.state, keys))  # states under a secret
        self._secrets: dict[int, int] = {}
        spec = layout.spec
        self._positions = np.zeros((len(keys), spec.segments, spec.parts), np.intp)
        self._arrange()

    def _arrange(self) -> None:
        self._segments = np.array(self._ring.ring())
        for index, segment in enumerate(self._segments.tolist()):
            secret = self._ring.secret_of(index)
            if self._secrets.get(segment) != secret:
                self._secrets[segment] = secret
                self._positions[:, segment] = self._layout.positions(
                    self._states(secret), segment
                ).T

    def age(self, at: int) -> int:
        """Return the youngest of `run` consecutive matching segments, or -1 (APBF, section 5.1)."""
        positions = self._positions[at, self._segments]
        matches = self._memory[self._segments[:, np.newaxis], positions].all(axis=1)
        run = 0
        for index, match in enumerate(matches.tolist()):
            run = run + 1 if match else 0
            if run == self._layout.spec.run:
                return index - run + 1
        return -1

    def insert(self, at: int) -> None:
        """Set the bits of a key in s_0 to s_(k-1); add(e) in the APBF paper, section 5.1."""
        youngest = self._segments[: self._layout.spec.run]
        self._memory[youngest[:, np.newaxis], self._positions[at, youngest]] = True
        self._ring.filled += 1
        self._ring.insertions += 1

    def turn(self) -> None:
        """Shift the ring by one segment; the spare becomes the youngest (APBF, section 5.1)."""
        self._ring.turn()
        self._memory[self._ring.spare] = False
        self._arrange()

    def clear(self) -> None:
        """Forget all keys, and restart at the first position with the newest secret."""
        self._ring.restart()
        self._memory[:] = False
        self._arrange()
