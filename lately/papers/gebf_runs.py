"""Runs of the studies of the GEBF paper: its filters, its queries, its streams."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden import GEBF, BlockedGEBF, CountedFilter, CountingBloomFilter, StableBloomFilter
from ..golden.baselines.stable import stable_decrements
from ..golden.ring.layout import Layout
from ..golden.ring.sliding import SlidingFilter
from ..studies import streams
from ..studies.streams import Keys
from .paper import Paper

PAPER = Paper("gebf")
"""The paper, whose title is not in the text that we have."""

WINDOW = 20_000
"""Insertions to remember in the synthetic streams."""

INSERTIONS = 120_000
"""Length of a synthetic stream."""

QUERIES = 20_000
"""Queries of each kind, after the last insertion."""

BITS_PER_KEY = 14
"""Bits per key of the window, in the configurations whose figures are printed."""

EPOCHS = 8
"""r, where nothing else is said."""

BLOCK_BITS = 256
"""Bits of a block, in the reading that meets the paper's figure."""

CELL_BITS, DECREMENTS = 2, 10
"""Parameters d and P of the stable Bloom filter."""

UNIVERSE = 1 << 62
"""Keys of the streams are below; fresh ones are not."""

Rates = dict[str, float]
"""Shares by the name of the metric, 0 to 1."""
AnyFilter = SlidingFilter | CountedFilter
"""Metrics."""

LOGS = {
    "flights": ("flights", WINDOW),
    "product pages": ("products", WINDOW),
    "web server": ("web", 2_000),
}
"""Real streams (see `real_streams`), and windows that leave something to expire."""


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


def best_hashes(cells: int, keys: int) -> int:
    """Return how many hash functions make false positives fewest: (cells / keys) ln 2, rounded."""
    return max(1, round(math.log(2) * cells / keys))


