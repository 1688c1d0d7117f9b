"""Loads of segments, and the probability that a fresh key matches one."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from .capacity import apbbf_block_capacity
from .rules import Floats, require_counts, require_load, require_share

_SUMMED = 32
"""Insertions of a generation up to which the mean rate is a sum and not an integral."""


def segment_loads(run: int, window_generations: int, generation: int, phase: float) -> list[float]:
    """Distinct keys inserted in each segment, youngest first (APBF, section 5.1).

    There are run + window_generations loads, in keys: (i + phase) generations in
    segment i < run, and run generations in the others.

    Parameters
    ----------
    run : int
        Segments that an insertion writes: k of an APBF, 1 of a GEBF.
    window_generations : int
        l of an APBF, r of a GEBF.
    generation : int
        Insertions between two shifts, every one of a new key.
    phase : float
        Share of the current generation that has been inserted, 0 to 1.
    """
    require_counts(run=run, window_generations=window_generations, generation=generation)
    require_share("phase", phase)
    filling = [float((i + phase) * generation) for i in range(run)]
    return filling + [float(run * generation)] * window_generations


def segment_false_positive_rate(load: float, *, blocks: int, cells: int, parts: int) -> float:
    """Probability that a fresh key matches a segment (APBF, sections 4.1 and 6).

    A key picks one of the blocks uniformly, and one cell in each part of that
    block. The number of keys in a block is binomial, and the parts of a block
    with j keys match independently, each with probability 1 - (1 - 1/cells)^j.
    One block is the plain partitioned Bloom filter.

    Parameters
    ----------
    load : float
        Distinct keys inserted in the segment. Between two integers the rate
        is interpolated linearly; at an integer it is exact to rounding.
    blocks, cells, parts : int
        Blocks of the segment, bits of one part of one block, and parts of a
        block: bits that a key sets.
    """
    require_load(load)
    require_counts(blocks=blocks, cells=cells, parts=parts)
    whole = math.floor(load)
    rate = _binomial_rate(whole, blocks, cells, parts)
    if whole == load:
        return rate
    above = _binomial_rate(whole + 1, blocks, cells, parts)
    return min(1.0, float(rate + (load - whole) * (above - rate)))


def apbbf_block_false_positive_rate(
    block_bits: int, hashes_per_block: int, load: float | None = None
) -> float:
    """Probability that a fresh key matches a segment of very many blocks (APBF, section 6).

    The limit of `segment_false_positive_rate`: the number of keys in a block is
    Poisson-distributed. The `load` is its mean, by default the mean of a full block,
    `apbbf_block_capacity`; B need not be a multiple of b.
    """
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    mean = capacity if load is None else load
    require_load(mean)
    if mean == 0:
        return 0.0
    return _average(
        _likely_loads(mean, None),
        lambda j: np.log(mean / (j + 1)),
        block_bits / hashes_per_block,
        hashes_per_block,
    )


def mean_rate(rate: Callable[[float], float], generation: int) -> float:
    """Average a rate over the phases that queries meet after each insertion of a generation.

    A shift occurs at the first insertion of the next generation, so no query sees an empty
    generation. The `rate` takes a phase as in `segment_loads`, in which it is smooth; `generation`
    is its number of insertions.
    """
    if generation <= _SUMMED:
        return sum(rate(i / generation) for i in range(1, generation + 1)) / generation
    # Gauss-Legendre, then Euler-Maclaurin: the sum adds half the difference of the ends.
    integral = sum(weight / 2 * rate((1 + point) / 2) for point, weight in _nodes())
    return integral + (rate(1.0) - rate(0.0)) / (2 * generation)


def window_rate(rate: Callable[[float], float], window: int, block: int) -> float:
    """Average a rate over the insertions of a block; a block leaves the window all at once.

    The `rate` takes the number of keys that are reported: the window, and the rest of its oldest
    block.
    """
    return mean_rate(lambda phase: rate(window - 1 + phase * block), block)


@cache
def _nodes() -> list[tuple[float, float]]:
    points, weights = np.polynomial.legendre.leggauss(8)
    return list(zip(points.tolist(), weights.tolist(), strict=True))


def _binomial_rate(load: int, blocks: int, cells: int, parts: int) -> float:
    if blocks == 1:
        return float(_match(np.array([float(load)]), cells, parts)[0])
    odds = math.log(blocks - 1)
    return _average(
        _likely_loads(load / blocks, load),
        lambda j: np.log((load - j) / (j + 1)) - odds,
        cells,
        parts,
    )


def _likely_loads(mean: float, most: int | None) -> Floats:
    # Beyond 40 deviations and 300 the weights are below 1e-300.
    width = 40 * math.sqrt(mean) + 300
    low = max(0, math.floor(mean - width))
    high = math.ceil(mean + width)
    return np.arange(low, (high if most is None else min(high, most)) + 1, dtype=np.float64)


def _average(
    loads: Floats, log_ratio: Callable[[Floats], Floats], cells: float, parts: int
) -> float:
    """Average the match probability, given the log of each load's weight over the one before."""
    log_weights = np.concatenate(([0.0], np.cumsum(log_ratio(loads[:-1]))))
    weights = np.exp(log_weights - log_weights.max())
    # Rounding can lead past the average's bound.
    return min(1.0, float(weights @ _match(loads, cells, parts) / weights.sum()))


def _match(loads: Floats, cells: float, parts: int) -> Floats:
    if cells == 1:
        return (loads > 0).astype(np.float64)
    part: Floats = -np.expm1(loads * math.log1p(-1 / cells))
    return part**parts
