"""The GEBF paper: synthetic streams, open points, closed form, long run, segments, and logs."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from campaigns.engine import Point, Result
from lately.golden.analysis import gebf_false_positive_rate
from lately.golden.spec.ring import GuardedEpochSpec
from lately.replay.drawing import Chart, Estimate, Series
from papers.models import accesses

from .gebf_runs import (
    BITS_PER_KEY,
    EPOCHS,
    FILTERS,
    INSERTIONS,
    KINDS,
    PAPER,
    QUERIES,
    READINGS,
    STREAMS,
    WINDOW,
    Rates,
    draw_queries,
    guarded,
    rates,
    synthetic,
)
from .streams import Keys, absence, chunks, distinct, real, spread
from .studies.criteria import Verdict
from .studies.estimates import SHARES, positive, quotients, scaled, share, student
from .studies.markdown import table
from .studies.study import Conclusion, Finding, Results, chosen, figures, grouped

FRESH, LIVE, EXPIRED = "fresh keys reported", "live keys missed", "expired keys reported"
"""Metrics, as findings name them."""
METRICS = {FRESH: "fresh", LIVE: "live", EXPIRED: "expired"}  # Their names in the results.

PRINTED = {
    name.split()[0]: (metric, figure)
    for name, metric, figure in PAPER.data["printed"]["synthetic"]
    if metric != EXPIRED
}
"""Metrics and printed figures that `READINGS` try to meet, by the first word of their names."""

LOGS = PAPER.data["logs"]  # Names of real streams, and windows.

_GUARDED = ("GEBF r = 4", "GEBF r = 8", "blocked GEBF r = 8")


# Medians of several seeds


def median(results: Results, name: str, metric: str) -> float:
    """Return the median of a metric of a filter over all results."""
    return float(statistics.median(result[name][metric] for _, result in results))


def over_seeds(results: Results, name: str, metric: str) -> Estimate:
    """Return that median, and the interval of the mean over seeds of medians over all else."""
    values = [median(own, name, metric) for own in grouped(results, "seed").values()]
    low, high = student(values, within=SHARES)[1:] if len(values) > 1 else values * 2
    return median(results, name, metric), low, high


def beside(subject: str, paper: str, results: Results, name: str, metric: str) -> Finding:
    """Compare a median with the printed one, and say how far it is off unless it is met."""
    value = over_seeds(results, name, METRICS[metric])
    found = PAPER.find("median", value, subject=subject, metric=metric, paper=paper)
    if found.verdict is Verdict.MET:
        return found
    side = "above" if value[0] > float(paper) else "below"
    return replace(found, note=f"{abs(value[0] / float(paper) - 1):.0%} {side} the figure")


def series(label: str, x: Sequence[float], runs: Iterable[tuple[Results, str]]) -> Series:
    """Return medians of the fresh keys reported, each over results of the filter of a name."""
    return Series.estimated(label, x, [over_seeds(own, name, "fresh") for own, name in runs])


def _never_missed(filters: str, results: Results) -> Finding:
    missed = sum(round(r[name]["live"] * QUERIES) for _, r in results for name in _GUARDED)
    asked = len(results) * len(_GUARDED) * QUERIES
    return PAPER.find("missed", share(missed, asked), filters=filters, asked=asked)


# Synthetic streams


def measure_synthetic(point: Point) -> Result:
    """Run the five filters on one stream."""
    return _all_filters(synthetic(point["stream"], point["seed"]), WINDOW, point)


def _all_filters(keys: Keys, window: int, point: Point) -> Result:
    queries = draw_queries(keys, window, point["seed"])
    return {
        name: rates(build(window, point["bits_per_key"], point["seed"]), keys, queries)
        for name, build in FILTERS.items()
    }


def conclude_synthetic(results: Results) -> Conclusion:
    """Compare the medians with the printed ones, over uniform streams and over all."""
    printed = chosen(results, bits_per_key=BITS_PER_KEY)
    findings = []
    for named, streams in (("uniform", ("uniform",)), ("all", KINDS)):
        own = [(p, r) for p, r in printed if p["stream"] in streams]
        for name, metric, paper in PAPER.data["printed"]["synthetic"]:
            found = beside(f"{named} streams, {name}", paper, own, name, metric)
            findings.append(_with_order(found, _holds(own, name, metric)))
    findings.append(_never_missed("GEBF, blocked or not", results))
    values = {"configurations": len(results) * len(FILTERS), "kinds": _kinds_table(printed)}
    return Conclusion(findings, [_budget_chart(results)], values)


def _with_order(found: Finding, holds: bool) -> Finding:
    """Say of a figure that is not met whether the paper's conclusion from it holds."""
    also = "what it is printed for is found again" if holds else "nor what it is printed for"
    return replace(found, note=found.note and f"{found.note}; {also}.")


