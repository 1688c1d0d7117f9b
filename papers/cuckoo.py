"""The cuckoo paper: synthetic and real streams, ages, Theorems 2 and 3, and accesses."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.engine import Point, Result
from lately.golden.sizing import best_hashes
from lately.replay.drawing import Chart, Estimate, Series
from papers.models.cuckoo import CuckooDictionary, time_decaying_space_bound

from .cuckoo_runs import (
    SIGNATURE,
    UNIVERSE,
    build,
    dictionary,
    fresh_rate,
    run_all,
    stream_rate,
    structures,
    timing,
    timing_bits,
)
from .paper import Paper
from .streams import Keys, absence, real, uniform, zipf
from .studies.estimates import SHARES, positive, quotient, scaled, share, student
from .studies.study import Conclusion, Finding, Results, chosen

PAPER = Paper("cuckoo")  # Near-optimal Approximate Membership Query over Time-decaying Windows.
WINDOW = 1000  # Window of Figures 4 to 7, 11 and 12.

LABELS = {
    "timing": "timing Bloom filter, 4 hashes",
    "best": "timing Bloom filter, best hashes",
    "plain": "dictionary, no signature",
    "signed": "dictionary, signature of 4 bits",
}
"""The `structures` that the figures compare, in that order."""

DICTIONARIES = ("plain", "signed")  # Those of them that the paper proposes.

Runs = dict[str, list[list[Result]]]
"""Runs of each structure: for each value of the figure's axis, one for each seed."""


# Runs of all structures


def by_structure(results: Results, labels: Sequence[str] = (*LABELS,)) -> Runs:
    """Sort the runs of points, each of which has all structures for one value after another."""
    runs: Runs = {}
    for number, label in enumerate(labels):
        columns = [result["runs"][number :: len(labels)] for _, result in results]
        runs[label] = [list(seeds) for seeds in zip(*columns, strict=True)]
    return runs


def rate_series(runs: Runs, x: Mapping[str, Any]) -> list[Series]:
    """Return a series of rates for each structure, without events that never occurred."""
    series = []
    for label, values in runs.items():
        rates = [(at, *fresh_rate(value)) for at, value in zip(x[label], values, strict=True)]
        kept = [each for each in rates if each[1] > 0]
        at = [each[0] for each in kept]
        series.append(Series.estimated(LABELS.get(label, label), at, [each[1:] for each in kept]))
    return series


def list_series(runs: Runs, x: Sequence[float], suffix: str = "") -> list[Series]:
    """Return a series of the most keys in the list for each dictionary."""
    return [
        Series.estimated(LABELS[name] + suffix, x, [peaks(value) for value in runs[name]])
        for name in DICTIONARIES
    ]


def peaks(runs: Sequence[Result]) -> Estimate:
    """Return the most keys in the list, a mean over seeds."""
    return positive([run["peak"] for run in runs])


def no_misses(results: Results) -> Finding:
    """Return the finding that no key of the window was missed, in any run."""
    runs = [run for _, result in results for run in result["runs"] or []]
    return PAPER.find("missed", sum(run["missed"] for run in runs))


def comparison(at: str, runs: dict[str, list[Result]]) -> list[Finding]:
    """Compare the dictionaries with their bound and with the timing Bloom filter."""
    findings = []
    rates = {name: fresh_rate(seeds) for name, seeds in runs.items()}
    for name in DICTIONARIES:
        theory = positive([run["theory"] for run in runs[name]])[0]
        fields = {"at": at, "label": LABELS[name], "bound": runs[name][0]["bound"]}
        fields |= {"theory": theory, "half": theory / 2}
        findings += [
            PAPER.find("rate", rates[name], **fields),
            PAPER.find("timing-over", quotient(rates["timing"], rates[name]), at=at),
            PAPER.find("best-timing-over", quotient(rates["best"], rates[name]), at=at),
        ]
    return findings


def own_keys(at: str, runs: dict[str, list[Result]]) -> list[Finding]:
    """Return rates of the stream's own keys that are not in the window."""
    return [
        PAPER.find("own-keys", stream_rate(seeds), at=at, label=LABELS[name])
        for name, seeds in runs.items()
    ]


