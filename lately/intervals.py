"""Confidence intervals of measured rates."""

from math import exp, expm1, isqrt, lgamma, log

import numpy as np

Interval = tuple[float, float]  # lower and upper bound


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> Interval | None:
    """Return the exact Clopper-Pearson (1934) interval for a rate, or None if `trials` is 0."""
    if not 0 <= hits <= trials:
        raise ValueError(f"hits: must be between 0 and {trials}, the number of trials, not {hits}")
    if not trials:
        return None
    tail = (1 - confidence) / 2
    low = exp(_log_rate(hits, trials, tail)) if hits else 0.0
    high = -expm1(_log_rate(trials - hits, trials, tail)) if hits < trials else 1.0
    return low, high


def _log_rate(hits: int, trials: int, tail: float) -> float:
    """Return ln p for the rate p at which the probability of at least `hits` hits equals `tail`."""
    misses = trials - hits
    ways = lgamma(trials + 1) - lgamma(hits + 1) - lgamma(misses + 1)
    # Sum over hits up to 20 standard deviations beyond.
    further = np.arange(hits, min(trials, hits + 100 + 20 * isqrt(min(hits, misses))))
    ratios = (trials - further) / (further + 1)
    rate, step = (log(tail) - ways) / hits, 1.0
    while step > 1e-14 * -rate:
        miss = -expm1(rate)
        terms = 1 + np.cumprod(ratios * (exp(rate) / miss)).sum()
        probability = ways + hits * rate + misses * log(miss) + log(terms)
        step = (log(tail) - probability) * terms / hits
        rate += step
    return rate
