"""False-positive rates and accesses of age-partitioned filters."""

import math
from collections.abc import Sequence

import numpy as np

from .capacity import apbbf_block_capacity, apbbf_relative_capacity, apbf_npws, npws
from .rules import Floats, require, require_counts, require_share
from .segment_rates import apbbf_block_false_positive_rate

PROFILES = ("exact", "linear")
"""Fill ratios of the first k slices that are known by name; see `apbf_fills`."""

CASES = ("window", "false positive", "false")
"""Kinds of query that `apbf_accesses` distinguishes."""


def apbf_fills(k: int, l: int, *, profile: str = "exact") -> list[float]:
    """Fill ratios of the k + l slices just before a shift, youngest first (APBF, section 5.3).

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes (slices of an APBF), and generations in the window.
    profile : str
        'linear' takes (i + 1) / (2k) for the slices s_i, i < k, as the paper
        does. 'exact' takes 1 - 2^(-(i + 1) / k), the fill after generations of floor(m ln 2 / k)
        keys. It is larger, and agrees with measured filters. The other slices are half full.
    """
    require_counts(k=k, l=l)
    require(profile in PROFILES, "profile", f"must be one of {', '.join(PROFILES)}", profile)
    if profile == "linear":
        filling = [(i + 1) / (2 * k) for i in range(k)]
    else:
        filling = [-math.expm1(-(i + 1) / k * math.log(2)) for i in range(k)]
    return filling + [1 / 2] * l


def apbbf_fills(k: int, l: int, block_bits: int, hashes_per_block: int) -> list[float]:
    """Match probabilities of the segments of an APBBF just before a shift, youngest first.

    The false-positive rate of the blocks replaces the fill ratio (APBF, section 6). The load of
    segment i < k is (i + 1) / k of the load of a full segment. The list has k + l probabilities.
    """
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
    """Probability of k consecutive matches among k + l segments: F(k, l, 0, 0) (APBF, section 5.3).

    The recursion runs forwards over the segments. Its state is the distribution of the run of
    matches that ends just before a segment. For k = 1 it is 1 minus the product of the misses.

    Parameters
    ----------
    k, l, profile
        As for `apbf_fills`.
    fills : sequence of float, shape (k + l,), optional
        Probability that a segment matches, youngest first. By default
        `apbf_fills`: the worst case, just before a shift.
    """
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
    """Return the expected segment accesses of Algorithm 1, the backward query (APBF, section 5.4).

    Parameters
    ----------
    k, l, fills, profile
        As for `apbf_false_positive_rate`.
    case : str
        'false': a fresh key, given that it is not reported. 'false positive':
        a fresh key, given that it is reported. 'window': a key of the window,
        averaged over the l generations to which it may belong. With the j-th
        youngest of them, 0 <= j < l, segments j to j + k - 1 are certain to match,
        and the other segments match with their fill ratio. (Generation l is reported just
        before a shift as well, but it is the first of the slack.)
    """
    require(case in CASES, "case", f"must be one of {', '.join(CASES)}", case)
    rates = _fills(k, l, fills, profile)
    if case == "window":
        return _window_accesses(k, l, rates)
    probability, accesses = _walk(k, l, rates)[case == "false positive"]
    require(probability > 0, "fills", f"must give {case!r} a probability above 0", probability)
    return accesses / probability


def apbf_efficiency(k: int, l: int, bloom_k: float) -> float:
    """Memory of a Bloom filter over the memory of an APBF, same window (APBF, section 5.5).

    It is (bloom_k / k) l / (k + l), without unit. `bloom_k` is the number of slices
    of the Bloom filter with the same false-positive rate. Table 2 takes
    log2(1 / rate) of the APBF's own rate, not rounded up to a whole number.
    """
    require_counts(k=k, l=l)
    require(0 < bloom_k < math.inf, "bloom_k", "must be above 0 and finite", bloom_k)
    return float(bloom_k / k * l / (k + l))


def apbf_metrics(k: int, l: int, *, profile: str = "exact") -> dict[str, float]:
    """Row of Table 2 of the APBF paper, by column name; 'linear' gives the figures as printed.

    The columns are ``actual_fp``, ``efficiency``, ``accesses_window``,
    ``accesses_fp``, ``accesses_false`` and ``npws``.
    """
    rate = apbf_false_positive_rate(k, l, profile=profile)
    return {
        "actual_fp": rate,
        "efficiency": apbf_efficiency(k, l, -math.log2(rate)),
        **_all_accesses(k, l, apbf_fills(k, l, profile=profile)),
        "npws": apbf_npws(k, l),
    }


def apbbf_metrics(k: int, l: int, block_bits: int, hashes_per_block: int) -> dict[str, float]:
    """Row of Table 3 of the APBF paper, by column name.

    The columns are ``fp_apbbf``, ``fp_apbf_same_memory`` (of an APBF with k b and
    l b, in the linear profile of Table 2), ``relative_capacity``,
    ``accesses_window``, ``accesses_fp``, ``accesses_false`` (in blocks) and ``npws``.
    """
    fills = apbbf_fills(k, l, block_bits, hashes_per_block)
    return {
        "fp_apbbf": apbf_false_positive_rate(k, l, fills=fills),
        "fp_apbf_same_memory": apbf_false_positive_rate(
            k * hashes_per_block, l * hashes_per_block, profile="linear"
        ),
        "relative_capacity": apbbf_relative_capacity(block_bits, hashes_per_block),
        **_all_accesses(k, l, fills),
        "npws": npws(k, l, fills[-1]),
    }


def _all_accesses(k: int, l: int, fills: Sequence[float]) -> dict[str, float]:
    columns = zip(("window", "fp", "false"), CASES, strict=True)
    return {f"accesses_{name}": apbf_accesses(k, l, case, fills=fills) for name, case in columns}


def _walk(k: int, l: int, rates: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Follow Algorithm 1 on probabilities.

    Returns the pair (probability, accesses weighted by probability) of the
    queries that end false, then of those that end true. Row `start` of the
    tables is the position after a jump, column p the matches before it.
    """
    probability, accesses = np.zeros((2, l + 1, k))
    probability[l, 0] = 1.0
    count = np.arange(k)
    missed, found = np.zeros((2, 2))
    for start in range(l, -1, -1):
        ratio = rates[start : start + k]
        reach = np.concatenate(([1.0], np.cumprod(ratio)))
        full = reach[k - count]
        found[0] += probability[start] @ full
        found[1] += (accesses[start] + probability[start] * (k - count)) @ full
        # A miss after c matches: possible while p + c < k.
        miss = reach[:k] * (1 - ratio)
        chance = miss * np.cumsum(probability[start])[::-1]
        spent = miss * np.cumsum(accesses[start])[::-1] + chance * (count + 1)
        ends = max(0, k - start)
        missed += chance[:ends].sum(), spent[:ends].sum()
        onward = count[ends:]
        probability[start + onward - k, onward] += chance[ends:]
        accesses[start + onward - k, onward] += spent[ends:]
    return (float(missed[0]), float(missed[1])), (float(found[0]), float(found[1]))


def _window_accesses(k: int, l: int, rates: Floats) -> float:
    total = 0.0
    for generation in range(l):
        written = rates.copy()
        written[generation : generation + k] = 1.0
        total += _walk(k, l, written)[True][1]
    return total / l


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
