"""Structures, series and findings that the studies of the cuckoo paper share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lately.replay.drawing import Estimate, Series

from .cuckoo_runs import (
    BEST,
    dictionary,
    fresh_rate,
    ratio,
    stream_rate,
    timing,
    timing_bits,
)
from .paper import Paper
from .studies.comparison import POSITIVE, claim, ours, student
from .studies.criteria import above, between, exactly
from .studies.study import Finding, Point, Result, Results

PAPER = Paper("cuckoo")
"""Near-optimal Approximate Membership Query over Time-decaying Windows."""

SIGNATURE = 4
"""Bits of a signature, where there is one, and hash functions of the timing Bloom filter."""

_MUCH = 10

Runs = dict[str, list[list[Result]]]
"""Runs of each structure: for each value of the figure's axis, one for each seed."""

LABELS = {
    "timing": "timing Bloom filter, 4 hashes",
    "best": "timing Bloom filter, best hashes",
    "plain": "dictionary, no signature",
    "signed": "dictionary, signature of 4 bits",
}
"""Structures that the figures compare."""


def structures(counters: int, window: int) -> list[Point]:
    """Return the four of `LABELS`, in that order."""
    return [
        timing(counters, SIGNATURE, window),
        timing(counters, BEST, window),
        dictionary(counters, 0, window),
        dictionary(counters, SIGNATURE, window),
    ]


def by_structure(results: Results, labels: Sequence[str]) -> Runs:
    """Sort the runs of points, each of which has all structures for one value after another."""
    runs: Runs = {}
    for number, label in enumerate(labels):
        columns = [result["runs"][number :: len(labels)] for _, result in results]
        runs[label] = [list(seeds) for seeds in zip(*columns, strict=True)]
    return runs


def rate_series(
    runs: Runs,
    x: Mapping[str, Any],
    rate: Callable[[Sequence[Result]], Estimate] = fresh_rate,
) -> list[Series]:
    """Return a series of rates for each structure, without events that never occurred."""
    series = []
    for label, values in runs.items():
        rates = [(at, *rate(value)) for at, value in zip(x[label], values, strict=True)]
        kept = [each for each in rates if each[1] > 0]
        at = [each[0] for each in kept]
        series.append(Series.estimated(LABELS.get(label, label), at, [each[1:] for each in kept]))
    return series


def mean_of(values: Sequence[float]) -> Estimate:
    """Return the mean over seeds of values that are not negative."""
    return student(values, within=POSITIVE)


def no_misses(results: Results) -> Finding:
    """Return the finding that no key of the window was missed, in any run."""
    runs = [run for _, result in results for run in result["runs"] or []]
    missed = float(sum(run["missed"] for run in runs))
    return claim("keys of the window that were missed, all structures", "none", missed, exactly(0))


def comparison(at: str, runs: dict[str, list[Result]]) -> list[Finding]:
    """Hold the dictionaries against their bound and against the timing Bloom filter."""
    found = []
    rates = {name: fresh_rate(seeds) for name, seeds in runs.items()}
    for name in ("plain", "signed"):
        label = f"{at}: {LABELS[name]}"
        bound = runs[name][0]["bound"]
        theory = mean_of([run["theory"] for run in runs[name]])[0]
        found += [
            claim(
                f"{label}: false-positive rate",
                "at most epsilon",
                rates[name],
                between(float(f"{theory / 2:.3g}"), float(f"{bound:.3g}")),
                f"expected of the live entries: {theory:.3g}; epsilon is {bound:.3g}",
            ),
            claim(
                f"{at}: rate of the timing Bloom filter over that",
                "much more",
                ratio(rates["timing"], rates[name]),
                above(_MUCH),
                "at as many counters",
            ),
            ours(
                f"{at}: rate of the timing Bloom filter with the best hashes over that",
                ratio(rates["best"], rates[name]),
            ),
        ]
    return found


def own_keys(at: str, runs: dict[str, list[Result]]) -> list[Finding]:
    """Return rates of the stream's own keys that are not in the window."""
    return [
        ours(f"{at}: {LABELS[name]}: rate of the stream's own keys", stream_rate(seeds))
        for name, seeds in runs.items()
    ]


def same_rate(at: str, name: str, runs: Sequence[Result], window: int) -> Finding:
    """Return the bits of a timing Bloom filter of the same rate, over the dictionary's."""
    rates = [timing_bits(window, run["theory"]) / run["bits"] for run in runs]
    note = "the timing Bloom filter by theory, of the best size; the dictionary with its list"
    return ours(
        f"{at}: bits for the rate of the {LABELS[name]}, over its own", mean_of(rates), note
    )


def peaks(runs: Sequence[Result]) -> Estimate:
    """Return the most keys in the list, a mean over seeds."""
    return mean_of([run["peak"] for run in runs])
