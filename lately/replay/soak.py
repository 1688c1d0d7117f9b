"""Long runs of the compiled hardware beside the golden model, on mixed random operations."""

import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from ..golden import FilterSpec, Operation, from_spec
from ..golden.hash.keys import random_keys
from ..golden.ring.turn_policy import STATUSES
from ..golden.times import Times

CHUNK = 1 << 20
"""Operations between two comparisons of counters, and between two choices of keys."""

MEMORY_CHUNKS = 16
"""Chunks between two comparisons of every bit of memory."""

SHARES = {
    Operation.NONE: 0.01,
    Operation.QUERY: 0.15,
    Operation.INSERT: 0.1,
    Operation.CHECK_AND_INSERT: 0.74,
}
"""Shares of the operations that are drawn at random."""

SPELLS = 64
"""Mean spells in each chunk of a window in time, each at a rate of its own and after a silence."""

EVENTS = 16
"""In each chunk: forced shifts, a quarter of them right after another, and one clear."""


def soak(
    spec: FilterSpec,
    *,
    operations: int = 100_000_000,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Compare the compiled hardware with the golden model for a long time.

    Half the keys of a chunk come from a pool of a fifth of the window, so that
    hits of every age are frequent; the others are random. With re-keying, a new
    secret is loaded before every chunk; with a span, there are bursts and silences.

    `seed` is that of keys and operations; `progress` is called with the number of
    operations done since its last call.

    Returns
    -------
    dict
        Operations, how often each verdict and age was compared, mismatches of
        verdicts, ages, statuses, counters and memory bits, what happened (hits, by age,
        shifts, clears, wraps of the ring; statuses), clocks, seconds, and what it ran with.
        After an interrupt: of what was done until then.

    Errors: as `lately.sim.compiled_unit`.
    """
    from ..sim import compiled_unit

    began = time.perf_counter()
    interrupted = False
    with compiled_unit(spec) as unit:
        course = _Course(unit, spec, seed)
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
        "versions": software(),
    }


def software() -> dict[str, str]:
    """Return the versions of what compiled hardware and golden model are compared with."""
    from ..sim.toolchain import verilator_version

    versions = {"lately": version("lately"), "numpy": np.__version__}
    return versions | {"python": platform.python_version(), "verilator": verilator_version()}


class _Course:
    """A comparison in progress: hardware and golden model, and their differences so far."""

    def __init__(self, unit: Any, spec: FilterSpec, seed: int) -> None:
        self._unit = unit
        self._spec = spec
        self._golden: Any = from_spec(spec)
        self._random = np.random.default_rng(seed)
        kinds = ("verdicts", "ages", *(["statuses"] if spec.timed else []), "counters")
        self._mismatches = dict.fromkeys([*kinds, "memory_bits"], 0)
        self._statuses = np.zeros(len(STATUSES), np.int64)
        self._now = 0
        self._ages = np.zeros(spec.window_generations + 1, np.int64)
        self.done = self._clears = self._rekeys = self._memories = 0

    def perform(self, count: int) -> None:
        """Perform a chunk of operations on both."""
        self._rekey()
        codes, keys = _choose(self._random, self._spec, count)
        wrong = self._mismatches
        if self._spec.timed:
            times = _times(self._random, self._spec, count, self._now)
            self._now = int(times[-1])
            found = self._unit.perform(codes, keys, times)
            expected = self._golden.perform(codes, keys, times)
            wrong["statuses"] += int((found.status != expected.status).sum())
            self._statuses += np.bincount(expected.status, minlength=len(STATUSES))
        else:
            found = self._unit.apply(codes, keys)
            expected = self._golden.apply(codes, keys)
        wrong["verdicts"] += int((found.seen != expected.seen).sum())
        wrong["ages"] += int((found.age != expected.age).sum())
        counted = self._unit.statistics
        wrong["counters"] += sum(
            counted[name] != getattr(self._golden, name) % (1 << 32) for name in counted
        )
        self._ages += np.bincount(expected.age[expected.seen], minlength=len(self._ages))
        self._clears += int((codes == Operation.CLEAR).sum())
        self.done += count

    def _rekey(self) -> None:
        from ..sim import CompiledUnit

        rekeys = isinstance(self._unit, CompiledUnit) and self._spec.rekey
        if rekeys and self._golden.rekey_ready:
            secret = int.from_bytes(self._random.bytes(16), "little")
            self._golden.rekey(secret)
            self._unit.rekey(secret)
            self._rekeys += 1

    def compare_memory(self) -> None:
        """Compare every bit of memory."""
        self._mismatches["memory_bits"] += int((self._unit.memory != self._golden.memory).sum())
        self._memories += 1

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        golden = self._golden
        return {
            "operations": self.done,
            "mismatches": self._mismatches,
            "hits": golden.hits,
            "hits_by_age": self._ages.tolist(),
            "insertions": golden.insertions,
            "shifts": golden.shifts,
            "ring_turns": golden.shifts // self._spec.segments,
            "clears": self._clears,
            "rekeys": self._rekeys,
            "memory_comparisons": self._memories,
            "memory_bits": self._spec.storage_bits,
            "cycles": self._unit.cycles,
            "time": self._time_figures() if self._spec.timed else None,
        }

    def _time_figures(self) -> dict[str, Any]:
        names = [status.value for status in STATUSES]
        return {
            "ticks": self._now,
            "statuses": dict(zip(names, self._statuses.tolist(), strict=True)),
            "shortened": self._golden.shortened,
            "overfilled": self._golden.overfilled,
        }


def _choose(random: np.random.Generator, spec: FilterSpec, count: int) -> tuple[Any, Any]:
    """Draw operations and keys."""
    codes = random.choice(list(SHARES), count, p=list(SHARES.values())).astype(np.uint8)
    places = random.integers(0, count, EVENTS)
    codes[places] = Operation.SHIFT
    codes[(places[: EVENTS // 4] + 1) % count] = Operation.SHIFT
    codes[random.integers(0, count)] = Operation.CLEAR
    keys = random_keys(random, count, spec.key_bits)
    few = random_keys(random, max(2, spec.guaranteed_window // 5), spec.key_bits)
    repeated = random.random(count) < 0.5
    keys[repeated] = few[random.integers(0, len(few), int(repeated.sum()))]
    return codes, keys


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
