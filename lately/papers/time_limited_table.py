"""Table 2 of the time-limited Bloom filter: bits per element."""

import math

from ..studies.comparison import claim
from ..studies.study import Finding, Outcome, Point, Results, Series
from .time_limited_findings import COMBINATIONS, PAPER, bits_range, decimal
from .time_limited_runs import STARTS, measure_slices


def table_points(quick: bool) -> list[Point]:
    """Return a point for each error rate and start."""
    step = 4 if quick else 1
    return [
        {
            "error": error,
            "combinations": combinations[::step],
            # Fewer make the rounding of g, at an l of 63, larger than the digits that are printed.
            "window": 10_000,
            "start": start,
        }
        for error, combinations in COMBINATIONS.items()
        for start in STARTS
    ]


def conclude_table(measured: Results) -> Outcome:
    """Hold the bits per element against Table 2; its figures are cut off, not rounded."""
    findings, within, series = [], [], []
    printed = {float(error): bits for error, bits in PAPER.data["bits"].items()}
    for error, bits in printed.items():
        results = [result for point, result in measured if point["error"] == error]
        if not results:
            continue
        for name, paper, ours in zip(
            ("least", "most"), bits, bits_range(results, "reported"), strict=True
        ):
            findings.append(_bits_finding(error, name, paper, ours))
        low, high = bits_range(results, "within")
        within.append(f"{low:.1f} to {high:.1f} for {decimal(error)}")
        series.append((error, *bits_range(results, "reported")))
    errors, lows, highs = zip(*series, strict=True)
    known = [printed[error] for error in errors]
    chart = PAPER.chart(
        "time-limited-table-2",
        [
            Series("paper, least", errors, [low for low, _ in known], marks=True),
            Series("paper, most", errors, [high for _, high in known], marks=True),
            Series("ours, least", errors, lows),
            Series("ours, most", errors, highs),
        ],
    )
    window = measured[0][0]["window"]
    notes = PAPER.notes("time-limited-table-2", window=window, within=", ".join(within))
    return Outcome(findings, [chart], notes)


def _bits_finding(error: float, name: str, paper: int, ours: float) -> Finding:
    off = abs(math.floor(ours) - paper)
    note = f"{ours:.1f} before it is cut off." if off or round(ours) != math.floor(ours) else ""
    what = f"error rate {decimal(error)}: {name} bits per element"
    return claim(what, str(paper), ours, not off, note, near=off == 1)


STUDIES = (PAPER.study("time-limited-table-2", table_points, measure_slices, conclude_table),)
"""Table 2."""
