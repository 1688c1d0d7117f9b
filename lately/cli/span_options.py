"""Options of windows in real time."""

import click

from .options import WHEN_FULL, Command, together

when_full_option = click.option(
    "--when-full",
    type=click.Choice(WHEN_FULL),
    help="What gives way when a span has more keys than the filter is made for: the age up to "
    "which keys are reported, or the false-positive rate.  [default: shorten]",
)
"""--when-full."""


def span_options(command: Command) -> Command:
    """Add --span, --tick, --rate and --when-full, for `choose`."""
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
