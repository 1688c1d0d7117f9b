"""Segments of a ring in numpy, with one byte per bit, and the operations of all ring families.

This is the readable form; `CompiledSegments` equals it bit for bit. An APBF is a sequence of k + l
slices (APBF, section 5.1), an APBBF one of k + l segments (section 6), and a GEBF one of r + 1
segments (GEBF, methodology), which is the case k = 1. Here k is `run`, and segment 0 is the
youngest.
"""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from ..operations import Operation
from ..results import Ages
from ..sampling import sample
from .compiled_segments import PackedSegments
from .layout import Layout
from .position import RingPosition
from .slices import chunks

_CHUNK = 1 << 12


class Segments:
    """Bits of all physical segments in a `layout`."""

    engine = None
    """Compiled state, which only `CompiledSegments` has."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._memory = np.zeros((layout.spec.segments, layout.bits), np.bool_)

    @property
    def bits(self) -> NDArray[np.bool_]:
        """Bits, shape (segments, bits); do not write to them."""
        return self._memory

    @bits.setter
    def bits(self, values: NDArray[np.bool_]) -> None:
        self._memory[:] = values

    def packed(self) -> PackedSegments:
        """Return the bits in the form of state files."""
        packed = PackedSegments(self._layout)
        packed.bits = self._memory
        return packed

    def holding(self, memory: NDArray[np.unsignedinteger]) -> "Segments":
        """Take the bits of a state file; return these segments."""
        self.bits = PackedSegments(self._layout, memory).bits
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self._memory.nbytes

    def fill(self) -> float:
        """Return the share of set bits of all physical segments, as `Filter.fill`."""
        part = sample(self._memory)
        return np.count_nonzero(part) / part.size

    def counts(self) -> NDArray[np.int64]:
        """Count the set bits of each physical segment, shape (segments,)."""
        return np.array([np.count_nonzero(row) for row in self._memory])

    # Operations

    def perform(
        self, codes: NDArray[np.uint8], keys: NDArray[np.uint64], ring: RingPosition
    ) -> Ages:
        """Perform operations one after another, and turn the `ring`.

        The `codes`, shape (n,), are values of `Operation`. The `keys`, shape (n, words), have a row
        for each operation, also for operations that ignore the key. Returns the ages that queries
        found, shape (n,); -1 for operations that do not query.
        """
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

    def batches(
        self, keys: NDArray[np.uint64], ring: RingPosition
    ) -> Iterator[tuple[slice, "Batch"]]:
        """Cut `keys`, shape (n, words), into parts, and hash each for operations on its keys."""
        for part in chunks(len(keys), _CHUNK):
            yield part, Batch(self._layout, self._memory, keys[part], ring)

    def seen(
        self, operation: Operation, keys: NDArray[np.uint64], ring: RingPosition
    ) -> NDArray[np.bool_]:
        """Perform one `operation` on all `keys`, and return whether each is reported.

        Parameters as for `perform`; the result has shape (n,).
        """
        return self.perform(np.full(len(keys), operation, np.uint8), keys, ring) >= 0


class Batch:
    """Steps of operations on the `keys` of a batch, each by its number; hashed up front."""

    def __init__(
        self,
        layout: Layout,
        memory: NDArray[np.bool_],
        keys: NDArray[np.uint64],
        ring: RingPosition,
    ) -> None:
        self._layout, self._memory, self._keys, self._ring = layout, memory, keys, ring
        self._states = cache(partial(layout.hash.state, keys))  # under a secret
        self._secrets: dict[int, int] = {}
        spec = layout.spec
        self._places = np.zeros((len(keys), spec.segments, spec.parts), np.intp)
        self._arrange()

    def _arrange(self) -> None:
        """Find the bits of the keys in each segment of the ring, under the secret of the segment.

        Each physical segment has its hash function (APBF, section 5.1).
        """
        self._segments = np.array(self._ring.ring())
        for index, segment in enumerate(self._segments.tolist()):
            secret = self._ring.secret_of(index)
            if self._secrets.get(segment) != secret:
                self._secrets[segment] = secret
                self._places[:, segment] = self._layout.positions(self._states(secret), segment).T

    def age(self, at: int) -> int:
        """Youngest of `run` consecutive segments that have all bits of a key; -1 if none are.

        This is query(e) of the APBF, section 5.1: the first j such that s_j to s_(j+k-1) match. A
        GEBF has the key in one segment for r epochs after its own (GEBF, lemma 1).
        """
        places = self._places[at, self._segments]
        matches = self._memory[self._segments[:, np.newaxis], places].all(axis=1)
        run = 0
        for index, match in enumerate(matches.tolist()):
            run = run + 1 if match else 0
            if run == self._layout.spec.run:
                return index - run + 1
        return -1

    def insert(self, at: int) -> None:
        """Set the bits of a key in s_0 to s_(k-1): add(e) of the APBF, section 5.1."""
        youngest = self._segments[: self._layout.spec.run]
        self._memory[youngest[:, np.newaxis], self._places[at, youngest]] = True
        self._ring.filled += 1
        self._ring.insertions += 1

    def turn(self) -> None:
        """Shift by one segment: the base moves back to the spare (APBF, section 5.1).

        The oldest segment is the next spare. It is cleared now, and not, as in the paper, when it
        is needed.
        """
        self._ring.turn()
        self._memory[self._ring.spare] = False
        self._arrange()

    def clear(self) -> None:
        """Forget all keys; the ring is at its first position, with the newest secret."""
        self._ring.restart()
        self._memory[:] = False
        self._arrange()
