"""Tables 1 to 4 of the APBF paper."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lately.golden import analysis
from papers.models.swamp import SLOT_OVERHEAD, TABLE_SPARE, swamp_bits_per_element

from .apbf_runs import PAPER
from .paper import Row
from .studies.comparison import computed, finding, to_digits_of
from .studies.criteria import Verdict, around, digits
from .studies.study import Conclusion, Finding, Point, Result, Results

_SWAMP_WINDOW = 1 << 16
"""Window of Table 4, in insertions."""

_APPROXIMATE = 0.02
"""Relative error that a figure may have which the paper calls approximate."""

READINGS = {
    tuple(figure): reading["reason"]
    for reading in PAPER.data["readings"]
    for figure in reading["figures"]
}
"""Why a computed figure differs from the printed one: by table, row and column."""


COPIES = {(copy["table"], copy["column"]): copy["reason"] for copy in PAPER.data["copies"]}
"""Values of a table that are taken from elsewhere, not computed: by table and column."""


def measure(metrics: Callable[..., dict[str, float]], point: Point) -> Result:
    """Compute the rows of a table."""
    return {"rows": [metrics(*row) for row in point["rows"]]}


def _bloom(rate: float) -> dict[str, float]:
    """Return the row of Table 1 for a false-positive rate that is aimed at."""
    return analysis.bloom_metrics(analysis.bloom_hashes(rate))


def _apbf(k: int, l: int) -> dict[str, float]:
    """Return a row of Table 2, and its false-positive rate in the exact profile."""
    exact = {"exact_fp": analysis.apbf_false_positive_rate(k, l)}
    return analysis.apbf_metrics(k, l, profile="linear") | exact


def _costs(k: int, l: int, block_bits: int, hashes_per_block: int) -> dict[str, float]:
    metrics = analysis.apbbf_metrics(k, l, block_bits, hashes_per_block)
    # Just before a shift, k + l segments hold l generations of capacity / k keys a block.
    capacity = analysis.apbbf_block_capacity(block_bits, hashes_per_block)
    return {
        "fp": metrics["fp_apbbf"],
        "bits_per_element_swamp": swamp_bits_per_element(_SWAMP_WINDOW, metrics["fp_apbbf"]),
        "bits_per_element_apbbf": (k + l) * block_bits / (l * capacity / k),
        "npws_swamp": 0.0,
        "npws_apbbf": metrics["npws"],
    }


def points(number: str, quick: bool) -> list[Point]:
    """Return the one point of a table, which has all its rows; both forms are the same."""
    table = PAPER.table(number)
    if number == "1":
        return [{"rows": [[float(row["aimed_fp"])] for row in table.rows()]}]
    return [{"rows": [table.values(row) for row in table.rows()]}]


def conclude(number: str, results: Results) -> Conclusion:
    """Hold the figures of a table, row by row, against the printed ones, where there are any."""
    ((_, result),) = results
    table = PAPER.table(number)
    findings = [
        _finding(number, row, column, value)
        for row, values in zip(table.rows(), result["rows"], strict=True)
        for column, value in values.items()
    ]
    values = _VALUES[number](result["rows"]) if number in _VALUES else {}
    return Conclusion(findings, notes=PAPER.notes(f"apbf-table-{number}", **values))


def _finding(number: str, row: Row, column: str, value: float) -> Finding:
    name = PAPER.table(number).name(row)
    note = READINGS.get((int(number), name, column), "")
    what = f"{name}: {PAPER.data['headings'][column]}"
    if column == "bits_per_element_swamp":
        return _approximate(what, row[column], value)
    found = computed(what, row.get(column, ""), value, note=note)
    copied = COPIES.get((int(number), column))
    return replace(found, verdict=Verdict.COPIED, note=copied) if copied else found


def _approximate(what: str, printed: str, value: float) -> Finding:
    """Judge a figure that the paper calls approximate."""
    figure = float(printed)
    near = around(figure, _APPROXIMATE).within
    note = f"{value / figure - 1:+.1%}; the paper calls it approximate"
    return finding(what, printed, value, replace(digits(printed), near=near), note)


def _profiles(rows: list[dict[str, float]]) -> dict[str, str]:
    """Return the rates of k = 14, l = 11 in both profiles of fill ratios."""
    return {
        profile: to_digits_of(
            "0.000099", analysis.apbf_false_positive_rate(14, 11, profile=profile)
        )
        for profile in ("linear", "exact")
    }


def _swamp(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Return what the note on SWAMP says of its bits."""
    exponents = [-math.log2(row["fp"]) for row in rows]
    printed = [float(row["bits_per_element_swamp"]) for row in PAPER.table("4").rows()]
    slope, base = np.polyfit(exponents, printed, 1)
    ours = [row["bits_per_element_swamp"] for row in rows]
    ours_slope, ours_base = np.polyfit(exponents, ours, 1)
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
        "most": _APPROXIMATE,
        "least": min(shares),
        "greatest": max(shares),
    }


_VALUES: dict[str, Callable[[list[dict[str, float]]], dict[str, Any]]] = {
    "2": _profiles,
    "4": _swamp,
}

STUDIES = tuple(
    PAPER.study(
        f"apbf-table-{number}",
        partial(measure, metrics),
        partial(conclude, number),
        points=partial(points, number),
    )
    for number, metrics in (
        ("1", _bloom),
        ("2", _apbf),
        ("3", analysis.apbbf_metrics),
        ("4", _costs),
    )
)
"""Tables 1 to 4."""
