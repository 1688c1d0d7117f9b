"""Confidence intervals of measured rates."""

Interval = tuple[float, float]
"""Lower and upper bound."""


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> Interval | None:
    """Exact interval of a proportion of `hits` in independent trials (Clopper and Pearson, 1934).

    The interval covers the proportion with a probability of at least `confidence`. None without
    trials.

    Raises
    ------
    ValueError
        If `hits` is not between 0 and `trials`.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"hits: must be between 0 and the {trials} trials, not {hits}")
    if not trials:
        return None
    # The import of scipy takes longer than a short run.
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = betaincinv(hits, trials - hits + 1, tail) if hits else 0.0
    high = betaincinv(hits + 1, trials - hits, 1 - tail) if hits < trials else 1.0
    return float(low), float(high)
