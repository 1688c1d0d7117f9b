"""Reproduces Figures 6 to 8 of the APBF paper: rates for distinct and for repeated keys."""

from itertools import pairwise
from typing import Any

import numpy as np

from campaigns.engine import Point, Result
from lately.golden import analysis
from lately.replay.drawing import Chart, Series

from .apbf import PAPER, WINDOW, build, expected_rate, stream, zipf_universe
from .streams import Keys, chunks, distinct, spread, zipf
from .studies.estimates import SHARES, quotients, share, student
from .studies.study import Conclusion, Finding, Results, figures, grouped

# Figure 6

INSERTIONS = 10_000  # Length of a stream, in insertions.
STEP = 50  # Insertions between two samples.

_STEADY = INSERTIONS // 2


def measure_accuracy(point: Point) -> Result:
    filter = build(point["k"], point["l"], WINDOW, point["seed"])
    generation = filter.spec.generation
    grid = set(range(STEP, INSERTIONS + 1, STEP))
    before = set(range(generation, INSERTIONS + 1, generation))
    after = {count + 1 for count in before if count < INSERTIONS}
    moments = _moments(point["seed"])
    rates: dict[int, float] = {}
    missed = hits = inserted = 0
    for count in sorted(grid | before | after | moments):
        filter.insert(distinct(inserted, count - inserted, point["seed"]))
        inserted = count
        rates[count] = filter.estimated_false_positive_rate()
        if count in grid:
            window = min(count, WINDOW)
            kept = filter.query(distinct(count - window, window, point["seed"]))
            missed += int(np.count_nonzero(~kept))
        if count == max(before):
            probes = chunks(INSERTIONS, INSERTIONS + point["probes"], point["seed"])
            hits = sum(int(np.count_nonzero(filter.query(fresh))) for fresh in probes)
    return {
        "rates": [rates[count] for count in sorted(grid)],
        "peak": _mean(rates, before),
        "trough": _mean(rates, after),
        "mean": _mean(rates, moments),
        "missed": missed,
        "hits": hits,
    }


def _moments(seed: int) -> set[int]:
    stretches = np.arange(0, INSERTIONS, STEP)
    within = np.random.default_rng([seed, 6]).integers(1, STEP, len(stretches), endpoint=True)
    return {int(count) for count in stretches + within}


def _mean(rates: dict[int, float], moments: set[int]) -> float:
    return float(np.mean([rates[count] for count in moments if count > _STEADY]))


def conclude_accuracy(results: Results) -> Conclusion:
    findings, series, swings = [], [], []
    for (k, l), runs in grouped(results, "k", "l").items():
        fields: dict[str, Any] = {
            "k": k,
            "l": l,
            "paper": PAPER.table("2").row(k, l)["actual_fp"],
            "exact": analysis.apbf_false_positive_rate(k, l),
            "probes": sum(point["probes"] for point, _ in runs),
            "aim": 10.0 ** -runs[0][0]["aim"],
        }
        probed = [result["hits"] / point["probes"] for point, result in runs]
        values = {
            "peak": student(figures(runs, "peak")),
            "probed": student(probed, within=SHARES),
            "mean": student(figures(runs, "mean")),
            "zigzag": student(_swings(runs)),
        }
        findings += [PAPER.find(name, value, **fields) for name, value in values.items()]
        swings.append(findings[-1].ours)
        rates = np.array(figures(runs, "rates"))
        # Skip the first insertions, whose rates are too small for the logarithmic axis.
        shown = np.flatnonzero(rates.min(axis=0) > fields["aim"] / 1000)
        means = [student(rates[:, at].tolist())[0] for at in shown]
        series.append(Series(f"k = {k}, l = {l}", (STEP * (1 + shown)).tolist(), means))
    less = sum(high > low for high, low in pairwise(swings))
    findings.append(PAPER.find("calmer", less, neighbours=len(swings) - 1))
    missed = sum(figures(results, "missed"))
    asked = len(results) * sum(min(count, WINDOW) for count in range(STEP, INSERTIONS + 1, STEP))
    findings.append(PAPER.find("missed", share(missed, asked)))
    return Conclusion(findings, [PAPER.chart("apbf-figure-6", series)])


def _swings(runs: Results) -> list[float]:
    return [result["peak"] / result["trough"] - 1 for _, result in runs]


# Amplitude of the zig-zag, for filters of the same false-positive rate


def conclude_zigzag(results: Results) -> Conclusion:
    swings = {pair: _swings(runs) for pair, runs in grouped(results, "k", "l").items()}
    findings = [
        PAPER.find("zigzag-expected", student(values), k=k, l=l, expected=_expected_swing(k, l))
        for (k, l), values in swings.items()
    ]
    for (low, less), (high, more) in pairwise(swings.items()):
        findings.append(
            PAPER.find("attenuated", student(quotients(more, less)), low=low, high=high)
        )
    return Conclusion(findings)


