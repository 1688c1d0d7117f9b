"""A time-limited filter and its stream, on which the studies of the paper are measured."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from papers.models.time_limited import TimeLimitedAPBF

from .paper import Paper
from .studies.study import Point, Result

PAPER = Paper("time_limited")
"""Time-limited Bloom Filter (Rodrigues, Shtul, Baquero and Almeida)."""

COMBINATIONS: dict[float, list[list[int]]] = {
    float(error): pairs for error, pairs in PAPER.data["combinations"].items()
}
"""k and l for each error rate: the values of Table 2 of the APBF paper."""

SPAN = 600_000
"""Ten minutes, in milliseconds."""

SPANS = 10
"""Length of the stream, in spans; the last `STEADY` of them count as steady state."""

STEADY = 2
"""Spans at the end that count as steady state."""

UNDER, OVER = 1 / 10, 10
"""Initial capacities, as shares of the elements in a span: the first filter is too small."""

STARTS = {UNDER: "under-dimensioned", OVER: "over-dimensioned"}
"""Their names in the paper."""


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


def measure_slices(point: Point) -> Result:
    """Follow number and size of slices through the stream.

    Parameters
    ----------
    point : dict
        "error", "combinations" of k and l, "window" (elements per span) and
        "start" (initial capacity in windows).

    Returns
    -------
    dict
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


def measure_rate(point: Point) -> Result:
    """Measure false positives and false negatives along the stream.

    Parameters
    ----------
    point : dict
        "error", "k", "l", "window", "start", "seed", number of "samples" and
        of "queries" at each, and whether a "curve" is wanted.

    Returns
    -------
    dict
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


# For conclusions


def decimal(rate: float) -> str:
    """Return a rate as the paper writes it, 0.00001 and not 1e-05."""
    return np.format_float_positional(rate, trim="-")


def bits_per_element(rows: dict[str, list[float]], elements: str) -> NDArray[np.float64]:
    """Bits per element at each stop, shape (stops,), of the "reported" or those "within"."""
    return np.array(rows["bits"]) / np.array(rows[elements])


def bits_range(results: list[Result], elements: str) -> tuple[float, float]:
    """Least and most bits per element in the steady state, over all k and l."""
    values = np.concatenate(
        [
            bits_per_element(rows, elements)[np.array(rows["spans"]) > SPANS - STEADY]
            for result in results
            for rows in result.values()
        ]
    )
    return float(values.min()), float(values.max())
