"""False-positive rates, slack and window of a specification, measured on its golden model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lately.golden import (
    CountedFilter,
    FilterSpec,
    LatelyError,
    Operation,
    SlidingFilter,
    from_spec,
)

SHARED = 0.1
"""What the variance of hits gains, about, by queries of one fill: it is a little more or less full.

Of independent queries of a rate P it would be P (1 - P); a fill of a window of N insertions and of
k bits in a run has a rate whose variance is some P**2 k / (4 N).
"""

_KEYS = 1 << 16
"""Keys that are handed to a model at a time, about."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Counts of a measurement.

    Attributes
    ----------
    worst_hits, worst_trials : int
        Fresh keys that were reported at the worst moment, just before a shift, and that were
        asked for.
    mean_hits, mean_trials : int
        The same at moments drawn evenly from a generation.
    fills : int
        Fills with no key in common among which the trials were divided.
    missed, due : int
        Keys of just `window` insertions ago that were not reported, and that were asked for.
    spread : float
        Variance of the worst-moment hits of a fill, over that of as many independent trials.
    """

    worst_hits: int
    worst_trials: int
    mean_hits: int
    mean_trials: int
    fills: int
    missed: int
    due: int
    spread: float


def measure_rates(spec: FilterSpec, *, trials: int, seed: int) -> Rates:
    """Count how often fresh keys are reported by a filter that is full of distinct keys.

    Between one fill and the next the whole ring takes new keys. In the last
    generation of each fill, keys of just ``spec.window`` insertions ago are
    asked for too, one after every insertion. The `seed` also replaces that of the hash. There are
    `trials` fresh keys at the worst moment, rounded up to whole fills, and as many at any.
    """
    course = Course(
        first=spec.ring_segments * spec.generation,
        between=(spec.ring_segments - 1) * spec.generation,
        length=spec.generation,
        window=spec.window,
    )
    queries = fresh_queries(spec.window, spec.run * spec.parts, spec.worst_false_positive_rate)
    return measure_course(from_spec(replace(spec, seed=seed)), course, queries, trials, seed)


class Course(NamedTuple):
    """Insertions of a measurement: before it, between two fills, and the last ones of each.

    Attributes
    ----------
    first, between, length : int
    window : int
        Insertions after a key at which it is asked for.
    """

    first: int
    between: int
    length: int
    window: int


def measure_course(
    model: CountedFilter, course: Course, queries: int, trials: int, seed: int
) -> Rates:
    """Measure a filter that is filled as a `course` says, at the end of each fill.

    Parameters
    ----------
    model : CountedFilter
        Empty.
    course : Course
    queries : int
        Fresh keys that each fill is asked for.
    trials, seed : int
        As for `measure_rates`.
    """
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
    return Rates(
        worst_hits=sum(worst),
        worst_trials=fills * queries,
        mean_hits=mean,
        mean_trials=fills * queries,
        fills=fills,
        missed=missed,
        due=fills * course.length,
        spread=spread(worst, queries),
    )


def spread(hits: Sequence[int], queries: int) -> float:
    """Return the variance of the `hits` of fills, over that of as many independent `queries`."""
    rate = sum(hits) / (len(hits) * queries)
    expected = queries * rate * (1 - rate)
    return float(np.var(hits, ddof=1) / expected) if expected else 1.0


def fresh_queries(window: int, bits: int, rate: float) -> int:
    """Return how many fresh keys to ask one fill for; see `SHARED`.

    Parameters
    ----------
    window, bits : int
        Insertions, and bits or cells that a key touches in a run.
    rate : float
    """
    few = 4 * SHARED * window / (bits * max(rate, 1e-9))
    return max(1, int(min(few, window)))


def measure_trace(spec: FilterSpec, *, seed: int) -> int:
    """Return the most insertions after which a key can still be reported.

    A key comes as the first one of a generation, which is when it is kept
    longest; all others are one key. It can be reported for as long as a bit
    in the ring is other than in a filter that never had it. The `seed` replaces that of the hash.

    Raises
    ------
    LatelyError
        If it changes no bit, in any of the pairs of keys that are tried.
    """
    rng = np.random.default_rng(seed)
    for attempt in range(100):
        model, twin = (from_spec(replace(spec, seed=seed + attempt)) for _ in range(2))
        key, other = fresh_keys(rng, 2)
        others = np.full(spec.generation, other)
        for filter, first in ((model, key), (twin, other)):
            for _ in range(spec.ring_segments):
                filter.insert(others)
            filter.insert([first])
        last = _last_difference(model, twin, others)
        if last is not None:
            return last
    raise LatelyError(f"no two keys apart in a filter of {spec.memory_bits} bits")


def _last_difference(
    model: SlidingFilter, twin: SlidingFilter, others: NDArray[np.uint64]
) -> int | None:
    """Return when two filters differed last, in insertions since they did first.

    They are looked at just before each shift, which is all that can clear a bit.
    """
    last = None
    for shifts in range(1, model.spec.ring_segments + 3):
        for filter in (model, twin):
            filter.insert(others[1:] if shifts == 1 else others)
        if not np.array_equal(model.memory, twin.memory):
            last = shifts * model.spec.generation - 1
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
    seen = model.apply(operations, values).seen
    return (
        int(seen[kinds == _WORST].sum()),
        int(seen[kinds == _MEAN].sum()),
        int((~seen[kinds == _EDGE]).sum()),
        _last(history, window),
    )


_INSERT, _EDGE, _MEAN, _WORST = range(4)
