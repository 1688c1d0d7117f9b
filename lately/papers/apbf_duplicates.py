"""Figures 7 and 8 of the APBF paper: false-positive rates under uniform duplication."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby, pairwise

import numpy as np

from ..studies.comparison import over_seeds, student
from ..studies.study import Chart, Finding, Outcome, Point, Result, Series, Study, Verdict
from .apbf_accuracy import FILTERS
from .apbf_printed import PAPER
from .apbf_runs import WINDOW, build, expected_rate, stream

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


def conclude_lowest(results: list[tuple[Point, Result]]) -> Outcome:
    """Tell how the rates of Figure 7 fall."""
    findings = []
    for filter, rates in _by_filter(results):
        findings += [_left_over(filter, rates), _bend(filter, rates)]
    chart = _chart(7, "False-positive rate under uniform duplication", results)
    return Outcome(findings, [chart], [_METHOD, _EXPONENTIAL])


def conclude_tenth(results: list[tuple[Point, Result]]) -> Outcome:
    """Hold the order of the filters of Figure 8 against the paper's."""
    findings = [_left_over(filter, rates) for filter, rates in _by_filter(results)]
    ordered = sum(low.ours < high.ours for low, high in pairwise(findings))
    verdict = Verdict.MET if ordered == len(findings) - 1 else Verdict.NOT_MET
    what = "neighbours of which the one with more slices keeps more of its rate"
    findings.append(Finding(what, "all", ordered, None, None, verdict, f"of {len(findings) - 1}"))
    chart = _chart(8, "The same, for filters with a rate of about 0.1", results)
    return Outcome(findings, [chart], [_METHOD, _SLICES])


Rates = dict[float, list[float]]
"""False-positive rates, one for each seed, by rate of duplicates."""


def _by_filter(
    results: list[tuple[Point, Result]],
) -> Iterable[tuple[tuple[int, int], Rates]]:
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
    mean, low, high = student(((middle - last) / (first - middle)).tolist())
    steeper = Verdict.NEAR if mean > 1 else Verdict.NOT_MET
    return Finding(
        f"k = {k}, l = {l}: orders of magnitude from {_HALF / 2} to {_HALF}, over those before",
        "exponential",
        mean,
        low,
        high,
        Verdict.MET if low <= 1 <= high else steeper,
        "1 if exponential; more is a fall that gets steeper",
    )


def _chart(number: int, title: str, results: list[tuple[Point, Result]]) -> Chart:
    marks, lines = [], []
    for (k, l), group in groupby(results, key=lambda entry: (entry[0]["k"], entry[0]["l"])):
        label = f"k = {k}, l = {l}"
        runs = list(group)
        x = [float(np.mean(result["duplicates"])) for _, result in runs]
        mean, low, high = zip(*(student(result["rates"]) for _, result in runs), strict=True)
        marks.append(Series(label, x, mean, low, high, marks=True))
        asked = np.linspace(0, runs[-1][0]["duplicates"], 36).tolist()
        lines.append(Series(label, asked, [expected_rate(k, l, WINDOW, d) for d in asked]))
    return Chart(
        name=f"apbf-figure-{number}",
        title=title,
        x="rate of duplicates in a window",
        y="false-positive rate before a shift",
        y_log=True,
        series=[*marks, *lines],
    )


_METHOD = f"""\
Keys are drawn uniformly from as many as give the rate of duplicates that is asked for in a
window of {WINDOW:,} insertions. The rate is the mean of those just before a shift, in the second
half of {INSERTIONS:,} insertions, from the bits that are set; see Figure 6. Lines are what is
expected of the mean fill ratios under duplication."""

_EXPONENTIAL = """\
The paper speaks of an exponential decrease. It is steeper than that: on the logarithmic axis the
lines bend downwards, as the rate is about a power of the fill ratio, and the fill ratio falls to
0 with the number of different keys. An exponential underestimates what duplicates do, so that
the paper's advice to size by the known rate of duplicates holds all the more."""

_SLICES = """\
As the paper has it: the more slices, the less the rate falls. A slice holds the keys of k
generations, some k / l of a window, and a duplicate that comes in another slice's time is no
duplicate to it: 1,336 insertions with k = 4, l = 3, but 144 with k = 8, l = 56."""


def _study(
    number: int,
    filters: tuple[tuple[int, int], ...],
    conclude: Callable[[list[tuple[Point, Result]]], Outcome],
) -> Study:
    return Study(
        name=f"apbf-figure-{number}",
        title=f"Duplicates (APBF, Figure {number})",
        source=f"{PAPER}, Figure {number}",
        points=partial(points, filters),
        measure=measure,
        conclude=conclude,
    )


STUDIES: tuple[Study, ...] = (
    _study(7, LOWEST, conclude_lowest),
    _study(8, TENTH, conclude_tenth),
)
"""Figures 7 and 8."""