def _expected_swing(k: int, l: int) -> float:
    before = analysis.apbf_fills(k, l)
    high, low = (
        analysis.apbf_false_positive_rate(k, l, fills=f) for f in (before, [0.0, *before[:-1]])
    )
    return high / low - 1


# Figures 7 and 8

_LENGTH = 6000
_HALF = 0.5


def measure_duplicates(point: Point) -> Result:
    seeds = range(point["seeds"])
    runs = [_run(point, stream(point["duplicates"], _LENGTH, seed), seed) for seed in seeds]
    rates, duplicates = zip(*runs, strict=True)
    return {"rates": rates, "duplicates": duplicates}


def _run(point: Point, keys: Keys, seed: int) -> tuple[float, float]:
    filter = build(point["k"], point["l"], WINDOW, seed)
    generation = filter.spec.generation
    rates, duplicates = [], []
    for start in range(0, _LENGTH - generation + 1, generation):
        end = start + generation
        filter.insert(keys[start:end])
        if start >= _LENGTH // 2:
            rates.append(filter.estimated_false_positive_rate())
            duplicates.append(1 - len(np.unique(keys[end - WINDOW : end])) / WINDOW)
    return float(np.mean(rates)), float(np.mean(duplicates))


def measure_zipf(point: Point) -> Result:
    keys = zipf_universe(_HALF)
    runs = [
        (
            _run(point, stream(_HALF, _LENGTH, seed), seed),
            _run(point, spread(zipf(_LENGTH, keys, 1.0, seed), seed), seed),
        )
        for seed in range(point["seeds"])
    ]
    even, skewed = (list(zip(*column, strict=True)) for column in zip(*runs, strict=True))
    return {"uniform": even, "zipf": skewed}


def conclude_lowest(results: Results) -> Conclusion:
    findings = []
    for pair, runs in grouped(results, "k", "l").items():
        findings += [_left_over(pair, _rates(runs)), _bend(pair, _rates(runs))]
    return Conclusion(findings, [_chart(7, results)])


def conclude_tenth(results: Results) -> Conclusion:
    groups = grouped(results, "k", "l")
    findings = [_left_over(pair, _rates(runs)) for pair, runs in groups.items()]
    ordered = sum(low.ours < high.ours for low, high in pairwise(findings))
    findings.append(PAPER.find("keeps-more", ordered, neighbours=len(findings) - 1))
    return Conclusion(findings, [_chart(8, results)])


def conclude_zipf(results: Results) -> Conclusion:
    findings = []
    for point, result in results:
        (even, _), (skewed, shares) = result["uniform"], result["zipf"]
        fields = {"k": point["k"], "l": point["l"], "duplicates": np.mean(shares)}
        findings.append(PAPER.find("zipf", student(quotients(skewed, even)), **fields))
    return Conclusion(findings)


Rates = dict[float, list[float]]  # Rate of duplicates -> false-positive rates, one per seed.


def _rates(runs: Results) -> Rates:
    return {point["duplicates"]: result["rates"] for point, result in runs}


def _left_over(pair: tuple[Any, ...], rates: Rates) -> Finding:
    k, l = pair
    left = student(quotients(rates[_HALF], rates[0.0]))
    expected = expected_rate(k, l, WINDOW, _HALF) / expected_rate(k, l, WINDOW, 0.0)
    return PAPER.find("left-over", left, k=k, l=l, expected=expected)


def _bend(pair: tuple[Any, ...], rates: Rates) -> Finding:
    """Compare two steps of log(rate), which are equal if the rate falls exponentially."""
    first, middle, last = (np.log(rates[duplicates]) for duplicates in (0.0, _HALF / 2, _HALF))
    fall = student(((middle - last) / (first - middle)).tolist())
    return PAPER.find("bend", fall, k=pair[0], l=pair[1])


def _chart(number: int, results: Results) -> Chart:
    marks, lines = [], []
    for (k, l), runs in grouped(results, "k", "l").items():
        label = f"k = {k}, l = {l}"
        x = [float(np.mean(shares)) for shares in figures(runs, "duplicates")]
        rates = [student(rates_of_seeds) for rates_of_seeds in figures(runs, "rates")]
        marks.append(Series.estimated(label, x, rates, marks=True))
        asked = np.linspace(0, runs[-1][0]["duplicates"], 36).tolist()
        lines.append(Series(label, asked, [expected_rate(k, l, WINDOW, d) for d in asked]))
    return PAPER.chart(f"apbf-figure-{number}", [*marks, *lines])


STUDIES = (
    PAPER.study("apbf-figure-6", measure_accuracy, conclude_accuracy),
    PAPER.study("apbf-zigzag", measure_accuracy, conclude_zigzag),
    PAPER.study("apbf-figure-7", measure_duplicates, conclude_lowest),
    PAPER.study("apbf-figure-8", measure_duplicates, conclude_tenth),
    PAPER.study("apbf-zipf", measure_zipf, conclude_zipf),
)
