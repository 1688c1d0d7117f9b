"""Figures for the terminal."""

import os
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


def print_result(result: RunResult) -> None:
    """Print key figures and verdict classes on standard output."""
    console = terminal()
    console.print(figure_table(_figure_rows(result.figures(), result)))
    console.print(_class_table(result))


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


def _figure_rows(figures: dict[str, Any], result: RunResult) -> list[tuple[str, str, str]]:
    hardware = []
    if result.cycles is not None:
        per_operation = f"{figures['cycles_per_operation']:.4f} per operation"
        memory = f"{count_text(result.memory_mismatches)} bits of memory"
        hardware = [
            ("clock cycles", count_text(result.cycles), per_operation),
            (
                "mismatches",
                count_text(result.mismatches),
                f"verdicts, RTL against golden; {memory}",
            ),
        ]
    guaranteed = f"of {figures['guaranteed_queries']:,} guaranteed"
    within = f"of {result.repeats:,} within {result.spec.window:,} insertions"
    rates = (
        f"of random keys ({interval_text(figures['probe_false_positive_interval'])}); "
        f"{rate_text(figures['estimated_false_positive_rate'])} from the bits set, "
        f"{rate_text(figures['predicted_false_positive_rate'])} predicted for distinct keys"
    )
    speed = f"{figures['operations_per_second']:,.0f} operations/s"
    return [
        ("operations", count_text(result.operations), _source_note(figures)),
        *hardware,
        ("shifts", count_text(result.shifts), f"one per {result.spec.generation:,} insertions"),
        ("false negatives", count_text(result.false_negatives), guaranteed),
        ("repeats found", count_text(result.repeats_found), within),
        ("false-positive rate", rate_text(figures["probe_false_positive_rate"]), rates),
        ("distinct keys", count_text(result.distinct_keys), _collision_note(figures)),
        ("malformed lines", count_text(result.malformed_lines), _malformed_note(result)),
        ("time", f"{result.seconds:.2f} s", speed),
    ]


def _class_table(result: RunResult) -> Any:
    names = ("queries", "seen", "not seen", "share seen", "95% interval", "expected")
    table = head_table("class", right=names)
    for row in class_rows(result):
        counts = (count_text(row[name]) for name in ("queries", "seen", "not_seen"))
        rates = (rate_text(row["share"]), interval_text(row["interval"]), row["expected"])
        table.add_row(row["name"], *counts, *rates)
    return table


def _source_note(figures: dict[str, Any]) -> str:
    source = figures["source"]
    key = f", key {' + '.join(source['key'])}" if source["key"] else ""
    return ascii(source["name"])[1:-1] + f" ({source['format']}{key})"


def _collision_note(figures: dict[str, Any]) -> str:
    colliding = figures["colliding_keys"]
    return f"{colliding:,} texts share a key with another" if colliding else ""


def _malformed_note(result: RunResult) -> str:
    if not result.malformed_examples:
        return ""
    line, reason = result.malformed_examples[0]
    return f"line {line}: {reason}"