# Figures 4 and 7


def measure_zipf(point: Point) -> Result:
    """Run the structures for each number of counters."""
    return run_all(point, [one for m in point["counters"] for one in structures(m, WINDOW)])


def conclude_zipf(results: Results) -> Conclusion:
    """Compare rates and list of uniform and skewed streams."""
    findings, charts, lists = [], [], []
    counters = results[0][0]["counters"]
    most: dict[float, list[Estimate]] = {}
    for z in (0.0, 1.0):
        runs = by_structure(chosen(results, z=z))
        names = {at: f"z = {z:g}, {counters[at]:,} counters" for at in (0, -1)}
        for at, name in names.items():
            here = {label: values[at] for label, values in runs.items()}
            findings += [*comparison(name, here), *own_keys(name, here)]
        most[z] = [fresh_rate(runs[label][-1]) for label in DICTIONARIES]
        findings += [
            PAPER.find("listed", peaks(runs[label][at]), at=f"{name}: {LABELS[label]}")
            for label in DICTIONARIES
            for at, name in names.items()
        ]
        lists += list_series(runs, counters, f", z = {z:g}")
        bits = {
            name: [positive([run["bits"] for run in seeds])[0] / 1000 for seeds in values]
            for name, values in runs.items()
        }
        charts.append(PAPER.chart("cuckoo-figure-4", rate_series(runs, bits), z=z))
    for label, even, skewed in zip(DICTIONARIES, *most.values(), strict=True):
        findings.append(PAPER.find("skew", quotient(even, skewed), label=LABELS[label]))
    findings.append(no_misses(results))
    return Conclusion(findings, [*charts, PAPER.chart("cuckoo-figure-7", lists)])


# Figures 9 and 10


def measure_window(point: Point) -> Result:
    """Run the structures for each window."""
    return run_all(point, [one for n in point["windows"] for one in structures(20_000, n)])


def conclude_window(results: Results) -> Conclusion:
    """Tell how rate and list grow with the window."""
    windows = results[0][0]["windows"]
    runs = by_structure(results)
    findings = []
    for at in (0, -1):
        here, name = {label: values[at] for label, values in runs.items()}, f"n = {windows[at]:,}"
        findings += comparison(name, here)
        for label in DICTIONARIES:
            bits = [timing_bits(windows[at], run["theory"]) / run["bits"] for run in here[label]]
            findings.append(PAPER.find("bits", positive(bits), at=name, label=LABELS[label]))
    for label in DICTIONARIES:
        first, last = ([run["peak"] for run in runs[label][at]] for at in (0, -1))
        more = student([after - before for before, after in zip(first, last, strict=True)])
        fields = {"label": LABELS[label], "first": windows[0], "last": windows[-1]}
        findings.append(PAPER.find("list-grows", more, **fields))
        shares = positive([peak / windows[-1] for peak in last])
        findings.append(PAPER.find("list-over-window", shares, **fields))
    findings.append(no_misses(results))
    rates = rate_series(runs, dict.fromkeys(runs, windows))
    charts = [
        PAPER.chart("cuckoo-figure-9", rates),
        PAPER.chart("cuckoo-figure-10", list_series(runs, windows)),
    ]
    return Conclusion(findings, charts)


# Figure 12


def measure_signature(point: Point) -> Result:
    """Run a timing Bloom filter of K hashes, and a dictionary with signatures of K bits."""
    pairs = (
        (timing(10_000, length, WINDOW), dictionary(10_000, length, WINDOW))
        for length in point["lengths"]
    )
    return run_all(point, [one for pair in pairs for one in pair])


