"""What long runs of all units have in common: operations at random, and what is compared.

Everything that a user can vary is drawn from the seed: the options of the hardware once
(`drawn_build`), and the rest before each chunk of operations.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden import FilterSpec, Operation, SpecificationError
from lately.golden.hash.keys import random_keys
from lately.golden.spec.timestamp import TimedTimingSpec
from lately.hdl.build import UnitSpec, unit_kind, unit_profile
from lately.hdl.latencies import PROTECTIONS, TICKS, TIMING_TICKS

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


def build_options(spec: UnitSpec) -> dict[str, tuple[Any, ...]]:
    """Return the options of the hardware of a specification, with the values that they may have.

    Not all of them can be combined.

    Parameters
    ----------
    spec : UnitSpec
    """
    kind = unit_kind(spec)
    memories = tuple(name for name in kind.memories if not name.endswith("-strict"))
    options: dict[str, tuple[Any, ...]]
    options = {"memory": memories, "protect": tuple(PROTECTIONS), "check": (False, True),
               "inverted": (False, True)}  # fmt: skip
    if kind.most_levels > 1:
        options["levels"] = LEVELS
    if isinstance(spec, FilterSpec):
        options |= {"ticks": TICKS} if spec.timed else {}
    elif isinstance(spec, TimedTimingSpec):
        options["ticks"] = TIMING_TICKS
    return options


def drawn_build(spec: UnitSpec, random: np.random.Generator) -> dict[str, Any]:
    """Draw the options of the hardware of a specification, as `lately.sim.compiled_unit` has them.

    Parameters
    ----------
    spec : UnitSpec
    random : numpy.random.Generator
    """
    options = build_options(spec)
    while True:
        drawn = {name: values[random.integers(len(values))] for name, values in options.items()}
        shape = {name: drawn[name] for name in SHAPE if name in drawn}
        with suppress(SpecificationError):
            unit_profile(spec, **shape).check_buildable()
            return drawn


class Course(ABC):
    """A comparison in progress: hardware and golden model, and their differences so far.

    Half the keys of a chunk come from a small pool, so that hits of every age are frequent; the
    others are random. Every chunk has one clear, and some begin with a reset while operations are
    in flight.

    Parameters
    ----------
    unit
        Hardware, as `lately.sim.compiled_unit` opens it.
    spec : UnitSpec
    seed : int
        Of keys and operations.
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

    SHARES: ClassVar[Mapping[Operation, float]]
    """Shares of the operations that are drawn at random."""

    TOLD: ClassVar[Mapping[str, str]] = {"verdicts": "seen", "ages": "age"}
    """What is compared of answers: its name, and the field of an answer."""

    MEMORY: ClassVar[str] = "memory_bits"
    """What memory has, of which each is compared."""

    COUNTS: ClassVar[tuple[str, ...]] = ("hits", "insertions")
    """What the model counts, of which figures have the sum over all resets."""

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        self._unit = unit
        self._spec = spec
        self._model = self._new_model()
        self._random = np.random.default_rng(seed)
        self._free = ticks in ("tick", "period")
        self._ticks = ticks
        times = ["times"] if self._free else []
        self._mismatches = dict.fromkeys([*self.TOLD, *times, "counters", self.MEMORY], 0)
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
        for kind, name in self.TOLD.items():
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

    @abstractmethod
    def _new_model(self) -> Any:
        """Return the golden model as it is after a reset."""

    @property
    @abstractmethod
    def _pool(self) -> int:
        """Keys of the small pool."""

    @property
    @abstractmethod
    def _held(self) -> int:
        """How much of what is compared the memory has."""

    @abstractmethod
    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        """Perform operations on the hardware and the model; return the answers of both."""

    def _counted(self, name: str) -> int:
        """Return what a counter of the hardware must hold."""
        return 0 if name in ALARMS else int(self._model.counters[name] % (1 << 32))

    def _memory(self) -> NDArray[Any]:
        """Return what the memory of the hardware must hold."""
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
