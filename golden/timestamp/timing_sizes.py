"""Sizes of timing Bloom filters for a window and a false-positive rate."""

from functools import lru_cache

from ..sizing import HASHES, shared_cells


def timing_bits(window: int, cells: int, hashes: int, block: int = 1) -> int:
    """Return the bits of all cells with the paper's padding; as for `BlockTimingBloomFilter`."""
    expired = -(-window // block) + 1 + -(-cells // (hashes * block))
    return cells * expired.bit_length()


@lru_cache
def timing_sizes(window: int, fpr: float, block: int = 1) -> dict[str, int]:
    """Return window, cells and hashes of the filter of fewest bits.

    Parameters
    ----------
    window, block : int
        As for `BlockTimingBloomFilter`.
    fpr : float
        Rate when the window and all but one insertion of a block are full of distinct keys.
    """
    found = []
    for hashes in HASHES:
        cells = shared_cells(window + block - 1, fpr, hashes)
        found.append((timing_bits(window, cells, hashes, block), hashes, cells))
    _, hashes, cells = min(found)
    return {"window": window, "cells": cells, "hashes": hashes}
