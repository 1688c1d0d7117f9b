"""Streams of keys that the papers measure on, drawn from a seed, and the real ones."""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]


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
