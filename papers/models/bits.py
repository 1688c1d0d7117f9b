"""Base classes of the baselines, which process one key at a time on an array of bits or cells."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.filter import CountedFilter, State, Words
from lately.golden.results import Ages
from lately.golden.sampling import chunks, sample

_CHUNK = 1 << 15


class KeyByKey(CountedFilter):
    """Base class of baselines; a key maps to positions, which subclasses read and write."""

    _counts: ClassVar[dict[str, int | str | None]] = {"insertions": 1 << 61}

    hashes: int
    insertions: int  # since construction or clear

    @abstractmethod
    def _look(self, positions: list[int]) -> int:
        """Return the age of a key with these positions, or -1 if it is not reported."""

    @abstractmethod
    def _write(self, positions: list[int]) -> None:
        """Insert a key with these positions."""

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        return np.stack(self._hash.indices(self._hash.state(keys), 0), axis=1)

    def _perform_each(self, keys: Words, *, asked: bool, inserted: bool) -> Ages:
        ages = []
        for part in chunks(len(keys), _CHUNK):
            for positions in self._positions(keys[part]).tolist():
                ages.append(self._look(positions) if asked else -1)
                if inserted:
                    self._write(positions)
                    self.insertions += 1
        return np.array(ages, np.int64)

    def _insert(self, keys: Words) -> None:
        self._perform_each(keys, asked=False, inserted=True)

    def _age(self, keys: Words) -> Ages:
        return self._perform_each(keys, asked=True, inserted=False)

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._perform_each(keys, asked=True, inserted=True)


class BitArrays(KeyByKey):
    """Base class of baselines with equal bit arrays; a bit takes one byte, for speed."""

    _shape: tuple[int, int]
    _segments: list[bytearray]

    @property
    def storage_bits(self) -> int:
        return self._shape[0] * self._shape[1]

    @property
    def memory(self) -> NDArray[np.bool_]:
        return self._stacked()

    @property
    def fill(self) -> float:
        return float(np.mean([sample(_view(bits)).mean() for bits in self._segments]))

    @property
    def nbytes(self) -> int:
        return sum(map(len, self._segments))

    def _empty(self) -> None:
        count, size = self._shape
        self._segments = [bytearray(size) for _ in range(count)]
        for name in self._counts:
            setattr(self, name, 0)

    def _state(self) -> State:
        return super()._state()[0], {"bits": np.packbits(self._stacked(), axis=1)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        saved, (count, size) = arrays["bits"], self._shape
        if saved.dtype != np.uint8 or saved.shape != (count, -(-size // 8)):
            raise ValueError(f"bits of shape {saved.shape} do not fit {count} arrays of {size}")
        rows = np.unpackbits(saved, axis=1, count=size)
        self._segments = [bytearray(row.tobytes()) for row in rows]

    def _stacked(self) -> NDArray[np.bool_]:
        return np.stack([_view(bits) for bits in self._segments])


def _view(bits: bytearray) -> NDArray[np.bool_]:
    return np.frombuffer(bits, np.bool_)


def match(bits: bytearray, positions: list[int]) -> bool:
    return all(map(bits.__getitem__, positions))


def write(bits: bytearray, positions: list[int]) -> None:
    for position in positions:
        bits[position] = 1


class ByteCells(KeyByKey):
    """Base class of baselines with one-byte cells; a key is reported if none of its cells is 0."""

    _cells: bytearray
    _max: int

    @property
    def memory(self) -> NDArray[np.uint8]:
        return np.array(self._view())

    @property
    def fill(self) -> float:
        cells = sample(self._view())
        return np.count_nonzero(cells) / len(cells)

    def _view(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._cells, np.uint8)

    def _look(self, positions: list[int]) -> int:
        return match(self._cells, positions) - 1


def ring_order(buffer: NDArray[np.uint64], written: int) -> NDArray[np.uint64]:
    if written < len(buffer):
        return buffer[:written].copy()
    return np.roll(buffer, -(written % len(buffer)), axis=0)
