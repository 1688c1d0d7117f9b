"""The time-limited paper: Table 2, slices and memory (Figures 1 to 3), and rates (4 and 5)."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.engine import Point, Result
from lately.replay.drawing import Chart, Series
from papers.models.time_limited import TimeLimitedAPBF, slice_bits

from .paper import Paper
from .studies.estimates import share, student
from .studies.study import Conclusion, Finding, Results

PAPER = Paper("time_limited")  # Time-limited Bloom Filter (Rodrigues, Shtul, Baquero and Almeida).

COMBINATIONS: dict[float, list[list[int]]] = {
    float(error): pairs for error, pairs in PAPER.data["combinations"].items()
}
"""k and l for each error rate: the values of Table 2 of the APBF paper."""

SPAN = 600_000  # Ten minutes, in milliseconds.
SPANS = 10  # Length of the stream, in spans; the last `STEADY` of them count as steady state.
STEADY = 2
"""Spans at the end that count as steady state."""

UNDER, OVER = 1 / 10, 10
"""Initial capacities, as shares of the elements in a span: the first filter is too small."""

STARTS = {UNDER: "under-dimensioned", OVER: "over-dimensioned"}  # Their names in the paper.
Rows = dict[str, list[float]]  # Columns of figures with an entry for each stop of a stream.


def decimal(rate: float) -> str:
    """Return a rate as the paper writes it, 0.00001 and not 1e-05."""
    return np.format_float_positional(rate, trim="-")


class TimedStream:
    """A filter, and the distinct keys that come at equal intervals."""

    def __init__(self, point: Point, k: int, l: int, seed: int = 0) -> None:
        window = point["window"]
        self.window = window
        self.model = TimeLimitedAPBF(
            k=k, l=l, span=SPAN, capacity=round(window * point["start"]), seed=seed
        )
        self.count = window * SPANS
        rng = np.random.default_rng(seed)
        # Even ones; odd ones are known not to be present.
        self.keys = rng.integers(0, 1 << 62, self.count, np.uint64) << np.uint64(1)
        self.times = np.arange(self.count, dtype=np.int64) * (SPAN // window)
        self.at = 0
        self._generations: list[tuple[int, int]] = []

    def insert(self, count: int) -> None:
        """Insert the next keys, all except the first within one generation."""
        shifts, last = self.model.shifts, self.model.last_insertion
        part = slice(self.at, self.at + count)
        self.model.insert(self.keys[part], self.times[part])
        if self.model.shifts > shifts and last is not None:
            self._generations.append((last, self.at))
        self.at += count

    def stops(self) -> Iterator[None]:
        """Stop where something turns.

        That is at the first and the last insertion of each generation, and at
        the last before and the first after each slice of the ring is past the
        span. Between them only the bits and the elements grow.
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
        """Time of the last insertion."""
        return int(self.times[self.at - 1])

    @property
    def spans(self) -> float:
        """Spans of time that have passed."""
        return self.at / self.window

    @property
    def within(self) -> int:
        """Elements inserted within the span."""
        return min(self.at, self.window)

    @property
    def reported(self) -> int:
        """Elements of the generations whose last insertion is within the span."""
        past = [at for last, at in self._generations if last < self.now - SPAN]
        self._generations = self._generations[max(0, len(past) - 1) :]
        return self.at - (past[-1] if past else 0)


# Slices


def table_points(quick: bool = False) -> list[Point]:
    """Return a point for each error rate and start."""
    return [
        {
            "error": error,
            "combinations": combinations[:: 4 if quick else 1],
            # Fewer make the rounding of g, at an l of 63, larger than the digits that are printed.
            "window": 10_000,
            "start": start,
        }
        for error, combinations in COMBINATIONS.items()
        for start in STARTS
    ]


def figure_points(quick: bool = False) -> list[Point]:
    """Return a point for each start, at the rate of Figures 1 to 3."""
    window = 2000 if quick else 10_000
    return [point | {"window": window} for point in table_points() if point["error"] == 0.01]


def measure_slices(point: Point) -> Result:
    """Follow number and size of slices through the stream, for each k and l.

    By "k, l", lists with an entry for each stop (`TimedStream.stops`): "spans"
    of time passed, number of "slices", "first" (bits of s_0), "bits" of
    all slices, and the elements "reported" surely and "within" the span.
    """
    result = {}
    for k, l in point["combinations"]:
        stream = TimedStream(point, k, l)
        names = ("spans", "slices", "first", "bits", "reported", "within")
        rows = [
            (stream.spans, len(sizes), sizes[0], sum(sizes), stream.reported, stream.within)
            for sizes in (stream.model.slice_sizes for _ in stream.stops())
        ]
        columns = map(list, zip(*rows, strict=True))
        result[f"{k}, {l}"] = dict(zip(names, columns, strict=True))
    return result


