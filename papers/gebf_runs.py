"""Runs of the studies of the GEBF paper: its filters, its queries, its streams."""

from collections.abc import Callable, Sequence
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

from .paper import Paper, sweep
from .streams import Keys, bursty, uniform, zipf

PAPER = Paper("gebf")  # The paper, whose title is not in the text that we have.
WINDOW = 20_000  # Insertions to remember in the synthetic streams.
INSERTIONS = 120_000  # Length of a synthetic stream.
QUERIES = 20_000  # Queries of each kind, after the last insertion.
BITS_PER_KEY = 14  # Bits per key of the window, in the configurations whose figures are printed.
EPOCHS = 8  # r, where nothing else is said.
BLOCK_BITS = 256  # Bits of a block, in the reading that meets the paper's figure.
UNIVERSE = 1 << 62  # Keys of the streams are below; fresh ones are not.
Rates = dict[str, float]  # Shares by the name of the metric, 0 to 1.

# Filters


class _DoubleHashedLayout(Layout):
    def positions(self, state: NDArray[np.uint64], segment: int) -> NDArray[np.intp]:
        block, first, step = self.hash.indices(state, 0)[:3]
        hops = np.arange(self.spec.parts)[:, None] * (step | 1)
        within = (first + hops) % self.cells
        return np.asarray(block * self.cells + within)


class DoubleHashedGEBF(BlockedGEBF):
    """Blocked GEBF whose i-th bit of a key is a + i b modulo the bits of the block, with b odd.

    Double hashing, which the paper names, as one may read it for blocks, not `partitioned`. For
    studies alone: its specification is its parent's.
    """

    _layout_class = _DoubleHashedLayout


Filters = GEBF | BlockedGEBF


def guarded(
    window: int,
    bits_per_item: int,
    seed: int,
    *,
    family: type[Filters] = GEBF,
    epochs: int = EPOCHS,
    hashes: int = 0,
    **options: Any,
) -> Filters:
    """Build a GEBF in a budget of `bits_per_item` for each key of the window."""
    bits = window * bits_per_item
    hashes = hashes or best_hashes(bits // (epochs + 1), -(-window // epochs))
    options = {"partitioned": False, "seed": seed} | options
    return family(window=window, epochs=epochs, hashes=hashes, bits=bits, **options)


def blocked(
    window: int, bits_per_item: int, seed: int, *, double: bool = True, **options: Any
) -> Filters:
    """Build a blocked GEBF; `double` for the bits of double hashing, else independent ones."""
    options = {"block_bits": BLOCK_BITS} | options
    family = DoubleHashedGEBF if double else BlockedGEBF
    return guarded(window, bits_per_item, seed, family=family, **options)


def counting(window: int, bits_per_item: int, seed: int, *, hashes: int = 0) -> CountingBloomFilter:
    """Build a counting Bloom filter of 4-bit counters; the queue is not in the budget."""
    sizes = {"window": window, "counters": window * bits_per_item // 4}
    hashes = hashes or best_hashes(sizes["counters"], window)
    return CountingBloomFilter(**sizes, hashes=hashes, seed=seed)


def stable(
    window: int,
    bits_per_item: int,
    seed: int,
    *,
    cell_bits: int = 2,
    hashes: int = 0,
    decrements: float = 10,
) -> StableBloomFilter:
    """Build a stable Bloom filter; `decrements` below 1 are the false-positive rate to keep."""
    cells = window * bits_per_item // cell_bits
    hashes = hashes or best_hashes(cells, window)
    if decrements < 1:
        decrements = stable_decrements(cells, hashes, cell_bits, decrements)
    sizes = {"cells": cells, "cell_bits": cell_bits, "decrements": int(decrements)}
    return StableBloomFilter(hashes=hashes, **sizes, seed=seed)


Builder = Callable[[int, int, int], SlidingFilter | CountedFilter]
"""Takes window, bits per key and seed; returns a filter."""


def _builders(rows: Sequence[dict[str, Any]]) -> dict[str, Builder]:
    """Return builders by the names of the file; members with an underscore are for names alone."""
    functions = {one.__name__: one for one in (guarded, blocked, counting, stable)}
    builders: dict[str, Builder] = {}
    for row in rows:
        for point in sweep(row):
            options = {name: value for name, value in point.items() if name[0] != "_"}
            builders[row["name"].format(**point)] = partial(functions[row["build"]], **options)
    return builders


FILTERS = _builders(PAPER.data["filters"])
READINGS = _builders(PAPER.data["readings"])  # At 14 bits per key.


# Streams and queries


STREAMS: dict[str, Callable[..., Keys]] = {
    "uniform": partial(uniform, INSERTIONS, UNIVERSE),
    **{f"Zipf, z = {z}": partial(zipf, INSERTIONS, 1 << 20, z) for z in (0.4, 0.6, 0.8, 1.0, 1.2)},
    **{
        f"bursty, share {share:.0%}": partial(
            bursty, INSERTIONS, UNIVERSE, length=1000, hot=20, share=share
        )
        for share in (0.02, 0.1, 0.5)
    },
}
"""Streams of the study of readings; each takes a seed."""

KINDS = {"uniform": "uniform", "zipf": "Zipf, z = 1.0", "bursty": "bursty, share 50%"}
"""Those of them that the synthetic streams are, by their kinds."""


def synthetic(kind: str, seed: int) -> Keys:
    """Draw a stream of `INSERTIONS` keys."""
    return STREAMS[KINDS[kind]](seed=seed)


@dataclass(frozen=True)
class Queries:
    """Keys to query after the last insertion: `QUERIES` of each kind, each of shape (n,)."""

    live: Keys  # of the window, drawn by insertion
    fresh: Keys  # never inserted
    # Expired, if any: keys of the window before, drawn by insertion, but not of the window. They
    # are guarded if last inserted at most one epoch before it, and else beyond.
    guarded: Keys
    beyond: Keys


def draw_queries(keys: Keys, window: int, seed: int) -> Queries:
    """Draw the queries that follow a stream."""
    rng = np.random.default_rng([seed, 1])
    live = rng.choice(keys[-window:], QUERIES)
    fresh = rng.integers(UNIVERSE, 2 * UNIVERSE, QUERIES, np.uint64)
    before = keys[-2 * window : -window]
    expired = before[~np.isin(before, keys[-window:])]
    expired = rng.choice(expired, QUERIES) if len(expired) else expired
    epoch = -(-window // EPOCHS)
    late = np.isin(expired, keys[-window - epoch : -window])
    return Queries(live, fresh, expired[late], expired[~late])


def rates(model: SlidingFilter | CountedFilter, keys: Keys, queries: Queries) -> Rates:
    """Insert a stream and query; return shares, 0 without a query.

    They are "fresh" and "expired" keys reported, "live" keys missed, and of the expired those
    "beyond" the guard epoch reported.
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
