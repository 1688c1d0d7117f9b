"""docs/lanes.md, from results/lanes.json and results/performance.json.

`python -m campaigns lanes --out` writes the first; the clock frequencies are of the group `lanes`
of `python -m campaigns hardware`.
"""

from typing import Any

from ..cases import CASES
from ..measurements import Summary, summarise
from .blocks import DOCS, NOTHING, Page, load, table
from .performance import AREA, CLOCKS, area, clocks, measurements, seeds_text

GOAL = 1000
"""Millions of operations per second that are the target with `GOAL_LANES` lanes."""

GOAL_LANES = 4

NOT_SINCE = """\
No such unit has been measured since the memories changed;
[performance](performance.md#before-and-now)
has the figures of before."""


def rates_table(figures: dict[str, Any]) -> str:
    """Lay out the operations per cycle: a row per stream, a column per unit."""
    runs = figures["runs"]
    names = list(dict.fromkeys(run["name"] for run in runs))
    rows = []
    for stream in dict.fromkeys(run["stream"] for run in runs):
        of_stream = {run["name"]: run for run in runs if run["stream"] == stream}
        operations = next(iter(of_stream.values()))["operations"]
        rates = [f"{of_stream[name]['operations_per_clock']:.3f}" for name in names]
        rows.append([stream, f"{operations:,}", *rates])
    return table(["stream", "operations", *(f"`{name}`" for name in names)], rows)


def random_rates(figures: dict[str, Any]) -> dict[str, float]:
    """Return the operations per cycle with random keys, of each unit."""
    return {
        run["name"]: run["operations_per_clock"]
        for run in figures["runs"]
        if run["stream"] == "random"
    }


def speed_table(summaries: list[Summary], rates: dict[str, float]) -> str:
    """Lay out clock frequency, area and product of each unit."""
    header = ["unit", "device", "lanes", "window", "seeds", *CLOCKS, *AREA, "latency"]
    rows = []
    for summary in summaries:
        case, median = summary.case, summary.median
        rate = rates.get(case.unit)
        rows.append(
            [
                f"`{case.unit}`",
                case.device,
                str(case.spec.lanes),
                f"{case.spec.window:,}",
                seeds_text(summary),
                *clocks(summary),
                *area(summary),
                f"{median.latency_cycles} cycles",
                NOTHING if rate is None else f"{median.fmax_mhz * rate:,.0f}",
            ]
        )
    return table([*header, "M ops/s"], rows)


def goal_text(summaries: list[Summary], rates: dict[str, float]) -> str:
    """Say on which devices the target is reached, and with how many seeds."""
    target = f"The target is {GOAL:,} M ops/s with {GOAL_LANES} lanes"
    found = []
    for summary in summaries:
        if summary.case.spec.lanes == GOAL_LANES and summary.case.unit in rates:
            needed = GOAL / rates[summary.case.unit]
            reached = sum(report.fmax_mhz >= needed for report in summary.reports)
            verdict = "reaches it" if summary.median.fmax_mhz >= needed else "does not reach it"
            seeds = f"{reached} of {len(summary.reports)} seeds"
            found.append(f"on {summary.median.device} the median {verdict}, {seeds} do")
    return f"{target}{': ' if found else ''}{'; '.join(found)}."


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    figures = load("lanes.json")
    rates = random_rates(figures)
    summaries = summarise([case for case in CASES if case.group == "lanes"], measurements())
    return {
        "rates": rates_table(figures),
        "speed": f"{goal_text(summaries, rates)}\n\n"
        + (speed_table(summaries, rates) if summaries else NOT_SINCE),
    }


PAGE = Page(DOCS / "lanes.md", blocks)
