"""Reproduces Figures 2 to 9 of the APBF paper, and the numbers of accesses in Tables 2 and 3."""

from bisect import bisect_left
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.engine import Point, Result
from lately.golden import APBBF, APBF, BlockedGEBF, analysis
from lately.golden.ring.rings import SlidingFilter
from lately.golden.sizing import bloom_rate
from lately.golden.timestamp.distinct import expected_distinct, uniform_distinct
from lately.replay.drawing import Chart, Series
from papers.models.time_limited import slice_bits

from .streams import Keys, chunks, distinct, spread, uniform, zipf
from .studies.criteria import SHARES, positive, quotients, share, student
from .studies.paper import Conclusion, Finding, Paper, Results, chosen, figures, grouped

PAPER = Paper("apbf")  # Age-Partitioned Bloom Filters (Shtul, Baquero and Almeida).
WINDOW = 1000  # Window of sections 5.6.1 and 5.6.2, in insertions.


def build(k: int, l: int, window: int, seed: int) -> APBF:
    """Return the smallest APBF that guarantees a window of `window` insertions (section 5.2)."""
    generation = -(-window // l)
    bits = slice_bits(generation * k)
    return APBF(k=k, l=l, slice_bits=bits, generation=generation, seed=seed)


def fill(filter: SlidingFilter, seed: int) -> int:
    """Fill the ring twice with distinct keys, stopping just before a shift; return their number."""
    inserted = 2 * filter.spec.ring_segments * filter.spec.generation
    filter.insert(distinct(0, inserted, seed))
    return inserted


def universe(duplicates: float) -> int:
    def different(keys: int) -> float:
        return float(uniform_distinct(WINDOW, keys))

    return bisect_left(range(WINDOW**3), (1 - duplicates) * WINDOW, lo=2, key=different)


def zipf_universe(duplicates: float) -> int:
    def different(keys: int) -> float:
        weights = 1 / np.arange(1, keys + 1)
        return float(expected_distinct(WINDOW, weights / weights.sum()))

    return bisect_left(range(WINDOW**2), (1 - duplicates) * WINDOW, lo=2, key=different)


def stream(duplicates: float, count: int, seed: int) -> Keys:
    if not duplicates:
        return distinct(0, count, seed)
    return spread(uniform(count, universe(duplicates), seed), seed)


def expected_rate(k: int, l: int, window: int, duplicates: float) -> float:
    generation = -(-window // l)
    # Insertions into each slice: i + 1 generations into slice i, but k from slice k - 1 on.
    keys = generation * np.minimum(np.arange(k + l) + 1, k)
    distinct_keys = uniform_distinct(keys, universe(duplicates)) if duplicates else keys
    fills = [bloom_rate(count, slice_bits(generation * k), 1) for count in distinct_keys.tolist()]
    return analysis.apbf_false_positive_rate(k, l, fills=fills)


# Figures 2 and 4

K, L = 10, 15  # In both figures: slices that an insertion writes, and generations in the window.


def _filled(point: Point) -> tuple[APBF, int]:
    filter = build(K, L, L * point["generation"], point["seed"])
    return filter, fill(filter, point["seed"])


def measure_fills(point: Point) -> Result:
    filter, _ = _filled(point)
    return {"fills": filter.fill_ratios().tolist()}


def conclude_fills(results: Results) -> Conclusion:
    fills = np.array([result["fills"] for _, result in results])
    exact, linear = analysis.apbf_fills(K, L), analysis.apbf_fills(K, L, profile="linear")
    measured = [student(column) for column in fills.T.tolist()]
    findings = [
        PAPER.find("fill", measured[i], i=i, next=i + 1, linear=(i + 1) / (2 * K), exact=exact[i])
        for i in range(K)
    ]
    findings.append(PAPER.find("full", student(fills[:, K:].mean(axis=1).tolist())))
    slices = list(range(K + L))
    series = [
        Series.estimated("measured", slices, measured, marks=True),
        Series("$1 - 2^{-(i+1)/k}$", slices, exact),
        Series("$(i+1)/2k$, the paper's", slices, linear),
    ]
    return Conclusion(findings, [PAPER.chart("apbf-figure-2", series, k=K, l=L)])


def measure_forgetting(point: Point) -> Result:
    filter, last = _filled(point)
    generation, seed = point["generation"], point["seed"]
    starts = [last - (age + 1) * generation for age in range(2 * K + L)]
    keys = (distinct(start, generation, seed) for start in starts)
    return {"reported": [int(filter.query(group).sum()) for group in keys]}


def conclude_forgetting(results: Results) -> Conclusion:
    shares = np.array(
        [np.array(result["reported"]) / point["generation"] for point, result in results]
    )
    measured = [student(column, within=SHARES) for column in shares.T.tolist()]
    asked = L * sum(point["generation"] for point, _ in results)
    missed = asked - sum(sum(result["reported"][:L]) for _, result in results)
    findings = [PAPER.find("missed", share(missed, asked))]
    expected = [_reported(age) for age in range(len(measured))]
    for i in range(K):
        # The paper prints only the first three, then 'and so on'.
        fields = {"number": i + 1, "paper": ("1", "0.5", "0.25")[i] if i < 3 else ""}
        findings.append(PAPER.find("slack", measured[L + i], exact=expected[L + i], **fields))
    excess = student((shares[:, L : L + K].sum(axis=1) / L).tolist())
    findings.append(PAPER.find("peak-npws", excess, formula=analysis.npws(K, L, 1 / 2)))
    ages = list(range(len(measured)))
    series = [
        Series.estimated("measured", ages, measured, marks=True),
        Series("expected", ages, expected),
        Series("$2^{-i}$, the paper's", ages[L : L + K], [2.0**-i for i in range(K)]),
    ]
    background = analysis.apbf_false_positive_rate(K, L)
    chart = PAPER.chart("apbf-figure-4", series, k=K, l=L)
    return Conclusion(findings, [chart], {"background": background})


def _reported(age: int) -> float:
    """Return the probability that a key of this age is reported.

    The slices to which the key was written always match.
    """
    fills = analysis.apbf_fills(K, L)
    fills[age : age + K] = [1.0] * len(fills[age : age + K])
    return analysis.apbf_false_positive_rate(K, L, fills=fills)


# Figure 6

INSERTIONS = 10_000  # Length of a stream, in insertions.
STEP = 50  # Insertions between two samples.


def measure_accuracy(point: Point) -> Result:
    filter = build(point["k"], point["l"], WINDOW, point["seed"])
    generation = filter.spec.generation
    grid = set(range(STEP, INSERTIONS + 1, STEP))
    before = set(range(generation, INSERTIONS + 1, generation))
    after = {count + 1 for count in before if count < INSERTIONS}
    moments = _moments(point["seed"])
    rates: dict[int, float] = {}
    missed = hits = inserted = 0
    for count in sorted(grid | before | after | moments):
        filter.insert(distinct(inserted, count - inserted, point["seed"]))
        inserted = count
        rates[count] = filter.estimated_false_positive_rate()
        if count in grid:
            window = min(count, WINDOW)
            kept = filter.query(distinct(count - window, window, point["seed"]))
            missed += int(np.count_nonzero(~kept))
        if count == max(before):
            probes = chunks(INSERTIONS, INSERTIONS + point["probes"], point["seed"])
            hits = sum(int(np.count_nonzero(filter.query(fresh))) for fresh in probes)
    return {
        "rates": [rates[count] for count in sorted(grid)],
        "peak": _mean(rates, before),
        "trough": _mean(rates, after),
        "mean": _mean(rates, moments),
        "missed": missed,
        "hits": hits,
    }


def _moments(seed: int) -> set[int]:
    stretches = np.arange(0, INSERTIONS, STEP)
    within = np.random.default_rng([seed, 6]).integers(1, STEP, len(stretches), endpoint=True)
    return {int(count) for count in stretches + within}


def _mean(rates: dict[int, float], moments: set[int]) -> float:
    return float(np.mean([rates[count] for count in moments if count > INSERTIONS // 2]))


def conclude_accuracy(results: Results) -> Conclusion:
    findings, series, swings = [], [], []
    for (k, l), runs in grouped(results, "k", "l").items():
        fields: dict[str, Any] = {
            "k": k,
            "l": l,
            "paper": PAPER.table("2").row(k, l)["actual_fp"],
            "exact": analysis.apbf_false_positive_rate(k, l),
            "probes": sum(point["probes"] for point, _ in runs),
            "aim": 10.0 ** -runs[0][0]["aim"],
        }
        probed = [result["hits"] / point["probes"] for point, result in runs]
        values = {
            "peak": student(figures(runs, "peak")),
            "probed": student(probed, within=SHARES),
            "mean": student(figures(runs, "mean")),
            "zigzag": student(_swings(runs)),
        }
        findings += [PAPER.find(name, value, **fields) for name, value in values.items()]
        swings.append(findings[-1].ours)
        rates = np.array(figures(runs, "rates"))
        # Skip the first insertions, whose rates are too small for the logarithmic axis.
        shown = np.flatnonzero(rates.min(axis=0) > fields["aim"] / 1000)
        means = [student(rates[:, at].tolist())[0] for at in shown]
        series.append(Series(f"k = {k}, l = {l}", (STEP * (1 + shown)).tolist(), means))
    less = sum(high > low for high, low in pairwise(swings))
    findings.append(PAPER.find("calmer", less, neighbours=len(swings) - 1))
    missed = sum(figures(results, "missed"))
    asked = len(results) * sum(min(count, WINDOW) for count in range(STEP, INSERTIONS + 1, STEP))
    findings.append(PAPER.find("missed", share(missed, asked)))
    return Conclusion(findings, [PAPER.chart("apbf-figure-6", series)])


def _swings(runs: Results) -> list[float]:
    return [result["peak"] / result["trough"] - 1 for _, result in runs]


# Amplitude of the zig-zag, for filters of the same false-positive rate


def conclude_zigzag(results: Results) -> Conclusion:
    swings = {pair: _swings(runs) for pair, runs in grouped(results, "k", "l").items()}
    findings = [
        PAPER.find("zigzag-expected", student(values), k=k, l=l, expected=_expected_swing(k, l))
        for (k, l), values in swings.items()
    ]
    for (low, less), (high, more) in pairwise(swings.items()):
        findings.append(
            PAPER.find("attenuated", student(quotients(more, less)), low=low, high=high)
        )
    return Conclusion(findings)


def _expected_swing(k: int, l: int) -> float:
    before = analysis.apbf_fills(k, l)
    high, low = (
        analysis.apbf_false_positive_rate(k, l, fills=f) for f in (before, [0.0, *before[:-1]])
    )
    return high / low - 1


# Figures 7 and 8

_LENGTH = 6000
_HALF = 0.5


def measure_duplicates(point: Point) -> Result:
    seeds = range(point["seeds"])
    runs = [_run(point, stream(point["duplicates"], _LENGTH, seed), seed) for seed in seeds]
    rates, duplicates = zip(*runs, strict=True)
    return {"rates": rates, "duplicates": duplicates}


def _run(point: Point, keys: Keys, seed: int) -> tuple[float, float]:
    filter = build(point["k"], point["l"], WINDOW, seed)
    generation = filter.spec.generation
    rates, duplicates = [], []
    for start in range(0, _LENGTH - generation + 1, generation):
        end = start + generation
        filter.insert(keys[start:end])
        if start >= _LENGTH // 2:
            rates.append(filter.estimated_false_positive_rate())
            duplicates.append(1 - len(np.unique(keys[end - WINDOW : end])) / WINDOW)
    return float(np.mean(rates)), float(np.mean(duplicates))


def measure_zipf(point: Point) -> Result:
    keys = zipf_universe(_HALF)
    runs = [
        (
            _run(point, stream(_HALF, _LENGTH, seed), seed),
            _run(point, spread(zipf(_LENGTH, keys, 1.0, seed), seed), seed),
        )
        for seed in range(point["seeds"])
    ]
    even, skewed = (list(zip(*column, strict=True)) for column in zip(*runs, strict=True))
    return {"uniform": even, "zipf": skewed}


def conclude_lowest(results: Results) -> Conclusion:
    findings = []
    for pair, runs in grouped(results, "k", "l").items():
        findings += [_left_over(pair, _rates(runs)), _bend(pair, _rates(runs))]
    return Conclusion(findings, [_chart(7, results)])


def conclude_tenth(results: Results) -> Conclusion:
    groups = grouped(results, "k", "l")
    findings = [_left_over(pair, _rates(runs)) for pair, runs in groups.items()]
    ordered = sum(low.ours < high.ours for low, high in pairwise(findings))
    findings.append(PAPER.find("keeps-more", ordered, neighbours=len(findings) - 1))
    return Conclusion(findings, [_chart(8, results)])


def conclude_zipf(results: Results) -> Conclusion:
    findings = []
    for point, result in results:
        (even, _), (skewed, shares) = result["uniform"], result["zipf"]
        fields = {"k": point["k"], "l": point["l"], "duplicates": np.mean(shares)}
        findings.append(PAPER.find("zipf", student(quotients(skewed, even)), **fields))
    return Conclusion(findings)


Rates = dict[float, list[float]]  # Rate of duplicates -> false-positive rates, one per seed.


def _rates(runs: Results) -> Rates:
    return {point["duplicates"]: result["rates"] for point, result in runs}


def _left_over(pair: tuple[Any, ...], rates: Rates) -> Finding:
    k, l = pair
    left = student(quotients(rates[_HALF], rates[0.0]))
    expected = expected_rate(k, l, WINDOW, _HALF) / expected_rate(k, l, WINDOW, 0.0)
    return PAPER.find("left-over", left, k=k, l=l, expected=expected)


def _bend(pair: tuple[Any, ...], rates: Rates) -> Finding:
    """Compare two successive falls of log(rate), which are equal if the decline is exponential."""
    first, middle, last = (np.log(rates[duplicates]) for duplicates in (0.0, _HALF / 2, _HALF))
    fall = student(((middle - last) / (first - middle)).tolist())
    return PAPER.find("bend", fall, k=pair[0], l=pair[1])


def _chart(number: int, results: Results) -> Chart:
    marks, lines = [], []
    for (k, l), runs in grouped(results, "k", "l").items():
        label = f"k = {k}, l = {l}"
        x = [float(np.mean(shares)) for shares in figures(runs, "duplicates")]
        rates = [student(rates_of_seeds) for rates_of_seeds in figures(runs, "rates")]
        marks.append(Series.estimated(label, x, rates, marks=True))
        asked = np.linspace(0, runs[-1][0]["duplicates"], 36).tolist()
        lines.append(Series(label, asked, [expected_rate(k, l, WINDOW, d) for d in asked]))
    return PAPER.chart(f"apbf-figure-{number}", [*marks, *lines])


# Accesses of queries, in the search orders of section 5.4

CASES = {"window": "window", "fp": "false positive", "false": "false"}
"""Kinds of queries in `analysis.apbf_accesses`, by column of the tables."""

Accesses = NDArray[np.int64]  # Segments read for each of n keys, shape (n,).

# Whether each segment, youngest first, contains each key, as `SlidingFilter.matches` returns it;
# shape (ring_segments, n).
Matches = NDArray[np.bool_]


def backward(matches: Matches, run: int) -> Accesses:
    """Count the accesses of Algorithm 1.

    The search starts near the oldest segment, and can skip segments.
    """
    segments, count = matches.shape
    at = np.full(count, segments - run)
    before, now, accesses = np.zeros((3, count), np.int64)
    walking = np.arange(count)
    while len(walking):
        accesses[walking] += 1
        hit = matches[at[walking], walking]
        matched, lost = walking[hit], walking[~hit]
        now[matched] += 1
        at[matched] += 1
        before[lost], now[lost] = now[lost], 0
        at[lost] -= run
        walking = walking[(at[walking] >= 0) & (before[walking] + now[walking] < run)]
    return accesses


def forward(matches: Matches, run: int) -> Accesses:
    return backward(matches[::-1], run)


def linear(matches: Matches, run: int) -> Accesses:
    """Count the accesses of a linear scan that starts at the youngest segment.

    The scan ends when it finds a run, or when a run is no longer possible.
    """
    segments, count = matches.shape
    accesses, now = np.zeros((2, count), np.int64)
    for number, match in enumerate(matches):
        walking = (now < run) & (now + segments - number >= run)
        accesses += walking
        now = np.where(walking, (now + 1) * match, now)
    return accesses


WALKS = {walk.__name__: walk for walk in (backward, forward, linear)}
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

GENERATION = 500  # Insertions between two shifts.


def measure_accesses(point: Point) -> Result:
    filter = build(point["k"], point["l"], point["l"] * GENERATION, point["seed"])
    return _queries(filter, fill(filter, point["seed"]), point)


def conclude_accesses(results: Results) -> Conclusion:
    findings: list[Finding] = []
    walks: list[Finding] = []
    names = {"forward": "from the youngest slices", "linear": "of a linear scan"}
    seen = set()
    for (aim, k, l), runs in grouped(results, "aim", "k", "l").items():
        row = PAPER.table("2").row(k, l)
        for column, case in CASES.items():
            value = student([counts["backward"] for counts in figures(runs, column) if counts])
            fields = {"case": case, "paper": row[f"accesses_{column}"]}
            exact = analysis.apbf_accesses(k, l, case)
            findings.append(PAPER.find("accesses", value, k=k, l=l, exact=exact, **fields))
        # Rows are ordered: for each rate, the fewest slices come first.
        for walk, column in product(names, ("window", "false")) if aim not in seen else ():
            counts_of_runs = figures(runs, column)
            value = positive([counts[walk] / counts["backward"] for counts in counts_of_runs])
            walks.append(PAPER.find("walk", value, k=k, l=l, walk=names[walk], case=column))
        seen.add(aim)
    return Conclusion(findings + walks)


# Section 6

NAIVE = (2, 5, 512, 8)  # The row that the paper compares with blocked filters in sequence.


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
    """Measure six blocked filters in sequence.

    Together, they have the memory and the window of `filter`.
    """
    spec = filter.spec
    other = BlockedGEBF(
        window=spec.guaranteed_window,
        epochs=5,  # An NPWS of 0.2.
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
    for (row,), runs in grouped(results, "row").items():
        printed = table.row(*row)
        name = table.name(printed)
        rate = student(figures(runs, "rate"))
        findings.append(PAPER.find("block-rate", rate, row=name, paper=printed["fp_apbbf"]))
        for column in ("window", "false"):
            value = student([walks["backward"] for walks in figures(runs, column)])
            fields = {"row": name, "case": column, "paper": printed[f"accesses_{column}"]}
            findings.append(PAPER.find("block-accesses", value, **fields))
    compared = [result for _, result in results if "naive" in result]
    if compared:
        naive = [result["naive"] for result in compared]
        rates, others = ([run["rate"] for run in group] for group in (compared, naive))
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
    """Build a filter with `parts` slices per segment and k = 10 / parts.

    The slices of all designs have the same size.
    """
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
    smooth = _swings(chosen(results, parts=1))
    for (parts, generation), runs in grouped(results, "parts", "generation").items():
        findings += _design(parts, generation, runs, smooth)
        means = np.array(figures(runs, "fills")).mean(axis=0).tolist()
        k = SLICES // parts
        series.append(Series(f"k = {k}, l = {RATIO * k}", list(range(len(means))), means))
    asked, missed = (sum(figures(results, name)) for name in ("asked", "missed"))
    findings.append(PAPER.find("missed", share(missed, asked)))
    return Conclusion(findings, [PAPER.chart("apbf-figure-9", series)])


def _design(parts: int, generation: int, runs: Results, smooth: list[float]) -> list[Finding]:
    spec, first = (design(each, generation, 0).spec for each in (parts, 1))
    expected = spec.worst_false_positive_rate
    values: dict[str, Any] = {
        "memory": spec.memory_bits / first.memory_bits,
        "window": spec.guaranteed_window / first.guaranteed_window,
        "generation": spec.generation / first.generation,
        "full": student([float(np.mean(fills[SLICES:])) for fills in figures(runs, "fills")]),
        "zigzag": student(quotients(_swings(runs), smooth)),
        "peak": student([peak / expected for peak in figures(runs, "peak")]),
    }
    # A design of one slice a segment is the one that the others are compared with.
    names = ("full", "peak") if parts == 1 else tuple(values)
    fields = {"k": spec.run, "l": spec.window_generations, "parts": parts, "expected": expected}
    return [PAPER.find(f"design-{name}", values[name], **fields) for name in names]


STUDIES = (
    PAPER.study("apbf-figure-2", measure_fills, conclude_fills),
    PAPER.study("apbf-figure-4", measure_forgetting, conclude_forgetting),
    PAPER.study("apbf-figure-6", measure_accuracy, conclude_accuracy),
    PAPER.study("apbf-zigzag", measure_accuracy, conclude_zigzag),
    PAPER.study("apbf-figure-7", measure_duplicates, conclude_lowest),
    PAPER.study("apbf-figure-8", measure_duplicates, conclude_tenth),
    PAPER.study("apbf-zipf", measure_zipf, conclude_zipf),
    PAPER.study("apbf-accesses", measure_accesses, conclude_accesses),
    PAPER.study("apbf-blocks", measure_blocked, conclude_blocked),
    PAPER.study("apbf-figure-9", measure_design, conclude_designs),
)
