"""Work of the cuckoo dictionary: accesses for Figures 5, 6, 8 and 11, and failed insertions."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from lately.replay.drawing import Estimate, Series
from papers.models.cuckoo import CuckooDictionary

from .cuckoo_findings import LABELS, PAPER, SIGNATURE, mean_of
from .cuckoo_runs import UNIVERSE, build, dictionary, ratio
from .studies.comparison import claim, ours, share
from .studies.criteria import DIFFERENCE, around, between
from .studies.streams import Keys, uniform, zipf
from .studies.study import Conclusion, Finding, Point, Result, Results, chosen

WINDOW = 1000
"""Window of Figures 5, 6 and 11."""

COUNTERS = (4000, 6000, 8000, 10_000)
"""Sizes of Figures 5 and 6."""

WINDOWS = (1000, 4000, 7000, 10_000)
"""Windows of Figure 8, with 20,000 counters."""

LENGTHS = (1, 4, 7, 10)
"""Bits of the signatures of Figure 11, with 10,000 counters."""

SAME = around(1, DIFFERENCE)
"""Criterion of a quotient of numbers of accesses that are the same."""

_NAMES = {"plain": 0, "signed": SIGNATURE}
_TABLES = 2


def _settings() -> dict[str, list[Point]]:
    """Return the dictionaries of each figure."""
    return {
        "counters": [dictionary(m, b, WINDOW) for b in _NAMES.values() for m in COUNTERS],
        "windows": [dictionary(20_000, b, n) for b in _NAMES.values() for n in WINDOWS],
        "lengths": [dictionary(10_000, length, WINDOW) for length in LENGTHS],
    }


# Accesses


def measure(point: Point) -> Result:
    """Count the accesses of updates and queries; only Figures 5 and 6 have a skewed stream."""
    return {
        name: [_work(setup, point) for setup in setups]
        for name, setups in _settings().items()
        if name == "counters" or point["z"] == 0
    }


def _work(setup: Point, point: Point) -> Result:
    """Return mean accesses of an update, of a query for a key of the window, and for another.

    An update reads a position of each table, and moves entries; if it fails, it has tried all
    moves, and its key is in the list for a window. A query goes through the list from its
    newest key on if no table has the key.
    """
    filter, window = build(setup, point["seed"]), setup["window"]
    assert isinstance(filter, CuckooDictionary)
    assert filter.moves is not None
    keys = zipf(2 * window + point["measured"], UNIVERSE, point["z"], point["seed"])
    filter.insert(keys[: 2 * window])
    before, listed, alive = filter.moved, [], []
    for start in range(2 * window, len(keys), max(window // 4, 1)):
        end = start + max(window // 4, 1)
        filter.insert(keys[start:end])
        listed.append(filter.overflow)
        recent = np.unique(keys[max(0, min(end, len(keys)) - window) : end])
        # From the newest, so that the last of the list takes as many steps as it has keys.
        alive.append(filter.overflow * (filter.overflow + 1) / 2 / len(recent))
    mean = statistics.fmean(listed)
    moved = (filter.moved - before) / point["measured"]
    return {
        "update": _TABLES + moved + mean / window * filter.moves,
        "alive": _TABLES + statistics.fmean(alive),
        "other": _TABLES + mean,
    }


KINDS = {
    "update": "an update",
    "alive": "a query for a key of the window",
    "other": "a query for another key",
}
"""Description of each counter."""


def conclude(results: Results) -> Conclusion:
    """Hold the accesses against what the paper says of its running times."""
    even = [result for point, result in results if point["z"] == 0]
    skewed = [result for point, result in results if point["z"] == 1]
    findings = [*_sizes(even, skewed), *_growth(even), *_signatures(even)]
    charts = [
        PAPER.chart("cuckoo-figure-6", _series(even, "counters", COUNTERS)),
        PAPER.chart("cuckoo-figure-8", _series(even, "windows", WINDOWS)),
    ]
    return Conclusion(findings, charts, PAPER.notes("cuckoo-work"))


def _quotient(runs: Sequence[Result], name: str, kind: str, above: int, below: int) -> Estimate:
    return mean_of([run[name][above][kind] / run[name][below][kind] for run in runs])


def _each(count: int, kinds: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return kinds of access, and structures with the place of their first setting."""
    return [(kind, LABELS[each], i * count) for kind in kinds for i, each in enumerate(_NAMES)]


