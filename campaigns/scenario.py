"""Draws random scenarios for a unit: hardware options, operations, pauses and other events.

A step is a call to a method of `lately.sim.CompiledUnit`. Steps do not depend on results, so the
golden model, the compiled hardware and the cocotb bench perform the same steps.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lately.golden import FilterSpec, Operation, Results, SpecificationError, from_spec
from lately.golden.hash.keys import random_keys
from lately.golden.spec.base import Specification
from lately.golden.times import Times
from lately.hdl.build import unit_profile

Codes = NDArray[np.uint8]  # operations, shape (n,)

# Fractions of the operations; in a dictionary, some are replaced by removals.
SHARES = {
    Operation.NONE: 0.01,
    Operation.QUERY: 0.15,
    Operation.INSERT: 0.1,
    Operation.CHECK_AND_INSERT: 0.74,
}
REMOVALS = {Operation.CHECK_AND_INSERT: 0.72, Operation.REMOVE: 0.02}
# Fractions of cycles in which nothing is offered, or no result is accepted; drawn for each stream.
STALLS = (0.0, 0.1, 0.4)
RESETS = 0.25  # fraction of chunks that begin with a reset while operations are in flight
INTERRUPTED = 200  # operations that are interrupted by a reset; some already have results
SHAPE = ("memory", "protect", "levels")  # options that decide whether a unit can be built
LEVELS = (1, 2, 3)  # maximum levels of look-up tables between registers
# Mean number of bursts per chunk in a ring with a time-based window. Each has its own rate and
# follows a silence.
RING_BURSTS = 64
# At most one operation out of this many is performed with generations below the minimum.
SHORT_SHARE = 64
# Fraction of the operations before which lanes stay empty; drawn for each kind and chunk.
EMPTY = (0.0, 0.0, 0.1, 0.5)
SILENCE = 1 << 19  # maximum cycles of a silence in which ticks continue
EVENTS = 16  # forced shifts per chunk; a quarter of them is followed by another
# Mean number of bursts per chunk in a timing filter. Each has its own fraction of insertions and is
# followed by a silence.
TICKED_BURSTS = 4
# Cycles between two ticks, relative to the minimum; drawn for each burst.
PERIODS = (1, 1, 2, 5)


class Step(NamedTuple):
    name: str
    operands: tuple[Any, ...]
    options: dict[str, Any]


def build_options(spec: Specification) -> dict[str, tuple[Any, ...]]:
    profile = unit_profile(spec)
    memories = tuple(name for name in profile.MEMORIES if not name.endswith("-strict"))
    options: dict[str, tuple[Any, ...]]
    options = {"memory": memories, "protect": profile.PROTECTIONS, "check": (False, True),
               "inverted": (False, True)}  # fmt: skip
    if profile.MAX_LEVELS > 1:
        options["levels"] = LEVELS
    if profile.ticks:
        options["ticks"] = profile.ticks
    return options


def drawn_build(spec: Specification, random: np.random.Generator) -> dict[str, Any]:
    """Draw hardware options with which a unit can be built; see `lately.sim.compiled_unit`."""
    options = build_options(spec)
    while True:
        drawn = {name: values[random.integers(len(values))] for name, values in options.items()}
        shape = {name: drawn[name] for name in SHAPE if name in drawn}
        with suppress(SpecificationError):
            unit_profile(spec, **shape).check_buildable()
            return drawn


class Scenario:
    """Draws everything that a seed determines for a unit, one chunk of operations at a time.

    Half of the keys of a chunk come from a small pool, which makes hits of every age common; the
    other keys are random. Every chunk has one CLEAR, and a new secret or table of thresholds if the
    unit supports it. Some chunks begin with a reset. A chunk for a ring also has forced shifts and
    two generation lengths; the first length applies to only a few operations, and may be below the
    minimum. Queries have random windows or classes. For units with a time-based window, operations
    come in bursts with silences between them.
    """

    def __init__(
        self, spec: Any, seed: int, ticks: str | None = None, *, stalls: bool = True
    ) -> None:
        self.spec = spec
        self.profile = profile = unit_profile(spec)
        # Source of the ticks, by default that of a compiled unit; None without ticks.
        self.ticks = ticks or (
            "time" if "time" in profile.ticks else next(iter(profile.ticks), None)
        )
        self.free = self.ticks in ("tick", "period")  # ticks are not tied to operations
        self.now = 0  # the time of the last operation
        self.course: Counter[str] = Counter()  # how often each event was drawn
        self._ring, self._stalls = spec.kind == "ring", stalls
        self._random = np.random.default_rng(seed)
        self._begins = np.zeros(1, np.int64)  # starts of a timing filter's bursts

    def chunk(self, count: int, golden: "GoldenPlayer") -> Iterator[Step]:
        spec, random = self.spec, self._random
        if random.random() < RESETS:
            self.course["reset"] += 1
            self.now = 0
            beats = int(random.integers(1, INTERRUPTED // 4))
            yield Step("interrupt", (*self.operations(INTERRUPTED), beats), {})
        keyed = getattr(spec, "hash", "h3") == "siphash"
        if keyed and (not getattr(spec, "rekey", False) or golden.model.rekey_ready):
            self.course["secret"] += 1
            yield Step("rekey", (int.from_bytes(random.bytes(16), "little"),), {})
        if getattr(spec, "classes", None) is not None:
            self.course["table"] += 1
            yield Step("decide_by", (random.integers(0, spec.hashes + 2, spec.table_shape),), {})
        codes, keys = self.operations(count)
        if self._ring:
            cut = 1 + int(random.integers(0, max(1, count // SHORT_SHARE)))
            for short, part in ((True, slice(0, cut)), (False, slice(cut, None))):
                if len(codes[part]):
                    yield self._generation(short=short)
                    yield self.sequence(codes[part], keys[part])
        elif self.free:
            yield from self._ticked(codes, keys)
        else:
            yield self.sequence(codes, keys)

    def operations(self, count: int) -> tuple[Codes, Any]:
        shares = SHARES | (REMOVALS if self.spec.kind == "dictionary" else {})
        codes = self._random.choice(list(shares), count, p=list(shares.values())).astype(np.uint8)
        self._add_events(codes)
        return codes, self.keys(codes)

    def keys(self, codes: Codes) -> Any:
        random, spec, count = self._random, self.spec, len(codes)
        pool = spec.cells if self.ticks and not self._ring else spec.guaranteed_window
        keys = random_keys(random, count, spec.key_bits)
        few = random_keys(random, max(2, int(pool) // 5), spec.key_bits)
        repeated = random.random(count) < 0.5
        keys[repeated] = few[random.integers(0, len(few), int(repeated.sum()))]
        return keys

    def sequence(self, codes: Codes, keys: Any) -> Step:
        options = self._options(len(codes))
        if self._ring and self.free:
            spec, minimum = self.spec, self.profile.min_period
            usual = spec.guaranteed_window / spec.span * 8 ** self._random.uniform(-1, 1)
            period = max(minimum, int(usual))
            self.course["period"] += period > minimum
            silence = self._random.choice([0, 0, spec.generation_span, spec.span + 1]) * period
            options |= {"period": period, "silence": min(int(silence), SILENCE)}
            return Step("perform_freely", (codes, keys), options)
        if self._ring and self.ticks:
            times = _times(self._random, self.spec, len(codes), self.now)
            self.now = int(times[-1])
            options |= {"times": times}
        return Step("perform", (codes, keys), options)

    def _generation(self, *, short: bool) -> Step:
        minimum, usual = self.profile.minimum_generation, self.spec.generation
        longest = (2 << usual.bit_length()) - 1
        lengths = {"own": usual, "minimum": minimum, "longest": longest}
        lengths["one more"] = min(usual, longest) + 1
        if short:
            lengths["below the minimum"] = int(self._random.integers(1, max(minimum, 2)))
        name = "own"
        if self._random.random() < 0.5:
            name = str(self._random.choice([*lengths]))
        self.course[f"generation: {name}"] += 1
        return Step("set_generation", (min(lengths[name], longest),), {})

    def _ticked(self, codes: Codes, keys: Any) -> Iterator[Step]:
        options, minimum = self._options(len(codes)), self.profile.min_period
        windows = options.pop("windows")
        for start, stop in zip(self._begins, [*self._begins[1:], len(codes)], strict=True):
            part = slice(start, stop)
            period = minimum * int(self._random.choice(PERIODS))
            self.course["period"] += period > minimum
            burst = options | {"windows": windows[part], "period": period}
            yield Step("perform_freely", (codes[part], keys[part]), burst)
            silence = int(self._random.integers(0, SILENCE + 1))
            if self.ticks == "tick":
                yield Step("pass_ticks", (silence // minimum,), {})
            else:
                yield Step("idle", (silence,), {})

    def _options(self, count: int) -> dict[str, Any]:
        spec, random = self.spec, self._random
        options: dict[str, Any] = {}
        if spec.query_field == "query_class":
            options["windows"] = random.integers(0, spec.classes, count)
        elif spec.query_field:
            shortest = int(spec.kind == "dictionary")
            windows = random.integers(shortest, spec.window_blocks + 1, count)
            options["windows"] = windows * int(spec.block_units)
        if getattr(spec, "lanes", 1) > 1:
            shares = dict(zip(("skips", "holes"), random.choice(EMPTY, 2), strict=True))
            self.course.update({name: int(share > 0) for name, share in shares.items()})
            options |= {name: random.random(count) < share for name, share in shares.items()}
        if self._stalls:
            self.course["stalls"] += 1
            before, after = random.choice(STALLS, 2).tolist()
            options |= {"pause_before": before, "pause_after": after}
            options["seed"] = int(random.integers(1, 1 << 32))
        return options

    def _add_events(self, codes: Codes) -> None:
        random, count = self._random, len(codes)
        if self._ring:
            at = random.integers(0, count, EVENTS)
            codes[at] = Operation.SHIFT
            codes[(at[: EVENTS // 4] + 1) % count] = Operation.SHIFT
        elif self.free:
            self._begins = np.unique([0, *random.integers(0, count, random.poisson(TICKED_BURSTS))])
            # A tick has at least as many cycles as a part has cells, so few insertions fill it.
            self._thin_out(codes, self._begins, 10 ** random.uniform(-4, 0, len(self._begins)))
        codes[random.integers(0, count)] = Operation.CLEAR

    def _thin_out(self, codes: Codes, begins: Any, shares: Any) -> None:
        count = len(codes)
        stays = self._random.random(count) < np.repeat(shares, np.diff(begins, append=count))
        codes[~stays] = Operation.QUERY


def _times(random: np.random.Generator, spec: FilterSpec, count: int, now: int) -> Times:
    """Draw the times of `count` operations in ticks, starting at `now` or later.

    Operations come in bursts. The rate of a burst is 1/8 to 8 times the rate that just fills the
    window within a span. Each burst follows a silence of up to four spans.
    """
    assert spec.span is not None
    begins = np.unique([0, *random.integers(0, count, random.poisson(RING_BURSTS))])
    usual = spec.span / spec.guaranteed_window
    steps = usual * 8 ** random.uniform(-1, 1, len(begins))
    gaps = np.repeat(steps, np.diff(begins, append=count)) * random.exponential(size=count)
    # Every second silence ends near the expiry of something.
    edges = random.choice([spec.generation_span, spec.span], len(begins))
    near = edges + random.integers(-2, 3, len(begins))
    wide = spec.span * 4 ** random.uniform(-4, 1, len(begins))
    gaps[begins] += np.where(random.random(len(begins)) < 0.5, near, wide)
    return now + np.floor(np.cumsum(gaps)).astype(np.int64)


class GoldenPlayer:
    """A golden model with the methods of `lately.sim.CompiledUnit`."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.profile: Any = unit_profile(spec)
        self.cycles = 0
        self._restart()

    def _restart(self) -> None:
        self.ticks = self._reached = 0
        self.model: Any = from_spec(self.spec)

    def interrupt(self, codes: Codes, keys: Any, beats: int) -> None:
        self._restart()

    def set_generation(self, length: int) -> None:
        minimum = self.profile.minimum_generation
        self.model.generation = max(length, minimum) if self.spec.lanes > 1 else length

    def rekey(self, secret: int) -> None:
        self.model.rekey(secret)

    def decide_by(self, table: NDArray[np.int64]) -> None:
        self.model.decide_by(table)

    @property
    def statistics(self) -> dict[str, int]:
        counters: dict[str, int] = self.model.counters
        return counters

    @property
    def memory(self) -> NDArray[Any]:
        timed = self.spec.timed and self.spec.kind == "timing"
        now = self.ticks * self.spec.period if timed else 0
        return np.array(self.model.memory_at(now) if timed else self.model.memory)

    def perform(
        self, codes: Any, keys: Any, times: Any = None, windows: Any = None, **_: Any
    ) -> Results:
        results: Results = self.model.perform(codes, keys, times, windows)
        return results

    def perform_freely(
        self, codes: Any, keys: Any, windows: Any = None, *, period: int = 0, silence: int = 0,
        times: Any = None, **_: Any,
    ) -> Results:  # fmt: skip
        """Perform operations at given times, or one per cycle with a tick every `period` cycles."""
        period = period or self.profile.min_period
        times = self.ticks + np.arange(len(codes)) // period if times is None else times
        reached = np.maximum.accumulate(np.maximum(times, self._reached))
        self._reached = int(reached[-1])
        asked = [] if windows is None else [windows]
        results = self.model.perform(codes, keys, reached * getattr(self.spec, "period", 1), *asked)
        self.ticks = int(times[-1]) + silence // period
        self.cycles += len(codes) + silence
        return results._replace(time=times)

    def pass_ticks(self, ticks: int) -> None:
        self.ticks += ticks

    def idle(self, cycles: int) -> None:
        self.ticks += cycles // self.profile.min_period
