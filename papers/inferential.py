"""Table 3 of the inferential paper, penalty ratios and posterior errors (figures 7 to 12)."""

import numpy as np

from lately.golden.timestamp.timing import TimingBloomFilter

from .inferential_curves import conclude_penalties, estimate
from .inferential_runs import (
    MOSTLY,
    PAPER,
    REAL,
    UNIVERSE,
    WARM,
    DistinctStream,
    Experiment,
    absent,
    available,
    calibration_error,
    drawn,
    posterior_error,
    recorded,
    sizes,
    trial,
)
from .studies.comparison import computed, measured, ours
from .studies.study import Conclusion, Finding, Point, Result, Results, chosen

BITS = (1, 2, 4, 8, 16, 32, 64)
"""Bits per item of the window."""
HASHES = range(1, 31)
"""All k that the paper tries (section 5.1.2)."""
FILTERS = ("standard", "inferential", "recurring")
"""Filters whose k is chosen; "recurring" is ours, see `age_posterior`."""
_PILOT = 100
"""Seed of the runs that choose k, apart from those that are measured."""

# Table 3


def ratio_points(quick: bool) -> list[Point]:
    """Return a point for each experiment and seed."""
    seeds, queries = (3, 1 << 18) if quick else (5, 1 << 22)
    return [
        {"stream": e.stream, "window": e.window, "queries": queries, "seed": seed}
        for e in available()
        for seed in range(1 if e.stream in REAL else seeds)
    ]


def measure_ratio(point: Point) -> Result:
    """Count queries for keys in the window, and for others."""
    name = point["stream"]
    if name in REAL:
        stream = recorded(name, WARM[name])
    else:
        stream = drawn(name, 1 << 20, point["queries"], point["seed"])
    inside = int((stream.age[stream.warm :] < point["window"]).sum())
    return {"inside": inside, "outside": len(stream.keys) - stream.warm - inside}


def conclude_ratio(results: Results) -> Conclusion:
    """Hold the ratios against Table 3."""
    findings = []
    for experiment in available():
        ratios = [
            result["inside"] / result["outside"]
            for _, result in chosen(results, stream=experiment.stream, window=experiment.window)
        ]
        if ratios:
            findings.append(_ratio_finding(experiment, ratios))
    return Conclusion(findings, notes=PAPER.notes("btbf-table-3"), missing=absent())


def _ratio_finding(experiment: Experiment, ratios: list[float]) -> Finding:
    what = f"{experiment.stream}, w = {experiment.window}: pos/neg"
    if experiment.stream in REAL:
        return ours(what, ratios[0], f"Stands for condition {experiment.condition}.")
    note = f"Expected {_expected_ratio(experiment):.3f} of independent keys."
    return measured(what, experiment.ratio, estimate(ratios, of_one=True), note=note)


def _expected_ratio(experiment: Experiment) -> float:
    """Odds of finding a key in the window, from equation 5."""
    weights = 1 / np.arange(1, UNIVERSE + 1) ** float(experiment.stream != "uniform")
    chances = weights / weights.sum()
    inside = float(-(chances * np.expm1(experiment.window * np.log1p(-chances))).sum())
    return inside / (1 - inside)


# Figures 7 to 12


def penalty_points(quick: bool) -> list[Point]:
    """Return a point for each experiment and number of bits per item."""
    return [
        {
            "stream": e.stream,
            "condition": e.condition,
            "window": e.window,
            "bits": bits,
            "hashes": [1, 2, 3, 4, 6, 8, 10] if quick else list(HASHES),
            "pilot": 1 << (14 if quick else 16),
            "queries": 1 << (14 if quick else _queries(e)),
            "seeds": [1, 2] if quick else [1, 2, 3, 4, 5],
        }
        for e in available()
        for bits in ((1, 8, 64) if quick else BITS)
    ]


def _queries(experiment: Experiment) -> int:
    """Logarithm of the queries of a run: more where errors are rare, all of a real stream."""
    if experiment.stream in REAL:
        return 18
    return 19 if experiment.condition == MOSTLY else 17


def measure_penalties(point: Point) -> Result:
    """Choose k for each filter on one stream, and measure both on others.

    Returns
    -------
    dict
        k of each of `FILTERS`; "runs": for each seed the penalties of each
        with its own k, and the errors "posterior_error" and
        "calibration_error" of the inferential one.
    """
    window, bits = point["window"], point["bits"]
    trial_stream = _stream(point, _PILOT)
    pilot = {
        k: trial(trial_stream, sizes(window, bits, k), point["pilot"], _PILOT)
        for k in point["hashes"]
    }
    best_k = {name: min(pilot, key=lambda k: pilot[k][name]) for name in FILTERS}
    runs = []
    for seed in point["seeds"]:
        stream = _stream(point, seed)
        found = {
            k: trial(stream, sizes(window, bits, k), point["queries"], seed)
            for k in set(best_k.values())
        }
        best = found[best_k["inferential"]]
        errors = {
            "posterior_error": posterior_error(best),
            "calibration_error": calibration_error(best),
        }
        inferred = {name: best[name] for name in ("denied", "false")}
        standard = {name: found[best_k["standard"]][name] for name in ("missed", "standard_false")}
        costs = {name: found[k][name] for name, k in best_k.items()}
        runs.append(costs | errors | inferred | standard)
    return {**best_k, "runs": runs}


def _stream(point: Point, seed: int) -> DistinctStream:
    name, window = point["stream"], point["window"]
    if name in REAL:
        return recorded(name, WARM[name])
    # The queries begin anywhere in a block of insertions.
    warm = window + int(np.random.default_rng([seed, window]).integers(window))
    queries = point["pilot"] if seed == _PILOT else point["queries"]
    return drawn(name, warm, queries, seed)


# Bits of section 4


def measure_bits(point: Point) -> Result:
    """Count the bits of the model whose timers are just so wide."""
    padding = (1 << point["timer_bits"]) - point["window"] - 3
    model = TimingBloomFilter(
        window=point["window"], cells=point["cells"], hashes=1, padding=padding
    )
    return {"item": model.storage_bits / point["window"]}


def conclude_bits(results: Results) -> Conclusion:
    """Hold the bits against the printed ones."""
    ((_, result),) = results
    found = computed("bits for each item of the window", "303", result["item"])
    return Conclusion([found], notes=PAPER.notes("btbf-bits"))


STUDIES = (
    PAPER.study("btbf-table-3", measure_ratio, conclude_ratio, points=ratio_points),
    PAPER.study("btbf-penalties", measure_penalties, conclude_penalties, points=penalty_points),
    PAPER.study("btbf-bits", measure_bits, conclude_bits),
)
"""Table 3, Figures 7 to 12, and the bits of a timing Bloom filter."""
