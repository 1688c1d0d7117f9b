"""The GEBF paper's closed form, its long run, and what its segments cost a query."""

from itertools import pairwise

import numpy as np

from lately.golden.analysis import gebf_false_positive_rate
from lately.golden.spec.ring import GuardedEpochSpec
from lately.replay.drawing import Estimate
from papers.models import accesses

from .apbf_runs import distinct, spread
from .gebf_runs import BITS_PER_KEY, EPOCHS, INSERTIONS, PAPER, WINDOW, guarded
from .studies.comparison import POSITIVE, claim, never, ours, share, student
from .studies.criteria import DIFFERENCE, around, equal
from .studies.study import Conclusion, Finding, Point, Result, Results, chosen

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
    """Hold the rates against the closed form."""
    findings = []
    for epochs, bits in dict.fromkeys((p["epochs"], p["bits_per_key"]) for p, _ in results):
        own = [result for _, result in chosen(results, epochs=epochs, bits_per_key=bits)]
        value = student([one["fresh"] / one["formula"] for one in own], within=POSITIVE)
        what = f"r = {epochs}, {bits} bits per key: fresh keys reported, over the closed form"
        note = f"By the formula {own[0]['formula']:.4g}."
        findings.append(claim(what, "the closed form", value, equal(1), note))
    return Conclusion(findings, notes=PAPER.notes("gebf-closed-form"))


# Long run

_CHUNK = 1 << 20


def measure_long(point: Point) -> Result:
    """Insert distinct keys; at each stop query live, fresh and expired keys."""
    seed, window, queries = point["seed"], point["window"], point["queries"]
    filter = guarded(window, point["bits_per_key"], epochs=point["epochs"], seed=seed)
    rng = np.random.default_rng(seed)
    hits = dict.fromkeys(queries, 0)
    ends = range(0, point["insertions"] + 1, point["insertions"] // point["stops"])
    for start, end in pairwise(ends):
        for begin in range(start, end, _CHUNK):
            filter.insert(distinct(begin, min(_CHUNK, end - begin), seed))
        forgotten = end - window - filter.spec.generation
        ranges = {
            "live": (end - window, end),
            "fresh": (point["insertions"], 2 * point["insertions"]),
            "expired": (max(0, forgotten - window), forgotten),
        }
        for name, between in ranges.items():
            keys = spread(rng.integers(*between, queries[name], np.uint64), seed)
            hits[name] += int(np.count_nonzero(filter.query(keys)))
    return {"hits": hits, "formula": _formula(point, window)}


def conclude_long(results: Results) -> Conclusion:
    """Tell of keys that were missed, and hold the rates against the closed form."""
    ((point, result),) = results
    asked = {name: count * point["stops"] for name, count in point["queries"].items()}
    hits = result["hits"]
    findings = [
        never("live keys missed", asked["live"] - hits["live"], asked["live"],
              f"Of {asked['live']:,} queries."),
        *(
            claim(
                f"{name} keys reported, over the closed form",
                paper,
                _over(share(hits[name], asked[name]), result["formula"]),
                equal(1),
                f"By the formula {result['formula']:.4g}.",
            )
            for name, paper in (("fresh", "the closed form"), ("expired", "at most W + epoch"))
        ),
    ]  # fmt: skip
    notes = PAPER.notes("gebf-long", **{name: point[name] for name in ("insertions", "window")},
                        queries=sum(asked.values()))  # fmt: skip
    return Conclusion(findings, notes=notes)


def _over(value: Estimate, divisor: float) -> Estimate:
    mean, low, high = (each / divisor for each in value)
    return mean, low, high


# Segments of a query

SPEEDS = (46.5, 5.24)
"""Million queries a second of the counting filter and of a GEBF with r = 8, as printed."""


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
    """Hold the segments, where a counting filter has one array, against the printed speeds."""
    ratio = SPEEDS[0] / SPEEDS[1]
    printed = f"{SPEEDS[0]} / {SPEEDS[1]} = {ratio:.2f}"
    findings: list[Finding] = []
    for name in ("fresh", "live"):
        value = student([result[name] for _, result in results])
        what = f"{name} keys: segments read of {EPOCHS + 1}"
        if name == "live":
            findings.append(ours(what, value))
            continue
        criterion, note = around(round(ratio, 2), DIFFERENCE), "A counting filter has one."
        findings.append(claim(what, printed, value, criterion, note))
    return Conclusion(findings, notes=PAPER.notes("gebf-segments"))


STUDIES = (
    PAPER.study("gebf-closed-form", measure_form, conclude_form),
    PAPER.study("gebf-long", measure_long, conclude_long),
    PAPER.study("gebf-segments", measure_segments, conclude_segments),
)
"""Closed form, long run, and segments of a query."""
