"""Compiled loop over the insertions of the timing Bloom filters."""

import numpy as np
from numpy.typing import NDArray

from ..compilation import jit

TIMESTAMP, FILLED, SWEPT_NEXT, WINDOW, BLOCK, LAST, SWEPT, NUMBERS = range(8)
"""Place in the vector that carries the filter through the loop; the last is its length."""


@jit
def insert_keys(cells, indices, numbers, asks, seen):
    """Check and insert keys one after another, and sweep after each.

    Parameters
    ----------
    cells : ndarray of uint32, shape (cells,)
    indices : ndarray of intp, shape (hashes, n)
    numbers : ndarray of int64, shape (7,)
        Timestamp, insertions that have it and cell to be swept next, which are
        moved; window, block, last timestamp and cells that are swept.
    asks : bool
        Whether `seen` is written.
    seen : ndarray of bool, shape (n,)
    """
    stamp, filled, swept = numbers[TIMESTAMP], numbers[FILLED], numbers[SWEPT_NEXT]
    block, last = numbers[BLOCK], numbers[LAST]
    # A timestamp is alive while its age in blocks, times the block, and what
    # the present block is filled with are below this (definition 9).
    limit = numbers[WINDOW] + block
    for i in range(indices.shape[1]):
        if asks:
            alive = True
            for part in range(len(indices)):
                touched = np.int64(cells[indices[part, i]])
                age = stamp - touched if stamp >= touched else stamp - touched + last + 1
                alive &= touched <= last and age * block + filled < limit
            seen[i] = alive
        for part in range(len(indices)):
            cells[indices[part, i]] = stamp
        filled += 1
        for _ in range(numbers[SWEPT]):
            touched = np.int64(cells[swept])
            age = stamp - touched if stamp >= touched else stamp - touched + last + 1
            if touched <= last and age * block + filled >= limit:
                cells[swept] = last + 1
            swept = swept + 1 if swept + 1 < len(cells) else 0
        if filled == block:
            filled = 0
            stamp = stamp + 1 if stamp < last else 0
    numbers[TIMESTAMP], numbers[FILLED], numbers[SWEPT_NEXT] = stamp, filled, swept


def numbers_of(
    *, insertions: int, window: int, block: int, cells: int, last: int, swept: int
) -> NDArray[np.int64]:
    """Return the vector that `insert_keys` takes.

    Parameters
    ----------
    insertions : int
        So far.
    window, block : int
        In insertions: to be remembered, and with one timestamp.
    cells : int
        Parameters of the filter.
    last : int
        Largest timestamp; 0 comes after it.
    swept : int
        Cells that are swept after each insertion.

    Returns
    -------
    ndarray of int64, shape (7,)
    """
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[TIMESTAMP] = insertions // block % (last + 1)
    numbers[FILLED] = insertions % block
    numbers[SWEPT_NEXT] = insertions * swept % cells
    numbers[WINDOW], numbers[BLOCK], numbers[LAST], numbers[SWEPT] = window, block, last, swept
    return numbers
