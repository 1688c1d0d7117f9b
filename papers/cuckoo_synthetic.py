"""Figures 4, 7, 9, 10 and 12 of the cuckoo paper: synthetic streams."""

from collections.abc import Sequence
from dataclasses import replace

from lately.golden.sizing import best_hashes
from lately.replay.drawing import Estimate, Series

from .cuckoo_findings import (
    LABELS,
    PAPER,
    Runs,
    by_structure,
    comparison,
    mean_of,
    no_misses,
    own_keys,
    peaks,
    rate_series,
    same_rate,
    structures,
)
from .cuckoo_runs import dictionary, fresh_rate, measure, ratio, timing
from .studies.comparison import claim, ours, student
from .studies.criteria import between, equal
from .studies.study import Conclusion, Point, Result, Results

WINDOW = 1000
"""Window of Figures 4, 7 and 12."""


def _list_series(runs: Runs, x: Sequence[float], also: str = "") -> list[Series]:
    series = []
    for name in ("plain", "signed"):
        values = (peaks(value) for value in runs[name])
        series.append(Series.estimated(LABELS[name] + also, x, values))
    return series


# Figures 4 and 7


def measure_zipf(point: Point) -> Result:
    """Run the structures for each number of counters."""
    return measure(point, [one for m in point["counters"] for one in structures(m, WINDOW)])


def conclude_zipf(results: Results) -> Conclusion:
    """Compare rates and list of uniform and skewed streams."""
    findings, charts, lists = [], [], []
    counters = results[0][0]["counters"]
    ends: dict[float, list[Estimate]] = {}
    for z in (0.0, 1.0):
        runs = by_structure([entry for entry in results if entry[0]["z"] == z], [*LABELS])
        for at in (0, -1):
            chosen = {name: values[at] for name, values in runs.items()}
            findings += comparison(_at(z, counters[at]), chosen)
            findings += own_keys(_at(z, counters[at]), chosen)
        ends[z] = [fresh_rate(runs[name][-1]) for name in ("plain", "signed")]
        findings += [
            ours(f"{_at(z, counters[at])}: {LABELS[name]}: most in the list", peaks(runs[name][at]))
            for name in ("plain", "signed")
            for at in (0, -1)
        ]
        lists += _list_series(runs, counters, f", z = {z:g}")
        bits = {
            name: [mean_of([run["bits"] for run in seeds])[0] / 1000 for seeds in values]
            for name, values in runs.items()
        }
        charts.append(PAPER.chart("cuckoo-figure-4", rate_series(runs, bits), z=z))
    note = "1 if the same; a skewed window has fewer different keys, and so a lower rate"
    same = replace(equal(1), near=(1 / 2, 2))
    for name, even, skewed in zip(("plain", "signed"), *ends.values(), strict=True):
        quotient = ratio(even, skewed)
        what = f"{LABELS[name]}, most counters: rate at z = 0 over that at z = 1"
        findings.append(claim(what, "no significant difference", quotient, same, note))
    findings.append(no_misses(results))
    charts.append(PAPER.chart("cuckoo-figure-7", lists))
    return Conclusion(findings, charts, PAPER.notes("cuckoo-figure-4"))


def _at(z: float, counters: int) -> str:
    return f"z = {z:g}, {counters:,} counters"


# Figures 9 and 10


def measure_window(point: Point) -> Result:
    """Run the structures for each window."""
    return measure(point, [one for n in point["windows"] for one in structures(20_000, n)])


def conclude_window(results: Results) -> Conclusion:
    """Tell how rate and list grow with the window."""
    windows = results[0][0]["windows"]
    runs = by_structure(results, [*LABELS])
    findings = []
    for at in (0, -1):
        chosen = {name: values[at] for name, values in runs.items()}
        findings += comparison(f"n = {windows[at]:,}", chosen)
        for name in ("plain", "signed"):
            findings.append(same_rate(f"n = {windows[at]:,}", name, chosen[name], windows[at]))
    for name in ("plain", "signed"):
        first, last = ([run["peak"] for run in runs[name][at]] for at in (0, -1))
        more = student([after - before for before, after in zip(first, last, strict=True)])
        what = f"{LABELS[name]}: most in the list, n = {windows[-1]:,} less n = {windows[0]:,}"
        findings.append(claim(what, "grows with the window", more, between(1, windows[-1])))
        shares = mean_of([run["peak"] / windows[-1] for run in runs[name][-1]])
        findings.append(ours(f"{LABELS[name]}: the same, over the window", shares))
    findings.append(no_misses(results))
    charts = [
        PAPER.chart("cuckoo-figure-9", rate_series(runs, dict.fromkeys(runs, windows))),
        PAPER.chart("cuckoo-figure-10", _list_series(runs, windows)),
    ]
    return Conclusion(findings, charts, PAPER.notes("cuckoo-figure-9"))


# Figure 12


def measure_signature(point: Point) -> Result:
    """Run a timing Bloom filter of K hashes, and a dictionary with signatures of K bits."""
    pairs = (
        (timing(10_000, length, WINDOW), dictionary(10_000, length, WINDOW))
        for length in point["lengths"]
    )
    return measure(point, [one for pair in pairs for one in pair])


def conclude_signature(results: Results) -> Conclusion:
    """Tell how both rates change with the signature and the number of hash functions."""
    lengths = results[0][0]["lengths"]
    names = ["timing Bloom filter, K hashes", "dictionary, signature of K bits"]
    runs = by_structure(results, names)
    filters, dictionaries = ([fresh_rate(value) for value in runs[name]] for name in names)
    lowest = min(range(len(lengths)), key=lambda at: filters[at][0])
    findings = [
        ours(f"K = {length}: {name}: false-positive rate", rates[lengths.index(length)])
        for length in (1, 4, 10)
        for name, rates in zip(names, (filters, dictionaries), strict=True)
    ]
    findings += [
        claim(
            f"timing Bloom filter: rate at K = 10 over the lowest, at K = {lengths[lowest]}",
            "increases if K is too large",
            mean_of(_quotients(runs[names[0]][-1], runs[names[0]][lowest])),
            between(1.1, 10),
            f"the best by theory is K = {best_hashes(10_000, WINDOW)}",
        ),
        claim(
            "dictionary: rate at K = 1 over that at K = 4",
            "decreases very quickly",
            ratio(dictionaries[0], dictionaries[lengths.index(4)]),
            between(4, 16),
            "8 is expected: half for every bit",
        ),
        no_misses(results),
    ]
    bounds = [seeds[0]["bound"] for seeds in runs[names[1]]]
    chart = PAPER.chart(
        "cuckoo-figure-12",
        [
            *rate_series(runs, dict.fromkeys(runs, lengths)),
            Series("bound of the dictionary", lengths, bounds),
        ],
    )
    return Conclusion(findings, [chart], PAPER.notes("cuckoo-figure-12"))


def _quotients(above: Sequence[Result], below: Sequence[Result]) -> list[float]:
    """Return the quotient of the rates of each seed."""
    pairs = zip(above, below, strict=True)
    return [one["hits"] / one["fresh"] / (other["hits"] / other["fresh"]) for one, other in pairs]


STUDIES = (
    PAPER.study("cuckoo-figure-4", measure_zipf, conclude_zipf),
    PAPER.study("cuckoo-figure-9", measure_window, conclude_window),
    PAPER.study("cuckoo-figure-12", measure_signature, conclude_signature),
)
"""Figures 4 and 7, 9 and 10, and 12."""
