"""Values with their 95 % confidence intervals."""

import math
import statistics
from collections.abc import Sequence

from lately.intervals import clopper_pearson
from lately.replay.drawing import Estimate

CONFIDENCE = 0.95  # For all intervals.

# Ranges that the interval of a mean is limited to.
REALS, SHARES, POSITIVE = (-math.inf, math.inf), (0.0, 1.0), (0.0, math.inf)


def student(
    values: Sequence[float], *, within: tuple[float, float] = REALS, of_one: bool = False
) -> Estimate:
    """Return the mean of independent values, with Student's interval clipped to `within`.

    If `of_one` is set, the interval is for one further value instead of the mean.
    """
    if len(values) < 2:
        raise ValueError(f"values: must have at least 2 items, not {len(values)}")
    # Imported here because importing scipy takes longer than a short run.
    from scipy.special import stdtrit

    mean = statistics.fmean(values)
    error = statistics.stdev(values) * math.sqrt(1 / len(values) + of_one)
    reach = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * error
    return mean, max(within[0], mean - reach), min(within[1], mean + reach)


def positive(values: Sequence[float]) -> Estimate:
    return student(values, within=POSITIVE)


def share(hits: int, trials: int) -> Estimate:
    interval = clopper_pearson(hits, trials, confidence=CONFIDENCE)
    if interval is None:
        raise ValueError("trials: must be at least 1, not 0")
    return hits / trials, *interval


def scaled(value: Estimate, factor: float) -> Estimate:
    mean, low, high = (each * factor for each in value)
    return mean, low, high


def quotient(above: Estimate, below: Estimate) -> Estimate:
    """Return the quotient of two estimates, with a conservative interval from their intervals.

    If nothing was counted in `below`, the upper end of its interval is used as its value.
    """
    value, low, high = below if below[1] > 0 else (below[2],) * 3
    return above[0] / value, above[1] / high, above[2] / low


def quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [value / other for value, other in zip(above, below, strict=True)]
