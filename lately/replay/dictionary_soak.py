"""A compiled dictionary beside its golden model, on mixed random operations."""

from typing import Any

import numpy as np

from ..golden import Operation, WindowDictionarySpec
from ..golden.hash.keys import random_keys
from .dictionary_replay import DictionaryModel

SHARES = {
    Operation.NONE: 0.01,
    Operation.QUERY: 0.15,
    Operation.INSERT: 0.1,
    Operation.CHECK_AND_INSERT: 0.72,
    Operation.REMOVE: 0.02,
}
"""Shares of the operations that are drawn at random."""


class DictionaryCourse:
    """A comparison in progress: hardware and golden model, and their differences so far.

    Half the keys of a chunk come from a pool of a fifth of the window, the others are random; a
    query asks for any window. Every chunk has one clear; with the hash "siphash", a new secret is
    loaded before it.

    Parameters
    ----------
    unit : CompiledDictionary
    spec : WindowDictionarySpec
    seed : int
        Of keys and operations.

    Attributes
    ----------
    done : int
        Operations so far.
    """

    def __init__(self, unit: Any, spec: WindowDictionarySpec, seed: int) -> None:
        self._unit = unit
        self._spec = spec
        self._model = DictionaryModel(spec)
        self._random = np.random.default_rng(seed)
        kinds = ("verdicts", "ages", "statuses", "counters", "memory_cells")
        self._mismatches = dict.fromkeys(kinds, 0)
        self.done = self._clears = self._rekeys = self._memories = self._uncertain = 0

    def perform(self, count: int) -> None:
        """Perform a chunk of `count` operations on both."""
        if self._spec.hash == "siphash":
            secret = int.from_bytes(self._random.bytes(16), "little")
            self._unit.rekey(secret)
            self._model.golden.rekey(secret)
            self._rekeys += 1
        codes, keys, windows = _choose(self._random, self._spec, count)
        found = self._unit.perform(codes, keys, windows)
        expected = self._model.perform(codes, keys, windows)
        wrong = self._mismatches
        wrong["verdicts"] += int((found.seen != expected.seen).sum())
        wrong["ages"] += int((found.age != expected.age).sum())
        wrong["statuses"] += int((found.status != expected.status).sum())
        wrong["counters"] += sum(
            value != getattr(self._model, name) % (1 << 32)
            for name, value in self._unit.statistics.items()
            # What is lost while a clear is among the operations is not told by the model.
            if name != "lost"
        )
        self._uncertain += int(expected.status.sum())
        self._clears += int((codes == Operation.CLEAR).sum())
        self.done += count

    def compare_memory(self) -> None:
        """Compare all cells."""
        differing = self._unit.memory != self._model.memory
        self._mismatches["memory_cells"] += int(differing.any(axis=0).sum())
        self._memories += 1

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        return {
            "operations": self.done,
            "mismatches": self._mismatches,
            "hits": self._model.hits,
            "insertions": self._model.insertions,
            "uncertain": self._uncertain,
            "clears": self._clears,
            "rekeys": self._rekeys,
            "memory_comparisons": self._memories,
            "memory_cells": self._spec.columns * self._spec.rows,
            "cycles": self._unit.cycles,
        }


def _choose(random: np.random.Generator, spec: WindowDictionarySpec, count: int) -> Any:
    """Draw operations, keys and windows."""
    codes = random.choice(list(SHARES), count, p=list(SHARES.values())).astype(np.uint8)
    codes[random.integers(0, count)] = Operation.CLEAR
    keys = random_keys(random, count, spec.key_bits)
    few = random_keys(random, max(2, spec.window // 5), spec.key_bits)
    repeated = random.random(count) < 0.5
    keys[repeated] = few[random.integers(0, len(few), int(repeated.sum()))]
    return codes, keys, random.integers(1, spec.window + 1, count)
