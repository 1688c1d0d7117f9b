"""How our values stand to the printed ones."""

import math
import statistics
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, InvalidOperation

from ..intervals import clopper_pearson
from .study import Estimate, Finding, Verdict

CONFIDENCE = 0.95
"""Confidence of all intervals."""

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
    return f"{Decimal(value).quantize(_unit(printed), rounding=rounding):f}"


def judge(
    printed: str, value: float, low: float | None = None, high: float | None = None
) -> Verdict:
    """Return how a value stands to the printed decimal number, or "" if none is printed.

    It is met if the value is the printed one in the printed digits, half a unit rounded either
    way, or if the interval from `low` to `high` holds the printed one. It is near if it is off
    by one unit in the last of these digits.

    Raises
    ------
    ValueError
        If what is printed is no number.
    """
    if not printed:
        return Verdict.OURS
    unit = _unit(printed)
    figure = Decimal(printed)
    modes = (ROUND_HALF_EVEN, ROUND_HALF_UP)
    off = min(abs(Decimal(to_digits_of(printed, value, mode)) - figure) for mode in modes)
    inside = low is not None and high is not None and low <= figure <= high
    if not off or inside:
        return Verdict.MET
    return Verdict.NEAR if off == unit else Verdict.NOT_MET


def finding(
    what: str, paper: str, value: float | Estimate, verdict: Verdict, note: str = ""
) -> Finding:
    """Return the finding of a value, with its interval if it has one."""
    ours, low, high = value if isinstance(value, tuple) else (value, None, None)
    return Finding(what, paper, ours, low, high, verdict, note)


def claim(
    what: str,
    paper: str,
    value: float | Estimate,
    holds: bool,
    note: str = "",
    *,
    near: bool = False,
) -> Finding:
    """Return the finding on what a paper says: met if it holds, else near or not met."""
    verdict = Verdict.MET if holds else Verdict.NEAR if near else Verdict.NOT_MET
    return finding(what, paper, value, verdict, note)


def ours(what: str, value: float | Estimate, note: str = "") -> Finding:
    """Return the finding of a value for which the paper prints no figure."""
    return finding(what, "", value, Verdict.OURS, note)


def never(what: str, events: int, trials: int, note: str) -> Finding:
    """Return the finding of events that must not happen, beside a printed 0."""
    interval = clopper_pearson(events, trials) or SHARES
    return claim(what, "0", (events / trials, *interval), not events, note)


def computed(what: str, printed: str, value: float, *, note: str = "") -> Finding:
    """Return the finding of a value that has no error of measurement; errors as `judge`."""
    return finding(what, printed, float(value), judge(printed, value), note)


def measured(what: str, printed: str, value: Estimate, *, note: str = "") -> Finding:
    """Return the finding of a value with a confidence interval; errors as `judge`."""
    mean, low, high = map(float, value)
    return finding(what, printed, (mean, low, high), judge(printed, value[0], low, high), note)


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


def proportion(what: str, printed: str, hits: int, trials: int, *, note: str = "") -> Finding:
    """Return the finding of hits among independent trials, with Clopper and Pearson's interval.

    Raises
    ------
    ValueError
        If there is no trial, or `hits` is not between 0 and `trials`; and as `judge`.
    """
    interval = clopper_pearson(hits, trials, confidence=CONFIDENCE)
    if interval is None:
        raise ValueError("trials: must be at least 1, not 0")
    return measured(what, printed, (hits / trials, *interval), note=note)


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


def _unit(printed: str) -> Decimal:
    try:
        exponent = Decimal(printed).as_tuple().exponent
    except InvalidOperation:
        exponent = "n"
    if not isinstance(exponent, int):
        raise ValueError(f"printed: must be a decimal number, not {printed!r}")
    return Decimal(1).scaleb(exponent)
