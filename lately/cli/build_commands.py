"""Commands that build bitstreams and load them into boards."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from .options import (
    baud_option,
    check_option,
    choose_unit,
    clock_option,
    filter_options,
    folder_option,
    json_option,
    listed_option,
    parse_seeds,
    protect_option,
    strict_option,
    time_limit_option,
)
from .progress import stage_bar
from .reporting import CheckError, OneLineCommand, require
from .tables import show

if TYPE_CHECKING:
    from ..boards.targets.catalogue import Board

LOADER = "openFPGALoader"
"""Program that loads bitstreams; it must be on PATH."""


@click.command("build", cls=OneLineCommand, short_help="Build the bitstream of a board.")
@listed_option("--board name", "boards", "Target board; see `lately list boards`.")
@filter_options("the board's")
@clock_option("the board's, which the PLL makes")
@baud_option(None)
@click.option(
    "--placement-seeds",
    "seeds",
    metavar="LIST",
    help="Placement seeds, such as 1-5 or 1,3, tried in turn until timing is met.  "
    "[default: the board's]",
)
@strict_option
@protect_option
@check_option
@time_limit_option
@folder_option("Folder for bitstream and report.  [default: build/BOARD]")
@json_option
def build(
    *,
    name: str | None,
    spec: str | None,
    preset: str | None,
    clock: float | None,
    baud: int | None,
    seeds: str | None,
    folder: str | None,
    as_json: bool,
    **flow: Any,
) -> None:
    """Build the bitstream of a filter with a serial port for a board.

    Fails if static timing after routing, or the vendor's limit for the clock
    tree and the block RAMs, does not allow the clock. The same options and the
    same versions of the tools give the same bitstream.

    \b
    Examples:
      lately build --board icebreaker --preset tiny
      lately build --board ulx3s-85f --clock 125 --placement-seeds 1-5 --baud 3000000
      lately build --board orangecrab-25f --spec filter.toml --out-dir here --json
    """
    target = _board(name)
    given = spec is not None or preset is not None
    changed: dict[str, Any] = {
        "spec": choose_unit(spec, preset) if given else None,
        "seeds": tuple(parse_seeds(seeds, "--placement-seeds")) if seeds else None,
        "clock_mhz": clock,
        "baud": baud,
    }
    target = replace(target, **{key: value for key, value in changed.items() if value is not None})
    require("amaranth", "synth")
    from ..boards.targets.build import TimingError
    from ..boards.targets.build import build as build_board

    flow["directory"] = folder or _default_directory(target)
    try:
        with stage_bar("synthesis") as progress:
            report = build_board(target, progress=progress, **flow)
    except TimingError as error:
        raise CheckError(str(error)) from None
    bitstream = os.path.join(flow["directory"], report.files[0])
    show(as_json, report.to_dict(), "build", {"report": report, "bitstream": bitstream})


@click.command("program", cls=OneLineCommand, short_help="Load a bitstream into a board.")
@listed_option("--board name", "boards", "Target board; see `lately list boards`.")
@click.option(
    "--file", "path", type=click.Path(), metavar="FILE",
    help="Bitstream.  [default: from `lately build`]",
)  # fmt: skip
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
            f"bitstream {path} not found; `lately build --board {target.name}` makes one"
        )
    loader = shutil.which(LOADER)
    if loader is None:
        raise click.ClickException(f"{LOADER} not found on PATH; install it to load a board")
    status = subprocess.run([loader, "-b", target.loader, path], check=False).returncode
    if status:
        raise click.ClickException(f"{LOADER}: failed with exit status {status}")


def _board(name: str | None) -> "Board":
    if name is None:
        raise click.UsageError("give --board; `lately list boards` names the boards")
    from ..boards.targets.catalogue import board

    return board(name)


def _default_directory(board: "Board") -> str:
    return os.path.join("build", board.name)
