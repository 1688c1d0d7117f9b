"""Segments of a filter in numpy, with one byte per bit, and operations on them."""

from collections.abc import Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from ..hash.functions import KeyHash
from ..operations import Operation
from ..results import Ages
from ..sampling import sample
from .compiled_segments import PackedSegments
from .layout import Layout
from .position import RingPosition
from .slices import chunks

_CHUNK = 1 << 15


class Segments:
    """Bits of all physical segments in a `layout`."""

    engine = None
    """Compiled state, which only `CompiledSegments` has."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._spec = layout.spec
        self._memory = np.zeros((layout.spec.segments, layout.bits), np.bool_)
        self._first = np.zeros(layout.bits, np.int32)

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
        """Bytes of the arrays, including scratch arrays."""
        return self._memory.nbytes + self._first.nbytes

    def fill(self) -> float:
        """Return the share of set bits of all physical segments, as `Filter.fill`."""
        part = sample(self._memory)
        return np.count_nonzero(part) / part.size

    def counts(self) -> NDArray[np.int64]:
        """Count the set bits of each physical segment, shape (segments,)."""
        return np.array([np.count_nonzero(row) for row in self._memory])

    def perform(
        self, codes: NDArray[np.uint8], keys: NDArray[np.uint64], ring: RingPosition
    ) -> Ages:
        """Perform operations one after another, and turn the `ring`.

        The `codes`, shape (n,), are values of `Operation`. The `keys`, shape (n, words), have a row
        for each operation, also for operations that ignore the key. Returns the ages that queries
        found, shape (n,); -1 for operations that do not query.
        """
        ages = np.empty(len(codes), np.int64)
        for part in chunks(len(codes), _CHUNK):
            ages[part] = self._perform_chunk(
                codes[part], _States(self._layout.hash, keys[part]), ring
            )
        return ages

    def seen(
        self, operation: Operation, keys: NDArray[np.uint64], ring: RingPosition
    ) -> NDArray[np.bool_]:
        """Perform one `operation` on all `keys`, and return whether each is reported.

        Parameters as for `perform`; the result has shape (n,).
        """
        return self.perform(np.full(len(keys), operation, np.uint8), keys, ring) >= 0

    def _places(
        self, states: "_States", ring: RingPosition
    ) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Each segment of the ring, youngest to oldest, with the bits of the keys in it."""
        shared: dict[int, NDArray[np.intp]] = {}
        for index, segment in enumerate(ring.ring()):
            secret = ring.secret_of(index)
            if self._layout.hash.functions > 1:
                shared.clear()
            if secret not in shared:
                shared[secret] = self._layout.positions(states.under(secret), segment)
            yield segment, shared[secret]

    def _earlier(
        self, positions: NDArray[np.intp], inserts: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether an insertion before each operation sets each bit; all of shape (parts, n)."""
        order = np.arange(len(inserts), dtype=np.int32)
        setters = np.broadcast_to(order, positions.shape)
        self._first[positions] = len(inserts)
        if inserts.all():
            np.minimum.at(self._first, positions, setters)
        else:
            np.minimum.at(self._first, positions[:, inserts], setters[:, inserts])
        return self._first[positions] < order

    def _reduced(self, matches: NDArray[np.bool_]) -> Ages:
        """Reduce matches of shape (ring_segments, n), youngest first, to ages of shape (n,)."""
        starts = self._spec.window_generations + 1
        runs = matches[:starts].copy()
        for step in range(1, self._spec.run):
            runs &= matches[step : step + starts]
        return np.where(runs.any(axis=0), runs.argmax(axis=0), -1).astype(np.int64)

    def _turn(self, ring: RingPosition) -> None:
        ring.turn()
        self._memory[ring.spare] = False

    def _perform_chunk(
        self, codes: NDArray[np.uint8], states: "_States", ring: RingPosition
    ) -> Ages:
        queries = np.isin(codes, (Operation.QUERY, Operation.CHECK_AND_INSERT))
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        inserted = np.flatnonzero(inserts)
        controls = np.flatnonzero((codes == Operation.SHIFT) | (codes == Operation.CLEAR))
        ages = np.full(len(codes), -1, np.int64)
        start = 0
        while start < len(codes):
            if codes[start] == Operation.SHIFT:
                self._turn(ring)
            elif codes[start] == Operation.CLEAR:
                ring.restart()
                self._memory[:] = False
            if inserts[start] and ring.filled >= ring.length:
                # The operation's query still sees the old ring; its insertion does not.
                if queries[start]:
                    one = slice(start, start + 1)
                    self._stretch(states.part(one), queries[one], ~queries[one], ages[one], ring)
                    queries[start] = False
                self._turn(ring)
            stop = len(codes)
            ahead = int(np.searchsorted(inserted, start))
            full = ahead + ring.length - ring.filled
            if full < len(inserted):
                stop = int(inserted[full])
            control = np.searchsorted(controls, start, side="right")
            if control < len(controls):
                stop = min(stop, int(controls[control]))
            stop = max(stop, start + 1)
            span = slice(start, stop)
            self._stretch(states.part(span), queries[span], inserts[span], ages[span], ring)
            start = stop
        return ages

    def _stretch(
        self,
        states: "_States",
        queries: NDArray[np.bool_],
        inserts: NDArray[np.bool_],
        ages: Ages,
        ring: RingPosition,
    ) -> None:
        """Perform operations during which the ring does not turn."""
        asked = bool(queries.any())
        written = bool(inserts.any())
        matches = []
        for index, (segment, positions) in enumerate(self._places(states, ring)):
            memory = self._memory[segment]
            if written and index < self._spec.run:
                if asked:
                    before = self._earlier(positions, inserts)
                    before |= memory[positions]
                    matches.append(before.all(axis=0))
                memory[positions if inserts.all() else positions[:, inserts]] = True
            elif asked:
                matches.append(memory[positions].all(axis=0))
            else:
                break
        if asked:
            ages[queries] = self._reduced(np.array(matches))[queries]
        count = int(inserts.sum())
        ring.filled += count
        ring.insertions += count


class _States:
    """Hash states of keys under each required secret, computed once."""

    def __init__(self, key_hash: KeyHash, keys: NDArray[np.uint64]) -> None:
        self._hash = key_hash
        self._keys = keys
        self._known: dict[int, NDArray[np.uint64]] = {}
        self._span = slice(None)

    def part(self, span: slice) -> "_States":
        """Return the states of a part of the keys."""
        part = copy(self)
        part._span = span
        return part

    def under(self, secret: int) -> NDArray[np.uint64]:
        """Return the states under a secret, shape (n,)."""
        if secret not in self._known:
            self._known[secret] = self._hash.state(self._keys, secret)
        return self._known[secret][self._span]
