"""Formulas from the papers for filter sizes, false-positive rates, memory accesses and slack."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .errors import require

Floats = NDArray[np.float64]  # arrays of any shape


def require_counts(**values: int) -> None:
    """Require each value to be an integer of at least 1."""
    for name, value in values.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        require(whole and value >= 1, name, "must be an integer of at least 1", value)


def require_share(name: str, value: float) -> None:
    """Require a value to be between 0 and 1."""
    require(0 <= value <= 1, name, "must be between 0 and 1", value)


def _require_load(load: float) -> None:
    require(0 <= load < math.inf, "load", "must be at least 0 and finite", load)


def apbf_generation(slice_bits: int, k: int) -> int:
    """Generation length for which slices are half full: floor(m ln 2 / k) (APBF, section 5.2)."""
    require_counts(slice_bits=slice_bits, k=k)
    return max(1, math.floor(slice_bits * math.log(2) / k))


def apbbf_block_capacity(block_bits: int, hashes_per_block: int) -> float:
    """Number of insertions that half-fill a block: ln(1/2) / ln(1 - b/B) (APBF, section 6)."""
    require_counts(block_bits=block_bits, hashes_per_block=hashes_per_block)
    rule = f"must be below block_bits = {block_bits}"
    require(hashes_per_block < block_bits, "hashes_per_block", rule, hashes_per_block)
    return math.log(1 / 2) / math.log1p(-hashes_per_block / block_bits)


def apbbf_generation(blocks: int, block_bits: int, hashes_per_block: int, k: int) -> int:
    """Generation length for which blocks are half full (APBF, section 6)."""
    require_counts(blocks=blocks, k=k)
    return max(1, math.floor(blocks * apbbf_block_capacity(block_bits, hashes_per_block) / k))


def npws(k: int, l: int, survival: float) -> float:
    """Peak normalised probability-weighted slack, relative to the window (APBF, section 5.2)."""
    require_counts(k=k, l=l)
    # Keys of a slack generation are reported if all segments that they have lost match by chance,
    # with the probability `survival` each. An upper bound for l < k - 1.
    require_share("survival", survival)
    return float(sum(survival**i for i in range(k)) / l)


_NODES: Floats = np.stack(np.polynomial.legendre.leggauss(8), axis=1)
_SUMMED = 32  # largest generation for which the mean rate is a sum, not an integral


def segment_loads(run: int, window_generations: int, generation: int, phase: float) -> list[float]:
    """Number of distinct keys in each segment, youngest first (APBF, section 5.1).

    `phase` is the elapsed fraction of the current generation.
    """
    require_counts(run=run, window_generations=window_generations, generation=generation)
    require_share("phase", phase)
    filling = [float((i + phase) * generation) for i in range(run)]
    return filling + [float(run * generation)] * window_generations


def segment_false_positive_rate(load: float, *, blocks: int, cells: int, parts: int) -> float:
    """Probability that a new key matches a segment with `load` keys (APBF, sections 4.1 and 6)."""
    # A key picks a block, and a cell in each part; the number of keys in a block is binomial.
    _require_load(load)
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
    """Probability that a new key matches a segment with infinitely many blocks (APBF, section 6).

    `load` is the mean number of keys per block. The default is the number that half-fills a block.
    """
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    mean = capacity if load is None else load
    _require_load(mean)
    if mean == 0:
        return 0.0
    return _average(
        _likely_loads(mean, None),
        lambda j: np.log(mean / (j + 1)),
        block_bits / hashes_per_block,
        hashes_per_block,
    )


def mean_rate(rate: Callable[[float], float], generation: int) -> float:
    """Average `rate` over the insertions of a generation.

    The argument of `rate` is the phase, which is the elapsed fraction of the generation.
    """
    if generation <= _SUMMED:
        return sum(rate(i / generation) for i in range(1, generation + 1)) / generation
    # Gauss-Legendre quadrature, then the Euler-Maclaurin correction from integral to sum: half the
    # difference of the rates at the two ends.
    integral: float = sum(weight / 2 * rate((1 + point) / 2) for point, weight in _NODES.tolist())
    return integral + (rate(1.0) - rate(0.0)) / (2 * generation)


def window_rate(rate: Callable[[float], float], window: int, block: int) -> float:
    """Average `rate` over the insertions of a block.

    The argument of `rate` is the number of stored keys, from `window` to ``window + block - 1``.
    """
    return mean_rate(lambda phase: rate(window - 1 + phase * block), block)


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


def _likely_loads(mean: float, limit: int | None) -> Floats:
    # Farther from the mean than 40 standard deviations plus 300, weights are below 1e-300.
    width = 40 * math.sqrt(mean) + 300
    low = max(0, math.floor(mean - width))
    high = math.ceil(mean + width)
    return np.arange(low, (high if limit is None else min(high, limit)) + 1, dtype=np.float64)


def _average(
    loads: Floats, log_ratio: Callable[[Floats], Floats], cells: float, parts: int
) -> float:
    """Return the weighted mean of the match probability over `loads`.

    If w(j) is the weight of the load j, ``log_ratio(j)`` is log(w(j + 1) / w(j)).
    """
    log_weights = np.concatenate(([0.0], np.cumsum(log_ratio(loads[:-1]))))
    weights = np.exp(log_weights - log_weights.max())
    # Rounding can lift the average above 1.
    return min(1.0, float(weights @ _match(loads, cells, parts) / weights.sum()))


def _match(loads: Floats, cells: float, parts: int) -> Floats:
    if cells == 1:
        return (loads > 0).astype(np.float64)
    part: Floats = -np.expm1(loads * math.log1p(-1 / cells))
    return part**parts


PROFILES = ("exact", "linear")  # how `apbf_fills` fills the first k slices
CASES = ("window", "false positive", "false")  # kinds of query for `apbf_accesses`


def apbf_fills(k: int, l: int, *, profile: str = "exact") -> list[float]:
    """Fill ratios of the k + l slices just before a shift, youngest first (APBF, section 5.3)."""
    require_counts(k=k, l=l)
    require(profile in PROFILES, "profile", f"must be one of {', '.join(PROFILES)}", profile)
    if profile == "linear":
        filling = [(i + 1) / (2 * k) for i in range(k)]
    else:
        filling = [-math.expm1(-(i + 1) / k * math.log(2)) for i in range(k)]
    return filling + [1 / 2] * l


def apbbf_fills(k: int, l: int, block_bits: int, hashes_per_block: int) -> list[float]:
    """Match probability of each APBBF segment just before a shift (APBF, section 6)."""
    require_counts(k=k, l=l)
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    filling = [
        apbbf_block_false_positive_rate(block_bits, hashes_per_block, capacity * (i + 1) / k)
        for i in range(k)
    ]
    return filling + filling[-1:] * l


def apbf_false_positive_rate(
    k: int, l: int, *, fills: Sequence[float] | None = None, profile: str = "exact"
) -> float:
    """Probability of k consecutive matches in k + l segments: F(k, l, 0, 0) (APBF, section 5.3)."""
    rates = _fills(k, l, fills, profile)
    state = np.zeros(k + 1)
    state[0] = 1.0
    for fill in rates:
        missed = state[:k].sum() * (1 - fill)
        state[k] += state[k - 1] * fill
        state[1:k] = state[: k - 1] * fill
        state[0] = missed
    return float(state[k])


def apbf_accesses(
    k: int, l: int, case: str, *, fills: Sequence[float] | None = None, profile: str = "exact"
) -> float:
    """Expected number of segments that a backward query (Algorithm 1) reads (APBF, section 5.4)."""
    require(case in CASES, "case", f"must be one of {', '.join(CASES)}", case)
    rates = _fills(k, l, fills, profile)
    if case == "window":
        total = 0.0
        for generation in range(l):
            written = rates.copy()
            written[generation : generation + k] = 1.0
            total += _walk(k, l, written)[True][1]
        return total / l
    probability, accesses = _walk(k, l, rates)[case == "false positive"]
    require(probability > 0, "fills", f"must give {case!r} a probability above 0", probability)
    return accesses / probability


def _walk(k: int, l: int, rates: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return two pairs (p, p a), the first for the query result False, the second for True.

    Here p is the probability of the result, and a is the mean number of segments that a query with
    this result reads.
    """
    probability, accesses = np.zeros((2, l + 1, k))
    probability[l, 0] = 1.0
    count = np.arange(k)
    missed, reported = np.zeros((2, 2))
    for start in range(l, -1, -1):
        ratio = rates[start : start + k]
        reach = np.concatenate(([1.0], np.cumprod(ratio)))
        full = reach[k - count]
        reported[0] += probability[start] @ full
        reported[1] += (accesses[start] + probability[start] * (k - count)) @ full
        # A miss after c matches: possible while p + c < k.
        miss = reach[:k] * (1 - ratio)
        chance = miss * np.cumsum(probability[start])[::-1]
        spent = miss * np.cumsum(accesses[start])[::-1] + chance * (count + 1)
        ends = max(0, k - start)
        missed += chance[:ends].sum(), spent[:ends].sum()
        onward = count[ends:]
        probability[start + onward - k, onward] += chance[ends:]
        accesses[start + onward - k, onward] += spent[ends:]
    return (float(missed[0]), float(missed[1])), (float(reported[0]), float(reported[1]))


