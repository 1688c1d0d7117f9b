"""Filters of the APBF paper's experiments, filled as its workloads fill them."""

import math
from bisect import bisect_left

import numpy as np

from lately.golden import APBF, analysis

from .paper import Paper
from .studies.streams import Keys, uniform

PAPER = Paper("apbf")
"""Age-Partitioned Bloom Filters (Shtul, Baquero and Almeida)."""

WINDOW = 1000
"""Windows of sections 5.6.1 and 5.6.2, in insertions."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def build(k: int, l: int, window: int, seed: int) -> APBF:
    """Return an APBF of the least size that guarantees a window, in insertions.

    Its generations have ceil(window / l) keys, and its slices as many bits as
    a half full one needs then (section 5.2).
    """
    generation = -(-window // l)
    slice_bits = math.ceil(generation * k / math.log(2))
    return APBF(k=k, l=l, slice_bits=slice_bits, generation=generation, seed=seed)


def distinct(start: int, count: int, seed: int) -> Keys:
    """Return the keys of numbers from `start` on, no two the same, shape (count,)."""
    return spread(np.arange(start, start + count, dtype=np.uint64), seed)


def spread(numbers: Keys, seed: int) -> Keys:
    """Map each number to a key of 64 bits of its own, shape (n,)."""
    offset = np.random.default_rng(seed).integers(0, 1 << 64, dtype=np.uint64)
    return np.asarray(numbers * _ODD + offset, np.uint64)


def universe(duplicates: float, window: int = WINDOW) -> int:
    """Number of keys of which uniform draws have a rate of duplicates (section 5.6.2).

    That is 1 minus the share of different keys in W consecutive draws, of which
    U (1 - (1 - 1/U)^W) are expected to be unique; the rate is above 0 and below 1, W = `window`.
    """
    least = (1 - duplicates) * window
    return bisect_left(range(window**3), least, lo=2, key=lambda keys: unique(keys, window))


def unique(universe: float, draws: float) -> float:
    """Expected number of different keys of U > 1 among uniform draws: U (1 - (1 - 1/U)^W)."""
    return -universe * math.expm1(draws * math.log1p(-1 / universe))


def zipf_universe(duplicates: float, window: int = WINDOW) -> int:
    """Number of keys of which draws after Zipf, z = 1, have a rate of duplicates.

    The rate is that of `universe`, and below that of all `window` squared keys.
    """
    weights = 1 / np.arange(1, window**2 + 1)
    sums = np.cumsum(weights)

    def unique(keys: int) -> float:
        chances = weights[:keys] / sums[keys - 1]
        return float(-np.expm1(window * np.log1p(-chances)).sum())

    least = (1 - duplicates) * window
    return bisect_left(range(len(weights)), least, lo=2, key=unique)


def stream(duplicates: float, count: int, seed: int) -> Keys:
    """Return keys with a rate of duplicates in each window, shape (count,)."""
    if not duplicates:
        return distinct(0, count, seed)
    return spread(uniform(count, universe(duplicates), seed), seed)


def expected_rate(k: int, l: int, window: int, duplicates: float) -> float:
    """False-positive rate just before a shift, of the mean fill ratios under duplication.

    Slice i holds the different keys of its generations, of which there are
    i + 1, and k from slice k - 1 on.
    """
    generation = -(-window // l)
    slice_bits = math.ceil(generation * k / math.log(2))
    keys = [generation * (i + 1.0) for i in range(k)] + [float(k * generation)] * l
    if duplicates:
        keys = [unique(universe(duplicates), count) for count in keys]
    fills = [-math.expm1(count * math.log1p(-1 / slice_bits)) for count in keys]
    return analysis.apbf_false_positive_rate(k, l, fills=fills)
