"""Replay of a stream through the RTL, the golden model and the exact oracle."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..golden import FilterSpec, Operation, SlidingFilter, TimeLimitedRing, from_spec
from ..golden.hash.keys import random_keys, text_keys
from ..golden.spec.base import require
from ..golden.times import Times
from ..hdl.profile import HardwareProfile
from .oracle import Oracle, TimedOracle, Truth, places
from .result import PROBE_SEED, Checkpoint, Mismatch, RunResult, SpanResult
from .stream_times import TickCounter
from .traces import Record, Trace, TraceError

ENGINES = ("rtl", "golden")
"""Engines that can run a filter: the compiled hardware, or the golden model."""
PROBES = 2000
"""Fresh keys asked for at each checkpoint."""

_CHUNK = 1 << 16
_FIRST_SPACING = 64
_CHECKPOINTS = 256
_COUNTERS = ("operations", "insertions", "hits", "shifts", "shortened", "overfilled")


class Unit(Protocol):
    """Compiled hardware, or what stands in for it; with a span it also has `perform`."""

    @property
    def cycles(self) -> int:
        """Clocks since reset."""

    @property
    def statistics(self) -> Mapping[str, int]:
        """Counters of the hardware."""

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of the segments, as `SlidingFilter.memory`."""

    def check_and_insert(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Query and insert keys one after another, as `SlidingFilter.check_and_insert`."""


Engine = Callable[[FilterSpec], AbstractContextManager[Unit]]
"""Makes the unit that a specification describes, for as long as the context lasts."""


@dataclass(frozen=True)
class Verdicts:
    """Answers of the engine, `seen` of shape (n,), to the records from operation `start` on."""

    start: int
    records: Sequence[Record]
    seen: NDArray[np.bool_]
    truth: Truth


def run(
    trace: Trace,
    spec: FilterSpec,
    *,
    engine: str | Engine = "rtl",
    tick: int | None = None,
    limit: int | None = None,
    progress: Callable[[int, float | None], None] | None = None,
    sink: Callable[[Verdicts], None] | None = None,
) -> RunResult:
    """Check and insert every key of a stream, and judge every verdict.

    At some 200 checkpoints the golden model is also asked for `PROBES` random keys that it
    cannot hold, which real streams have too few of; queries change nothing.

    Parameters
    ----------
    trace : Trace
    spec : FilterSpec
    engine : str or callable
        'rtl' (the compiled hardware beside the golden model), 'golden' (the
        model alone), or what takes the hardware's place.
    tick : int, optional
        Nanoseconds of a tick, for a filter with a span: times of the stream make it go on.
    limit : int, optional
        Most operations to perform.
    progress : callable, optional
        Called with the number of operations done, and the share of the whole if known.
    sink : callable, optional
        Takes the verdicts, stretch by stretch.

    Raises
    ------
    ValueError
        If the engine is not known, the limit is below 1, or a tick is missing or too many.
    TraceError
        If the stream is damaged, no line of it parses, or it has no times for a span.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit: must be at least 1, not {limit}")
    clock = _clock(trace, spec, tick)
    with _open_unit(engine, spec) as unit:
        replay = _Replay(trace, spec, unit, clock, sink)
        began = time.perf_counter()
        while records := trace.read(_CHUNK if limit is None else min(_CHUNK, limit - replay.done)):
            replay.perform(records)
            if progress is not None:
                share, done = trace.fraction, replay.done
                progress(done, share if limit is None else max(done / limit, share or 0.0))
        return replay.finish(time.perf_counter() - began)


def _clock(trace: Trace, spec: FilterSpec, tick: int | None) -> TickCounter | None:
    """Return what makes ticks of the times of a stream, for a filter with a span."""
    if not spec.timed:
        require(tick is None, "tick", "must not be given for a window of insertions", tick)
        return None
    require(tick is not None and tick >= 1, "tick", "must be at least 1 ns for a span", tick)
    if trace.time is None:
        raise TraceError(
            f"span: must be given for a stream with times, but {trace.name} has "
            + ("only keys" if trace.format == "lines" else "no column of times (--time)")
        )
    return TickCounter(tick or 1)


class _Answers(NamedTuple):
    """Answers to check-and-inserts, shape (n,) each; statuses are 0 where there are none."""

    seen: NDArray[np.bool_]
    status: NDArray[np.uint8]

    def part(self, part: slice) -> "_Answers":
        return _Answers(self.seen[part], self.status[part])


def _ask(filter: Any, keys: NDArray[np.uint64], times: Times | None) -> tuple[_Answers, Any]:
    """Check and insert keys; return what the filter told of times, too."""
    if times is None:
        return _Answers(filter.check_and_insert(keys), np.zeros(len(keys), np.uint8)), None
    codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
    told = filter.perform(codes, keys, times)
    return _Answers(told.seen, told.status), told


class _Replay:
    """One run in progress."""

    def __init__(
        self,
        trace: Trace,
        spec: FilterSpec,
        unit: Unit | None,
        clock: TickCounter | None,
        sink: Callable[[Verdicts], None] | None,
    ) -> None:
        self._trace = trace
        self._unit = unit
        self._clock = clock
        self._sink = sink
        self._golden: Any = from_spec(spec)
        self._oracle: Any = Oracle(spec) if clock is None else TimedOracle(spec)
        self._course = _Course(self._golden, self._oracle)
        # Hashes of different texts, of 64 bits and unrelated to the keys.
        self._texts = np.empty(0, np.int64)
        self.done = 0
        self.result = RunResult(
            spec=spec,
            engine="golden" if unit is None else "rtl",
            source={name: getattr(trace, name) for name in ("name", "format", "compression")}
            | {"key": list(trace.key), "time": trace.time},
            mismatches=None if unit is None else 0,
        )
        if clock is not None:
            self.result.span = SpanResult(
                span=spec.span,
                tick=clock.tick,
                when_full=spec.when_full,
                least_covered=spec.span,
                status_mismatches=self.result.mismatches,
            )

    def perform(self, records: Sequence[Record]) -> None:
        """Check and insert the keys of some records."""
        texts = [text for text, _ in records]
        keys = text_keys(texts, key_bits=self.result.spec.key_bits)
        times = None if self._clock is None else self._clock.ticks(time for _, time in records)
        hashes = np.unique(np.fromiter(map(hash, texts), np.int64, len(texts)))
        place, new = places(self._texts, hashes)
        self._texts = np.insert(self._texts, place[new], hashes[new])
        # In one piece: the hardware's pipeline is drained after each.
        rtl = None if self._unit is None else _ask(self._unit, keys, times)[0]
        start = 0
        while start < len(records):
            stop = min(len(records), start + self._course.due - self.done)
            part = slice(start, stop)
            moments = None if times is None else times[part]
            self._perform_part(records[part], keys[part], moments, rtl and rtl.part(part))
            start = stop

    def _perform_part(
        self,
        records: Sequence[Record],
        keys: NDArray[np.uint64],
        times: Times | None,
        rtl: _Answers | None,
    ) -> None:
        golden, told = _ask(self._golden, keys, times)
        seen = golden.seen if rtl is None else rtl.seen
        if rtl is not None:
            self._compare(records, keys, rtl, golden)
        moments = () if times is None else (times,)
        truth = self._oracle.check_and_insert(keys, *moments)
        self._count(truth, seen)
        if (span := self.result.span) is not None:
            span.statuses += np.bincount(golden.status, minlength=len(span.statuses))
            span.least_covered = min(span.least_covered, int(told.guaranteed_span.min()))
        if self._sink is not None:
            self._sink(Verdicts(self.done, records, seen, truth))
        self.done += len(records)
        if self.done == self._course.due:
            self._course.mark(self.done, self.result.repeats)

    def _compare(
        self,
        records: Sequence[Record],
        keys: NDArray[np.uint64],
        rtl: _Answers,
        golden: _Answers,
    ) -> None:
        differing = np.flatnonzero(rtl.seen != golden.seen)
        self.result.mismatches = (self.result.mismatches or 0) + len(differing)
        if len(differing) and self.result.first_mismatch is None:
            at = int(differing[0])
            words = np.atleast_1d(keys[at])
            self.result.first_mismatch = Mismatch(
                index=self.done + at,
                text=records[at][0],
                key=sum(int(word) << 64 * place for place, word in enumerate(words)),
                rtl=bool(rtl.seen[at]),
                golden=bool(golden.seen[at]),
            )
        if (span := self.result.span) is not None:
            others = np.flatnonzero(rtl.status != golden.status)
            span.status_mismatches = (span.status_mismatches or 0) + len(others)
            if len(others) and span.first_status_mismatch is None:
                span.first_status_mismatch = self.done + int(others[0])

    def _count(self, truth: Truth, seen: NDArray[np.bool_]) -> None:
        result = self.result
        result.counts += np.bincount(truth.kind * 2 + seen, minlength=6).reshape(3, 2)
        result.repeats += int(truth.repeat.sum())
        result.repeats_found += int((truth.repeat & seen).sum())
        known = truth.distance > 0
        apart = truth.distance if truth.elapsed is None else truth.elapsed
        bins = np.searchsorted(result.distance_edges, apart[known], side="right") - 1
        result.distances += np.bincount(
            bins * 2 + seen[known], minlength=2 * len(result.distances)
        ).reshape(-1, 2)

    def finish(self, seconds: float) -> RunResult:
        """Take over what is known at the end."""
        result = self.result
        if result.span is not None and self._clock is not None:
            self._finish_span(result.span, self._clock)
        self._course.mark(self.done, result.repeats)
        result.checkpoints = self._course.checkpoints
        result.seconds = seconds
        result.shifts = self._golden.shifts
        result.distinct_keys = self._oracle.distinct_keys
        result.distinct_texts = max(len(self._texts), result.distinct_keys)
        result.malformed_lines = self._trace.rejects.count
        result.malformed_examples = self._trace.rejects.examples
        if self._unit is not None:
            result.cycles = self._unit.cycles
            counted = self._unit.statistics
            for name in filter(counted.__contains__, _COUNTERS):
                pair = int(counted[name]), int(getattr(self._golden, name))
                if pair[0] != pair[1]:
                    result.counter_mismatches[name] = pair
            differing = self._unit.memory != self._golden.memory
            result.memory_mismatches = int(differing.sum())
        return result

    def _finish_span(self, span: SpanResult, clock: TickCounter) -> None:
        if not clock.begun:
            raise TraceError(
                f"span: must be given for a stream with times, but column "
                f"{self._trace.time!r} of {self._trace.name} has none"
            )
        span.shortened, span.overfilled = self._golden.shortened, self._golden.overfilled
        span.late, span.latest, span.missing = clock.late, clock.latest, clock.missing


class _Course:
    """Checkpoints at even distances, in a stream whose length nobody knows.

    When there are too many, every second one is dropped and the distance doubled.
    """

    def __init__(
        self, golden: SlidingFilter | TimeLimitedRing, oracle: Oracle | TimedOracle
    ) -> None:
        self._golden: Any = golden
        self._oracle = oracle
        self._random = np.random.default_rng(PROBE_SEED)
        self._spacing = _FIRST_SPACING
        self.checkpoints: list[Checkpoint] = []
        self.due = self._spacing

    def mark(self, operations: int, repeats: int) -> None:
        """Record the state after some operations."""
        if self.checkpoints and self.checkpoints[-1].operations == operations:
            return
        keys = random_keys(self._random, PROBES, self._golden.key_bits)
        keys = keys[self._oracle.traceless(keys)]
        now = (self._oracle.now,) if isinstance(self._oracle, TimedOracle) else ()
        self.checkpoints.append(
            Checkpoint(
                operations=operations,
                repeats=repeats,
                probes=len(keys),
                probe_hits=int(self._golden.query(keys, *now).sum()),
                estimated_false_positive_rate=self._golden.estimated_false_positive_rate(*now),
                fill_ratios=self._golden.fill_ratios(),
            )
        )
        if len(self.checkpoints) == _CHECKPOINTS:
            self.checkpoints = self.checkpoints[1::2]
            self._spacing *= 2
        self.due = operations + self._spacing


@contextmanager
def _open_unit(engine: str | Engine, spec: FilterSpec) -> Iterator[Unit | None]:
    if engine == "golden":
        yield None
        return
    if engine == "rtl":
        HardwareProfile(spec).check_buildable()
        # Amaranth and the simulator are not needed for anything else.
        from ..sim import compiled_unit

        engine = compiled_unit
    if isinstance(engine, str):
        raise ValueError(f"engine: must be one of {', '.join(ENGINES)}, not {engine!r}")
    with engine(spec) as unit:
        yield unit
