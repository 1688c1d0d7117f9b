"""Figures 7 and 8 of the APBF paper: false-positive rates under uniform duplication."""

from collections.abc import Iterable
from functools import partial
from itertools import groupby, pairwise

import numpy as np

from ..studies.comparison import claim, over_seeds, student
from ..studies.study import Chart, Finding, Outcome, Point, Result, Results, Series
from .apbf_accuracy import FILTERS
from .apbf_runs import PAPER, WINDOW, build, expected_rate, stream

INSERTIONS = 6000
"""Length of a stream."""

LOWEST = tuple(FILTERS.values())
"""k and l of Figure 7."""

TENTH = ((4, 3), (5, 7), (6, 14), (7, 28), (8, 56))
"""k and l of Figure 8, all of some 0.1."""

_HALF = 0.5


def points(filters: tuple[tuple[int, int], ...], quick: bool) -> list[Point]:
    """Return a point for each filter and rate of duplicates."""
    rates = (0.0, 0.25, 0.5) if quick else tuple(i / 8 for i in range(8))
    seeds = 3 if quick else 10
    return [
        {"k": k, "l": l, "duplicates": rate, "seeds": seeds} for k, l in filters for rate in rates
    ]


def measure(point: Point) -> Result:
    """Measure, for each seed, the mean rate just before a shift and the rate of duplicates."""
    runs = [_run(point, seed) for seed in range(point["seeds"])]
    rates, duplicates = zip(*runs, strict=True)
    return {"rates": rates, "duplicates": duplicates}


def _run(point: Point, seed: int) -> tuple[float, float]:
    filter = build(point["k"], point["l"], WINDOW, seed)
    keys = stream(point["duplicates"], INSERTIONS, seed)
    generation = filter.spec.generation
    rates, duplicates = [], []
    for start in range(0, INSERTIONS - generation + 1, generation):
        end = start + generation
        filter.insert(keys[start:end])
        if start >= INSERTIONS // 2:
            rates.append(filter.estimated_false_positive_rate())
            duplicates.append(1 - len(np.unique(keys[end - WINDOW : end])) / WINDOW)
    return float(np.mean(rates)), float(np.mean(duplicates))


def conclude_lowest(results: Results) -> Outcome:
    """Tell how the rates of Figure 7 fall."""
    kinds = (_left_over, _bend)
    findings = [kind(*found) for found in _by_filter(results) for kind in kinds]
    return Outcome(findings, [_chart(7, results)], PAPER.notes("apbf-figure-7"))


def conclude_tenth(results: Results) -> Outcome:
    """Hold the order of the filters of Figure 8 against the paper's."""
    findings = [_left_over(filter, rates) for filter, rates in _by_filter(results)]
    ordered = sum(low.ours < high.ours for low, high in pairwise(findings))
    what = "neighbours of which the one with more slices keeps more of its rate"
    neighbours = len(findings) - 1
    findings.append(claim(what, "all", ordered, ordered == neighbours, f"of {neighbours}"))
    return Outcome(findings, [_chart(8, results)], PAPER.notes("apbf-figure-8"))


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
        fall[1] <= 1 <= fall[2],
        "1 if exponential; more is a fall that gets steeper",
        near=fall[0] > 1,
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
    PAPER.study("apbf-figure-7", partial(points, LOWEST), measure, conclude_lowest),
    PAPER.study("apbf-figure-8", partial(points, TENTH), measure, conclude_tenth),
)
"""Figures 7 and 8."""
