"""One trial of the inferential paper's section 5: a stream, a filter, and what its errors cost."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lately.golden.timestamp.distinct import (
    Distinct,
    Reals,
    interpolated_distinct,
    power_law_distinct,
    sampled_distinct,
    uniform_distinct,
)
from lately.golden.timestamp.inferential import minimum_penalty
from lately.golden.timestamp.posteriors import age_posterior
from lately.golden.timestamp.timing import BlockTimingBloomFilter

from .paper import Paper
from .streams import Keys, absence, distances, path, real, uniform, zipf

PAPER = Paper("inferential")
"""Inferential Time-Decaying Bloom Filters."""

UNIVERSE = 1 << 16
"""Keys of the drawn streams (Table 3)."""

BINS = 20
"""Bins of posteriors (section 5.1.4)."""

PENALTIES = (1.0, 10.0)
"""Ends of the range that penalties are drawn from (section 5.1.1)."""

REAL = {"flights": "flights", "pages": "products"}
"""Real streams (see `real_streams`), in the place of the paper's IP sources, which are not free."""

BALANCED, MOSTLY = "pos = neg", "pos > neg"
"""Conditions of Table 3: both answers about as frequent, or most queries of keys in the window."""


@dataclass(frozen=True)
class Experiment:
    """A row of Table 3; `ratio` as printed, "" for our streams in the place of the paper's."""

    stream: str
    condition: str
    window: int
    ratio: str = ""


EXPERIMENTS = tuple(Experiment(**row) for row in PAPER.data["experiments"])
"""Rows of Table 3, those of our streams after those of the paper's."""

WARM = {"flights": 1 << 16, "pages": 1 << 15}
"""Keys of a real stream that are inserted first; the others are queried."""

_TRIALS = 8


@dataclass(frozen=True)
class DistinctStream:
    """Stream of a trial, in arrays of shape (n,)."""

    keys: Keys
    probabilities: Reals
    """p_x of each key."""
    age: NDArray[np.int64]
    """Insertions since the key's last; n for a key that is new."""
    distinct: Distinct
    """D(j)."""
    warm: int
    """Keys that are inserted before the first query."""


def available() -> Iterator[Experiment]:
    """Experiments whose streams are at hand."""
    for experiment in EXPERIMENTS:
        if experiment.stream not in REAL or path(REAL[experiment.stream]):
            yield experiment


def absent() -> list[str]:
    """Return a sentence for each real stream that is not at hand."""
    gone = [(stream, name) for stream, name in REAL.items() if not path(name)]
    return [absence(name, stream) for stream, name in gone]


def drawn(name: str, warm: int, queries: int, seed: int) -> DistinctStream:
    """Draw the stream "uniform" or "power law" of sections 5.2 and 5.3.1."""
    count = warm + queries
    distinct: Distinct
    if name == "uniform":
        keys = uniform(count, UNIVERSE, seed)
        probabilities = np.full(count, 1 / UNIVERSE)
        distinct = partial(uniform_distinct, universe=UNIVERSE)
    else:
        keys = zipf(count, UNIVERSE, 1.0, seed)
        weights = 1 / np.arange(1, UNIVERSE + 1)
        probabilities = (weights / weights.sum())[keys.astype(np.int64)]
        distinct = partial(power_law_distinct, universe=UNIVERSE)
    return DistinctStream(keys, probabilities, insertion_ages(keys), distinct, warm)


@lru_cache(maxsize=1)
def recorded(name: str, warm: int) -> DistinctStream:
    """Read a stream of `REAL`; p_x and D(j) as in section 5.3.2, from the stream itself."""
    keys = real(REAL[name])
    assert keys is not None, name
    _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    lengths = [10**power for power in range(6) if 10**power < len(keys)]
    lengths.append(1 << len(keys).bit_length() - 1)
    lengths = sorted(set(lengths))
    known = sampled_distinct(keys, lengths, _TRIALS)
    distinct = partial(_sampled, at=lengths, distinct=known)
    return DistinctStream(keys, counts[index] / len(keys), insertion_ages(keys), distinct, warm)