def _holds(results: Results, name: str, metric: str) -> bool:
    """Whether what the paper concludes is so: the order of the filters, and bounded staleness."""
    fresh = [median(results, other, "fresh") for other in ("GEBF r = 8", "counting")]
    blocked = median(results, "blocked GEBF r = 8", "fresh")
    if metric == FRESH:
        return fresh[0] < blocked < fresh[1]
    if metric == LIVE:
        return median(results, name, "live") > 0.01
    # Keys older than the guard epoch are reported no more often than keys never inserted.
    return median(results, name, "beyond") < 1.5 * fresh[0] + 20 / QUERIES


def _budget_chart(results: Results) -> Chart:
    budgets = sorted({point["bits_per_key"] for point, _ in results})
    at = [chosen(results, bits_per_key=bits) for bits in budgets]
    lines = [series(name, budgets, [(own, name) for own in at]) for name in FILTERS]
    printed = PAPER.data["printed"]["synthetic"]
    figures = [float(paper) for _, metric, paper in printed if metric == FRESH]
    marks = Series("printed", [BITS_PER_KEY] * len(figures), figures, marks=True)
    return PAPER.chart("gebf-synthetic", [*lines, marks])


def _kinds_table(results: Results) -> str:
    rows = [
        (kind, name, *(f"{median(own, name, metric):.5f}" for metric in METRICS.values()))
        for kind in KINDS
        if (own := chosen(results, stream=kind))
        for name in FILTERS
    ]
    return table(("stream", "filter", *METRICS), rows)


# Open points


def measure_reading(point: Point) -> Result:
    """Run all readings on one uniform stream, and two filters on each of `STREAMS`."""
    seed = point["seed"]
    keys = synthetic("uniform", seed)
    queries = draw_queries(keys, WINDOW, seed)
    found = {
        name: rates(build(WINDOW, BITS_PER_KEY, seed), keys, queries)
        for name, build in READINGS.items()
    }
    return found | {name: _on_stream(draw(seed=seed), seed) for name, draw in STREAMS.items()}


def _on_stream(keys: Keys, seed: int) -> Rates:
    """Return the false-positive rate of each filter, and the distinct keys of the window."""
    queries = draw_queries(keys, WINDOW, seed)
    measured = {
        name: rates(FILTERS[name](WINDOW, BITS_PER_KEY, seed), keys, queries)["fresh"]
        for name in ("GEBF r = 8", "counting")
    }
    return measured | {"distinct": float(len(np.unique(keys[-WINDOW:])))}


def conclude_readings(results: Results) -> Conclusion:
    """Tell for each reading whether it gives the printed figure, and name the nearest."""
    findings, rows = [], []
    for family, (metric, paper) in PRINTED.items():
        names = [name for name in READINGS if name.startswith(f"{family}:")]
        values = {name: over_seeds(results, name, METRICS[metric]) for name in names}
        for name, (value, low, high) in values.items():
            within = "yes" if low <= float(paper) <= high else "no"
            rows.append((name, paper, f"{value:.4f}", f"{low:.4f} to {high:.4f}", within))
        nearest = min(names, key=lambda name: abs(values[name][0] - float(paper)))
        found = _with_order(beside(nearest, paper, results, nearest, metric), True)
        note = f"{found.note} The nearest of {len(names)} readings.".strip()
        findings.append(replace(found, note=note))
    readings = table(("reading", "paper", "ours", "interval", "holds it"), rows)
    charts = [_block_chart(results), _stable_chart(results)]
    return Conclusion(findings, charts, {"table": readings, "streams": _stream_table(results)})


def _stream_table(results: Results) -> str:
    metrics = {"distinct": ",.0f", "GEBF r = 8": ".5f", "counting": ".4f"}
    rows = [
        (name, *(format(median(results, name, one), form) for one, form in metrics.items()))
        for name in STREAMS
    ]
    return table(("stream", "distinct keys of the window", "GEBF r = 8", "counting"), rows)


def _block_chart(results: Results) -> Chart:
    sizes = [64, 128, 256, 512]
    lines = [
        series(how, sizes, [(results, f"blocked: k = 9, {size} bits, {how}") for size in sizes])
        for how in ("independent", "double hashing")
    ]
    lines.append(Series("printed", sizes, [float(PRINTED["blocked"][1])] * len(sizes)))
    return PAPER.chart("gebf-blocks", lines)


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


# Rotation

ROTATIONS = ("next insertion", "end of the epoch")  # When the segments rotate.


def measure_rotation(point: Point) -> Result:
    """Ask a GEBF whose last epoch is full: as it is, and with the next segment cleared."""
    seed = point["seed"]
    keys = synthetic("uniform", seed)
    queries = draw_queries(keys, WINDOW, seed)
    model = guarded(WINDOW, BITS_PER_KEY, seed=seed)
    found = {ROTATIONS[0]: rates(model, keys, queries)}
    model.shift()
    return found | {ROTATIONS[1]: rates(model, keys[:0], queries)}


