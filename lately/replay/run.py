"""Replay of a stream through the RTL, the golden model and the exact oracle."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from secrets import randbits
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..golden import DecisionTable, Operation, WindowDictionarySpec, from_spec
from ..golden.errors import SpecificationError
from ..golden.hash.keys import random_keys, text_keys
from ..golden.hash.siphash import SECRET_BITS
from ..golden.spec.base import require
from ..golden.spec.timestamp import StampedPartsSpec, TimedTimingSpec
from ..golden.times import Times
from ..hdl.build import UnitSpec, unit_profile
from .cell_models import Answers
from .dictionary_replay import DictionaryModel, DictionaryOracle, DictionaryResult
from .oracle import Oracle, TimedOracle, Truth, places
from .result import PROBE_SEED, Checkpoint, Mismatch, RunResult, span_result
from .stream_times import TickCounter, with_window
from .timing_replay import TimingModel, TimingOracle, TimingResult, check_table
from .traces import Record, Trace, TraceError

ENGINES = ("rtl", "golden")
"""Engines that can run a filter: the compiled hardware, or the golden model."""
PROBES = 2000
"""Fresh keys asked for at each checkpoint."""

_CHUNK = 1 << 16
# Where a tick between two operations takes thousands of clocks.
_TICKING_CHUNK = 1 << 10
# Operations for which a model that is not optimised, and is built earlier, is fast enough.
_SHORT = 1 << 20
_FIRST_SPACING = 64
_CHECKPOINTS = 256
_COUNTERS = ("operations", "insertions", "hits", "shifts", "shortened", "overfilled", "lost")


class Unit(Protocol):
    """Compiled hardware, or what stands in for it.

    With a span, and of a dictionary or timing filter, it also has `perform`; if tables of
    thresholds answer, `decide_by`.
    """

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


Engine = Callable[[Any], AbstractContextManager[Unit]]
"""Makes the unit that a specification describes, for as long as the context lasts."""


class Seen(NamedTuple):
    """Answers of which nothing but the verdicts is compared, of shape (n,)."""

    seen: NDArray[np.bool_]


@dataclass(frozen=True)
class Verdicts:
    """Answers of the engine, `seen` of shape (n,), to the records from operation `start` on."""

    start: int
    records: Sequence[Record]
    seen: NDArray[np.bool_]
    truth: Truth


def run(
    trace: Trace,
    spec: UnitSpec,
    *,
    engine: str | Engine = "rtl",
    tick: int | None = None,
    query_window: int | None = None,
    table: DecisionTable | None = None,
    query_class: int = 0,
    secret: int | None = None,
    limit: int | None = None,
    progress: Callable[[RunResult, float | None], None] | None = None,
    sink: Callable[[Verdicts], None] | None = None,
) -> RunResult:
    """Check and insert every key of a stream, and judge every verdict.

    At some 200 checkpoints the golden model is also asked for `PROBES` random keys that it
    cannot hold, which real streams have too few of; queries change nothing.

    Parameters
    ----------
    trace : Trace
    spec : UnitSpec
    engine : str or callable
        'rtl' (the compiled hardware beside the golden model), 'golden' (the
        model alone), or what takes the hardware's place.
    tick : int, optional
        Nanoseconds of a tick, for a filter with a span: times of the stream make it go on.
    query_window : int, optional
        Window that each query asks for, in insertions or ticks, of a filter that answers for any;
        by default its own.
    table : DecisionTable, optional
        Answers, of a filter that has classes.
    query_class : int
        Class of all queries, with a table.
    secret : int, optional
        128 bits under which a filter with siphash hashes; by default drawn from the generator of
        the operating system.
    limit : int, optional
        Most operations to perform.
    progress : callable, optional
        Called with the result so far, and the share of the whole if known.
    sink : callable, optional
        Takes the verdicts, stretch by stretch.

    Raises
    ------
    ValueError
        If the engine is not known, the limit is below 1, or a tick is missing or too many.
    SpecificationError
        If the filter does not answer for such a window, or by such a table, or takes no secret.
    TraceError
        If the stream is damaged, no line of it parses, or it has no times for a span.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit: must be at least 1, not {limit}")
    clock = _clock(trace, spec, tick)
    asked = with_window(spec, query_window)
    keyed = getattr(spec, "hash", "h3") == "siphash"
    if secret is not None and not keyed:
        raise SpecificationError("secret: must not be given for a filter without siphash")
    if keyed and secret is None:
        secret = randbits(SECRET_BITS)
    check_table(spec, table, query_class)
    _check_engine(engine, spec)
    began = time.perf_counter()
    chunk = _TICKING_CHUNK if isinstance(spec, TimedTimingSpec) else _CHUNK
    records = trace.read(chunk if limit is None else min(chunk, limit))
    # In time, an operation may take as many clocks as pass before it.
    short = not getattr(spec, "timed", False) and _is_short(trace, len(records), limit)
    began -= time.perf_counter()
    with _open_unit(engine, spec, short=short) as unit:
        replay = _Replay(trace, spec, asked, unit, clock, sink)
        if table is not None:
            replay.decide_by(table, query_class)
        if secret is not None:
            replay.begin_under(secret)
        # The time that building took does not count.
        began += time.perf_counter()
        while records:
            replay.perform(records)
            if progress is not None:
                share, done = trace.fraction, replay.done
                share = share if limit is None else max(done / limit, share or 0.0)
                progress(replay.so_far(time.perf_counter() - began), share)
            records = trace.read(chunk if limit is None else min(chunk, limit - replay.done))
        return replay.finish(time.perf_counter() - began)


