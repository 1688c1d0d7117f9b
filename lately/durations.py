"""Durations as people write them, and the ticks that they are divided into."""

from fractions import Fraction

UNITS = {
    "ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000),
    "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600), "d": Fraction(86_400),
}  # fmt: skip
"""Seconds of each unit, in ascending order."""

TICKS = 1000
"""Ticks of a span, about, if nobody says how long a tick is."""


def time_text(seconds: Fraction) -> str:
    """Return `seconds` in the largest unit of which they are one or more, such as "1.5 ms"."""
    unit = next((name for name in reversed(UNITS) if seconds >= UNITS[name]), "ns")
    return f"{float(seconds / UNITS[unit]):.6g} {unit}"
