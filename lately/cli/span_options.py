"""Options of windows in real time, and the filters that they stand for."""

from fractions import Fraction
from typing import TYPE_CHECKING

import click

from .options import WHEN_FULL, Command, choose_unit, together

if TYPE_CHECKING:
    from ..hdl.build import UnitSpec

when_full_option = click.option(
    "--when-full",
    type=click.Choice(WHEN_FULL),
    help="What gives way when a span has more keys than the filter is made for: the age up to "
    "which keys are reported, or the false-positive rate.  [default: shorten]",
)
"""--when-full."""


def span_options(command: Command) -> Command:
    """Add --span, --tick, --rate and --when-full, for `choose_timed_spec`."""
    return together(
        click.option(
            "--span",
            metavar="T",
            help="Keep keys for a time, such as 50ms or 1.5h, that the stream's own times count.",
        ),
        click.option(
            "--tick",
            metavar="T",
            help="Unit in which the filter counts time, such as 10us.  [default: a 1000th of "
            "the span]",
        ),
        click.option(
            "--rate", type=float, metavar="R", help="Keys per second, in place of --window N = T R."
        ),
        when_full_option,
    )(command)


def choose_timed_spec(
    spec: str | None,
    preset: str | None,
    window: int | None,
    fpr: float | None,
    *,
    span: str | None,
    tick: str | None,
    rate: float | None,
    when_full: str | None,
) -> "tuple[UnitSpec, int | None]":
    """Return the filter that the options ask for, and the nanoseconds of its ticks if it has any.

    With a span, ``window`` is the number of keys that come within it. Errors: as `choose_unit`.
    """
    if rate is not None and (span is None or window is not None):
        raise click.UsageError("--rate needs --span, and is in place of --window")
    if rate is not None and fpr is None:
        raise click.UsageError("--rate needs --fpr")
    from ..durations import NANOSECONDS, default_tick, time_seconds, whole_nanoseconds
    from ..planner.requirement import Span
    from ..replay.stream_times import with_span

    def nanoseconds(name: str, text: str | None) -> int | None:
        return None if text is None else whole_nanoseconds(name, time_seconds(text, name))

    long, unit = nanoseconds("span", span), nanoseconds("tick", tick)
    if span is None or long is None or (rate is None and window is None):
        return with_span(choose_unit(spec, preset, window, fpr), long, unit, when_full)
    unit = unit or default_tick(long)
    seconds, period = (Fraction(time, NANOSECONDS) for time in (long, unit))
    time = Span.of(seconds, period, when_full=when_full or WHEN_FULL[0])
    keys = time.keys(float((window or 0) / seconds) if rate is None else rate)
    return choose_unit(spec, preset, keys, fpr, time), unit
