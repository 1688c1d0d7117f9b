"""Criteria by which a value confirms a figure or a sentence of a paper.

Each can be missed on both sides: its ranges are finite.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from enum import StrEnum

DIFFERENCE = 0.1  # Share of a printed figure that a measurement must exclude as an error.
RARE = 1e-4  # Share of events that must be excluded where a paper has none.
FAR = 100_000.0  # A quotient beyond this, or beyond 1 over this, is an error of measurement.

Range = tuple[float, float]  # Least and greatest value, both included.


class Verdict(StrEnum):
    """How our value stands to the paper's."""

    MET = "met"  # what the paper says; the interval is narrow enough to exclude anything else
    NEAR = "near"  # not what the paper says, but beside it, as the criterion has it
    UNDECIDED = "undecided"  # the interval contains the paper's value, and contrary ones
    NOT_MET = "not met"
    COPIED = "copied"  # not computed for this figure but taken from elsewhere, or by definition
    OURS = "ours alone"  # the paper says nothing of it, or prints no number, as in a figure


@dataclass(frozen=True)
class Criterion:
    """Values with which something that a paper says is met.

    An interval must hold a value of `reach`, by default `within`, and lie `within`. A value of
    `rounded` reaches whatever its interval holds; a value that does not reach may be `near`.
    """

    within: Range
    reach: Range | None = None
    rounded: Range | None = None
    near: Range | None = None

    def __post_init__(self) -> None:
        for name, given in vars(self).items():
            if given is None:
                continue
            if not -math.inf < given[0] <= given[1] < math.inf:
                raise ValueError(f"{name}: must be a finite range, not {given!r}")
            if name != "near" and not self.within[0] <= given[0] <= given[1] <= self.within[1]:
                raise ValueError(f"{name}: must be in {self.within!r}, not {given!r}")

    def judge(self, value: float, low: float | None = None, high: float | None = None) -> Verdict:
        """Return how a value with its interval, or a computed one without, stands to this."""
        low, high = value if low is None else low, value if high is None else high
        low_end, high_end = self.reach or self.within
        if (low <= high_end and high >= low_end) or _in(value, self.rounded):
            decided = self.within[0] <= low and high <= self.within[1]
            return Verdict.MET if decided else Verdict.UNDECIDED
        return Verdict.NEAR if _in(value, self.near) else Verdict.NOT_MET


def _in(value: float, values: Range | None) -> bool:
    return values is not None and values[0] <= value <= values[1]


# Figures


def digits(printed: str) -> Criterion:
    """Take a computed value in the printed digits; near is one unit off in the last one."""
    return Criterion(_around(printed, "0.5"), near=_around(printed, "1.5"))


def figure(printed: str) -> Criterion:
    """Take a measured value; near is one unit off in the last printed digit.

    The interval excludes `DIFFERENCE` of the figure as an error, or half a unit of a printed 0.
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
    """Take a whole number that was cut off; near is one more or less."""
    value = float(printed)
    return Criterion((value, math.nextafter(value + 1, 0)), near=(value - 1, value + 2))


def approximate(printed: str, share: str) -> Criterion:
    """Take a figure that the paper calls approximate; near is off by a share."""
    return replace(digits(printed), near=around(float(printed), float(share)).within)


def exactly(value: float) -> Criterion:
    return Criterion((value, value))


def every(count: int) -> Criterion:
    """Take all of some pairs; near is all but one."""
    return Criterion((count, count), near=(count - 1, count))


# Sentences


def none(excluded: float = RARE) -> Criterion:
    """Take a share of events that never happen: none, and `least` excluded."""
    return Criterion((0.0, excluded), (0.0, 0.0))


def equal(value: float, factor: float = 1) -> Criterion:
    """Take a value above 0 that is no figure, `DIFFERENCE` excluded; near is off by a factor."""
    near = (value / factor, value * factor) if factor > 1 else None
    return Criterion(around(value, DIFFERENCE).within, (value, value), near=near)


def around(value: float, share: float, near: float = 0) -> Criterion:
    """Take what is about a value above 0, off by a share, or by that of `near`."""
    return Criterion(_off(value, share), near=_off(value, near) if near else None)


def between(low_end: float, high_end: float) -> Criterion:
    return Criterion((low_end, high_end))


def above(low_end: float) -> Criterion:
    return between(low_end, FAR)


Rule = Callable[..., Criterion]

# Rules that take what is printed, and all.
PRINTED: dict[str, Rule] = {r.__name__: r for r in (digits, figure, cut_off, approximate)}
_OTHERS: tuple[Rule, ...] = (exactly, every, none, equal, around, between, above)
RULES = PRINTED | {rule.__name__: rule for rule in _OTHERS}

SENTENCES = ("figure", "exactly", "every", "equal", "around", "between", "above")
"""Rules whose thresholds stand beside a sentence; those of a printed figure follow from it."""


# Numbers


def number(printed: str) -> Decimal:
    try:
        value = Decimal(printed)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise ValueError(f"printed: must be a decimal number, not {printed!r}")
    return value


def unit(printed: str) -> Decimal:
    """Return one in the last digit of a printed number."""
    exponent = number(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent)


def to_digits_of(printed: str, value: float | Decimal) -> str:
    """Round a value to as many digits as are printed."""
    return f"{Decimal(value).quantize(unit(printed), rounding=ROUND_HALF_EVEN):f}"


def _off(value: float, share: float) -> Range:
    """Return the values that are off by a share, without errors of rounding."""
    low_end, high_end = (float(f"{value * (1 + sign * share):.12g}") for sign in (-1, 1))
    return low_end, high_end


def _around(printed: str, units: str) -> Range:
    value, off = number(printed), unit(printed) * Decimal(units)
    return float(value - off), float(value + off)
