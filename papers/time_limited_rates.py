"""Figures 4 and 5 of the time-limited Bloom filter: its false-positive rate."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.intervals import clopper_pearson
from lately.replay.drawing import Series

from .studies.comparison import SHARES, claim, never, over_seeds, student
from .studies.criteria import around, between, every
from .studies.study import Conclusion, Finding, Point, Result, Results
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
"""The rates of Table 2; the available text does not state which of them the figures show."""

_ENOUGH = 40
"""False positives at an instant that are expected where their number is the rate."""

_MOST_QUERIES = 100_000
"""At an instant: with more, the least rates would take hours."""

_FEW_QUERIES = 10_000
"""At an instant of rates that would take more than the most, and are therefore not counted."""


_around = partial(around, share=0.2, near=0.5)
"""Criterion of a rate that is around the error rate."""


def rate_points(quick: bool) -> list[Point]:
    """Return a point for each rate, k and l, start and seed."""
    enough, most = (_ENOUGH, _MOST_QUERIES // 25) if quick else (100, _MOST_QUERIES)

    def queries(error: float) -> int:
        wanted = round(enough / error)
        return wanted if wanted <= most else min(most, _FEW_QUERIES)

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
            "queries": queries(error),
        }
        for error in RATES
        for k, l in COMBINATIONS[error][:: 2 if quick else 1]
        for start in STARTS
        for seed in range(3 if quick else 5)
    ]


def conclude_rate(measured: Results) -> Conclusion:
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
    findings += _course_findings(groups)
    findings += _ratio_findings(measured)
    missed, asked = (sum(result[name] for _, result in measured) for name in ("missed", "asked"))
    what = "share of false negatives among queries for keys of the span"
    findings.append(never(what, missed, asked, f"{missed} of {asked} queries."))
    drawn = [
        PAPER.chart("rates", series, figure=figure, error=error, start=start)
        for (figure, error, start), series in charts.items()
    ]
    window = max(point["window"] for point, _ in measured)
    few = min((point["queries"] for point, _ in measured if not _counted(point)), default=0)
    notes = PAPER.notes("time-limited-figures-4-and-5", window=window, queries=few)
    return Conclusion(findings, drawn, notes)


Course = NDArray[np.float64]
"""Spans passed and rates of a filter, shape (n, 2)."""


def _steady(course: Course) -> NDArray[np.float64]:
    return course[course[:, 0] > SPANS - STEADY, 1]


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
    value = student(means) if len(means) > 1 else means[0]
    rates = _steady(np.array(group[0][1]["curve"]))
    notes = [f"Within a generation from {rates.min():.3g} to {rates.max():.3g}."]
    if not _counted(first):
        notes.append("From the bits set.")
    what = f"{what}: mean false-positive rate in steady state"
    return claim(what, "around the error rate", value, _around(error), " ".join(notes))


def _course_findings(groups: dict[tuple[Any, ...], Results]) -> list[Finding]:
    """Hold the ways to the steady state against what section 7.3 says of them."""
    courses: dict[tuple[float, float], dict[str, Course]] = {}
    for (start, error, k, l), group in groups.items():
        courses.setdefault((start, error), {})[f"k = {k}, l = {l}"] = np.array(group[0][1]["curve"])
    findings = []
    for (start, error), own in courses.items():
        name = f"{STARTS[start]}, {decimal(error)}"
        findings.append(_highest(name, error, own) if start == UNDER else _first_span(name, own))
        if len(own) > 1:
            findings.append(_attenuated(name, own))
    return findings


def _highest(name: str, error: float, courses: dict[str, Course]) -> Finding:
    peaks = {float(course[:, 1].max()) / error: filter for filter, course in courses.items()}
    what = f"{name}: greatest rate of all filters, over the error rate"
    note = f"Of {peaks[max(peaks)]}; the least is {min(peaks):.3g}, of {peaks[min(peaks)]}."
    return claim(what, "just a bit over", max(peaks), between(1, 1.25), note)


def _first_span(name: str, courses: dict[str, Course]) -> Finding:
    shares = {}
    for filter, course in courses.items():
        first = course[course[:, 0] <= 1, 1].mean()
        shares[float(first / _steady(course).mean())] = filter
    what = f"{name}: mean rate of the first span over that in steady state"
    return claim(what, "lower", max(shares), between(0, 0.9), f"Of {shares[max(shares)]}.")


def _attenuated(name: str, courses: dict[str, Course]) -> Finding:
    steady = [_steady(course) for course in courses.values()]
    swings = [float(rates.max() / rates.min()) - 1 for rates in steady]
    less = sum(low > high for low, high in pairwise(swings))
    what = f"{name}: neighbours of which the one with higher k and l has less of a zig-zag"
    shown = ", ".join(f"{swing:.0%}" for swing in swings)
    note = f"Of {len(swings) - 1}; highest over lowest rate less 1: {shown}."
    return claim(what, "all", less, every(len(swings) - 1), note)


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
    """Counted false positives over the expectation from the bits, for each rate."""
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


STUDIES = (
    PAPER.study("time-limited-figures-4-and-5", measure_rate, conclude_rate, points=rate_points),
)
"""Figures 4 and 5."""
