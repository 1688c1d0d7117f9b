"""Runs of the cuckoo dictionary and of the timing Bloom filter that its paper compares it with."""

import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from campaigns.engine import Point, Result
from lately.golden.sizing import best_hashes
from lately.golden.timestamp.timing import TimingBloomFilter
from lately.replay.drawing import Estimate
from papers.models.cuckoo import CuckooDictionary

from .streams import Keys, distances, real, uniform, zipf
from .studies.estimates import positive, share

UNIVERSE = 100_000  # Keys that the synthetic streams are drawn from, as in the paper.

SIGNATURE = 4
"""Bits of a signature, where there is one, and hash functions of the timing Bloom filter."""

BEST = 0
"""Hash functions of `timing` that are best for the different keys in a window of the stream."""

_FRESH = 1 << 40
# The dictionary gets more queries, because it seldom errs.
_PATIENCE = 10

Filter = CuckooDictionary | TimingBloomFilter  # The filters that are compared.


# Structures


def dictionary(counters: int, bits: int, window: int) -> Point:
    """Describe a dictionary with as many counters as section VI gives it.

    A position has two of them, or three with a signature, and there are two tables.
    """
    positions = round(counters / (6 if bits else 4))
    return {"kind": "dictionary", "positions": positions, "bits": bits, "window": window}


def timing(counters: int, hashes: int, window: int) -> Point:
    """Describe a timing Bloom filter of as many cells; `BEST` hashes are chosen by the stream."""
    return {"kind": "timing", "cells": counters, "hashes": hashes, "window": window}


def structures(counters: int, window: int) -> list[Point]:
    """Describe two timing Bloom filters and two dictionaries: those that the figures compare."""
    return [
        timing(counters, SIGNATURE, window),
        timing(counters, BEST, window),
        dictionary(counters, 0, window),
        dictionary(counters, SIGNATURE, window),
    ]


def timing_bits(window: int, rate: float) -> float:
    """Return the bits of a timing Bloom filter of the best size for a rate, keys all distinct."""
    cells = window * math.log(1 / rate) / math.log(2) ** 2
    return cells * (2 * window + 2).bit_length()


def build(setup: Point, seed: int) -> Filter:
    """Build what `dictionary` or `timing` describes."""
    window = setup["window"]
    if setup["kind"] == "dictionary":
        sizes = {"positions": setup["positions"], "signature_bits": setup["bits"]}
        return CuckooDictionary(window=window, **sizes, seed=seed)
    # Timestamps up to 2 n, as in the dictionary.
    sizes = {"cells": setup["cells"], "hashes": setup["hashes"], "padding": window}
    return TimingBloomFilter(window=window, **sizes, seed=seed)


# Runs


def attacked(keys: Keys, window: int, seed: int) -> Keys:
    """Replay, after each key, one of the last `window` with a probability of one half."""
    rng = np.random.default_rng(seed)
    stream: list[int] = []
    for key, replay, place in zip(
        keys.tolist(), rng.random(len(keys)) < 0.5, rng.random(len(keys)), strict=True
    ):
        stream.append(key)
        if replay:
            stream.append(stream[-1 - int(place * min(window, len(stream)))])
    return np.array(stream, np.uint64)


def run_all(point: Point, setups: Iterable[Point]) -> Result:
    """Run structures, each from empty, on the stream of a point.

    The stream is "z", drawn separately for each structure, or "real".
    """
    runs = []
    for setup in setups:
        keys = _stream(point, setup["window"])
        if keys is None:
            return {"runs": None}
        if setup.get("hashes") == BEST:
            different = _different(keys, setup["window"])
            setup = setup | {"hashes": best_hashes(setup["cells"], different)}
        fresh = point["fresh"] * (_PATIENCE if setup["kind"] == "dictionary" else 1)
        runs.append(_run(build(setup, point["seed"]), keys, fresh, point["seed"]))
    return {"runs": runs}


def _different(keys: Keys, window: int) -> float:
    """Return how many different keys a window has, in the mean of those that are apart."""
    ends = range(window, len(keys) + 1, window)
    return statistics.fmean(len(np.unique(keys[end - window : end])) for end in ends)


def _stream(point: Point, window: int) -> Keys | None:
    if "z" in point:
        return zipf(2 * window + point["measured"], UNIVERSE, point["z"], point["seed"])
    keys = real(point["real"], point["measured"])
    if keys is not None and point["attack"]:
        return attacked(keys, window, point["seed"])
    return keys


def _run(filter: Filter, keys: Keys, fresh: int, seed: int) -> Result:
    """Check and insert a stream; after the first window, count errors and query fresh keys."""
    window = filter.window
    distance = distances(keys)
    within = (distance > 0) & (distance <= window)
    reported = np.empty(len(keys), np.bool_)
    ends = [*range(window, len(keys), max(1, (len(keys) - window) // 10)), len(keys)]
    start, hits, theory, listed = 0, 0, [], []
    for number, end in enumerate(ends):
        reported[start:end] = filter.check_and_insert(keys[start:end])
        start = end
        asked = uniform(fresh // len(ends), _FRESH, 1000 * seed + number) + np.uint64(_FRESH)
        hits += int(filter.query(asked).sum())
        if isinstance(filter, CuckooDictionary):
            theory.append(filter.expected_false_positive_rate())
            listed.append(filter.overflow)
    absent = ~within[window:]
    result: Result = {
        "missed": int((within & ~reported).sum()),
        "absent": int(absent.sum()),
        "false": int((reported[window:] & absent).sum()),
        "fresh": fresh // len(ends) * len(ends),
        "hits": hits,
        "bits": filter.storage_bits,
    }
    if isinstance(filter, CuckooDictionary):
        result |= {
            "theory": statistics.fmean(theory),
            "bound": filter.error_bound,
            "listed": statistics.fmean(listed),
            "peak": filter.overflow_peak,
            "bits": filter.storage_bits + filter.overflow_peak * filter.listed_bits,
        }
    return result


# Estimates


def fresh_rate(runs: Sequence[Result]) -> Estimate:
    """Return the rate at which fresh keys are reported, over the runs of all seeds.

    The interval of a dictionary is Clopper and Pearson's: its live entries,
    and with them its rate, are nearly equal for all seeds. For a timing Bloom
    filter it is Student's interval if that is wider.
    """
    pairs = [(run["hits"], run["fresh"]) for run in runs]
    return _pooled(pairs, exact="theory" in runs[0])


def stream_rate(runs: Sequence[Result]) -> Estimate:
    """Return the rate at which the stream's own keys are reported that are not in the window.

    Clopper and Pearson's interval, or Student's where it is wider.
    """
    return _pooled([(run["false"], run["absent"]) for run in runs], exact=False)


def _pooled(pairs: Sequence[tuple[int, int]], *, exact: bool) -> Estimate:
    hits, trials = (sum(column) for column in zip(*pairs, strict=True))
    rate, low, high = share(hits, trials)
    if not exact and len(pairs) > 1 and all(pair[1] for pair in pairs):
        _, lower, upper = positive([hits / trials for hits, trials in pairs])
        low, high = min(low, lower), max(high, upper)
    return rate, low, high
