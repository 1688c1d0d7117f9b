"""Commands that build bitstreams and load them into boards."""

import json
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..boards.targets.catalogue import Board

LOADER = "openFPGALoader"
"""Program that loads bitstreams; it must be on PATH."""


@click.command("build", short_help="Build the bitstream of a board.")
@click.option("--board", "name", metavar="NAME", help="Board; --list names them.")
@click.option("--spec", metavar="FILE", help="Filter, as TOML.  [default: the board's]")
@click.option("--preset", metavar="NAME", help="Filter, by name.")
@click.option(
    "--clock",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MHZ",
    help="Clock of the unit, or the nearest that the PLL makes.  [default: the board's]",
)
@click.option(
    "--baud", type=int, metavar="N", help="Rate of the serial port.  [default: the board's]"
)
@click.option(
    "--seeds",
    metavar="LIST",
    default="1",
    show_default=True,
    help="Of the placement, such as 1-5 or 1,3: tried in turn until the clock is reached.",
)
@click.option(
    "--out", metavar="DIR", help="Where to leave bitstream and report.  [default: build/BOARD]"
)
@click.option("--list", "list_boards", is_flag=True, help="Name the boards and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def build(
    *,
    name: str | None,
    spec: str | None,
    preset: str | None,
    clock: float | None,
    baud: int | None,
    seeds: str,
    out: str | None,
    list_boards: bool,
    as_json: bool,
) -> None:
    """Build the bitstream of a filter with a serial port for a board.

    Fails if the static timing of the routed design does not allow the clock.
    The same options and the same versions of the tools give the same
    bitstream.

    \b
    Examples:
      lately build --list
      lately build --board icebreaker
      lately build --board ulx3s-85f --clock 225 --seeds 1-5 --baud 3000000
      lately build --board orangecrab-25f --spec filter.toml --out here --json
    """
    from ..boards.targets.catalogue import BOARDS

    if list_boards:
        from .tables import print_boards

        click.echo(json.dumps(list(BOARDS))) if as_json else print_boards()
        return
    target = _board(name)
    from . import app as cli

    given = spec is not None or preset is not None
    chosen = cli._choose_spec(spec, preset, None, None) if given else None
    tries = cli._seeds(seeds)
    from ..boards.flow.build import build as build_board

    directory = out or _default_directory(target)
    with cli._stages() as progress:
        report = build_board(
            target,
            directory=directory,
            spec=chosen,
            clock_mhz=clock,
            baud=baud,
            seeds=tries,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps(report.to_dict(), allow_nan=False))
    else:
        from .tables import print_build

        print_build(report, directory)


@click.command("program", short_help="Load a bitstream into a board.")
@click.option("--board", "name", metavar="NAME", help="Board; `lately build --list` names them.")
@click.option(
    "--file", "path", metavar="FILE", help="Bitstream.  [default: what `lately build` left]"
)
def program(*, name: str | None, path: str | None) -> None:
    """Load a bitstream into a board with openFPGALoader, which must be on PATH.

    \b
    Examples:
      lately program --board icebreaker
      lately program --board ulx3s-85f --file here/ulx3s-85f.bit
    """
    import shutil
    import subprocess

    target = _board(name)
    path = path or os.path.join(_default_directory(target), target.bitstream)
    if not os.path.isfile(path):
        raise click.ClickException(
            f"file: expected a bitstream, found no file {path}; "
            f"`lately build --board {target.name}` makes one"
        )
    loader = shutil.which(LOADER)
    if loader is None:
        raise click.ClickException(f"{LOADER}: expected it on PATH to load the board, found none")
    status = subprocess.run([loader, "-b", target.loader, path], check=False).returncode
    if status:
        raise click.ClickException(f"{LOADER}: failed with exit status {status}")


def _board(name: str | None) -> "Board":
    if name is None:
        raise click.UsageError("give --board; `lately build --list` names the boards")
    from ..boards.targets.catalogue import board

    return board(name)


def _default_directory(board: "Board") -> str:
    return os.path.join("build", board.name)
