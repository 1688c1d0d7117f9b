"""Bit array of the baselines, and checks of a state that was read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class BitArray:
    """Bits that are asked for and set in batches whose elements follow one another.

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


def packed(*bits: BitArray) -> NDArray[np.uint8]:
    """Return the bits of several arrays of one size, for a state file; shape (arrays, bytes)."""
    return np.packbits(np.stack([array.memory for array in bits]), axis=1)


def unpack(saved: NDArray[Any], *bits: BitArray) -> None:
    """Take the bits that `packed` returned.

    Parameters
    ----------
    saved : ndarray of uint8, shape (arrays, bytes)
    bits : BitArray
        Arrays that take them, in the order in which they were packed.

    Raises
    ------
    ValueError
        If they are not those of as many arrays of this size.
    """
    size = len(bits[0].memory)
    if saved.dtype != np.uint8 or saved.shape != (len(bits), -(-size // 8)):
        raise ValueError(f"bits of shape {saved.shape} do not fit {len(bits)} arrays of {size}")
    for array, row in zip(bits, np.unpackbits(saved, axis=1, count=size), strict=True):
        array.memory[:] = row


def saved_count(numbers: Mapping[str, Any], name: str, *, most: int | None = None) -> int:
    """Return a number of a state that was read.

    Raises
    ------
    KeyError
        If there is none of that name.
    ValueError
        If it is not an integer of 0 to `most`.
    """
    value = numbers[name]
    if type(value) is not int or value < 0 or (most is not None and value > most):
        raise ValueError(f"{name}: {value!r} does not fit the parameters")
    return value


def saved_array(
    arrays: Mapping[str, NDArray[Any]], name: str, like: NDArray[Any], *, most: int
) -> NDArray[Any]:
    """Return an array of unsigned integers of a state that was read.

    Raises
    ------
    KeyError
        If there is none of that name.
    ValueError
        If it has not the shape and type of `like`, or a value above `most`.
    """
    array = arrays[name]
    if array.shape != like.shape or array.dtype != like.dtype:
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape} does not fit the filter")
    if array.size and int(array.max()) > most:
        raise ValueError(f"{name}: {array.max()} is more than {most}")
    return array
