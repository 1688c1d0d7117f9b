"""False-positive rates of many filters at once, to search by.

What is chosen is judged by `FilterSpec.worst_false_positive_rate`; here the
same figure is computed quickly, and never by more than rounding too high.
"""

from math import comb

import numpy as np
from numpy.typing import NDArray

from .space import Ints, Shapes

Floats = NDArray[np.float64]
"""Numbers of many filters, shape (n,)."""

_ROUNDING = 1e-15
"""Bound of what rounding adds to one term of an alternating sum."""

_LEAST = 1e-300


def keeps(shapes: Shapes, size: Ints, limit: float) -> NDArray[np.bool_]:
    """Tell which filters have a worst rate of `limit` at most, shape (n,), as `worst_rates`."""
    full = _segment_rates(shapes, size, shapes.run * shapes.generation)
    kept = _lower_bound(shapes, full) <= limit
    sure = _upper_bound(shapes, full) <= limit
    open_ = np.flatnonzero(kept & ~sure)
    if len(open_):
        kept[open_] = worst_rates(shapes[open_], size[open_]) <= limit
    return kept


def _lower_bound(shapes: Shapes, full: Floats) -> Floats:
    """Bound the rate by that of the full segments alone.

    This follows from the recursion in `_run_rates`, as 1 - F(t - k - 1) is at least 1 - F(t - 1).
    """
    whole = full**shapes.run
    further = np.maximum(0, shapes.generations - shapes.run)
    with np.errstate(divide="ignore"):
        none = np.log1p(-whole) + further * np.log1p(-(1 - full) * whole)
    return np.where(shapes.generations >= shapes.run, -np.expm1(none), 0.0)


def _upper_bound(shapes: Shapes, full: Floats) -> Floats:
    """Add up the probabilities that a run starts at a place, each in segments that are full.

    A run that starts after a full segment needs that to miss.
    """
    after_filling = np.minimum(shapes.run, shapes.generations)
    after_full = np.maximum(0, shapes.generations - shapes.run)
    return full**shapes.run * (1 + after_filling + after_full * (1 - full))


def worst_rates(shapes: Shapes, size: Ints) -> Floats:
    """Return rates just before a shift, keys distinct, each at most the true one but for rounding.

    The `size` of each filter and the result have shape (n,).
    """
    full = _segment_rates(shapes, size, shapes.run * shapes.generation)
    if (shapes.run == 1).all():
        with np.errstate(divide="ignore"):
            return -np.expm1(shapes.ring_segments * np.log1p(-full))
    return _run_rates(shapes, size, full)


def log_rates(shapes: Shapes, size: Ints) -> Floats:
    """Return about the logarithms of worst rates, to order by: blocks are taken as equally full.

    Parameters, result: as for `worst_rates`.
    """
    load: Floats = (shapes.run * shapes.generation).astype(np.float64)
    load, cells = (load / size, shapes.block_cells) if shapes.blocked else (load, size)
    part = -np.expm1(load * np.log1p(-1 / np.maximum(cells, 2)))
    bits: Floats = (shapes.run * shapes.parts).astype(np.float64)
    return bits * np.log(np.maximum(part, _LEAST)) + np.log(shapes.generations + 1)


def _segment_rates(shapes: Shapes, size: Ints, load: Ints) -> Floats:
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


def _run_rates(shapes: Shapes, size: Ints, full: Floats) -> Floats:
    """Probability that some run matches.

    With F(t) the probability that a run ends with segment t or before,
    F(t) = F(t - 1) + (1 - F(t - k - 1)) (1 - p(t - k)) p(t - k + 1) ... p(t):
    the recursion of the APBF paper (section 5.3), by where the first run ends.
    """
    order = np.argsort(-shapes.ring_segments, kind="stable")
    shapes, size, full = shapes[order], size[order], full[order]
    run, ring = shapes.run, shapes.ring_segments
    filling = _filling(shapes, size, full)
    done = np.zeros((int(ring.max()) + 1, len(shapes)))
    columns = np.arange(len(shapes))
    longest = filling.shape[0]
    # Logarithms of the products of the match probabilities so far.
    product = np.zeros((longest + 1, len(shapes)))
    # No segment is quite empty; a floor keeps the differences of logarithms finite.
    np.cumsum(np.log(np.maximum(filling, _LEAST)), axis=0, out=product[1:])
    log_full = np.log(np.maximum(full, _LEAST))
    before = np.vstack((np.ones(len(shapes)), 1 - filling))
    # That a run ends with a segment and none before it, where all of them are full.
    steady = np.exp(run * log_full) * (1 - full)
    for last in range(1, len(done)):
        alive = int(np.searchsorted(-ring, -last, side="right"))
        now, k = columns[:alive], run[:alive]
        start = last - k
        if last >= 2 * longest:
            free = 1 - done[start - 1, now]
            done[last, :alive] = done[last - 1, :alive] + steady[:alive] * free
            continue
        reached = start >= 0
        begin = np.maximum(start, 0)
        product_to = product[np.minimum(last, longest), now] + log_full[:alive] * max(
            0, last - longest
        )
        beyond = np.maximum(0, begin - longest)
        product_from = product[np.minimum(begin, longest), now] + log_full[:alive] * beyond
        miss = np.where(begin <= longest, before[np.minimum(begin, longest), now], 1 - full[:alive])
        ends = np.where(reached, np.exp(product_to - product_from), 0.0)
        free = 1 - np.where(begin > 0, done[np.maximum(begin - 1, 0), now], 0.0)
        done[last, :alive] = done[last - 1, :alive] + ends * miss * free
    return done[ring, columns][np.argsort(order)]


def _filling(shapes: Shapes, size: Ints, full: Floats) -> Floats:
    """Match probabilities of the youngest segments, shape (longest run, n), oldest row full."""
    rows = []
    for place in range(int(shapes.run.max())):
        load = np.minimum(place + 1, shapes.run) * shapes.generation
        young = place + 1 < shapes.run
        row = full.copy()
        if young.any():
            row[young] = _segment_rates(shapes[young], size[young], load[young])
        rows.append(row)
    return np.array(rows)
