"""Figures 4 and 5 of the time-limited Bloom filter: its false-positive rate."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden.analysis import apbf_false_positive_rate
from ..intervals import clopper_pearson
from ..studies.comparison import SHARES, computed, never, over_seeds, student
from ..studies.study import Finding, Outcome, Point, Result, Results, Series, Verdict
from .time_limited_runs import (
    COMBINATIONS,
    PAPER,
    SPANS,
    STARTS,
    STEADY,
    UNDER,
    decimal,
    measure_rate,
)

RATES = tuple(COMBINATIONS)
"""Those of Table 2; which of them the figures show is lost from the text that is at hand."""

_ENOUGH = 40
"""False positives at an instant that are expected where their number is the rate."""

_MOST_QUERIES = 100_000
"""At an instant: with more, the least rates would take hours."""


def rate_points(quick: bool) -> list[Point]:
    """Return a point for each rate, k and l, start and seed."""
    enough, most = (_ENOUGH, _MOST_QUERIES // 25) if quick else (100, _MOST_QUERIES)
    return [
        {
            "error": error,
            "k": k,
            "l": l,
            "window": 2000 if quick else 10_000,
            "start": start,
            "seed": seed,
            "curve": seed == 0,
            "samples": 6 * SPANS,
            "queries": min(most, round(enough / error)),
        }
        for error in RATES
        for k, l in COMBINATIONS[error][:: 2 if quick else 1]
        for start in STARTS
        for seed in range(3 if quick else 5)
    ]


def conclude_rate(measured: Results) -> Outcome:
    """Hold the false-positive rate in steady state against the error rate of the filter."""
    # Points that differ in their seed alone; the first has the curve.
    groups: dict[tuple[Any, ...], Results] = {}
    for point, result in measured:
        key = (point["start"], point["error"], point["k"], point["l"])
        groups.setdefault(key, []).append((point, result))
    findings: list[Finding] = []
    charts: dict[tuple[Any, ...], list[Series]] = {}
    for (start, error, k, l), group in groups.items():
        figure = 4 if start == UNDER else 5
        finding = _rate_finding(f"Figure {figure}, {decimal(error)}, k = {k}, l = {l}", group)
        findings.append(finding)
        own = charts.setdefault((figure, decimal(error), STARTS[start]), [])
        own += _rate_series(k, l, group)
    findings += [_peak_finding(groups, start) for start in STARTS]
    findings += _ratio_findings(measured)
    missed, asked = (sum(result[name] for _, result in measured) for name in ("missed", "asked"))
    what = "share of false negatives among queries for keys of the span"
    findings.append(never(what, missed, asked, f"{missed} of {asked} queries."))
    drawn = [
        PAPER.chart("rates", series, figure=figure, error=error, start=start)
        for (figure, error, start), series in charts.items()
    ]
    window, queries = (max(point[name] for point, _ in measured) for name in ("window", "queries"))
    notes = PAPER.notes("time-limited-figures-4-and-5", window=window, queries=queries)
    return Outcome(findings, drawn, notes)


def _steady_rates(result: Result) -> NDArray[np.float64]:
    return np.array([rate for spans, rate in result["curve"] if spans > SPANS - STEADY])


def _counted(point: Point) -> bool:
    """Whether enough false positives are expected for their number to be the rate."""
    return bool(point["queries"] * point["error"] >= _ENOUGH)


def _steady_mean(point: Point, result: Result) -> float:
    """Mean rate at the instants of the steady state."""
    rates = [
        hits / point["queries"] if _counted(point) else expected
        for spans, hits, expected in result["samples"]
        if spans > SPANS - STEADY
    ]
    return float(np.mean(rates))


def _rate_finding(what: str, group: Results) -> Finding:
    first = group[0][0]
    error = first["error"]
    means = [_steady_mean(point, result) for point, result in group]
    mean = float(np.mean(means))
    low, high = student(means)[1:] if len(means) > 1 else (None, None)
    rates = _steady_rates(group[0][1])
    least, greatest = float(rates.min()), float(rates.max())
    within = low is not None and high is not None and low <= error <= high
    met = least <= error <= greatest or within
    notes = [f"Within a generation from {least:.3g} to {greatest:.3g}."]
    if not _counted(first):
        notes.append("From the bits set.")
    if not met:
        most = apbf_false_positive_rate(first["k"], first["l"])
        notes.append(f"Of an APBF of this k and l just before a shift, {most:.3g} is expected.")
    verdict = (
        Verdict.MET if met else Verdict.NEAR if 2 / 3 < mean / error < 3 / 2 else Verdict.NOT_MET
    )
    what = f"{what}: false-positive rate in steady state"
    return Finding(what, f"around {decimal(error)}", mean, low, high, verdict, " ".join(notes))


def _peak_finding(groups: dict[tuple[Any, ...], Results], start: float) -> Finding:
    """Greatest rate of all filters with a start, over that of the steady state."""
    ratios = {}
    for (own, error, k, l), group in groups.items():
        if own == start:
            result = group[0][1]
            peak = max(rate for _, rate in result["curve"])
            steady = float(_steady_rates(result).max())
            ratios[peak / steady] = f"At an error rate of {decimal(error)}, with k = {k}, l = {l}."
    greatest = max(ratios)
    what = f"{STARTS[start]}: greatest rate on the way, over the greatest in steady state"
    return computed(what, "", greatest, note=ratios[greatest])


def _rate_series(k: int, l: int, group: Results) -> list[Series]:
    point, result = group[0]
    spans, rates = zip(*result["curve"], strict=True)
    at, hits, _ = zip(*result["samples"], strict=True)
    curve = Series(f"k, l = {k}, {l}", spans, rates)
    if not _counted(point):
        return [curve]
    shares = (
        (count / point["queries"], *(clopper_pearson(count, point["queries"]) or SHARES))
        for count in hits
    )
    return [curve, Series.estimated(f"k, l = {k}, {l}, measured", at, shares, marks=True)]


def _ratio_findings(measured: Results) -> list[Finding]:
    """False positives that were counted over those that the bits tell, for each rate."""
    counts: dict[float, dict[int, NDArray[np.float64]]] = {}
    for point, result in measured:
        _, hits, rates = zip(*result["samples"], strict=True)
        own = counts.setdefault(point["error"], {}).setdefault(point["seed"], np.zeros(2))
        own += (sum(hits), point["queries"] * sum(rates))
    return [
        over_seeds(
            f"{decimal(error)}: false positives counted, over those that the bits set tell",
            "",
            [float(hits / expected) for hits, expected in by_seed.values()],
            note=f"{sum(hits for hits, _ in by_seed.values()):,.0f} counted.",
        )
        for error, by_seed in counts.items()
        if len(by_seed) > 1
    ]


STUDIES = (PAPER.study("time-limited-figures-4-and-5", rate_points, measure_rate, conclude_rate),)
"""Figures 4 and 5."""
