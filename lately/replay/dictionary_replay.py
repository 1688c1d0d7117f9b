"""What a replay knows of a dictionary: its model, the exact oracle, and what was found."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden import Results, WindowDictionarySpec
from ..golden.hash.keys import Keys
from ..golden.results import Ages
from .cell_models import CellModel, ComparedAnswers
from .oracle import Truth, WindowOracle


class DictionaryModel(CellModel):
    """Golden model of a dictionary, with the statuses and counters that its hardware has.

    Parameters
    ----------
    spec, asked : WindowDictionarySpec
        As for `CellModel`.
    """

    def __init__(
        self, spec: WindowDictionarySpec, asked: WindowDictionarySpec | None = None
    ) -> None:
        super().__init__(spec, asked)

    @property
    def lost(self) -> int:
        """Entries that were given up, as the hardware counts them."""
        return int(self.golden.counters["lost"])

    def query(self, keys: Keys) -> Any:
        """Ask for `keys`, as `WindowDictionary.query`; counts nothing."""
        return self.golden.query(keys, self._asked.window)

    def rekey(self, secret: int) -> None:
        """Load a new secret, as `WindowDictionary.rekey`."""
        self.golden.rekey(secret)

    def differing_cells(self, memory: Ages) -> int:
        """Return in how many cells a `memory`, as `WindowDictionary.memory`, differs from golden's.

        With moves, how many of its entries golden does not have, wherever; and how many it
        lacks, but for as many as the stash may hold.
        """
        if not self.golden.moves:
            return int((memory != self.memory).any(axis=0).sum())
        found = {tuple(entry) for entry in self.golden.entries_of(memory).tolist()}
        due = {tuple(entry) for entry in self.golden.entries.tolist()}
        return len(found - due) + max(0, len(due - found) - self.golden.stash)

    def estimated_false_positive_rate(self) -> float:
        """Probability that a fresh key is reported now, by the digests that are held."""
        return float(self.golden.expected_false_positive_rate(self._asked.window))

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of the cells of each column that hold a live entry, shape (columns,)."""
        fills: NDArray[np.float64] = np.mean(self.memory[0] != 0, axis=1)
        return fills


class DictionaryOracle(WindowOracle):
    """Judges by a window that is exact; see `WindowOracle`.

    A key is guaranteed for as long as the dictionary says; past that, while entries that were
    given up would still be of the window, it may be missed.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """

    def __init__(self, spec: WindowDictionarySpec) -> None:
        super().__init__(spec.window)

    def check_and_insert(self, keys: NDArray[np.uint64], guaranteed: Ages) -> Truth:
        """Judge each operation by the insertions before it, then insert its key.

        The `keys` have shape (n,), or (n, words) if they are wide; `guaranteed`, of shape (n,), is
        the largest window that is exact for each.
        """
        return self._exchange(keys, guaranteed=guaranteed)


@dataclass(kw_only=True)
class DictionaryResult(ComparedAnswers):
    """What a run of a dictionary met."""

    FIELDS = ("age", "status")
    NAMES = "ages and statuses"

    lost: int = 0
    """Entries that were given up before they expired."""
    least_guaranteed: int
    """Least window, in insertions, for which an answer was exact."""
    uncertain: int = 0
    """Answers for which keys of the window may have been missed."""
    stash_peak: int = 0
    """Most entries in the stash."""

    def note(self, told: Results) -> None:
        """Take in what the golden model `told` of some operations."""
        self.uncertain += int(told.status.sum())
        if len(told.covered):
            self.least_guaranteed = min(self.least_guaranteed, int(told.covered.min()))

    def figures(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        names = ("lost", "least_guaranteed", "uncertain", "stash_peak")
        told = {name: getattr(self, name) for name in names}
        return told | {"age_mismatches": self.answer_mismatches}
