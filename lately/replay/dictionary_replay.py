"""What a replay knows of a dictionary: its model, the exact oracle, and what was found."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..golden import Operation, WindowDictionary, WindowDictionarySpec
from ..golden.hash.keys import Keys, sortable
from ..golden.operations import Ages
from .oracle import FRESH, LastInsertions, Truth, kinds


@dataclass(frozen=True)
class DictionaryTold:
    """What a dictionary told of operations."""

    seen: NDArray[np.bool_]
    """As `Verdicts`, shape (n,)."""
    age: Ages
    """As `Verdicts`, shape (n,)."""
    status: NDArray[np.uint8]
    """1 where keys of the window may have been missed, shape (n,)."""
    guaranteed: Ages
    """Largest window for which each answer is exact, shape (n,)."""


class DictionaryModel:
    """Golden model of a dictionary, with the statuses and counters that its hardware has.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """

    shifts = 0

    def __init__(self, spec: WindowDictionarySpec) -> None:
        self.golden = WindowDictionary.from_spec(spec)
        self.operations = self.hits = self.insertions = self.lost = 0

    @property
    def key_bits(self) -> int:
        """Width of a key."""
        return self.golden.key_bits

    @property
    def memory(self) -> Ages:
        """Cells, as `WindowDictionary.memory`, shape (2, columns, rows)."""
        return self.golden.memory

    def query(self, keys: Keys) -> Any:
        """Ask for `keys`, as `WindowDictionary.query`; counts nothing."""
        return self.golden.query(keys)

    def estimated_false_positive_rate(self) -> float:
        """Probability that a fresh key is reported now, by the digests that are held."""
        return self.golden.expected_false_positive_rate()

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of the cells of each column that hold a live entry, shape (columns,)."""
        fills: NDArray[np.float64] = np.mean(self.memory[0] != 0, axis=1)
        return fills

    def perform(
        self, operations: ArrayLike, keys: Keys, windows: ArrayLike | None = None
    ) -> DictionaryTold:
        """Perform operations on keys, as `WindowDictionary.perform`.

        `operations`, `keys` and `windows` are as there, shape (n,). Counters go on through a CLEAR.
        """
        codes = np.asarray(operations)
        golden = self.golden
        asked = golden.window if windows is None else np.asarray(windows)
        lost = golden.lost
        told = golden.perform(codes, keys, windows)
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        queries = np.isin(codes, (Operation.QUERY, Operation.CHECK_AND_INSERT))
        self.operations += len(codes)
        self.hits += int(told.seen.sum())
        self.insertions += int(inserts.sum())
        self.lost += golden.lost - (0 if (codes == Operation.CLEAR).any() else lost)
        status = (queries & (asked > told.guaranteed)).astype(np.uint8)
        return DictionaryTold(told.seen, told.age, status, told.guaranteed)


class DictionaryOracle:
    """Remembers the last insertion of every key, and judges by the window, which is exact.

    A key is guaranteed for as long as the dictionary says; past that, while entries that were
    given up would still be of the window, it may be missed.
    """

    def __init__(self, spec: WindowDictionarySpec) -> None:
        self.insertions = 0
        self._window = spec.window
        self._last = LastInsertions(1)

    @property
    def distinct_keys(self) -> int:
        """Different keys inserted so far."""
        return len(self._last)

    def check_and_insert(self, keys: NDArray[np.uint64], guaranteed: Ages) -> Truth:
        """Judge each operation by the insertions before it, then insert its key.

        The `keys` have shape (n,), or (n, words) if they are wide; `guaranteed`, of shape (n,), is
        the largest window that is exact for each.
        """
        number = self.insertions + 1 + np.arange(len(keys), dtype=np.int64)
        previous = self._last.exchange(sortable(keys), number[:, None])[:, 0]
        self.insertions += len(keys)
        return self._judge(number, previous, guaranteed)

    def traceless(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which of the `keys` are reported only by error, shape (n,).

        They are as for `check_and_insert`.
        """
        number = np.full(len(keys), self.insertions + 1, np.int64)
        previous = self._last.find(sortable(keys))[:, 0]
        return self._judge(number, previous, np.array(self._window)).kind == FRESH

    def _judge(self, number: Ages, previous: Ages, guaranteed: Ages) -> Truth:
        known = previous > 0
        distance = np.where(known, number - previous, 0)
        held = known & (distance <= self._window)
        kind = kinds(known & (distance <= guaranteed), held)
        return Truth(distance, np.where(known, distance - 1, -1), kind, held)


@dataclass(kw_only=True)
class DictionaryResult:
    """What a run of a dictionary met.

    `age_mismatches`, of ages and statuses, is None without RTL.
    """

    lost: int = 0
    """Entries that were given up before they expired."""
    least_guaranteed: int
    """Least window, in insertions, for which an answer was exact."""
    uncertain: int = 0
    """Answers for which keys of the window may have been missed."""
    stash_peak: int = 0
    """Most entries in the stash."""
    age_mismatches: int | None = None
    first_age_mismatch: int | None = None
    """First operation, from 0, whose age or status differs between RTL and golden model."""

    def note(self, told: DictionaryTold) -> None:
        """Take in what the golden model `told` of some operations."""
        self.uncertain += int(told.status.sum())
        if len(told.guaranteed):
            self.least_guaranteed = min(self.least_guaranteed, int(told.guaranteed.min()))

    def compare(self, start: int, rtl: Any, golden: Any) -> None:
        """Compare ages and statuses of the operations from `start` on, of `rtl` and `golden`."""
        others = np.flatnonzero((rtl.age != golden.age) | (rtl.status != golden.status))
        self.age_mismatches = (self.age_mismatches or 0) + len(others)
        if len(others) and self.first_age_mismatch is None:
            self.first_age_mismatch = start + int(others[0])

    def failures(self) -> list[str]:
        """Return the messages of what failed."""
        if not self.age_mismatches:
            return []
        return [
            f"ages and statuses: must equal golden's, not differ in {self.age_mismatches} "
            f"answers; the first is operation {self.first_age_mismatch}"
        ]

    def figures(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        names = ("lost", "least_guaranteed", "uncertain", "stash_peak", "age_mismatches")
        return {name: getattr(self, name) for name in names}
