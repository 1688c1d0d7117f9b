"""Command that measures units of several lanes."""

import json
from typing import TYPE_CHECKING

import click

from .progress_bars import watched

if TYPE_CHECKING:
    from ..bench.lane_rates import Progress

PRESETS = ("default", "two-lanes", "four-lanes")
"""What is measured unless specifications are named."""


@click.command("lanes", short_help="Operations per clock of one, two and four lanes.")
@click.argument("traces", nargs=-1)
@click.option(
    "--preset",
    "presets",
    metavar="NAME",
    multiple=True,
    default=PRESETS,
    show_default=True,
    help="Unit, by name; may be repeated.",
)
@click.option(
    "--operations",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="Of the streams that are drawn.",
)
@click.option("--out", metavar="FILE", help="Write the figures there, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def bench_lanes(
    *,
    traces: tuple[str, ...],
    presets: tuple[str, ...],
    operations: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Count the operations per clock of units of one and of several lanes.

    Keys are checked and inserted with all lanes full: random ones, half of them one hot key, one
    key alone, those of one shard alone, and those of TRACES. Every verdict is held against the
    golden model.

    \b
    Examples:
      lately bench lanes
      lately bench lanes examples/flights_2013.csv.gz --json
      lately bench lanes --preset four-lanes --operations 1000000
    """
    from ..bench.lane_rates import drawn_streams, file_streams, measure
    from ..golden import preset
    from ..golden.files import check_folder, write_json

    if out is not None:
        check_folder(out)
    specs = {name: preset(name) for name in presets}
    streams = drawn_streams(operations, specs.values()) | dict(file_streams(traces))
    figures = measure(specs, streams, progress=_progress())
    if out is not None:
        write_json(figures, out)
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        from .tables import print_lanes

        print_lanes(figures)
    wrong = sum(run["mismatches"] for run in figures["runs"])
    if wrong:
        raise click.ClickException(f"mismatches: must be 0, not {wrong}")


def _progress() -> "Progress":
    if not watched():
        return lambda name, stream: None
    return lambda name, stream: click.echo(f"{name}: {stream}", err=True)