def conclude_signature(results: Results) -> Conclusion:
    """Tell how both rates change with the signature and the number of hash functions."""
    lengths = results[0][0]["lengths"]
    names = ["timing Bloom filter, K hashes", "dictionary, signature of K bits"]
    runs = by_structure(results, names)
    filters, dictionaries = ([fresh_rate(value) for value in runs[name]] for name in names)
    lowest = min(range(len(lengths)), key=lambda at: filters[at][0])
    findings = [
        PAPER.find("signature", rates[lengths.index(length)], length=length, label=name)
        for length in (1, 4, 10)
        for name, rates in zip(names, (filters, dictionaries), strict=True)
    ]
    last, best = ([run["hits"] / run["fresh"] for run in runs[names[0]][at]] for at in (-1, lowest))
    worse = positive([one / other for one, other in zip(last, best, strict=True)])
    fields = {"lowest": lengths[lowest], "best": best_hashes(10_000, WINDOW)}
    falls = quotient(dictionaries[0], dictionaries[lengths.index(4)])
    findings += [
        PAPER.find("too-many-hashes", worse, **fields),
        PAPER.find("signature-falls", falls),
        no_misses(results),
    ]
    bounds = [seeds[0]["bound"] for seeds in runs[names[1]]]
    bound = Series("bound of the dictionary", lengths, bounds)
    series = [*rate_series(runs, dict.fromkeys(runs, lengths)), bound]
    return Conclusion(findings, [PAPER.chart("cuckoo-figure-12", series)])


# Figure 13

NAMES = {
    "flights": "tail numbers of departing aircraft",
    "dns": "queries for names",
    "products": "requests for product pages",
    "web": "web requests with replays",
}
"""Names of the real streams."""


def measure_real(point: Point) -> Result:
    """Run the structures for each number of counters to a key of the window."""
    window = point["window"]
    sizes = [each * window for each in point["counters"]]
    return run_all(point, [one for size in sizes for one in structures(size, window)])


def conclude_real(results: Results) -> Conclusion:
    """Compare rates on each stream that is there."""
    findings: list[Finding] = []
    charts: list[Chart] = []
    missing: list[str] = []
    for name, called in NAMES.items():
        own = chosen(results, real=name)
        if any(result["runs"] is None for _, result in own):
            missing.append(absence(name, called))
            continue
        counters, window = own[0][0]["counters"], own[0][0]["window"]
        runs = by_structure(own)
        at = counters.index(2)
        here = {label: values[at] for label, values in runs.items()}
        findings += [*comparison(called, here), *own_keys(called, here)]
        label = f"{called}: most in the list, no signature"
        findings.append(PAPER.find("value", peaks(here["plain"]), label=label))
        sizes = [each * window for each in counters]
        series = rate_series(runs, dict.fromkeys(runs, sizes))
        charts.append(PAPER.chart("cuckoo-figure-13", series, stream=name, called=called))
    return Conclusion([*findings, no_misses(results)], charts, missing=missing)


# Figure 14

AGED = ("timing", "plain")  # Structures that estimate the last insertion, with 20,000 counters.
ESTIMATED = ("uniform", "flights", "products")  # Streams on which the last insertion is estimated.
ERRORS = (0, 10, 100, 1000, 10_000)  # Errors of insertions, whose shares are reported.

_AGED_WINDOW = 10_000


def measure_age(point: Point) -> Result:
    """Ask, before each thousand keys of a stream, when each was inserted last.

    Only keys of the window count. The result has, for each structure, the
    share of errors of at most each of `ERRORS`, and their mean.
    """
    keys = (
        zipf(point["count"], UNIVERSE, 0.0, point["seed"])
        if point["stream"] == "uniform"
        else real(point["stream"], point["count"])
    )
    if keys is None:
        return {"runs": None}
    window = _AGED_WINDOW
    runs = []
    for setup in (timing(20_000, SIGNATURE, window), dictionary(20_000, 0, window)):
        filter = build(setup, point["seed"])
        errors = []
        for start in range(0, len(keys) - 1000, 1000):
            asked = keys[start : start + 1000]
            if start >= window:
                truth = _last(keys[start - window : start], asked)
                guess = filter.age(asked) + 1
                errors.append((truth - guess)[truth > 0])
            filter.insert(asked)
        error = np.concatenate(errors)
        runs.append(
            {
                "asked": len(error),
                "least": int(error.min()),
                "mean": float(error.mean()),
                "shares": [float((error <= most).mean()) for most in ERRORS],
            }
        )
    return {"runs": runs}


