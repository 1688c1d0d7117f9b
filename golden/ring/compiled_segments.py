"""Segments of a filter whose operations run in compiled loops."""

import numpy as np
from numpy.typing import NDArray

from ..hash.compiled_hash import CompiledHash
from ..hash.functions import shard_rotations
from ..results import Ages
from . import compiled_loops as loops
from .layout import Layout
from .position import RingPosition
from .slices import chunks

_CHUNK = 1 << 15
_MOST = 1 << 62
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(
    np.int64
)
"""Bits of each value of a byte, the least significant first."""


class CompiledSegments:
    """Bits of all physical segments in a `layout`; does what `Segments` does, bit for bit."""

    def __init__(self, layout: Layout) -> None:
        spec = layout.spec
        self._layout = layout
        self._hash = CompiledHash(layout.hash)
        self._rotations = np.array(layout.hash.rotations, np.uint64)
        self._fields = _field_table(layout)
        width = layout.parts * layout.cells
        self._blocks = spec.segment_blocks
        # A block that fits into a word lies in one.
        self._pitch = 1 << (width - 1).bit_length() if width <= 64 else width
        self._joint = layout.blocked and width <= 64
        self._strides = self._stride_vector()
        self._columns = layout.hash.functions == 1
        self._memory = self._empty()

    def _empty(self) -> NDArray[np.unsignedinteger]:
        segments, bits = self._layout.spec.segments, self._blocks * self._pitch
        if not self._columns:
            return np.zeros((segments, -(-bits // 64)), np.uint64)
        size = next(size for size in (8, 16, 32, 64) if segments <= size)
        return np.zeros(bits, f"u{size // 8}")

    def _stride_vector(self) -> NDArray[np.uint64]:
        layout, spec = self._layout, self._layout.spec
        strides = np.zeros(loops.STRIDES_SIZE, np.uint64)
        strides[loops.BLOCK_STRIDE] = self._pitch
        strides[loops.PART_STRIDE] = layout.cells if layout.partitioned else 0
        strides[loops.BLOCKED] = layout.blocked
        strides[loops.SHARDS] = spec.shards
        if spec.shards > 1:
            blocks = spec.segment_blocks // spec.shards
            strides[loops.SHARD_STRIDE] = blocks * self._pitch or spec.shard_bits
            strides[loops.SHARD_ROTATIONS :] = shard_rotations(
                layout.hash.fields, layout.hash.functions, layout.hash.seed
            )
        return strides

    # Bits

    @property
    def bits(self) -> NDArray[np.bool_]:
        """Bits as those of `Segments`, shape (segments, bits), each time made anew."""
        segments = self._layout.spec.segments
        used = self._blocks * self._pitch
        if self._columns:
            numbers = np.arange(segments, dtype=self._memory.dtype)[:, None]
            bits = (self._memory >> numbers & 1).astype(np.bool_)
        else:
            octets = self._memory.astype("<u8").view(np.uint8)
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
        self._memory[:] = 0
        if self._columns:
            for number, row in enumerate(flat.astype(self._memory.dtype)):
                self._memory |= row << row.dtype.type(number)
        else:
            octets = np.zeros((segments, 8 * self._memory.shape[1]), np.uint8)
            packed = np.packbits(flat, axis=1, bitorder="little")
            octets[:, : packed.shape[1]] = packed
            self._memory[:] = octets.view("<u8")

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self._memory.nbytes

    def counts(self) -> NDArray[np.int64]:
        """Count the set bits of each physical segment, shape (segments,), without unpacking."""
        memory = self._memory.astype(self._memory.dtype.newbyteorder("<"), copy=False)
        if not self._columns:
            return np.array([(_tally(row.view(np.uint8)) @ _BITS).sum() for row in memory])
        octets = memory.view(np.uint8)
        size = memory.itemsize
        lanes = [_tally(octets[lane::size]) @ _BITS for lane in range(size)]
        return np.concatenate(lanes)[: self._layout.spec.segments]

    # Operations

    def perform(
        self, codes: NDArray[np.uint8], keys: NDArray[np.uint64], ring: RingPosition
    ) -> Ages:
        """Perform operations, and return ages of shape (n,), like `Segments`.

        The `codes` have shape (n,), the `keys` (n, words); the `ring` is changed.
        """
        ages = np.empty(len(codes), np.int64)
        for part in chunks(len(codes), _CHUNK):
            secrets = _secrets(ring)
            states = self._hash.states(keys[part], secrets)
            vector = _vector(ring, secrets)
            self._run(codes[part], states, vector, ages[part])
            _move(ring, vector, secrets)
        return ages

    def _run(
        self,
        codes: NDArray[np.uint8],
        states: NDArray[np.uint64],
        ring: NDArray[np.int64],
        ages: Ages,
    ) -> None:
        spec = self._layout.spec
        shared = (codes, states, self._rotations, self._fields, self._strides, ring, ages)
        if self._columns:
            loops.perform_columns(self._memory, spec.segments, *shared)
        else:
            loops.perform_words(self._memory, spec.run, self._joint, *shared)


def _tally(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count each value of a byte, shape (256,)."""
    tally = np.zeros(256, np.int64)
    for part in chunks(len(octets), _CHUNK):
        tally += np.bincount(octets[part], minlength=256)
    return tally


def _field_table(layout: Layout) -> NDArray[np.uint64]:
    """Return the index fields as the loops take them, shape (indices, 5)."""
    return np.array(
        [
            # A field of no bits must not shift by the whole word.
            [f.word, (64 - f.offset - f.bits) % 64, (1 << f.bits) - 1, f.size, f.bits]
            for f in layout.hash.fields
        ],
        np.uint64,
    )


def _secrets(ring: RingPosition) -> list[int]:
    """Secrets that may be asked for: the present one, then an older one or one that waits."""
    secrets = [ring.secret]
    if ring.older:
        secrets.append(ring.older_secret)
    if ring.waiting is not None:
        secrets.append(ring.waiting)
    return secrets


def _vector(ring: RingPosition, secrets: list[int]) -> NDArray[np.int64]:
    """Return the position of the ring as the loops take it; insertions, shifts from 0 on."""
    vector = np.zeros(loops.RING_SIZE, np.int64)
    vector[loops.BASE] = ring.base
    # Integers of Python have no largest; no part of a stream reaches this one.
    vector[loops.FILLED] = min(ring.filled, _MOST)
    vector[loops.LENGTH] = min(ring.length, _MOST)
    vector[loops.GENERATION] = min(ring.generation, _MOST)
    vector[loops.OLDER] = ring.older
    vector[loops.OLDER_ROW] = 1 if ring.older else 0
    vector[loops.WAITING_ROW] = -1 if ring.waiting is None else len(secrets) - 1
    vector[loops.REKEYS] = ring.spec.rekey
    return vector


def _move(ring: RingPosition, vector: NDArray[np.int64], secrets: list[int]) -> None:
    """Take the position that a loop has left."""
    values = vector.tolist()
    ring.insertions += values[loops.INSERTIONS]
    if not values[loops.SHIFTS] and not values[loops.CLEARS]:
        ring.filled += values[loops.INSERTIONS]
        return
    ring.base, ring.filled = values[loops.BASE], values[loops.FILLED]
    ring.length = ring.generation
    ring.shifts += values[loops.SHIFTS]
    ring.secret = secrets[values[loops.ROW]]
    ring.older = values[loops.OLDER]
    ring.older_secret = secrets[values[loops.OLDER_ROW]] if ring.older else 0
    ring.waiting = None if values[loops.WAITING_ROW] < 0 else ring.waiting
