"""Counts of a replayed stream, and the figures derived from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..golden import FilterSpec, Results
from ..golden.durations import NANOSECONDS
from ..golden.ring.rotation import STATUSES
from ..golden.spec.base import Specification
from ..intervals import clopper_pearson
from .oracle import FRESH, GUARANTEED, SLACK
from .stream_times import TickCounter

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
class Reported:
    spec: Any
    mismatches: int | None  # None without RTL
    first_mismatch: int | None = None  # operation, counting from 0
    # Number of operations per status, shape (3,).
    statuses: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STATUSES), np.int64))
    min_covered: int  # minimum of `lately.golden.Results.covered`
    expired: int = 0  # number of keys with an expired cell

    @property
    def fields(self) -> tuple[str, ...]:
        spec = self.spec
        return COMPARED.get(spec.kind, ("age",)) if spec.timed or spec.kind != "ring" else ()

    def note(self, results: Results) -> None:
        if not len(results.seen):
            return
        self.statuses += np.bincount(results.status, minlength=len(self.statuses))
        self.min_covered = min(self.min_covered, int(results.covered.min()))
        if self.spec.kind == "timing":
            self.expired += int((results.age > self.spec.window_blocks).sum())

    def compare(self, start: int, rtl: Results, golden: Results) -> None:
        differ = [getattr(rtl, name) != getattr(golden, name) for name in self.fields]
        others = np.flatnonzero(np.any(differ, axis=0)) if differ else np.empty(0, np.intp)
        self.mismatches = (self.mismatches or 0) + len(others)
        if len(others) and self.first_mismatch is None:
            self.first_mismatch = start + int(others[0])

    def failures(self) -> list[str]:
        if not self.mismatches:
            return []
        names = " and ".join(_NAMES[name] for name in self.fields)
        return [
            f"RTL and golden model differ in the {names} of {self.mismatches} results; the first "
            f"is at operation {self.first_mismatch}"
        ]


@dataclass(kw_only=True)
class RunResult:
    spec: Specification
    asked: Specification  # like `spec`, but with the window of the queries
    engine: str
    source: dict[str, Any]  # name, format, key and compression of the trace
    # Number of operations by class (`oracle.CLASSES`) and verdict (0 not seen, 1 seen), (3, 2).
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((3, 2), np.int64))
    clock: TickCounter | None = None  # None if the window counts insertions
    reported: Reported = field(init=False)
    # Counters of the golden model at the end; a dictionary adds ``stash_peak``.
    counters: dict[str, int] = field(default_factory=dict)
    distance_edges: NDArray[np.int64] = field(init=False)
    # Repeats at any distance, by bin of `distance_edges` and verdict, shape (bins, 2).
    distances: NDArray[np.int64] = field(init=False)
    checkpoints: list[Checkpoint] = field(default_factory=list)  # evenly spaced, and one at the end
    repeats: int = 0  # queries for keys within the window (`oracle.Truth`) or the span
    reported_repeats: int = 0  # number of them that were reported
    shifts: int = 0  # shifts of the golden model
    distinct_keys: int = 0  # fewer than the distinct texts if keys collide
    distinct_texts: int = 0  # distinct key texts in the trace
    malformed_lines: int = 0  # lines without a valid record
    malformed_examples: list[tuple[int, str]] = field(default_factory=list)  # line and reason
    # None without RTL. Memory is compared by bits in a ring, by cells in other filters.
    cycles: int | None = None
    mismatches: int | None = None
    memory_mismatches: int | None = None
    first_mismatch: Mismatch | None = None
    # Counters that differ: values in RTL and golden model.
    counter_mismatches: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0  # wall-clock time

    def __post_init__(self) -> None:
        self.distance_edges = distance_edges(self.asked)
        spec: Any = self.spec
        limit = spec.span + 1 if spec.kind == "ring" and spec.timed else spec.guaranteed_window
        self.reported = Reported(spec=spec, mismatches=self.mismatches, min_covered=limit)
        self.distances = np.zeros((len(self.distance_edges) - 1, 2), np.int64)

    @property
    def operations(self) -> int:
        return int(self.counts.sum())

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
        failures += self.reported.failures()
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
            "engine": self.engine,
            "source": self.source,
            "spec": self.spec.to_dict(),
            "query_window": None if self.asked == self.spec else self.asked.guaranteed_window,
            **dict.fromkeys(("span", "dictionary", "timing")),
            **self._kind_figures(),
            "operations": self.operations,
            "cycles": self.cycles,
            "cycles_per_operation": self.cycles and _ratio(self.cycles, self.operations),
            "shifts": self.shifts,
            "mismatches": self.mismatches,
            "memory_mismatches": self.memory_mismatches,
            "seconds": self.seconds,
            "operations_per_second": self.operations / self.seconds if self.seconds else None,
            **self._verdict_figures(),
            **self.probe_figures(),
            "distinct_keys": self.distinct_keys,
            "colliding_keys": self.distinct_texts - self.distinct_keys,
            "malformed_lines": self.malformed_lines,
            "malformed_examples": [
                {"line": line, "reason": reason} for line, reason in self.malformed_examples
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
        reported, counters, kind = self.reported, self.counters, self.spec.kind
        figures: dict[str, Any] = {}
        if (clock := self.clock) is not None:
            span = cast(Any, self.asked).span
            figures["span"] = {
                "ticks": span,
                "tick_seconds": clock.tick / NANOSECONDS,
                # Every key younger than this is reported.
                "seconds": span * clock.tick / NANOSECONDS,
                "late_times": clock.late,
                "latest_seconds": clock.latest / NANOSECONDS,
                "missing_times": clock.missing,
            }
        if clock is not None and kind == "ring":
            names = [status.value for status in STATUSES]
            figures["span"] |= {
                "when_full": getattr(self.asked, "when_full", None),
                "statuses": dict(zip(names, reported.statuses.tolist(), strict=True)),
                "status_mismatches": reported.mismatches,
                "least_covered_ticks": reported.min_covered - 1,
                "shortened": counters.get("shortened", 0),
                "overfilled": counters.get("overfilled", 0),
            }
        elif kind == "dictionary":
            figures[kind] = {
                "lost": counters.get("lost", 0),
                "least_guaranteed": reported.min_covered,
                "uncertain": int(reported.statuses[1:].sum()),
                "stash_peak": counters.get("stash_peak", 0),
                "age_mismatches": reported.mismatches,
            }
        if kind == "timing":
            figures[kind] = {"expired": reported.expired, "age_mismatches": reported.mismatches}
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
    """Return distance bin edges: four per octave, and the ends of window and slack, or of span."""
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
