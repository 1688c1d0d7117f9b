"""Accesses of the APBF paper's queries, measured: Tables 2 and 3, other walks, naive filters."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import APBBF, BlockedGEBF, analysis
from lately.golden.ring.sliding import SlidingFilter
from papers.models import accesses

from .apbf_accuracy import FILTERS
from .apbf_runs import PAPER, build, distinct
from .studies.comparison import POSITIVE, claim, ours, over_seeds, student
from .studies.criteria import above, between
from .studies.study import Conclusion, Finding, Point, Result, Results

SMOOTHEST = {1: (8, 56), 2: (11, 46), 3: (14, 40), 4: (18, 63), 5: (21, 54)}
"""k and l by the exponent of the rate: the highest pairs of Table 2."""

GENERATION = 500
"""Insertions between two shifts in the filters of Table 2."""

PROBES = {1: 50_000, 2: 50_000, 3: 200_000, 4: 500_000, 5: 1_000_000}
"""Number of queried fresh keys, by the exponent of the rate: some are reported."""

CASES = {"window": "window", "fp": "false positive", "false": "false"}
"""Kinds of query by the columns of the tables, as `analysis.apbf_accesses` names them."""

WALKS: dict[str, Callable[[accesses.Matches, int], accesses.Accesses]] = {
    "backward": accesses.backward,
    "forward": accesses.forward,
    "linear": accesses.linear,
}
"""Ways through the segments: Algorithm 1, its mirror, and one segment after the other."""

_CHUNK = 1 << 18
_ASKED = 20_000


def _mean_accesses(filter: SlidingFilter, keys: NDArray[np.uint64]) -> dict[str, float]:
    matches = filter.matches(keys)
    return {name: float(walk(matches, filter.spec.run).mean()) for name, walk in WALKS.items()}


def _queries(filter: SlidingFilter, inserted: int, point: Point) -> Result:
    """Count accesses of queries for keys of the window, and for fresh ones, reported or not."""
    seed, window = point["seed"], filter.spec.guaranteed_window
    alive = distinct(inserted - window, window, seed)
    found: Result = {"window": _mean_accesses(filter, alive)}
    hits = []
    for start in range(0, point["probes"], _CHUNK):
        fresh = distinct(inserted + start, min(_CHUNK, point["probes"] - start), seed)
        seen = filter.query(fresh)
        hits.append(fresh[seen])
        if not start:
            found["false"] = _mean_accesses(filter, fresh[~seen][:_ASKED])
    reported = np.concatenate(hits)
    found["fp"] = _mean_accesses(filter, reported) if len(reported) else None
    return found


# Table 2


def points(quick: bool) -> list[Point]:
    """Return a point for each filter and seed: the first and the last of each rate."""
    return [
        {"aim": aim, "k": k, "l": l, "probes": 50_000 if quick else PROBES[aim], "seed": seed}
        for aim in list(FILTERS)[: 2 if quick else None]
        for k, l in (FILTERS[aim], SMOOTHEST[aim])
        for seed in range(3 if quick else 10)
    ]


def measure(point: Point) -> Result:
    """Count accesses just before a shift, after two turns of the ring."""
    k, l = point["k"], point["l"]
    filter = build(k, l, l * GENERATION, point["seed"])
    inserted = 2 * (k + l) * GENERATION
    filter.insert(distinct(0, inserted, point["seed"]))
    return _queries(filter, inserted, point)


def conclude(results: Results) -> Conclusion:
    """Hold the accesses against those of Table 2, and Algorithm 1 against other walks."""
    groups = [
        (key, [result for _, result in runs])
        for key, runs in groupby(results, key=lambda entry: (entry[0]["k"], entry[0]["l"]))
    ]
    findings = [one for (k, l), runs in groups for one in _table_2(k, l, runs)]
    lowest = [entry for entry in groups if entry[0] in FILTERS.values()]
    findings += [one for (k, l), runs in lowest for one in _walks(k, l, runs)]
    return Conclusion(findings, notes=PAPER.notes("apbf-accesses"))


def _table_2(k: int, l: int, runs: list[Result]) -> list[Finding]:
    table = PAPER.table("2")
    row = next(row for row in table.rows() if table.values(row) == [k, l])
    findings = []
    for column, case in CASES.items():
        values = [run[column]["backward"] for run in runs if run[column]]
        exact = analysis.apbf_accesses(k, l, case)
        what = f"k = {k}, l = {l}: accesses, {case}"
        note = f"{exact:.4g} with the exact profile"
        findings.append(over_seeds(what, row[f"accesses_{column}"], values, note=note))
    return findings


def _walks(k: int, l: int, runs: list[Result]) -> list[Finding]:
    findings = []
    for walk, named in (("forward", "from the youngest slices"), ("linear", "of a linear scan")):
        for column in ("window", "false"):
            quotients = [run[column][walk] / run[column]["backward"] for run in runs]
            what = f"k = {k}, l = {l}: accesses {named} over those of Algorithm 1, {column}"
            value = student(quotients, within=POSITIVE)
            findings.append(claim(what, "more", value, between(1, 100)))
    return findings


# Section 6

NAIVE = (2, 5, 512, 8)
"""The row that the paper compares with a sequence of blocked filters."""

_EPOCHS = 5
"""Epochs of the naive design, whose NPWS is then 0.2; it has six filters."""


def measure_blocked(point: Point) -> Result:
    """Count block accesses of an APBBF just before a shift, and of the naive design beside it."""
    k, l, block_bits, hashes = point["row"]
    sizes = {"block_bits": block_bits, "hashes_per_block": hashes, "blocks": point["blocks"]}
    filter = APBBF(k=k, l=l, **sizes, seed=point["seed"])
    inserted = 2 * (k + l) * filter.spec.generation
    filter.insert(distinct(0, inserted, point["seed"]))
    found = _queries(filter, inserted, point) | {"rate": filter.estimated_false_positive_rate()}
    if (k, l, block_bits, hashes) == NAIVE:
        found["naive"] = _naive(filter, point)
    return found


def _naive(filter: APBBF, point: Point) -> Result:
    """Count the same of six blocked filters, with the memory and the window of the `filter`.

    A key has its k b bits in one block of a filter.
    """
    spec = filter.spec
    other = BlockedGEBF(
        window=spec.guaranteed_window,
        epochs=_EPOCHS,
        hashes=spec.run * spec.parts,
        bits=spec.memory_bits,
        block_bits=NAIVE[2],
        seed=point["seed"],
    )
    inserted = 2 * other.spec.ring_segments * other.spec.generation
    other.insert(distinct(0, inserted, point["seed"]))
    return _queries(other, inserted, point) | {"rate": other.estimated_false_positive_rate()}


def conclude_blocked(results: Results) -> Conclusion:
    """Hold rates and accesses against those of Table 3, and the naive design against both."""
    findings, naive = [], []
    for row, group in groupby(results, key=lambda entry: tuple(entry[0]["row"])):
        runs = [result for _, result in group]
        findings += _table_3(row, runs)
        naive += _naive_findings(runs) if row == NAIVE else []
    return Conclusion(findings + naive, notes=PAPER.notes("apbf-blocks"))


def _table_3(row: tuple[Any, ...], runs: list[Result]) -> list[Finding]:
    table = PAPER.table("3")
    printed = next(one for one in table.rows() if table.values(one) == list(row))
    name = table.name(printed)
    rates = [run["rate"] for run in runs]
    findings = [over_seeds(f"{name}: rate before a shift", printed["fp_apbbf"], rates)]
    for column in ("window", "false"):
        values = [run[column]["backward"] for run in runs]
        what = f"{name}: accesses, {column}"
        findings.append(over_seeds(what, printed[f"accesses_{column}"], values))
    return findings


def _naive_findings(runs: list[Result]) -> list[Finding]:
    findings = []
    for column in ("false", "window"):
        values = [run["naive"][column]["forward"] for run in runs]
        what = f"six blocked filters: block accesses, {column}"
        note = "Ends with the youngest filter that has the key." if column == "window" else ""
        findings.append(claim(what, "at least 6", student(values), between(6, 12), note))
    quotients = [run["naive"]["rate"] / run["rate"] for run in runs]
    what = "six blocked filters of one block: rate over that of the APBBF in the same memory"
    findings.append(claim(what, "fp degradation", student(quotients), above(1)))
    rates = student([run["naive"]["rate"] for run in runs], within=POSITIVE)
    return [*findings, ours("six blocked filters of one block: rate before a shift", rates)]


STUDIES = (
    PAPER.study("apbf-accesses", measure, conclude, points=points),
    PAPER.study("apbf-blocks", measure_blocked, conclude_blocked),
)
"""Table 2 with section 5.4, and Table 3 with section 6."""
