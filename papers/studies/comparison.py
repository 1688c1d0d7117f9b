"""How our values stand to the printed ones."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal

from lately.intervals import clopper_pearson
from lately.replay.drawing import Estimate

from .criteria import Criterion, Verdict, digits, figure, none, unit
from .study import Finding

CONFIDENCE = 0.95
"""Confidence of all intervals."""

RARE = 1e-4
"""Share of events that must be excluded where a paper has none."""

REALS = (-math.inf, math.inf)
"""Range of any mean; see `student`."""
SHARES = (0.0, 1.0)
"""Range of a mean of shares."""
POSITIVE = (0.0, math.inf)
"""Range of a mean that is not negative."""


def to_digits_of(printed: str, value: float | Decimal, rounding: str = ROUND_HALF_EVEN) -> str:
    """Round a value to as many digits as are printed.

    Raises
    ------
    ValueError
        If what is printed is no number.
    """
    return f"{Decimal(value).quantize(unit(printed), rounding=rounding):f}"


def judge(
    printed: str, value: float, low: float | None = None, high: float | None = None
) -> Verdict:
    """Return how a value stands to the printed decimal number, or "ours" if none is printed.

    See `criteria.digits` and, if it has an interval, `criteria.figure`; errors likewise.
    """
    if not printed:
        return Verdict.OURS
    asked = digits(printed) if low is None or high is None else figure(printed)
    return asked.judge(value, low, high)


def finding(
    what: str, paper: str, value: float | Estimate, criterion: Criterion | None, note: str = ""
) -> Finding:
    """Return the finding of a value, with its interval if it has one; ours without a criterion."""
    ours, low, high = value if isinstance(value, tuple) else (value, None, None)
    verdict = criterion.judge(ours, low, high) if criterion else Verdict.OURS
    return Finding(what, paper, ours, low, high, verdict, note)


def claim(
    what: str, paper: str, value: float | Estimate, criterion: Criterion, note: str = ""
) -> Finding:
    """Return the finding on a sentence of a paper, of which the page shows the thresholds."""
    found = finding(what, paper, value, criterion, note)
    return replace(found, within=criterion.within)


def ours(what: str, value: float | Estimate, note: str = "") -> Finding:
    """Return the finding of a value for which the paper prints no figure."""
    return finding(what, "", value, None, note)


def never(what: str, events: int, trials: int, note: str = "") -> Finding:
    """Return the finding of events that must not happen, beside a printed 0.

    It takes so many trials that a share of `RARE` is excluded.

    Raises
    ------
    ValueError
        If there is no trial, or `events` is not between 0 and `trials`.
    """
    return finding(what, "0", share(events, trials), none(RARE), note)


def computed(what: str, printed: str, value: float, *, note: str = "") -> Finding:
    """Return the finding of a value that has no error of measurement; errors as `judge`."""
    return finding(what, printed, float(value), digits(printed) if printed else None, note)


def measured(what: str, printed: str, value: Estimate, *, note: str = "") -> Finding:
    """Return the finding of a value with a confidence interval; errors as `judge`."""
    mean, low, high = map(float, value)
    return finding(what, printed, (mean, low, high), figure(printed) if printed else None, note)


def over_seeds(
    what: str,
    printed: str,
    values: Sequence[float],
    *,
    within: tuple[float, float] = REALS,
    note: str = "",
) -> Finding:
    """Return the finding of the mean of values, one for each seed; errors as `student`, `judge`."""
    return measured(what, printed, student(values, within=within), note=note)


def share(hits: int, trials: int) -> Estimate:
    """Return the share of hits among independent trials, with Clopper and Pearson's interval.

    Raises
    ------
    ValueError
        If there is no trial, or `hits` is not between 0 and `trials`.
    """
    interval = clopper_pearson(hits, trials, confidence=CONFIDENCE)
    if interval is None:
        raise ValueError("trials: must be at least 1, not 0")
    return hits / trials, *interval


def student(values: Sequence[float], *, within: tuple[float, float] = REALS) -> Estimate:
    """Return the mean of independent values with Student's interval, cut to the range `within`.

    Raises
    ------
    ValueError
        If there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"values: must be at least 2, not {len(values)}")
    # scipy takes longer to import than a short run lasts.
    from scipy.special import stdtrit

    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    reach = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * error
    return mean, max(within[0], mean - reach), min(within[1], mean + reach)
