"""Numbers of a run in the format of its reports."""

from collections.abc import Sequence
from fractions import Fraction

from ..golden.durations import time_text
from ..golden.spec.base import Specification

_NOTHING = "\N{EN DASH}"


def count_text(value: int | None) -> str:
    """Write `value`, a number of things: '328,521'; a dash for None."""
    return _NOTHING if value is None else f"{value:,}"


def rate_text(rate: float | None) -> str:
    """Write a rate in percent, three figures: '2.27%'; a dash for None."""
    if rate is None:
        return _NOTHING
    percent = 100 * rate
    return f"{percent:.3g}%" if not percent or percent >= 1e-3 else f"{percent:.1e}%"


def interval_text(interval: Sequence[float] | None) -> str:
    """Write `interval`, the bounds of a rate: '1.9% to 2.6%'; a dash for None."""
    return _NOTHING if interval is None else f"{rate_text(interval[0])} to {rate_text(interval[1])}"


def seconds_text(seconds: float) -> str:
    """Write `seconds`, to the nanosecond, with the unit that suits: '50.05 ms'."""
    return time_text(Fraction(round(seconds * 10**9), 10**9))


def held(spec: Specification) -> str:
    """Return the word for filled units of the memory of a filter with a `spec`."""
    return "bits set" if spec.cell_name == "bit" else "cells in use"


def part_name(spec: Specification) -> str:
    """Return the word for parts of the memory of a filter with a `spec`."""
    return spec.part_name
