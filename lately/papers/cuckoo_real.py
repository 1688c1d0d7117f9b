"""Figures 13 and 14 of the cuckoo paper: real streams, and when a key was inserted last."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..studies.streams import Keys
from ..studies.study import Chart, Finding, Outcome, Point, Result, Series, Study
from .cuckoo_findings import (
    LABELS,
    PAPER,
    Runs,
    by_structure,
    claim,
    comparison,
    no_misses,
    ours,
    own_keys,
    peaks,
    rate_series,
    structures,
)
from .cuckoo_runs import REAL, build, dictionary, measure, real, student, synthetic, timing

WINDOW = 10_000
"""Window of the real streams in the paper."""

NAMES = {
    "flights": "tail numbers of departing aircraft",
    "dns": "queries for names",
    "products": "requests for product pages",
    "web": "web requests with replays",
}
"""Names of the streams."""

_WEB_WINDOW = 2000

# Figure 13


def points_real(quick: bool) -> list[Point]:
    """Return a point for each stream and seed."""
    counters = [1, 2] if quick else [1, 2, 3, 4]
    size = (
        {"measured": 25_000, "fresh": 20_000} if quick else {"measured": 90_000, "fresh": 200_000}
    )
    points = []
    for name in REAL:
        window = _WEB_WINDOW if name == "web" else WINDOW
        setups = [setup for each in counters for setup in structures(each * window, window)]
        for seed in range(4 if quick else 6):
            stream = {"real": name, "attack": name == "web", "seed": seed, "counters": counters}
            points.append(stream | {"window": window, "setups": setups} | size)
    return points


def conclude_real(results: list[tuple[Point, Result]]) -> Outcome:
    """Compare rates on each stream that is there."""
    findings, charts, notes = [], [], [_STREAMS]
    for name, called in NAMES.items():
        chosen = [entry for entry in results if entry[0]["real"] == name]
        if any(result["runs"] is None for _, result in chosen):
            notes.append(f"The file of the {called}, `{REAL[name]}`, was not there.")
            continue
        counters, window = chosen[0][0]["counters"], chosen[0][0]["window"]
        runs = by_structure(chosen, [*LABELS])
        at = counters.index(2)
        here = {label: values[at] for label, values in runs.items()}
        findings += _stream_findings(called, here)
        charts.append(_real_chart(name, [each * window for each in counters], runs))
    findings.append(no_misses(results))
    return Outcome(findings, charts, notes)


def _stream_findings(called: str, runs: dict[str, list[Result]]) -> list[Finding]:
    found = [*comparison(called, runs), *own_keys(called, runs)]
    return [*found, ours(f"{called}: most in the list, no signature", peaks(runs["plain"]))]


def _real_chart(name: str, counters: Sequence[float], runs: Runs) -> Chart:
    return Chart(
        name=f"cuckoo-figure-13-{name}",
        title=f"False positives: {NAMES[name]}",
        x="counters",
        y="false-positive rate",
        y_log=True,
        series=rate_series(runs, lambda _: counters),
    )


# Figure 14

ESTIMATED = ("uniform", "flights", "products")
"""Streams on which the last insertion is estimated."""

ERRORS = (0, 10, 100, 1000, 10_000)
"""Insertions of error, of which the shares are told."""


def points_age(quick: bool) -> list[Point]:
    """Return a point for each stream and seed."""
    setups = [timing(20_000, 4, WINDOW), dictionary(20_000, 0, WINDOW)]
    return [
        {"stream": name, "seed": seed, "count": 30_000 if quick else 90_000, "setups": setups}
        for name in ESTIMATED
        for seed in range(4 if quick else 6)
    ]


def measure_age(point: Point) -> Result:
    """Ask, before each thousand keys of a stream, when each was inserted last.

    Only keys of the window count. The result has, for each structure, the
    share of errors of at most each of `ERRORS`, and their mean.
    """
    keys = (
        synthetic(point["count"], 0.0, point["seed"])
        if point["stream"] == "uniform"
        else real(point["stream"], point["count"])
    )
    if keys is None:
        return {"runs": None}
    runs = []
    for setup in point["setups"]:
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


def conclude_age(results: list[tuple[Point, Result]]) -> Outcome:
    """Compare the errors of both estimates."""
    findings, charts, notes = [], [], [_AGES]
    for name in ESTIMATED:
        runs = [result["runs"] for point, result in results if point["stream"] == name]
        called = NAMES.get(name, "uniform keys")
        if None in runs:
            notes.append(f"The file of the {called}, `{REAL[name]}`, was not there.")
            continue
        findings += _age_findings(called, runs)
        charts.append(_age_chart(name, called, runs))
    return Outcome(findings, charts, notes)


def _age_findings(called: str, runs: Sequence[Sequence[Result]]) -> list[Finding]:
    means = [student([run[at]["mean"] for run in runs]) for at in (0, 1)]
    exact = [student([run[at]["shares"][0] for run in runs], most=1.0) for at in (0, 1)]
    less = student([run[0]["mean"] - run[1]["mean"] for run in runs], least=-math.inf)
    found = []
    for label, mean, share in zip(_AGED, means, exact, strict=True):
        found.append(ours(f"{called}: {label}: mean error, in insertions", mean))
        found.append(ours(f"{called}: {label}: share of exact estimates", share))
    what = f"{called}: mean error of the timing Bloom filter less the dictionary's"
    return [*found, claim(what, "the dictionary's is much smaller", less, less[1] > 0)]


def _age_chart(name: str, called: str, runs: Sequence[Sequence[Result]]) -> Chart:
    series = []
    for at, label in enumerate(_AGED):
        columns = zip(*(run[at]["shares"] for run in runs), strict=True)
        ends = zip(*(student(column, most=1.0) for column in columns), strict=True)
        mean, low, high = (list(column) for column in ends)
        series.append(Series(label, [1 + error for error in ERRORS], mean, low, high))
    return Chart(
        name=f"cuckoo-figure-14-{name}",
        title=f"Errors of the last insertion: {called}",
        x="1 + error, in insertions",
        y="share of estimates that err by no more",
        series=series,
        x_log=True,
    )


_AGED = ("timing Bloom filter, 4 hashes", "dictionary, no signature")

_STREAMS = """\
The streams of the paper, a packet trace, the log of a busy web server and wall posts, are not
freely to be had or not to be had at all; these are others. The window is 10,000 as in the paper,
and findings are for twice as many counters, the paper's 20,000 of Figure 14; it does not print the
others. The log of a web server has 10,000 requests only: its window is 2,000, and after each
request one of the last 2,000 is replayed with a probability of one half, as the paper replays
them to simulate an attack. The paper's first experiment skips the insertion of what is reported
while its window goes on by packets; here everything is inserted. Rates are those of keys that were
never inserted, and, apart, those of the stream's own keys when they were not in the window."""

_AGES = """\
Before each thousand keys of a stream, both are asked when each of them was inserted last; keys
that are not in the window do not count, nor does an error in a key that is not reported, as there
is none. The error is the true number of insertions less the estimate, which is never too large.
Both structures have 20,000 counters and a window of 10,000, as in the paper; its stream of wall
posts, where the key that is asked for is another than the one inserted, is not to be had."""

STREAMS = Study(
    "cuckoo-figure-13",
    "Cuckoo dictionary: false positives on real streams",
    f"{PAPER}, Figure 13",
    points_real,
    measure,
    conclude_real,
)
"""Figure 13."""

AGES = Study(
    "cuckoo-figure-14",
    "Cuckoo dictionary: when a key was inserted last",
    f"{PAPER}, Figure 14",
    points_age,
    measure_age,
    conclude_age,
)
"""Figure 14."""