def _fills(k: int, l: int, fills: Sequence[float] | None, profile: str) -> Floats:
    require_counts(k=k, l=l)
    rates = np.array(
        apbf_fills(k, l, profile=profile) if fills is None else fills, dtype=np.float64
    )
    require(rates.shape == (k + l,), "fills", f"must have shape ({k + l},)", rates.shape)
    inside = (rates >= 0) & (rates <= 1)
    if not inside.all():
        require_share("fills", float(rates[~inside][0]))
    return rates


EPOCHS = range(1, 63)  # epochs tried; with guard and spare, a ring has at most 64 segments


def gebf_bits_per_key(rate: float, spare: int = 0) -> float:
    """Bits per key that a GEBF with a long window needs to meet `rate` just before a shift."""
    require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return min(
        -(1 + (1 + spare) / r) * math.log2(-math.expm1(math.log1p(-rate) / (r + 1))) / math.log(2)
        for r in EPOCHS
    )


def labelled_bits_per_key(rate: float) -> float:
    """Bits per key that a table of fingerprints with generation labels needs to meet `rate`."""
    require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return min((1 + 1 / r) * math.log2(math.e * (r + 1) / rate) for r in EPOCHS)


def bloom_accesses(k: int, case: str, fill: float = 1 / 2) -> float:
    """Expected number of slices that a query of a Bloom filter reads (APBF, section 4.2)."""
    require_counts(k=k)
    require(case in ("true", "false"), "case", "must be 'true' or 'false'", case)
    require_share("fill", fill)
    if case == "true":
        return float(k)
    require(fill < 1, "fill", "must be below 1 for the case 'false'", fill)
    first_miss = sum(i * fill ** (i - 1) * (1 - fill) for i in range(1, k + 1))
    return float(first_miss / (1 - fill**k))


def digest_false_positive_rate(window: int, digest_bits: int) -> float:
    """Probability that a new key has the same digest as one of `window` distinct keys."""
    require_counts(window=window, digest_bits=digest_bits)
    return -math.expm1(window * math.log1p(-(2.0**-digest_bits)))


def column_loads(window: int, *, columns: int, rows: int) -> list[float]:
    """Mean number of entries per row that reach each column during a window.

    The last element is the mean number of entries that reach the stash.
    """
    # A cell that x entries per window reach is free for a fraction 1 / (1 + x) of them (Erlang's
    # loss formula for one server), so x**2 / (1 + x) entries reach the next column.
    require_counts(window=window, columns=columns, rows=rows)
    loads = [window / rows]
    for _ in range(columns):
        loads.append(loads[-1] ** 2 / (1 + loads[-1]))
    return loads


def stashed_entries(window: int, *, columns: int, rows: int) -> float:
    return rows * column_loads(window, columns=columns, rows=rows)[-1]
