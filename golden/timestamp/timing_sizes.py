"""Sizes of timing Bloom filters for a window and a false-positive rate."""

from collections.abc import Callable
from functools import lru_cache

from ..analysis import window_rate
from ..sizing import HASHES, bloom_rate, shared_cells, smallest


def timing_bits(window: int, cells: int, hashes: int, block: int) -> int:
    """Return the bits of all cells with the paper's padding."""
    expired = -(-window // block) + 1 + -(-cells // (hashes * block))
    return cells * expired.bit_length()


def block_cells(
    window: int, block: int, fpr: float, hashes: int, rate: Callable[[float, int, int], float]
) -> int:
    """Return the fewest cells whose mean rate over a block is at most `fpr`.

    The `rate` takes load, cells and hash functions, as `bloom_rate` does. Other parameters: as for
    `timing_sizes`.
    """

    def keeps(cells: int) -> bool:
        return (
            cells > 1 and window_rate(lambda load: rate(load, cells, hashes), window, block) <= fpr
        )

    return smallest(keeps, shared_cells(window + block // 2, fpr, hashes))


@lru_cache
def timing_sizes(window: int, fpr: float, block: int = 1) -> dict[str, int]:
    """Return window, cells and hashes of the filter with the fewest bits.

    Parameters
    ----------
    window, block : int
        As for `BlockTimingBloomFilter`.
    fpr : float
        Mean rate while the window is full of distinct keys.
    """
    found = []
    for hashes in HASHES:
        cells = block_cells(window, block, fpr, hashes, bloom_rate)
        found.append((timing_bits(window, cells, hashes, block), hashes, cells))
    _, hashes, cells = min(found)
    return {"window": window, "cells": cells, "hashes": hashes}