def conclude_rotation(results: Results) -> Conclusion:
    """Tell which reading gives the printed share of expired keys."""
    figures = {metric: figure for _, metric, figure in PAPER.data["printed"]["synthetic"]}
    return Conclusion(
        [
            PAPER.find(
                "median",
                over_seeds(results, name, METRICS[EXPIRED]),
                subject=f"rotation at the {name}",
                metric=EXPIRED,
                paper=figures[EXPIRED],
            )
            for name in ROTATIONS
        ]
    )


# Closed form


def measure_form(point: Point) -> Result:
    """Return the share of fresh keys that are reported when all segments are full."""
    seed = point["seed"]
    filter = guarded(WINDOW, point["bits_per_key"], epochs=point["epochs"], seed=seed)
    filter.insert(distinct(0, INSERTIONS, seed))
    fresh = filter.query(distinct(INSERTIONS, point["asked"], seed))
    return {"fresh": float(fresh.mean()), "formula": _formula(point)}


def _formula(point: Point, window: int = WINDOW) -> float:
    spec = guarded(window, point["bits_per_key"], epochs=point["epochs"], seed=0).spec
    assert isinstance(spec, GuardedEpochSpec)
    return gebf_false_positive_rate(spec.bits, window, spec.epochs, spec.hashes)


def conclude_form(results: Results) -> Conclusion:
    """Compare the rates with the closed form."""
    findings = []
    for (epochs, bits), own in grouped(results, "epochs", "bits_per_key").items():
        formulas = figures(own, "formula")
        fields = {"epochs": epochs, "bits": bits, "formula": formulas[0]}
        value = positive(quotients(figures(own, "fresh"), formulas))
        findings.append(PAPER.find("closed-form", value, **fields))
    return Conclusion(findings)


# Long run


def measure_long(point: Point) -> Result:
    """Insert distinct keys; at each stop query live, fresh and expired keys."""
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
    return {"hits": hits, "formula": _formula(point, window)}


def conclude_long(results: Results) -> Conclusion:
    """Count the keys that were missed, and compare the rates with the closed form."""
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


# Segments of a query


def measure_segments(point: Point) -> Result:
    """Count the segments that are read, from the youngest on, until one has the key."""
    seed, asked = point["seed"], point["asked"]
    filter = guarded(WINDOW, BITS_PER_KEY, seed=seed)
    filter.insert(distinct(0, INSERTIONS, seed))
    live, fresh = distinct(INSERTIONS - WINDOW, WINDOW, seed), distinct(INSERTIONS, asked, seed)
    return {
        name: float(accesses.forward(filter.matches(keys), 1).mean())
        for name, keys in (("live", live), ("fresh", fresh))
    }


def conclude_segments(results: Results) -> Conclusion:
    """Compare the segments, where a counting filter has one array, with the printed speeds."""
    findings = [
        PAPER.find(f"segments-{name}", student(figures(results, name)), segments=EPOCHS + 1)
        for name in ("fresh", "live")
    ]
    return Conclusion(findings)


# Logs


def measure_log(point: Point) -> Result:
    """Run the five filters on one log; nothing but 'absent' if its file is."""
    stream, window = LOGS[point["log"]]
    keys = real(stream)
    return {"absent": True} if keys is None else _all_filters(keys, window, point)


def conclude_logs(results: Results) -> Conclusion:
    """Set the paper's log beside ours, at 14 bits per key."""
    present = [(p, r) for p, r in results if "absent" not in r]
    absent = sorted({p["log"] for p, r in results if "absent" in r})
    findings = []
    for log in LOGS:
        own = chosen(present, log=log, bits_per_key=BITS_PER_KEY)
        findings += _log_findings(log, own) if own else []
    if present:
        findings.append(_never_missed("all logs, GEBF, blocked or not", present))
    return Conclusion(findings, missing=[absence(LOGS[log][0], log) for log in absent])


def _log_findings(log: str, results: Results) -> list[Finding]:
    findings = []
    guarded, counting = (median(results, name, "fresh") for name in ("GEBF r = 8", "counting"))
    missed = median(results, "stable", "live") > 0
    for name, metric, paper in PAPER.data["printed"]["log"]:
        holds = missed if metric == LIVE else guarded < counting
        value = over_seeds(results, name, METRICS[metric])
        fields = {"log": log, "name": name, "metric": metric, "paper": paper}
        findings.append(PAPER.find("log" if holds else "log-of-another-order", value, **fields))
    return findings


STUDIES = (
    PAPER.study("gebf-synthetic", measure_synthetic, conclude_synthetic),
    PAPER.study("gebf-readings", measure_reading, conclude_readings),
    PAPER.study("gebf-rotation", measure_rotation, conclude_rotation),
    PAPER.study("gebf-closed-form", measure_form, conclude_form),
    PAPER.study("gebf-long", measure_long, conclude_long),
    PAPER.study("gebf-segments", measure_segments, conclude_segments),
    PAPER.study("gebf-logs", measure_log, conclude_logs),
)
"""Synthetic streams, readings of the paper, its closed form and long run, and logs."""