def _last(recent: Keys, asked: Keys) -> NDArray[np.int64]:
    """Return in how small a window each key is, 0 for none."""
    unique, newest = np.unique(recent[::-1], return_index=True)
    place = np.minimum(np.searchsorted(unique, asked), len(unique) - 1)
    return np.where(unique[place] == asked, newest[place] + 1, 0)


def conclude_age(results: Results) -> Conclusion:
    """Compare the errors of both estimates."""
    findings: list[Finding] = []
    charts: list[Chart] = []
    missing: list[str] = []
    for name in ESTIMATED:
        runs = [result["runs"] for _, result in chosen(results, stream=name)]
        called = NAMES.get(name, "uniform keys")
        if None in runs:
            missing.append(absence(name, called))
            continue
        means, series = [], []
        for at, label in enumerate(LABELS[each] for each in AGED):
            columns = zip(*(run[at]["shares"] for run in runs), strict=True)
            shares = [student(column, within=SHARES) for column in columns]
            means.append(positive([run[at]["mean"] for run in runs]))
            series.append(Series.estimated(label, [1 + error for error in ERRORS], shares))
            findings += [
                PAPER.find("age-error", means[at], called=called, label=label),
                PAPER.find("age-exact", shares[0], called=called, label=label),
            ]
        findings.append(PAPER.find("age-over", quotient(means[1], means[0]), called=called))
        charts.append(PAPER.chart("cuckoo-figure-14", series, stream=name, called=called))
    return Conclusion(findings, charts, missing=missing)


# Theorem 2

LOADS = (2.0, 1.2, 1.0)
"""Positions of a table for each key of the window; the first is the paper's."""


def measure_list(point: Point) -> Result:
    """Insert different keys; return the mean list and the mean moves at each load."""
    runs = [[_filled(window, load, point) for window in point["windows"]] for load in LOADS]
    return {"runs": runs}


def _filled(window: int, load: float, point: Point) -> Result:
    filter = CuckooDictionary(window=window, positions=round(load * window), seed=point["seed"])
    count = max(point["insertions"], 6 * window)
    keys = uniform(count, 1 << 62, point["seed"])
    moved, listed, occupied = _inserted(filter, keys)
    return {
        "insertions": count,
        "peak": filter.overflow_peak,
        "listed": statistics.fmean(listed),
        "moved": moved / (count - 2 * window),
        "occupied": statistics.fmean(occupied) / window,
    }


