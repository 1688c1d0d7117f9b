"""Random tests of compiled units beside golden models.

The seed draws everything that a user can vary: the options of the hardware once (`drawn_build`),
and the rest before each chunk of operations, as steps. `RandomTest` tests a filter of any family.
Its subclasses add the events of some families; `KINDS` names them.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden import FilterSpec, Operation, Results, SpecificationError, from_spec
from lately.golden.hash.keys import random_keys
from lately.golden.ring.rotation import STATUSES
from lately.golden.spec.base import Specification
from lately.golden.times import Times
from lately.hdl.build import unit_profile

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of `lately.sim.CompiledUnit`, and its arguments."""

# Shares of the clocks in which nothing is offered, or no answer taken; one is drawn of each.
STALLS = (0.0, 0.1, 0.4)
RESETS = 0.25  # share of the chunks that begin with a reset, while operations are in flight
INTERRUPTED = 200  # operations that a reset interrupts, of which some have their results
SHAPE = ("memory", "protect", "levels")  # options on which it depends whether hardware can be built
LEVELS = (1, 2, 3)  # levels of look-up tables between two registers that are drawn
# Counters that must not count: no memory is upset by itself, and no state is illegal.
ALARMS = ("upsets", "alarms")
# Mean bursts in each chunk of a window in time, each at a rate of its own and after a silence.
RING_BURSTS = 64
# One operation in so many, at most, is performed with generations below the minimum.
SHORT_SHARE = 64
# Shares of the operations before which lanes stay empty; one is drawn for each kind and chunk.
EMPTY = (0.0, 0.0, 0.1, 0.5)
SILENCE = 1 << 19  # cycles of a silence in which ticks come, at most
EVENTS = 16  # in each chunk: forced shifts, a quarter of them right after another, and one clear
# Mean bursts in each chunk, each with a rate of insertions of its own and after a silence.
TICKED_BURSTS = 4
# Clocks from one tick to the next, over the least: one is drawn for each spell.
PERIODS = (1, 1, 2, 5)


def build_options(spec: Specification) -> dict[str, tuple[Any, ...]]:
    """Return the options of the hardware of a specification, with the values that they may have.

    Not all of them can be combined.
    """
    profile = unit_profile(spec)
    memories = tuple(name for name in profile.MEMORIES if not name.endswith("-strict"))
    options: dict[str, tuple[Any, ...]]
    options = {"memory": memories, "protect": profile.PROTECTIONS, "check": (False, True),
               "inverted": (False, True)}  # fmt: skip
    if profile.MOST_LEVELS > 1:
        options["levels"] = LEVELS
    if profile.ticks:
        options["ticks"] = profile.ticks
    return options


def usual_ticks(spec: Specification) -> str | None:
    """Return the default source of the ticks of a compiled unit, if it has any."""
    ticks = unit_profile(spec).ticks
    return "time" if "time" in ticks else next(iter(ticks), None)


def drawn_build(spec: Specification, random: np.random.Generator) -> dict[str, Any]:
    """Draw the options of the hardware of a specification, for `lately.sim.compiled_unit`."""
    options = build_options(spec)
    while True:
        drawn = {name: values[random.integers(len(values))] for name, values in options.items()}
        shape = {name: drawn[name] for name in SHAPE if name in drawn}
        with suppress(SpecificationError):
            unit_profile(spec, **shape).check_buildable()
            return drawn


