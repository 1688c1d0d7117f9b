"""Section 5.6.1 of the APBF paper: false-positive rates while distinct keys are inserted."""

from itertools import groupby, pairwise
from typing import Any

import numpy as np

from lately.golden import APBF, analysis
from lately.replay.drawing import Series

from .apbf_runs import PAPER, WINDOW, build, distinct
from .studies.comparison import SHARES, claim, never, over_seeds, student
from .studies.criteria import between, every
from .studies.study import Conclusion, Finding, Point, Result, Results

INSERTIONS = 10_000
"""Length of a stream."""
STEP = 50
"""Insertions between two samples."""

FILTERS = {1: (4, 3), 2: (7, 5), 3: (10, 7), 4: (14, 11), 5: (17, 13)}
"""k and l by the exponent of the rate that is aimed at: the lowest pairs of Table 2."""

_CHUNK = 1 << 18
_STEADY = INSERTIONS // 2
_MOST_PROBES = 10_000_000


def points(quick: bool) -> list[Point]:
    """Return a point for each filter and seed.

    The paper probes 10^i times 10^4 keys; here these are shared among the
    seeds if a point would take minutes, and at 10^-5 they are a tenth.
    """
    probes = {i: min(10**i * 10_000, _MOST_PROBES) for i in FILTERS}
    if quick:
        probes = {1: 10_000, 2: 50_000, 3: 200_000, 4: 500_000, 5: 500_000}
    return [
        {"aim": i, "k": k, "l": l, "probes": probes[i], "seed": seed}
        for i, (k, l) in FILTERS.items()
        for seed in range(3 if quick else 10)
    ]


def measure(point: Point) -> Result:
    """Insert distinct keys; note rates and missed keys, and probe at the last shift.

    The mean is that of one moment, at random, of every `STEP` insertions: moments at equal
    distances would meet few phases of a generation, and these again and again.
    """
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
            hits = _probe(filter, point["probes"], point["seed"])
    return {
        "rates": [rates[count] for count in sorted(grid)],
        "peak": _mean(rates, before),
        "trough": _mean(rates, after),
        "mean": _mean(rates, moments),
        "missed": missed,
        "hits": hits,
    }


def _moments(seed: int) -> set[int]:
    """Return numbers of insertions, one of every `STEP`."""
    stretches = np.arange(0, INSERTIONS, STEP)
    within = np.random.default_rng([seed, 6]).integers(1, STEP, len(stretches), endpoint=True)
    return {int(count) for count in stretches + within}


def _mean(rates: dict[int, float], moments: set[int]) -> float:
    return float(np.mean([rates[count] for count in moments if count > _STEADY]))


def _probe(filter: APBF, probes: int, seed: int) -> int:
    hits = 0
    for start in range(0, probes, _CHUNK):
        fresh = distinct(INSERTIONS + start, min(_CHUNK, probes - start), seed)
        hits += int(np.count_nonzero(filter.query(fresh)))
    return hits


def conclude(results: Results) -> Conclusion:
    """Hold the rates against those that Table 2 has of the same filters."""
    findings = []
    series = []
    swings = []
    for aim, group in groupby(results, key=lambda entry: entry[0]["aim"]):
        runs = list(group)
        findings += _findings(aim, runs)
        swings.append(findings[-1].ours)
        series += _series(aim, [result["rates"] for _, result in runs])
    less = sum(high > low for high, low in pairwise(swings))
    what = "neighbours of which the one with the lower rate has less of a zig-zag"
    neighbours = len(swings) - 1
    findings.append(claim(what, "all", less, every(neighbours), f"Of {neighbours}."))
    missed = sum(result["missed"] for _, result in results)
    asked = len(results) * sum(min(count, WINDOW) for count in range(STEP, INSERTIONS + 1, STEP))
    findings.append(never("keys of the window: share not reported", missed, asked))
    chart = PAPER.chart("apbf-figure-6", series)
    return Conclusion(findings, [chart], PAPER.notes("apbf-figure-6"))


def _findings(aim: int, runs: Results) -> list[Finding]:
    k, l = FILTERS[aim]
    table = PAPER.table("2")
    printed = next(row["actual_fp"] for row in table.rows() if table.values(row) == [k, l])
    name = f"k = {k}, l = {l}"
    expected = analysis.apbf_false_positive_rate(k, l)

    def of(column: str) -> list[Any]:
        return [result[column] for _, result in runs]

    shares = [result["hits"] / point["probes"] for point, result in runs]
    probes = sum(point["probes"] for point, _ in runs)
    swings = _swings(runs)
    exact = f"{expected:.4g} with the exact profile of fill ratios"
    return [
        over_seeds(f"{name}: rate before a shift", printed, of("peak"), note=exact),
        over_seeds(
            f"{name}: the same, probed", printed, shares, within=SHARES, note=f"{probes:,} probes"
        ),
        over_seeds(f"{name}: mean rate", printed, of("mean"), note=f"aimed at: {10.0**-aim:g}"),
        over_seeds(f"{name}: zig-zag, highest over lowest less 1", "", swings),
    ]


def _swings(runs: Results) -> list[float]:
    return [result["peak"] / result["trough"] - 1 for _, result in runs]


def _series(aim: int, rates: list[list[float]]) -> list[Series]:
    k, l = FILTERS[aim]
    columns = zip(range(STEP, INSERTIONS + 1, STEP), zip(*rates, strict=True), strict=True)
    # A logarithmic axis cannot show the first insertions.
    drawn = [(count, rate) for count, rate in columns if min(rate) > 10.0 ** -(aim + 3)]
    means = [student(rate)[0] for _, rate in drawn]
    return [Series(f"k = {k}, l = {l}", [count for count, _ in drawn], means)]


# Zig-zag of filters of the same rate


def conclude_tenth(results: Results) -> Conclusion:
    """Hold the zig-zag of each filter against that of its neighbour with more slices."""
    groups = groupby(results, key=lambda entry: (entry[0]["k"], entry[0]["l"]))
    swings = {pair: _swings(list(group)) for pair, group in groups}
    findings = []
    for (k, l), values in swings.items():
        expected = _expected_swing(k, l)
        what = f"k = {k}, l = {l}: zig-zag, highest over lowest less 1"
        findings.append(over_seeds(what, "", values, note=f"expected: {expected:.4g}"))
    for (low, less), (high, more) in pairwise(swings.items()):
        quotients = [after / before for before, after in zip(less, more, strict=True)]
        what = f"k, l = {high[0]}, {high[1]}: zig-zag over that of {low[0]}, {low[1]}"
        findings.append(claim(what, "increasingly attenuate", student(quotients), between(0, 0.9)))
    return Conclusion(findings, notes=PAPER.notes("apbf-zigzag"))


def _expected_swing(k: int, l: int) -> float:
    """Return the zig-zag of the mean fill ratios just before a shift and at the first key after."""
    before = analysis.apbf_fills(k, l)
    rates = (
        analysis.apbf_false_positive_rate(k, l, fills=f) for f in (before, [0.0, *before[:-1]])
    )
    high, low = rates
    return high / low - 1


STUDIES = (
    PAPER.study("apbf-figure-6", measure, conclude, points=points),
    PAPER.study("apbf-zigzag", measure, conclude_tenth),
)
"""Figure 6, and the zig-zag of filters of the same rate."""
