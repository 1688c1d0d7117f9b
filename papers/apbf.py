"""Reproduces Tables 1 to 4 and Figures 2 and 4 of the APBF paper."""

import math
from bisect import bisect_left
from dataclasses import replace
from typing import Any

import numpy as np

from campaigns.engine import Point, Result
from lately.golden import APBF, analysis
from lately.golden.ring.rings import SlidingFilter
from lately.golden.sizing import bloom_rate
from lately.golden.timestamp.distinct import expected_distinct, uniform_distinct
from lately.replay.drawing import Series
from papers.models.swamp import SLOT_OVERHEAD, TABLE_SPARE, swamp_bits_per_element
from papers.models.time_limited import slice_bits

from . import formulas
from .paper import Paper, Row
from .streams import Keys, distinct, spread, uniform
from .studies.criteria import Verdict, to_digits_of
from .studies.estimates import SHARES, share, student
from .studies.study import Conclusion, Finding, Results

PAPER = Paper("apbf")  # Age-Partitioned Bloom Filters (Shtul, Baquero and Almeida).
WINDOW = 1000  # Window of sections 5.6.1 and 5.6.2, in insertions.


def build(k: int, l: int, window: int, seed: int) -> APBF:
    """Return the smallest APBF that guarantees a window of `window` insertions (section 5.2)."""
    generation = -(-window // l)
    bits = slice_bits(generation * k)
    return APBF(k=k, l=l, slice_bits=bits, generation=generation, seed=seed)


def fill(filter: SlidingFilter, seed: int) -> int:
    """Insert distinct keys for two rotations of the ring, up to a shift; return their number."""
    inserted = 2 * filter.spec.ring_segments * filter.spec.generation
    filter.insert(distinct(0, inserted, seed))
    return inserted


def universe(duplicates: float, window: int = WINDOW) -> int:
    def different(keys: int) -> float:
        return float(uniform_distinct(window, keys))

    return bisect_left(range(window**3), (1 - duplicates) * window, lo=2, key=different)


def zipf_universe(duplicates: float, window: int = WINDOW) -> int:
    def different(keys: int) -> float:
        weights = 1 / np.arange(1, keys + 1)
        return float(expected_distinct(window, weights / weights.sum()))

    return bisect_left(range(window**2), (1 - duplicates) * window, lo=2, key=different)


def stream(duplicates: float, count: int, seed: int) -> Keys:
    if not duplicates:
        return distinct(0, count, seed)
    return spread(uniform(count, universe(duplicates), seed), seed)


def expected_rate(k: int, l: int, window: int, duplicates: float) -> float:
    generation = -(-window // l)
    # Insertions into each slice: i + 1 generations into slice i, but k from slice k - 1 on.
    keys = generation * np.minimum(np.arange(k + l) + 1, k)
    distinct_keys = uniform_distinct(keys, universe(duplicates)) if duplicates else keys
    fills = [bloom_rate(count, slice_bits(generation * k), 1) for count in distinct_keys.tolist()]
    return analysis.apbf_false_positive_rate(k, l, fills=fills)


_SWAMP_WINDOW = 1 << 16  # Window of Table 4, in insertions.

READINGS = {
    tuple(figure): reading["reason"]
    for reading in PAPER.data["readings"]
    for figure in reading["figures"]
}
"""Reasons why computed figures differ from printed ones, by table, row and column."""

COPIES = {(copy["table"], copy["column"]): copy["reason"] for copy in PAPER.data["copies"]}
"""Reasons why columns of a table are copied instead of computed, by table and column."""


def measure_table(point: Point) -> Result:
    table = PAPER.table(point["table"])
    return {"rows": [_row(point["table"], row, table.values(row)) for row in table.rows()]}


def _row(number: str, row: Row, values: list[int]) -> dict[str, float]:
    if number == "1":
        return formulas.bloom_metrics(formulas.bloom_hashes(float(row["aimed_fp"])))
    if number == "2":
        exact = {"exact_fp": analysis.apbf_false_positive_rate(*values)}
        return formulas.apbf_metrics(*values, profile="linear") | exact
    if number == "3":
        return formulas.apbbf_metrics(*values)
    k, l, block_bits, hashes = values
    metrics = formulas.apbbf_metrics(*values)
    # Just before a shift, k + l segments hold l generations of capacity / k keys per block.
    capacity = analysis.apbbf_block_capacity(block_bits, hashes)
    return {
        "fp": metrics["fp_apbbf"],
        "bits_per_element_swamp": swamp_bits_per_element(_SWAMP_WINDOW, metrics["fp_apbbf"]),
        "bits_per_element_apbbf": (k + l) * block_bits / (l * capacity / k),
        "npws_swamp": 0.0,
        "npws_apbbf": metrics["npws"],
    }


def conclude_table(results: Results) -> Conclusion:
    ((point, result),) = results
    number, rows = point["table"], result["rows"]
    findings = [
        _finding(number, row, column, value)
        for row, values in zip(PAPER.table(number).rows(), rows, strict=True)
        for column, value in values.items()
    ]
    values = {"2": _profiles, "4": _swamp}.get(number, lambda rows: {})(rows)
    return Conclusion(findings, values=values)


def _finding(number: str, row: Row, column: str, value: float) -> Finding:
    name, paper = PAPER.table(number).name(row), row.get(column, "")
    fields = {"row": name, "column": PAPER.data["headings"][column], "paper": paper}
    if column == "bits_per_element_swamp":
        return PAPER.find("approximate", value, **fields, off=value / float(paper) - 1)
    if copied := COPIES.get((int(number), column)):
        finding = PAPER.find("computed", value, **fields, reason=copied)
        return replace(finding, verdict=Verdict.COPIED)
    reason = READINGS.get((int(number), name, column), "")
    return PAPER.find("computed", value, **fields, reason=reason)


def _profiles(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {
        name: to_digits_of("0.000099", analysis.apbf_false_positive_rate(14, 11, profile=name))
        for name in ("linear", "exact")
    }


def _swamp(rows: list[dict[str, float]]) -> dict[str, Any]:
    exponents = [-math.log2(row["fp"]) for row in rows]
    printed = [float(row["bits_per_element_swamp"]) for row in PAPER.table("4").rows()]
    slope, base = map(float, np.polyfit(exponents, printed, 1))
    ours = [row["bits_per_element_swamp"] for row in rows]
    ours_slope, ours_base = map(float, np.polyfit(exponents, ours, 1))
    shares = [row["bits_per_element_apbbf"] / row["bits_per_element_swamp"] for row in rows]
    window_bits = math.log2(_SWAMP_WINDOW)
    spares = [
        (bits - window_bits - exponent) / (exponent + SLOT_OVERHEAD) - 1
        for bits, exponent in zip(printed, exponents, strict=True)
    ]
    return {
        "overhead": SLOT_OVERHEAD,
        "spares": ", ".join(f"{spare:.2f}" for spare in spares),
        "spare": TABLE_SPARE,
        "ours_slope": ours_slope,
        "ours_base": ours_base,
        "slope": slope,
        "base": base,
        "slot": (base - window_bits) / (slope - 1),
        "least": min(shares),
        "greatest": max(shares),
    }


# Figures 2 and 4

K, L = 10, 15  # In both figures: slices that an insertion writes, and generations in the window.


def _filled(point: Point) -> tuple[APBF, int]:
    filter = build(K, L, L * point["generation"], point["seed"])
    return filter, fill(filter, point["seed"])


def measure_fills(point: Point) -> Result:
    filter, _ = _filled(point)
    return {"fills": filter.fill_ratios().tolist()}


def conclude_fills(results: Results) -> Conclusion:
    fills = np.array([result["fills"] for _, result in results])
    exact, linear = analysis.apbf_fills(K, L), analysis.apbf_fills(K, L, profile="linear")
    measured = [student(column) for column in fills.T.tolist()]
    findings = [
        PAPER.find("fill", measured[i], i=i, next=i + 1, linear=(i + 1) / (2 * K), exact=exact[i])
        for i in range(K)
    ]
    findings.append(PAPER.find("full", student(fills[:, K:].mean(axis=1).tolist())))
    slices = list(range(K + L))
    series = [
        Series.estimated("measured", slices, measured, marks=True),
        Series("$1 - 2^{-(i+1)/k}$", slices, exact),
        Series("$(i+1)/2k$, the paper's", slices, linear),
    ]
    return Conclusion(findings, [PAPER.chart("apbf-figure-2", series, k=K, l=L)])


def measure_forgetting(point: Point) -> Result:
    filter, last = _filled(point)
    generation, seed = point["generation"], point["seed"]
    starts = [last - (age + 1) * generation for age in range(2 * K + L)]
    keys = (distinct(start, generation, seed) for start in starts)
    return {"reported": [int(filter.query(group).sum()) for group in keys]}


def conclude_forgetting(results: Results) -> Conclusion:
    shares = np.array(
        [np.array(result["reported"]) / point["generation"] for point, result in results]
    )
    measured = [student(column, within=SHARES) for column in shares.T.tolist()]
    asked = L * sum(point["generation"] for point, _ in results)
    missed = asked - sum(sum(result["reported"][:L]) for _, result in results)
    findings = [PAPER.find("missed", share(missed, asked))]
    expected = [_reported(age) for age in range(len(measured))]
    for i in range(K):
        # The paper prints only the first three, then 'and so on'.
        fields = {"number": i + 1, "paper": ("1", "0.5", "0.25")[i] if i < 3 else ""}
        findings.append(PAPER.find("slack", measured[L + i], exact=expected[L + i], **fields))
    excess = student((shares[:, L : L + K].sum(axis=1) / L).tolist())
    findings.append(PAPER.find("peak-npws", excess, formula=formulas.apbf_npws(K, L)))
    ages = list(range(len(measured)))
    series = [
        Series.estimated("measured", ages, measured, marks=True),
        Series("expected", ages, expected),
        Series("$2^{-i}$, the paper's", ages[L : L + K], [2.0**-i for i in range(K)]),
    ]
    background = analysis.apbf_false_positive_rate(K, L)
    chart = PAPER.chart("apbf-figure-4", series, k=K, l=L)
    return Conclusion(findings, [chart], {"background": background})


def _reported(age: int) -> float:
    """Return the probability that a key of this age is reported; slices of the key always match."""
    fills = analysis.apbf_fills(K, L)
    fills[age : age + K] = [1.0] * len(fills[age : age + K])
    return analysis.apbf_false_positive_rate(K, L, fills=fills)


STUDIES = (
    *(PAPER.study(f"apbf-table-{n}", measure_table, conclude_table) for n in range(1, 5)),
    PAPER.study("apbf-figure-2", measure_fills, conclude_fills),
    PAPER.study("apbf-figure-4", measure_forgetting, conclude_forgetting),
)
