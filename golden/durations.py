"""Conversion of durations between text, nanoseconds and ticks."""

import re
from datetime import timedelta
from fractions import Fraction

import numpy as np

from .errors import require

# seconds of each unit, in ascending order
UNITS = {
    "ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000),
    "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600), "d": Fraction(86_400),
}  # fmt: skip

NANOSECONDS = 10**9  # in a second
TICKS = 1000  # approximate number of ticks in a span, if no tick is given
_ALIASES = {"m": "min"}
_TIME = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)}|m)\s*")


def time_text(seconds: Fraction) -> str:
    """Format a time in the largest unit that gives a number of at least 1, such as "1.5 ms"."""
    unit = next((name for name in reversed(UNITS) if seconds >= UNITS[name]), "ns")
    return f"{float(seconds / UNITS[unit]):.6g} {unit}"


def time_seconds(text: str, name: str) -> Fraction:
    """Convert a text such as "10s", "500ms", "10m" or "1.5 h" to seconds."""
    match = _TIME.fullmatch(text)
    seconds = Fraction(match[1]) * UNITS[_ALIASES.get(match[2], match[2])] if match else Fraction(0)
    rule = f"must be a number above 0 and a unit ({', '.join(UNITS)}), such as 10s"
    require(seconds > 0, name, rule, text)
    return seconds


def whole_nanoseconds(name: str, seconds: Fraction) -> int:
    """Convert seconds to nanoseconds; SpecificationError if the result is not a whole number."""
    time = seconds * NANOSECONDS
    rule = "must be a whole number of nanoseconds"
    require(time.denominator == 1, name, rule, time_text(seconds))
    return int(time)


def default_tick(span: int | Fraction) -> int:
    """Return a tick, in nanoseconds, that divides a span into about `TICKS` ticks."""
    return -(-span // TICKS)


def span_ticks(span: int | Fraction, tick: int | Fraction) -> int:
    """Return a window, in ticks, that covers any two keys a `span` apart."""
    return span // tick + 1


def tick_of_span(span: int, ticks: int) -> int:
    """Return the shortest tick for which ``span_ticks(span, tick)`` is at most `ticks`."""
    return span // ticks + 1


def span_nanoseconds(span: object, name: str = "span") -> int:
    """Convert a `span` (text as in `time_seconds`, timedelta or timedelta64) to nanoseconds."""
    if isinstance(span, timedelta):
        seconds = Fraction(span // timedelta(microseconds=1), 10**6)
    elif isinstance(span, np.timedelta64):
        exact = span.astype("timedelta64[ns]")
        whole = np.datetime_data(span)[0] != "generic" and exact.astype(span.dtype) == span
        require(whole, name, "must be a whole number of nanoseconds below 2**63", span)
        seconds = Fraction(int(exact.astype(np.int64)), NANOSECONDS)
    elif isinstance(span, str):
        seconds = time_seconds(span, name)
    else:
        raise TypeError(f'{name}: must be a text such as "10min" or a timedelta, not {span!r}')
    require(seconds > 0, name, "must be above 0", span)
    return whole_nanoseconds(name, seconds)
