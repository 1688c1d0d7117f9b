"""Theorems 2 and 3 of the cuckoo paper: list, moves and bits."""

import math
import statistics
from collections.abc import Sequence

from lately.replay.drawing import Estimate, Series
from papers.models.cuckoo import CuckooDictionary
from papers.models.cuckoo_sizes import time_decaying_space_bound

from .cuckoo_findings import PAPER, mean_of
from .cuckoo_runs import timing_bits
from .studies.comparison import claim, computed, ours, share
from .studies.criteria import around, between
from .studies.streams import uniform
from .studies.study import Conclusion, Finding, Point, Result, Results

LOADS = (2.0, 1.2, 1.0)
"""Positions of a table for each key of the window; the first is the paper's."""

UNIVERSE = 100_000
"""Universe of the evaluation, for the lower bound."""


# Theorem 2


def measure_list(point: Point) -> Result:
    """Insert different keys; return the mean list and the mean moves at each load."""
    runs = [[_filled(window, load, point) for window in point["windows"]] for load in LOADS]
    return {"runs": runs}


def _filled(window: int, load: float, point: Point) -> Result:
    filter = CuckooDictionary(window=window, positions=round(load * window), seed=point["seed"])
    count = max(point["insertions"], 6 * window)
    keys = uniform(count, 1 << 62, point["seed"])
    filter.insert(keys[: 2 * window])
    before, listed, occupied = filter.moved, [], []
    step = max(window // 4, 1)
    for start in range(2 * window, count, step):
        filter.insert(keys[start : start + step])
        listed.append(filter.overflow)
        occupied.append(filter.occupied)
    return {
        "insertions": count,
        "peak": filter.overflow_peak,
        "listed": statistics.fmean(listed),
        "moved": (filter.moved - before) / (count - 2 * window),
        "occupied": statistics.fmean(occupied) / window,
    }


def conclude_list(results: Results) -> Conclusion:
    """Conclude whether list and moves stay bounded as the window grows."""
    windows = results[0][0]["windows"]
    found, lists, moves = [], [], []
    for number, load in enumerate(LOADS):
        columns = [
            [result["runs"][number][at] for _, result in results] for at in range(len(windows))
        ]
        listed = [_mean_list(n, runs) for n, runs in zip(windows, columns, strict=True)]
        moved = [mean_of([run["moved"] for run in runs]) for runs in columns]
        found += _list_findings(load, windows, listed, moved)
        lists.append(Series.estimated(f"{load:g} n positions", windows, listed))
        moves.append(Series.estimated(f"{load:g} n positions", windows, moved))
    charts = [
        PAPER.chart("cuckoo-theorem-2-list", lists),
        PAPER.chart("cuckoo-theorem-2-moves", moves),
    ]
    return Conclusion(found, charts, PAPER.notes("cuckoo-theorem-2"))


def _mean_list(window: int, runs: Sequence[Result]) -> Estimate:
    """Return the mean of the list; if no insertion failed, the bound from its probability."""
    mean, low, high = mean_of([run["listed"] for run in runs])
    if not any(run["peak"] for run in runs):
        high = window * share(0, sum(run["insertions"] for run in runs))[2]
    return mean, low, high


def _list_findings(
    load: float, windows: Sequence[int], listed: Sequence[Estimate], moved: Sequence[Estimate]
) -> list[Finding]:
    at = f"{load:g} n positions, n = {windows[-1]:,}"
    list_, moves = f"{at}: mean keys in the list", f"{at}: mean moves of an insertion"
    if load != LOADS[0]:
        return [ours(list_, listed[-1]), ours(moves, moved[-1])]
    # A key whose insertion fails is in the list for n insertions.
    failing = [
        claim(
            f"{load:g} n positions, n = {window:,}: mean keys in the list, failed insertions of n",
            "O(1)",
            value,
            between(0, 1),
        )
        for window, value in zip(windows, listed, strict=True)
    ]
    return [*failing, claim(moves, "O(1)", moved[-1], between(0, 1))]


# Theorem 3 and the bits of section IV


def measure_space(point: Point) -> Result:
    """Count the bits of a dictionary of 2 n positions when its window is full."""
    filter = CuckooDictionary.for_error_rate(
        window=point["window"], error_rate=point["error_rate"], seed=point["seed"]
    )
    filter.insert(uniform(point["insertions"], 1 << 62, point["seed"]))
    return {
        "signature": filter.signature_bits,
        "tables": filter.storage_bits,
        "variable": filter.variable_length_bits,
        "expected": filter.expected_false_positive_rate(),
    }


def conclude_space(results: Results) -> Conclusion:
    """Hold the bits against those of a timing Bloom filter and the lower bound."""
    found = []
    for point, result in results:
        found += _space_findings(point["error_rate"], point["window"], result)
    return Conclusion(found, notes=PAPER.notes("cuckoo-theorem-3"))


def _space_findings(rate: float, window: int, result: Result) -> list[Finding]:
    at = f"error rate {rate:g}, n = {window:,}"
    other = timing_bits(window, rate)
    bound = time_decaying_space_bound(window=window, universe=UNIVERSE, error_rate=rate)
    saving = 1 / math.log2(1 / rate)
    achieved = timing_bits(window, result["expected"])
    return [
        computed(f"{at}: bits of a signature", "", result["signature"]),
        ours(f"{at}: bits of the tables for each key", result["tables"] / window),
        ours(
            f"{at}: the same as arrays of variable length",
            result["variable"] / window,
            "without the constant of such arrays; what has expired and is not swept counts",
        ),
        ours(f"{at}: bits of a timing Bloom filter for each key", other / window),
        ours(f"{at}: lower bound (Theorem 3) for each key, 100,000 keys", bound / window),
        claim(
            f"{at}: bits over those of a timing Bloom filter",
            "1 / log(1 / epsilon)",
            result["tables"] / other,
            around(saving, 0.2),
            "the paper's 1 / log(1 / epsilon) leaves out constants: four positions for each key, "
            "each with a position of log n bits beside the timestamp",
        ),
        ours(
            f"{at}: the same, for the rate that is achieved",
            result["tables"] / achieved,
            f"expected rate {result['expected']:.3g}, below the bound",
        ),
        ours(f"{at}: the same, with arrays of variable length", result["variable"] / achieved),
    ]


STUDIES = (
    PAPER.study("cuckoo-theorem-2", measure_list, conclude_list),
    PAPER.study("cuckoo-theorem-3", measure_space, conclude_space),
)
"""Theorem 2, then sections IV and V."""