def _inserted(filter: CuckooDictionary, keys: Keys) -> tuple[int, list[int], list[int]]:
    """Insert keys; after the first two windows, count moves, and keys in list and tables."""
    window = filter.window
    filter.insert(keys[: 2 * window])
    before, listed, occupied = filter.moved, [], []
    step = max(window // 4, 1)
    for start in range(2 * window, len(keys), step):
        filter.insert(keys[start : start + step])
        listed.append(filter.overflow)
        occupied.append(filter.occupied)
    return filter.moved - before, listed, occupied


def conclude_list(results: Results) -> Conclusion:
    """Conclude whether list and moves stay bounded as the window grows."""
    windows = results[0][0]["windows"]
    findings, lists, moves = [], [], []
    for number, load in enumerate(LOADS):
        columns = [
            [result["runs"][number][at] for _, result in results] for at in range(len(windows))
        ]
        listed = [_mean_list(n, runs) for n, runs in zip(windows, columns, strict=True)]
        moved = [positive([run["moved"] for run in runs]) for runs in columns]
        fields = {"load": load, "window": windows[-1]}
        if load == LOADS[0]:
            for window, value in zip(windows, listed, strict=True):
                findings.append(PAPER.find("list-bounded", value, load=load, window=window))
            findings.append(PAPER.find("moves-bounded", moved[-1], **fields))
        else:
            findings.append(PAPER.find("list", listed[-1], **fields))
            findings.append(PAPER.find("moves", moved[-1], **fields))
        lists.append(Series.estimated(f"{load:g} n positions", windows, listed))
        moves.append(Series.estimated(f"{load:g} n positions", windows, moved))
    charts = [
        PAPER.chart("cuckoo-theorem-2-list", lists),
        PAPER.chart("cuckoo-theorem-2-moves", moves),
    ]
    return Conclusion(findings, charts)


def _mean_list(window: int, runs: Sequence[Result]) -> Estimate:
    """Return the mean of the list; if no insertion failed, the bound from its probability."""
    mean, low, high = positive([run["listed"] for run in runs])
    if not any(run["peak"] for run in runs):
        high = window * share(0, sum(run["insertions"] for run in runs))[2]
    return mean, low, high


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
    """Compare the bits with those of a timing Bloom filter and the lower bound."""
    return Conclusion([one for point, result in results for one in _space(point, result)])


def _space(point: Point, result: Result) -> Iterator[Finding]:
    rate, window = point["error_rate"], point["window"]
    other, achieved = timing_bits(window, rate), timing_bits(window, result["expected"])
    values = {
        "signature": result["signature"],
        "tables": result["tables"] / window,
        "variable": result["variable"] / window,
        "timing": other / window,
        "bound": time_decaying_space_bound(window=window, universe=UNIVERSE, error_rate=rate)
        / window,
        "ratio": result["tables"] / other,
        "achieved": result["tables"] / achieved,
        "achieved-variable": result["variable"] / achieved,
    }
    fields = {"rate": rate, "window": window, "expected": result["expected"]}
    for name, value in values.items():
        saving = 1 / math.log2(1 / rate)
        yield PAPER.find(f"space-{name}", value, **fields, saving=saving)


# Accesses in the place of running times

COUNTERS = (4000, 6000, 8000, 10_000)  # Sizes of Figures 5 and 6.
WINDOWS = (1000, 4000, 7000, 10_000)  # Windows of Figure 8, with 20,000 counters.
LENGTHS = (1, 4, 7, 10)  # Bits of the signatures of Figure 11, with 10,000 counters.

_TABLES = 2

KINDS = {
    "update": "an update",
    "alive": "a query for a key of the window",
    "other": "a query for another key",
}
"""Description of each counter of accesses."""


def measure_work(point: Point) -> Result:
    """Count the accesses of updates and queries; only Figures 5 and 6 have a skewed stream."""
    both = (0, SIGNATURE)
    setups = {"counters": [dictionary(m, bits, WINDOW) for bits in both for m in COUNTERS]}
    if point["z"] == 0:
        setups["windows"] = [dictionary(20_000, bits, n) for bits in both for n in WINDOWS]
        setups["lengths"] = [dictionary(10_000, length, WINDOW) for length in LENGTHS]
    return {name: [_work(setup, point) for setup in own] for name, own in setups.items()}


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
    moved, listed, _ = _inserted(filter, keys)
    alive = []
    for length, end in zip(listed, range(2 * window, len(keys), max(window // 4, 1)), strict=True):
        end += max(window // 4, 1)
        recent = np.unique(keys[max(0, min(end, len(keys)) - window) : end])
        # From the newest, so that the last of the list takes as many steps as it has keys.
        alive.append(length * (length + 1) / 2 / len(recent))
    mean = statistics.fmean(listed)
    return {
        "update": _TABLES + moved / point["measured"] + mean / window * filter.moves,
        "alive": _TABLES + statistics.fmean(alive),
        "other": _TABLES + mean,
    }


def conclude_work(results: Results) -> Conclusion:
    """Compare the accesses with what the paper says of its running times."""
    even, skewed = ([result for _, result in chosen(results, z=z)] for z in (0, 1))
    sizes = f"{COUNTERS[0]:,} counters over {COUNTERS[-1]:,}"
    windows = f"n = {WINDOWS[-1]:,} over n = {WINDOWS[0]:,}"
    findings = []
    for kind, label, at in _each("update", "other"):
        value = _ratio(even, "counters", kind, at, at + 3)
        fields = {"label": LABELS[label], "kind": KINDS[kind], "sizes": sizes}
        findings.append(PAPER.find("work-large", value, **fields))
    for (kind, label, first), last in product(_each("update", "other"), (0, 3)):
        columns = ([run["counters"][first + last][kind] for run in runs] for runs in (even, skewed))
        value = positive([one / other for one, other in zip(*columns, strict=True)])
        fields = {"label": LABELS[label], "kind": KINDS[kind]}
        findings.append(PAPER.find("work-skew", value, counters=COUNTERS[last], **fields))
    for kind, label, at in _each("update", "other"):
        value = _ratio(even, "windows", kind, at + 3, at)
        fields = {"label": LABELS[label], "kind": KINDS[kind], "windows": windows}
        findings.append(PAPER.find("work-grows", value, **fields))
    for kind in ("alive", "other"):
        value = _ratio(even, "lengths", kind, -1, 0)
        findings.append(PAPER.find("work-same", value, kind=KINDS[kind]))
    charts = [
        PAPER.chart("cuckoo-figure-6", _work_series(even, "counters", COUNTERS)),
        PAPER.chart("cuckoo-figure-8", _work_series(even, "windows", WINDOWS)),
    ]
    return Conclusion(findings, charts)


def _each(*kinds: str) -> list[tuple[str, str, int]]:
    """Return kinds of access, and dictionaries with the index of their first setting of four."""
    return [(kind, label, 4 * i) for kind in kinds for i, label in enumerate(DICTIONARIES)]


def _ratio(runs: list[Result], name: str, kind: str, above: int, below: int) -> Estimate:
    return positive([run[name][above][kind] / run[name][below][kind] for run in runs])


def _work_series(runs: list[Result], name: str, x: Sequence[int]) -> list[Series]:
    series = []
    for kind, label, first in _each("update", "other"):
        means = [positive([run[name][first + i][kind] for run in runs])[0] for i in range(len(x))]
        series.append(Series(f"{LABELS[label]}: {KINDS[kind]}", x, means))
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
    keys = uniform(point["turns"] * window, 1 << 62, point["seed"])
    failed = 0
    for start in range(0, len(keys), window):
        filter.insert(keys[start : start + window])
        failed += filter.overflow
    return {"failed": failed, "insertions": len(keys)}


def conclude_failures(results: Results) -> Conclusion:
    """Compare the probability of a failure with O(1 / n)."""
    windows = list(dict.fromkeys(point["window"] for point, _ in results))
    shares, findings = [], []
    for window in windows:
        own = [result for _, result in chosen(results, window=window)]
        failed, insertions = (sum(one[name] for one in own) for name in ("failed", "insertions"))
        shares.append(share(failed, insertions))
        fields = {"window": window, "failed": failed, "insertions": insertions}
        findings.append(PAPER.find("failures", shares[-1], **fields))
    factor = windows[-1] / windows[0]
    value = scaled(quotient(shares[-1], shares[0]), factor)
    fields = {"first": windows[0], "last": windows[-1], "factor": factor, "root": math.sqrt(factor)}
    return Conclusion([*findings, PAPER.find("failures-bounded", value, **fields)])


STUDIES = (
    PAPER.study("cuckoo-figure-4", measure_zipf, conclude_zipf),
    PAPER.study("cuckoo-figure-9", measure_window, conclude_window),
    PAPER.study("cuckoo-figure-12", measure_signature, conclude_signature),
    PAPER.study("cuckoo-figure-13", measure_real, conclude_real),
    PAPER.study("cuckoo-figure-14", measure_age, conclude_age),
    PAPER.study("cuckoo-theorem-2", measure_list, conclude_list),
    PAPER.study("cuckoo-theorem-3", measure_space, conclude_space),
    PAPER.study("cuckoo-work", measure_work, conclude_work),
    PAPER.study("cuckoo-failures", measure_failures, conclude_failures),
)
"""Figures 4 to 14, and Theorems 2 and 3."""