def _clock(trace: Trace, spec: UnitSpec, tick: int | None) -> TickCounter | None:
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


class _Replay:
    """One run in progress."""

    def __init__(
        self,
        trace: Trace,
        spec: UnitSpec,
        asked: UnitSpec,
        unit: Unit | None,
        clock: TickCounter | None,
        sink: Callable[[Verdicts], None] | None,
    ) -> None:
        self._trace = trace
        self._unit = unit
        self._clock = clock
        self._sink = sink
        self._windows = None if asked == spec else asked.guaranteed_window
        self._golden, self._oracle = _models(spec, asked)
        self._course = _Course(self._golden, self._oracle)
        # Hashes of different texts, of 64 bits and unrelated to the keys.
        self._texts = np.empty(0, np.int64)
        self.done = 0
        self.result = RunResult(
            spec=spec,
            asked=asked,
            engine="golden" if unit is None else "rtl",
            source={name: getattr(trace, name) for name in ("name", "format", "compression")}
            | {"key": list(trace.key), "time": trace.time},
            mismatches=None if unit is None else 0,
        )
        none: dict[str, Any] = {"answer_mismatches": self.result.mismatches}
        if isinstance(spec, WindowDictionarySpec):
            self.result.dictionary = DictionaryResult(least_guaranteed=spec.window, **none)
        elif isinstance(spec, StampedPartsSpec):
            self.result.timing = TimingResult(longest_age=spec.window_blocks, **none)
        if clock is not None:
            self.result.span = span_result(asked, clock.tick, **none)

    def decide_by(self, table: DecisionTable, query_class: int) -> None:
        """Have a table answer, and all queries be of a class."""
        filters: list[Any] = [self._golden.golden, self._unit]
        for filter in filters:
            if filter is not None:
                filter.decide_by(table.thresholds)
        self._golden.query_class = query_class
        self._windows = query_class

    def begin_under(self, secret: int) -> None:
        """Have keys hashed under a secret, from a clear on that brings it in."""
        key = text_keys([""], key_bits=self._golden.key_bits)
        time = None if self._clock is None else np.zeros(1, np.int64)
        filters: list[Any] = [self._golden, self._unit]
        for filter in filters:
            if filter is not None:
                filter.rekey(secret)
                if self.result.compared:
                    filter.perform([Operation.CLEAR], key, time, self._windows)
                else:
                    filter.apply([Operation.CLEAR], key)

    def perform(self, records: Sequence[Record]) -> None:
        """Check and insert the keys of some records."""
        texts = [text for text, _ in records]
        keys = text_keys(texts, key_bits=self.result.spec.key_bits)
        times = None if self._clock is None else self._clock.ticks(time for _, time in records)
        hashes = np.unique(np.fromiter(map(hash, texts), np.int64, len(texts)))
        place, new = places(self._texts, hashes)
        self._texts = np.insert(self._texts, place[new], hashes[new])
        # In one piece: the hardware's pipeline is drained after each.
        rtl = None if self._unit is None else self._answers(self._ask(self._unit, keys, times))
        start = 0
        while start < len(records):
            stop = min(len(records), start + self._course.due - self.done)
            part = slice(start, stop)
            moments = None if times is None else times[part]
            own = rtl and {name: told[part] for name, told in rtl.items()}
            self._perform_part(records[part], keys[part], moments, own)
            start = stop

    def _ask(self, filter: Any, keys: NDArray[np.uint64], times: Times | None) -> Any:
        """Check and insert keys; return what the filter told."""
        if not self.result.compared:
            return Seen(filter.check_and_insert(keys))
        codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
        return filter.perform(codes, keys, times, self._windows)

    def _answers(self, told: Any) -> Answers:
        """Return the fields of what was told that are compared."""
        names = {"seen"}.union(*(part.FIELDS for part in self.result.compared))
        return {name: getattr(told, name) for name in names}

    def _perform_part(
        self,
        records: Sequence[Record],
        keys: NDArray[np.uint64],
        times: Times | None,
        rtl: Answers | None,
    ) -> None:
        told = self._ask(self._golden, keys, times)
        golden = self._answers(told)
        if rtl is not None:
            self._compare(records, keys, rtl, golden)
        facts = [] if times is None else [times]
        if self.result.dictionary is not None:
            facts = [told.covered]
        for part in self.result.compared:
            part.note(told)
        seen = (rtl or golden)["seen"]
        truth = self._oracle.check_and_insert(keys, *facts)
        self._count(truth, seen)
        if self._sink is not None:
            self._sink(Verdicts(self.done, records, seen, truth))
        self.done += len(records)
        if self.done == self._course.due:
            self._course.mark(self.done, self.result.repeats)

    def _compare(
        self,
        records: Sequence[Record],
        keys: NDArray[np.uint64],
        rtl: Answers,
        golden: Answers,
    ) -> None:
        differing = np.flatnonzero(rtl["seen"] != golden["seen"])
        self.result.mismatches = (self.result.mismatches or 0) + len(differing)
        if len(differing) and self.result.first_mismatch is None:
            at = int(differing[0])
            words = np.atleast_1d(keys[at])
            self.result.first_mismatch = Mismatch(
                index=self.done + at,
                text=records[at][0],
                key=sum(int(word) << 64 * place for place, word in enumerate(words)),
                rtl=bool(rtl["seen"][at]),
                golden=bool(golden["seen"][at]),
            )
        for part in self.result.compared:
            part.compare(self.done, rtl, golden)

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

    def so_far(self, seconds: float) -> RunResult:
        """Return the result as far as the stream has been replayed."""
        self.result.checkpoints = self._course.checkpoints
        self.result.seconds = seconds
        return self.result

    def finish(self, seconds: float) -> RunResult:
        """Take over what is known at the end."""
        if self.result.span is not None and self._clock is not None:
            self._check_times(self._clock)
            self.result.span.finish(self._golden, self._clock)
        self._course.mark(self.done, self.result.repeats)
        result = self.so_far(seconds)
        result.shifts = self._golden.shifts
        if result.dictionary is not None:
            result.dictionary.lost = self._golden.lost
            result.dictionary.stash_peak = self._golden.golden.stash_peak
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
            if result.dictionary is None:
                differing = self._unit.memory != self._golden.memory
                result.memory_mismatches = int(differing.sum())
            else:
                result.memory_mismatches = self._golden.differing_cells(self._unit.memory)
        return result

    def _check_times(self, clock: TickCounter) -> None:
        if not clock.begun:
            raise TraceError(
                f"span: must be given for a stream with times, but column "
                f"{self._trace.time!r} of {self._trace.name} has none"
            )


