"""Writes boards.md and its data: `python docs/make_boards.py [REPORT]...`.

REPORT is a build.json that `lately build` left, and takes the place of the board's earlier one in
boards.json. Without arguments, the page is written anew from those data.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from lately.boards.targets.catalogue import BOARDS, Board
from lately.golden.files import replace_file
from lately.studies.markdown import table as markdown

HERE = Path(__file__).parent
DATA = HERE / "boards.json"
PAGE = HERE / "boards.md"

HEAD = """\
# Boards

    lately build --list
    lately build --board icebreaker
    lately program --board icebreaker

`lately build` takes a filter unit with a serial port, and a self-test, to the bitstream of a board,
with yosys and nextpnr as PyPI has them; nothing else need be installed. `lately program` loads it,
and needs [openFPGALoader](https://trabucayre.github.io/openFPGALoader/) on PATH.

**Nothing here has been tried on a board.** The bitstreams are what the tools make, and their clocks
are within static timing, which
[leaves some things out](performance.md#what-static-timing-leaves-out).

## Bitstreams

What `lately build --board NAME` makes with nothing else asked. 'Clock' is that of the unit and of
all around it, in MHz; 'timing' is what post-route static timing allows. LUTs are tables of four
inputs, a carry cell of an ECP5 counted as two; all counts are of the whole device, link and
self-test included. The window is in insertions. 'Outside the unit' is all but the filter itself.

{table}
{caveats}{paths}
Versions: {versions}.

"""

BOARD = """\
### {board.name}

{board.description}, as amaranth-boards has it in `{board.platform}`.

{pins}
"""

PINS = """\
## Clock, reset and pins

A PLL makes the clock from the board's oscillator. `--clock MHZ` asks for another one, and gets the
nearest that the PLL makes. The build fails, and leaves no bitstream, if static timing does not
allow it; `--seeds 1-5` tries several placements, and takes the first that is fast enough.

Reset lasts from configuration, or from the loss of the PLL's lock or the press of the button, to
{startup:.0f} us after the end of these. It does not clear the memories, but the unit does so
after it, and takes no operations meanwhile.

Of the lights, *alive* blinks about once in a second, *hit* is lit for a moment when a key is
reported, and *fault* while the last self-test failed, or for a moment after a damaged frame.

{boards}
"""

TAIL = """\
## What is left in the directory

`build/NAME`, or what `--out` says, has the bitstream; `filter.toml`, which the option `--spec` of
`lately host` takes; the file of the pins; the logs of yosys and nextpnr; and `build.json` with all
figures, which `--json` prints too. The files appear together or not at all: after a failure, what
an earlier build left is still there.

The same board, filter, clock, baud rate and seed give the same bitstream with the same versions of
the tools.

## Loading

`lately program` calls openFPGALoader with the name that it has for the board, and with the
bitstream in `build/NAME` or that of `--file`. A ULX3S and a Tang Nano 9K forget it when they lose
power; on an iCEBreaker and an iCE40-HX8K-B-EVN it is written to the flash, from which the jumpers
of the latter must let the FPGA read; an OrangeCrab takes it through the USB bootloader, which it
enters when its button is held while it is plugged in.

## This page

    lately build --board NAME
    python docs/make_boards.py build/*/build.json
"""


def table(reports: list[dict[str, Any]]) -> str:
    """Lay out the figures of all boards."""
    header = ["board", "device", "clock", "timing", "seed", "baud", "filter", "keys", "window"]
    rows = [
        [
            f"`{report['board']}`",
            report["device"],
            f"{report['clock_mhz']:g}",
            f"{report['fmax_mhz']:.1f}",
            str(report["seed"]),
            f"{report['baud']:,}",
            report["spec"]["family"],
            f"{report['spec']['key_bits']} bits",
            f"{report['spec']['window']:,}",
            *(f"{report[name]:,}" for name in ("lut", "ff", "bram")),
        ]
        for report in reports
    ]
    return markdown([*header, "LUTs", "flip-flops", "block RAMs"], rows)


def caveats(reports: list[dict[str, Any]]) -> str:
    """Lay out what is to be said of the timing of boards."""
    return "".join(
        f"**{report['board']}:** {report['caveat']}.\n\n" for report in reports if report["caveat"]
    )


def paths(reports: list[dict[str, Any]]) -> str:
    """Lay out the critical paths."""
    rows = [[f"`{report['board']}`", report["critical_path"]] for report in reports]
    return markdown(["board", "slowest path"], rows)


def versions(reports: list[dict[str, Any]]) -> str:
    """Name every tool once, for each version that was at work."""
    pairs = sorted({pair for report in reports for pair in report["versions"].items()})
    return ", ".join(f"{tool} {version}" for tool, version in pairs)


def pins(board: Board) -> str:
    """Lay out where things are on a board."""
    rows = [
        ["serial port", board.link],
        ["alive, hit, fault", ", ".join(f"`{p.name}` {p.number}" for p in board.lights)],
        ["reset", f"`{board.reset.name}` {board.reset.number}" if board.reset else "none"],
        ["openFPGALoader", f"`-b {board.loader}`"],
    ]
    return markdown(["", ""], rows)


def page(reports: list[dict[str, Any]]) -> str:
    """Return the page."""
    from lately.boards.targets.top import STARTUP_S

    boards = "\n".join(BOARD.format(board=board, pins=pins(board)) for board in BOARDS.values())
    head = HEAD.format(
        table=table(reports),
        caveats=caveats(reports),
        paths=paths(reports),
        versions=versions(reports),
    )
    return head + PINS.format(startup=STARTUP_S * 1e6, boards=boards) + TAIL


def load(path: Path) -> list[dict[str, Any]]:
    """Return the recorded reports."""
    reports: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return reports


def out_of_date() -> str | None:
    """Say what does not go with boards.json; None if all is well."""
    if PAGE.exists() and PAGE.read_text("utf-8") == page(load(DATA)):
        return None
    return "out of date: docs/boards.md; run python docs/make_boards.py"


def write(reports: list[dict[str, Any]]) -> None:
    """Write data and page, the boards in their order, those that are no more left out."""
    known = {report["board"]: report for report in reports}
    kept = [known[name] for name in BOARDS if name in known]
    with replace_file(DATA) as file:
        file.write(json.dumps(kept, indent=1).encode() + b"\n")
    with replace_file(PAGE) as file:
        file.write(page(kept).encode())


def main() -> None:
    """Take over the reports that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="*", type=Path, help="build.json")
    recorded = load(DATA) if DATA.exists() else []
    added = [json.loads(path.read_text("utf-8")) for path in parser.parse_args().reports]
    write(recorded + added)


if __name__ == "__main__":
    main()
