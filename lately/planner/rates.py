"""Bounds of the false-positive rates of many rings at once, for the search.

`FilterSpec.worst_false_positive_rate` decides; a bound only skips filters that the method would
reject.
"""

from math import comb

import numpy as np

from .cost import Floats, Ints
from .space import Shapes

_ROUNDING = 1e-15
"""Bound of the rounding error of one term of an alternating sum."""

_LEAST = 1e-300


def lower_bounds(shapes: Shapes, size: Ints) -> Floats:
    """Return lower bounds, except for rounding, of the rates of distinct keys before a shift.

    The `size` of each filter and the result have shape (n,). If a ring has at least `run` full
    segments, only full segments count. With F(t) the probability that a run ends with segment t or
    before, F(t) = F(t - 1) + (1 - F(t - k - 1)) (1 - p(t - k)) p(t - k + 1) ... p(t): the recursion
    of the APBF paper (section 5.3). The bound follows, as 1 - F(t - k - 1) is at least 1 - F(t -
    1). In a shorter ring, only the run of the oldest segments counts.
    """
    full = _segment_rates(shapes, size, shapes.run * shapes.generation)
    whole = full**shapes.run
    further = np.maximum(0, shapes.generations - shapes.run)
    with np.errstate(divide="ignore"):
        none = np.log1p(-whole) + further * np.log1p(-(1 - full) * whole)
    bounds = -np.expm1(none)
    short = np.flatnonzero(shapes.generations < shapes.run)
    bounds[short] = _oldest_run(shapes[short], size[short])
    return bounds


def _oldest_run(shapes: Shapes, size: Ints) -> Floats:
    """Return the probabilities that all segments of the oldest run match, shape (n,)."""
    product = np.ones(len(shapes))
    for place in range(int(shapes.run.max(initial=0))):
        load = np.minimum(shapes.generations + place + 1, shapes.run) * shapes.generation
        product *= np.where(place < shapes.run, _segment_rates(shapes, size, load), 1.0)
    return product


def log_rates(shapes: Shapes, size: Ints) -> Floats:
    """Return approximate logarithms of worst rates, for ordering; all blocks count as equally full.

    Parameters, result: as for `lower_bounds`.
    """
    load: Floats = (shapes.run * shapes.generation).astype(np.float64)
    load, cells = (load / size, shapes.block_cells) if shapes.blocked else (load, size)
    part = -np.expm1(load * np.log1p(-1 / np.maximum(cells, 2)))
    bits: Floats = (shapes.run * shapes.parts).astype(np.float64)
    return bits * np.log(np.maximum(part, _LEAST)) + np.log(shapes.generations + 1)


def _segment_rates(shapes: Shapes, size: Ints, load: Ints) -> Floats:
    """Return the probabilities that a segment with a `load` of keys matches, shape (n,)."""
    if not shapes.blocked:
        with np.errstate(divide="ignore"):
            return (-np.expm1(load * np.log1p(-1.0 / size))) ** shapes.parts
    # (1 - q**j)**b, expanded and averaged over binomial j.
    rates = np.zeros(len(shapes))
    kept = 1 - 1 / shapes.block_cells
    for parts in np.unique(shapes.parts):
        own = shapes.parts == parts
        total = np.zeros(int(own.sum()))
        for term in range(int(parts) + 1):
            share = 1 - kept[own] ** term
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.where(share > 0, load[own] * np.log1p(-share / size[own]), 0.0)
            total += comb(int(parts), term) * (-1) ** term * np.exp(logs)
        rates[own] = np.maximum(0.0, total - _ROUNDING * 2.0 ** int(parts))
    return rates
