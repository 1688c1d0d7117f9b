"""The filter that remembers packets: bounded in time and in their number."""

from fractions import Fraction

from ..golden import FilterSpec
from ..golden.durations import default_tick
from ..planner.requirement import Requirement, RequirementError, Span
from ..planner.rings import by_cost, sized

SLACK = 0.25
"""How much longer than the span a packet may be remembered, in spans, while packets keep coming."""

LEAST_WINDOW = 64
"""Packets for which the filter has room at least; a `CopyTable` holds smaller bounds."""

MOST_SEGMENTS = 16
"""Segments at most: more would take less memory, and more time for each packet."""


def dedup_spec(span: int, window: int, fpr: float) -> tuple[FilterSpec, int]:
    """Return a filter for packets, and the nanoseconds of its ticks.

    Parameters
    ----------
    span : int
        Nanoseconds for which a packet is remembered.
    window : int
        Packets that may come within the span. If more come, it gets shorter.
    fpr : float
        Share of new packets that may be taken for old ones.

    Raises
    ------
    RequirementError
        If there is no such filter.
    """
    tick = default_tick(span)
    time = Span.of(Fraction(span, 10**9), Fraction(tick, 10**9))
    # Of fewer, not every generation would have one.
    room = window if window < 1 else max(window, LEAST_WINDOW)
    asked = Requirement(
        window=room,
        false_positive_rate=fpr,
        span=time,
        slack=SLACK,
        bits_only=True,
        families=("gebf",),
    )
    found = sized("gebf", asked)
    best = next(by_cost(found[found.shapes.ring_segments < MOST_SEGMENTS], asked), None)
    if best is None:
        raise RequirementError(f"window: must be met by a filter, but none has a {asked.text()}")
    return best.spec, tick
