"""Reproduces the accesses in Tables 2 and 3 of the APBF paper, and Figure 9."""

from itertools import product
from typing import Any

import numpy as np

from campaigns.engine import Point, Result
from lately.golden import APBBF, BlockedGEBF, analysis
from lately.golden.ring.rings import SlidingFilter
from lately.replay.drawing import Series
from papers.models import accesses
from papers.models.time_limited import slice_bits

from .apbf import PAPER, build, fill
from .streams import Keys, chunks, distinct
from .studies.estimates import positive, quotients, share, student
from .studies.study import Conclusion, Finding, Results, figures, grouped

GENERATION = 500  # Insertions between two shifts in the filters of Table 2.

CASES = {"window": "window", "fp": "false positive", "false": "false"}
"""Kinds of queries in `analysis.apbf_accesses`, by column of the tables."""

WALKS = {walk.__name__: walk for walk in (accesses.backward, accesses.forward, accesses.linear)}
"""Search orders: Algorithm 1, its mirror image, and a linear scan."""

_ASKED = 20_000


def _mean_accesses(filter: SlidingFilter, keys: Keys) -> dict[str, float]:
    matches = filter.matches(keys)
    return {name: float(walk(matches, filter.spec.run).mean()) for name, walk in WALKS.items()}


def _queries(filter: SlidingFilter, inserted: int, point: Point) -> Result:
    seed, window = point["seed"], filter.spec.guaranteed_window
    alive = distinct(inserted - window, window, seed)
    accesses_of: Result = {"window": _mean_accesses(filter, alive)}
    hits = []
    for fresh in chunks(inserted, inserted + point["probes"], seed):
        seen = filter.query(fresh)
        hits.append(fresh[seen])
        if "false" not in accesses_of:
            accesses_of["false"] = _mean_accesses(filter, fresh[~seen][:_ASKED])
    reported = np.concatenate(hits)
    accesses_of["fp"] = _mean_accesses(filter, reported) if len(reported) else None
    return accesses_of


# Table 2


def measure_accesses(point: Point) -> Result:
    filter = build(point["k"], point["l"], point["l"] * GENERATION, point["seed"])
    return _queries(filter, fill(filter, point["seed"]), point)


def conclude_accesses(results: Results) -> Conclusion:
    findings: list[Finding] = []
    walks: list[Finding] = []
    names = {"forward": "from the youngest slices", "linear": "of a linear scan"}
    seen = set()
    for (aim, k, l), group in grouped(results, "aim", "k", "l").items():
        runs = [result for _, result in group]
        row = PAPER.table("2").row(k, l)
        for column, case in CASES.items():
            value = student([run[column]["backward"] for run in runs if run[column]])
            fields = {"case": case, "paper": row[f"accesses_{column}"]}
            exact = analysis.apbf_accesses(k, l, case)
            findings.append(PAPER.find("accesses", value, k=k, l=l, exact=exact, **fields))
        # Rows are ordered: for each rate, the fewest slices come first.
        for walk, column in product(names, ("window", "false")) if aim not in seen else ():
            value = positive([run[column][walk] / run[column]["backward"] for run in runs])
            walks.append(PAPER.find("walk", value, k=k, l=l, walk=names[walk], case=column))
        seen.add(aim)
    return Conclusion(findings + walks)


# Section 6

NAIVE = (2, 5, 512, 8)  # The row that the paper compares with blocked filters in sequence.
_EPOCHS = 5  # Epochs of this naive design, which has an NPWS of 0.2 and six filters.


def measure_blocked(point: Point) -> Result:
    k, l, block_bits, hashes = point["row"]
    sizes = {"block_bits": block_bits, "hashes_per_block": hashes, "blocks": point["blocks"]}
    filter = APBBF(k=k, l=l, **sizes, seed=point["seed"])
    result = _queries(filter, fill(filter, point["seed"]), point)
    result["rate"] = filter.estimated_false_positive_rate()
    if (k, l, block_bits, hashes) == NAIVE:
        result["naive"] = _naive(filter, point)
    return result


def _naive(filter: APBBF, point: Point) -> Result:
    """Measure six blocked filters that together have the memory and window of `filter`."""
    spec = filter.spec
    other = BlockedGEBF(
        window=spec.guaranteed_window,
        epochs=_EPOCHS,
        hashes=spec.run * spec.parts,
        bits=spec.memory_bits,
        block_bits=NAIVE[2],
        seed=point["seed"],
    )
    result = _queries(other, fill(other, point["seed"]), point)
    return result | {"rate": other.estimated_false_positive_rate()}


