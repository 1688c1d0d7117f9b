"""Long runs of the compiled hardware beside the golden model, on mixed random operations."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from lately.golden import (
    FilterSpec,
    Operation,
    Specification,
    WindowDictionarySpec,
    any_preset,
    from_spec,
)
from lately.golden.ring.turn_policy import STATUSES
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from lately.golden.times import Times
from lately.hdl.build import UnitSpec
from lately.planner.choice import with_ticks

from .dictionary_soak import DictionaryCourse
from .engine import Campaign, Point, Records, Result
from .options import parse_seeds, select
from .soak_course import Course, drawn_build
from .timing_soak import CountedTimingCourse, TimingCourse
from .workers import tell

CHUNK = 1 << 20
"""Operations between two comparisons of counters, and between two choices of keys."""

MEMORY_CHUNKS = 16
"""Chunks between two comparisons of every bit of memory."""

SPELLS = 64
"""Mean spells in each chunk of a window in time, each at a rate of its own and after a silence."""

SHORT_SHARE = 64
"""One operation in so many, at most, is performed with generations below the minimum."""

EMPTY = (0.0, 0.0, 0.1, 0.5)
"""Shares of the operations before which lanes stay empty; one is drawn for each kind and chunk."""

SILENCE = 1 << 19
"""Cycles of a silence in which ticks come, at most."""

BUILD = 7
"""Number of the draws of options among those of a seed."""

EVENTS = 16
"""In each chunk: forced shifts, a quarter of them right after another, and one clear."""


def soak(
    spec: UnitSpec,
    *,
    operations: int = 100_000_000,
    seed: int = 1,
    memory: str | None = None,
    stalls: bool = True,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Compare the compiled hardware with the golden model for a long time.

    Half the keys of a chunk come from a small pool, so that hits of every age are frequent; the
    others are random. See `Course` and its classes for what else comes to each kind of unit.

    `seed` is that of keys and operations, and of the options of the hardware, unless `memory`, the
    variant of its memories, is given: then the others have their defaults. Explicit block RAMs
    answer with garbage what vendors leave undefined. With `stalls`, pauses come before operations
    and before answers are taken; `progress` is called with the number of operations done since its
    last call.

    Returns
    -------
    dict
        Operations, mismatches of verdicts, ages, statuses, counters and memory, what happened
        (hits, by age, shifts, clears, wraps of the ring; statuses), clocks, seconds, and what it
        ran with. After an interrupt: of what was done until then.

    Errors: as `lately.sim.compiled_unit`.
    """
    from lately.sim import compiled_unit

    began = time.perf_counter()
    random = np.random.default_rng([seed, BUILD])
    build = drawn_build(spec, random) if memory is None else {"memory": memory}
    with compiled_unit(spec, **build) as unit:
        course = course_kind(spec)(unit, spec, seed, build.get("ticks", usual_ticks(spec)))
        course.stalls = stalls
        while course.done < operations:
            count = min(CHUNK, operations - course.done)
            course.perform(count)
            if course.done == operations or course.done // CHUNK % MEMORY_CHUNKS == 0:
                course.compare_memory()
            if progress is not None:
                progress(count)
        figures = course.figures()
    return figures | {"seconds": time.perf_counter() - began, "build": build}


def usual_ticks(spec: UnitSpec) -> str | None:
    """Return the source of the ticks of a compiled unit by default, if it has any.

    Parameters
    ----------
    spec : UnitSpec
    """
    if isinstance(spec, TimedTimingSpec):
        return "tick"
    return "time" if getattr(spec, "timed", False) else None


def course_kind(spec: UnitSpec) -> type[Course]:
    """Return the kind of comparison for a specification.

    Parameters
    ----------
    spec : UnitSpec
    """
    if isinstance(spec, WindowDictionarySpec):
        return DictionaryCourse
    if isinstance(spec, TimedTimingSpec):
        return TimingCourse
    if isinstance(spec, PartitionedTimingSpec):
        return CountedTimingCourse
    return TimedCourse if spec.timed else RingCourse


