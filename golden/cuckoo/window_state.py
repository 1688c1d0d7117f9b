"""State of a window dictionary: figures, entries, state files."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..convenience import State
from ..filter import AnyWindowFilter
from ..hash.siphash import check_secret
from ..results import Ages
from ..sampling import sample
from ..saved import Bounded
from ..spec.dictionary_sizes import WindowDictionarySpec


class DictionaryState(AnyWindowFilter):
    """Mixin of `WindowDictionary` for figures, entries and state files."""

    window: int
    columns: int
    rows: int
    digest_bits: int
    stash: int
    moves: int | None
    insertions: int
    lost: int
    youngest_lost: int
    hash: str
    _secret: int
    _waiting: int
    _all_lost: int
    _cells: Ages
    _times: Ages
    _held: Ages
    _stash_times: Ages
    _stash: Ages
    _offsets: Ages

    @property
    def spec(self) -> WindowDictionarySpec:
        """Specification of the dictionary."""
        return WindowDictionarySpec(**self.parameters)

    @property
    def guaranteed_window(self) -> int:
        """Largest window for which the answers are exact.

        It is `window` unless an entry was evicted within the window. It is then the number of
        insertions after the youngest evicted entry, until this entry would have expired.
        """
        return min(self.window, self.insertions - self.youngest_lost) if self.lost else self.window

    @property
    def fpr(self) -> float:
        """Expected false-positive rate with a full window of distinct keys."""
        return self.spec.mean_false_positive_rate

    def expected_false_positive_rate(self, window: int | None = None) -> float:
        """Return the probability that a fresh key is reported now: live digests over 2**D.

        Parameters, errors: as `checked_window`.
        """
        window = self.checked_window(window)
        live = sum(
            int((self._distances(times) <= window).sum())
            for times in (self._times, self._stash_times)
        )
        return live / 2.0**self.digest_bits

    def estimated_false_positive_rate(self, window: int | None = None) -> float:
        """Return `expected_false_positive_rate`, under the name that rings use.

        The `window` is the window of the query.
        """
        return self.expected_false_positive_rate(window)

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of cells with a live entry in each column, shape (columns,)."""
        fills: NDArray[np.float64] = np.mean(self.memory[0] != 0, axis=1)
        return fills

    def differing_cells(self, memory: Ages) -> int:
        """Return the number of cells in which the hardware's `memory` differs, as in `Filter`.

        With moves, places may differ: the result counts hardware entries that the model lacks, and
        missing entries beyond the capacity of the stash. The argument has the shape of `memory`.
        """
        if not self.moves:
            return int((memory != self.memory).any(axis=0).sum())
        found = {tuple(entry) for entry in self.entries_of(memory).tolist()}
        due = {tuple(entry) for entry in self.entries.tolist()}
        return len(found - due) + max(0, len(due - found) - self.stash)

    @property
    def stashed(self) -> int:
        """Live entries in the stash."""
        return int((self._distances(self._stash_times) <= self.window).sum())

    @property
    def memory(self) -> Ages:
        """Age plus 1 and remainder of each cell's live entry, or 0; shape (2, columns, rows)."""
        distances = self._distances(self._times)
        live = distances <= self.window
        cells = np.stack([distances * live, self._held * live])
        return cells.reshape(2, self.columns, self.rows)

    @property
    def entries(self) -> Ages:
        """Digest and age plus 1 of each live entry, sorted by digest; shape (live, 2)."""
        distances = self._distances(self._stash_times)
        stashed = np.stack([self._stash, distances], axis=1)[distances <= self.window]
        found = np.concatenate([self.entries_of(self.memory), stashed])
        return found[np.argsort(found[:, 0])]

    def entries_of(self, memory: Ages) -> Ages:
        """Return digest and age plus 1 of each entry in a `memory`, shape (live, 2).

        The argument has the form of `memory`, for this specification.
        """
        distances, rests = memory
        column, low = used = np.nonzero(distances)
        rest = rests[used]
        for byte in range(self._offsets.shape[1]):
            low = low ^ self._offsets[column, byte, rest >> 8 * byte & 0xFF]
        return np.stack([rest << self.spec.row_bits | low, distances[used]], axis=1)

    @property
    def fill(self) -> float:
        """Share of cells that hold a live entry."""
        times = sample(self._times.reshape(self.columns, self.rows))
        return float(np.mean(self._distances(times) <= self.window))

    def _distances(self, times: Ages) -> Ages:
        """Return ages plus 1; more than the window for an empty cell."""
        return np.where(times > 0, self.insertions + 1 - times, self.window + 1)

    # State files

    def _take_saved(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._take_saved(numbers, arrays)
        self._all_lost = numbers.get("events", {}).get("lost", self.lost)

    @property
    def _private(self) -> bool:
        return self.hash == "siphash"

    def _arrays(self) -> Bounded:
        """Return the cells, each with its time and the bits that it holds, and the stash."""
        return {
            "cells": (self._cells, (self.insertions, (1 << self.spec.rest_bits) - 1)),
            "stash_times": (self._stash_times, self.insertions),
            "stash": (self._stash, (1 << self.digest_bits) - 1),
        }

    def _state(self) -> State:
        numbers, arrays = super()._state()
        if self._private:
            numbers["secrets"] = [self._secret, self._waiting]
        return numbers, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if "times" in arrays:  # Format 2.
            arrays["cells"] = np.stack([arrays["times"], arrays["held"]], axis=1)
        super()._restore(numbers, arrays)
        if self._private:
            self._secret, self._waiting = (check_secret(secret) for secret in numbers["secrets"])
