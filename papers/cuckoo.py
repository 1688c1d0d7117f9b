"""Reproduces the figures and Theorems 2 and 3 of the cuckoo paper."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.engine import Point, Result
from lately.golden.sizing import best_hashes
from lately.golden.timestamp.timing import TimingBloomFilter
from lately.replay.drawing import Chart, Estimate, Series
from papers.models.cuckoo import CuckooDictionary, time_decaying_space_bound

from .streams import Keys, absence, insertion_ages, real, uniform, zipf
from .studies.criteria import SHARES, positive, quotient, quotients, scaled, share, student
from .studies.paper import Conclusion, Finding, Paper, Results, chosen, figures, grouped

PAPER = Paper("cuckoo")  # Near-optimal Approximate Membership Query over Time-decaying Windows.
WINDOW = 1000  # Window of Figures 4 to 7, 11 and 12.
UNIVERSE = 100_000  # Number of keys that the synthetic streams draw from, as in the paper.
SIGNATURE = 4  # Bits of a signature, and hash functions of the timing Bloom filter.
BEST = 0  # In place of a number of hash functions: the best one for the stream.

LABELS: dict[str, str] = PAPER.data["labels"]  # Legends of the `structures` compared.
DICTIONARIES = ("plain", "signed")  # The paper's own structures.
NAMES: dict[str, str] = PAPER.data["streams"]  # Descriptions of the real streams.

_FRESH = 1 << 40  # fresh keys start here
_PATIENCE = 10  # factor of additional queries of the dictionary, because its error rate is low

Setup = partial[CuckooDictionary] | partial[TimingBloomFilter]  # Called with a seed.

Runs = dict[str, list[list[Result]]]
"""Runs by structure, with one run per seed for each value on the figure's axis."""


def dictionary(counters: int, bits: int, window: int) -> partial[CuckooDictionary]:
    """Set up a dictionary whose memory is `counters` counters.

    A position takes two counters, or three if it also holds a signature.
    """
    positions = round(counters / (6 if bits else 4))
    return partial(CuckooDictionary, window=window, positions=positions, signature_bits=bits)


def timing(counters: int, hashes: int, window: int) -> partial[TimingBloomFilter]:
    sizes = {"window": window, "cells": counters, "hashes": hashes}
    return partial(TimingBloomFilter, **sizes, padding=window)


def structures(counters: int, window: int) -> dict[str, Setup]:
    return {
        "timing": timing(counters, SIGNATURE, window),
        "best": timing(counters, BEST, window),
        "plain": dictionary(counters, 0, window),
        "signed": dictionary(counters, SIGNATURE, window),
    }


def timing_bits(window: int, rate: float) -> float:
    cells = window * math.log(1 / rate) / math.log(2) ** 2
    return cells * (2 * window + 2).bit_length()


def attacked(keys: Keys, window: int, seed: int) -> Keys:
    """Return a stream in which each key is followed by a replay with probability 1/2.

    A replay repeats one of the last `window` keys.
    """
    rng = np.random.default_rng(seed)
    stream: list[int] = []
    for key, replay, share_back in zip(
        keys.tolist(), rng.random(len(keys)) < 0.5, rng.random(len(keys)), strict=True
    ):
        stream.append(key)
        if replay:
            stream.append(stream[-1 - int(share_back * min(window, len(stream)))])
    return np.array(stream, np.uint64)


def run_all(point: Point, values: Iterable[Mapping[str, Setup]]) -> Result:
    runs: dict[str, list[Result]] = {}
    for label, setup in ((label, setup) for setups in values for label, setup in setups.items()):
        sizes = setup.keywords
        keys = _stream(point, sizes["window"])
        if keys is None:
            return {"runs": None}
        if sizes.get("hashes") == BEST:
            window = sizes["window"]
            ends = range(window, len(keys) + 1, window)
            distinct = statistics.fmean(len(np.unique(keys[end - window : end])) for end in ends)
            setup = partial(setup, hashes=best_hashes(sizes["cells"], distinct))
        fresh = point["fresh"] * (1 if "hashes" in sizes else _PATIENCE)
        run = _run(setup(seed=point["seed"]), keys, fresh, point["seed"])
        runs.setdefault(label, []).append(run)
    return {"runs": runs}


def _stream(point: Point, window: int) -> Keys | None:
    if "z" in point:
        return zipf(2 * window + point["measured"], UNIVERSE, point["z"], point["seed"])
    keys = real(point["real"], point["measured"])
    if keys is not None and point["attack"]:
        return attacked(keys, window, point["seed"])
    return keys


