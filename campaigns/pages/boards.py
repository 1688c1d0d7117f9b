"""docs/boards.md, from results/boards.json, which takes each `build.json` that is given."""

from pathlib import Path
from typing import Any

from lately.boards.flow.synthesis import with_limits
from lately.boards.targets.catalogue import BOARDS, Board
from lately.golden import FilterSpec

from .blocks import DOCS, Page, counts, load, read, save, table, versions

DATA = "boards.json"
OTHERS = "board_filters.json"
"""Reports of bitstreams with filters of other families than the boards' own."""

BOARD = """\
### {board.name}

{board.description}, as amaranth-boards has it in `{board.platform}`.

{pins}"""


def window(spec: dict[str, Any]) -> str:
    """Say how long the window of a filter is."""
    return f"{spec['span']:,} ticks" if spec.get("span") else f"{spec['window']:,}"


def bitstreams(reports: list[dict[str, Any]]) -> str:
    """Lay out the figures of all boards."""
    header = [
        "board",
        "device",
        "clock",
        "timing",
        "limit",
        "seed",
        "baud",
        "filter",
        "keys",
        "window",
    ]
    rows = [
        [
            f"`{report['board']}`",
            report["device"],
            f"{report['clock_mhz']:g}",
            f"{report['timing_mhz']:.1f}",
            f"{report['limit_mhz']:g}",
            str(report["seed"]),
            f"{report['baud']:,}",
            report["spec"]["family"],
            f"{report['spec']['key_bits']} bits",
            window(report["spec"]),
            *counts(report[name] for name in ("lut", "ff", "bram")),
        ]
        for report in reports
    ]
    return table([*header, "LUTs", "flip-flops", "block RAMs"], rows)


def caveats(reports: list[dict[str, Any]]) -> str:
    """Say what is to be known of the timing of boards."""
    return "".join(
        f"**{report['board']}:** {report['caveat']}.\n\n" for report in reports if report["caveat"]
    )


def earlier(reports: list[dict[str, Any]]) -> str:
    """Name the bitstreams that were built with another filter than a build has now."""
    names = [
        f"`{report['board']}`"
        for report in reports
        if FilterSpec.from_dict(report["spec"]) != BOARDS[report["board"]].spec
    ]
    return f"**Built before the filter had its present memories:** {', '.join(names)}.\n" * any(
        names
    )


def pin(name: str) -> str:
    return "`{}` {}".format(*name.split())


def pins(board: Board) -> str:
    """Lay out where things are on a board."""
    rows = [
        ["serial port", board.link],
        [", ".join(board.lights) or "lights", ", ".join(map(pin, board.lights.values())) or "none"],
        ["reset", pin(board.reset) if board.reset else "none"],
        ["openFPGALoader", f"`-b {board.loader}`"],
    ]
    return table(["", ""], rows)


def blocks(reports: list[dict[str, Any]]) -> dict[str, str]:
    """Return the blocks of the page."""
    reports = [with_limits(report) for report in reports]
    paths = [[f"`{report['board']}`", report["critical_path"]] for report in reports]
    named = versions(report["versions"] for report in reports)
    parts = [
        bitstreams(reports),
        earlier(reports),
        caveats(reports),
        table(["board", "slowest path"], paths),
        named,
    ]
    return {
        "others": bitstreams([with_limits(report) for report in load(OTHERS)]),
        "bitstreams": "\n".join(part for part in parts if part).replace("\n\n\n", "\n\n"),
        "pins": "\n".join(BOARD.format(board=one, pins=pins(one)) for one in BOARDS.values()),
    }


def take(paths: list[Path]) -> None:
    """Put reports in the place of the earlier ones of their boards; boards that are gone go."""
    reports = read(paths)
    own = [report for report in reports if _is_own(report)]
    known = {report["board"]: report for report in [*load(DATA), *own]}
    save(DATA, [known[name] for name in BOARDS if name in known])
    others = [*load(OTHERS), *(report for report in reports if not _is_own(report))]
    save(OTHERS, list({(one["board"], str(one["spec"])): one for one in others}.values()))


def _is_own(report: dict[str, Any]) -> bool:
    """Whether a bitstream has a filter of the family of its board's own."""
    return bool(report["spec"]["family"] == BOARDS[report["board"]].spec.family)


PAGE = Page(DOCS / "boards.md", lambda: blocks(load(DATA)), take=take)