class GoldenPlayer:
    """Golden model with the methods of `lately.sim.CompiledUnit`."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.profile: Any = unit_profile(spec)
        self.cycles = 0
        self._restart()

    def _restart(self) -> None:
        self.ticks = self._reached = 0
        self.model: Any = from_spec(self.spec)

    def interrupt(self, codes: NDArray[np.uint8], keys: Any, beats: int) -> None:
        """Reset the model; the operations have no effect after it."""
        self._restart()

    def set_generation(self, length: int) -> None:
        """Set the length of a generation; several lanes take at least the minimum."""
        least = self.profile.minimum_generation
        self.model.generation = max(length, least) if self.spec.lanes > 1 else length

    def rekey(self, secret: int) -> None:
        """Load a secret."""
        self.model.rekey(secret)

    def decide_by(self, table: NDArray[np.int64]) -> None:
        """Load a table."""
        self.model.decide_by(table)

    @property
    def statistics(self) -> dict[str, int]:
        """Counters of the model."""
        counters: dict[str, int] = self.model.counters
        return counters

    @property
    def memory(self) -> NDArray[Any]:
        """Memory of the model, at the current tick."""
        timed = self.spec.timed and self.spec.kind == "timing"
        now = self.ticks * self.spec.period if timed else 0
        return np.array(self.model.memory_at(now) if timed else self.model.memory)

    def perform(
        self, codes: Any, keys: Any, times: Any = None, windows: Any = None, **_how: Any
    ) -> Results:
        """Perform operations."""
        results: Results = self.model.perform(codes, keys, times, windows)
        return results

    def perform_freely(
        self, codes: Any, keys: Any, windows: Any = None, *, period: int = 0, silence: int = 0,
        times: Any = None, **_how: Any,
    ) -> Results:  # fmt: skip
        """Perform operations at given times, or one in each cycle, with a tick every `period`."""
        period = period or self.profile.least_period
        times = self.ticks + np.arange(len(codes)) // period if times is None else times
        reached = np.maximum.accumulate(np.maximum(times, self._reached))
        self._reached = int(reached[-1])
        asked = [] if windows is None else [windows]
        results = self.model.perform(codes, keys, reached * getattr(self.spec, "period", 1), *asked)
        self.ticks = int(times[-1]) + silence // period
        self.cycles += len(codes) + silence
        return results._replace(time=times)

    def pass_ticks(self, ticks: int) -> None:
        """Let ticks pass."""
        self.ticks += ticks

    def idle(self, cycles: int) -> None:
        """Let cycles pass."""
        self.ticks += cycles // self.profile.least_period


class RandomTest:
    """A comparison in progress: hardware and golden model, and their differences so far.

    `unit` is the hardware, as `lately.sim.compiled_unit` opens it, and `ticks` the source of its
    ticks, if it has any. The seed draws keys and operations. Half the keys of a chunk come from a
    small pool, so that hits of every age are frequent; the others are random. Every chunk has one
    clear, and some begin with a reset while operations are in flight.
    """

    # Shares of the operations that are drawn at random.
    SHARES: ClassVar[Mapping[Operation, float]] = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.74,
    }
    # Compared fields of answers, by name.
    COMPARED: ClassVar[Mapping[str, str]] = {"verdicts": "seen", "ages": "age"}
    MEMORY: ClassVar[str] = "memory_bits"  # what memory has, of which each is compared
    # Counters of the model; figures have their sums over all resets.
    COUNTS: ClassVar[tuple[str, ...]] = ("hits", "insertions")

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        self._unit = unit
        self._spec = spec
        self._golden = GoldenPlayer(spec)
        self._random = np.random.default_rng(seed)
        self._free = ticks in ("tick", "period")
        self._ticks = ticks
        times = ["times"] if self._free else []
        # Differences so far, of each kind that is compared.
        self.mismatches = dict.fromkeys([*self.COMPARED, *times, "counters", self.MEMORY], 0)
        self._past: Counter[str] = Counter()
        # How often something was done that a user can do at any time, by its name.
        self.met: Counter[str] = Counter()
        # Whether pauses come before operations and before answers are taken, drawn from `STALLS`.
        self.stalls = False
        # All steps so far, if this is a list.
        self.steps: list[Step] | None = None
        self.done = self._clears = self._rekeys = self._memories = 0

    def perform(self, count: int) -> None:
        """Perform a chunk of `count` operations on both."""
        if self._random.random() < RESETS:
            self._interrupt()
        self._rekey()
        codes, keys = self._choose(count)
        found, expected = self._both(codes, keys)
        for kind, name in self.COMPARED.items():
            self.mismatches[kind] += int((getattr(found, name) != getattr(expected, name)).sum())
        self.mismatches["counters"] += sum(
            value != self._counted(name) for name, value in self._unit.statistics.items()
        )
        self._clears += int((codes == Operation.CLEAR).sum())
        self.done += count

    def compare_memory(self) -> None:
        """Compare all that the memory holds."""
        self.mismatches[self.MEMORY] += self._differing(self._unit.memory)
        self._memories += 1

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return {
            "operations": self.done,
            "mismatches": self.mismatches,
            **{name: self._total(name) for name in self.COUNTS},
            "clears": self._clears,
            "rekeys": self._rekeys,
            "memory_comparisons": self._memories,
            self.MEMORY: self._held,
            "cycles": self._unit.cycles,
            "course": dict(sorted(self.met.items())),
        }

    def _play(self, name: str, *operands: Any, **how: Any) -> tuple[Any, Any]:
        """Perform a step on the hardware and the model; return the results of both."""
        if self.steps is not None:
            self.steps.append((name, operands, how))
        found = getattr(self._unit, name)(*operands, **how)
        times = {"times": found.time} if name == "perform_freely" else {}
        return found, getattr(self._golden, name)(*operands, **how, **times)

    @property
    def _model(self) -> Any:
        return self._golden.model

    def _total(self, name: str) -> int:
        """Return the sum of a count of the model over all resets."""
        return self._past[name] + int(self._model.counters[name])

    def _interrupt(self) -> None:
        """Reset both while operations of the unit are in flight."""
        self._past.update({name: int(self._model.counters[name]) for name in self.COUNTS})
        codes, keys = self._choose(INTERRUPTED)
        self._play("interrupt", codes, keys, int(self._random.integers(1, INTERRUPTED // 4)))
        self.met["reset"] += 1

    def _check_times(self, times: NDArray[np.int64], least: float, most: float) -> None:
        """Count the times of answers that go back, or are not from `least` to `most`."""
        wrong = (times < least) | (times > most) | (np.diff(times, prepend=times[:1]) < 0)
        self.mismatches["times"] += int(wrong.sum())

    @property
    def _pool(self) -> int:
        """Keys of the small pool: a fifth of the window."""
        return int(self._spec.guaranteed_window) // 5

    @property
    def _held(self) -> int:
        """Number of bits or cells of memory that are compared."""
        return self._golden.memory.size

    def _differing(self, memory: NDArray[Any]) -> int:
        """Return how many bits or cells of the hardware differ."""
        return int((memory != self._golden.memory).sum())

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform operations on the hardware and the model; return the results of both."""
        return self._play("perform", codes, keys, **self._operands(len(codes)))

    def _operands(self, count: int) -> dict[str, Any]:
        """Draw what operations have besides codes and keys, and the pauses between them."""
        if not self.stalls:
            return {}
        self.met["stalls"] += 1
        before, after = self._random.choice(STALLS, 2).tolist()
        seed = int(self._random.integers(1, 1 << 32))
        return {"pause_before": before, "pause_after": after, "seed": seed}

    def _counted(self, name: str) -> int:
        """Return the expected value of a counter of the hardware."""
        return 0 if name in ALARMS else int(self._model.counters[name] % (1 << 32))

    def _rekey(self) -> None:
        """Load a new secret, if there are any and the model accepts one."""
        spec = self._spec
        if getattr(spec, "hash", "h3") != "siphash":
            return
        if not getattr(spec, "rekey", False) or self._model.rekey_ready:
            self._play("rekey", int.from_bytes(self._random.bytes(16), "little"))
            self._rekeys += 1
            self.met["secret"] += 1

    def _choose(self, count: int) -> tuple[NDArray[np.uint8], Any]:
        """Draw operations and keys."""
        random, key_bits = self._random, self._spec.key_bits
        shares = list(self.SHARES.values())
        codes = random.choice(list(self.SHARES), count, p=shares).astype(np.uint8)
        self._add_events(codes)
        keys = random_keys(random, count, key_bits)
        few = random_keys(random, max(2, self._pool), key_bits)
        repeated = random.random(count) < 0.5
        keys[repeated] = few[random.integers(0, len(few), int(repeated.sum()))]
        return codes, keys

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        """Put rare operations among those that were drawn: a clear."""
        codes[self._random.integers(0, len(codes))] = Operation.CLEAR


