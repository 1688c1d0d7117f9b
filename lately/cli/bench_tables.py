"""Measured speed and area, for the terminal."""

from typing import TYPE_CHECKING, Any

from ..replay.report import count_text, rate_text
from .tables import figure_table, head_table, terminal

if TYPE_CHECKING:
    from ..benchmarks.cases import Case
    from ..benchmarks.hardware import Outcome
    from ..benchmarks.measurements import Comparison, Summary


def print_replay(figures: dict[str, Any]) -> None:
    """Print how fast the compiled replay is."""
    low_high = "operations/s, median ({:,.0f} to {:,.0f})"
    rates = [
        (name, f"{figures[f'{name}_operations_per_second']:,.0f}", low_high.format(*ends))
        for name, ends in figures["range"].items()
    ]
    rows = [
        ("operations", count_text(figures["operations"]), f"in each of {figures['rounds']} rounds"),
        ("mismatches", count_text(figures["mismatches"]), "verdicts, RTL against golden"),
        ("clocks", f"{figures['cycles_per_operation']:.4f}", "per operation"),
        ("opening", f"{figures['open_seconds']:.2f} s", "compiled now, or found in the cache"),
        *rates,
        ("ratio", f"{figures['ratio']:.2f}", "replay to golden"),
    ]
    terminal().print(figure_table(rows))


def print_lanes(figures: dict[str, Any]) -> None:
    """Print how many operations units perform per clock cycle."""
    table = head_table("unit", "stream", right=("operations", "clocks", "per clock", "mismatches"))
    for run in figures["runs"]:
        counts = (count_text(run[name]) for name in ("operations", "clocks"))
        rate = f"{run['operations_per_clock']:.3f}"
        table.add_row(run["name"], run["stream"], *counts, rate, count_text(run["mismatches"]))
    terminal().print(table)


def print_speed(figures: dict[str, Any]) -> None:
    """Print how fast the golden models are beside other filters."""
    right = ("M keys/s", "ratio", "false positives", "false negatives", "KiB")
    table = head_table("filter", "runs", right=right)
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
    console = terminal()
    console.print(table)
    rows = [
        (name, f"{sum(seconds):.1f} s", "import and first answers of all models")
        for name, seconds in figures["first_answer"].items()
    ]
    rows.insert(0, ("ratio of 1", f"{fastest / 1e6:.2f} M keys/s", "the fastest other library"))
    rows.append(("processor", figures["processor"], f"seed {figures['seed']}"))
    console.print(figure_table(rows))


