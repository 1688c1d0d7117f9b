"""Reproduces Table 2 and Figures 1 to 5 of the time-limited paper."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.engine import Point, Result
from lately.replay.drawing import Chart, Series
from papers.models.time_limited import TimeLimitedAPBF, slice_bits

from .studies.criteria import share, student
from .studies.paper import Conclusion, Finding, Paper, Results, figures, grouped

PAPER = Paper("time_limited")  # Time-limited Bloom Filter (Rodrigues, Shtul, Baquero and Almeida).
SPAN = 600_000  # Ten minutes, in milliseconds.
SPANS = 10  # Length of the stream, in spans.
STEADY = 2  # Number of spans at the end that count as steady state.
UNDER, OVER = 0.1, 10  # Initial capacities, relative to the number of elements per span.
STARTS = {UNDER: "under-dimensioned", OVER: "over-dimensioned"}  # Their names in the paper.
Rows = dict[str, list[float]]  # Columns of numbers, with one entry per stop of a stream.
Floats = NDArray[np.float64]


def decimal(rate: float) -> str:
    """Format a rate as in the paper: 0.00001 instead of 1e-05."""
    return np.format_float_positional(rate, trim="-")


class TimedStream:
    def __init__(self, point: Point, k: int, l: int, seed: int = 0) -> None:
        self.window = window = point["window"]
        capacity = round(window * point["start"])
        self.model = TimeLimitedAPBF(k=k, l=l, span=SPAN, capacity=capacity, seed=seed)
        self.count = window * SPANS
        rng = np.random.default_rng(seed)
        # Keys are even, so that odd numbers are known to be absent.
        self.keys = rng.integers(0, 1 << 62, self.count, np.uint64) << np.uint64(1)
        self.times = np.arange(self.count, dtype=np.int64) * (SPAN // window)
        self.at = 0
        self._generations: list[tuple[int, int]] = []

    def insert(self, count: int) -> None:
        shifts, last = self.model.shifts, self.model.last_insertion
        part = slice(self.at, self.at + count)
        self.model.insert(self.keys[part], self.times[part])
        if self.model.shifts > shifts and last is not None:
            self._generations.append((last, self.at))
        self.at += count

    def stops(self) -> Iterator[None]:
        """Insert the stream; yield at both ends of each generation and when a slice's span ends.

        Between two stops, only the number of set bits and the number of elements grow.
        """
        while self.at < self.count:
            self.insert(1)
            end = min(self.count, self.at + self.model.insertions_left)
            settled = [time for time in self.model.settled_times if time is not None]
            past = np.searchsorted(self.times, np.array(settled) + SPAN, side="right")
            turns = {self.at, end, *past.tolist(), *(past + 1).tolist()}
            for at in sorted(turn for turn in turns if self.at <= turn <= end):
                if at > self.at:
                    self.insert(at - self.at)
                yield

    @property
    def now(self) -> int:
        return int(self.times[self.at - 1])

    @property
    def spans(self) -> float:
        return self.at / self.window

    @property
    def reported(self) -> int:
        past = [at for last, at in self._generations if last < self.now - SPAN]
        self._generations = self._generations[max(0, len(past) - 1) :]
        return self.at - (past[-1] if past else 0)


def measure_slices(point: Point) -> Result:
    result = {}
    names = ("spans", "slices", "first", "bits", "reported", "within")
    for k, l in point["combinations"]:
        stream = TimedStream(point, k, l)
        rows = []
        for _ in stream.stops():
            sizes, within = stream.model.slice_sizes, min(stream.at, stream.window)
            rows.append((stream.spans, len(sizes), sizes[0], sum(sizes), stream.reported, within))
        result[f"{k}, {l}"] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return result


def _bits_per_element(rows: Rows, elements: str = "reported") -> Floats:
    return np.array(rows["bits"]) / np.array(rows[elements])


def _bits_range(results: Results, elements: str = "reported") -> tuple[float, float]:
    values = np.concatenate(
        [
            _bits_per_element(rows, elements)[np.array(rows["spans"]) > SPANS - STEADY]
            for _, result in results
            for rows in result.values()
        ]
    )
    return float(values.min()), float(values.max())


def conclude_table(measured: Results) -> Conclusion:
    findings, within, known, ours = [], [], [], []
    for (error,), results in grouped(measured, "error").items():
        bits, extremes = PAPER.data["bits"][decimal(error)], _bits_range(results)
        for name, paper, value in zip(("least", "most"), bits, extremes, strict=True):
            shown = math.floor(value) != paper or round(value) != math.floor(value)
            note = f"{value:.1f} before truncation." if shown else ""
            fields = {"error": decimal(error), "extreme": name, "paper": paper, "remark": note}
            findings.append(PAPER.find("bits", value, **fields))
        low, high = _bits_range(results, "within")
        within.append(f"{low:.1f} to {high:.1f} for {decimal(error)}")
        known.append((error, *bits))
        ours.append((error, *extremes))
    series = []
    for label, rows in (("paper", known), ("ours", ours)):
        errors, *ends = zip(*rows, strict=True)
        for name, values in zip(("least", "most"), ends, strict=True):
            series.append(Series(f"{label}, {name}", errors, values, marks=label == "paper"))
    texts = {"window": measured[0][0]["window"], "within": ", ".join(within)}
    return Conclusion(findings, [PAPER.chart("time-limited-table-2", series)], texts)


def _settled(rows: Rows, name: str) -> float:
    values = np.asarray(rows[name])
    other = np.flatnonzero(values != values[-1])
    return rows["spans"][other[-1] + 1] if len(other) else 0.0


def conclude_slices(measured: Results) -> Conclusion:
    findings: list[Finding] = []
    charts: list[Chart] = []
    for point, result in measured:
        figure = 1 if point["start"] == UNDER else 2
        for name, rows in result.items():
            findings += _slice_findings(figure, name, point, rows)
        # Lower k and l take longer to stabilise (section 7.1).
        settled = [_settled(rows, "first") for rows in result.values()]
        ordered = sum(first > second for first, second in pairwise(settled))
        times = ", ".join(f"{time:.2f}" for time in settled)
        fields = {"figure": figure, "neighbours": len(settled) - 1, "times": times}
        findings.append(PAPER.find("order", ordered, **fields))
        fields = {"figure": figure, "part": "ab"[figure - 1], "start": STARTS[point["start"]]}
        for name in ("slices", "first", "memory"):
            series = []
            for combination, rows in result.items():
                values = _bits_per_element(rows).tolist() if name == "memory" else rows[name]
                series.append(Series(f"k, l = {combination}", rows["spans"], values))
            charts.append(PAPER.chart(name, series, **fields))
    both = {point["start"]: result for point, result in measured}
    if len(both) == len(STARTS):
        for name in both[UNDER]:
            under, over = (_settled(both[start][name], "bits") for start in STARTS)
            findings.append(PAPER.find("longer", over - under, name=name, over=over, under=under))
    for name, value in zip(("least", "most"), _bits_range(measured), strict=True):
        findings.append(PAPER.find("memory", value, extreme=name))
    return Conclusion(findings, charts, {"window": measured[0][0]["window"]})


def _slice_findings(figure: int, name: str, point: Point, rows: Rows) -> list[Finding]:
    k, l = map(int, name.split(","))
    best = slice_bits(k * -(-point["window"] // l))
    find = partial(PAPER.find, figure=figure, k=k, l=l, most=k + l, best=best)
    stable = find("stable", _settled(rows, "first"))
    if point["start"] == UNDER:
        return [
            find("slices-last", rows["slices"][-1]),
            find("slices-peak", max(rows["slices"])),
            find("slices-again", _settled(rows, "slices")),
            find("first-last", rows["first"][-1]),
            stable,
        ]
    shifted = next(size for size in rows["first"] if size != rows["first"][0])
    peak = find("slices-most", max(rows["slices"]))
    return [peak, find("first-shifted", shifted), stable]


_ENOUGH = 40  # With fewer expected false positives per sample, the rate is computed, not counted.


def measure_rate(point: Point) -> Result:
    """Measure false positives and false negatives along the stream.

    "curve" lists the time, in spans, and the expected rate at each stop; only the first seed has a
    curve. "samples" lists the time, the false positives and the expected rate at random moments.
    """
    stream = TimedStream(point, point["k"], point["l"], point["seed"])
    rng = np.random.default_rng([point["seed"], 1])
    samples = []
    missed = asked = 0
    for moment in _moments(point, stream.count):
        stream.insert(moment - stream.at)
        fresh = rng.integers(0, 1 << 62, point["queries"], np.uint64) << np.uint64(1)
        hits = int(stream.model.query(fresh | np.uint64(1), stream.now).sum())
        expected = stream.model.estimated_false_positive_rate(stream.now)
        samples.append([stream.spans, hits, expected])
        inside = stream.keys[: stream.at][stream.times[: stream.at] >= stream.now - SPAN]
        missed += int((~stream.model.query(inside, stream.now)).sum())
        asked += len(inside)
    curve = []
    if point["seed"] == 0:
        stream = TimedStream(point, point["k"], point["l"])
        for _ in stream.stops():
            curve.append([stream.spans, stream.model.estimated_false_positive_rate(stream.now)])
    return {"curve": curve, "samples": samples, "missed": missed, "asked": asked}


def _moments(point: Point, count: int) -> list[int]:
    seed = [point["seed"], 2, point["k"], point["l"], round(10 * point["start"])]
    parts = np.arange(point["samples"]) + np.random.default_rng(seed).random(point["samples"])
    return [1 + int(moment) for moment in parts * (count / point["samples"])]


def conclude_rate(measured: Results) -> Conclusion:
    # Points of a group differ only in their seed; the first one has the curve.
    groups = grouped(measured, "start", "error", "k", "l")
    findings: list[Finding] = []
    charts: dict[tuple[int, str, str], list[Series]] = {}
    for (start, error, k, l), results in groups.items():
        figure = 4 if start == UNDER else 5
        findings.append(_rate_finding(figure, results))
        lines = charts.setdefault((figure, decimal(error), STARTS[start]), [])
        point, result = results[0]
        spans, rates = zip(*result["curve"], strict=True)
        lines.append(Series(f"k, l = {k}, {l}", spans, rates))
        if _counted(point):
            at, hits, _ = zip(*result["samples"], strict=True)
            shares = [share(count, point["queries"]) for count in hits]
            lines.append(Series.estimated(f"k, l = {k}, {l}, measured", at, shares, marks=True))
    findings += [*_course_findings(groups), *_ratio_findings(measured)]
    missed, asked = (sum(figures(measured, name)) for name in ("missed", "asked"))
    findings.append(PAPER.find("missed", share(missed, asked), missed=missed, asked=asked))
    drawn = [
        PAPER.chart("rates", series, figure=figure, error=error, start=start)
        for (figure, error, start), series in charts.items()
    ]
    window = max(point["window"] for point, _ in measured)
    few = min((point["queries"] for point, _ in measured if not _counted(point)), default=0)
    return Conclusion(findings, drawn, {"window": window, "queries": few})


def _steady(course: Floats) -> Floats:
    return course[course[:, 0] > SPANS - STEADY, 1]


def _counted(point: Point) -> bool:
    return bool(point["queries"] * point["error"] >= _ENOUGH)


def _rate_finding(figure: int, results: Results) -> Finding:
    point, first = results[0]
    means = []
    for _, result in results:
        spans, hits, expected = np.array(result["samples"]).T
        rates = hits / point["queries"] if _counted(point) else expected
        means.append(float(rates[spans > SPANS - STEADY].mean()))
    rates = _steady(np.array(first["curve"]))
    fields = {name: point[name] for name in ("error", "k", "l")}
    fields |= {"figure": figure, "decimal": decimal(point["error"])}
    fields |= {"low": rates.min(), "high": rates.max()}
    name = "rate" if _counted(point) else "rate-of-bits"
    return PAPER.find(name, student(means) if len(means) > 1 else means[0], **fields)


def _course_findings(groups: dict[tuple[Any, ...], Any]) -> list[Finding]:
    courses: dict[tuple[float, float], dict[str, Floats]] = {}
    for (start, error, k, l), results in groups.items():
        group = courses.setdefault((start, error), {})
        group[f"k = {k}, l = {l}"] = np.array(results[0][1]["curve"])
    findings = []
    for (start, error), group in courses.items():
        name = f"{STARTS[start]}, {decimal(error)}"
        if start == UNDER:
            peaks = {float(course[:, 1].max()) / error: filter for filter, course in group.items()}
            fields = {"of": peaks[max(peaks)], "least": min(peaks), "of_least": peaks[min(peaks)]}
            findings.append(PAPER.find("highest", max(peaks), name=name, **fields))
        else:
            # The mean rate of the first span relative to the steady state.
            shares = {
                float(course[course[:, 0] <= 1, 1].mean() / _steady(course).mean()): filter
                for filter, course in group.items()
            }
            highest = max(shares)
            findings.append(PAPER.find("first-span", highest, name=name, of=shares[highest]))
        if len(group) > 1:
            steady = [_steady(course) for course in group.values()]
            swings = [float(rates.max() / rates.min()) - 1 for rates in steady]
            less = sum(low > high for low, high in pairwise(swings))
            shown = ", ".join(f"{swing:.0%}" for swing in swings)
            fields = {"neighbours": len(swings) - 1, "swings": shown}
            findings.append(PAPER.find("attenuated", less, name=name, **fields))
    return findings


def _ratio_findings(measured: Results) -> list[Finding]:
    findings = []
    for (error,), group in grouped(measured, "error").items():
        counts: dict[int, Floats] = {}
        for point, result in group:
            _, hits, rates = zip(*result["samples"], strict=True)
            counted = counts.setdefault(point["seed"], np.zeros(2))
            counted += (sum(hits), point["queries"] * sum(rates))
        if len(counts) > 1:
            value = student([float(hits / expected) for hits, expected in counts.values()])
            fields = {"error": decimal(error), "hits": sum(hits for hits, _ in counts.values())}
            findings.append(PAPER.find("bits-tell", value, **fields))
    return findings


STUDIES = (
    PAPER.study("time-limited-table-2", measure_slices, conclude_table),
    PAPER.study("time-limited-figures-1-to-3", measure_slices, conclude_slices),
    PAPER.study("time-limited-figures-4-and-5", measure_rate, conclude_rate),
)