def _bits_per_element(rows: Rows, elements: str = "reported") -> NDArray[np.float64]:
    """Bits per element at each stop, shape (stops,), of the "reported" or those "within"."""
    return np.array(rows["bits"]) / np.array(rows[elements])


def _bits_range(results: list[Result], elements: str = "reported") -> tuple[float, float]:
    """Least and most bits per element in the steady state, over all k and l."""
    values = np.concatenate(
        [
            _bits_per_element(rows, elements)[np.array(rows["spans"]) > SPANS - STEADY]
            for result in results
            for rows in result.values()
        ]
    )
    return float(values.min()), float(values.max())


def conclude_table(measured: Results) -> Conclusion:
    """Compare the bits per element with Table 2; its figures are cut off, not rounded."""
    findings, within, known, ours = [], [], [], []
    for error, bits in ((float(error), bits) for error, bits in PAPER.data["bits"].items()):
        results = [result for point, result in measured if point["error"] == error]
        if not results:
            continue
        extremes = _bits_range(results)
        for name, paper, value in zip(("least", "most"), bits, extremes, strict=True):
            shown = math.floor(value) != paper or round(value) != math.floor(value)
            note = f"{value:.1f} before it is cut off." if shown else ""
            fields = {"error": decimal(error), "extreme": name, "paper": paper, "remark": note}
            findings.append(PAPER.find("bits", value, **fields))
        low, high = _bits_range(results, "within")
        within.append(f"{low:.1f} to {high:.1f} for {decimal(error)}")
        known.append((error, *bits))
        ours.append((error, *extremes))
    series = []
    for label, rows in (("paper", known), ("ours", ours)):
        errors, lows, highs = zip(*rows, strict=True)
        marks = label == "paper"
        series.append(Series(f"{label}, least", errors, lows, marks=marks))
        series.append(Series(f"{label}, most", errors, highs, marks=marks))
    values = {"window": measured[0][0]["window"], "within": ", ".join(within)}
    return Conclusion(findings, [PAPER.chart("time-limited-table-2", series)], values)


def _settled(spans: list[float], values: Any) -> float:
    """Spans after which values stay as they are at the end."""
    values = np.asarray(values)
    other = np.flatnonzero(values != values[-1])
    return spans[other[-1] + 1] if len(other) else 0.0


def conclude_slices(measured: Results) -> Conclusion:
    """Compare number and size of the slices with what sections 7.1 and 7.2 say of them."""
    findings: list[Finding] = []
    charts: list[Chart] = []
    for point, result in measured:
        under = point["start"] == UNDER
        figure = 1 if under else 2
        settled = []
        for name, rows in result.items():
            settled.append(_settled(rows["spans"], rows["first"]))
            findings += _slice_findings(figure, name, point, rows, settled[-1])
        # Lower k and l take longer to stabilise (section 7.1).
        ordered = sum(first > second for first, second in pairwise(settled))
        times = ", ".join(f"{time:.2f}" for time in settled)
        fields = {"figure": figure, "neighbours": len(settled) - 1, "times": times}
        findings.append(PAPER.find("order", ordered, **fields))
        charts += _slice_charts(figure, STARTS[point["start"]], result)
    findings += _memory_findings(measured)
    return Conclusion(findings, charts, {"window": measured[0][0]["window"]})


