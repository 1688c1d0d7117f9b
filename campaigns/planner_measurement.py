"""False-positive rates, slack and window of a specification, measured on its golden model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lately.golden import (
    CountedFilter,
    FilterSpec,
    LatelyError,
    Operation,
    PartitionedTimingSpec,
    TimedTimingSpec,
    from_spec,
)
from lately.planner import PLANNER_FAMILIES

from .engine import Result

SHARED = 0.1
"""What the variance of hits gains, about, by queries of one fill: it is a little more or less full.

Of independent queries of a rate P it would be P (1 - P); a fill of a window of N insertions and of
k bits in a run has a rate whose variance is some P**2 k / (4 N).
"""

EDGES = 16
"""Insertions at the end of a fill, after each of which the oldest key is queried, at least."""

_KEYS = 1 << 16  # keys that are handed to a model at a time, about
_LOOKED_AT = 6  # blocks or ticks about the end of a window after which two filters are compared


def measure_rates(
    spec: Any, *, trials: int, seed: int, rate: float | None = None, keys: int = 0
) -> Result:
    """Count how often fresh keys are reported by a filter that is full of distinct keys.

    Between one fill and the next the whole filter takes new keys. At the end of each fill, the
    oldest key of the window is queried after each of the last insertions; of a window in time, all
    keys are. The worst moment is the end of a generation, of a block or of a tick.
    """
    own = replace(spec, seed=seed)
    rate = spec.worst_false_positive_rate if rate is None else rate
    if isinstance(own, TimedTimingSpec):
        return _measure_timed(own, rate, keys, trials, seed)
    if isinstance(own, FilterSpec):
        touched, turn = own.run * own.parts, own.ring_segments * own.generation
        course = Course(turn, turn - own.generation, own.generation, own.window)
    else:
        touched, block = PLANNER_FAMILIES[own.family].memories(own), _block(own)
        # Each fill is an insertion short of a whole block.
        whole = -(-own.window // block) * block + block
        length = -(-EDGES // block) * block
        course = Course(first=2 * whole - 1, between=whole, length=length, window=own.window - 1)
    queries = fresh_queries(own.window, touched, rate)
    return measure_course(from_spec(own), course, queries, trials, seed)


def _block(spec: Any) -> int:
    return spec.block if isinstance(spec, PartitionedTimingSpec) else 1


def _measure_timed(spec: TimedTimingSpec, rate: float, keys: int, trials: int, seed: int) -> Result:
    """Fill the ticks of the span and the present one evenly; then let all of them expire."""
    model: Any = from_spec(spec)
    rng, ticks = np.random.default_rng(seed), spec.window_blocks + 1
    queries = fresh_queries(keys, spec.hashes, rate)
    fills = max(2, -(-trials // queries))
    times = np.arange(keys) * ticks // keys
    half = keys - np.count_nonzero(times == ticks - 1) // 2
    worst, mean, missed = [], 0, 0
    for fill in range(fills):
        start = 2 * ticks * fill
        now, own = start + ticks - 1, fresh_keys(rng, keys)
        model.insert(own[:half], start + times[:half])
        mean += int(model.query(fresh_keys(rng, queries), now).sum())
        model.insert(own[half:], start + times[half:])
        worst.append(int(model.query(fresh_keys(rng, queries), now).sum()))
        missed += int((~model.query(own, now)).sum())
    return _rates(worst, mean, missed, queries=queries, due=fills * keys)


def _rates(worst: list[int], mean: int, missed: int, *, queries: int, due: int) -> Result:
    trials = len(worst) * queries
    return {
        # Fresh keys that were reported, of those that were queried: just before a shift, and at
        # moments drawn evenly from a generation.
        "worst": [sum(worst), trials],
        "mean": [mean, trials],
        "fills": len(worst),  # with no key in common, among which the trials were divided
        "spread": spread(worst, queries),  # variance of the hits of a fill, over independent ones
        "missed": missed,  # keys from exactly a window ago that were not reported
        "due": due,  # and all of them
    }


class Course(NamedTuple):
    """Insertions of a measurement."""

    first: int  # before it
    between: int  # two fills
    length: int  # the last ones of each fill
    window: int  # after a key until it is queried


def measure_course(
    model: CountedFilter, course: Course, queries: int, trials: int, seed: int
) -> Result:
    """Measure a filter that is filled as a `course` says, at the end of each fill."""
    rng = np.random.default_rng(seed)
    fills = max(2, -(-trials // queries))
    none = np.zeros(0, np.uint64)
    recent = _insert_fresh(model, rng, course.first, none, course.window)
    worst, mean, missed = [], 0, 0
    for _ in range(fills):
        recent = _insert_fresh(model, rng, course.between, recent, course.window)
        found = _last_insertions(model, rng, recent, queries, course)
        worst.append(found[0])
        mean += found[1]
        missed += found[2]
        recent = found[3]
    return _rates(worst, mean, missed, queries=queries, due=fills * course.length)


def spread(hits: Sequence[int], queries: int) -> float:
    """Return the variance of the `hits` of fills, over that of as many independent `queries`."""
    rate = sum(hits) / (len(hits) * queries)
    expected = queries * rate * (1 - rate)
    return float(np.var(hits, ddof=1) / expected) if expected else 1.0


def fresh_queries(window: int, bits: int, rate: float) -> int:
    """Return the number of fresh keys to query in one fill; see `SHARED`."""
    few = 4 * SHARED * window / (bits * max(rate, 1e-9))
    return max(1, int(min(few, window)))


def measure_trace(spec: Any, *, seed: int) -> int:
    """Return the most insertions, or ticks, after which a key can still be reported.

    A key comes as the first one of a generation or a block, which is when it is kept
    longest; all others are one key. It can be reported for as long as a bit or a cell differs from
    those of a filter that never had it. The `seed` replaces the seed of the hash.
    """
    rng = np.random.default_rng(seed)
    last_difference = _last_insertion
    if isinstance(spec, FilterSpec):
        last_difference = _last_shift
    elif isinstance(spec, TimedTimingSpec):
        last_difference = _last_tick
    for attempt in range(100):
        own = replace(spec, seed=seed + attempt)
        last = last_difference(own, [from_spec(own) for _ in range(2)], *fresh_keys(rng, 2))
        if last is not None:
            return last
    raise LatelyError(f"no two keys apart in a filter of {spec.storage_bits} bits")


def _last_shift(spec: Any, filters: list[Any], key: Any, other: Any) -> int | None:
    """Return when two rings differed last, just before a shift, in insertions."""
    others, last = np.full(spec.generation, other), None
    for model, first in zip(filters, (key, other), strict=True):
        for _ in range(spec.ring_segments):
            model.insert(others)
        model.insert([first])
    for shifts in range(1, spec.ring_segments + 3):
        for model in filters:
            model.insert(others[1:] if shifts == 1 else others)
        if not np.array_equal(*(model.memory for model in filters)):
            last = shifts * spec.generation - 1
    return last


def _last_insertion(spec: Any, filters: list[Any], key: Any, other: Any) -> int | None:
    """Return when two filters differed last, at the end of a block, in insertions."""
    block, last = _block(spec), None
    for model, first in zip(filters, (key, other), strict=True):
        model.insert([other] * block)
        model.insert([first])
    # Blocks are whole after as many insertions.
    after = max(0, max(0, spec.window // block - 2) * block + block - 2)
    for number in range(_LOOKED_AT):
        for model in filters:
            model.insert([other] * (block if number else after))
        if np.array_equal(*(model.memory for model in filters)):
            break
        last = after + number * block
    return last


def _last_tick(spec: Any, filters: list[Any], key: Any, other: Any) -> int | None:
    """Return when two filters differed last, in ticks."""
    for model, newest in zip(filters, (key, other), strict=True):
        model.insert([other, newest], [0, 0])
    last, first = None, max(0, spec.window_blocks - 2)
    for tick in range(first, first + _LOOKED_AT):
        if not np.array_equal(*(model.memory_at(tick * spec.period) for model in filters)):
            last = tick
    return last


def fresh_keys(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """Return keys of 64 bits from the generator `rng`, shape (count,)."""
    return rng.integers(0, 1 << 64, count, dtype=np.uint64)


def _insert_fresh(
    model: CountedFilter,
    rng: np.random.Generator,
    count: int,
    recent: NDArray[np.uint64],
    window: int,
) -> NDArray[np.uint64]:
    """Insert distinct keys; return the last ones, as many as the window has, oldest first."""
    kept = [recent]
    while count:
        keys = fresh_keys(rng, min(count, _KEYS))
        model.insert(keys)
        kept = [_last(np.concatenate((*kept, keys)), window)]
        count -= len(keys)
    return kept[0]


def _last(keys: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    return keys[max(0, len(keys) - count) :]


def _last_insertions(
    model: CountedFilter,
    rng: np.random.Generator,
    recent: NDArray[np.uint64],
    queries: int,
    course: Course,
) -> tuple[int, int, int, NDArray[np.uint64]]:
    """Make the last insertions of a fill, asking on the way.

    Returns the hits after the last and those on the way, the keys of
    the window's edge that were missed, and the keys of the window.
    """
    window, generation = course.window, course.length
    keys = fresh_keys(rng, generation)
    history = np.concatenate((recent, keys))
    after = np.sort(rng.integers(1, generation + 1, queries))
    kinds = np.repeat([_INSERT, _EDGE, _MEAN, _WORST], [generation, generation, queries, queries])
    moments = np.concatenate(
        (np.arange(1, generation + 1), np.arange(1, generation + 1), after, [generation] * queries)
    )
    order = np.lexsort((kinds, moments))
    kinds, moments = kinds[order], moments[order]
    values = fresh_keys(rng, len(kinds))
    values[kinds == _INSERT] = keys
    # After as many of these insertions as `moments` says, one past the window's oldest.
    values[kinds == _EDGE] = history[len(recent) + moments[kinds == _EDGE] - 1 - window]
    operations = np.where(kinds == _INSERT, Operation.INSERT, Operation.QUERY)
    seen = model.perform(operations, values).seen
    return (
        int(seen[kinds == _WORST].sum()),
        int(seen[kinds == _MEAN].sum()),
        int((~seen[kinds == _EDGE]).sum()),
        _last(history, window),
    )


_INSERT, _EDGE, _MEAN, _WORST = range(4)
