"""Random tests of compiled units beside golden models.

The seed draws everything that a user can vary: the options of the hardware once (`drawn_build`),
and the rest before each chunk of operations. `RandomTest` tests a filter of any family. Its
subclasses add the events of some families; `KINDS` names them.
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

STALLS = (0.0, 0.1, 0.4)
"""Shares of the clocks in which nothing is offered, or no answer taken; one is drawn of each."""

RESETS = 0.25
"""Share of the chunks that begin with a reset, while operations are in flight."""

INTERRUPTED = 200
"""Operations that a reset interrupts, of which some have their results."""

SHAPE = ("memory", "protect", "levels")
"""Options on which it depends whether hardware can be built."""

LEVELS = (1, 2, 3)
"""Levels of look-up tables between two registers that are drawn."""

ALARMS = ("upsets", "alarms")
"""Counters that must not count: no memory is upset by itself, and no state is illegal."""

RING_BURSTS = 64
"""Mean bursts in each chunk of a window in time, each at a rate of its own and after a silence."""

SHORT_SHARE = 64
"""One operation in so many, at most, is performed with generations below the minimum."""

EMPTY = (0.0, 0.0, 0.1, 0.5)
"""Shares of the operations before which lanes stay empty; one is drawn for each kind and chunk."""

SILENCE = 1 << 19
"""Cycles of a silence in which ticks come, at most."""

EVENTS = 16
"""In each chunk: forced shifts, a quarter of them right after another, and one clear."""

TICKED_BURSTS = 4
"""Mean bursts in each chunk, each with a rate of insertions of its own and after a silence."""

PERIODS = (1, 1, 2, 5)
"""Clocks from one tick to the next, over the least: one is drawn for each spell."""


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


class RandomTest:
    """A comparison in progress: hardware and golden model, and their differences so far.

    Half the keys of a chunk come from a small pool, so that hits of every age are frequent; the
    others are random. Every chunk has one clear, and some begin with a reset while operations are
    in flight.

    Parameters
    ----------
    unit
        Hardware, as `lately.sim.compiled_unit` opens it.
    spec : Specification
    seed : int
        Seed of keys and operations.
    ticks : str, optional
        Source of the ticks of the hardware, if it has any.

    Attributes
    ----------
    met : Counter
        How often something was done that a user can do at any time, by its name.
    done : int
        Operations so far.
    stalls : bool
        Whether pauses come before operations and before answers are taken, as drawn for each
        chunk from `STALLS`.
    """

    SHARES: ClassVar[Mapping[Operation, float]] = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.74,
    }
    """Shares of the operations that are drawn at random."""

    COMPARED: ClassVar[Mapping[str, str]] = {"verdicts": "seen", "ages": "age"}
    """Compared fields of answers, by name."""

    MEMORY: ClassVar[str] = "memory_bits"
    """What memory has, of which each is compared."""

    COUNTS: ClassVar[tuple[str, ...]] = ("hits", "insertions")
    """Counters of the model; figures have their sums over all resets."""

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        self._unit = unit
        self._spec = spec
        self._model = self._new_model()
        self._random = np.random.default_rng(seed)
        self._free = ticks in ("tick", "period")
        self._ticks = ticks
        times = ["times"] if self._free else []
        self._mismatches = dict.fromkeys([*self.COMPARED, *times, "counters", self.MEMORY], 0)
        self._past: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.stalls = False
        self.done = self._clears = self._rekeys = self._memories = 0

    def perform(self, count: int) -> None:
        """Perform a chunk of `count` operations on both."""
        if self._random.random() < RESETS:
            self._interrupt()
        self._rekey()
        codes, keys = self._choose(count)
        found, expected = self._both(codes, keys)
        wrong = self._mismatches
        for kind, name in self.COMPARED.items():
            wrong[kind] += int((getattr(found, name) != getattr(expected, name)).sum())
        wrong["counters"] += sum(
            value != self._counted(name) for name, value in self._unit.statistics.items()
        )
        self._clears += int((codes == Operation.CLEAR).sum())
        self.done += count

    def compare_memory(self) -> None:
        """Compare all that the memory holds."""
        self._mismatches[self.MEMORY] += int((self._unit.memory != self._memory()).sum())
        self._memories += 1

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return {
            "operations": self.done,
            "mismatches": self._mismatches,
            **{name: self._total(name) for name in self.COUNTS},
            "clears": self._clears,
            "rekeys": self._rekeys,
            "memory_comparisons": self._memories,
            self.MEMORY: self._held,
            "cycles": self._unit.cycles,
            "course": dict(sorted(self.met.items())),
        }

    @property
    def mismatches(self) -> Mapping[str, int]:
        """Differences so far, of each kind that is compared."""
        return self._mismatches

    def _total(self, name: str) -> int:
        """Return the sum of a count of the model over all resets."""
        return self._past[name] + int(self._model.counters[name])

    def _interrupt(self) -> None:
        """Reset both while operations of the unit are in flight."""
        codes, keys = self._choose(INTERRUPTED)
        self._unit.interrupt(codes, keys, int(self._random.integers(1, INTERRUPTED // 4)))
        self._past.update({name: int(self._model.counters[name]) for name in self.COUNTS})
        self._model = self._new_model()
        self.met["reset"] += 1

    def _check_times(self, times: NDArray[np.int64], least: float, most: float) -> None:
        """Count the times of answers that go back, or are not from `least` to `most`."""
        wrong = (times < least) | (times > most) | (np.diff(times, prepend=times[:1]) < 0)
        self._mismatches["times"] += int(wrong.sum())

    def _pauses(self) -> dict[str, Any]:
        """Draw the pauses of a chunk, as the unit takes them."""
        if not self.stalls:
            return {}
        self.met["stalls"] += 1
        before, after = self._random.choice(STALLS, 2).tolist()
        seed = int(self._random.integers(1, 1 << 32))
        return {"pause_before": before, "pause_after": after, "seed": seed}

    def _new_model(self) -> Any:
        """Return the golden model as it is after a reset."""
        return from_spec(self._spec)

    @property
    def _pool(self) -> int:
        """Keys of the small pool: a fifth of the window."""
        return int(self._spec.guaranteed_window) // 5

    @property
    def _held(self) -> int:
        """Number of bits or cells of memory that are compared."""
        return int(np.size(self._memory()))

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform operations on the hardware and the model; return the results of both."""
        found = self._unit.perform(codes, keys, **self._pauses())
        return found, self._model.perform(codes, keys)

    def _counted(self, name: str) -> int:
        """Return the expected value of a counter of the hardware."""
        return 0 if name in ALARMS else int(self._model.counters[name] % (1 << 32))

    def _memory(self) -> NDArray[Any]:
        """Return the expected memory of the hardware."""
        memory: NDArray[Any] = self._model.memory
        return memory

    def _rekey(self) -> None:
        """Load a new secret, if there are any."""
        if getattr(self._spec, "hash", "h3") == "siphash":
            self._new_secret()

    def _new_secret(self) -> None:
        secret = int.from_bytes(self._random.bytes(16), "little")
        self._model.rekey(secret)
        self._unit.rekey(secret)
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

    The pool has a fifth of the window. There are forced shifts. A new secret is loaded before
    every chunk, which applies from its clear on or, with re-keying, from a shift. In each chunk the
    length of a generation changes twice, first to one that may be below the minimum, for few
    operations. Beats of several lanes are partial, as drawn for each chunk.
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
        found, expected = (Results.joined(answers) for answers in zip(*parts, strict=True))
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
        return self._unit.perform(codes, keys, **how), self._model.perform(codes, keys)

    def _empty_lanes(self, count: int) -> dict[str, NDArray[np.bool_]]:
        """Draw which lanes of beats stay empty, if there are several."""
        if self._spec.lanes == 1:
            return {}
        shares = dict(zip(("skips", "holes"), self._random.choice(EMPTY, 2), strict=True))
        self.met.update({name: int(share > 0) for name, share in shares.items()})
        return {name: self._random.random(count) < share for name, share in shares.items()}


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

    The pool has a fifth of the window; queries have any window. With the hash "siphash", a new
    secret is loaded before every chunk, which applies from its clear on.
    """

    SHARES: ClassVar = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.72,
        Operation.REMOVE: 0.02,
    }
    COMPARED: ClassVar = {**RandomTest.COMPARED, "statuses": "status"}
    MEMORY = "memory_cells"

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        super().__init__(unit, spec, seed, ticks)
        self._uncertain = 0

    def compare_memory(self) -> None:
        """Compare all cells."""
        self._mismatches[self.MEMORY] += self._model.differing_cells(self._unit.memory)
        self._memories += 1

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return super().figures() | {"uncertain": self._uncertain}

    @property
    def _held(self) -> int:
        return int(self._spec.columns * self._spec.rows)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        windows = self._random.integers(1, self._spec.window + 1, len(codes))
        expected = self._model.perform(codes, keys, None, windows)
        self._uncertain += int(expected.status.sum())
        return self._unit.perform(codes, keys, windows=windows, **self._pauses()), expected


class CountedTimingTest(RandomTest):
    """A comparison of timing filters with a clock of insertions; see `RandomTest`.

    The pool has a fifth of the window; queries have any window. If tables of thresholds answer,
    it is of any class, and a new table comes before each chunk, and after a reset.
    """

    COMPARED: ClassVar = {**RandomTest.COMPARED, "oldest": "oldest"}
    MEMORY = "memory_cells"

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        super().__init__(unit, spec, seed, ticks)
        self._expired = self._now = self._tables = 0

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        ticks = self._past["ticks"] + self._now
        figures = {
            "expired": self._expired,
            "ticks": ticks,
            "rounds_of_stamps": ticks >> self._spec.stamp_bits,
        }
        return super().figures() | figures | ({"tables": self._tables} if self._tables else {})

    @property
    def _held(self) -> int:
        return int(self._spec.hashes * self._spec.cells)

    def _interrupt(self) -> None:
        super()._interrupt()
        self._past["ticks"] += self._now
        self._now = 0

    def _rekey(self) -> None:
        """Load a new table, if tables answer."""
        if self._spec.classes is not None:
            shape, most = self._spec.table_shape, self._spec.hashes + 1
            table = self._random.integers(0, most + 1, shape)
            self._unit.decide_by(table)
            self._model.decide_by(table)
            self._tables += 1

    def _asked(self, count: int) -> NDArray[np.int64]:
        """Draw the window or the class of each query."""
        spec, draw = self._spec, self._random.integers
        if spec.classes is not None:
            return draw(0, spec.classes, count)
        return draw(0, spec.window_blocks + 1, count) * int(spec.block_units)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        found, expected = self._performed(codes, keys, self._asked(len(codes)))
        self._expired += int((expected.age > self._spec.window_blocks).sum())
        # The unit reports nothing for a CLEAR.
        for name in ("age", "oldest"):
            where = codes == Operation.CLEAR
            getattr(found, name)[where] = getattr(expected, name)[where]
        return found, expected

    def _performed(
        self, codes: NDArray[np.uint8], keys: Any, asked: NDArray[np.int64]
    ) -> tuple[Any, Any]:
        found = self._unit.perform(codes, keys, windows=asked, **self._pauses())
        expected = self._model.perform(codes, keys, None, asked)
        self._now = self._model.counters["insertions"] // self._spec.block
        return found, expected


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
            super().compare_memory()

    def _memory(self) -> NDArray[Any]:
        return self._model.memory_at(self._unit.ticks * self._spec.period)

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        random, count = self._random, len(codes)
        self._bursts = np.unique([0, *random.integers(0, count, random.poisson(TICKED_BURSTS))])
        shares = 10 ** random.uniform(-4, 0, len(self._bursts))
        stays = random.random(count) < np.repeat(shares, np.diff(self._bursts, append=count))
        codes[~stays] = Operation.QUERY
        super()._add_events(codes)

    def _performed(
        self, codes: NDArray[np.uint8], keys: Any, asked: NDArray[np.int64]
    ) -> tuple[Any, Any]:
        spec, unit, pauses = self._spec, self._unit, self._pauses()
        least = unit.profile.least_period
        told = []
        for start, stop in zip(self._bursts, [*self._bursts[1:], len(codes)], strict=True):
            own = slice(start, stop)
            period = least * int(self._random.choice(PERIODS))
            self.met["period"] += period > least
            before = unit.ticks if self._ticks == "tick" else self._now
            answers = unit.perform_freely(
                codes[own], keys[own], asked[own], period=period, **pauses
            )
            self._now = unit.ticks if self._ticks == "tick" else int(answers.time[-1])
            self._check_times(answers.time, before, self._now)
            told.append(answers)
            silence = int(self._random.integers(0, SILENCE + 1))
            if self._ticks == "tick":
                unit.pass_ticks(silence // least)
                self._now = unit.ticks
            else:
                unit.idle(silence)
        found = Results.joined(told)
        times = np.maximum.accumulate(found.time) * spec.period
        return found, self._model.perform(codes, keys, times, asked)


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