def _sampled(insertions: ArrayLike, at: list[int], distinct: Reals) -> Reals:
    """Interpolate; a block that the stream does not fill has what the longest stretch has."""
    return interpolated_distinct(np.minimum(insertions, at[-1]), at, distinct)


def insertion_ages(keys: Keys) -> NDArray[np.int64]:
    """Insertions between each key and the one before that is equal; n where there is none."""
    distance = distances(keys)
    return np.where(distance > 0, distance - 1, len(keys))


def sizes(window: int, bits_per_item: float, hashes: int) -> dict[str, int]:
    """Parameters that section 5.1.2 gives a filter of k hashes, in `window` times so many bits.

    A cell has k bits, 3 at least, and the padding is the least with which k
    cells are swept at most. The paper does not say how long a block is: here
    it is the shortest for which the timestamps fit into a cell.
    """
    bits = max(hashes, 3)
    cells = max(1, int(window * bits_per_item) // bits)

    def fits(block: int) -> bool:
        padding = -(-cells // (hashes * block)) - 1
        return -(-window // block) + 1 + padding + 2 <= 1 << bits

    block = bisect_left(range(max(window, cells)), True, lo=1, key=fits)
    return {"window": window, "block": block, "cells": cells, "hashes": hashes}


def trial(
    stream: DistinctStream, parameters: dict[str, int], queries: int, seed: int
) -> dict[str, Any]:
    """Insert the first keys, then query and insert the next ones, and count what errors cost.

    Returns
    -------
    dict
        "standard", "inferential", "recurring": total penalties, the last with
        the posteriors of `age_posterior` by that name. "denied", "false": false
        negatives and false positives of the inferential filter.
        "standard_false": false positives of the standard filter. "count",
        "inside", "mass": for each bin of posteriors its queries, the queries for
        keys in the window, and the sum of the posteriors.
    """
    model = BlockTimingBloomFilter(**parameters, seed=seed)
    model.insert(stream.keys[: stream.warm])
    part = slice(stream.warm, stream.warm + queries)
    evidence = model.inspect_and_insert(stream.keys[part])
    inside = stream.age[part] < model.window
    false_positive, false_negative = np.random.default_rng([seed, 5]).uniform(
        *PENALTIES, (2, len(inside))
    )

    def infer(recurring: bool) -> tuple[Reals, NDArray[np.bool_]]:
        posterior = age_posterior(
            evidence,
            stream.probabilities[part],
            model=model,
            distinct=stream.distinct,
            recurring=recurring,
        ).within(model.window)
        return posterior, minimum_penalty(
            posterior, false_positive=false_positive, false_negative=false_negative
        )

    reported = evidence.age >= 0
    posterior, answers = infer(recurring=False)
    bins = np.minimum((BINS * posterior).astype(np.int64), BINS - 1)

    def cost(given: NDArray[np.bool_]) -> float:
        wrong = false_positive[given & ~inside].sum() + false_negative[~given & inside].sum()
        return float(wrong)

    return {
        "standard": cost(reported),
        "inferential": cost(answers),
        "recurring": cost(infer(recurring=True)[1]),
        "missed": int((~reported & inside).sum()),
        "standard_false": int((reported & ~inside).sum()),
        "denied": int((~answers & inside).sum()),
        "false": int((answers & ~inside).sum()),
        "count": np.bincount(bins, minlength=BINS).tolist(),
        "inside": np.bincount(bins, inside, minlength=BINS).tolist(),
        "mass": np.bincount(bins, posterior, minlength=BINS).tolist(),
    }


def posterior_error(run: dict[str, Any]) -> float:
    """Mean distance of the share in the window from the middle of its bin (equation 28)."""
    count, inside = np.array(run["count"]), np.array(run["inside"])
    middle = (np.arange(BINS) + 0.5) / BINS
    return float(np.abs(inside - middle * count).sum() / count.sum())


def calibration_error(run: dict[str, Any]) -> float:
    """As `posterior_error`, from the mean posterior of the bin in place of its middle."""
    count = np.array(run["count"])
    difference = np.array(run["inside"]) - np.array(run["mass"])
    return float(np.abs(difference).sum() / count.sum())
