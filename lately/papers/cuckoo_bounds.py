"""Theorems 2 and 3 of the cuckoo paper: list, moves and bits."""

import math
import statistics
from collections.abc import Sequence

from ..golden.cuckoo.dictionary import CuckooDictionary
from ..golden.cuckoo.sizes import time_decaying_space_bound
from ..intervals import clopper_pearson
from ..studies.streams import uniform
from ..studies.study import Chart, Finding, Outcome, Point, Result, Series, Study, Verdict
from .cuckoo_findings import PAPER, claim, ours
from .cuckoo_runs import Estimate, student, timing_bits

LOADS = (2.0, 1.2, 1.0)
"""Positions of a table for each key of the window; the first is the paper's."""

ERROR_RATES = (1e-3, 1e-6)
"""For which the bits are computed."""

WINDOW = 10_000
"""In insertions."""

UNIVERSE = 100_000
"""Universe of the evaluation, for the lower bound."""


# Theorem 2


def points_list(quick: bool) -> list[Point]:
    """Return a point for each seed."""
    windows = [64, 512, 4096] if quick else [64, 256, 1024, 4096, 16_384]
    return [
        {"windows": windows, "seed": seed, "insertions": 20_000 if quick else 200_000}
        for seed in range(3 if quick else 6)
    ]


def measure_list(point: Point) -> Result:
    """Insert different keys; tell the mean of the list and of the moves at each load."""
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


def conclude_list(results: list[tuple[Point, Result]]) -> Outcome:
    """Tell whether list and moves stay bounded as the window grows."""
    windows = results[0][0]["windows"]
    found, lists, moves = [], [], []
    for number, load in enumerate(LOADS):
        columns = [
            [result["runs"][number][at] for _, result in results] for at in range(len(windows))
        ]
        listed = [_mean_list(n, runs) for n, runs in zip(windows, columns, strict=True)]
        moved = [student([run["moved"] for run in runs]) for runs in columns]
        found += _list_findings(load, windows, listed, moved)
        lists.append(_series(load, windows, listed))
        moves.append(_series(load, windows, moved))
    return Outcome(
        found,
        [
            _chart("list", "Keys in the list, mean", lists),
            _chart("moves", "Moves of an insertion, mean", moves),
        ],
        [_LIST],
    )


def _mean_list(window: int, runs: Sequence[Result]) -> Estimate:
    """Return the mean of the list; if no insertion failed, what the probability of it allows."""
    mean, low, high = student([run["listed"] for run in runs])
    if not any(run["peak"] for run in runs):
        interval = clopper_pearson(0, sum(run["insertions"] for run in runs))
        high = window * interval[1] if interval else high
    return mean, low, high


def _list_findings(
    load: float, windows: Sequence[int], listed: Sequence[Estimate], moved: Sequence[Estimate]
) -> list[Finding]:
    at = f"{load:g} n positions, n = {windows[-1]:,}"
    list_, moves = f"{at}: mean keys in the list", f"{at}: mean moves of an insertion"
    if load != LOADS[0]:
        return [ours(list_, listed[-1]), ours(moves, moved[-1])]
    return [
        claim(list_, "O(1)", listed[-1], listed[-1][1] <= max(1.0, listed[0][2]), _CONSTANT),
        claim(moves, "O(1)", moved[-1], moved[-1][1] <= max(1.0, moved[0][2]), _CONSTANT),
    ]


def _series(load: float, windows: Sequence[int], values: Sequence[Estimate]) -> Series:
    mean, low, high = (list(column) for column in zip(*values, strict=True))
    return Series(f"{load:g} n positions", windows, mean, low, high)


def _chart(name: str, title: str, series: list[Series]) -> Chart:
    return Chart(f"cuckoo-theorem-2-{name}", title, "window", title.lower(), series, x_log=True)


_CONSTANT = "met if it is no more than 1, or than in the smallest window"

_LIST = """\
Keys are all different, so that every window has as many keys as insertions: the most that the
tables have to hold. With the paper's 2 n positions in each table, three quarters of all positions
are free, and hardly any insertion fails. With n positions, the tables are at the threshold of
cuckoo hashing, and the list grows with the window."""


# Theorem 3 and the bits of section IV


def points_space(quick: bool) -> list[Point]:
    """Return a point for each error rate."""
    return [
        {"error_rate": rate, "window": WINDOW, "seed": 1, "insertions": 3 * WINDOW}
        for rate in ERROR_RATES
    ]


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


def conclude_space(results: list[tuple[Point, Result]]) -> Outcome:
    """Hold the bits against those of a timing Bloom filter and the lower bound."""
    found = []
    for point, result in results:
        found += _space_findings(point["error_rate"], point["window"], result)
    return Outcome(found, [], [_SPACE])


def _space_findings(rate: float, window: int, result: Result) -> list[Finding]:
    at = f"error rate {rate:g}, n = {window:,}"
    other = timing_bits(window, rate)
    bound = time_decaying_space_bound(window=window, universe=UNIVERSE, error_rate=rate)
    share = 1 / math.log2(1 / rate)
    achieved = timing_bits(window, result["expected"])
    return [
        _computed(f"{at}: bits of a signature", result["signature"]),
        _computed(f"{at}: bits of the tables for each key", result["tables"] / window),
        _computed(
            f"{at}: the same as arrays of variable length",
            result["variable"] / window,
            "without the constant of such arrays; what has expired and is not swept counts",
        ),
        _computed(f"{at}: bits of a timing Bloom filter for each key", other / window),
        _computed(f"{at}: lower bound (Theorem 3) for each key, 100,000 keys", bound / window),
        Finding(
            f"{at}: bits over those of a timing Bloom filter",
            f"{share:.3g}",
            result["tables"] / other,
            None,
            None,
            Verdict.MET if result["tables"] / other <= share else Verdict.NOT_MET,
            "the paper's 1 / log(1 / epsilon) leaves out constants: four positions for each key, "
            "each with a position of log n bits beside the timestamp",
        ),
        _computed(
            f"{at}: the same, for the rate that is achieved",
            result["tables"] / achieved,
            f"expected rate {result['expected']:.3g}, below the bound",
        ),
        _computed(f"{at}: the same, with arrays of variable length", result["variable"] / achieved),
    ]


def _computed(what: str, value: float, note: str = "") -> Finding:
    return Finding(what, "", float(value), None, None, Verdict.OURS, note)


_SPACE = """\
Keys are all different. The dictionary has the paper's 2 n positions in each of two tables (its
proof of Theorem 2 counts 2 n positions in both together), and timestamps of log2(2 n + 1) bits.
The timing Bloom filter is that of the best size by theory. The lower bound is read as
(n - epsilon m) log(n - epsilon m): a symbol is lost in the text at hand, and Theorem 3 says that
the bound depends on the error rate. It holds for 100,000 keys, the universe of the evaluation."""

LIST = Study(
    "cuckoo-theorem-2",
    "Cuckoo dictionary: list and moves at any window",
    f"{PAPER}, Theorem 2",
    points_list,
    measure_list,
    conclude_list,
)
"""Theorem 2."""

SPACE = Study(
    "cuckoo-theorem-3",
    "Cuckoo dictionary: bits",
    f"{PAPER}, sections IV and V",
    points_space,
    measure_space,
    conclude_space,
)
"""Sections IV and V."""