def _sizes(even: list[Result], skewed: list[Result]) -> list[Finding]:
    findings = []
    last = len(COUNTERS) - 1
    for kind, label, first in _each(len(COUNTERS), ("update", "other")):
        what = f"{label}: accesses of {KINDS[kind]}, {COUNTERS[0]:,} counters over "
        what += f"{COUNTERS[last]:,}"
        value = _quotient(even, "counters", kind, first, first + last)
        findings.append(claim(what, "will become large", value, between(1.5, 1000)))
    for kind, label, first in _each(len(COUNTERS), ("update", "other")):
        for at in (0, last):
            pairs = zip(even, skewed, strict=True)
            quotients = [
                one["counters"][first + at][kind] / other["counters"][first + at][kind]
                for one, other in pairs
            ]
            what = f"{label}, {COUNTERS[at]:,} counters: accesses of {KINDS[kind]}, "
            what += "z = 0 over z = 1"
            value = mean_of(quotients)
            findings.append(claim(what, "no significant difference", value, SAME))
    return findings


def _growth(runs: list[Result]) -> list[Finding]:
    last = len(WINDOWS) - 1
    return [
        claim(
            f"{label}: accesses of {KINDS[kind]}, n = {WINDOWS[last]:,} over n = {WINDOWS[0]:,}",
            "increases with the list",
            _quotient(runs, "windows", kind, first + last, first),
            between(1.5, 10_000),
        )
        for kind, label, first in _each(len(WINDOWS), ("update", "other"))
    ]


def _signatures(runs: list[Result]) -> list[Finding]:
    findings = []
    for kind in ("alive", "other"):
        value = _quotient(runs, "lengths", kind, -1, 0)
        what = f"accesses of {KINDS[kind]}, K = {LENGTHS[-1]} over K = {LENGTHS[0]}"
        findings.append(claim(what, "the same as K increases", value, SAME))
    return findings


def _series(runs: list[Result], name: str, x: Sequence[int]) -> list[Series]:
    series = []
    for kind, label, first in _each(len(x), ("update", "other")):
        means = [mean_of([run[name][first + i][kind] for run in runs])[0] for i in range(len(x))]
        series.append(Series(f"{label}: {KINDS[kind]}", x, means))
    return series


# Failed insertions

_POSITIONS = 2


def measure_failures(point: Point) -> Result:
    """Count failed insertions into a dictionary of 2 n positions in each table.

    Each of the different keys is listed for n insertions, so that every n-th moment sees each
    failure once.
    """
    window = point["window"]
    filter = CuckooDictionary(window=window, positions=_POSITIONS * window, seed=point["seed"])
    keys = _different(point)
    failed = 0
    for start in range(0, len(keys), window):
        filter.insert(keys[start : start + window])
        failed += filter.overflow
    return {"failed": failed, "insertions": len(keys)}


def _different(point: Point) -> Keys:
    return uniform(point["turns"] * point["window"], 1 << 62, point["seed"])


def conclude_failures(results: Results) -> Conclusion:
    """Hold the probability of a failure against O(1 / n)."""
    windows = list(dict.fromkeys(point["window"] for point, _ in results))
    totals = {window: _totals(chosen(results, window=window)) for window in windows}
    found: list[Finding] = []
    for window, (failed, insertions) in totals.items():
        note = f"{failed:,} of {insertions:,} insertions."
        what = f"n = {window}: share of insertions that fail"
        found.append(ours(what, share(failed, insertions), note))
    first, last = windows[0], windows[-1]
    factor = last / first
    value = _scaled(ratio(share(*totals[last]), share(*totals[first])), factor)
    what = f"n times that share, n = {last} over n = {first}"
    note = f"1 if as 1 / n, {math.sqrt(factor):.1f} if as 1 / sqrt(n), {factor:g} if all the same."
    found.append(claim(what, "O(1 / n)", value, between(0, 2), note))
    return Conclusion(found, notes=PAPER.notes("cuckoo-failures"))


def _totals(results: Results) -> tuple[int, int]:
    """Return the failed insertions of all seeds, and all insertions."""
    failed, insertions = zip(*((r["failed"], r["insertions"]) for _, r in results), strict=True)
    return sum(failed), sum(insertions)


def _scaled(value: Estimate, factor: float) -> Estimate:
    mean, low, high = (each * factor for each in value)
    return mean, low, high


STUDIES = (
    PAPER.study("cuckoo-work", measure, conclude),
    PAPER.study("cuckoo-failures", measure_failures, conclude_failures),
)
"""Figures 5, 6, 8 and 11, and failed insertions."""
