"""Choose a filter whose window is limited both in time and in number of packets."""

from fractions import Fraction

from ..golden import FilterSpec
from ..golden.durations import default_tick, time_text
from ..planner.requirement import Requirement, RequirementError, Span
from ..planner.rings import PlannedRing

SLACK = 0.25  # maximum slack in spans, while packets keep arriving

# Maximum span in nanoseconds: whole days, below 2**60, as clocks count four times as far.
MAX_SPAN = 13_343 * 86_400 * 10**9
MIN_WINDOW = 64  # packets; a `CopyTable` enforces smaller windows

# Filters of up to 15 segments: more segments use less memory, but more time per packet.
RINGS = PlannedRing("gebf", generations=range(1, 15))


def dedup_spec(span: int, window: int, fpr: float) -> tuple[FilterSpec, int]:
    """Return the cheapest filter for `window` packets and a `span` in ns, and its tick in ns."""
    if span > MAX_SPAN:
        raise RequirementError(
            f"--span: must be at most {time_text(Fraction(MAX_SPAN, 10**9))}, "
            f"not {time_text(Fraction(span, 10**9))}"
        )
    tick = default_tick(span)
    time = Span.of(Fraction(span, 10**9), Fraction(tick, 10**9))
    # With fewer packets, some generations would be empty.
    room = window if window < 1 else max(window, MIN_WINDOW)
    asked = Requirement(
        window=room, false_positive_rate=fpr, span=time, slack=SLACK, bits_only=True,
        families=("gebf",),
    )  # fmt: skip
    best = next(RINGS.search(asked), None)
    if best is None:
        given = f"--span {time_text(Fraction(span, 10**9))} and --fpr {fpr:g}"
        raise RequirementError(f"no filter meets {given}; try a longer span or a larger --fpr")
    return best.spec, tick
