"""Choose the filter for a request: from a file, a preset, or sized for a window."""

import math
import tomllib
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from ..golden import FAMILIES, Specification, any_preset
from ..golden.durations import (
    NANOSECONDS,
    default_tick,
    span_ticks,
    tick_of_span,
    time_seconds,
    time_text,
    whole_nanoseconds,
)
from ..golden.errors import SpecificationError
from ..golden.spec.base import require
from ..golden.spec.ring import WHEN_FULL
from ..hdl.build import family_of


@dataclass(frozen=True, kw_only=True)
class FilterRequest:
    """A user's request for a filter."""

    spec: str | None = None  # path of a TOML file
    preset: str | None = None  # default: "default"
    window: int | None = None  # size a ring for this many insertions, or keys within the span
    fpr: float | None = None
    span: str | None = None  # a time, such as "50ms"
    tick: str | None = None
    rate: float | None = None  # keys per second, instead of `window`
    when_full: str | None = None  # one of `lately.golden.spec.ring.WHEN_FULL`

    @property
    def sized(self) -> bool:
        return self.window is not None or self.fpr is not None or self.rate is not None


def choice(request: FilterRequest) -> tuple[Specification, int | None]:
    """Return the requested filter, and its tick in nanoseconds, or None without a time window."""
    span, tick = (_nanoseconds(name, getattr(request, name)) for name in ("span", "tick"))
    if not request.sized:
        return with_span(named(request), span, tick, request.when_full)
    from ..planner import Requirement, choose
    from ..planner.requirement import Span

    # Only a ring can shorten its window when a span has more keys.
    asked: dict[str, Any] = {"false_positive_rate": request.fpr, "families": tuple(FAMILIES)}
    if span is None:
        chosen = choose(Requirement(window=cast(int, request.window), **asked))
        return with_span(chosen, None, tick, request.when_full)
    tick = tick or default_tick(span)
    seconds, period = (Fraction(time, NANOSECONDS) for time in (span, tick))
    time = Span.of(seconds, period, when_full=request.when_full or WHEN_FULL[0])
    rate = request.rate
    keys = time.keys(float((request.window or 0) / seconds) if rate is None else rate)
    return choose(Requirement(window=keys, span=time, **asked)), tick


def named(request: FilterRequest) -> Specification:
    """Return the filter from a file or preset."""
    if request.spec is None:
        return any_preset(request.preset or "default")
    spec = Specification.from_toml(request.spec)
    family_of(spec)
    return spec


def planned(path: str | None) -> tuple[Fraction | None, str | None]:
    """Return the tick in seconds and the device from the ``plan`` table of a filter's file."""
    if path is None:
        return None, None
    with open(path, "rb") as file:
        plan = tomllib.load(file).get("plan", {})
    require(isinstance(plan, dict), "plan", "must be a table", plan)
    tick, device = plan.get("tick_seconds"), plan.get("device")
    is_time = tick is None or (type(tick) in (int, float) and 0 < tick < math.inf)
    require(is_time, "tick_seconds", "must be a number above 0", tick)
    return None if tick is None else Fraction(str(tick)), device and str(device)


def _nanoseconds(name: str, text: str | None) -> int | None:
    return None if text is None else whole_nanoseconds(name, time_seconds(text, name))


def with_span(
    spec: Any, span: int | None, tick: int | None, when_full: str | None = None
) -> tuple[Specification, int | None]:
    """Give a filter a window in real time; `span` and `tick` are in nanoseconds."""
    if spec.timed:
        span_text = f"{spec.span:,} ticks"
        if tick is None and span is None:
            raise SpecificationError(f"a filter with a span of {span_text} needs --span or --tick")
        if tick is not None and span is not None:
            raise SpecificationError(
                f"span cannot be combined with tick for a filter with a span of {span_text}"
            )
        tick = tick or tick_of_span(span or 0, spec.span)
        return with_ticks(spec, when_full=when_full), tick
    if span is None:
        if tick is not None:
            raise SpecificationError("tick needs a span")
        return with_ticks(spec, when_full=when_full), None
    tick = tick or default_tick(span)
    return with_ticks(spec, span=span_ticks(span, tick), when_full=when_full), tick


def with_ticks(spec: Any, **fields: Any) -> Specification:
    """Give a ring without a span a time window, by adding specification fields."""
    given = {name: value for name, value in fields.items() if value is not None}
    for name in given:
        if spec.kind != "ring":
            raise SpecificationError(f"{name}: family {spec.family} has no time window")
        if spec.timed:
            raise SpecificationError(f"{name}: the filter already has a span of {spec.span} ticks")
        if "span" not in given:
            raise SpecificationError(f"{name} needs a span")
    return replace(spec, **given)


def _text(nanoseconds: int) -> str:
    return time_text(Fraction(nanoseconds, NANOSECONDS))
