"""Options of windows in real time."""

import click

from .options import WHEN_FULL, Command, amount_option, together

when_full_option = click.option(
    "--when-full",
    type=click.Choice(WHEN_FULL),
    help="If a span has too many keys for the filter: shorten the window, or exceed the "
    "false-positive rate.  [default: shorten]",
)
"""--when-full."""


def span_options(command: Command) -> Command:
    """Add --span, --tick, --rate and --when-full, for `choose`."""
    return together(
        click.option(
            "--span",
            metavar="T",
            help="Keep keys for a time, such as 50ms or 1.5h, by the times of the stream.",
        ),
        click.option(
            "--tick",
            metavar="T",
            help="Unit in which the filter counts time, such as 10us.  [default: a 1000th of "
            "the span]",
        ),
        amount_option("--rate", "R", "Keys per second, in place of --window N = T R."),
        when_full_option,
    )(command)
