"""Compiled loop over the insertions of the timing Bloom filters."""

import numpy as np

from ..compilation import jit

TIMESTAMP, FILLED, SWEPT_NEXT, WINDOW, BLOCK, LAST, SWEPT = range(7)
"""Place in the vector that carries the filter through the loop."""


@jit
def insert_keys(cells, indices, numbers, asks, seen):
    """Check and insert keys one after another, and sweep after each.

    Parameters
    ----------
    cells : ndarray of uint32, shape (cells,)
    indices : ndarray of intp, shape (hashes, n)
    numbers : ndarray of int64, shape (7,)
        Timestamp, insertions that have it and cell to be swept next, which are
        updated; window, block, last timestamp and number of cells that are swept.
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
