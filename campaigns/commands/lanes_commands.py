"""Command that measures units of several lanes."""

import click

from lately.cli.figures import Figures, figures_command
from lately.cli.options import count_option
from lately.cli.progress import echo_stage

PRESETS = ("default", "two-lanes", "four-lanes")
"""Units that are measured by default."""


@click.command("lanes", short_help="Operations per clock of one, two and four lanes.")
@click.argument("traces", nargs=-1)
@click.option(
    "--preset",
    "presets",
    metavar="NAME",
    multiple=True,
    default=PRESETS,
    show_default=True,
    help="Preset of a unit; may be repeated.",
)
@count_option("--operations", 200_000, "Length of the random streams.")
@figures_command(
    "lanes",
    "mismatches",
    lambda figures: sum(run["mismatches"] for run in figures["runs"]),
    out=True,
)
def bench_lanes(*, traces: tuple[str, ...], presets: tuple[str, ...], operations: int) -> Figures:
    """Count the operations per clock cycle of units with one lane and with several.

    Keys are checked and inserted with all lanes full. The streams are random keys, random keys of
    which half are one hot key, a single key, the keys of a single shard, and TRACES. Every verdict
    is compared with the golden model.

    \b
    Examples:
      python -m campaigns lanes
      python -m campaigns lanes examples/flights_2013.csv.gz --json
      python -m campaigns lanes --preset four-lanes --operations 1000000
    """
    from lately.golden import preset

    from ..lane_rates import drawn_streams, file_streams, measure

    specs = {name: preset(name) for name in presets}
    streams = drawn_streams(operations, specs.values()) | dict(file_streams(traces))
    return measure(specs, streams, progress=echo_stage)
