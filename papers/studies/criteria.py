"""Estimates with intervals, and criteria that decide whether they confirm a paper's statement.

Each criterion has finite limits, so a value can be too high or too low.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from enum import StrEnum

from lately.intervals import clopper_pearson
from lately.replay.drawing import Estimate

DIFFERENCE = 0.1  # Relative error of a printed figure that a measurement must be able to rule out.
RARE = 1e-4  # If a paper says that something never happens, a measurement must rule out this rate.
FAR = 100_000.0  # A quotient beyond this, or beyond its inverse, is a measurement error.

Range = tuple[float, float]  # Minimum and maximum, inclusive.


class Verdict(StrEnum):
    MET = "met"  # agrees with the paper; the interval is narrow enough to rule out anything else
    NEAR = "near"  # does not agree, but is close, as defined by the criterion
    UNDECIDED = "undecided"  # the interval includes both the paper's value and contradicting ones
    NOT_MET = "not met"
    COPIED = "copied"  # not computed for this figure: taken from elsewhere, or true by definition
    OURS = "ours alone"  # the paper says nothing about it, or shows it only in a plot


@dataclass(frozen=True)
class Criterion:
    """Ranges that decide whether a value meets a statement of a paper.

    The value's interval must be inside `within` and overlap `reach` (by default `within`). A value
    inside `rounded` counts as overlapping, whatever its interval. A value that does not overlap may
    still be `near`.
    """

    within: Range
    reach: Range | None = None
    rounded: Range | None = None
    near: Range | None = None

    def judge(self, value: float, low: float | None = None, high: float | None = None) -> Verdict:
        low, high = value if low is None else low, value if high is None else high
        low_end, high_end = self.reach or self.within
        if (low <= high_end and high >= low_end) or _in(value, self.rounded):
            decided = self.within[0] <= low and high <= self.within[1]
            return Verdict.MET if decided else Verdict.UNDECIDED
        return Verdict.NEAR if _in(value, self.near) else Verdict.NOT_MET


def _in(value: float, values: Range | None) -> bool:
    return values is not None and values[0] <= value <= values[1]


def digits(printed: str) -> Criterion:
    """Accept a computed value that rounds to the printed digits; one unit off counts as near."""
    return Criterion(_around(printed, "0.5"), near=_around(printed, "1.5"))


def figure(printed: str) -> Criterion:
    """Accept a measured value that agrees with the printed digits; one unit off counts as near.

    The interval must rule out a relative error of `DIFFERENCE`, or an error of half a unit if the
    paper prints 0.
    """
    value = float(number(printed))
    half, near = _around(printed, "0.5"), _around(printed, "1.5")
    if not value and unit(printed) == 1:
        raise ValueError("printed: must have decimals if it is 0")
    ends = sorted(_off(value, DIFFERENCE)) if value else half
    within = ends[0], ends[1]
    rounded = max(half[0], within[0]), min(half[1], within[1])
    return Criterion(within, (value, value), rounded, near)


def cut_off(printed: str) -> Criterion:
    value = float(printed)
    return Criterion((value, math.nextafter(value + 1, 0)), near=(value - 1, value + 2))


def approximate(printed: str, share: str) -> Criterion:
    return replace(digits(printed), near=around(float(printed), float(share)).within)


def exactly(value: float) -> Criterion:
    return Criterion((value, value))


def every(count: int) -> Criterion:
    return Criterion((count, count), near=(count - 1, count))


def none(excluded: float = RARE) -> Criterion:
    """Accept a rate of 0 if its interval rules out rates above `excluded`."""
    return Criterion((0.0, excluded), (0.0, 0.0))


def equal(value: float, factor: float = 1) -> Criterion:
    near = (value / factor, value * factor) if factor > 1 else None
    return Criterion(around(value, DIFFERENCE).within, (value, value), near=near)


def around(value: float, share: float, near: float = 0) -> Criterion:
    return Criterion(_off(value, share), near=_off(value, near) if near else None)


def between(low_end: float, high_end: float) -> Criterion:
    return Criterion((low_end, high_end))


def above(low_end: float) -> Criterion:
    return between(low_end, FAR)


Rule = Callable[..., Criterion]

# Rules that take the printed text; then all rules.
PRINTED: dict[str, Rule] = {r.__name__: r for r in (digits, figure, cut_off, approximate)}
_OTHERS: tuple[Rule, ...] = (exactly, every, none, equal, around, between, above)
RULES = PRINTED | {rule.__name__: rule for rule in _OTHERS}

SENTENCES = ("figure", "exactly", "every", "equal", "around", "between", "above")
"""Rules whose thresholds are shown; others follow from the printed digits."""


def number(printed: str) -> Decimal:
    try:
        value = Decimal(printed)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise ValueError(f"printed: must be a decimal number, not {printed!r}")
    return value


def unit(printed: str) -> Decimal:
    exponent = number(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent)


def to_digits_of(printed: str, value: float | Decimal) -> str:
    return f"{Decimal(value).quantize(unit(printed), rounding=ROUND_HALF_EVEN):f}"


def _off(value: float, share: float) -> Range:
    """Return the range of values with a relative error of at most `share`."""
    low_end, high_end = (float(f"{value * (1 + sign * share):.12g}") for sign in (-1, 1))
    return low_end, high_end


def _around(printed: str, units: str) -> Range:
    value, off = number(printed), unit(printed) * Decimal(units)
    return float(value - off), float(value + off)


# Estimates

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
    """Return the quotient of two estimates, and a conservative interval.

    If nothing was counted in `below`, the upper end of its interval is used as its value.
    """
    value, low, high = below if below[1] > 0 else (below[2],) * 3
    return above[0] / value, above[1] / high, above[2] / low


def quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [value / other for value, other in zip(above, below, strict=True)]
