"""Search and update of slices of bits, chunk by chunk of keys."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 15
"""Keys that are hashed at a time."""


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    """Cut `count` keys into chunks of at most `size` keys."""
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def find_runs(matches: Iterable[NDArray[np.bool_]], k: int, count: int) -> NDArray[np.int64]:
    """Find the first run of `k` consecutive slices that each key matches (APBF, section 5.1).

    The `matches`, ndarrays of bool of shape (count,), hold one slice each, youngest first. The
    result of shape (count,) holds the youngest slice of each run; -1 if there is none.
    """
    found = np.full(count, -1, np.int64)
    run = np.zeros(count, np.int64)
    for last, match in enumerate(matches):
        run += 1
        run *= match
        found[(run >= k) & (found < 0)] = last - k + 1
    return found


def test_and_set(bits: NDArray[np.bool_], positions: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Set the bits at `positions` one after another; return whether each was set before.

    Both the positions and the result have shape (n,); `bits`, of shape (m,), is changed.
    """
    before = bits[positions]
    order = np.arange(len(positions))
    first = np.empty(len(bits), np.intp)
    # The last assignment to a place stays; in reverse order this is the earliest.
    first[positions[::-1]] = order[::-1]
    before |= first[positions] < order
    bits[positions] = True
    return before


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
