"""What long runs of all units have in common: operations at random, and what is compared."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..golden import Operation
from ..golden.hash.keys import random_keys

STALLS = (0.0, 0.1, 0.4)
"""Shares of the clocks in which nothing is offered, or no answer taken; one is drawn of each."""


class Course(ABC):
    """A comparison in progress: hardware and golden model, and their differences so far.

    Half the keys of a chunk come from a small pool, so that hits of every age are frequent; the
    others are random. Every chunk has one clear.

    Parameters
    ----------
    unit
        Hardware, as `lately.sim.compiled_unit` opens it.
    spec : UnitSpec
    model
        Its golden model.
    seed : int
        Of keys and operations.

    Attributes
    ----------
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

    UNTOLD: ClassVar[tuple[str, ...]] = ()
    """Counters of the hardware that the model does not have."""

    def __init__(self, unit: Any, spec: Any, model: Any, seed: int) -> None:
        self._unit = unit
        self._spec = spec
        self._model = model
        self._random = np.random.default_rng(seed)
        self._mismatches = dict.fromkeys([*self.TOLD, "counters", self.MEMORY], 0)
        self.stalls = False
        self.done = self._clears = self._rekeys = self._memories = 0

    def perform(self, count: int) -> None:
        """Perform a chunk of `count` operations on both."""
        self._rekey()
        codes, keys = self._choose(count)
        found, expected = self._both(codes, keys)
        wrong = self._mismatches
        for kind, name in self.TOLD.items():
            wrong[kind] += int((getattr(found, name) != getattr(expected, name)).sum())
        wrong["counters"] += sum(
            value != self._counted(name)
            for name, value in self._unit.statistics.items()
            if name not in self.UNTOLD
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
            "hits": self._model.hits,
            "insertions": self._model.insertions,
            "clears": self._clears,
            "rekeys": self._rekeys,
            "memory_comparisons": self._memories,
            self.MEMORY: self._held,
            "cycles": self._unit.cycles,
        }

    @property
    def mismatches(self) -> Mapping[str, int]:
        """Differences so far, of each kind that is compared."""
        return self._mismatches

    def _pauses(self) -> dict[str, Any]:
        """Draw the pauses of a chunk, as the unit takes them."""
        if not self.stalls:
            return {}
        before, after = self._random.choice(STALLS, 2).tolist()
        seed = int(self._random.integers(1, 1 << 32))
        return {"pause_before": before, "pause_after": after, "seed": seed}

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
        """Return what a counter of the hardware must hold; no memory is upset by itself."""
        return 0 if name == "upsets" else int(getattr(self._model, name) % (1 << 32))

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
