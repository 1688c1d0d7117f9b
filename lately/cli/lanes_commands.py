"""Command that measures units of several lanes."""

import click

from .options import json_option, out_file_option, print_json
from .progress import echo_stage
from .reporting import fail_unless_zero

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
@click.option(
    "--operations",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="Length of the random streams.",
)
@out_file_option
@json_option
def bench_lanes(
    *,
    traces: tuple[str, ...],
    presets: tuple[str, ...],
    operations: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Count the operations per clock cycle of units with one lane and with several.

    Keys are checked and inserted with all lanes full. The streams are random keys, random keys of
    which half are one hot key, a single key, the keys of a single shard, and TRACES. Every verdict
    is compared with the golden model.

    \b
    Examples:
      lately bench lanes
      lately bench lanes examples/flights_2013.csv.gz --json
      lately bench lanes --preset four-lanes --operations 1000000
    """
    from ..benchmarks.lane_rates import drawn_streams, file_streams, measure
    from ..golden import preset
    from ..golden.files import check_folder, write_json

    if out is not None:
        check_folder(out)
    specs = {name: preset(name) for name in presets}
    streams = drawn_streams(operations, specs.values()) | dict(file_streams(traces))
    figures = measure(specs, streams, progress=echo_stage)
    if out is not None:
        write_json(figures, out)
    if as_json:
        print_json(figures)
    else:
        from .bench_tables import print_lanes

        print_lanes(figures)
    fail_unless_zero("mismatches", sum(run["mismatches"] for run in figures["runs"]))