def guarded(
    window: int,
    bits_per_item: int,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    hashes: int | None = None,
    partitioned: bool = False,
) -> GEBF:
    """Build a GEBF in a budget of `bits_per_item` for each key of the window."""
    bits = window * bits_per_item
    chosen = hashes or best_hashes(bits // (epochs + 1), -(-window // epochs))
    return GEBF(
        window=window, epochs=epochs, hashes=chosen, bits=bits, seed=seed, partitioned=partitioned
    )


def blocked(
    window: int,
    bits_per_item: int,
    *,
    seed: int = 0,
    hashes: int | None = None,
    block_bits: int = BLOCK_BITS,
    double: bool = True,
) -> BlockedGEBF:
    """Build a blocked GEBF; `double` for the bits of double hashing, else independent ones."""
    bits = window * bits_per_item
    chosen = hashes or best_hashes(bits // (EPOCHS + 1), -(-window // EPOCHS))
    return (DoubleHashedGEBF if double else BlockedGEBF)(
        window=window,
        epochs=EPOCHS,
        hashes=chosen,
        bits=bits,
        block_bits=block_bits,
        seed=seed,
        partitioned=False,
    )


def counting(
    window: int, bits_per_item: int, *, seed: int = 0, hashes: int | None = None
) -> CountingBloomFilter:
    """Build a counting Bloom filter of 4-bit counters; the queue is not in the budget."""
    counters = window * bits_per_item // 4
    chosen = hashes or best_hashes(counters, window)
    return CountingBloomFilter(window=window, counters=counters, hashes=chosen, seed=seed)


def stable(
    window: int,
    bits_per_item: int,
    *,
    seed: int = 0,
    cell_bits: int = CELL_BITS,
    hashes: int | None = None,
    decrements: int | float = DECREMENTS,
) -> StableBloomFilter:
    """Build a stable Bloom filter; `decrements` below 1 are the false-positive rate to keep."""
    cells = window * bits_per_item // cell_bits
    chosen = hashes or best_hashes(cells, window)
    if decrements < 1:
        decrements = stable_decrements(cells, chosen, cell_bits, decrements)
    return StableBloomFilter(
        cells=cells,
        hashes=chosen,
        decrements=int(decrements),
        cell_bits=cell_bits,
        seed=seed,
    )


Builder = Callable[[int, int, int], AnyFilter]
"""Takes window, bits per key and seed; returns a filter."""

FILTERS: dict[str, Builder] = {
    "GEBF r = 4": lambda window, bits, seed: guarded(window, bits, seed=seed, epochs=4),
    "GEBF r = 8": lambda window, bits, seed: guarded(window, bits, seed=seed),
    "blocked GEBF r = 8": lambda window, bits, seed: blocked(window, bits, seed=seed),
    "counting": lambda window, bits, seed: counting(window, bits, seed=seed),
    "stable": lambda window, bits, seed: stable(window, bits, seed=seed),
}
"""By name; each takes window, bits per key of it, and seed."""


def _reading(build: Callable[..., AnyFilter], **chosen: Any) -> Builder:
    return lambda window, bits, seed: build(window, bits, seed=seed, **chosen)


def _stable_readings() -> dict[str, Builder]:
    chosen: dict[str, dict[str, Any]] = {}
    for cell_bits in (1, 2, 4):
        for hashes, named in ((None, "best K"), (3, "K = 3"), (9, "K = 9")):
            for decrements in (10, 0.1, 0.05, 0.02):
                rule = f"P = {decrements}" if decrements >= 1 else f"P for {decrements:.0%}"
                chosen[f"stable: d = {cell_bits}, {named}, {rule}"] = {
                    "cell_bits": cell_bits,
                    "hashes": hashes,
                    "decrements": decrements,
                }
    return {name: _reading(stable, **values) for name, values in chosen.items()}


READINGS: dict[str, Builder] = {
    "GEBF: k = 8": _reading(guarded, hashes=8),
    "GEBF: k = 9": _reading(guarded, hashes=9),
    "GEBF: k = 9, partitioned": _reading(guarded, hashes=9, partitioned=True),
    "counting: k = 2": _reading(counting, hashes=2),
    "counting: k = 3": _reading(counting, hashes=3),
    **{
        f"blocked: k = {hashes}, {block_bits} bits, {named}": _reading(
            blocked, hashes=hashes, block_bits=block_bits, double=double
        )
        for double, named in ((False, "independent"), (True, "double hashing"))
        for hashes in (8, 9)
        for block_bits in (64, 128, 256, 512)
    },
    **_stable_readings(),
}
"""Plausible choices where the paper leaves something open, at 14 bits per key."""


# Streams and queries


def _zipf(z: float) -> Callable[[int], Keys]:
    return lambda seed: streams.zipf(INSERTIONS, 1 << 20, z, seed)


def _bursty(share: float) -> Callable[[int], Keys]:
    return lambda seed: streams.bursty(
        INSERTIONS, UNIVERSE, length=1000, hot=20, share=share, seed=seed
    )


STREAMS: dict[str, Callable[[int], Keys]] = {
    "uniform": lambda seed: streams.uniform(INSERTIONS, UNIVERSE, seed),
    **{f"Zipf, z = {z}": _zipf(z) for z in (0.4, 0.6, 0.8, 1.0, 1.2)},
    **{f"bursty, share {share:.0%}": _bursty(share) for share in (0.02, 0.1, 0.5)},
}
"""Streams of the study of readings; each takes a seed."""


def synthetic(kind: str, seed: int) -> Keys:
    """Draw a stream of `INSERTIONS` keys: 'uniform', 'zipf' or 'bursty'."""
    names = {"uniform": "uniform", "zipf": "Zipf, z = 1.0", "bursty": "bursty, share 50%"}
    return STREAMS[names[kind]](seed)


@dataclass(frozen=True)
class Queries:
    """Keys to ask for after the last insertion, each of shape (n,).

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
    """Insert a stream and ask.

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
