"""Measured speed and area of hardware, for the terminal."""

from typing import TYPE_CHECKING, Any

from ..replay.report import count_text
from .tables import figure_table, head_table, terminal

if TYPE_CHECKING:
    from ..benchmarks.cases import Case
    from ..benchmarks.hardware import Outcome
    from ..benchmarks.measurements import Comparison, Summary

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