def _two_digits(value: float) -> str:
    """Return two decimals, or more where they would all be zeros."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def print_stream(figures: dict[str, Any]) -> None:
    """Print the cost of each part of a long stream."""
    right = ("insertions", "queries", "CPU s", "ns each", "false negatives", "peak MiB")
    table = head_table("part", right=right)
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
    total = sum(part["cpu_seconds"] for part in figures["parts"])
    drawn = f"{figures['cpu_seconds']:.1f} s with drawing the keys"
    before = f"{figures['peak_bytes_before'] / 2**20:.0f} MiB before the stream"
    rows = [
        ("model", figures["model"], "compiled" if figures["compiled"] else "numpy"),
        ("CPU time", f"{total:.1f} s", drawn),
        ("peak memory", f"{figures['peak_bytes'] / 2**20:.0f} MiB", before),
    ]
    console = terminal()
    console.print(table)
    console.print(figure_table(rows))


def print_soak(figures: dict[str, Any]) -> None:
    """Print the comparisons of a long run."""
    counts = {
        name: count_text(figures[name]) for name in ("operations", "cycles", "hits", "shifts")
    }
    wrong = {name: count_text(count) for name, count in figures["mismatches"].items()}
    compared = f"{figures['memory_comparisons']} times {count_text(figures['memory_bits'])} bits"
    rows = [
        ("operations", counts["operations"], f"seed {figures['seed']}"),
        ("clocks", counts["cycles"], f"{figures['seconds']:.0f} s"),
        ("verdicts", wrong["verdicts"], "mismatches, RTL against golden"),
        ("ages", wrong["ages"], "mismatches"),
        ("counters", wrong["counters"], "mismatches"),
        ("memory", wrong["memory_bits"], f"mismatches in {compared}"),
        ("hits", counts["hits"], "at every age" if all(figures["hits_by_age"]) else ""),
        ("shifts", counts["shifts"], f"{count_text(figures['ring_turns'])} ring turns"),
        ("clears", count_text(figures["clears"]), f"{figures['rekeys']} secrets"),
    ]
    terminal().print(figure_table(rows))


GOALS = {
    "fmax_mhz": "MHz",
    "lut": "LUTs",
    "ff": "FFs",
    "bram": "block RAMs",
    "logic_cells": "logic cells",
    "latency_cycles": "clocks",
}
"""Goals of cases, in words."""


def print_cases(cases: "list[Case]") -> None:
    """Print cases and their goals."""
    table = head_table("case", "group", right=("window", "seeds", *GOALS.values()))
    for case in cases:
        figures = (case.spec.window, len(case.seeds), *map(case.goals.get, GOALS))
        texts = ("" if figure is None else count_text(figure) for figure in figures)
        table.add_row(case.name, case.group, *texts)
    terminal().print(table)


def print_hardware(outcome: "Outcome", comparison: "Comparison | None") -> None:
    """Print speed, area and critical paths of units, and how they compare.

    Parameters
    ----------
    outcome : Outcome
    comparison : Comparison or None
        With the baseline.
    """
    console = terminal()
    if outcome.summaries:
        console.print(_speed_table(outcome.summaries))
        console.print(_area_table(outcome.summaries))
        paths = [(s.case.name, "", s.median.critical_path) for s in outcome.summaries]
        console.print(figure_table(paths))
    reports = [summary.median for summary in outcome.summaries]
    for device, caveat in {report.device: report.caveat for report in reports}.items():
        if caveat:
            console.print(f"{device}: {caveat}")
    console.print(f"Runs made: {outcome.measured}, found: {outcome.found}")
    if comparison is not None:
        console.print(str(comparison))


def _speed_table(summaries: "list[Summary]") -> Any:
    names = ("seeds", "timing", "lowest", "highest", "limit", "at limit", "MHz", "M ops/s")
    table = head_table("case", right=(*names, "clocks", "ns"))
    table.add_column("limited by")
    for summary in summaries:
        median, reports = summary.median, summary.reports
        clocks = (median, reports[0], reports[-1])
        table.add_row(
            summary.case.name,
            str(len(summary.seeds)),
            *(f"{report.timing_mhz:.1f}" for report in clocks),
            f"{median.limit_mhz:g}",
            str(summary.at_limit),
            f"{median.fmax_mhz:.1f}",
            f"{median.operations_per_second / 1e6:.1f}",
            str(median.latency_cycles),
            f"{median.latency_ns:.1f}",
            median.limited_by,
        )
    return table


def _area_table(summaries: "list[Summary]") -> Any:
    names = "LUTs, FFs, block RAMs"
    table = head_table(
        "case",
        right=(*names.split(", "), "asked", "", "segments", f"{names} per segment", "per lane"),
    )
    for summary in summaries:
        median = summary.median
        table.add_row(
            summary.case.name,
            *map(count_text, (median.lut, median.ff, median.bram)),
            *_goals(summary),
            str(summary.case.spec.segments),
            ", ".join(f"{value:,.1f}" for value in summary.per_segment().values()),
            ", ".join(f"{value:,.0f}" for value in summary.per_lane().values()),
        )
    return table


def _goals(summary: "Summary") -> tuple[str, str]:
    verdicts = summary.verdicts
    asked = (f"{goal:,} {GOALS[name]}" for name, goal in summary.case.goals.items())
    return "; ".join(asked), "; ".join(verdicts.values())