class RingCourse(Course):
    """A comparison of rings; see `Course`.

    The pool has a fifth of the window. There are forced shifts. A new secret is loaded before
    every chunk, which applies from its clear on or, with re-keying, from a shift. In each chunk the
    length of a generation changes twice, first to one that may be below the minimum, for few
    operations. Beats of several lanes are partial, as drawn for each chunk.
    """

    SHARES: ClassVar = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.74,
    }
    COUNTS = (*Course.COUNTS, "shifts")

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        super().__init__(unit, spec, seed, ticks)
        self._ages = np.zeros(self._spec.window_generations + 1, np.int64)

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return super().figures() | {
            "hits_by_age": self._ages.tolist(),
            "ring_turns": self._total("shifts") // self._spec.segments,
            "time": None,
        }

    def _new_model(self) -> Any:
        return from_spec(self._spec)

    @property
    def _pool(self) -> int:
        return int(self._spec.guaranteed_window) // 5

    @property
    def _held(self) -> int:
        return int(self._spec.storage_bits)

    def _rekey(self) -> None:
        if self._spec.hash == "siphash" and (not self._spec.rekey or self._model.rekey_ready):
            self._new_secret()

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        places = self._random.integers(0, len(codes), EVENTS)
        codes[places] = Operation.SHIFT
        codes[(places[: EVENTS // 4] + 1) % len(codes)] = Operation.SHIFT
        super()._add_events(codes)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        cut = 1 + int(self._random.integers(0, max(1, len(codes) // SHORT_SHARE)))
        parts = []
        for short, part in ((True, slice(0, cut)), (False, slice(cut, None))):
            if len(codes[part]):
                self._set_generation(short=short)
                parts.append(self._performed(codes[part], keys[part]))
        found, expected = (
            type(answers[0])(*map(np.concatenate, zip(*answers, strict=True)))
            for answers in zip(*parts, strict=True)
        )
        self._ages += np.bincount(expected.age[expected.seen], minlength=len(self._ages))
        return found, expected

    def _set_generation(self, *, short: bool) -> None:
        """Set the generation length, `short` or not; half of the time the length of the filter.

        Several lanes take one below the minimum as that; a single lane waits for the spare.
        """
        least, own = self._unit.profile.minimum_generation, self._spec.generation
        longest = (2 << own.bit_length()) - 1
        names = {
            "own": own,
            "minimum": least,
            "longest": longest,
            "one more": min(own, longest) + 1,
        }
        if short:
            names["below the minimum"] = int(self._random.integers(1, max(least, 2)))
        name = "own"
        if self._random.random() < 0.5:
            name = str(self._random.choice([*names]))
        length = min(names[name], longest)
        self.met[f"generation: {name}"] += 1
        self._unit.set_generation(length)
        self._model.generation = max(length, least) if self._spec.lanes > 1 else length

    def _performed(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        how = self._pauses() | self._empty_lanes(len(codes))
        return self._unit.apply(codes, keys, **how), self._model.apply(codes, keys)

    def _empty_lanes(self, count: int) -> dict[str, NDArray[np.bool_]]:
        """Draw which lanes of beats stay empty, if there are several."""
        if self._spec.lanes == 1:
            return {}
        shares = dict(zip(("skips", "holes"), self._random.choice(EMPTY, 2), strict=True))
        self.met.update({name: int(share > 0) for name, share in shares.items()})
        return {name: self._random.random(count) < share for name, share in shares.items()}


class TimedCourse(RingCourse):
    """A comparison of rings whose window is one in time, with bursts and silences."""

    TOLD: ClassVar = {**Course.TOLD, "statuses": "status"}
    COUNTS = (*RingCourse.COUNTS, "shortened", "overfilled")

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        super().__init__(unit, spec, seed, ticks)
        self._statuses = np.zeros(len(STATUSES), np.int64)
        self._now = self._period = self._began = self._quiet = 0

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        names = [status.value for status in STATUSES]
        time = {
            "ticks": self._past["ticks"] + self._now,
            "statuses": dict(zip(names, self._statuses.tolist(), strict=True)),
            "shortened": self._total("shortened"),
            "overfilled": self._total("overfilled"),
        }
        return super().figures() | {"time": time}

    def compare_memory(self) -> None:
        """Compare every bit; golden learns the time by an operation."""
        if self._free:
            self._freely(np.zeros(1, np.uint8), self._choose(1)[1])
        super().compare_memory()

    def _interrupt(self) -> None:
        super()._interrupt()
        self._past["ticks"] += self._now
        self._now = self._quiet = 0

    def _performed(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        if self._free:
            found, expected = self._freely(codes, keys)
        else:
            times = _times(self._random, self._spec, len(codes), self._now)
            self._now = int(times[-1])
            expected = self._model.perform(codes, keys, times)
            found = self._unit.perform(codes, keys, times, **self._pauses())
        self._statuses += np.bincount(expected.status, minlength=len(STATUSES))
        return found, expected

    def _freely(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform operations while ticks come, at about the rates of `_times`."""
        unit, spec, random = self._unit, self._spec, self._random
        least = unit.profile.least_period
        usual = spec.guaranteed_window / spec.span * 8 ** random.uniform(-1, 1)
        period = max(least, int(usual))
        self.met["period"] += period > least
        silence = int(random.choice([0, 0, spec.generation_span, spec.span + 1]) * period)
        silence = min(silence, SILENCE)
        before, cycles = unit.ticks, unit.cycles
        found = unit.perform_freely(codes, keys, period=period, silence=silence, **self._pauses())
        if self._ticks == "tick":
            bounds = before, unit.ticks
        else:
            # Since the last operation; a new period applies from the next tick on.
            most = 2 + (unit.cycles - self._began) // least
            bounds = self._now + self._quiet, self._now + most
        self._check_times(found.time, *bounds)
        self._quiet = max(0, silence // max(period, self._period) - 2)
        self._began, self._period, self._now = cycles, period, int(found.time[-1])
        return found, self._model.perform(codes, keys, np.maximum.accumulate(found.time))


def _times(random: np.random.Generator, spec: FilterSpec, count: int, now: int) -> Times:
    """Draw the ticks of operations, shape (count,), none before `now`.

    Spells come at up to eight times the rate that fills the generations, or an eighth of it, and
    after silences of up to four spans.
    """
    begins = np.unique([0, *random.integers(0, count, random.poisson(SPELLS))])
    usual = spec.span / spec.guaranteed_window
    steps = usual * 8 ** random.uniform(-1, 1, len(begins))
    gaps = np.repeat(steps, np.diff(begins, append=count)) * random.exponential(size=count)
    # Every second silence ends about where something expires.
    edges = random.choice([spec.generation_span, spec.span], len(begins))
    near = edges + random.integers(-2, 3, len(begins))
    wide = spec.span * 4 ** random.uniform(-4, 1, len(begins))
    gaps[begins] += np.where(random.random(len(begins)) < 0.5, near, wide)
    return now + np.floor(np.cumsum(gaps)).astype(np.int64)


# The campaign

SPAN = 1000
"""Ticks of the cases with a window in time."""

RINGS = ("default", "apbf-default", "gebf-default", "blocked-gebf-default", "siphash-default")

CASES: Mapping[str, UnitSpec] = {
    **{name: cast(UnitSpec, any_preset(name)) for name in RINGS},
    **{
        f"{name}-span": with_ticks(
            cast(UnitSpec, any_preset(name)),
            span=SPAN,
            when_full="overfill" if name in ("apbf-default", "gebf-default") else "shorten",
        )
        for name in RINGS[:-1]
    },
    **{
        name: cast(UnitSpec, any_preset(name))
        for name in (
            "two-lanes", "four-lanes", "large", "small", "dictionary-1000", "dictionary-10000",
            "dictionary-ring-1000", "dictionary-ring-10000", "timing-small", "timing-default",
            "timing-counted-default",
        )
    },
    "timing-decided": TimedTimingSpec(span=64, hashes=4, cells=8192, classes=6),
    "timing-counted-decided": PartitionedTimingSpec(
        window=4096, block=512, hashes=4, cells=8192, classes=6, stamp_bits=9, phase_bits=4
    ),
}  # fmt: skip
"""Filters that are compared, by name."""


def points(
    *,
    case: tuple[str, ...] = (),
    preset: tuple[str, ...] = (),
    spec: str = "",
    span: int = 0,
    when_full: str = "",
    operations: int = 100_000_000,
    memory: str = "",
    seeds: str = "1",
    quick: bool = False,
) -> list[Point]:
    """Return a point for each filter and seed: the cases, unless presets or a file are given."""
    filters = {name: cast(UnitSpec, any_preset(name)) for name in preset}
    if spec:
        filters[os.path.basename(spec)] = cast(UnitSpec, Specification.from_toml(spec))
    if case or not filters:
        filters |= {name: CASES[name] for name in select(case, CASES)}
    return [
        {
            "case": name,
            "spec": with_ticks(one, span=span or None, when_full=when_full or None).to_dict(),
            "operations": operations // 1000 if quick else operations,
            "memory": memory or None,
            "seed": seed,
        }
        for name, one in filters.items()
        for seed in parse_seeds(seeds)
    ]


def run(point: Point) -> Result:
    """Compare a unit with its golden model; report the operations done."""
    done, operations = 0, point["operations"]

    def advance(count: int) -> None:
        nonlocal done
        done += count
        tell(stage=f"{done:,} operations", share=done / operations)

    spec = cast(UnitSpec, Specification.from_dict(point["spec"]))
    how = {name: point[name] for name in ("operations", "seed", "memory")}
    return soak(spec, progress=advance, **how)


def wrong(result: Result) -> Iterator[str]:
    """Yield the kinds of mismatches."""
    found = {kind: count for kind, count in result["mismatches"].items() if count}
    if found:
        yield f"mismatches: must be 0, not {found}"


def rows(records: Records) -> list[dict[str, object]]:
    """Return a row for each run."""
    return [
        {
            "case": record.point["case"],
            "seed": record.point["seed"],
            "hardware": " ".join(f"{name}={value}" for name, value in run["build"].items()),
            **{name: run[name] for name in ("operations", "hits", "clears", "rekeys", "cycles")},
            "mismatches": sum(run["mismatches"].values()),
            "s": round(run["seconds"]),
        }
        for record in records
        for run in (record.result,)
    ]


SOAK = Campaign(
    name="soak",
    about="""Compare compiled hardware with golden models over many mixed operations.

    Verdicts, ages and statuses of all operations, counters and every bit of memory are compared.
    The seed draws the options of the hardware, the operations, generation lengths, secrets,
    partial beats, periods of ticks, pauses and resets.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=points,
    run=run,
    label=lambda point: f"{point['case']} seed {point['seed']}",
    wrong=wrong,
    rows=rows,
)
