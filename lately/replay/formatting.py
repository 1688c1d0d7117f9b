"""Format numbers for reports, and render self-contained HTML pages."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..golden.durations import time_text
from ..golden.spec.base import Specification

_FOLDERS = [Path(__file__).parent, Path(__file__).parents[1] / "dedup"]
_NOTHING = "\N{EN DASH}"


def count_text(value: int | None) -> str:
    return _NOTHING if value is None else f"{value:,}"


def rate_text(rate: float | None) -> str:
    if rate is None:
        return _NOTHING
    percent = 100 * rate
    return f"{percent:.3g}%" if not percent or percent >= 1e-3 else f"{percent:.1e}%"


def interval_text(interval: Sequence[float] | None) -> str:
    return _NOTHING if interval is None else f"{rate_text(interval[0])} to {rate_text(interval[1])}"


def seconds_text(seconds: float) -> str:
    """Format a time in a suitable unit, exact to the nanosecond, such as '50.05 ms'."""
    return time_text(Fraction(round(seconds * 10**9), 10**9))


def held(spec: Specification) -> str:
    return "bits set" if spec.cell_name == "bit" else "cells in use"


FILTERS = {"count": count_text, "rate": rate_text, "interval": interval_text, "time": seconds_text}


def render(template: str, **values: Any) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDERS), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= FILTERS | {"held": held}
    return environment.get_template(template).render(values)