def _run(filter: CuckooDictionary | TimingBloomFilter, keys: Keys, fresh: int, seed: int) -> Result:
    window = filter.window
    within = insertion_ages(keys) < window
    reported = np.empty(len(keys), np.bool_)
    ends = [*range(window, len(keys), max(1, (len(keys) - window) // 10)), len(keys)]
    start, hits, theory, listed = 0, 0, [], []
    for number, end in enumerate(ends):
        reported[start:end] = filter.check_and_insert(keys[start:end])
        start = end
        asked = uniform(fresh // len(ends), _FRESH, 1000 * seed + number) + np.uint64(_FRESH)
        hits += int(filter.query(asked).sum())
        if isinstance(filter, CuckooDictionary):
            theory.append(filter.expected_false_positive_rate())
            listed.append(filter.overflow)
    absent = ~within[window:]
    result: Result = {
        "missed": int((within & ~reported).sum()),
        "absent": int(absent.sum()),
        "false": int((reported[window:] & absent).sum()),
        "fresh": fresh // len(ends) * len(ends),
        "hits": hits,
        "bits": filter.storage_bits,
    }
    if isinstance(filter, CuckooDictionary):
        result |= {
            "theory": statistics.fmean(theory),
            "bound": filter.error_bound,
            "listed": statistics.fmean(listed),
            "peak": filter.overflow_peak,
            "bits": filter.storage_bits + filter.overflow_peak * filter.listed_bits,
        }
    return result


# Estimates from the runs of all seeds


def fresh_rate(runs: Sequence[Result]) -> Estimate:
    return _pooled([(run["hits"], run["fresh"]) for run in runs], exact="theory" in runs[0])


def _pooled(pairs: Sequence[tuple[int, int]], *, exact: bool) -> Estimate:
    hits, trials = (sum(column) for column in zip(*pairs, strict=True))
    rate, low, high = share(hits, trials)
    if not exact and len(pairs) > 1 and all(pair[1] for pair in pairs):
        _, lower, upper = positive([hits / trials for hits, trials in pairs])
        low, high = min(low, lower), max(high, upper)
    return rate, low, high


def mean(runs: Sequence[Result], name: str) -> Estimate:
    return positive([run[name] for run in runs])


def by_structure(results: Results) -> Runs:
    runs = figures(results, "runs")
    return {
        label: list(map(list, zip(*(by_label[label] for by_label in runs), strict=True)))
        for label in runs[0]
    }


def here(runs: Runs, at: int) -> dict[str, list[Result]]:
    return {label: values[at] for label, values in runs.items()}


def rate_series(runs: Runs, x: Mapping[str, Any] | Sequence[float]) -> list[Series]:
    series = []
    for label, values in runs.items():
        axis = x[label] if isinstance(x, Mapping) else x
        rates = dict(zip(axis, map(fresh_rate, values), strict=True))
        shown = {at: rate for at, rate in rates.items() if rate[0] > 0}
        name = LABELS.get(label, label)
        series.append(Series.estimated(name, list(shown), list(shown.values())))
    return series


def list_series(runs: Runs, x: Sequence[float], suffix: str = "") -> list[Series]:
    return [
        Series.estimated(LABELS[name] + suffix, x, [mean(value, "peak") for value in runs[name]])
        for name in DICTIONARIES
    ]


def no_misses(results: Results) -> Finding:
    present = [runs for runs in figures(results, "runs") if runs]
    missed = [run["missed"] for runs in present for seeds in runs.values() for run in seeds]
    return PAPER.find("missed", sum(missed))


def comparison(at: str, runs: dict[str, list[Result]]) -> list[Finding]:
    findings = []
    rates = {name: fresh_rate(seeds) for name, seeds in runs.items()}
    for name in DICTIONARIES:
        theory = mean(runs[name], "theory")[0]
        fields = {"at": at, "label": LABELS[name], "bound": runs[name][0]["bound"]}
        fields |= {"theory": theory, "half": theory / 2}
        findings += [
            PAPER.find("rate", rates[name], **fields),
            PAPER.find("timing-over", quotient(rates["timing"], rates[name]), at=at),
            PAPER.find("best-timing-over", quotient(rates["best"], rates[name]), at=at),
        ]
    return findings


def stream_keys(at: str, runs: dict[str, list[Result]]) -> list[Finding]:
    findings = []
    for name, seeds in runs.items():
        rate = _pooled([(run["false"], run["absent"]) for run in seeds], exact=False)
        findings.append(PAPER.find("own-keys", rate, at=at, label=LABELS[name]))
    return findings


# Figures 4 and 7


def measure_streams(point: Point) -> Result:
    if "windows" in point:
        return run_all(point, [structures(20_000, window) for window in point["windows"]])
    window, unit = point.get("window", WINDOW), point.get("window", 1)
    return run_all(point, [structures(unit * count, window) for count in point["counters"]])


def conclude_zipf(results: Results) -> Conclusion:
    findings, charts, lists = [], [], []
    counters = results[0][0]["counters"]
    largest: list[list[Estimate]] = []
    for (z,), group in grouped(results, "z").items():
        runs = by_structure(group)
        names = {at: f"z = {z:g}, {counters[at]:,} counters" for at in (0, -1)}
        for at, name in names.items():
            findings += [*comparison(name, here(runs, at)), *stream_keys(name, here(runs, at))]
        largest.append([fresh_rate(runs[label][-1]) for label in DICTIONARIES])
        findings += [
            PAPER.find("listed", mean(runs[label][at], "peak"), at=f"{name}: {LABELS[label]}")
            for label in DICTIONARIES
            for at, name in names.items()
        ]
        lists += list_series(runs, counters, f", z = {z:g}")
        bits = {
            name: [mean(seeds, "bits")[0] / 1000 for seeds in values]
            for name, values in runs.items()
        }
        charts.append(PAPER.chart("cuckoo-figure-4", rate_series(runs, bits), z=z))
    for label, even, skewed in zip(DICTIONARIES, *largest, strict=True):
        findings.append(PAPER.find("skew", quotient(even, skewed), label=LABELS[label]))
    findings.append(no_misses(results))
    return Conclusion(findings, [*charts, PAPER.chart("cuckoo-figure-7", lists)])


# Figures 9 and 10


def conclude_window(results: Results) -> Conclusion:
    windows = results[0][0]["windows"]
    runs = by_structure(results)
    findings = []
    for at in (0, -1):
        name = f"n = {windows[at]:,}"
        findings += comparison(name, here(runs, at))
        for label in DICTIONARIES:
            group = runs[label][at]
            bits = [timing_bits(windows[at], run["theory"]) / run["bits"] for run in group]
            findings.append(PAPER.find("bits", positive(bits), at=name, label=LABELS[label]))
    for label in DICTIONARIES:
        first, last = ([run["peak"] for run in runs[label][at]] for at in (0, -1))
        more = student([after - before for before, after in zip(first, last, strict=True)])
        fields = {"label": LABELS[label], "first": windows[0], "last": windows[-1]}
        findings.append(PAPER.find("list-grows", more, **fields))
        shares = positive([peak / windows[-1] for peak in last])
        findings.append(PAPER.find("list-over-window", shares, **fields))
    findings.append(no_misses(results))
    charts = [
        PAPER.chart("cuckoo-figure-9", rate_series(runs, windows)),
        PAPER.chart("cuckoo-figure-10", list_series(runs, windows)),
    ]
    return Conclusion(findings, charts)


# Figure 12

PAIR = ("timing Bloom filter, K hashes", "dictionary, signature of K bits")


def measure_signature(point: Point) -> Result:
    setups = ((make(10_000, k, WINDOW) for make in (timing, dictionary)) for k in point["lengths"])
    return run_all(point, [dict(zip(PAIR, pair, strict=True)) for pair in setups])


def conclude_signature(results: Results) -> Conclusion:
    lengths = results[0][0]["lengths"]
    runs = by_structure(results)
    rates = {name: [fresh_rate(value) for value in runs[name]] for name in PAIR}
    filters, dictionaries = rates.values()
    lowest = min(range(len(lengths)), key=lambda at: filters[at][0])
    findings = [
        PAPER.find("signature", rates[name][lengths.index(length)], length=length, label=name)
        for length in (1, 4, 10)
        for name in PAIR
    ]
    last, best = ([run["hits"] / run["fresh"] for run in runs[PAIR[0]][at]] for at in (-1, lowest))
    fields = {"lowest": lengths[lowest], "best": best_hashes(10_000, WINDOW)}
    falls = quotient(dictionaries[0], dictionaries[lengths.index(4)])
    findings += [
        PAPER.find("too-many-hashes", positive(quotients(last, best)), **fields),
        PAPER.find("signature-falls", falls),
        no_misses(results),
    ]
    bounds = [seeds[0]["bound"] for seeds in runs[PAIR[1]]]
    series = [*rate_series(runs, lengths), Series("bound of the dictionary", lengths, bounds)]
    return Conclusion(findings, [PAPER.chart("cuckoo-figure-12", series)])


# Figure 13


def conclude_real(results: Results) -> Conclusion:
    findings: list[Finding] = []
    charts: list[Chart] = []
    missing: list[str] = []
    for (name, window), group in grouped(results, "real", "window").items():
        called = NAMES[name]
        if None in figures(group, "runs"):
            missing.append(absence(name, called))
            continue
        counters = group[0][0]["counters"]
        runs = by_structure(group)
        at = here(runs, counters.index(2))
        findings += [*comparison(called, at), *stream_keys(called, at)]
        label = f"{called}: most in the list, no signature"
        findings.append(PAPER.find("value", mean(at["plain"], "peak"), label=label))
        series = rate_series(runs, [each * window for each in counters])
        charts.append(PAPER.chart("cuckoo-figure-13", series, stream=name, called=called))
    return Conclusion([*findings, no_misses(results)], charts, missing=missing)


# Figure 14


def measure_age(point: Point) -> Result:
    keys = (
        zipf(point["count"], UNIVERSE, 0.0, point["seed"])
        if point["stream"] == "uniform"
        else real(point["stream"], point["count"])
    )
    if keys is None:
        return {"runs": None}
    window, runs = point["window"], {}
    setups = structures(20_000, window)
    for label in ("timing", "plain"):
        filter, errors = setups[label](seed=point["seed"]), []
        for start in range(0, len(keys) - 1000, 1000):
            asked = keys[start : start + 1000]
            if start >= window:
                truth = _last(keys[start - window : start], asked)
                guess = filter.age(asked) + 1
                errors.append((truth - guess)[truth > 0])
            filter.insert(asked)
        error = np.concatenate(errors)
        shares = [float((error <= limit).mean()) for limit in point["errors"]]
        runs[label] = {"mean": float(error.mean()), "shares": shares}
    return {"runs": runs}


def _last(recent: Keys, asked: Keys) -> NDArray[np.int64]:
    unique, newest = np.unique(recent[::-1], return_index=True)
    index = np.minimum(np.searchsorted(unique, asked), len(unique) - 1)
    return np.where(unique[index] == asked, newest[index] + 1, 0)


def conclude_age(results: Results) -> Conclusion:
    findings: list[Finding] = []
    charts: list[Chart] = []
    missing: list[str] = []
    for (name,), group in grouped(results, "stream").items():
        runs = figures(group, "runs")
        called = NAMES.get(name, "uniform keys")
        if None in runs:
            missing.append(absence(name, called))
            continue
        means, series = {}, []
        for label in runs[0]:
            columns = zip(*(run[label]["shares"] for run in runs), strict=True)
            shares = [student(column, within=SHARES) for column in columns]
            means[label] = mean([run[label] for run in runs], "mean")
            errors = [1 + error for error in group[0][0]["errors"]]
            series.append(Series.estimated(LABELS[label], errors, shares))
            fields = {"called": called, "label": LABELS[label]}
            findings += [
                PAPER.find("age-error", means[label], **fields),
                PAPER.find("age-exact", shares[0], **fields),
            ]
        over = quotient(means["plain"], means["timing"])
        findings.append(PAPER.find("age-over", over, called=called))
        charts.append(PAPER.chart("cuckoo-figure-14", series, stream=name, called=called))
    return Conclusion(findings, charts, missing=missing)


# Theorem 2


def measure_list(point: Point) -> Result:
    loads, windows = point["loads"], point["windows"]
    return {"runs": [[_filled(window, load, point) for window in windows] for load in loads]}


def _filled(window: int, load: float, point: Point) -> Result:
    filter = CuckooDictionary(window=window, positions=round(load * window), seed=point["seed"])
    count = max(point["insertions"], 6 * window)
    keys = uniform(count, 1 << 62, point["seed"])
    moved, listed = _inserted(filter, keys)
    return {
        "insertions": count,
        "peak": filter.overflow_peak,
        "listed": statistics.fmean(listed),
        "moved": moved / (count - 2 * window),
    }


def _inserted(filter: CuckooDictionary, keys: Keys) -> tuple[int, list[int]]:
    window = filter.window
    filter.insert(keys[: 2 * window])
    before, listed = filter.moved, []
    step = max(window // 4, 1)
    for start in range(2 * window, len(keys), step):
        filter.insert(keys[start : start + step])
        listed.append(filter.overflow)
    return filter.moved - before, listed


def conclude_list(results: Results) -> Conclusion:
    windows, loads = (results[0][0][name] for name in ("windows", "loads"))
    findings, lists, moves = [], [], []
    for number, load in enumerate(loads):
        columns = [*zip(*(runs[number] for runs in figures(results, "runs")), strict=True)]
        listed = [_mean_list(n, runs) for n, runs in zip(windows, columns, strict=True)]
        moved = [mean(runs, "moved") for runs in columns]
        first, names = (-1, ("list", "moves")) if number else (0, ("list-bounded", "moves-bounded"))
        for window, value in list(zip(windows, listed, strict=True))[first:]:
            findings.append(PAPER.find(names[0], value, load=load, window=window))
        findings.append(PAPER.find(names[1], moved[-1], load=load, window=windows[-1]))
        lists.append(Series.estimated(f"{load:g} n positions", windows, listed))
        moves.append(Series.estimated(f"{load:g} n positions", windows, moved))
    charts = {"cuckoo-theorem-2-list": lists, "cuckoo-theorem-2-moves": moves}
    return Conclusion(findings, [PAPER.chart(name, series) for name, series in charts.items()])


def _mean_list(window: int, runs: Sequence[Result]) -> Estimate:
    listed, low, high = mean(runs, "listed")
    if not any(run["peak"] for run in runs):
        high = window * share(0, sum(run["insertions"] for run in runs))[2]
    return listed, low, high


# Theorem 3 and the bits of section IV


def measure_space(point: Point) -> Result:
    filter = CuckooDictionary.for_error_rate(
        window=point["window"], error_rate=point["error_rate"], seed=point["seed"]
    )
    filter.insert(uniform(point["insertions"], 1 << 62, point["seed"]))
    return {
        "signature": filter.signature_bits,
        "tables": filter.storage_bits,
        "variable": filter.variable_length_bits,
        "expected": filter.expected_false_positive_rate(),
    }


def conclude_space(results: Results) -> Conclusion:
    findings = []
    for point, result in results:
        rate, window, expected = point["error_rate"], point["window"], result["expected"]
        tables, variable = result["tables"], result["variable"]
        other, achieved = timing_bits(window, rate), timing_bits(window, expected)
        bound = time_decaying_space_bound(window=window, universe=UNIVERSE, error_rate=rate)
        values = {
            "signature": result["signature"],
            "tables": tables / window,
            "variable": variable / window,
            "timing": other / window,
            "bound": bound / window,
            "ratio": tables / other,
            "achieved": tables / achieved,
            "achieved-variable": variable / achieved,
        }
        fields = {"rate": rate, "window": window, "expected": expected}
        fields["saving"] = 1 / math.log2(1 / rate)
        findings += [PAPER.find(f"space-{name}", value, **fields) for name, value in values.items()]
    return Conclusion(findings)


# Memory accesses, instead of running times

_TABLES = 2

KINDS: dict[str, str] = PAPER.data["accesses"]  # Description of each kind of access.


def measure_work(point: Point) -> Result:
    axes = {"counters": [(m, WINDOW) for m in point["counters"]]}
    if point["z"] == 0:
        axes["windows"] = [(20_000, window) for window in point["windows"]]
    result: Result = {
        name: {
            label: [_work(structures(*sizes)[label], point) for sizes in values]
            for label in DICTIONARIES
        }
        for name, values in axes.items()
    }
    if point["z"] == 0:
        setups = [dictionary(10_000, length, WINDOW) for length in point["lengths"]]
        result["lengths"] = [_work(setup, point) for setup in setups]
    return result


def _work(setup: Any, point: Point) -> Result:
    """Return the mean accesses per update, per query for a window key, and per other query.

    An update reads one position in each table, and moves entries. An update that fails has tried
    all moves, and its key stays in the list for one window. A query reads both tables, and then
    searches the list, starting with the newest key.
    """
    filter: CuckooDictionary = setup(seed=point["seed"])
    window, step = filter.window, max(filter.window // 4, 1)
    keys = zipf(2 * window + point["measured"], UNIVERSE, point["z"], point["seed"])
    moved, listed = _inserted(filter, keys)
    alive = []
    for length, start in zip(listed, range(2 * window, len(keys), step), strict=True):
        end = start + step
        recent = np.unique(keys[max(0, min(end, len(keys)) - window) : end])
        # The search starts at the newest key, so the n-th key of the list takes n steps.
        alive.append(length * (length + 1) / 2 / len(recent))
    mean = statistics.fmean(listed)
    return {
        "update": _TABLES + moved / point["measured"] + mean / window * filter.moves,
        "alive": _TABLES + statistics.fmean(alive),
        "other": _TABLES + mean,
    }


def conclude_work(results: Results) -> Conclusion:
    even, skewed = ([result for _, result in chosen(results, z=z)] for z in (0, 1))
    sizes, windows = (results[0][0][name] for name in ("counters", "windows"))
    pairs = [*product(("update", "other"), DICTIONARIES)]

    def over(kind: str, above: list[Result], below: list[Result]) -> Estimate:
        return positive([run[kind] / other[kind] for run, other in zip(above, below, strict=True)])

    def of(runs: list[Result], name: str, label: str, at: int) -> list[Result]:
        return [run[name][label][at] for run in runs]

    def find(name: str, kind: str, label: str, *runs: list[Result], **fields: Any) -> Finding:
        texts = {"label": LABELS[label], "kind": KINDS[kind]}
        return PAPER.find(name, over(kind, *runs), **texts, **fields)

    findings = []
    for kind, label in pairs:
        first, last = (of(even, "counters", label, at) for at in (0, -1))
        texts = f"{sizes[0]:,} counters over {sizes[-1]:,}"
        findings.append(find("work-large", kind, label, first, last, sizes=texts))
    for (kind, label), at in product(pairs, (0, -1)):
        first, last = (of(runs, "counters", label, at) for runs in (even, skewed))
        findings.append(find("work-skew", kind, label, first, last, counters=sizes[at]))
    for kind, label in pairs:
        first, last = (of(even, "windows", label, at) for at in (0, -1))
        texts = f"n = {windows[-1]:,} over n = {windows[0]:,}"
        findings.append(find("work-grows", kind, label, last, first, windows=texts))
    for kind in ("alive", "other"):
        value = over(kind, *([run["lengths"][at] for run in even] for at in (-1, 0)))
        findings.append(PAPER.find("work-same", value, kind=KINDS[kind]))
    charts = []
    for number, name, x in ((6, "counters", sizes), (8, "windows", windows)):
        series = []
        for kind, label in pairs:
            means = [mean(of(even, name, label, at), kind)[0] for at in range(len(x))]
            series.append(Series(f"{LABELS[label]}: {KINDS[kind]}", x, means))
        charts.append(PAPER.chart(f"cuckoo-figure-{number}", series))
    return Conclusion(findings, charts)


def measure_failures(point: Point) -> Result:
    window = point["window"]
    positions = point["positions"] * window
    filter = CuckooDictionary(window=window, positions=positions, seed=point["seed"])
    keys = uniform(point["turns"] * window, 1 << 62, point["seed"])
    failed = 0
    for start in range(0, len(keys), window):
        filter.insert(keys[start : start + window])
        failed += filter.overflow
    return {"failed": failed, "insertions": len(keys)}


def conclude_failures(results: Results) -> Conclusion:
    shares, findings = {}, []
    for (window,), group in grouped(results, "window").items():
        failed, insertions = (sum(figures(group, name)) for name in ("failed", "insertions"))
        shares[window] = share(failed, insertions)
        fields = {"window": window, "failed": failed, "insertions": insertions}
        findings.append(PAPER.find("failures", shares[window], **fields))
    first, *_, last = shares
    factor = last / first
    value = scaled(quotient(shares[last], shares[first]), factor)
    fields = {"first": first, "last": last, "factor": factor, "root": math.sqrt(factor)}
    return Conclusion([*findings, PAPER.find("failures-bounded", value, **fields)])


STUDIES = (
    PAPER.study("cuckoo-figure-4", measure_streams, conclude_zipf),
    PAPER.study("cuckoo-figure-9", measure_streams, conclude_window),
    PAPER.study("cuckoo-figure-12", measure_signature, conclude_signature),
    PAPER.study("cuckoo-figure-13", measure_streams, conclude_real),
    PAPER.study("cuckoo-figure-14", measure_age, conclude_age),
    PAPER.study("cuckoo-theorem-2", measure_list, conclude_list),
    PAPER.study("cuckoo-theorem-3", measure_space, conclude_space),
    PAPER.study("cuckoo-work", measure_work, conclude_work),
    PAPER.study("cuckoo-failures", measure_failures, conclude_failures),
)
