"""Chunks of keys, and parts of state files that several families share."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 15
"""Keys that are hashed at a time."""


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    """Cut `count` keys into chunks of at most `size` keys."""
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def unpacked(packed: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Return the `count` bits of a state file, shape (count,), packed 8 to a byte.

    Raises
    ------
    ValueError
        If `packed` is not an ndarray of uint8 with this number of bits, shape (bytes,).
    """
    if packed.dtype != np.uint8 or packed.shape != (-(-count // 8),):
        raise ValueError(f"bits: {packed.dtype} {packed.shape} do not fit the filter")
    return np.unpackbits(packed, count=count).view(np.bool_)


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse a `value` of a state file that is not an integer from `least` to `most`.

    Raises
    ------
    ValueError
        If the `value` is refused; the message contains the `name` of the number.
    """
    if type(value) is not int or value < least or (most is not None and value > most):
        raise ValueError(f"{name}: {value!r} does not fit the filter")
