"""Figure 9 of the APBF paper: segments of one, two and five slices."""

import math
from itertools import groupby
from typing import Any

import numpy as np

from lately.golden import APBBF, FilterSpec
from lately.replay.drawing import Series

from .apbf_runs import PAPER, distinct
from .studies.comparison import claim, never, over_seeds, student
from .studies.criteria import between, exactly, figure
from .studies.study import Conclusion, Finding, Point, Result, Results

SLICES, RATIO = 10, 2
"""Slices that an insertion writes in each design, and generations in the window for each of k."""


def build(parts: int, generation: int, seed: int) -> APBBF:
    """Return a design: k = 10 / parts, with slices that all designs have in the same size."""
    k = SLICES // parts
    slice_bits = math.ceil(SLICES * generation / math.log(2))
    sizes: dict[str, Any] = {
        "block_bits": parts * slice_bits,
        "hashes_per_block": parts,
        "blocks": 1,
    }
    return APBBF(k=k, l=RATIO * k, generation=parts * generation, **sizes, seed=seed)


def measure(point: Point) -> Result:
    """Fill a design for two turns; note fill ratios and rate before a shift, and rate after it."""
    seed = point["seed"]
    filter = build(point["parts"], point["generation"], seed)
    spec = filter.spec
    inserted = 2 * spec.ring_segments * spec.generation
    filter.insert(distinct(0, inserted, seed))
    alive = distinct(inserted - spec.guaranteed_window, spec.guaranteed_window, seed)
    fills = [filter.segment(index).mean(axis=1) for index in range(spec.ring_segments)]
    found: Result = {
        "fills": np.concatenate(fills).tolist(),
        "asked": len(alive),
        "missed": int(np.count_nonzero(~filter.query(alive))),
        "peak": filter.estimated_false_positive_rate(),
    }
    filter.insert(distinct(inserted, 1, seed))
    return found | {"trough": filter.estimated_false_positive_rate()}


def conclude(results: Results) -> Conclusion:
    """Hold the designs against each other, and their fill ratios against the paper's."""
    findings, series = [], []
    smooth = [_swing(result) for point, result in results if point["parts"] == 1]
    for parts, group in groupby(results, key=lambda entry: int(entry[0]["parts"])):
        runs = list(group)
        findings += _findings(parts, runs, smooth)
        fills = np.array([result["fills"] for _, result in runs])
        means = fills.mean(axis=0).tolist()
        k = SLICES // parts
        label = f"k = {k}, l = {RATIO * k}"
        series.append(Series(label, list(range(len(means))), means))
    asked, missed = (sum(result[name] for _, result in results) for name in ("asked", "missed"))
    findings.append(never("keys of the window: share not reported", missed, asked))
    chart = PAPER.chart("apbf-figure-9", series)
    return Conclusion(findings, [chart], PAPER.notes("apbf-figure-9"))


def _swing(result: Result) -> float:
    return float(result["peak"] / result["trough"] - 1)


def _findings(parts: int, runs: Results, smooth: list[float]) -> list[Finding]:
    generation = runs[0][0]["generation"]
    spec, first = (build(each, generation, 0).spec for each in (parts, 1))
    at = f"k = {spec.run}, l = {spec.window_generations}, {parts} a segment"
    full = [float(np.mean(result["fills"][SLICES:])) for _, result in runs]
    findings = [
        *_beside_the_first(at, spec, first),
        claim(f"{at}: fill ratio of full slices", "1 / 2", student(full), figure("0.50")),
    ]
    if parts > 1:
        pairs = zip(runs, smooth, strict=True)
        swings = student([_swing(result) / other for (_, result), other in pairs])
        what = f"{at}: zig-zag over that of 1 a segment"
        findings.append(claim(what, 'less "smooth"', swings, between(1.1, 100)))
    peaks = [result["peak"] for _, result in runs]
    expected = spec.worst_false_positive_rate
    what = f"{at}: rate before a shift, over the expected one"
    note = f"Expected: {expected:.4g}."
    return [*findings, over_seeds(what, "", [peak / expected for peak in peaks], note=note)]


def _beside_the_first(at: str, spec: FilterSpec, first: FilterSpec) -> list[Finding]:
    """Compare memory, window and generation with those of one slice a segment."""
    parts = spec.parts
    if parts == 1:
        return []
    return [
        claim(f"{at}: {name} over that of 1 a segment", paper, value, exactly(asked))
        for name, paper, value, asked in (
            ("memory", "the same", spec.memory_bits / first.memory_bits, 1),
            ("window", "the same", spec.guaranteed_window / first.guaranteed_window, 1),
            ("generation", "larger", spec.generation / first.generation, parts),
        )
    ]


STUDIES = (PAPER.study("apbf-figure-9", measure, conclude),)
"""Figure 9."""
