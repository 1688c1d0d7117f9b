"""Choose the filter that options request: from a file, from a preset, or sized for a window."""

import math
import tomllib
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from ..golden import FAMILIES, Specification
from ..golden.durations import NANOSECONDS, default_tick, span_ticks, tick_of_span
from ..golden.errors import SpecificationError
from ..golden.spec.base import require
from ..golden.spec.ring import WHEN_FULL
from .options import choose_unit, nanoseconds


def choice(
    *, spec: str | None, preset: str | None, window: int | None, fpr: float | None,
    span: str | None, tick: str | None, rate: float | None, when_full: str | None,
) -> tuple[Specification, int | None]:  # fmt: skip
    """Return the requested filter and its tick in ns; the tick is None if it counts insertions."""
    length, period = nanoseconds("span", span) or None, nanoseconds("tick", tick) or None
    if window is None and fpr is None and rate is None:
        return with_span(choose_unit(spec, preset), length, period, when_full)
    from ..planner import Requirement, choose
    from ..planner.requirement import Span

    # Only a ring can shorten its window when a span has more keys.
    asked: dict[str, Any] = {"false_positive_rate": fpr, "families": tuple(FAMILIES)}
    if length is None:
        chosen = choose(Requirement(window=cast(int, window), **asked))
        return with_span(chosen, None, period, when_full)
    period = period or default_tick(length)
    seconds = Fraction(length, NANOSECONDS)
    time = Span.of(seconds, Fraction(period, NANOSECONDS), when_full=when_full or WHEN_FULL[0])
    keys = time.keys(float((window or 0) / seconds) if rate is None else rate)
    return choose(Requirement(window=keys, span=time, **asked)), period


def planned(path: str | None) -> tuple[Fraction | None, str | None]:
    """Read the tick in seconds and the device name from the ``plan`` table of a filter file."""
    if path is None:
        return None, None
    with open(path, "rb") as file:
        plan = tomllib.load(file).get("plan", {})
    require(isinstance(plan, dict), "plan", "must be a table", plan)
    tick, device = plan.get("tick_seconds"), plan.get("device")
    is_time = tick is None or (type(tick) in (int, float) and 0 < tick < math.inf)
    require(is_time, "tick_seconds", "must be a number above 0", tick)
    return None if tick is None else Fraction(str(tick)), device and str(device)


def with_span(
    spec: Any, span: int | None, tick: int | None, when_full: str | None = None
) -> tuple[Specification, int | None]:
    """Return the filter with a time window, and the tick in ns (None if it counts insertions)."""
    if spec.timed:
        span_text = f"{spec.span:,} ticks"
        if tick is None and span is None:
            raise SpecificationError(f"a filter with a span of {span_text} needs --span or --tick")
        if tick is not None and span is not None:
            raise SpecificationError(
                f"--span cannot be combined with --tick for a filter with a span of {span_text}"
            )
        tick = tick or tick_of_span(span or 0, spec.span)
        return with_ticks(spec, when_full=when_full), tick
    if span is None:
        if tick is not None:
            raise SpecificationError("--tick needs --span")
        return with_ticks(spec, when_full=when_full), None
    tick = tick or default_tick(span)
    return with_ticks(spec, span=span_ticks(span, tick), when_full=when_full), tick


def with_ticks(spec: Any, **fields: Any) -> Specification:
    """Add the fields of a time window to the specification of a ring that counts insertions."""
    given = {name: value for name, value in fields.items() if value is not None}
    for name in given:
        if spec.kind != "ring":
            raise SpecificationError(f"{name}: family {spec.family} has no time window")
        if spec.timed:
            raise SpecificationError(f"{name}: the filter already has a span of {spec.span} ticks")
        if "span" not in given:
            raise SpecificationError(f"{name}: the filter has no span; give --span")
    return replace(spec, **given)
