"""Bit array of the baselines, and their state."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.convenience import State
from lately.golden.filter import Answers, CountedFilter, Words
from lately.golden.sampling import sample


class BitArray:
    """Bits that are read and set in batches whose elements follow one another.

    Parameters
    ----------
    size : int
        Number of bits.

    Attributes
    ----------
    memory : ndarray of bool, shape (size,)
    """

    def __init__(self, size: int) -> None:
        self.memory = np.zeros(size, np.bool_)
        self._first = np.zeros(size, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, scratch included."""
        return self.memory.nbytes + self._first.nbytes

    def match(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether all bits of each row of `positions`, shape (n, hashes), are set; shape (n,)."""
        return np.asarray(self.memory[positions].all(axis=1))

    def match_and_write(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Match each row, then write it, row after row; shapes as for `match`."""
        matches = self.overlay(positions)
        self.write(positions)
        return matches

    def write(self, positions: NDArray[np.intp]) -> None:
        """Set the bits at `positions`, of any shape."""
        self.memory[positions] = True

    def overlay(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether all bits of each row are set, if every row before it had been written.

        Writes nothing. Shapes as for `match`.
        """
        rows = np.broadcast_to(np.arange(len(positions), dtype=np.int32)[:, None], positions.shape)
        self._first[positions] = len(positions)
        np.minimum.at(self._first, positions.ravel(), rows.ravel())
        before = self.memory[positions] | (self._first[positions] < rows)
        return np.asarray(before.all(axis=1))

    def clear(self) -> None:
        """Reset all bits."""
        self.memory[:] = False


class Baseline(CountedFilter):
    """Base of the baselines.

    Attributes
    ----------
    insertions : int
        Insertions since construction or clear.
    """

    _counts: ClassVar[dict[str, int | str | None]] = {"insertions": 1 << 61}

    hashes: int
    insertions: int

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        """Return the indices that the hash functions give for keys, shape (n, hashes)."""
        return np.stack(self._hash.indices(self._hash.state(keys), 0), axis=1)


class BitArrays(Baseline):
    """Base of the baselines whose memory is one or several bit arrays of one size."""

    _segments: list[BitArray]

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of the arrays in their order, shape (arrays, bits)."""
        return np.stack([array.memory for array in self._segments])

    @property
    def fill(self) -> float:
        """Share of the bits that are set."""
        return float(np.mean([sample(array.memory).mean() for array in self._segments]))

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take in this process."""
        return sum(array.nbytes for array in self._segments)

    def _empty(self) -> None:
        for array in self._segments:
            array.clear()
        for name in self._counts:
            setattr(self, name, 0)

    def _state(self) -> State:
        stacked = np.stack([array.memory for array in self._segments])
        return super()._state()[0], {"bits": np.packbits(stacked, axis=1)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        saved, count, size = arrays["bits"], len(self._segments), len(self._segments[0].memory)
        if saved.dtype != np.uint8 or saved.shape != (count, -(-size // 8)):
            raise ValueError(f"bits of shape {saved.shape} do not fit {count} arrays of {size}")
        rows = np.unpackbits(saved, axis=1, count=size)
        for array, row in zip(self._segments, rows, strict=True):
            array.memory[:] = row


class ByteCells(Baseline):
    """Base of the baselines whose memory is cells of a byte each; a key of which none is 0 is seen.

    The cells are in a bytearray, which Python's loops read faster than an array.
    """

    _cells: bytearray
    _most: int

    @property
    def memory(self) -> NDArray[np.uint8]:
        """Values of the cells; shape (cells,)."""
        return np.array(self._view())

    @property
    def fill(self) -> float:
        """Share of the cells that are not 0."""
        cells = sample(self._view())
        return np.count_nonzero(cells) / len(cells)

    def _view(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._cells, np.uint8)

    def _query(self, keys: Words) -> Answers:
        return np.asarray((self._view()[self._positions(keys)] > 0).all(axis=1))

    def _check_and_insert(self, keys: Words) -> Answers:
        return self._insert(keys, asked=True)

    @abstractmethod
    def _insert(self, keys: Words, *, asked: bool = False) -> Answers:
        """Insert keys; return the answers before each insertion, if requested."""


def ring_order(buffer: NDArray[np.uint64], written: int) -> NDArray[np.uint64]:
    """Return the entries of a cyclic buffer, shape (size, ...), oldest first.

    After `written` entries it holds min(written, size) of them.
    """
    if written < len(buffer):
        return buffer[:written].copy()
    return np.roll(buffer, -(written % len(buffer)), axis=0)


def append(buffer: NDArray[np.uint64], written: int, entries: NDArray[np.uint64]) -> int:
    """Write entries, shape (n, ...), into a cyclic buffer of shape (size, ...).

    Takes and returns how many were ever `written`.
    """
    count = written + len(entries)
    last = entries[-len(buffer) :]
    buffer[np.arange(count - len(last), count) % len(buffer)] = last
    return count
