"""False-positive rates and windows of filters with timestamps, measured on their golden models."""

from dataclasses import replace
from typing import Any

import numpy as np

from lately.golden import LatelyError, PartitionedTimingSpec, TimedTimingSpec, from_spec
from lately.planner.timestamp_cost import StampSpec, memories

from .planner_measurement import Course, Rates, fresh_keys, fresh_queries, measure_course, spread

EDGES = 16
"""Insertions at the end of a fill, after each of which the oldest key is asked for, at least."""


def measure_stamp_rates(
    spec: StampSpec, *, rate: float, keys: int, trials: int, seed: int
) -> Rates:
    """Count how often fresh keys are reported by a filter that is full of distinct keys.

    The worst moment is the end of a block. The oldest key of the window is asked for after each of
    the last insertions of a fill; of a window in time, all keys.

    Parameters
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
    rate : float
        Expected at the worst moment.
    keys : int
        Insertions of a span, for a window in time.
    trials, seed : int
        As for `campaigns.planner_measurement.measure_rates`.
    """
    own: Any = replace(spec, seed=seed)
    if isinstance(own, TimedTimingSpec):
        return _measure_timed(own, rate, keys, trials, seed)
    block = _block(own)
    # Each fill is an insertion short of a whole block.
    whole = -(-own.window // block) * block + block
    length = -(-EDGES // block) * block
    course = Course(first=2 * whole - 1, between=whole, length=length, window=own.window - 1)
    queries = fresh_queries(own.window, memories(own), rate)
    return measure_course(_model(own), course, queries, trials, seed)


def _block(spec: StampSpec) -> int:
    return spec.block if isinstance(spec, PartitionedTimingSpec) else 1


def _model(spec: StampSpec) -> Any:
    return from_spec(spec)


def _measure_timed(spec: TimedTimingSpec, rate: float, keys: int, trials: int, seed: int) -> Rates:
    """Fill the ticks of the span and the present one evenly; then let all of them expire."""
    model, rng, ticks = _model(spec), np.random.default_rng(seed), spec.window_blocks + 1
    queries = fresh_queries(keys, memories(spec), rate)
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
    return Rates(
        worst_hits=sum(worst),
        worst_trials=fills * queries,
        mean_hits=mean,
        mean_trials=fills * queries,
        fills=fills,
        missed=missed,
        due=fills * keys,
        spread=spread(worst, queries),
    )


def measure_stamp_trace(spec: StampSpec, *, seed: int) -> int:
    """Return the most insertions, or ticks, after which a key can still be reported.

    A key comes first in a block, which is when it is kept longest; all others are one
    key. It can be reported for as long as a cell is other than in a filter that never had it. The
    `seed` replaces that of the hash.

    Raises
    ------
    LatelyError
        If it changes no cell, in any of the pairs of keys that are tried.
    """
    rng = np.random.default_rng(seed)
    for attempt in range(100):
        own: Any = replace(spec, seed=seed + attempt)
        key, other = fresh_keys(rng, 2)
        find = _last_tick if isinstance(spec, TimedTimingSpec) else _last_insertion
        last = find(own, key, other)
        if last is not None:
            return last
    raise LatelyError(f"no two keys apart in a filter of {spec.storage_bits} bits")


def _last_insertion(spec: Any, key: Any, other: Any) -> int | None:
    """Return when two filters differed last, at the end of a block, in insertions."""
    block, last = _block(spec), None
    filters = [_model(spec) for _ in range(2)]
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


_LOOKED_AT = 6
"""Blocks or ticks about the end of a window after which two filters are compared."""


def _last_tick(spec: TimedTimingSpec, key: Any, other: Any) -> int | None:
    """Return when two filters differed last, in ticks."""
    filters = [_model(spec) for _ in range(2)]
    for model, first in zip(filters, (key, other), strict=True):
        model.insert([other, first], [0, 0])
    last = None
    first = max(0, spec.window_blocks - 2)
    for tick in range(first, first + _LOOKED_AT):
        if not np.array_equal(*(model.memory_at(tick * spec.period) for model in filters)):
            last = tick
    return last