class RingTest(RandomTest):
    """A comparison of rings; see `RandomTest`.

    There are forced shifts. A new secret is loaded before every chunk, which applies from its clear
    on or, with re-keying, from a shift. In each chunk the length of a generation changes twice,
    first to one that may be below the minimum, for few operations. Beats of several lanes are
    partial, as drawn for each chunk.
    """

    COUNTS = (*RandomTest.COUNTS, "shifts")

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
                parts.append(self._part(codes[part], keys[part]))
        found, expected = (Results.joined(answers) for answers in zip(*parts, strict=True))
        self._ages += np.bincount(expected.age[expected.seen], minlength=len(self._ages))
        return found, expected

    def _part(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform the operations with one length of a generation."""
        return super()._both(codes, keys)

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
        self.met[f"generation: {name}"] += 1
        self._play("set_generation", min(names[name], longest))

    def _operands(self, count: int) -> dict[str, Any]:
        how = super()._operands(count)
        if self._spec.lanes == 1:
            return how
        # Which lanes of beats stay empty.
        shares = dict(zip(("skips", "holes"), self._random.choice(EMPTY, 2), strict=True))
        self.met.update({name: int(share > 0) for name, share in shares.items()})
        return how | {name: self._random.random(count) < share for name, share in shares.items()}


class TimedRingTest(RingTest):
    """A comparison of rings whose window is one in time, with bursts and silences."""

    COMPARED: ClassVar = {**RandomTest.COMPARED, "statuses": "status"}
    COUNTS = (*RingTest.COUNTS, "shortened", "overfilled")

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
            self._part(np.zeros(1, np.uint8), self._choose(1)[1])
        super().compare_memory()

    def _interrupt(self) -> None:
        super()._interrupt()
        self._past["ticks"] += self._now
        self._now = self._quiet = 0

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        found, expected = super()._both(codes, keys)
        self._statuses += np.bincount(expected.status, minlength=len(STATUSES))
        return found, expected

    def _operands(self, count: int) -> dict[str, Any]:
        if self._free:
            return super()._operands(count)
        times = _times(self._random, self._spec, count, self._now)
        self._now = int(times[-1])
        return {"times": times} | super()._operands(count)

    def _part(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform operations; free ticks come at about the rates of `_times`."""
        if not self._free:
            return super()._part(codes, keys)
        unit, spec, random = self._unit, self._spec, self._random
        least = unit.profile.least_period
        usual = spec.guaranteed_window / spec.span * 8 ** random.uniform(-1, 1)
        period = max(least, int(usual))
        self.met["period"] += period > least
        silence = int(random.choice([0, 0, spec.generation_span, spec.span + 1]) * period)
        silence = min(silence, SILENCE)
        before, cycles = unit.ticks, unit.cycles
        how = self._operands(len(codes))
        found, expected = self._play(
            "perform_freely", codes, keys, period=period, silence=silence, **how
        )
        if self._ticks == "tick":
            bounds = before, unit.ticks
        else:
            # Since the last operation; a new period applies from the next tick on.
            most = 2 + (unit.cycles - self._began) // least
            bounds = self._now + self._quiet, self._now + most
        self._check_times(found.time, *bounds)
        self._quiet = max(0, silence // max(period, self._period) - 2)
        self._began, self._period, self._now = cycles, period, int(found.time[-1])
        return found, expected


def _times(random: np.random.Generator, spec: FilterSpec, count: int, now: int) -> Times:
    """Draw the ticks of operations, shape (count,), none before `now`.

    Spells come at up to eight times the rate that fills the generations, or an eighth of it, and
    after silences of up to four spans.
    """
    begins = np.unique([0, *random.integers(0, count, random.poisson(RING_BURSTS))])
    usual = spec.span / spec.guaranteed_window
    steps = usual * 8 ** random.uniform(-1, 1, len(begins))
    gaps = np.repeat(steps, np.diff(begins, append=count)) * random.exponential(size=count)
    # Every second silence ends about where something expires.
    edges = random.choice([spec.generation_span, spec.span], len(begins))
    near = edges + random.integers(-2, 3, len(begins))
    wide = spec.span * 4 ** random.uniform(-4, 1, len(begins))
    gaps[begins] += np.where(random.random(len(begins)) < 0.5, near, wide)
    return now + np.floor(np.cumsum(gaps)).astype(np.int64)


class DictionaryTest(RandomTest):
    """A comparison of dictionaries; see `RandomTest`.

    Queries have any window. With the hash "siphash", a new secret is loaded before every chunk,
    which applies from its clear on.
    """

    SHARES: ClassVar = {
        **RandomTest.SHARES, Operation.CHECK_AND_INSERT: 0.72, Operation.REMOVE: 0.02,
    }  # fmt: skip
    COMPARED: ClassVar = {**RandomTest.COMPARED, "statuses": "status"}
    MEMORY = "memory_cells"

    _uncertain = 0

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return super().figures() | {"uncertain": self._uncertain}

    @property
    def _held(self) -> int:
        return int(self._spec.columns * self._spec.rows)

    def _differing(self, memory: NDArray[Any]) -> int:
        return int(self._model.differing_cells(memory))

    def _operands(self, count: int) -> dict[str, Any]:
        windows = self._random.integers(1, self._spec.window + 1, count)
        return {"windows": windows} | super()._operands(count)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        found, expected = super()._both(codes, keys)
        self._uncertain += int(expected.status.sum())
        return found, expected


class CountedTimingTest(RandomTest):
    """A comparison of timing filters with a clock of insertions; see `RandomTest`.

    Queries have any window. If tables of thresholds answer, it is of any class, and a new table
    comes before each chunk, and after a reset.
    """

    COMPARED: ClassVar = {**RandomTest.COMPARED, "oldest": "oldest"}
    MEMORY = "memory_cells"

    _expired = _now = _tables = 0

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        ticks = self._past["ticks"] + self._now
        figures = {
            "expired": self._expired,
            "ticks": ticks,
            "rounds_of_stamps": ticks >> self._spec.stamp_bits,
        }
        return super().figures() | figures | ({"tables": self._tables} if self._tables else {})

    def _interrupt(self) -> None:
        super()._interrupt()
        self._past["ticks"] += self._now
        self._now = 0

    def _rekey(self) -> None:
        """Load a new table, if tables answer."""
        if self._spec.classes is not None:
            shape, most = self._spec.table_shape, self._spec.hashes + 1
            self._play("decide_by", self._random.integers(0, most + 1, shape))
            self._tables += 1

    def _operands(self, count: int) -> dict[str, Any]:
        """Draw the window or the class of each query, and pauses."""
        spec, draw = self._spec, self._random.integers
        if spec.classes is not None:
            windows = draw(0, spec.classes, count)
        else:
            windows = draw(0, spec.window_blocks + 1, count) * int(spec.block_units)
        return {"windows": windows} | super()._operands(count)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        found, expected = self._clocked(codes, keys)
        self._expired += int((expected.age > self._spec.window_blocks).sum())
        # The unit reports nothing for a CLEAR.
        for name in ("age", "oldest"):
            where = codes == Operation.CLEAR
            getattr(found, name)[where] = getattr(expected, name)[where]
        return found, expected

    def _clocked(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform operations while the clock advances."""
        answers = super()._both(codes, keys)
        self._now = self._model.counters["insertions"] // self._spec.block
        return answers


class TimingTest(CountedTimingTest):
    """A comparison of timing filters with a clock of ticks.

    Ticks come as close as they may, or less often. Bursts differ in the share of the operations
    that insert, from all to one in ten thousand, as a tick has at least as many clocks as a part
    has cells; between them nothing comes, for up to `SILENCE` clocks.
    """

    @property
    def _pool(self) -> int:
        return int(self._spec.cells) // 5

    def compare_memory(self) -> None:
        """Compare all cells, unless the unit makes its own ticks, which do not stop for a read."""
        if self._ticks != "period":
            self._golden.ticks = self._unit.ticks
            super().compare_memory()

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        random, count = self._random, len(codes)
        self._bursts = np.unique([0, *random.integers(0, count, random.poisson(TICKED_BURSTS))])
        self._thin_out(codes, self._bursts, 10 ** random.uniform(-4, 0, len(self._bursts)))
        super()._add_events(codes)

    def _thin_out(self, codes: NDArray[np.uint8], begins: Any, shares: Any) -> None:
        """Leave a share of the operations of each burst; the others become queries."""
        count = len(codes)
        stays = self._random.random(count) < np.repeat(shares, np.diff(begins, append=count))
        codes[~stays] = Operation.QUERY

    def _clocked(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        how, unit = self._operands(len(codes)), self._unit
        windows, least = how.pop("windows"), unit.profile.least_period
        parts = []
        for start, stop in zip(self._bursts, [*self._bursts[1:], len(codes)], strict=True):
            own = slice(start, stop)
            period = least * int(self._random.choice(PERIODS))
            self.met["period"] += period > least
            before = unit.ticks if self._ticks == "tick" else self._now
            parts.append(self._play("perform_freely", codes[own], keys[own], windows=windows[own],
                                    period=period, **how))  # fmt: skip
            times = parts[-1][0].time
            self._now = unit.ticks if self._ticks == "tick" else int(times[-1])
            self._check_times(times, before, self._now)
            silence = int(self._random.integers(0, SILENCE + 1))
            if self._ticks == "tick":
                self._play("pass_ticks", silence // least)
                self._now = unit.ticks
            else:
                self._play("idle", silence)
        found, expected = (Results.joined(answers) for answers in zip(*parts, strict=True))
        return found, expected


KINDS: Mapping[str, type[RandomTest]] = {
    "ring": RingTest,
    "dictionary": DictionaryTest,
    "timing": CountedTimingTest,
}
"""Random tests of filters that have more events than `RandomTest` draws, by their kind."""


def random_test(spec: Specification) -> type[RandomTest]:
    """Return the random test of a specification."""
    kind = KINDS.get(spec.kind, RandomTest)
    timed: Mapping[Any, type[RandomTest]] = {RingTest: TimedRingTest, CountedTimingTest: TimingTest}
    return timed.get(kind, kind) if spec.timed else kind