def _slice_findings(
    figure: int, name: str, point: Point, rows: Rows, settled: float
) -> list[Finding]:
    k, l = map(int, name.split(","))
    find = partial(
        PAPER.find, figure=figure, k=k, l=l, most=k + l,
        best=slice_bits(k * -(-point["window"] // l)),
    )  # fmt: skip
    stable = find("stable", settled)
    if point["start"] == UNDER:
        return [
            find("slices-last", rows["slices"][-1]),
            find("slices-peak", max(rows["slices"])),
            find("slices-again", _settled(rows["spans"], rows["slices"])),
            find("first-last", rows["first"][-1]),
            stable,
        ]
    shifted = next(size for size in rows["first"] if size != rows["first"][0])
    most = find("slices-most", max(rows["slices"]))
    return [most, find("first-shifted", shifted), stable]


def _slice_charts(figure: int, start: str, result: Result) -> list[Chart]:
    def lines(values: Callable[[Rows], Any]) -> list[Series]:
        return [
            Series(f"k, l = {name}", rows["spans"], values(rows)) for name, rows in result.items()
        ]

    fields = {"figure": figure, "part": "a" if figure == 1 else "b", "start": start}
    return [
        PAPER.chart("slices", lines(lambda rows: rows["slices"]), **fields),
        PAPER.chart("first", lines(lambda rows: rows["first"]), **fields),
        PAPER.chart("memory", lines(lambda rows: _bits_per_element(rows).tolist()), **fields),
    ]


def _memory_findings(measured: Results) -> list[Finding]:
    """Compare the bits per element at which filters settle, for small and large starts."""
    settled: dict[str, dict[float, float]] = {}
    for point, result in measured:
        for name, rows in result.items():
            time = _settled(rows["spans"], rows["bits"])
            settled.setdefault(name, {})[point["start"]] = time
    both = {name: times for name, times in settled.items() if len(times) == len(STARTS)}
    extremes = _bits_range([result for _, result in measured])
    return [
        *(
            PAPER.find(
                "longer", times[OVER] - times[UNDER],
                name=name, over=times[OVER], under=times[UNDER],
            )
            for name, times in both.items()
        ),
        *(
            PAPER.find("memory", value, extreme=name)
            for name, value in zip(("least", "most"), extremes, strict=True)
        ),
    ]  # fmt: skip


# Rates

_ENOUGH = 40  # False positives at an instant that are expected where their number is the rate.
_MOST_QUERIES = 100_000  # At an instant: with more, the least rates would take hours.

_FEW_QUERIES = 10_000
"""At an instant of rates that would take more than the most, and are therefore not counted."""


def rate_points(quick: bool = False) -> list[Point]:
    """Return a point for each rate, k and l, start and seed."""
    enough, most = (_ENOUGH, _MOST_QUERIES // 25) if quick else (100, _MOST_QUERIES)

    def queries(error: float) -> int:
        wanted = round(enough / error)
        return wanted if wanted <= most else min(most, _FEW_QUERIES)

    return [
        {
            "error": error,
            "k": k,
            "l": l,
            "window": 2000 if quick else 10_000,
            "start": start,
            "seed": seed,
            "curve": seed == 0,
            "samples": 6 * SPANS,
            "queries": queries(error),
        }
        for error, combinations in COMBINATIONS.items()
        for k, l in combinations[:: 2 if quick else 1]
        for start in STARTS
        for seed in range(3 if quick else 5)
    ]


def measure_rate(point: Point) -> Result:
    """Measure false positives and false negatives along the stream.

    "curve": spans passed and expected rate, from the bits that are set, at
    each stop (`TimedStream.stops`), or empty. "samples": spans passed, false
    positives, and expected rate, from the bits that are set, at a moment
    in each of as many equal parts of the stream, at random, so that no
    phase of a generation counts more than another. ``missed`` is the number of
    false negatives, ``asked`` that of queries, both for keys of the span.
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
    if point["curve"]:
        stream = TimedStream(point, point["k"], point["l"], point["seed"])
        for _ in stream.stops():
            curve.append([stream.spans, stream.model.estimated_false_positive_rate(stream.now)])
    return {"curve": curve, "samples": samples, "missed": missed, "asked": asked}


def _moments(point: Point, count: int) -> list[int]:
    """Return numbers of insertions, one in each of equal parts of a stream."""
    own = [point["seed"], 2, point["k"], point["l"], round(10 * point["start"])]
    parts = np.arange(point["samples"]) + np.random.default_rng(own).random(point["samples"])
    return [1 + int(moment) for moment in parts * (count / point["samples"])]


def conclude_rate(measured: Results) -> Conclusion:
    """Compare the false-positive rate in steady state with the error rate of the filter."""
    # Points that differ in their seed alone; the first has the curve.
    groups: dict[tuple[Any, ...], list[tuple[Point, Result]]] = {}
    for point, result in measured:
        group = (point["start"], point["error"], point["k"], point["l"])
        groups.setdefault(group, []).append((point, result))
    findings: list[Finding] = []
    charts: dict[tuple[Any, ...], list[Series]] = {}
    for (start, error, k, l), results in groups.items():
        figure = 4 if start == UNDER else 5
        findings.append(_rate_finding(figure, results))
        lines = charts.setdefault((figure, decimal(error), STARTS[start]), [])
        lines += _rate_series(k, l, results)
    findings += [*_course_findings(groups), *_ratio_findings(measured)]
    missed, asked = (sum(result[name] for _, result in measured) for name in ("missed", "asked"))
    fields = {"missed": missed, "asked": asked}
    findings.append(PAPER.find("missed", share(missed, asked), **fields))
    drawn = [
        PAPER.chart("rates", series, figure=figure, error=error, start=start)
        for (figure, error, start), series in charts.items()
    ]
    window = max(point["window"] for point, _ in measured)
    few = min((point["queries"] for point, _ in measured if not _counted(point)), default=0)
    return Conclusion(findings, drawn, {"window": window, "queries": few})


Course = NDArray[np.float64]  # Spans passed and rates of a filter, shape (n, 2).


def _steady(course: Course) -> NDArray[np.float64]:
    return course[course[:, 0] > SPANS - STEADY, 1]


def _counted(point: Point) -> bool:
    """Whether enough false positives are expected for their number to be the rate."""
    return bool(point["queries"] * point["error"] >= _ENOUGH)


def _steady_mean(point: Point, result: Result) -> float:
    """Mean rate at the instants of the steady state."""
    rates = [
        hits / point["queries"] if _counted(point) else expected
        for spans, hits, expected in result["samples"]
        if spans > SPANS - STEADY
    ]
    return float(np.mean(rates))


def _rate_finding(figure: int, results: Results) -> Finding:
    point, first = results[0]
    means = [_steady_mean(point, result) for point, result in results]
    rates = _steady(np.array(first["curve"]))
    fields = {name: point[name] for name in ("error", "k", "l")}
    fields |= {"figure": figure, "decimal": decimal(point["error"])}
    fields |= {"low": rates.min(), "high": rates.max()}
    name = "rate" if _counted(point) else "rate-of-bits"
    return PAPER.find(name, student(means) if len(means) > 1 else means[0], **fields)


def _course_findings(groups: dict[tuple[Any, ...], Any]) -> list[Finding]:
    """Compare the ways to the steady state with what section 7.3 says of them."""
    courses: dict[tuple[float, float], dict[str, Course]] = {}
    for (start, error, k, l), results in groups.items():
        own = courses.setdefault((start, error), {})
        own[f"k = {k}, l = {l}"] = np.array(results[0][1]["curve"])
    findings = []
    for (start, error), own in courses.items():
        name = f"{STARTS[start]}, {decimal(error)}"
        if start == UNDER:
            peaks = {float(course[:, 1].max()) / error: filter for filter, course in own.items()}
            fields = {"of": peaks[max(peaks)], "least": min(peaks), "of_least": peaks[min(peaks)]}
            findings.append(PAPER.find("highest", max(peaks), name=name, **fields))
        else:
            shares = {_first_span(course): filter for filter, course in own.items()}
            most = max(shares)
            findings.append(PAPER.find("first-span", most, name=name, of=shares[most]))
        if len(own) > 1:
            steady = [_steady(course) for course in own.values()]
            swings = [float(rates.max() / rates.min()) - 1 for rates in steady]
            less = sum(low > high for low, high in pairwise(swings))
            shown = ", ".join(f"{swing:.0%}" for swing in swings)
            fields = {"neighbours": len(swings) - 1, "swings": shown}
            findings.append(PAPER.find("attenuated", less, name=name, **fields))
    return findings


def _first_span(course: Course) -> float:
    """Return the mean rate of the first span over that in steady state."""
    return float(course[course[:, 0] <= 1, 1].mean() / _steady(course).mean())


def _rate_series(k: int, l: int, results: Results) -> list[Series]:
    point, result = results[0]
    spans, rates = zip(*result["curve"], strict=True)
    at, hits, _ = zip(*result["samples"], strict=True)
    curve = Series(f"k, l = {k}, {l}", spans, rates)
    if not _counted(point):
        return [curve]
    shares = [share(count, point["queries"]) for count in hits]
    return [curve, Series.estimated(f"k, l = {k}, {l}, measured", at, shares, marks=True)]


def _ratio_findings(measured: Results) -> list[Finding]:
    """Counted false positives over the expectation from the bits, for each rate."""
    findings = []
    for error, group in groupby(measured, key=lambda entry: entry[0]["error"]):
        counts: dict[int, NDArray[np.float64]] = {}
        for point, result in group:
            _, hits, rates = zip(*result["samples"], strict=True)
            own = counts.setdefault(point["seed"], np.zeros(2))
            own += (sum(hits), point["queries"] * sum(rates))
        if len(counts) > 1:
            value = student([float(hits / expected) for hits, expected in counts.values()])
            fields = {"error": decimal(error), "hits": sum(hits for hits, _ in counts.values())}
            findings.append(PAPER.find("bits-tell", value, **fields))
    return findings


STUDIES = (
    PAPER.study("time-limited-table-2", measure_slices, conclude_table, points=table_points),
    PAPER.study(
        "time-limited-figures-1-to-3", measure_slices, conclude_slices, points=figure_points
    ),
    PAPER.study("time-limited-figures-4-and-5", measure_rate, conclude_rate, points=rate_points),
)
"""Table 2, Figures 1 to 3, Figures 4 and 5."""