class _Course:
    """Checkpoints at even distances, in a stream whose length nobody knows.

    When there are too many, every second one is dropped and the distance doubled.
    """

    def __init__(self, golden: Any, oracle: Any) -> None:
        self._golden = golden
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
        now = self._oracle.present
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


def _models(spec: UnitSpec, asked: Any) -> tuple[Any, Any]:
    """Return golden model and oracle; `asked` has the window that queries ask for."""
    if isinstance(spec, WindowDictionarySpec):
        return DictionaryModel(spec, asked), DictionaryOracle(asked)
    if isinstance(spec, StampedPartsSpec):
        return TimingModel(spec, asked), TimingOracle(asked)
    return from_spec(spec), (TimedOracle if asked.timed else Oracle)(asked)


def _is_short(trace: Trace, count: int, limit: int | None) -> bool:
    """Estimate from the first `count` records whether a model is not worth a compiler's time."""
    share = trace.fraction
    expected = count / share if share else math.inf
    return min(expected, limit or math.inf) <= _SHORT


def _check_engine(engine: str | Engine, spec: UnitSpec) -> None:
    if engine == "rtl":
        unit_profile(spec).check_buildable()
    elif isinstance(engine, str) and engine not in ENGINES:
        raise ValueError(f"engine: must be one of {', '.join(ENGINES)}, not {engine!r}")


@contextmanager
def _open_unit(engine: str | Engine, spec: UnitSpec, *, short: bool) -> Iterator[Unit | None]:
    if engine == "golden":
        yield None
        return
    if engine == "rtl":
        # Amaranth and the simulator are not needed for anything else.
        from ..sim import compiled_unit

        engine = cast(Engine, partial(compiled_unit, optimisation=0 if short else 3))
    with cast(Engine, engine)(spec) as unit:
        yield unit
