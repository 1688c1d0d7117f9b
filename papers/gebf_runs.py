"""Runs of the studies of the GEBF paper: its filters, its queries, its streams."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import GEBF, BlockedGEBF, CountedFilter
from lately.golden.ring.layout import Layout
from lately.golden.ring.sliding import SlidingFilter
from lately.golden.sizing import best_hashes
from papers.models import CountingBloomFilter, StableBloomFilter
from papers.models.stable import stable_decrements

from . import streams
from .paper import Paper
from .streams import Keys

PAPER = Paper("gebf")  # The paper, whose title is not in the text that we have.
WINDOW = 20_000  # Insertions to remember in the synthetic streams.
INSERTIONS = 120_000  # Length of a synthetic stream.
QUERIES = 20_000  # Queries of each kind, after the last insertion.
BITS_PER_KEY = 14  # Bits per key of the window, in the configurations whose figures are printed.
EPOCHS = 8
"""r, where nothing else is said."""

BLOCK_BITS = 256  # Bits of a block, in the reading that meets the paper's figure.
CELL_BITS, DECREMENTS = 2, 10  # Parameters d and P of the stable Bloom filter.
UNIVERSE = 1 << 62  # Keys of the streams are below; fresh ones are not.
Rates = dict[str, float]  # Shares by the name of the metric, 0 to 1.
AnyFilter = SlidingFilter | CountedFilter  # Filters that the studies measure.

LOGS = {
    "flights": ("flights", WINDOW),
    "product pages": ("products", WINDOW),
    "web server": ("web", 2_000),
}
"""Real streams (see `streams`), and windows that leave something to expire."""


# Filters


class _DoubleHashedLayout(Layout):
    def positions(self, state: NDArray[np.uint64], segment: int) -> NDArray[np.intp]:
        block, first, step = self.hash.indices(state, 0)[:3]
        hops = np.arange(self.spec.parts)[:, None] * (step | 1)
        within = (first + hops) % self.cells
        return np.asarray(block * self.cells + within)


class DoubleHashedGEBF(BlockedGEBF):
    """Blocked GEBF whose bits in a block are an arithmetic progression.

    The i-th of k bits is a + i b modulo the bits of the block, with b odd:
    double hashing, which the paper names, as one may read it for blocks.
    Parameters as for `BlockedGEBF`, of which `partitioned` is False and
    `hashes` at least 2. For studies alone: its specification is its parent's.
    """

    _layout_class = _DoubleHashedLayout


def guarded(
    window: int,
    bits_per_item: int,
    *,
    family: type[GEBF] | type[BlockedGEBF] = GEBF,
    epochs: int = EPOCHS,
    hashes: int | None = None,
    **options: Any,
) -> GEBF | BlockedGEBF:
    """Build a GEBF in a budget of `bits_per_item` for each key of the window."""
    bits = window * bits_per_item
    chosen = hashes or best_hashes(bits // (epochs + 1), -(-window // epochs))
    options = {"partitioned": False} | options
    return family(window=window, epochs=epochs, hashes=chosen, bits=bits, **options)


def blocked(
    window: int,
    bits_per_item: int,
    *,
    block_bits: int = BLOCK_BITS,
    double: bool = True,
    **options: Any,
) -> GEBF | BlockedGEBF:
    """Build a blocked GEBF; `double` for the bits of double hashing, else independent ones."""
    family = DoubleHashedGEBF if double else BlockedGEBF
    return guarded(window, bits_per_item, family=family, block_bits=block_bits, **options)


def counting(
    window: int, bits_per_item: int, *, hashes: int | None = None, **options: Any
) -> CountingBloomFilter:
    """Build a counting Bloom filter of 4-bit counters; the queue is not in the budget."""
    counters = window * bits_per_item // 4
    chosen = hashes or best_hashes(counters, window)
    return CountingBloomFilter(window=window, counters=counters, hashes=chosen, **options)


def stable(
    window: int,
    bits_per_item: int,
    *,
    cell_bits: int = CELL_BITS,
    hashes: int | None = None,
    decrements: int | float = DECREMENTS,
    **options: Any,
) -> StableBloomFilter:
    """Build a stable Bloom filter; `decrements` below 1 are the false-positive rate to keep."""
    cells = window * bits_per_item // cell_bits
    chosen = hashes or best_hashes(cells, window)
    if decrements < 1:
        decrements = stable_decrements(cells, chosen, cell_bits, decrements)
    sizes = {"cells": cells, "cell_bits": cell_bits, "decrements": int(decrements)}
    return StableBloomFilter(hashes=chosen, **sizes, **options)


Builder = Callable[[int, int, int], AnyFilter]
"""Takes window, bits per key and seed; returns a filter."""


def _built(build: Callable[..., AnyFilter], **chosen: Any) -> Builder:
    return lambda window, bits, seed: build(window, bits, seed=seed, **chosen)


FILTERS = {
    "GEBF r = 4": _built(guarded, epochs=4),
    "GEBF r = 8": _built(guarded),
    "blocked GEBF r = 8": _built(blocked),
    "counting": _built(counting),
    "stable": _built(stable),
}
"""Filters that the studies compare."""

READINGS: dict[str, Builder] = {
    "GEBF: k = 8": _built(guarded, hashes=8),
    "GEBF: k = 9": _built(guarded, hashes=9),
    "GEBF: k = 9, partitioned": _built(guarded, hashes=9, partitioned=True),
    "counting: k = 2": _built(counting, hashes=2),
    "counting: k = 3": _built(counting, hashes=3),
    **{
        f"blocked: k = {hashes}, {block_bits} bits, {named}": _built(
            blocked, hashes=hashes, block_bits=block_bits, double=double
        )
        for double, named in ((False, "independent"), (True, "double hashing"))
        for hashes in (8, 9)
        for block_bits in (64, 128, 256, 512)
    },
    **{
        f"stable: d = {cell_bits}, {named}, {rule}": _built(
            stable, cell_bits=cell_bits, hashes=hashes, decrements=decrements
        )
        for cell_bits in (1, 2, 4)
        for hashes, named in ((None, "best K"), (3, "K = 3"), (9, "K = 9"))
        for decrements in (10, 0.1, 0.05, 0.02)
        for rule in [f"P = {decrements}" if decrements >= 1 else f"P for {decrements:.0%}"]
    },
}
"""Plausible choices where the paper leaves something open, at 14 bits per key."""


# Streams and queries


def _bursty(share: float) -> Callable[[int], Keys]:
    return lambda seed: streams.bursty(
        INSERTIONS, UNIVERSE, length=1000, hot=20, share=share, seed=seed
    )


STREAMS: dict[str, Callable[[int], Keys]] = {
    "uniform": partial(streams.uniform, INSERTIONS, UNIVERSE),
    **{
        f"Zipf, z = {z}": partial(streams.zipf, INSERTIONS, 1 << 20, z)
        for z in (0.4, 0.6, 0.8, 1.0, 1.2)
    },
    **{f"bursty, share {share:.0%}": _bursty(share) for share in (0.02, 0.1, 0.5)},
}
"""Streams of the study of readings; each takes a seed."""


def synthetic(kind: str, seed: int) -> Keys:
    """Draw a stream of `INSERTIONS` keys: 'uniform', 'zipf' or 'bursty'."""
    names = {"uniform": "uniform", "zipf": "Zipf, z = 1.0", "bursty": "bursty, share 50%"}
    return STREAMS[names[kind]](seed)


@dataclass(frozen=True)
class Queries:
    """Keys to query after the last insertion, each of shape (n,).

    `QUERIES` keys are live, of the window, drawn by insertion, and as many fresh, never inserted.
    As many together have expired, unless none has: keys of the window before, drawn by insertion,
    but not of the window, guarded if last inserted at most one epoch before it and else beyond.
    """

    live: Keys
    fresh: Keys
    guarded: Keys
    beyond: Keys


def draw_queries(keys: Keys, window: int, seed: int) -> Queries:
    """Draw the queries that a stream is followed by."""
    rng = np.random.default_rng([seed, 1])
    live = rng.choice(keys[-window:], QUERIES)
    fresh = rng.integers(UNIVERSE, 2 * UNIVERSE, QUERIES, np.uint64)
    before = keys[-2 * window : -window]
    expired = before[~np.isin(before, keys[-window:])]
    expired = rng.choice(expired, QUERIES) if len(expired) else expired
    epoch = -(-window // EPOCHS)
    late = np.isin(expired, keys[-window - epoch : -window])
    return Queries(live, fresh, expired[late], expired[~late])


def rates(model: AnyFilter, keys: Keys, queries: Queries) -> Rates:
    """Insert a stream and query.

    Returns
    -------
    dict of str to float
        ``fresh`` and ``expired`` reported, ``live`` missed, and of the expired
        ``beyond`` the guard epoch those reported; without a query, 0.
    """
    model.insert(keys)
    guarded, beyond = model.query(queries.guarded), model.query(queries.beyond)
    return {
        "fresh": float(model.query(queries.fresh).mean()),
        "live": 1 - float(model.query(queries.live).mean()),
        "expired": _share(np.concatenate([guarded, beyond])),
        "beyond": _share(beyond),
    }


def _share(answers: NDArray[np.bool_]) -> float:
    return float(answers.mean()) if len(answers) else 0.0
