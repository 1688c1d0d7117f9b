"""Choices that the GEBF paper leaves open: hashes, blocks, the setting of a filter, streams."""

from dataclasses import replace

import numpy as np

from lately.replay.drawing import Chart, Series

from .gebf_runs import (
    BITS_PER_KEY,
    FILTERS,
    PAPER,
    READINGS,
    STREAMS,
    WINDOW,
    Rates,
    draw_queries,
    guarded,
    rates,
    synthetic,
)
from .gebf_verdicts import beside, median, over_seeds, series, table
from .studies import comparison
from .studies.streams import Keys
from .studies.study import Conclusion, Point, Result, Results

FRESH, LIVE, EXPIRED = "fresh keys reported", "live keys missed", "expired keys reported"
"""Metrics, as findings name them."""
METRICS = {FRESH: "fresh", LIVE: "live", EXPIRED: "expired"}
"""Their names in the results."""


def measure_reading(point: Point) -> Result:
    """Run all readings on one uniform stream, and two filters on each of `STREAMS`."""
    seed = point["seed"]
    keys = synthetic("uniform", seed)
    queries = draw_queries(keys, WINDOW, seed)
    found = {
        name: rates(build(WINDOW, BITS_PER_KEY, seed), keys, queries)
        for name, build in READINGS.items()
    }
    return found | {name: _on_stream(draw(seed), seed) for name, draw in STREAMS.items()}


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
    for family, metric, paper in PAPER.data["printed"]["readings"]:
        names = [name for name in READINGS if name.startswith(f"{family}:")]
        values = {name: median(results, name, METRICS[metric]) for name in names}
        for name in names:
            low, high = over_seeds(results, name, METRICS[metric])
            within = "yes" if low <= float(paper) <= high else "no"
            rows.append((name, paper, f"{values[name]:.4f}", f"{low:.4f} to {high:.4f}", within))
        nearest = min(names, key=lambda name: abs(values[name] - float(paper)))
        found = beside(f"{nearest}: {metric}", paper, results, nearest, METRICS[metric], True)
        note = f"{found.note} The nearest of {len(names)} readings.".strip()
        findings.append(replace(found, note=note))
    readings = table("| reading | paper | ours | interval | holds it |", rows)
    notes = PAPER.notes("gebf-readings", table=readings, streams=_stream_table(results))
    return Conclusion(findings, [_block_chart(results), _stable_chart(results)], notes)


# Rotation


def measure_rotation(point: Point) -> Result:
    """Ask a GEBF whose last epoch is full: as it is, and with the next segment cleared."""
    seed = point["seed"]
    keys = synthetic("uniform", seed)
    queries = draw_queries(keys, WINDOW, seed)
    model = guarded(WINDOW, BITS_PER_KEY, seed=seed)
    found = {ROTATIONS[0]: rates(model, keys, queries)}
    model.shift()
    return found | {ROTATIONS[1]: rates(model, keys[:0], queries)}


ROTATIONS = ("next insertion", "end of the epoch")
"""When the segments rotate."""


def conclude_rotation(results: Results) -> Conclusion:
    """Tell which reading gives the printed share of expired keys."""
    figures = {metric: figure for _, metric, figure in PAPER.data["printed"]["synthetic"]}
    paper, metric = figures[EXPIRED], METRICS[EXPIRED]
    findings = []
    for name in ROTATIONS:
        value = (median(results, name, metric), *over_seeds(results, name, metric))
        findings.append(comparison.measured(f"rotation at the {name}: {EXPIRED}", paper, value))
    return Conclusion(findings, notes=PAPER.notes("gebf-rotation"))


def _stream_table(results: Results) -> str:
    rows = []
    for name in STREAMS:
        distinct, guarded, counting = (
            median(results, name, metric) for metric in ("distinct", "GEBF r = 8", "counting")
        )
        rows.append((name, f"{distinct:,.0f}", f"{guarded:.5f}", f"{counting:.4f}"))
    return table("| stream | distinct keys of the window | GEBF r = 8 | counting |", rows)


def _block_chart(results: Results) -> Chart:
    sizes = [64, 128, 256, 512]
    lines = [
        series(how, sizes, [(results, f"blocked: k = 9, {size} bits, {how}") for size in sizes])
        for how in ("independent", "double hashing")
    ]
    lines.append(Series("printed", sizes, [0.0708] * len(sizes)))
    return PAPER.chart("gebf-blocks", lines)


def _stable_chart(results: Results) -> Chart:
    marks = []
    for cell_bits in (1, 2, 4):
        names = [name for name in READINGS if name.startswith(f"stable: d = {cell_bits},")]
        fresh = [median(results, name, "fresh") for name in names]
        live = [median(results, name, "live") for name in names]
        marks.append(Series(f"d = {cell_bits}", fresh, live, marks=True))
    return PAPER.chart("gebf-stable", [*marks, Series("printed", [0.0, 1.0], [0.19, 0.19])])
