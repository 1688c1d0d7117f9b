"""Checks the planner: draws requirements, plans filters, and measures their golden models."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import (
    FAMILIES,
    CountedFilter,
    FilterSpec,
    LatelyError,
    Operation,
    Specification,
    TimedTimingSpec,
    from_spec,
)
from lately.intervals import clopper_pearson
from lately.planner.plans import choose
from lately.planner.requirement import PLANNER_FAMILIES, Requirement, RequirementError, Span

from .engine import Campaign, Point, Records, Result

SHARED = 0.1
"""Approximate relative increase of the variance of hits, because queries share a fill.

Independent queries with a rate P have the variance P (1 - P). The rate of a single fill, for a
window of N insertions and k bits per run, has a variance of about P**2 k / (4 N).
"""

EDGES = 16
"""Minimum number of insertions at the end of a fill that are each followed by a query."""

_KEYS = 1 << 16  # approximate number of keys per call of a model
_LOOKED_AT = 6  # block or tick ends at which two filters are compared


def measure_rates(
    spec: Any, *, trials: int, seed: int, rate: float | None = None, keys: int = 0
) -> Result:
    """Measure the false-positive rates of a filter that is full of distinct keys.

    Between two fills, all keys of the filter are replaced. After each of the last insertions of a
    fill, the oldest key in the window is queried; with a time-based window, all keys are queried
    once instead. The worst rate is measured at the end of a generation, block or tick.
    """
    seeded = replace(spec, seed=seed)
    rate = spec.worst_false_positive_rate if rate is None else rate
    if isinstance(seeded, TimedTimingSpec):
        return _measure_timed(seeded, rate, keys, trials, seed)
    # `first`: insertions before the first fill; `length`: insertions at the end of each fill.
    if isinstance(seeded, FilterSpec):
        touched, window, length = seeded.run * seeded.parts, seeded.window, seeded.generation
        first = seeded.ring_segments * length
        between = first - length
    else:
        touched = PLANNER_FAMILIES[seeded.family].memories(seeded)
        block = getattr(seeded, "block", 1)
        # Each fill ends one insertion before the end of a block.
        between = -(-seeded.window // block) * block + block
        window, length = seeded.window - 1, -(-EDGES // block) * block
        first = 2 * between - 1
    queries = fresh_queries(seeded.window, touched, rate)
    fills = _Fills(from_spec(seeded), window, seed)
    fills.insert(first)
    ends = []
    for _ in range(max(2, -(-trials // queries))):
        fills.insert(between)
        ends.append(fills.finish(length, queries))
    return _rates(ends, queries=queries, due=len(ends) * length)


def _measure_timed(spec: TimedTimingSpec, rate: float, keys: int, trials: int, seed: int) -> Result:
    model: Any = from_spec(spec)
    rng, ticks = np.random.default_rng(seed), spec.window_blocks + 1
    queries = fresh_queries(keys, spec.hashes, rate)
    times = np.arange(keys) * ticks // keys
    half = keys - np.count_nonzero(times == ticks - 1) // 2
    ends = []
    for fill in range(max(2, -(-trials // queries))):
        start = 2 * ticks * fill
        now, filled = start + ticks - 1, fresh_keys(rng, keys)
        model.insert(filled[:half], start + times[:half])
        mean = int(model.query(fresh_keys(rng, queries), now).sum())
        model.insert(filled[half:], start + times[half:])
        worst = int(model.query(fresh_keys(rng, queries), now).sum())
        ends.append((worst, mean, int((~model.query(filled, now)).sum())))
    return _rates(ends, queries=queries, due=len(ends) * keys)


def _rates(ends: list[tuple[int, int, int]], *, queries: int, due: int) -> Result:
    worst, mean, missed = (list(counts) for counts in zip(*ends, strict=True))
    trials = len(ends) * queries
    return {
        # Reported fresh keys, and queried fresh keys: just before a shift, and at uniformly random
        # moments of a generation.
        "worst": [sum(worst), trials],
        "mean": [sum(mean), trials],
        "fills": len(ends),  # number of independent fills, which share the queries
        "spread": spread(worst, queries),  # variance per fill, relative to independent queries
        "missed": sum(missed),  # keys from exactly a window ago that were not reported
        "due": due,  # all keys from exactly a window ago
    }


_INSERT, _EDGE, _MEAN, _WORST = range(4)


class _Fills:
    def __init__(self, model: CountedFilter, window: int, seed: int) -> None:
        self._model = model
        self._window = window  # insertions after which a key is queried
        self._rng = np.random.default_rng(seed)
        self._recent = np.zeros(0, np.uint64)  # oldest first

    def insert(self, count: int) -> None:
        while count:
            keys = fresh_keys(self._rng, min(count, _KEYS))
            self._model.insert(keys)
            self._keep(keys)
            count -= len(keys)

    def _keep(self, keys: NDArray[np.uint64]) -> None:
        every = np.concatenate((self._recent, keys))
        self._recent = every[max(0, len(every) - self._window) :]

    def finish(self, length: int, queries: int) -> tuple[int, int, int]:
        """Perform the last `length` insertions of a fill, interleaved with queries.

        Returns three counts: false positives after the last insertion, false positives at random
        moments, and missed keys at the edge of the window.
        """
        rng, recent, keys = self._rng, self._recent, fresh_keys(self._rng, length)
        history = np.concatenate((recent, keys))
        after = np.sort(rng.integers(1, length + 1, queries))
        each = np.arange(1, length + 1)
        kinds = np.repeat([_INSERT, _EDGE, _MEAN, _WORST], [length, length, queries, queries])
        moments = np.concatenate((each, each, after, [length] * queries))
        order = np.lexsort((kinds, moments))
        kinds, moments = kinds[order], moments[order]
        values = fresh_keys(rng, len(kinds))
        values[kinds == _INSERT] = keys
        # The oldest key that is still in the window after this number of insertions.
        values[kinds == _EDGE] = history[len(recent) + moments[kinds == _EDGE] - 1 - self._window]
        operations = np.where(kinds == _INSERT, Operation.INSERT, Operation.QUERY)
        seen = self._model.perform(operations, values).seen
        self._keep(keys)
        worst, mean, edge = (seen[kinds == kind] for kind in (_WORST, _MEAN, _EDGE))
        return int(worst.sum()), int(mean.sum()), int((~edge).sum())


def spread(hits: Sequence[int], queries: int) -> float:
    rate = sum(hits) / (len(hits) * queries)
    expected = queries * rate * (1 - rate)
    return float(np.var(hits, ddof=1) / expected) if expected else 1.0


def fresh_queries(window: int, bits: int, rate: float) -> int:
    few = 4 * SHARED * window / (bits * max(rate, 1e-9))
    return max(1, int(min(few, window)))


def measure_trace(spec: Any, *, seed: int) -> int:
    """Return the maximum number of insertions, or ticks, after which a key may still be reported.

    The key is the first of its generation or block, which is remembered longest, and all later
    insertions repeat one other key. The key may be reported while any bit or cell differs from a
    second filter that never received the key.
    """
    rng = np.random.default_rng(seed)
    differences = _at_ticks if isinstance(spec, TimedTimingSpec) else _at_block_ends
    for attempt in range(100):
        seeded = replace(spec, seed=seed + attempt)
        filters = [from_spec(seeded) for _ in range(2)]
        if ages := [*differences(seeded, filters, *fresh_keys(rng, 2))]:
            return ages[-1]
    raise LatelyError(f"bits: no two keys have different cells in {spec.storage_bits} bits")


# Both functions insert `key` into one filter and `other` into the second, and yield the numbers of
# insertions, or ticks, after which the filters differ.


def _at_block_ends(spec: Any, filters: list[Any], key: Any, other: Any) -> Iterator[int]:
    if isinstance(spec, FilterSpec):
        block, ends = spec.generation, spec.ring_segments + 2
        before, after = spec.ring_segments * block, block - 1
    else:
        block, ends = getattr(spec, "block", 1), _LOOKED_AT
        before, after = block, max(0, max(0, spec.window // block - 2) * block + block - 2)
    for model, first in zip(filters, (key, other), strict=True):
        model.insert(np.full(before, other))
        model.insert([first])
    for number in range(ends):
        for model in filters:
            # After `after` insertions, a block is complete.
            model.insert(np.full(block if number else after, other))
        if np.array_equal(*(model.memory for model in filters)):
            break
        yield after + number * block


def _at_ticks(spec: Any, filters: list[Any], key: Any, other: Any) -> Iterator[int]:
    for model, newest in zip(filters, (key, other), strict=True):
        model.insert([other, newest], [0, 0])
    first = max(0, spec.window_blocks - 2)
    for tick in range(first, first + _LOOKED_AT):
        if not np.array_equal(*(model.memory_at(tick * spec.period) for model in filters)):
            yield tick


def fresh_keys(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    return rng.integers(0, 1 << 64, count, dtype=np.uint64)


ERROR = 1e-6
"""Maximum probability that a rate that meets its requirement is reported as too high."""

HITS = 1500  # expected false positives at the required rate

# Ranges of windows and rates from which requirements are drawn, on a logarithmic scale.
SMALL, LARGE = ((1000, 8000), (0.02, 0.3)), ((3, 100_000), (0.003, 0.3))


def points(
    *, requirements: int = 50, seed: int = 1, large: bool = False, timestamps: bool = False
) -> list[Point]:
    rng = np.random.default_rng(seed)
    drawn: list[Point] = []
    while len(drawn) < requirements:
        point = _draw(rng, LARGE if large else SMALL)
        if timestamps:
            family = str(rng.choice([name for name in PLANNER_FAMILIES if name not in FAMILIES]))
            point |= {"families": [family], "window_per_query": True}
            if rng.random() < 0.5 or family != "partitioned-timing":
                point["slack"] = 0.0
            if family == "timed-timing":
                point["ticks"] = int(rng.integers(1, 3000))
        try:
            spec = choose(requirement(point))
        except RequirementError:
            continue
        drawn.append(point | {"spec": spec.to_dict()})
    return drawn


def _draw(rng: np.random.Generator, ranges: Sequence[tuple[float, float]]) -> Point:
    window, rate, slack = (
        math.exp(rng.uniform(math.log(low), math.log(high))) for low, high in (*ranges, (0.1, 1.0))
    )
    # At least one false positive per window, because a fill allows only few queries.
    rate = min(max(rate, 1 / window), ranges[1][1])
    family = rng.choice([*FAMILIES, ""])
    return {
        "window": round(window),
        "false_positive_rate": float(f"{rate:.3g}"),
        "slack": float(f"{slack:.3g}") if rng.random() < 0.5 else None,
        "families": [str(family)] if family else list(FAMILIES),
        "any_size": bool(rng.random() < 0.5),
        "seed": int(rng.integers(1 << 31)),
    }


def requirement(point: Point) -> Requirement:
    names = ("window", "false_positive_rate", "slack", "any_size", "window_per_query")
    asked = {name: point[name] for name in names if name in point}
    if "ticks" in point:
        asked["span"] = Span(ticks=point["ticks"], tick=Fraction(1))
    return Requirement(**asked, families=tuple(point["families"]), bits_only=True)


def run(point: Point) -> Result:
    spec: Any = Specification.from_dict(point["spec"])
    trials = math.ceil(HITS / point["false_positive_rate"])
    worst, mean = PLANNER_FAMILIES[spec.family].rates(spec, requirement(point))
    options: Point = {"trials": trials, "seed": point["seed"], "keys": point["window"]}
    result = measure_rates(spec, rate=worst, **options)
    result |= {"predicted": [worst, mean], "trace": measure_trace(spec, seed=point["seed"])}
    return result | {"broken": broken(point, result)}


def broken(point: Point, result: Result) -> list[str]:
    from scipy.special import betainc

    asked = requirement(point)
    refuted, limit = [], asked.false_positive_rate
    for name in ("worst", "mean"):
        hits, trials = result[name]
        if hits and betainc(hits, trials - hits + 1, limit) < ERROR:
            refuted.append(f"{name} rate: must be at most {limit:g}, not {hits / trials:.4g}")
    if result["missed"]:
        refuted.append(
            f"{result['missed']} of {result['due']} keys at the edge of the window are missed"
        )
    trace, unit = result["trace"], "insertions"
    # An exact window includes the key's own insertion; a ring keeps a key for one more.
    shortest, longest = asked.window - asked.able[0].exact_window, asked.longest_trace
    if asked.span is not None:
        unit, shortest = "ticks", asked.span.ticks
        longest = math.floor((1 + (asked.slack or 0)) * shortest) + 1
    if trace < shortest:
        refuted.append(f"window: must be at least {shortest} {unit}, not {trace}")
    if longest is not None and trace >= longest:
        refuted.append(f"trace: must end before {longest} {unit}, not at {trace}")
    return refuted


def rows(records: Records) -> list[dict[str, object]]:
    table: list[dict[str, object]] = []
    for point, result in ((record.point, record.result) for record in records):
        hits, trials = result["worst"]
        low, high = clopper_pearson(hits, trials) or (0.0, 1.0)
        kind = "any size" if point["any_size"] else "buildable"
        slack = "" if point["slack"] is None else f", slack {point['slack']:g}"
        ticks = f" in {point['ticks']:,} ticks" if "ticks" in point else ""
        family = point["spec"]["family"]
        table.append({
            "requirement": f"{family}, {kind}, window {point['window']:,}{ticks}{slack}",
            "maximum": f"{point['false_positive_rate']:g}",
            "measured": f"{hits / trials:.4g}",
            "95 % interval": f"{low:.4g} to {high:.4g}",
            "": "; ".join(result["broken"]) or "met",
        })  # fmt: skip
    return table


PLANNER = Campaign(
    name="planner",
    about="""Draw requirements, plan a filter for each, and measure its golden model.

    The measurements are the false-positive rate, just before a shift and on average, whether the
    oldest keys in the window are reported, and the longest time for which a key is remembered. The
    campaign fails if a guarantee is broken.
    """,
    packages=("lately.golden", "lately.planner", "campaigns"),
    tools=("numpy", "scipy"),
    points=points,
    run=run,
    wrong=lambda result: result["broken"],
    rows=rows,
)
