"""Replay a stream through the RTL, the golden model and the exact oracle, and count results."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..golden import DecisionTable, FilterSpec, Operation, Results, from_spec
from ..golden.durations import NANOSECONDS
from ..golden.errors import SpecificationError
from ..golden.hash.keys import random_keys
from ..golden.hash.siphash import random_secret
from ..golden.ring.rotation import STATUSES
from ..golden.spec.base import Specification, require
from ..golden.times import Times
from ..hdl.build import unit_profile
from ..intervals import clopper_pearson
from .oracle import FRESH, GUARANTEED, SLACK, Oracle, Truth, check_table, indices, with_window
from .traces import Record, Rejects, TickCounter, Trace, TraceError

ENGINES = ("rtl", "golden")
PROBES = 2000  # number of fresh keys queried at each checkpoint
_CHUNK = 1 << 16
_TICKING_CHUNK = 1 << 10  # for ticks that take thousands of cycles between two operations
_SHORT = 1 << 20  # up to this many operations, an unoptimised model is fast enough
_FIRST_SPACING = 64
_CHECKPOINTS = 256
PROBE_SEED = 20130101  # seed of the random keys for measuring the false-positive rate


@dataclass(frozen=True)
class Checkpoint:
    operations: int
    repeats: int
    probes: int  # number of fresh keys queried here
    probe_hits: int  # number of them that were reported
    estimated_false_positive_rate: float  # computed from the bits set here
    fill_ratios: NDArray[np.float64]  # per segment, youngest to oldest

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {
            "probe_false_positive_rate": _ratio(self.probe_hits, self.probes),
            "probe_false_positive_interval": clopper_pearson(self.probe_hits, self.probes),
            "fill_ratios": self.fill_ratios.tolist(),
        }


@dataclass(frozen=True)
class Mismatch:
    index: int  # operation, counting from 0
    text: str  # key as in the trace
    key: int  # key as in the filter
    rtl: bool
    golden: bool


# Fields of `lately.golden.Results` that are compared besides `seen`, by kind of filter.
COMPARED: Mapping[str, tuple[str, ...]] = {
    "ring": ("status",),
    "dictionary": ("age", "status"),
    "timing": ("age", "oldest"),
}

_NAMES = {"status": "statuses", "age": "ages", "oldest": "oldest cells"}


@dataclass(kw_only=True)
class RunResult:
    spec: Specification
    asked: Specification  # like `spec`, but with the window of the queries
    source: dict[str, Any]  # name, format, key and compression of the trace
    # Number of operations by class (`oracle.CLASSES`) and verdict (0 not seen, 1 seen), (3, 2).
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((3, 2), np.int64))
    clock: TickCounter | None = None  # None if the window counts insertions
    # Number of operations per status, shape (3,).
    statuses: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STATUSES), np.int64))
    min_covered: int = field(init=False)  # minimum of `lately.golden.Results.covered`
    expired: int = 0  # number of keys with an expired cell
    # Counters of the golden model at the end; a dictionary adds ``stash_peak``.
    counters: dict[str, int] = field(default_factory=dict)
    distance_edges: NDArray[np.int64] = field(init=False)
    # Repeats at any distance, by bin of `distance_edges` and verdict, shape (bins, 2).
    distances: NDArray[np.int64] = field(init=False)
    checkpoints: list[Checkpoint] = field(default_factory=list)  # evenly spaced, and one at the end
    repeats: int = 0  # queries for keys within the window (`oracle.Truth`) or the span
    reported_repeats: int = 0  # number of them that were reported
    distinct_keys: int = 0  # fewer than the distinct texts if keys collide
    distinct_texts: int = 0  # distinct key texts in the trace
    rejects: Rejects = field(default_factory=Rejects)  # lines without a valid record
    # None without RTL. Memory is compared by bits in a ring, by cells in other filters.
    cycles: int | None = None
    mismatches: int | None = None
    field_mismatches: int | None = None  # of the fields in `compared`
    first_field_mismatch: int | None = None  # operation, counting from 0
    memory_mismatches: int | None = None
    first_mismatch: Mismatch | None = None
    # Counters that differ: values in RTL and golden model.
    counter_mismatches: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0  # wall-clock time

    def __post_init__(self) -> None:
        self.distance_edges = distance_edges(self.asked)
        spec: Any = self.spec
        is_timed = spec.kind == "ring" and spec.timed
        self.min_covered = spec.span + 1 if is_timed else spec.guaranteed_window
        self.field_mismatches = self.mismatches
        self.distances = np.zeros((len(self.distance_edges) - 1, 2), np.int64)

    @property
    def operations(self) -> int:
        return int(self.counts.sum())

    @property
    def compared(self) -> tuple[str, ...]:
        spec = self.spec
        return COMPARED.get(spec.kind, ("age",)) if spec.timed or spec.kind != "ring" else ()

    @property
    def decided(self) -> bool:
        """Whether a threshold table decides which keys are reported."""
        return self.spec.classes is not None

    @property
    def predicted(self) -> float | None:
        return None if self.decided else self.asked.mean_false_positive_rate

    @property
    def false_negatives(self) -> int:
        return int(self.counts[GUARANTEED, 0])

    def failures(self) -> list[str]:
        failures = []
        if self.first_mismatch is not None:
            first = self.first_mismatch
            failures.append(
                f"RTL and golden model differ in {self.mismatches} verdicts; the first is at "
                f"operation {first.index}, key {first.text!a} ({first.key:#x}): "
                f"RTL {first.rtl}, golden {first.golden}"
            )
        if self.field_mismatches:
            names = " and ".join(_NAMES[name] for name in self.compared)
            failures.append(
                f"RTL and golden model differ in the {names} of {self.field_mismatches} results; "
                f"the first is at operation {self.first_field_mismatch}"
            )
        if self.memory_mismatches:
            cells = f"{self.memory_mismatches} {self.spec.cell_name}s"
            failures.append(f"RTL and golden model differ in {cells} of memory")
        for name, (rtl, golden) in self.counter_mismatches.items():
            failures.append(f"counter {name} is {rtl} in the RTL, but {golden} in the golden model")
        if self.false_negatives and not self.decided:
            keys = f"{self.false_negatives} keys within the guaranteed window"
            failures.append(f"{keys} were not reported")
        return failures

    def figures(self) -> dict[str, Any]:
        return {
            "lately": __version__,
            "engine": "golden" if self.mismatches is None else "rtl",
            "source": self.source,
            "spec": self.spec.to_dict(),
            "query_window": None if self.asked == self.spec else self.asked.guaranteed_window,
            **dict.fromkeys(("span", "dictionary", "timing")),
            **self._kind_figures(),
            "operations": self.operations,
            "cycles": self.cycles,
            "cycles_per_operation": self.cycles and _ratio(self.cycles, self.operations),
            "shifts": self.counters.get("shifts", 0),
            "mismatches": self.mismatches,
            "memory_mismatches": self.memory_mismatches,
            "seconds": self.seconds,
            "operations_per_second": self.operations / self.seconds if self.seconds else None,
            **self._verdict_figures(),
            **self.probe_figures(),
            "distinct_keys": self.distinct_keys,
            "colliding_keys": self.distinct_texts - self.distinct_keys,
            "malformed_lines": self.rejects.count,
            "malformed_examples": [
                {"line": line, "reason": reason} for line, reason in self.rejects.examples
            ],
            "first_mismatch": vars(self.first_mismatch) if self.first_mismatch else None,
            "counter_mismatches": self.counter_mismatches,
        }

    def series(self) -> dict[str, Any]:
        filled = np.flatnonzero(self.distances.sum(axis=1))
        return {
            "checkpoints": [checkpoint.to_dict() for checkpoint in self.checkpoints],
            "distance_unit": "insertions" if self.clock is None else "ticks",
            "distances": [
                {
                    "from": int(self.distance_edges[index]),
                    "below": int(self.distance_edges[index + 1]),
                    "not_seen": int(self.distances[index, 0]),
                    "seen": int(self.distances[index, 1]),
                }
                for index in filled
            ],
        }

    def _kind_figures(self) -> dict[str, Any]:
        counters, kind = self.counters, self.spec.kind
        figures: dict[str, Any] = {}
        if (clock := self.clock) is not None:
            span = cast(Any, self.asked).span
            figures["span"] = {
                "ticks": span,
                "tick_seconds": clock.tick / NANOSECONDS,
                # Every younger key is reported, unless the window was shortened.
                "seconds": span * clock.tick / NANOSECONDS,
                "late_times": clock.late,
                "latest_seconds": clock.latest / NANOSECONDS,
                "missing_times": clock.missing,
            }
        if clock is not None and kind == "ring":
            names = [status.value for status in STATUSES]
            figures["span"] |= {
                "when_full": getattr(self.asked, "when_full", None),
                "statuses": dict(zip(names, self.statuses.tolist(), strict=True)),
                "status_mismatches": self.field_mismatches,
                "least_covered_ticks": self.min_covered - 1,
                "shortened": counters.get("shortened", 0),
                "overfilled": counters.get("overfilled", 0),
            }
        elif kind == "dictionary":
            figures[kind] = {
                "lost": counters.get("lost", 0),
                "least_guaranteed": self.min_covered,
                "uncertain": int(self.statuses[1:].sum()),
                "stash_peak": counters.get("stash_peak", 0),
                "age_mismatches": self.field_mismatches,
            }
        if kind == "timing":
            figures[kind] = {"expired": self.expired, "age_mismatches": self.field_mismatches}
        return figures

    def _verdict_figures(self) -> dict[str, Any]:
        fresh, fresh_seen = self.counts[FRESH].sum(), self.counts[FRESH, 1]
        slack, slack_seen = self.counts[SLACK].sum(), self.counts[SLACK, 1]
        return {
            "false_negatives": self.false_negatives,
            "guaranteed_queries": int(self.counts[GUARANTEED].sum()),
            "false_positives": int(fresh_seen), "fresh_queries": int(fresh),
            "false_positive_rate": _ratio(fresh_seen, fresh),
            "false_positive_interval": clopper_pearson(fresh_seen, fresh),
            "predicted_false_positive_rate": self.predicted, "stale_positives": int(slack_seen),
            "stale_queries": int(slack), "stale_positive_rate": _ratio(slack_seen, slack),
            "stale_positive_interval": clopper_pearson(slack_seen, slack), "repeats": self.repeats,
            "repeats_found": self.reported_repeats,
        }  # fmt: skip

    def probe_figures(self) -> dict[str, Any]:
        probes = sum(checkpoint.probes for checkpoint in self.checkpoints)
        hits = sum(checkpoint.probe_hits for checkpoint in self.checkpoints)
        estimates = [point.estimated_false_positive_rate for point in self.checkpoints]
        return {
            "estimated_false_positive_rate": float(np.mean(estimates)) if estimates else None,
            "probes": probes,
            "probe_seed": PROBE_SEED,
            "probe_false_positives": hits,
            "probe_false_positive_rate": _ratio(hits, probes),
            "probe_false_positive_interval": clopper_pearson(hits, probes),
        }


def distance_edges(spec: Specification) -> NDArray[np.int64]:
    """Return the edges of distance bins: four per octave, and the ends of window, slack or span."""
    regular = np.unique(np.rint(2 ** (np.arange(4 * 62 + 1) / 4)).astype(np.int64))
    window = spec.guaranteed_window
    if spec.kind == "ring" and spec.timed:
        last = [cast(FilterSpec, spec).span]
    else:
        last = [window, window + spec.slack]
    ends = np.array(last) + 1
    # A regular edge close to one of these would create a very narrow bin.
    far = np.abs(np.log2(regular[:, None] / ends)).min(axis=1) > 1 / 8
    far[0] = True
    return np.unique(
        np.concatenate([[0] if spec.timed else [], regular[far], ends]).astype(np.int64)
    )


def _ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


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
            spec=spec, asked=asked, clock=clock, mismatches=None if unit is None else 0,
            rejects=trace.rejects,
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
        result = self.result
        result.statuses += np.bincount(golden.status, minlength=len(STATUSES))
        result.min_covered = min(result.min_covered, int(golden.covered.min()))
        if result.spec.kind == "timing":
            result.expired += int((golden.age > result.spec.window_blocks).sum())
        answers = golden if rtl is None else rtl
        covered = golden.covered if result.spec.kind == "dictionary" else None
        truth = self._oracle.check_and_insert(keys, times, covered)
        self._count(truth, answers.seen)
        if self._sink is not None:
            self._sink(JudgedRecords(self.done, records, answers, truth))
        self.done += len(records)
        if self.done == self._course.due:
            self._course.mark(self.done, result.repeats)

    def _compare(
        self, records: Sequence[Record], keys: NDArray[np.uint64], rtl: Results, golden: Results
    ) -> None:
        result, differing = self.result, np.flatnonzero(rtl.seen != golden.seen)
        result.mismatches = (result.mismatches or 0) + len(differing)
        if len(differing) and result.first_mismatch is None:
            at = int(differing[0])
            words = np.atleast_1d(keys[at])
            result.first_mismatch = Mismatch(
                index=self.done + at,
                text=records[at][0],
                key=sum(int(word) << 64 * number for number, word in enumerate(words)),
                rtl=bool(rtl.seen[at]),
                golden=bool(golden.seen[at]),
            )
        differ = [getattr(rtl, name) != getattr(golden, name) for name in result.compared]
        others = np.flatnonzero(np.any(differ, axis=0)) if differ else np.empty(0, np.intp)
        result.field_mismatches = (result.field_mismatches or 0) + len(others)
        if len(others) and result.first_field_mismatch is None:
            result.first_field_mismatch = self.done + int(others[0])

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
        result.distinct_keys = self._oracle.distinct_keys
        result.distinct_texts = max(len(self._texts), result.distinct_keys)
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
    """Takes checkpoints; when there are `_CHECKPOINTS`, drops every other one."""

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
    """Estimate from the first `count` records whether an unoptimised model is fast enough."""
    expected = count / trace.fraction if trace.fraction else math.inf
    return min(expected, limit or math.inf) <= _SHORT


def _open_unit(
    engine: str | Engine, spec: Specification, *, short: bool
) -> AbstractContextManager[Any]:
    if engine == "golden":
        return nullcontext()
    if engine == "rtl":
        # Only the hardware engine needs Amaranth and the simulator.
        from ..sim import compiled_unit

        return compiled_unit(spec, optimisation=0 if short else 3)
    return cast(Engine, engine)(spec)