def conclude_blocked(results: Results) -> Conclusion:
    table = PAPER.table("3")
    findings = []
    for (row,), group in grouped(results, "row").items():
        runs = [result for _, result in group]
        printed = table.row(*row)
        name = table.name(printed)
        rate = student([run["rate"] for run in runs])
        findings.append(PAPER.find("block-rate", rate, row=name, paper=printed["fp_apbbf"]))
        for column in ("window", "false"):
            value = student([run[column]["backward"] for run in runs])
            fields = {"row": name, "case": column, "paper": printed[f"accesses_{column}"]}
            findings.append(PAPER.find("block-accesses", value, **fields))
    runs = [result for _, result in results if "naive" in result]
    naive = [run["naive"] for run in runs]
    if naive:
        rates, others = ([run["rate"] for run in group] for group in (runs, naive))
        findings += [
            PAPER.find("naive-false", student([run["false"]["forward"] for run in naive])),
            PAPER.find("naive-window", student([run["window"]["forward"] for run in naive])),
            PAPER.find("naive-rate-over", student(quotients(others, rates))),
            PAPER.find("naive-rate", positive(others)),
        ]
    return Conclusion(findings)


# Figure 9

SLICES = 10  # Slices that an insertion writes, in each design.
RATIO = 2  # l / k


def design(parts: int, generation: int, seed: int) -> APBBF:
    """Return a design with k = 10 / parts; the slices of all designs have the same size."""
    k = SLICES // parts
    bits = parts * slice_bits(SLICES * generation)
    sizes: Point = {"block_bits": bits, "hashes_per_block": parts, "blocks": 1}
    return APBBF(k=k, l=RATIO * k, generation=parts * generation, **sizes, seed=seed)


def measure_design(point: Point) -> Result:
    seed = point["seed"]
    filter = design(point["parts"], point["generation"], seed)
    spec, inserted = filter.spec, fill(filter, seed)
    alive = distinct(inserted - spec.guaranteed_window, spec.guaranteed_window, seed)
    fills = [filter.segment(index).mean(axis=1) for index in range(spec.ring_segments)]
    result: Result = {
        "fills": np.concatenate(fills).tolist(),
        "asked": len(alive),
        "missed": int(np.count_nonzero(~filter.query(alive))),
        "peak": filter.estimated_false_positive_rate(),
    }
    filter.insert(distinct(inserted, 1, seed))
    return result | {"trough": filter.estimated_false_positive_rate()}


def conclude_designs(results: Results) -> Conclusion:
    findings, series = [], []
    smooth = [_swing(result) for point, result in results if point["parts"] == 1]
    for (parts, generation), runs in grouped(results, "parts", "generation").items():
        findings += _design(parts, generation, [run for _, run in runs], smooth)
        means = np.array(figures(runs, "fills")).mean(axis=0).tolist()
        k = SLICES // parts
        series.append(Series(f"k = {k}, l = {RATIO * k}", list(range(len(means))), means))
    asked, missed = (sum(figures(results, name)) for name in ("asked", "missed"))
    findings.append(PAPER.find("missed", share(missed, asked)))
    return Conclusion(findings, [PAPER.chart("apbf-figure-9", series)])


def _swing(result: Result) -> float:
    return float(result["peak"] / result["trough"] - 1)


def _design(parts: int, generation: int, runs: list[Result], smooth: list[float]) -> list[Finding]:
    spec, first = (design(each, generation, 0).spec for each in (parts, 1))
    expected = spec.worst_false_positive_rate
    fields: dict[str, Any] = {
        "k": spec.run, "l": spec.window_generations, "parts": parts, "expected": expected,
    }  # fmt: skip
    full = PAPER.find(
        "design-full", student([float(np.mean(run["fills"][SLICES:])) for run in runs]), **fields
    )
    peak = PAPER.find("design-peak", student([run["peak"] / expected for run in runs]), **fields)
    if parts == 1:
        return [full, peak]
    swings = quotients([_swing(run) for run in runs], smooth)
    same = {
        "memory": spec.memory_bits / first.memory_bits,
        "window": spec.guaranteed_window / first.guaranteed_window,
        "generation": spec.generation / first.generation,
    }
    return [
        *(PAPER.find(f"design-{name}", value, **fields) for name, value in same.items()),
        full,
        PAPER.find("design-zigzag", student(swings), **fields),
        peak,
    ]


STUDIES = (
    PAPER.study("apbf-accesses", measure_accesses, conclude_accesses),
    PAPER.study("apbf-blocks", measure_blocked, conclude_blocked),
    PAPER.study("apbf-figure-9", measure_design, conclude_designs),
)
