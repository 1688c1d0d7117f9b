"""Figures for the terminal."""

import os
from typing import TYPE_CHECKING, Any

from ..golden.spec import FilterSpec
from ..replay.report import class_rows, count_text, interval_text, rate_text
from ..replay.run import RunResult

if TYPE_CHECKING:
    from ..bench.cases import Case
    from ..bench.hardware import Outcome
    from ..bench.measurements import Comparison, Summary
    from ..boards.flow.build import BuildReport
    from ..boards.flow.synthesis import SynthesisReport
    from ..sim.proofs.formal import Proof, Record
    from ..studies.records import Entry, Report
    from ..studies.study import Study


def print_result(result: RunResult) -> None:
    """Print key figures and verdict classes on standard output."""
    console = _console()
    console.print(_figure_table(_figure_rows(result.figures(), result)))
    console.print(_class_table(result))


def print_synthesis(report: "SynthesisReport", spec: FilterSpec) -> None:
    """Print what a unit takes on a device, and how fast it is there.

    Parameters
    ----------
    report : SynthesisReport
    spec : FilterSpec
    """
    _console().print(_figure_table(_synthesis_rows(report, spec)))


def print_proofs(proofs: "list[Proof]") -> None:
    """Print what there is to prove.

    Parameters
    ----------
    proofs : list of Proof
    """
    rows = [(proof.name, proof.statement, f"Of: {proof.design}.") for proof in proofs]
    _console().print("\n".join("\n    ".join(row) for row in rows), soft_wrap=True, markup=False)


def print_records(records: "list[Record]") -> None:
    """Print what was proven, how, and how long it took.

    Parameters
    ----------
    records : list of Record
    """
    table = _head_table("proof", "status", "how", right=("frames", "seconds"))
    for record in records:
        depth = "" if record.depth is None else str(record.depth)
        table.add_row(
            record.proof.name,
            record.status,
            str(record.proof.method),
            depth,
            f"{record.seconds:.1f}",
        )
    _console().print(table)


def print_replay(figures: dict[str, Any]) -> None:
    """Print how fast the compiled replay is.

    Parameters
    ----------
    figures : dict
        As `bench.replay` returns them.
    """
    rows = [
        ("operations", count_text(figures["operations"]), f"in each of {figures['rounds']} rounds"),
        ("mismatches", count_text(figures["mismatches"]), "verdicts, RTL against golden"),
        ("clocks", f"{figures['cycles_per_operation']:.4f}", "per operation"),
        ("opening", f"{figures['open_seconds']:.2f} s", "compiled now, or found in the cache"),
    ]
    for name in ("replay", "golden"):
        low, high = figures["range"][name]
        rate = figures[f"{name}_operations_per_second"]
        rows.append((name, f"{rate:,.0f}", f"operations/s, median ({low:,.0f} to {high:,.0f})"))
    rows.append(("ratio", f"{figures['ratio']:.2f}", "replay to golden"))
    _console().print(_figure_table(rows))


def print_lanes(figures: dict[str, Any]) -> None:
    """Print how many operations units perform per clock.

    Parameters
    ----------
    figures : dict
        As `lanes.measure` returns them.
    """
    table = _head_table("unit", "stream", right=("operations", "clocks", "per clock", "mismatches"))
    for run in figures["runs"]:
        counts = (count_text(run[name]) for name in ("operations", "clocks"))
        rate = f"{run['operations_per_clock']:.3f}"
        table.add_row(run["name"], run["stream"], *counts, rate, count_text(run["mismatches"]))
    _console().print(table)


def print_speed(figures: dict[str, Any]) -> None:
    """Print how fast the golden models are beside other filters.

    Parameters
    ----------
    figures : dict
        What `lately.bench.golden_speed.measure` returned.
    """
    right = ("M keys/s", "ratio", "false positives", "false negatives", "KiB")
    table = _head_table("filter", "runs", right=right)
    others = [run for run in figures["runs"] if run["runs"] not in ("compiled", "numpy")]
    fastest = max(run["keys_per_second"] for run in others)
    for run in figures["runs"]:
        rate = run["false_positive_rate"]
        table.add_row(
            run["name"],
            run["runs"],
            _two_digits(run["keys_per_second"] / 1e6),
            _two_digits(run["keys_per_second"] / fastest),
            "" if rate is None else rate_text(rate),
            count_text(run["false_negatives"]),
            f"{run['memory_bits'] / 8192:.1f}",
        )
    console = _console()
    console.print(table)
    rows = [
        (name, f"{sum(seconds):.1f} s", "import and first answers of all models")
        for name, seconds in figures["first_answer"].items()
    ]
    rows.insert(0, ("ratio of 1", f"{fastest / 1e6:.2f} M keys/s", "the fastest other library"))
    rows.append(("processor", figures["processor"], f"seed {figures['seed']}"))
    console.print(_figure_table(rows))


