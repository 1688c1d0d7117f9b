"""Streams of keys that the papers measure on, drawn from a seed."""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
"""Keys in the order of their insertion, shape (n,)."""


def uniform(count: int, universe: int, seed: int) -> Keys:
    """Draw `count` keys of ``range(universe)``, each as likely, shape (count,)."""
    return np.random.default_rng(seed).integers(0, universe, count, np.uint64)


def zipf(count: int, universe: int, z: float, seed: int) -> Keys:
    """Draw `count` keys of ``range(universe)``; the i-th is as likely as ``(i + 1)**-z``.

    Exact for any ``z >= 0``: 0 is uniform. Shape (count,).
    """
    weights = np.arange(1, universe + 1, dtype=np.float64) ** -z
    bounds = np.cumsum(weights)
    draws = np.random.default_rng(seed).random(count) * bounds[-1]
    return np.minimum(np.searchsorted(bounds, draws, side="right"), universe - 1).astype(np.uint64)


def bursty(count: int, universe: int, *, length: int, hot: int, share: float, seed: int) -> Keys:
    """Draw keys of ``range(universe)`` whose favourites change from stretch to stretch.

    Each stretch of `length` keys has `hot` keys of its own. With probability
    `share` the next key is one of these, and else any, uniformly. Shape (count,).
    """
    rng = np.random.default_rng(seed)
    stretches = -(-count // length)
    favourites = rng.integers(0, universe, (stretches, hot), np.uint64)
    chosen = favourites[np.arange(count) // length, rng.integers(0, hot, count)]
    return np.where(rng.random(count) < share, chosen, rng.integers(0, universe, count, np.uint64))
