"""Figures for the terminal."""

import os
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..golden.spec import FilterSpec
from ..replay.report import class_rows, count_text, interval_text, rate_text
from ..replay.run import RunResult

if TYPE_CHECKING:
    from ..boards.flow.build import BuildReport
    from ..boards.flow.synthesis import Placement, SynthesisReport
    from ..sim.proofs.formal import Proof, Record


def terminal() -> Any:
    """Return a console for standard output; lines for a pipe are not broken.

    COLUMNS in the environment gives another width.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # Lines for a program or a pager must not be broken to a width that nobody has.
        console.width = 160
    return console


def head_table(*left: str, right: tuple[str, ...]) -> Any:
    """Return an empty table with a head, of the columns `left` and `right`-aligned ones."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right")
    return table


def figure_table(rows: list[tuple[str, str, str]]) -> Any:
    """Return a table of figures: their names, values and notes."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for name, value, note in rows:
        # Text, because a file name in brackets would be taken for markup.
        table.add_row(Text(name), Text(value), Text(note))
    return table


def print_figures(name: str, figures: dict[str, Any]) -> None:
    """Print figures in the tables that ``tables.toml`` lays out under a name."""
    layout = _layouts()[name]
    console = terminal()
    facts = figure_table(
        [
            (_cell(name, figures), _cell(value, figures), _cell(note, figures))
            for name, value, note in layout.get("figures", ())
            if _cell(name, figures)
        ]
    )
    table = None
    if "rows" in layout:
        table = head_table(*layout["left"], right=tuple(layout["right"]))
        for number, row in enumerate(figures[layout["rows"]], 1):
            cells = (*layout["left"].values(), *layout["right"].values())
            values = {"number": number, "figures": figures, **row}
            table.add_row(*(_cell(cell, values) for cell in cells))
    for one in (facts, table) if layout.get("facts_first") else (table, facts):
        if one is not None and one.row_count:
            console.print(one)


@cache
def _layouts() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("tables.toml").read_text("utf-8"))


def _cell(template: str, values: dict[str, Any]) -> str:
    return str(_environment().from_string(template).render(values))


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment()
    environment.filters |= {
        "count": count_text,
        "rate": rate_text,
        "interval": interval_text,
        "fixed": lambda value, digits: f"{value:,.{digits}f}",
        # Rates of the filters of other libraries.
        "others": lambda runs: [
            run["keys_per_second"] for run in runs if run["runs"] not in ("compiled", "numpy")
        ],
        # More digits where two decimals would be zeros.
        "two_digits": lambda value: f"{value:.2f}" if value >= 0.1 else f"{value:.2g}",
    }
    return environment


def print_result(result: RunResult) -> None:
    """Print key figures and verdict classes on standard output."""
    figures = result.figures()
    shown = figures["source"] | {"shown": ascii(figures["source"]["name"])[1:-1]}
    print_figures("run", figures | {"source": shown, "classes": class_rows(result)})


def print_synthesis(report: "SynthesisReport", spec: FilterSpec) -> None:
    """Print the resources that a unit takes on a device, and its speed there."""
    terminal().print(figure_table(_synthesis_rows(report, spec)))


def print_proofs(proofs: "list[Proof]") -> None:
    """Print the properties that can be proven."""
    rows = [(proof.name, proof.statement, f"Of: {proof.design}.") for proof in proofs]
    terminal().print("\n".join("\n    ".join(row) for row in rows), soft_wrap=True, markup=False)


def print_records(records: "list[Record]") -> None:
    """Print the outcome, method and duration of proofs."""
    table = head_table("proof", "status", "how", right=("frames", "seconds"))
    for record in records:
        depth = "" if record.depth is None else str(record.depth)
        table.add_row(
            record.proof.name,
            record.status,
            str(record.proof.method),
            depth,
            f"{record.seconds:.1f}",
        )
    terminal().print(table)


def print_devices() -> None:
    """Print the devices that units are placed and routed for."""
    from ..boards.flow.devices import DEVICES

    table = head_table("device", "part", right=("LUTs", "block RAMs", "bits of one"))
    for device in DEVICES.values():
        sizes = (count_text(size) for size in (device.lut, device.bram, device.bram_bits))
        table.add_row(device.name, device.description, *sizes)
    terminal().print(table)


def print_boards() -> None:
    """Print the boards that bitstreams are built for, with their default settings."""
    from ..boards.targets.catalogue import BOARDS

    table = head_table("board", "", "device", right=("MHz", "baud", "window"))
    for board in BOARDS.values():
        texts = (f"{board.clock_mhz:g}", count_text(board.baud), count_text(board.spec.window))
        table.add_row(board.name, board.description, board.device.name, *texts)
    terminal().print(table)


def print_build(report: "BuildReport", directory: str) -> None:
    """Print the contents and the place of a bitstream.

    Parameters
    ----------
    report : BuildReport
    directory : str
        Folder of the bitstream.
    """
    terminal().print(figure_table(_build_rows(report, directory)))


def _synthesis_rows(report: "SynthesisReport", spec: FilterSpec) -> list[tuple[str, str, str]]:
    caveat = [("caveat", "", report.caveat)] if report.caveat else []
    return [
        ("device", report.device, f"{spec.family}, {spec.storage_bits:,} bits, seed {report.seed}"),
        ("clock", f"{report.fmax_mhz:.1f} MHz", _clock_note(report)),
        (
            "operations",
            f"{report.operations_per_second / 1e6:.1f} M/s",
            f"{report.lanes} per clock, {report.latency_cycles} clocks of latency",
        ),
        ("LUTs", count_text(report.lut), f"and {report.harness_lut:,} of the harness"),
        ("flip-flops", count_text(report.ff), f"and {report.harness_ff:,} of the harness"),
        ("block RAMs", count_text(report.bram), ""),
        ("critical path", "", report.critical_path),
        *caveat,
        ("versions", "", ", ".join(f"{tool} {v}" for tool, v in report.versions.items())),
    ]


def _clock_note(report: "Placement") -> str:
    return (
        f"static timing allows {report.timing_mhz:.1f}, "
        f"the vendor {report.limit_mhz:g} ({report.limit})"
    )


def _build_rows(report: "BuildReport", directory: str) -> list[tuple[str, str, str]]:
    spec = report.spec
    caveat = [("caveat", "", report.caveat)] if report.caveat else []
    return [
        ("board", report.board, f"{report.device}, seed {report.seed}"),
        ("filter", spec["family"], f"window of {spec['window']:,} insertions"),
        ("clock", f"{report.clock_mhz:g} MHz", _clock_note(report)),
        ("serial port", count_text(report.baud), "baud"),
        ("LUTs", count_text(report.lut), "of all that is on the device"),
        ("flip-flops", count_text(report.ff), ""),
        ("block RAMs", count_text(report.bram), ""),
        ("critical path", "", report.critical_path),
        *caveat,
        ("versions", "", ", ".join(f"{tool} {v}" for tool, v in report.versions.items())),
        ("bitstream", "", os.path.join(directory, report.files[0])),
    ]
