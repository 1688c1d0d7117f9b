"""Reproduces the closed form and the measurements of the GEBF paper."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.engine import Point, Result
from lately.golden import GEBF, BlockedGEBF, CountedFilter
from lately.golden.ring.rings import SlidingFilter
from lately.golden.ring.segments import Layout
from lately.golden.sizing import best_hashes
from lately.replay.drawing import Chart, Estimate, Series
from papers.models import CountingBloomFilter, StableBloomFilter
from papers.models.cells import stable_decrements

from .apbf import forward
from .streams import Keys, absence, bursty, chunks, distinct, real, spread, uniform, zipf
from .studies.criteria import SHARES, Verdict, positive, quotients, scaled, share, student
from .studies.page import table
from .studies.paper import Conclusion, Finding, Paper, Results, chosen, figures, grouped, sweep

PAPER = Paper("gebf")  # The GEBF paper. Its title is missing from the text that we have.
WINDOW = 20_000  # Window of the synthetic streams, in insertions.
INSERTIONS = 120_000  # Length of a synthetic stream, in insertions.
QUERIES = 20_000  # Number of queries of each kind, after the last insertion.
BITS_PER_KEY = 14  # Bits per key in the window, where the paper prints numbers.
EPOCHS = 8  # r, unless stated otherwise.
BLOCK_BITS = 256  # Bits of a block; this choice reproduces the paper's figure.
UNIVERSE = 1 << 62  # Keys of the streams are below this, fresh keys are not.
Rates = dict[str, float]  # Metric -> fraction from 0 to 1.


class _DoubleHashedLayout(Layout):
    def positions(self, state: NDArray[np.uint64], segment: int) -> NDArray[np.intp]:
        block, first, step = self.hash.indices(state, 0)[:3]
        hops = np.arange(self.spec.parts)[:, None] * (step | 1)
        within = (first + hops) % self.cells
        return np.asarray(block * self.cells + within)


class DoubleHashedGEBF(BlockedGEBF):
    """Blocked GEBF with double hashing.

    The i-th bit of a key has the index a + i b modulo the block size, where b is odd.
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
    bits = window * bits_per_item
    hashes = hashes or best_hashes(bits // (epochs + 1), -(-window // epochs))
    options = {"partitioned": False, "seed": seed} | options
    return family(window=window, epochs=epochs, hashes=hashes, bits=bits, **options)


def blocked(
    window: int, bits_per_item: int, seed: int, *, double: bool = True, **options: Any
) -> Filters:
    options = {"block_bits": BLOCK_BITS} | options
    family = DoubleHashedGEBF if double else BlockedGEBF
    return guarded(window, bits_per_item, seed, family=family, **options)


def counting(window: int, bits_per_item: int, seed: int, *, hashes: int = 0) -> CountingBloomFilter:
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
    """Build a stable Bloom filter.

    If `decrements` is below 1, it is the false-positive rate that the filter must keep.
    """
    cells = window * bits_per_item // cell_bits
    hashes = hashes or best_hashes(cells, window)
    if decrements < 1:
        decrements = stable_decrements(cells, hashes, cell_bits, decrements)
    sizes = {"cells": cells, "cell_bits": cell_bits, "decrements": int(decrements)}
    return StableBloomFilter(hashes=hashes, **sizes, seed=seed)


Builder = Callable[[int, int, int], SlidingFilter | CountedFilter]
"""Builds a filter from a window, bits per key and a seed."""


def _builders(rows: Sequence[dict[str, Any]]) -> dict[str, Builder]:
    """Return a builder for each filter name.

    Options whose names begin with "_" are used only in the filter name.
    """
    functions = {function.__name__: function for function in (guarded, blocked, counting, stable)}
    builders: dict[str, Builder] = {}
    for row in rows:
        for point in sweep(row):
            options = {name: value for name, value in point.items() if name[0] != "_"}
            builders[row["name"].format(**point)] = partial(functions[row["build"]], **options)
    return builders


FILTERS = _builders(PAPER.data["filters"])
READINGS = _builders(PAPER.data["readings"])  # At 14 bits per key.


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

KINDS = {"uniform": "uniform", "zipf": "Zipf, z = 1.0", "bursty": "bursty, share 50%"}


def synthetic(kind: str, seed: int) -> Keys:
    return STREAMS[KINDS[kind]](seed=seed)


@dataclass(frozen=True)
class Queries:
    """Keys to query after the last insertion; each field has at most `QUERIES` keys."""

    live: Keys  # drawn from the insertions in the window
    fresh: Keys  # never inserted
    # Expired keys, if there are any: drawn from the window before the last, but not in the last.
    # They are `guarded` if last inserted at most one epoch before the window, otherwise `beyond`.
    guarded: Keys
    beyond: Keys


def draw_queries(keys: Keys, window: int, seed: int) -> Queries:
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


FRESH, LIVE, EXPIRED = "fresh keys reported", "live keys missed", "expired keys reported"
METRICS = {FRESH: "fresh", LIVE: "live", EXPIRED: "expired"}  # Names in the results.

PRINTED = {
    name.split()[0]: (metric, figure)
    for name, metric, figure in PAPER.data["printed"]["synthetic"]
    if metric != EXPIRED
}
"""Metric and printed figure of each kind of `READINGS`, by the first word of their names."""

LOGS = PAPER.data["logs"]  # Names of real streams, and their windows.

_GUARDED = ("GEBF r = 4", "GEBF r = 8", "blocked GEBF r = 8")


def median(results: Results, name: str, metric: str) -> float:
    return float(statistics.median(result[name][metric] for _, result in results))


def over_seeds(results: Results, name: str, metric: str) -> Estimate:
    values = [median(group, name, metric) for group in grouped(results, "seed").values()]
    low, high = student(values, within=SHARES)[1:] if len(values) > 1 else values * 2
    return median(results, name, metric), low, high


def beside(subject: str, paper: str, results: Results, name: str, metric: str) -> Finding:
    value = over_seeds(results, name, METRICS[metric])
    finding = PAPER.find("median", value, subject=subject, metric=metric, paper=paper)
    if finding.verdict is Verdict.MET:
        return finding
    side = "above" if value[0] > float(paper) else "below"
    return replace(finding, note=f"{abs(value[0] / float(paper) - 1):.0%} {side} the figure")


def series(label: str, x: Sequence[float], runs: Iterable[tuple[Results, str]]) -> Series:
    return Series.estimated(label, x, [over_seeds(group, name, "fresh") for group, name in runs])


def _never_missed(filters: str, results: Results) -> Finding:
    missed = sum(round(r[name]["live"] * QUERIES) for _, r in results for name in _GUARDED)
    asked = len(results) * len(_GUARDED) * QUERIES
    return PAPER.find("missed", share(missed, asked), filters=filters, asked=asked)


def measure_synthetic(point: Point) -> Result:
    seed = point["seed"]
    return _measured(FILTERS, synthetic(point["stream"], seed), seed, bits=point["bits_per_key"])


def _measured(
    builders: dict[str, Builder], keys: Keys, seed: int, *, window: int = WINDOW,
    bits: int = BITS_PER_KEY,
) -> dict[str, Rates]:  # fmt: skip
    queries = draw_queries(keys, window, seed)
    return {
        name: rates(build(window, bits, seed), keys, queries) for name, build in builders.items()
    }


def conclude_synthetic(results: Results) -> Conclusion:
    printed = chosen(results, bits_per_key=BITS_PER_KEY)
    figures_of_paper = PAPER.data["printed"]["synthetic"]
    findings = []
    for named, streams in (("uniform", ("uniform",)), ("all", KINDS)):
        group = [(p, r) for p, r in printed if p["stream"] in streams]
        for name, metric, paper in figures_of_paper:
            finding = beside(f"{named} streams, {name}", paper, group, name, metric)
            findings.append(_with_order(finding, _holds(group, name, metric)))
    findings.append(_never_missed("GEBF, blocked or not", results))
    rows = [
        (kind, name, *(f"{median(group, name, metric):.5f}" for metric in METRICS.values()))
        for kind in KINDS
        if (group := chosen(printed, stream=kind))
        for name in FILTERS
    ]
    kinds = table(("stream", "filter", *METRICS), rows)
    budgets = sorted({point["bits_per_key"] for point, _ in results})
    at = [chosen(results, bits_per_key=bits) for bits in budgets]
    lines = [series(name, budgets, [(group, name) for group in at]) for name in FILTERS]
    fresh = [float(paper) for _, metric, paper in figures_of_paper if metric == FRESH]
    lines.append(Series("printed", [BITS_PER_KEY] * len(fresh), fresh, marks=True))
    values = {"configurations": len(results) * len(FILTERS), "kinds": kinds}
    return Conclusion(findings, [PAPER.chart("gebf-synthetic", lines)], values)


def _with_order(finding: Finding, holds: bool) -> Finding:
    also = "the paper's conclusion holds" if holds else "the paper's conclusion does not hold"
    return replace(finding, note=finding.note and f"{finding.note}; {also}.")


def _holds(results: Results, name: str, metric: str) -> bool:
    fresh = [median(results, other, "fresh") for other in ("GEBF r = 8", "counting")]
    blocked = median(results, "blocked GEBF r = 8", "fresh")
    if metric == FRESH:
        return fresh[0] < blocked < fresh[1]
    if metric == LIVE:
        return median(results, name, "live") > 0.01
    # Keys that expired before the guard epoch are reported no more often than fresh keys.
    return median(results, name, "beyond") < 1.5 * fresh[0] + 20 / QUERIES


# Open points


def measure_reading(point: Point) -> Result:
    seed = point["seed"]
    result: Result = _measured(READINGS, synthetic("uniform", seed), seed)
    filters = {name: FILTERS[name] for name in ("GEBF r = 8", "counting")}
    for name, draw in STREAMS.items():
        keys = draw(seed=seed)
        runs = _measured(filters, keys, seed)
        result[name] = {other: run["fresh"] for other, run in runs.items()}
        result[name]["distinct"] = float(len(np.unique(keys[-WINDOW:])))
    return result


def conclude_readings(results: Results) -> Conclusion:
    findings, rows = [], []
    for family, (metric, paper) in PRINTED.items():
        names = [name for name in READINGS if name.startswith(f"{family}:")]
        values = {name: over_seeds(results, name, METRICS[metric]) for name in names}
        for name, (value, low, high) in values.items():
            within = "yes" if low <= float(paper) <= high else "no"
            rows.append((name, paper, f"{value:.4f}", f"{low:.4f} to {high:.4f}", within))
        nearest = min(names, key=lambda name: abs(values[name][0] - float(paper)))
        finding = _with_order(beside(nearest, paper, results, nearest, metric), True)
        note = f"{finding.note} The nearest of {len(names)} readings.".strip()
        findings.append(replace(finding, note=note))
    readings = table(("reading", "paper", "ours", "interval", "holds it"), rows)
    metrics = {"distinct": ",.0f", "GEBF r = 8": ".5f", "counting": ".4f"}
    by_stream = [
        (name, *(format(median(results, name, metric), form) for metric, form in metrics.items()))
        for name in STREAMS
    ]
    streams = table(("stream", "distinct keys of the window", "GEBF r = 8", "counting"), by_stream)
    sizes = [64, 128, 256, 512]
    lines = []
    for method in ("independent", "double hashing"):
        blocks = [f"blocked: k = 9, {size} bits, {method}" for size in sizes]
        lines.append(series(method, sizes, [(results, name) for name in blocks]))
    lines.append(Series("printed", sizes, [float(PRINTED["blocked"][1])] * len(sizes)))
    charts = [PAPER.chart("gebf-blocks", lines), _stable_chart(results)]
    return Conclusion(findings, charts, {"table": readings, "streams": streams})


def _stable_chart(results: Results) -> Chart:
    marks = []
    for cell_bits in (1, 2, 4):
        names = [name for name in READINGS if name.startswith(f"stable: d = {cell_bits},")]
        fresh, live = (
            [median(results, name, metric) for name in names] for metric in ("fresh", "live")
        )
        marks.append(Series(f"d = {cell_bits}", fresh, live, marks=True))
    printed = Series("printed", [0.0, 1.0], [float(PRINTED["stable"][1])] * 2)
    return PAPER.chart("gebf-stable", [*marks, printed])


ROTATIONS = ("next insertion", "end of the epoch")  # When the segments rotate: two readings.


def measure_rotation(point: Point) -> Result:
    seed = point["seed"]
    keys = synthetic("uniform", seed)
    queries = draw_queries(keys, WINDOW, seed)
    model = guarded(WINDOW, BITS_PER_KEY, seed=seed)
    result = {ROTATIONS[0]: rates(model, keys, queries)}
    model.shift()
    return result | {ROTATIONS[1]: rates(model, keys[:0], queries)}


def conclude_rotation(results: Results) -> Conclusion:
    printed = {metric: figure for _, metric, figure in PAPER.data["printed"]["synthetic"]}
    findings = []
    for name in ROTATIONS:
        fields = {"subject": f"rotation at the {name}", "metric": EXPIRED}
        value = over_seeds(results, name, METRICS[EXPIRED])
        findings.append(PAPER.find("median", value, paper=printed[EXPIRED], **fields))
    return Conclusion(findings)


def measure_form(point: Point) -> Result:
    seed = point["seed"]
    filter = guarded(WINDOW, point["bits_per_key"], epochs=point["epochs"], seed=seed)
    filter.insert(distinct(0, INSERTIONS, seed))
    fresh = filter.query(distinct(INSERTIONS, point["asked"], seed))
    return {"fresh": float(fresh.mean()), "formula": _formula(filter)}


def closed_form_rate(m: int, W: int, r: int, k: int) -> float:
    """Return the false-positive rate according to the paper's approximation.

    The rate is 1 - (1 - (1 - e^(-k l/s))^k)^(r + 1), where an epoch has l = ceil(W/r) insertions,
    and a segment has s = m / (r + 1) bits. All segments are full, and none of them is partitioned.
    """
    fill = -math.expm1(-k * -(-W // r) * (r + 1) / m)
    segment = fill**k
    if segment == 1:
        return 1.0
    return -math.expm1((r + 1) * math.log1p(-segment))


def _formula(filter: Filters) -> float:
    spec: Any = filter.spec
    return closed_form_rate(spec.bits, spec.window, spec.epochs, spec.hashes)


def conclude_form(results: Results) -> Conclusion:
    findings = []
    for (epochs, bits), group in grouped(results, "epochs", "bits_per_key").items():
        formulas = figures(group, "formula")
        fields = {"epochs": epochs, "bits": bits, "formula": formulas[0]}
        value = positive(quotients(figures(group, "fresh"), formulas))
        findings.append(PAPER.find("closed-form", value, **fields))
    return Conclusion(findings)


def measure_long(point: Point) -> Result:
    seed, window, queries = point["seed"], point["window"], point["queries"]
    filter = guarded(window, point["bits_per_key"], epochs=point["epochs"], seed=seed)
    rng = np.random.default_rng(seed)
    hits = dict.fromkeys(queries, 0)
    ends = range(0, point["insertions"] + 1, point["insertions"] // point["stops"])
    for start, end in pairwise(ends):
        for keys in chunks(start, end, seed):
            filter.insert(keys)
        forgotten = end - window - filter.spec.generation
        ranges = {
            "live": (end - window, end),
            "fresh": (point["insertions"], 2 * point["insertions"]),
            "expired": (max(0, forgotten - window), forgotten),
        }
        for name, between in ranges.items():
            asked = spread(rng.integers(*between, queries[name], np.uint64), seed)
            hits[name] += int(np.count_nonzero(filter.query(asked)))
    return {"hits": hits, "formula": _formula(filter)}


def conclude_long(results: Results) -> Conclusion:
    ((point, result),) = results
    asked = {name: count * point["stops"] for name, count in point["queries"].items()}
    hits, formula = result["hits"], result["formula"]
    missed = share(asked["live"] - hits["live"], asked["live"])
    findings = [PAPER.find("long-missed", missed, asked=asked["live"])]
    for name in ("fresh", "expired"):
        value = scaled(share(hits[name], asked[name]), 1 / formula)
        findings.append(PAPER.find(f"long-{name}", value, formula=formula))
    values = {name: point[name] for name in ("insertions", "window")}
    return Conclusion(findings, values=values | {"queries": sum(asked.values())})


def measure_segments(point: Point) -> Result:
    seed, asked = point["seed"], point["asked"]
    filter = guarded(WINDOW, BITS_PER_KEY, seed=seed)
    filter.insert(distinct(0, INSERTIONS, seed))
    live, fresh = distinct(INSERTIONS - WINDOW, WINDOW, seed), distinct(INSERTIONS, asked, seed)
    return {
        name: float(forward(filter.matches(keys), 1).mean())
        for name, keys in (("live", live), ("fresh", fresh))
    }


def conclude_segments(results: Results) -> Conclusion:
    findings = [
        PAPER.find(f"segments-{name}", student(figures(results, name)), segments=EPOCHS + 1)
        for name in ("fresh", "live")
    ]
    return Conclusion(findings)


def measure_log(point: Point) -> Result:
    stream, window = LOGS[point["log"]]
    keys = real(stream)
    if keys is None:
        return {"absent": True}
    return _measured(FILTERS, keys, point["seed"], window=window, bits=point["bits_per_key"])


def conclude_logs(results: Results) -> Conclusion:
    present = [(p, r) for p, r in results if "absent" not in r]
    absent = sorted({p["log"] for p, r in results if "absent" in r})
    findings = []
    for log in LOGS:
        if group := chosen(present, log=log, bits_per_key=BITS_PER_KEY):
            fresh = [median(group, name, "fresh") for name in ("GEBF r = 8", "counting")]
            missed = median(group, "stable", "live") > 0
            for name, metric, paper in PAPER.data["printed"]["log"]:
                holds = missed if metric == LIVE else fresh[0] < fresh[1]
                value = over_seeds(group, name, METRICS[metric])
                fields = {"log": log, "name": name, "metric": metric, "paper": paper}
                kind = "log" if holds else "log-of-another-order"
                findings.append(PAPER.find(kind, value, **fields))
    if present:
        findings.append(_never_missed("all logs, GEBF, blocked or not", present))
    return Conclusion(findings, missing=[absence(LOGS[log][0], log) for log in absent])


STUDIES = (
    PAPER.study("gebf-synthetic", measure_synthetic, conclude_synthetic),
    PAPER.study("gebf-readings", measure_reading, conclude_readings),
    PAPER.study("gebf-rotation", measure_rotation, conclude_rotation),
    PAPER.study("gebf-closed-form", measure_form, conclude_form),
    PAPER.study("gebf-long", measure_long, conclude_long),
    PAPER.study("gebf-segments", measure_segments, conclude_segments),
    PAPER.study("gebf-logs", measure_log, conclude_logs),
)
