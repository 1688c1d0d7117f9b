"""Figures 13 and 14 of the cuckoo paper: real streams, and when a key was inserted last."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lately.replay.drawing import Chart, Series

from .cuckoo_findings import (
    LABELS,
    PAPER,
    by_structure,
    comparison,
    mean_of,
    no_misses,
    own_keys,
    peaks,
    rate_series,
    structures,
)
from .cuckoo_runs import UNIVERSE, build, dictionary, measure, ratio, timing
from .real_streams import absence, real
from .studies.comparison import SHARES, claim, ours, student
from .studies.criteria import between
from .studies.streams import Keys, zipf
from .studies.study import Conclusion, Finding, Point, Result, Results

WINDOW = 10_000
"""Window of the estimates, and of the real streams in the paper."""

NAMES = {
    "flights": "tail numbers of departing aircraft",
    "dns": "queries for names",
    "products": "requests for product pages",
    "web": "web requests with replays",
}
"""Names of the streams."""

# Figure 13


def measure_real(point: Point) -> Result:
    """Run the structures for each number of counters to a key of the window."""
    window = point["window"]
    sizes = [each * window for each in point["counters"]]
    return measure(point, [one for size in sizes for one in structures(size, window)])


def conclude_real(results: Results) -> Conclusion:
    """Compare rates on each stream that is there."""
    findings: list[Finding] = []
    charts: list[Chart] = []
    missing: list[str] = []
    for name, called in NAMES.items():
        chosen = [entry for entry in results if entry[0]["real"] == name]
        if any(result["runs"] is None for _, result in chosen):
            missing.append(absence(name, f"the rows on {called}"))
            continue
        counters, window = chosen[0][0]["counters"], chosen[0][0]["window"]
        runs = by_structure(chosen, [*LABELS])
        at = counters.index(2)
        here = {label: values[at] for label, values in runs.items()}
        findings += [*comparison(called, here), *own_keys(called, here)]
        listed = f"{called}: most in the list, no signature"
        findings.append(ours(listed, peaks(here["plain"])))
        sizes = [each * window for each in counters]
        series = rate_series(runs, dict.fromkeys(runs, sizes))
        charts.append(PAPER.chart("cuckoo-figure-13", series, stream=name, called=called))
    findings.append(no_misses(results))
    return Conclusion(findings, charts, PAPER.notes("cuckoo-figure-13"), missing)


# Figure 14

ESTIMATED = ("uniform", "flights", "products")
"""Streams on which the last insertion is estimated."""

ERRORS = (0, 10, 100, 1000, 10_000)
"""Errors of insertions, whose shares are reported."""


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
    runs = []
    for setup in (timing(20_000, 4, WINDOW), dictionary(20_000, 0, WINDOW)):
        filter = build(setup, point["seed"])
        errors = []
        for start in range(0, len(keys) - 1000, 1000):
            asked = keys[start : start + 1000]
            if start >= WINDOW:
                truth = _last(keys[start - WINDOW : start], asked)
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
        runs = [result["runs"] for point, result in results if point["stream"] == name]
        called = NAMES.get(name, "uniform keys")
        if None in runs:
            missing.append(absence(name, f"the rows on {called}"))
            continue
        findings += _age_findings(called, runs)
        charts.append(_age_chart(name, called, runs))
    return Conclusion(findings, charts, PAPER.notes("cuckoo-figure-14"), missing)


def _age_findings(called: str, runs: Sequence[Sequence[Result]]) -> list[Finding]:
    means = [mean_of([run[at]["mean"] for run in runs]) for at in (0, 1)]
    exact = [student([run[at]["shares"][0] for run in runs], within=SHARES) for at in (0, 1)]
    found = []
    for label, mean, share in zip(_AGED, means, exact, strict=True):
        found.append(ours(f"{called}: {label}: mean error, in insertions", mean))
        found.append(ours(f"{called}: {label}: share of exact estimates", share))
    what = f"{called}: mean error of the dictionary over that of the timing Bloom filter"
    quotient = ratio(means[1], means[0])
    return [*found, claim(what, "much smaller", quotient, between(0, 1 / _MUCH))]


def _age_chart(name: str, called: str, runs: Sequence[Sequence[Result]]) -> Chart:
    series = []
    for at, label in enumerate(_AGED):
        columns = zip(*(run[at]["shares"] for run in runs), strict=True)
        shares = [student(column, within=SHARES) for column in columns]
        series.append(Series.estimated(label, [1 + error for error in ERRORS], shares))
    return PAPER.chart("cuckoo-figure-14", series, stream=name, called=called)


_MUCH = 10
"""Quotient of errors that is much."""

_AGED = ("timing Bloom filter, 4 hashes", "dictionary, no signature")

STUDIES = (
    PAPER.study("cuckoo-figure-13", measure_real, conclude_real),
    PAPER.study("cuckoo-figure-14", measure_age, conclude_age),
)
"""Figures 13 and 14."""
