"""Reproduces Tables 1 to 4 of the APBF paper."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from campaigns.engine import Point, Result
from lately.golden import analysis
from papers.models.cells import SLOT_OVERHEAD, TABLE_SPARE, swamp_bits_per_element

from .apbf import CASES, PAPER
from .studies.criteria import Verdict, to_digits_of
from .studies.paper import Conclusion, Finding, Results, Row

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
    number, table = point["table"], PAPER.table(point["table"])
    return {"rows": [metrics(number, row, table.values(row)) for row in table.rows()]}


def metrics(number: str, row: Row, values: list[int]) -> dict[str, float]:
    if number == "1":
        k = math.ceil(-math.log2(float(row["aimed_fp"])))  # Section 4.1.
        return {
            "bits_per_item": k / math.log(2),
            "actual_fp": 0.5**k,
            "accesses_true": analysis.bloom_accesses(k, "true"),
            "accesses_false": analysis.bloom_accesses(k, "false"),
        }
    if number == "2":
        k, l = values
        # The profile 'linear' gives the printed figures.
        rate = analysis.apbf_false_positive_rate(k, l, profile="linear")
        return {
            "actual_fp": rate,
            # The memory of a Bloom filter of this rate, whose log2(1 / rate) hash functions are not
            # rounded up, divided by the memory of the APBF (section 5.5).
            "efficiency": float(-math.log2(rate) / k * l / (k + l)),
            **_accesses(k, l, analysis.apbf_fills(k, l, profile="linear")),
            "npws": analysis.npws(k, l, 1 / 2),
            "exact_fp": analysis.apbf_false_positive_rate(k, l),
        }
    k, l, block_bits, hashes = values
    fills = analysis.apbbf_fills(k, l, block_bits, hashes)
    rate = analysis.apbf_false_positive_rate(k, l, fills=fills)
    npws = analysis.npws(k, l, fills[-1])
    capacity = analysis.apbbf_block_capacity(block_bits, hashes)
    if number == "3":
        return {
            "fp_apbbf": rate,
            "fp_apbf_same_memory": analysis.apbf_false_positive_rate(
                k * hashes, l * hashes, profile="linear"
            ),
            # The window relative to an APBF with the same memory.
            "relative_capacity": capacity * hashes / (block_bits * math.log(2)),
            **_accesses(k, l, fills),
            "npws": npws,
        }
    return {
        "fp": rate,
        "bits_per_element_swamp": swamp_bits_per_element(_SWAMP_WINDOW, rate),
        # Just before a shift, k + l segments hold l generations of capacity / k keys per block.
        "bits_per_element_apbbf": (k + l) * block_bits / (l * capacity / k),
        "npws_swamp": 0.0,
        "npws_apbbf": npws,
    }


def _accesses(k: int, l: int, fills: Sequence[float]) -> dict[str, float]:
    return {
        f"accesses_{column}": analysis.apbf_accesses(k, l, case, fills=fills)
        for column, case in CASES.items()
    }


def conclude_table(results: Results) -> Conclusion:
    ((point, result),) = results
    number, rows = point["table"], result["rows"]
    findings = [
        _finding(number, row, column, value)
        for row, values in zip(PAPER.table(number).rows(), rows, strict=True)
        for column, value in values.items()
    ]
    values: dict[str, Any] = {}
    if number == "2":
        for profile in ("linear", "exact"):
            rate = analysis.apbf_false_positive_rate(14, 11, profile=profile)
            values[profile] = to_digits_of("0.000099", rate)
    elif number == "4":
        values = _swamp(rows)
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


STUDIES = tuple(PAPER.study(f"apbf-table-{n}", measure_table, conclude_table) for n in range(1, 5))
