"""Replay a stream through the RTL, the golden model and the exact oracle."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..golden import DecisionTable, Operation, Results, from_spec
from ..golden.errors import SpecificationError
from ..golden.hash.keys import random_keys
from ..golden.hash.siphash import random_secret
from ..golden.spec.base import Specification, require
from ..golden.times import Times
from ..hdl.build import unit_profile
from .oracle import Oracle, Truth, indices
from .result import PROBE_SEED, Checkpoint, Mismatch, RunResult
from .stream_times import TickCounter, check_table, with_window
from .traces import Record, Trace, TraceError

ENGINES = ("rtl", "golden")
PROBES = 2000  # number of fresh keys queried at each checkpoint
_CHUNK = 1 << 16
_TICKING_CHUNK = 1 << 10  # for ticks that take thousands of cycles between two operations
_SHORT = 1 << 20  # up to this many operations, an unoptimised model is fast enough
_FIRST_SPACING = 64
_CHECKPOINTS = 256


Engine = Callable[[Any], AbstractContextManager[Any]]  # opens the unit for a specification


@dataclass(frozen=True)
class JudgedRecords:
    start: int
    records: Sequence[Record]
    results: Results
    truth: Truth


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    engine: str | Engine = "rtl"  # 'rtl', 'golden', or a replacement for the hardware
    tick: int | None = None  # for a filter with a span: nanoseconds per tick
    # Window of each query, in insertions or ticks, if the filter accepts one.
    query_window: int | None = None
    table: DecisionTable | None = None  # decides the answers of a filter with classes
    query_class: int = 0  # class of all queries, with a table
    secret: int | None = None  # 128 bits for a filter with siphash; by default random
    limit: int | None = None  # maximum number of operations


def run(
    trace: Trace, spec: Specification, options: RunOptions | None = None, *,
    progress: Callable[[RunResult, float | None], None] | None = None,
    sink: Callable[[JudgedRecords], None] | None = None,
) -> RunResult:  # fmt: skip
    """Check and insert every key of a stream, and compare every verdict with the exact oracle."""
    options = options or RunOptions()
    limit, secret = options.limit, options.secret
    if limit is not None and limit < 1:
        raise ValueError(f"limit: must be at least 1, not {limit}")
    clock = _clock(trace, spec, options.tick)
    asked = with_window(spec, options.query_window)
    if secret is not None and not spec.keyed:
        raise SpecificationError("secret: the filter uses no secret; its hash is not siphash")
    if spec.keyed and secret is None:
        secret = random_secret()
    check_table(spec, options.table, options.query_class)
    if options.engine == "rtl":
        unit_profile(spec).check_buildable()
    elif isinstance(options.engine, str) and options.engine not in ENGINES:
        raise ValueError(f"engine: must be one of {', '.join(ENGINES)}, not {options.engine!r}")
    began = time.perf_counter()
    chunk = _TICKING_CHUNK if spec.timed and spec.kind == "timing" else _CHUNK
    records = trace.read(chunk if limit is None else min(chunk, limit))
    # With a time window, an operation may wait as many cycles as pass before its time.
    short = not spec.timed and _is_short(trace, len(records), limit)
    began -= time.perf_counter()
    with _open_unit(options.engine, spec, short=short) as unit:
        replay = _Replay(trace, spec, asked, unit, clock, sink)
        replay.prepare(options, secret)
        # Do not count the time for building the model.
        began += time.perf_counter()
        while records:
            replay.perform(records)
            if progress is not None:
                share, done = trace.fraction, replay.done
                share = share if limit is None else max(done / limit, share or 0.0)
                progress(replay.so_far(time.perf_counter() - began), share)
            records = trace.read(chunk if limit is None else min(chunk, limit - replay.done))
        return replay.finish(time.perf_counter() - began)


def _clock(trace: Trace, spec: Specification, tick: int | None) -> TickCounter | None:
    if not spec.timed:
        if tick is not None:
            raise SpecificationError("tick: the filter's window counts insertions, not time")
        return None
    require(tick is not None and tick >= 1, "tick", "must be at least 1 ns for a span", tick)
    if trace.time is None:
        lack = (
            "no times, only keys"
            if trace.format == "lines"
            else "no time column; select it with --time"
        )
        raise TraceError(f"span: {trace.name} has {lack}")
    return TickCounter(tick or 1)


class _Replay:
    def __init__(
        self, trace: Trace, spec: Specification, asked: Specification, unit: Any,
        clock: TickCounter | None, sink: Callable[[JudgedRecords], None] | None,
    ) -> None:  # fmt: skip
        self._trace, self._unit, self._clock, self._sink = trace, unit, clock, sink
        self._windows = None if asked == spec else asked.guaranteed_window
        self._golden, self._oracle = from_spec(spec), Oracle(asked)
        self._course = _Checkpoints(self._golden, self._oracle, asked)
        # 64-bit hashes of the distinct texts, unrelated to the keys.
        self._texts = np.empty(0, np.int64)
        self.done = 0
        self.result = RunResult(
            spec=spec, asked=asked, engine="golden" if unit is None else "rtl", clock=clock,
            mismatches=None if unit is None else 0,
            source={name: getattr(trace, name) for name in ("name", "format", "compression")}
            | {"key": list(trace.key), "time": trace.time},
        )  # fmt: skip

    def prepare(self, options: RunOptions, secret: int | None) -> None:
        units: list[Any] = [unit for unit in (self._golden, self._unit) if unit is not None]
        for unit in units:
            if options.table is not None:
                unit.decide_by(options.table.thresholds)
                self._windows = self._course.window = options.query_class
            if secret is not None:
                unit.rekey(secret)
                # After a clear, all keys are hashed with the new secret.
                time = None if self._clock is None else np.zeros(1, np.int64)
                unit.perform([Operation.CLEAR], self._golden.key_words([0]), time)

    def perform(self, records: Sequence[Record]) -> None:
        texts = [text for text, _ in records]
        keys = self._golden.key_words(texts)
        times = None if self._clock is None else self._clock.ticks(time for _, time in records)
        hashes = np.unique(np.fromiter(map(hash, texts), np.int64, len(texts)))
        index, new = indices(self._texts, hashes)
        self._texts = np.insert(self._texts, index[new], hashes[new])
        # In one call, because the hardware pipeline is drained after each call.
        rtl = None if self._unit is None else self._ask(self._unit, keys, times)
        start = 0
        while start < len(records):
            stop = min(len(records), start + self._course.due - self.done)
            part = slice(start, stop)
            moments = None if times is None else times[part]
            self._perform_part(records[part], keys[part], moments, rtl and rtl.part(part))
            start = stop

    def _ask(self, filter: Any, keys: NDArray[np.uint64], times: Times | None) -> Results:
        codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
        results: Results = filter.perform(codes, keys, times, self._windows)
        return results

    def _perform_part(
        self, records: Sequence[Record], keys: NDArray[np.uint64], times: Times | None,
        rtl: Results | None,
    ) -> None:  # fmt: skip
        golden = self._ask(self._golden, keys, times)
        if rtl is not None:
            self._compare(records, keys, rtl, golden)
        self.result.reported.note(golden)
        answers = golden if rtl is None else rtl
        covered = golden.covered if self.result.spec.kind == "dictionary" else None
        truth = self._oracle.check_and_insert(keys, times, covered)
        self._count(truth, answers.seen)
        if self._sink is not None:
            self._sink(JudgedRecords(self.done, records, answers, truth))
        self.done += len(records)
        if self.done == self._course.due:
            self._course.mark(self.done, self.result.repeats)

    def _compare(
        self, records: Sequence[Record], keys: NDArray[np.uint64], rtl: Results, golden: Results
    ) -> None:
        differing = np.flatnonzero(rtl.seen != golden.seen)
        self.result.mismatches = (self.result.mismatches or 0) + len(differing)
        if len(differing) and self.result.first_mismatch is None:
            at = int(differing[0])
            words = np.atleast_1d(keys[at])
            self.result.first_mismatch = Mismatch(
                index=self.done + at,
                text=records[at][0],
                key=sum(int(word) << 64 * number for number, word in enumerate(words)),
                rtl=bool(rtl.seen[at]),
                golden=bool(golden.seen[at]),
            )
        self.result.reported.compare(self.done, rtl, golden)

    def _count(self, truth: Truth, seen: NDArray[np.bool_]) -> None:
        result = self.result
        result.counts += np.bincount(truth.kind * 2 + seen, minlength=6).reshape(3, 2)
        result.repeats += int(truth.repeat.sum())
        result.reported_repeats += int((truth.repeat & seen).sum())
        known = truth.distance > 0
        apart = truth.distance if truth.elapsed is None else truth.elapsed
        bins = np.searchsorted(result.distance_edges, apart[known], side="right") - 1
        result.distances += np.bincount(
            bins * 2 + seen[known], minlength=2 * len(result.distances)
        ).reshape(-1, 2)

    def so_far(self, seconds: float) -> RunResult:
        self.result.checkpoints = self._course.checkpoints
        self.result.seconds = seconds
        return self.result

    def finish(self, seconds: float) -> RunResult:
        if self._clock is not None and not self._clock.begun:
            column = f"column {self._trace.time!r} of {self._trace.name}"
            raise TraceError(f"span: needs times, but {column} has none")
        self._course.mark(self.done, self.result.repeats)
        result = self.so_far(seconds)
        counters = self._golden.counters
        result.counters = {**counters, "stash_peak": getattr(self._golden, "stash_peak", 0)}
        result.shifts = counters.get("shifts", 0)
        result.distinct_keys = self._oracle.distinct_keys
        result.distinct_texts = max(len(self._texts), result.distinct_keys)
        result.malformed_lines = self._trace.rejects.count
        result.malformed_examples = self._trace.rejects.examples
        if self._unit is not None:
            result.cycles = self._unit.cycles
            counted = self._unit.statistics
            for name in filter(counted.__contains__, counters):
                pair = int(counted[name]), counters[name]
                if pair[0] != pair[1]:
                    result.counter_mismatches[name] = pair
            result.memory_mismatches = self._golden.differing_cells(self._unit.memory)
        return result


class _Checkpoints:
    """Takes checkpoints in a stream of unknown length, and halves their number at a maximum."""

    def __init__(self, golden: Any, oracle: Oracle, asked: Specification) -> None:
        self._golden, self._oracle = golden, oracle
        # Window or class of the queries.
        self.window = asked.guaranteed_window if asked.query_field else None
        self._random = np.random.default_rng(PROBE_SEED)
        self.checkpoints: list[Checkpoint] = []
        self.due = self._spacing = _FIRST_SPACING

    def mark(self, operations: int, repeats: int) -> None:
        if self.checkpoints and self.checkpoints[-1].operations == operations:
            return
        keys = random_keys(self._random, PROBES, self._golden.key_bits)
        keys = keys[self._oracle.traceless(keys)]
        now = self._oracle.present
        times = np.full(len(keys), now[0]) if now else None
        windows = {} if self.window is None else {"window": self.window}
        self.checkpoints.append(
            Checkpoint(
                operations, repeats, len(keys),
                probe_hits=int(self._golden.look_up(keys, times, self.window).seen.sum()),
                estimated_false_positive_rate=self._golden.estimated_false_positive_rate(
                    *now, **windows
                ),
                fill_ratios=self._golden.fill_ratios(),
            )
        )  # fmt: skip
        if len(self.checkpoints) == _CHECKPOINTS:
            self.checkpoints = self.checkpoints[1::2]
            self._spacing *= 2
        self.due = operations + self._spacing


def _is_short(trace: Trace, count: int, limit: int | None) -> bool:
    """Estimate from the first `count` records whether a stream is too short for optimisation."""
    expected = count / trace.fraction if trace.fraction else math.inf
    return min(expected, limit or math.inf) <= _SHORT


@contextmanager
def _open_unit(engine: str | Engine, spec: Specification, *, short: bool) -> Iterator[Any]:
    if engine == "golden":
        yield None
        return
    if engine == "rtl":
        # Only the hardware engine needs Amaranth and the simulator.
        from ..sim import compiled_unit

        engine = cast(Engine, partial(compiled_unit, optimisation=0 if short else 3))
    with cast(Engine, engine)(spec) as unit:
        yield unit
