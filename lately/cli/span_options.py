"""Options of windows in real time, and the filters that they stand for."""

from typing import TYPE_CHECKING

import click

from .options import Command, choose_spec, together

if TYPE_CHECKING:
    from ..golden import FilterSpec

when_full_option = click.option(
    "--when-full",
    type=click.Choice(["shorten", "overfill"]),
    help="What gives way when a span has more keys than the filter is made for: the age up to "
    "which keys are reported, or the false-positive rate.  [default: shorten]",
)
"""--when-full."""


def span_options(command: Command) -> Command:
    """Add --span, --tick, --rate, --generation-span and --when-full, for `choose_timed_spec`."""
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
        click.option(
            "--generation-span",
            metavar="T",
            help="End a part of the window, a generation, when it is older than T though it has "
            "room for more keys. The longer, the fewer keys give way in bursts, and the longer "
            "others are reported after the span; T may be the span itself.  [default: the "
            "least that covers the span]",
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
    generation_span: str | None,
    when_full: str | None,
) -> "tuple[FilterSpec, int | None]":
    """Return the filter that the options ask for, and the nanoseconds of its ticks if it has any.

    With a span, ``window`` is the number of keys that it holds. Errors: as `choose_spec`.
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
    old = nanoseconds("generation_span", generation_span)
    if span is not None and rate is not None:
        window = window_of_span(span_seconds(span), rate)
    if window is not None and long is not None:
        unit = unit or stream_times.default_tick(long)
        window = stream_times.keys_of_ticks(window, long, unit)
    chosen = choose_spec(spec, preset, window, fpr)
    return stream_times.with_span(chosen, long, unit, generation_span=old, when_full=when_full)
