"""Options of windows in real time, and the filters that they stand for."""

from typing import TYPE_CHECKING

import click

from .options import Command, choose_unit, together

if TYPE_CHECKING:
    from ..hdl.build import UnitSpec

WHEN_FULL = click.option(
    "--when-full",
    type=click.Choice(["shorten", "overfill"]),
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
        WHEN_FULL,
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

    With a span, ``window`` is the number of keys that it holds. Errors: as `choose_unit`.
    """
    if rate is not None and (span is None or window is not None):
        raise click.UsageError("--rate needs --span, and is in place of --window")
    if rate is not None and fpr is None:
        raise click.UsageError("--rate needs --fpr")
    from ..planner.requirement import span_seconds, window_of_span
    from ..replay import stream_times

    def nanoseconds(name: str, text: str | None) -> int | None:
        if text is None:
            return None
        return stream_times.whole_nanoseconds(name, span_seconds(text, name))

    long, unit = nanoseconds("span", span), nanoseconds("tick", tick)
    if span is not None and rate is not None:
        window = window_of_span(span_seconds(span), rate)
    if window is not None and long is not None:
        unit = unit or stream_times.default_tick(long)
        window = stream_times.keys_of_ticks(window, long, unit)
    chosen = choose_unit(spec, preset, window, fpr)
    return stream_times.with_span(chosen, long, unit, when_full)
