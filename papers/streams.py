"""Streams of keys for the measurements: drawn from a seed, or read from a file."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lately.golden.hash.keys import KeyDigest, octets
from lately.replay.traces import open_trace

from .studies.paper import Paper

Keys = NDArray[np.uint64]  # Keys in insertion order, shape (n,).

_ODD = np.uint64(0x9E3779B97F4A7C15)


def distinct(start: int, count: int, seed: int) -> Keys:
    """Return `count` different keys, derived from consecutive integers that begin with `start`."""
    return spread(np.arange(start, start + count, dtype=np.uint64), seed)


def chunks(start: int, stop: int, seed: int, size: int = 1 << 18) -> Iterator[Keys]:
    """Yield the keys that `distinct` derives from range(start, stop), at most `size` at a time."""
    for first in range(start, stop, size):
        yield distinct(first, min(size, stop - first), seed)


def spread(numbers: Keys, seed: int) -> Keys:
    offset = np.random.default_rng(seed).integers(0, 1 << 64, dtype=np.uint64)
    return np.asarray(numbers * _ODD + offset, np.uint64)


def uniform(count: int, universe: int, seed: int) -> Keys:
    return np.random.default_rng(seed).integers(0, universe, count, np.uint64)


def zipf(count: int, universe: int, z: float, seed: int) -> Keys:
    weights = np.arange(1, universe + 1, dtype=np.float64) ** -z
    bounds = np.cumsum(weights)
    draws = np.random.default_rng(seed).random(count) * bounds[-1]
    return np.minimum(np.searchsorted(bounds, draws, side="right"), universe - 1).astype(np.uint64)


def bursty(count: int, universe: int, *, length: int, hot: int, share: float, seed: int) -> Keys:
    """Draw keys below `universe`; a fraction `share` of them is drawn from a few popular keys.

    Each stretch of `length` keys has its own `hot` popular keys.
    """
    rng = np.random.default_rng(seed)
    stretches = -(-count // length)
    favourites = rng.integers(0, universe, (stretches, hot), np.uint64)
    chosen = favourites[np.arange(count) // length, rng.integers(0, hot, count)]
    return np.where(rng.random(count) < share, chosen, rng.integers(0, universe, count, np.uint64))


def insertion_ages(keys: Keys) -> NDArray[np.int64]:
    """Count the insertions since each key was last inserted; the age of a new key is len(keys)."""
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    ages = np.full(len(keys), len(keys), np.int64)
    ages[order[1:][again]] = np.diff(order)[again] - 1
    return ages


# Real streams, if their files are available; the papers' own streams are not public

FILES = Paper("streams").data
_ROOT = Path(__file__).resolve().parents[1]
FOLDERS = [_ROOT / "examples", _ROOT.parent / "shared" / "data"]  # Where files are looked for.


def path(name: str) -> Path | None:
    return next(
        (path for folder in FOLDERS if (path := folder / FILES[name]["file"]).exists()), None
    )


def absence(name: str, rows: str) -> str:
    file, source = FILES[name]["file"], FILES[name]["source"]
    return (
        f"the rows on {rows}, because the file `{file}` is missing; put it into the folder "
        f"`examples`. Source: {source}."
    )


@lru_cache(maxsize=8)
def real(name: str, count: int | None = None) -> Keys | None:
    file = path(name)
    if file is None:
        return None
    with open_trace(file) as trace:
        records = list(trace) if count is None else trace.read(count)
    return KeyDigest(64).of_bytes([octets(text) for text, _ in records])[:, 0]
