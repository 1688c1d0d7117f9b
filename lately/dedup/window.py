"""The filter of packets, bounded in time and in number."""

from fractions import Fraction

from ..golden import FilterSpec
from ..golden.durations import default_tick, time_text
from ..planner.requirement import Requirement, RequirementError, Span
from ..planner.rings import PlannedRing

SLACK = 0.25  # maximum slack in spans, while packets keep arriving

MAX_SPAN = 13_343 * 86_400 * 10**9
"""Greatest span in nanoseconds, in whole days below 2**60: clocks count to four times as many."""

MIN_WINDOW = 64  # packets; a `CopyTable` enforces smaller bounds

RINGS = PlannedRing("gebf", generations=range(1, 15))
"""Filters of up to 15 segments: more segments take less memory, but more time per packet."""


def dedup_spec(span: int, window: int, fpr: float) -> tuple[FilterSpec, int]:
    """Return a filter for packets, and the nanoseconds of its ticks.

    The `span` is in nanoseconds. It gets shorter while more packets than the `window` arrive in it.
    """
    if span > MAX_SPAN:
        raise RequirementError(
            f"--span: must be at most {time_text(Fraction(MAX_SPAN, 10**9))}, "
            f"not {time_text(Fraction(span, 10**9))}"
        )
    tick = default_tick(span)
    time = Span.of(Fraction(span, 10**9), Fraction(tick, 10**9))
    # With fewer, some generations would have none.
    room = window if window < 1 else max(window, MIN_WINDOW)
    asked = Requirement(
        window=room,
        false_positive_rate=fpr,
        span=time,
        slack=SLACK,
        bits_only=True,
        families=("gebf",),
    )
    best = next(RINGS.search(asked), None)
    if best is None:
        given = f"--span {time_text(Fraction(span, 10**9))} and --fpr {fpr:g}"
        raise RequirementError(f"no filter has {given}; try a longer span or a greater share")
    return best.spec, tick
