"""Long runs of the compiled hardware beside the golden model, on mixed random operations."""

import platform
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..golden import FilterSpec, Operation, WindowDictionarySpec, from_spec
from ..golden.ring.turn_policy import STATUSES
from ..golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from ..golden.times import Times
from ..hdl.build import UnitSpec
from .dictionary_soak import DictionaryCourse
from .soak_course import Course
from .timing_soak import CountedTimingCourse, TimingCourse

CHUNK = 1 << 20
"""Operations between two comparisons of counters, and between two choices of keys."""

MEMORY_CHUNKS = 16
"""Chunks between two comparisons of every bit of memory."""

SPELLS = 64
"""Mean spells in each chunk of a window in time, each at a rate of its own and after a silence."""

EVENTS = 16
"""In each chunk: forced shifts, a quarter of them right after another, and one clear."""


def soak(
    spec: UnitSpec,
    *,
    operations: int = 100_000_000,
    seed: int = 1,
    memory: str = "portable",
    stalls: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Compare the compiled hardware with the golden model for a long time.

    Half the keys of a chunk come from a small pool, so that hits of every age are frequent; the
    others are random. See `Course` and its classes for what else comes to each kind of unit.

    `seed` is that of keys and operations; `memory` is the variant of the memories, of which
    explicit block RAMs answer with garbage what vendors leave undefined; with `stalls`, pauses come
    before operations and before answers are taken; `progress` is called with the number of
    operations done since its last call.

    Returns
    -------
    dict
        Operations, mismatches of verdicts, ages, statuses, counters and memory, what happened
        (hits, by age, shifts, clears, wraps of the ring; statuses), clocks, seconds, and what it
        ran with. After an interrupt: of what was done until then.

    Errors: as `lately.sim.compiled_unit`.
    """
    from ..sim import compiled_unit

    began = time.perf_counter()
    interrupted = False
    with compiled_unit(spec, memory=memory) as unit:
        course = course_kind(spec)(unit, spec, seed)
        course.stalls = stalls
        try:
            while course.done < operations:
                count = min(CHUNK, operations - course.done)
                course.perform(count)
                if course.done == operations or course.done // CHUNK % MEMORY_CHUNKS == 0:
                    course.compare_memory()
                if progress is not None:
                    progress(count)
        except KeyboardInterrupt:
            interrupted = True
        figures = course.figures()
    return figures | {
        "interrupted": interrupted,
        "seed": seed,
        "seconds": time.perf_counter() - began,
        "spec": spec.to_dict(),
        "memory": memory,
        "stalls": stalls,
        "versions": software(),
    }


def software() -> dict[str, str]:
    """Return the versions of what compiled hardware and golden model are compared with."""
    from ..sim.toolchain import verilator_version

    versions = {"lately": __version__, "numpy": np.__version__}
    return versions | {"python": platform.python_version(), "verilator": verilator_version()}


def course_kind(spec: UnitSpec) -> Callable[[Any, Any, int], Course]:
    """Return the kind of comparison for a specification, built as `Course`, less its model.

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

    The pool has a fifth of the window. There are forced shifts; with re-keying, a new secret is
    loaded before every chunk.
    """

    SHARES: ClassVar = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.74,
    }

    def __init__(self, unit: Any, spec: FilterSpec, seed: int) -> None:
        super().__init__(unit, spec, from_spec(spec), seed)
        self._ages = np.zeros(spec.window_generations + 1, np.int64)

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        shifts = self._model.shifts
        return super().figures() | {
            "hits_by_age": self._ages.tolist(),
            "shifts": shifts,
            "ring_turns": shifts // self._spec.segments,
            "time": None,
        }

    @property
    def _pool(self) -> int:
        return int(self._spec.guaranteed_window) // 5

    @property
    def _held(self) -> int:
        return int(self._spec.storage_bits)

    def _rekey(self) -> None:
        from ..sim import CompiledUnit

        rekeys = isinstance(self._unit, CompiledUnit) and self._spec.rekey
        if rekeys and self._model.rekey_ready:
            self._new_secret()

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        places = self._random.integers(0, len(codes), EVENTS)
        codes[places] = Operation.SHIFT
        codes[(places[: EVENTS // 4] + 1) % len(codes)] = Operation.SHIFT
        super()._add_events(codes)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        found, expected = self._performed(codes, keys)
        self._ages += np.bincount(expected.age[expected.seen], minlength=len(self._ages))
        return found, expected

    def _performed(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        return self._unit.apply(codes, keys, **self._pauses()), self._model.apply(codes, keys)


class TimedCourse(RingCourse):
    """A comparison of rings whose window is one in time, with bursts and silences."""

    TOLD: ClassVar = {**Course.TOLD, "statuses": "status"}

    def __init__(self, unit: Any, spec: FilterSpec, seed: int) -> None:
        super().__init__(unit, spec, seed)
        self._statuses = np.zeros(len(STATUSES), np.int64)
        self._now = 0

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        names = [status.value for status in STATUSES]
        time = {
            "ticks": self._now,
            "statuses": dict(zip(names, self._statuses.tolist(), strict=True)),
            "shortened": self._model.shortened,
            "overfilled": self._model.overfilled,
        }
        return super().figures() | {"time": time}

    def _performed(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        times = _times(self._random, self._spec, len(codes), self._now)
        self._now = int(times[-1])
        expected = self._model.perform(codes, keys, times)
        self._statuses += np.bincount(expected.status, minlength=len(STATUSES))
        return self._unit.perform(codes, keys, times, **self._pauses()), expected


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
