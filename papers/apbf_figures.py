"""Figures 2 and 4 of the APBF paper: fill ratios, and how keys are forgotten."""

import numpy as np

from lately.golden import APBF, analysis
from lately.replay.drawing import Series

from .apbf_runs import PAPER, build, distinct
from .studies.comparison import SHARES, claim, never, over_seeds, student
from .studies.criteria import figure
from .studies.study import Conclusion, Point, Result, Results

K, L = 10, 15
"""Slices that an insertion writes, and generations in the window, of both figures."""

_TURNS = 2 * (K + L)


def _filled(point: Point) -> APBF:
    """Return the filter after two turns of the ring, just before a shift."""
    generation, seed = point["generation"], point["seed"]
    filter = build(K, L, L * generation, seed)
    filter.insert(distinct(0, _TURNS * generation, seed))
    return filter


# Figure 2


def measure_fills(point: Point) -> Result:
    """Measure the fill ratio of each slice, youngest first."""
    return {"fills": _filled(point).fill_ratios().tolist()}


def conclude_fills(results: Results) -> Conclusion:
    """Hold the fill ratios against (i + 1) / (2k) while a slice fills, and 1/2 afterwards."""
    fills = np.array([result["fills"] for _, result in results])
    exact = analysis.apbf_fills(K, L)
    findings = [
        claim(
            f"slice {i}: fill ratio",
            f"(i + 1) / 2k, {i + 1} / {2 * K}",
            student(fills[:, i].tolist()),
            figure(f"{(i + 1) / (2 * K):.2f}"),
            f"expected: {exact[i]:.4f}",
        )
        for i in range(K)
    ]
    older = fills[:, K:].mean(axis=1).tolist()
    what = f"slices {K} to {K + L - 1}: fill ratio"
    findings.append(claim(what, "1 / 2", student(older), figure("0.50")))
    place = list(range(K + L))
    measured = (student(fills[:, i].tolist()) for i in place)
    series = [
        Series.estimated("measured", place, measured, marks=True),
        Series("$1 - 2^{-(i+1)/k}$", place, exact),
        Series("$(i+1)/2k$, the paper's", place, analysis.apbf_fills(K, L, profile="linear")),
    ]
    chart = PAPER.chart("apbf-figure-2", series, k=K, l=L)
    return Conclusion(findings, [chart], PAPER.notes("apbf-figure-2"))


# Figure 4


def measure_forgetting(point: Point) -> Result:
    """Count the reported keys of each generation, the present one first, down to expired ones."""
    filter = _filled(point)
    generation, seed = point["generation"], point["seed"]
    last = _TURNS * generation
    ages = range(2 * K + L)
    reported = [
        int(filter.query(distinct(last - (age + 1) * generation, generation, seed)).sum())
        for age in ages
    ]
    return {"reported": reported}


def conclude_forgetting(results: Results) -> Conclusion:
    """Hold the shares of reported keys against 1, 1/2, 1/4 and so on, generation by generation."""
    shares = np.array(
        [np.array(result["reported"]) / point["generation"] for point, result in results]
    )
    asked = L * sum(point["generation"] for point, _ in results)
    missed = asked - sum(sum(result["reported"][:L]) for _, result in results)
    findings = [never("keys of the window: share not reported", missed, asked)]
    expected = [_reported(age) for age in range(shares.shape[1])]
    for i in range(K):
        # The paper prints three of them, 'and so on'.
        printed = ("1", "0.5", "0.25")[i] if i < 3 else ""
        name = f"generation {i + 1} of the slack: share reported"
        of_seeds, note = shares[:, L + i].tolist(), f"expected: {expected[L + i]:.4f}"
        findings.append(over_seeds(name, printed, of_seeds, within=SHARES, note=note))
    excess = (shares[:, L : L + K].sum(axis=1) / L).tolist()
    formula = f"{analysis.apbf_npws(K, L):.4f} by the formula, which leaves out false positives"
    findings.append(over_seeds("peak NPWS", "", excess, note=formula))
    measured = (student(column, within=SHARES) for column in shares.T.tolist())
    age = list(range(shares.shape[1]))
    series = [
        Series.estimated("measured", age, measured, marks=True),
        Series("expected", age, expected),
        Series("$2^{-i}$, the paper's", age[L : L + K], [2.0**-i for i in range(K)]),
    ]
    chart = PAPER.chart("apbf-figure-4", series, k=K, l=L)
    background = analysis.apbf_false_positive_rate(K, L)
    return Conclusion(findings, [chart], PAPER.notes("apbf-figure-4", background=background))


def _reported(age: int) -> float:
    """Probability that a key is reported whose slices, as far as they are left, match surely."""
    fills = analysis.apbf_fills(K, L)
    fills[age : age + K] = [1.0] * len(fills[age : age + K])
    return analysis.apbf_false_positive_rate(K, L, fills=fills)


STUDIES = (
    PAPER.study("apbf-figure-2", measure_fills, conclude_fills),
    PAPER.study("apbf-figure-4", measure_forgetting, conclude_forgetting),
)
"""Figures 2 and 4."""
