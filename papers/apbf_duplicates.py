"""Figures 7 and 8 of the APBF paper: false-positive rates under uniform duplication."""

from collections.abc import Iterable
from itertools import groupby, pairwise

import numpy as np

from lately.replay.drawing import Chart, Series

from .apbf_runs import PAPER, WINDOW, build, expected_rate, spread, stream, zipf_universe
from .studies.comparison import claim, over_seeds, student
from .studies.criteria import between, equal, exactly
from .studies.streams import Keys, zipf
from .studies.study import Conclusion, Finding, Point, Result, Results

INSERTIONS = 6000
"""Length of a stream."""

_HALF = 0.5


def measure(point: Point) -> Result:
    """Measure, for each seed, the mean rate just before a shift and the rate of duplicates."""
    seeds = range(point["seeds"])
    runs = [_run(point, stream(point["duplicates"], INSERTIONS, seed), seed) for seed in seeds]
    rates, duplicates = zip(*runs, strict=True)
    return {"rates": rates, "duplicates": duplicates}


def _run(point: Point, keys: Keys, seed: int) -> tuple[float, float]:
    filter = build(point["k"], point["l"], WINDOW, seed)
    generation = filter.spec.generation
    rates, duplicates = [], []
    for start in range(0, INSERTIONS - generation + 1, generation):
        end = start + generation
        filter.insert(keys[start:end])
        if start >= INSERTIONS // 2:
            rates.append(filter.estimated_false_positive_rate())
            duplicates.append(1 - len(np.unique(keys[end - WINDOW : end])) / WINDOW)
    return float(np.mean(rates)), float(np.mean(duplicates))


def measure_zipf(point: Point) -> Result:
    """Measure, as `measure`, uniform streams and ones after Zipf with the same duplicates."""
    keys = zipf_universe(_HALF)
    runs = [
        (
            _run(point, stream(_HALF, INSERTIONS, seed), seed),
            _run(point, spread(zipf(INSERTIONS, keys, 1.0, seed), seed), seed),
        )
        for seed in range(point["seeds"])
    ]
    even, skewed = (list(zip(*column, strict=True)) for column in zip(*runs, strict=True))
    return {"uniform": even, "zipf": skewed}


def conclude_lowest(results: Results) -> Conclusion:
    """Tell how the rates of Figure 7 fall."""
    kinds = (_left_over, _bend)
    findings = [kind(*found) for found in _by_filter(results) for kind in kinds]
    return Conclusion(findings, [_chart(7, results)], PAPER.notes("apbf-figure-7"))


def conclude_tenth(results: Results) -> Conclusion:
    """Hold the order of the filters of Figure 8 against the paper's."""
    findings = [_left_over(filter, rates) for filter, rates in _by_filter(results)]
    ordered = sum(low.ours < high.ours for low, high in pairwise(findings))
    what = "neighbours of which the one with more slices keeps more of its rate"
    neighbours = len(findings) - 1
    findings.append(claim(what, "all", ordered, exactly(neighbours), f"of {neighbours}"))
    return Conclusion(findings, [_chart(8, results)], PAPER.notes("apbf-figure-8"))


def conclude_zipf(results: Results) -> Conclusion:
    """Hold the rates after Zipf against those under uniform duplication."""
    findings = []
    for point, result in results:
        name = f"k = {point['k']}, l = {point['l']}"
        (even, _), (skewed, shares) = result["uniform"], result["zipf"]
        quotients = [one / other for one, other in zip(skewed, even, strict=True)]
        what = f"{name}: rate after Zipf over that of uniform keys"
        note = f"Duplicates after Zipf: {np.mean(shares):.3f}."
        findings.append(claim(what, "even more abrupt", student(quotients), between(0, 0.9), note))
    return Conclusion(findings, notes=PAPER.notes("apbf-zipf"))


Rates = dict[float, list[float]]
"""False-positive rates, one for each seed, by rate of duplicates."""


def _by_filter(results: Results) -> Iterable[tuple[tuple[int, int], Rates]]:
    for filter, group in groupby(results, key=lambda entry: (entry[0]["k"], entry[0]["l"])):
        yield filter, {point["duplicates"]: result["rates"] for point, result in group}


def _left_over(filter: tuple[int, int], rates: Rates) -> Finding:
    k, l = filter
    left = [now / first for now, first in zip(rates[_HALF], rates[0.0], strict=True)]
    expected = expected_rate(k, l, WINDOW, _HALF) / expected_rate(k, l, WINDOW, 0.0)
    what = f"k = {k}, l = {l}: share of the rate left at {_HALF}"
    return over_seeds(what, "", left, note=f"expected: {expected:.4g}")


def _bend(filter: tuple[int, int], rates: Rates) -> Finding:
    """Compare the fall of the logarithm in two steps; both are the same if it is exponential."""
    k, l = filter
    first, middle, last = (np.log(rates[duplicates]) for duplicates in (0.0, _HALF / 2, _HALF))
    fall = student(((middle - last) / (first - middle)).tolist())
    return claim(
        f"k = {k}, l = {l}: orders of magnitude from {_HALF / 2} to {_HALF}, over those before",
        "exponential",
        fall,
        equal(1),
        "1 if exponential; more is a fall that gets steeper",
    )


def _chart(number: int, results: Results) -> Chart:
    marks, lines = [], []
    for (k, l), group in groupby(results, key=lambda entry: (entry[0]["k"], entry[0]["l"])):
        label = f"k = {k}, l = {l}"
        runs = list(group)
        x = [float(np.mean(result["duplicates"])) for _, result in runs]
        rates = [student(result["rates"]) for _, result in runs]
        marks.append(Series.estimated(label, x, rates, marks=True))
        asked = np.linspace(0, runs[-1][0]["duplicates"], 36).tolist()
        lines.append(Series(label, asked, [expected_rate(k, l, WINDOW, d) for d in asked]))
    return PAPER.chart(f"apbf-figure-{number}", [*marks, *lines])


STUDIES = (
    PAPER.study("apbf-figure-7", measure, conclude_lowest),
    PAPER.study("apbf-figure-8", measure, conclude_tenth),
    PAPER.study("apbf-zipf", measure_zipf, conclude_zipf),
)
"""Figures 7 and 8, and duplicates after Zipf."""
