"""Sizes of timing Bloom filters for a window and a false-positive rate."""

from functools import lru_cache

from ..sizing import HASHES, shared_cells


@lru_cache
def timing_sizes(window: int, fpr: float, block: int = 1) -> dict[str, int]:
    """Return window, cells and hashes of the filter of fewest bits.

    Parameters
    ----------
    window : int
        Insertions.
    fpr : float
        Rate when the window and all but one insertion of a block are full of distinct keys.
    block : int
        Insertions that share a timestamp.
    """
    found = []
    for hashes in HASHES:
        cells = shared_cells(window + block - 1, fpr, hashes)
        timestamps = -(-window // block) + 2 + cells // (hashes * block)
        found.append((cells * timestamps.bit_length(), cells, hashes))
    _, cells, hashes = min(found)
    return {"window": window, "cells": cells, "hashes": hashes}
