"""Figures 2 and 4 of the APBF paper: fill ratios, and how keys are forgotten."""

import numpy as np

from ..golden import APBF, analysis
from ..studies.comparison import SHARES, over_seeds, proportion, student
from ..studies.study import Chart, Finding, Outcome, Point, Result, Series, Study
from .apbf_printed import PAPER
from .apbf_runs import build, distinct

K, L = 10, 15
"""Slices that an insertion writes, and generations in the window, of both figures."""

_TURNS = 2 * (K + L)


def points(quick: bool) -> list[Point]:
    """Return a point for each seed."""
    seeds, generation = (4, 250) if quick else (20, 2000)
    return [{"generation": generation, "seed": seed} for seed in range(seeds)]


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


def conclude_fills(results: list[tuple[Point, Result]]) -> Outcome:
    """Hold the fill ratios against (i + 1) / (2k) while a slice fills, and 1/2 afterwards."""
    fills = np.array([result["fills"] for _, result in results])
    exact = analysis.apbf_fills(K, L)
    findings = [
        over_seeds(
            f"slice {i}: fill ratio",
            f"{(i + 1) / (2 * K):.2f}",
            fills[:, i].tolist(),
            note=f"expected: {exact[i]:.4f}",
        )
        for i in range(K)
    ]
    older = fills[:, K:].mean(axis=1).tolist()
    findings.append(over_seeds(f"slices {K} to {K + L - 1}: fill ratio", "0.50", older))
    place = list(range(K + L))
    mean, low, high = zip(*(student(fills[:, i].tolist()) for i in place), strict=True)
    chart = Chart(
        name="apbf-figure-2",
        title=f"Fill ratios just before a shift, k = {K}, l = {L}",
        x="slice, from the youngest",
        y="share of bits set",
        series=[
            Series("measured", place, mean, low, high, marks=True),
            Series("$1 - 2^{-(i+1)/k}$", place, exact),
            Series("$(i+1)/2k$, the paper's", place, analysis.apbf_fills(K, L, profile="linear")),
        ],
    )
    return Outcome(findings, [chart], [_FILLS])


_FILLS = """\
Of distinct keys, after two turns of the ring and just before a shift. Section 5.3 has the fill
ratios (i + 1) / (2k), a straight line. It is not met: the keys of i + 1 generations fill slice i
to 1 - 2^(-(i + 1) / k), since keys that fall on a bit that is set already are the more the
fuller the slice is. Half full after k generations, as the paper has it, holds for both."""


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


def conclude_forgetting(results: list[tuple[Point, Result]]) -> Outcome:
    """Hold the shares of reported keys against 1, 1/2, 1/4 and so on, generation by generation."""
    shares = np.array(
        [np.array(result["reported"]) / point["generation"] for point, result in results]
    )
    asked = L * sum(point["generation"] for point, _ in results)
    missed = asked - sum(sum(result["reported"][:L]) for _, result in results)
    findings = [proportion("keys of the window: share not reported", "0", missed, asked)]
    expected = [_reported(age) for age in range(shares.shape[1])]
    findings += [_forgotten(i, shares[:, L + i].tolist(), expected[L + i]) for i in range(K)]
    excess = (shares[:, L : L + K].sum(axis=1) / L).tolist()
    formula = f"{analysis.apbf_npws(K, L):.4f} by the formula, which leaves out false positives"
    findings.append(over_seeds("peak NPWS", "", excess, note=formula))
    mean, low, high = zip(
        *(student(column, within=SHARES) for column in shares.T.tolist()), strict=True
    )
    age = list(range(shares.shape[1]))
    chart = Chart(
        name="apbf-figure-4",
        title=f"Reported keys by age just before a shift, k = {K}, l = {L}",
        x="generations since the key was inserted",
        y="share reported",
        y_log=True,
        series=[
            Series("measured", age, mean, low, high, marks=True),
            Series("expected", age, expected),
            Series("$2^{-i}$, the paper's", age[L : L + K], [2.0**-i for i in range(K)]),
        ],
    )
    return Outcome(findings, [chart], [_FORGETTING])


def _forgotten(i: int, shares: list[float], expected: float) -> Finding:
    # The paper prints three of them, 'and so on'.
    printed = ("1", "0.5", "0.25")[i] if i < 3 else ""
    name = f"generation {i + 1} of the slack: share reported"
    return over_seeds(name, printed, shares, within=SHARES, note=f"expected: {expected:.4f}")


def _reported(age: int) -> float:
    """Probability that a key is reported whose slices, as far as they are left, match surely."""
    fills = analysis.apbf_fills(K, L)
    fills[age : age + K] = [1.0] * len(fills[age : age + K])
    return analysis.apbf_false_positive_rate(K, L, fills=fills)


_BACKGROUND = analysis.apbf_false_positive_rate(K, L)

_FORGETTING = f"""\
Of distinct keys, after two turns of the ring and just before a shift, when the youngest
generation of the slack is reported surely. A key whose i oldest slices are gone is reported if
the i slices before the others match by chance, 2^-i. The paper says so of the first generations
and draws the others; the shares do not fall to 0 but to the false-positive rate of
{_BACKGROUND:.5f}, as some other k slices may match. What is expected takes this into account."""


STUDIES: tuple[Study, ...] = (
    Study(
        name="apbf-figure-2",
        title="Fill ratios (APBF, Figure 2)",
        source=f"{PAPER}, Figure 2",
        points=points,
        measure=measure_fills,
        conclude=conclude_fills,
    ),
    Study(
        name="apbf-figure-4",
        title="Forgetting (APBF, Figure 4)",
        source=f"{PAPER}, Figure 4",
        points=points,
        measure=measure_forgetting,
        conclude=conclude_forgetting,
    ),
)
"""Figures 2 and 4."""
