"""Table 2 and Figures 1 to 3 of the time-limited Bloom filter: slices, and memory."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from lately.replay.drawing import Chart, Series
from papers.models.time_limited import slice_bits

from .studies.comparison import claim, computed, finding
from .studies.criteria import between, cut_off, exactly
from .studies.study import Conclusion, Finding, Point, Result, Results
from .time_limited_runs import (
    COMBINATIONS,
    OVER,
    PAPER,
    SPANS,
    STARTS,
    UNDER,
    bits_per_element,
    bits_range,
    decimal,
    measure_slices,
)

# Table 2


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


def conclude_table(measured: Results) -> Conclusion:
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
            shown = math.floor(ours) != paper or round(ours) != math.floor(ours)
            note = f"{ours:.1f} before it is cut off." if shown else ""
            what = f"error rate {decimal(error)}: {name} bits per element"
            findings.append(finding(what, str(paper), ours, cut_off(str(paper)), note))
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
    return Conclusion(findings, [chart], notes)


# Figures 1 to 3

ERROR = 0.01
"""Rate of the filters of these figures."""

_LONGER = 0.05
"""Spans that make a difference in the time until a filter is stable."""


def figure_points(quick: bool) -> list[Point]:
    """Return a point for each start."""
    window = 2000 if quick else 10_000
    return [point | {"window": window} for point in table_points(False) if point["error"] == ERROR]


def _settled(spans: list[float], values: Any) -> float:
    """Spans after which values stay as they are at the end."""
    values = np.asarray(values)
    other = np.flatnonzero(values != values[-1])
    return spans[other[-1] + 1] if len(other) else 0.0


def conclude_slices(measured: Results) -> Conclusion:
    """Hold number and size of the slices against what sections 7.1 and 7.2 say of them."""
    findings: list[Finding] = []
    charts: list[Chart] = []
    for point, result in measured:
        start = STARTS[point["start"]]
        figure = 1 if point["start"] == UNDER else 2
        settled = []
        for name, rows in result.items():
            k, l = map(int, name.split(","))
            settled.append(_settled(rows["spans"], rows["first"]))
            findings += _slice_findings(f"Figure {figure}, k = {k}, l = {l}", k, l, point, rows)
        findings.append(_order_finding(f"Figure {figure}", settled))
        charts += _slice_charts(figure, start, result)
    findings += _memory_findings(measured)
    window = measured[0][0]["window"]
    notes = PAPER.notes("time-limited-figures-1-to-3", window=window)
    return Conclusion(findings, charts, notes)


def _slice_findings(
    what: str, k: int, l: int, point: Point, rows: dict[str, list[float]]
) -> list[Finding]:
    generation = -(-point["window"] // l)
    best = slice_bits(k * generation)
    under = point["start"] == UNDER
    most, last = max(rows["slices"]), rows["slices"][-1]
    shifted = next(size for size in rows["first"] if size != rows["first"][0])
    settled = {name: _settled(rows["spans"], rows[name]) for name in ("slices", "first")}
    stable = computed(f"{what}: spans until the size of s_0 stays as it is", "", settled["first"])
    slices, bits = "k + l", "k g / ln 2"
    if not under:
        from_shift = f"{what}: bits of s_0 from the first shift on"
        return [
            claim(f"{what}: most slices", slices, most, exactly(k + l)),
            claim(from_shift, bits, shifted, exactly(best)),
            stable,
        ]
    again, end = f"{what}: spans until there are k + l slices again", rows["first"][-1]
    return [
        claim(f"{what}: slices in the end", slices, last, exactly(k + l)),
        computed(f"{what}: most slices", "", most),
        computed(again, "", settled["slices"]),
        claim(f"{what}: bits of s_0 in the end", bits, end, exactly(best)),
        stable,
    ]


def _order_finding(what: str, settled: list[float]) -> Finding:
    """Lower k and l take longer to stabilise (section 7.1)."""
    ordered = sum(first > second for first, second in pairwise(settled))
    neighbours = len(settled) - 1
    times = ", ".join(f"{time:.2f}" for time in settled)
    return claim(
        f"{what}: neighbours of which the one with lower k and l takes longer for s_0",
        "all",
        ordered,
        exactly(neighbours),
        f"Of {neighbours}; in the order of k {times} spans.",
    )


def _slice_charts(figure: int, start: str, result: Result) -> list[Chart]:
    def lines(values: Callable[[dict[str, list[float]]], Any]) -> list[Series]:
        return [
            Series(f"k, l = {name}", rows["spans"], values(rows)) for name, rows in result.items()
        ]

    part = "a" if figure == 1 else "b"
    memory = lines(lambda rows: list(bits_per_element(rows, "reported")))
    return [
        PAPER.chart("slices", lines(lambda rows: rows["slices"]), figure=figure, start=start),
        PAPER.chart("first", lines(lambda rows: rows["first"]), figure=figure, start=start),
        PAPER.chart("memory", memory, part=part, start=start),
    ]


def _memory_findings(measured: Results) -> list[Finding]:
    """Compare the bits per element at which filters settle, for small and large starts."""
    findings = []
    settled: dict[str, dict[float, float]] = {}
    for point, result in measured:
        for name, rows in result.items():
            time = _settled(rows["spans"], rows["bits"])
            settled.setdefault(name, {})[point["start"]] = time
    for name, times in settled.items():
        if len(times) < len(STARTS):
            continue
        over, under = times[OVER], times[UNDER]
        what = f"Figure 3, k, l = {name}: spans until the memory is stable, over- less "
        note = f"{over:.2f} and {under:.2f} spans."
        longer = between(_LONGER, SPANS)
        what += "under-dimensioned"
        findings.append(claim(what, "longer if over-dimensioned", over - under, longer, note))
    low, high = bits_range([result for _, result in measured], "reported")
    findings.append(computed("Figure 3: least bits per element in steady state", "", low))
    findings.append(computed("Figure 3: most bits per element in steady state", "", high))
    return findings


STUDIES = (
    PAPER.study("time-limited-table-2", measure_slices, conclude_table, points=table_points),
    PAPER.study(
        "time-limited-figures-1-to-3", measure_slices, conclude_slices, points=figure_points
    ),
)
"""Table 2, then Figures 1 to 3."""
