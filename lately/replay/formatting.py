"""Numbers of a run in the format of its reports."""

from collections.abc import Sequence
from fractions import Fraction

from ..golden.durations import time_text
from ..golden.spec.base import Specification

_NOTHING = "\N{EN DASH}"


def count_text(value: int | None) -> str:
    """Format the count `value`: '328,521'; a dash for None."""
    return _NOTHING if value is None else f"{value:,}"


def rate_text(rate: float | None) -> str:
    """Format a rate in percent, with three figures: '2.27%'; a dash for None."""
    if rate is None:
        return _NOTHING
    percent = 100 * rate
    return f"{percent:.3g}%" if not percent or percent >= 1e-3 else f"{percent:.1e}%"


def interval_text(interval: Sequence[float] | None) -> str:
    """Format `interval`, the bounds of a rate: '1.9% to 2.6%'; a dash for None."""
    return _NOTHING if interval is None else f"{rate_text(interval[0])} to {rate_text(interval[1])}"


def seconds_text(seconds: float) -> str:
    """Format `seconds`, to the nanosecond, in a suitable unit: '50.05 ms'."""
    return time_text(Fraction(round(seconds * 10**9), 10**9))


def held(spec: Specification) -> str:
    """Return the word for the used units of a filter's memory: "bits set" or "cells in use"."""
    return "bits set" if spec.cell_name == "bit" else "cells in use"
