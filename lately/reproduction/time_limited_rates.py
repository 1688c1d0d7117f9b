"""Figures 4 and 5 of the time-limited Bloom filter: its false-positive rate."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..intervals import clopper_pearson
from .study import Chart, Finding, Outcome, Point, Result, Series, Study, Verdict
from .time_limited_findings import PAPER, WORKLOAD
from .time_limited_runs import COMBINATIONS, SPANS, STARTS, STEADY, UNDER, measure_rate
from .verdicts import computed, student

RATES = (0.1, 0.01, 0.001)


def rate_points(quick: bool) -> list[Point]:
    """Return a point for each rate, k and l, start and seed."""
    points = []
    for error in RATES[:2] if quick else RATES:
        for k, l in COMBINATIONS[error][:: 2 if quick else 1]:
            for start in STARTS:
                for seed in range(3 if quick else 5):
                    points.append(
                        {
                            "error": error,
                            "k": k,
                            "l": l,
                            "window": 2000 if quick else 10_000,
                            "start": start,
                            "seed": seed,
                            "curve": seed == 0,
                            # Not in step with any l.
                            "samples": 53,
                            "queries": round((40 if quick else 100) / error),
                        }
                    )
    return points


Group = list[tuple[Point, Result]]
"""Points that differ in their seed alone; the first has the curve."""


def conclude_rate(measured: list[tuple[Point, Result]]) -> Outcome:
    """Hold the false-positive rate in steady state against the error rate of the filter."""
    groups: dict[tuple[Any, ...], Group] = {}
    for point, result in measured:
        key = (point["start"], point["error"], point["k"], point["l"])
        groups.setdefault(key, []).append((point, result))
    findings, charts = [], {}
    for (start, error, k, l), group in groups.items():
        figure = 4 if start == UNDER else 5
        finding = _rate_finding(f"Figure {figure}, {error:g}, k = {k}, l = {l}", error, group)
        findings.append(finding)
        name = f"time-limited-figure-{figure}-{error:g}"
        if name not in charts:
            title = f"False-positive rate for {error:g}, {STARTS[start]}"
            charts[name] = Chart(name, title, "time in spans", "rate", [], y_log=True)
        charts[name].series.extend(_rate_series(k, l, group))
    findings += [_peak_finding(groups, start) for start in STARTS]
    findings.append(_negatives_finding(measured))
    notes = [
        WORKLOAD.format(window=measured[0][0]["window"]),
        "The rate is measured at 53 instants of the stream, by queries for keys that were never "
        "inserted. In steady state it runs up within a generation and down at the shift; the "
        "mean over the steady state is given, with an interval of Student's t over the seeds. "
        "The paper says that the rate stabilises around the error rate: met, if the error rate is "
        "within the interval or between the least and the greatest rate, which the fill ratios "
        "tell wherever they turn; of one filter, as are the lines of the charts.",
        "The lines of the charts are the rates that the fill ratios tell (section 5.3 of the APBF "
        "paper); the marks are measured on the same filter, with their intervals.",
    ]
    return Outcome(findings, list(charts.values()), notes)


def _steady_rates(result: Result) -> NDArray[np.float64]:
    return np.array([rate for spans, rate in result["curve"] if spans > SPANS - STEADY])


def _rate_finding(what: str, error: float, group: Group) -> Finding:
    means = []
    for point, result in group:
        hits = [hits for spans, hits in result["samples"] if spans > SPANS - STEADY]
        means.append(float(np.mean(hits)) / point["queries"])
    mean = float(np.mean(means))
    low, high = student(means)[1:] if len(means) > 1 else (None, None)
    rates = _steady_rates(group[0][1])
    least, greatest = float(rates.min()), float(rates.max())
    within = low is not None and high is not None and low <= error <= high
    if least <= error <= greatest or within:
        verdict = Verdict.MET
    else:
        verdict = Verdict.NEAR if 2 / 3 < mean / error < 3 / 2 else Verdict.NOT_MET
    return Finding(
        what=f"{what}: false-positive rate in steady state",
        paper=f"around {error:g}",
        ours=mean,
        low=low,
        high=high,
        verdict=verdict,
        note=f"Within a generation from {least:.3g} to {greatest:.3g}.",
    )


def _peak_finding(groups: dict[tuple[Any, ...], Group], start: float) -> Finding:
    """Greatest rate of all filters with a start, over that of the steady state."""
    ratios = {}
    for (own, error, k, l), group in groups.items():
        if own == start:
            result = group[0][1]
            peak = max(rate for _, rate in result["curve"])
            steady = float(_steady_rates(result).max())
            ratios[peak / steady] = f"At an error rate of {error:g}, with k = {k}, l = {l}."
    greatest = max(ratios)
    return computed(
        f"{STARTS[start]}: greatest rate on the way, over the greatest in steady state",
        "",
        greatest,
        note=ratios[greatest],
    )


def _rate_series(k: int, l: int, group: Group) -> list[Series]:
    point, result = group[0]
    spans, rates = zip(*result["curve"], strict=True)
    at, hits = zip(*result["samples"], strict=True)
    bounds = [clopper_pearson(count, point["queries"]) or (0.0, 1.0) for count in hits]
    lows, highs = zip(*bounds, strict=True)
    return [
        Series(f"k, l = {k}, {l}", spans, rates),
        Series(
            f"k, l = {k}, {l}, measured",
            at,
            [count / point["queries"] for count in hits],
            low=lows,
            high=highs,
            marks=True,
        ),
    ]


def _negatives_finding(measured: list[tuple[Point, Result]]) -> Finding:
    missed = sum(result["missed"] for _, result in measured)
    asked = sum(result["asked"] for _, result in measured)
    low, high = clopper_pearson(missed, asked) or (0.0, 1.0)
    return Finding(
        what="share of false negatives among queries for keys of the span",
        paper="0",
        ours=missed / asked,
        low=low,
        high=high,
        verdict=Verdict.NOT_MET if missed else Verdict.MET,
        note=f"{missed} of {asked} queries.",
    )


STUDY = Study(
    name="time-limited-figures-4-and-5",
    title="Time-limited Bloom filter: false-positive rate",
    source=f"{PAPER}, Figures 4 and 5",
    points=rate_points,
    measure=measure_rate,
    conclude=conclude_rate,
)