def _two_digits(value: float) -> str:
    """Return two decimals, or more where they would all be zeros."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def print_stream(figures: dict[str, Any]) -> None:
    """Print what each part of a long stream cost.

    Parameters
    ----------
    figures : dict
        What `lately.bench.endless.measure` returned.
    """
    right = ("insertions", "queries", "CPU s", "ns each", "false negatives", "peak MiB")
    table = _head_table("part", right=right)
    for number, part in enumerate(figures["parts"], 1):
        queries = part["queries_of_the_window"] + part["queries_of_others"]
        table.add_row(
            str(number),
            count_text(part["insertions"]),
            count_text(queries),
            f"{part['cpu_seconds']:.2f}",
            f"{part['cpu_seconds'] / (part['insertions'] + queries) * 1e9:.1f}",
            count_text(part["false_negatives"]),
            f"{part['peak_bytes'] / 2**20:.0f}",
        )
    console = _console()
    console.print(table)
    total = sum(part["cpu_seconds"] for part in figures["parts"])
    compiled = "compiled" if figures["compiled"] else "numpy"
    console.print(
        _figure_table(
            [
                ("model", figures["model"], compiled),
                (
                    "CPU time",
                    f"{total:.1f} s",
                    f"{figures['cpu_seconds']:.1f} s with drawing the keys",
                ),
                (
                    "peak memory",
                    f"{figures['peak_bytes'] / 2**20:.0f} MiB",
                    f"{figures['peak_bytes_before'] / 2**20:.0f} MiB before the stream",
                ),
            ]
        )
    )


def print_soak(figures: dict[str, Any]) -> None:
    """Print what a long run compared.

    Parameters
    ----------
    figures : dict
        As `soak.soak` returns them.
    """
    mismatches = figures["mismatches"]
    comparisons = figures["memory_comparisons"]
    rows = [
        ("operations", count_text(figures["operations"]), f"seed {figures['seed']}"),
        ("clocks", count_text(figures["cycles"]), f"{figures['seconds']:.0f} s"),
        ("verdicts", count_text(mismatches["verdicts"]), "mismatches, RTL against golden"),
        ("ages", count_text(mismatches["ages"]), "mismatches"),
        ("counters", count_text(mismatches["counters"]), "mismatches"),
        (
            "memory",
            count_text(mismatches["memory_bits"]),
            f"mismatches in {comparisons} times {count_text(figures['memory_bits'])} bits",
        ),
        (
            "hits",
            count_text(figures["hits"]),
            "at every age" if all(figures["hits_by_age"]) else "",
        ),
        (
            "shifts",
            count_text(figures["shifts"]),
            f"{count_text(figures['ring_turns'])} ring turns",
        ),
        ("clears", count_text(figures["clears"]), f"{figures['rekeys']} secrets"),
    ]
    _console().print(_figure_table(rows))


def print_devices() -> None:
    """Print the devices that units are placed and routed for."""
    from ..boards.flow.devices import DEVICES

    table = _head_table("device", "part", right=("LUTs", "block RAMs", "bits of one"))
    for device in DEVICES.values():
        sizes = (count_text(size) for size in (device.lut, device.bram, device.bram_bits))
        table.add_row(device.name, device.description, *sizes)
    _console().print(table)


def print_boards() -> None:
    """Print the boards that bitstreams are built for, and what is built if nothing is asked."""
    from ..boards.targets.catalogue import BOARDS

    table = _head_table("board", "", "device", right=("MHz", "baud", "window"))
    for board in BOARDS.values():
        texts = (f"{board.clock_mhz:g}", count_text(board.baud), count_text(board.spec.window))
        table.add_row(board.name, board.description, board.device.name, *texts)
    _console().print(table)


def print_build(report: "BuildReport", directory: str) -> None:
    """Print what a bitstream is, and where.

    Parameters
    ----------
    report : BuildReport
    directory : str
        Where the bitstream is.
    """
    _console().print(_figure_table(_build_rows(report, directory)))


def print_cases(cases: "list[Case]") -> None:
    """Print what is measured and what is asked of it.

    Parameters
    ----------
    cases : list of Case
    """
    table = _head_table(
        "case",
        "group",
        right=("window", "seeds", "MHz, least", "aim", "LUTs, most", "aim", "block RAMs, most"),
    )
    for case in cases:
        limits = (case.floor_mhz, case.aim_mhz, case.floor_lut, case.aim_lut, case.floor_bram)
        sizes = (case.spec.window, len(case.seeds))
        texts = ("" if limit is None else count_text(limit) for limit in (*sizes, *limits))
        table.add_row(case.name, case.group, *texts)
    _console().print(table)


def print_studies(studies: "list[Study]") -> None:
    """Print what of the papers there is to reproduce.

    Parameters
    ----------
    studies : list of Study
    """
    table = _head_table("study", "", "source", right=())
    # The name is what one types: it is never cut.
    table.columns[0].min_width = max(len(study.name) for study in studies)
    for study in studies:
        table.add_row(study.name, study.title, study.source)
    _console().print(table)


def print_reproduction(report: "Report") -> None:
    """Print findings beside what the papers have.

    Parameters
    ----------
    report : Report
    """
    from ..studies.page import summary_line

    console = _console()
    for entry in report.entries:
        console.print(f"{entry.title} ({entry.source})", markup=False, style="bold")
        console.print(_findings_table(entry))
    console.print(summary_line(report), markup=False)


def _findings_table(entry: "Entry") -> Any:
    from rich.text import Text

    from ..studies.page import NOTHING, interval_text, value_text

    table = _head_table("", right=("paper", "ours", "95% interval"))
    table.columns[0].no_wrap = False
    table.add_column("verdict", no_wrap=True)
    colours = {"met": "green", "near": "yellow", "not met": "red"}
    for finding in entry.outcome.findings:
        table.add_row(
            Text(finding.what),
            finding.paper or NOTHING,
            value_text(finding),
            interval_text(finding),
            Text(finding.verdict, colours.get(finding.verdict, "dim")),
        )
    return table


def print_hardware(outcome: "Outcome", comparison: "Comparison | None") -> None:
    """Print speed, area and critical paths of units, and how they compare.

    Parameters
    ----------
    outcome : Outcome
    comparison : Comparison or None
        With the baseline.
    """
    console = _console()
    if outcome.summaries:
        console.print(_speed_table(outcome.summaries))
        console.print(_area_table(outcome.summaries))
        paths = [(s.case.name, "", s.median.critical_path) for s in outcome.summaries]
        console.print(_figure_table(paths))
    reports = [summary.median for summary in outcome.summaries]
    for device, caveat in {report.device: report.caveat for report in reports}.items():
        if caveat:
            console.print(f"{device}: {caveat}")
    console.print(f"Runs made: {outcome.measured}, found: {outcome.found}")
    if comparison is not None:
        console.print(str(comparison))


def _speed_table(summaries: "list[Summary]") -> Any:
    table = _head_table(
        "case",
        right=("seeds", "MHz", "lowest", "highest", "asked", "", "M ops/s", "clocks", "ns"),
    )
    for summary in summaries:
        case, median, reports = summary.case, summary.median, summary.reports
        asked = "" if case.floor_mhz is None else f"{case.floor_mhz}, aim {case.aim_mhz}"
        table.add_row(
            case.name,
            str(len(summary.seeds)),
            f"{median.fmax_mhz:.1f}",
            f"{reports[0].fmax_mhz:.1f}",
            f"{reports[-1].fmax_mhz:.1f}",
            asked,
            summary.verdicts.get("fmax_mhz", ""),
            f"{median.operations_per_second / 1e6:.1f}",
            str(median.latency_cycles),
            f"{median.latency_ns:.1f}",
        )
    return table


def _area_table(summaries: "list[Summary]") -> Any:
    names = "LUTs, FFs, block RAMs"
    table = _head_table(
        "case",
        right=(*names.split(", "), "asked", "", "segments", f"{names} per segment", "per lane"),
    )
    for summary in summaries:
        median = summary.median
        table.add_row(
            summary.case.name,
            *map(count_text, (median.lut, median.ff, median.bram)),
            *_area_verdict(summary),
            str(summary.case.spec.segments),
            ", ".join(f"{value:,.1f}" for value in summary.per_segment().values()),
            ", ".join(f"{value:,.0f}" for value in summary.per_lane().values()),
        )
    return table


def _area_verdict(summary: "Summary") -> tuple[str, str]:
    case, verdicts = summary.case, summary.verdicts
    asked, met = [], []
    if case.floor_lut is not None:
        asked.append(f"{case.floor_lut} LUTs, aim {case.aim_lut}")
        met.append(verdicts["lut"])
    if case.floor_bram is not None:
        asked.append(f"{case.floor_bram} block RAMs")
        met.append(verdicts["bram"])
    return "; ".join(asked), "; ".join(met)


def _head_table(*left: str, right: tuple[str, ...]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _console() -> Any:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        # Lines for a program or a pager must not be broken to a width that nobody has.
        console.width = 160
    return console


def _figure_table(rows: list[tuple[str, str, str]]) -> Any:
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


def _synthesis_rows(report: "SynthesisReport", spec: FilterSpec) -> list[tuple[str, str, str]]:
    caveat = [("caveat", "", report.caveat)] if report.caveat else []
    return [
        ("device", report.device, f"{spec.family}, {spec.storage_bits:,} bits, seed {report.seed}"),
        ("clock", f"{report.fmax_mhz:.1f} MHz", "post-route static timing"),
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


def _build_rows(report: "BuildReport", directory: str) -> list[tuple[str, str, str]]:
    spec = report.spec
    caveat = [("caveat", "", report.caveat)] if report.caveat else []
    return [
        ("board", report.board, f"{report.device}, seed {report.seed}"),
        ("filter", spec["family"], f"window of {spec['window']:,} insertions"),
        ("clock", f"{report.clock_mhz:g} MHz", f"static timing allows {report.fmax_mhz:.1f}"),
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
    rows = [("operations", count_text(result.operations), _source_note(figures))]
    if result.cycles is not None:
        per_operation = f"{figures['cycles_per_operation']:.4f} per operation"
        rows.append(("clock cycles", count_text(result.cycles), per_operation))
        memory = (
            f"verdicts, RTL against golden; {count_text(result.memory_mismatches)} bits of memory"
        )
        rows.append(("mismatches", count_text(result.mismatches), memory))
    return [
        *rows,
        ("shifts", count_text(result.shifts), f"one per {result.spec.generation:,} insertions"),
        (
            "false negatives",
            count_text(result.false_negatives),
            f"of {figures['guaranteed_queries']:,} guaranteed",
        ),
        (
            "repeats found",
            count_text(result.repeats_found),
            f"of {result.repeats:,} within {result.spec.window:,} insertions",
        ),
        (
            "false-positive rate",
            rate_text(figures["probe_false_positive_rate"]),
            f"of random keys ({interval_text(figures['probe_false_positive_interval'])}); "
            f"{rate_text(figures['estimated_false_positive_rate'])} from the bits set, "
            f"{rate_text(figures['predicted_false_positive_rate'])} predicted for distinct keys",
        ),
        ("distinct keys", count_text(result.distinct_keys), _collision_note(figures)),
        ("malformed lines", count_text(result.malformed_lines), _malformed_note(result)),
        (
            "time",
            f"{result.seconds:.2f} s",
            f"{figures['operations_per_second']:,.0f} operations/s",
        ),
    ]


def _class_table(result: RunResult) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class")
    for name in ("queries", "seen", "not seen", "share seen", "95% interval", "expected"):
        table.add_column(name, justify="right")
    for row in class_rows(result):
        table.add_row(
            row["name"],
            count_text(row["queries"]),
            count_text(row["seen"]),
            count_text(row["not_seen"]),
            rate_text(row["share"]),
            interval_text(row["interval"]),
            row["expected"],
        )
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
