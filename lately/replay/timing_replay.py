"""What a replay knows of timing filters: their model, the exact oracle, and what was found."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden import DecisionTable, Operation, Results, SpecificationError
from ..golden.hash.keys import Keys
from ..golden.results import Ages
from ..golden.spec.base import require
from ..golden.spec.timestamp import StampedPartsSpec
from ..golden.times import Times
from .cell_models import CellModel, ComparedAnswers
from .oracle import Truth, WindowOracle


class TimingModel(CellModel):
    """Golden model of a timing filter, with the counters that its hardware has.

    Parameters
    ----------
    spec, asked : StampedPartsSpec
        As for `CellModel`.
    """

    query_class: int | None = None
    """Class of all queries, if a table of thresholds answers."""

    def query(self, keys: Keys, *now: int) -> NDArray[np.bool_]:
        """Ask for `keys`, at the time `now` if the window is one in time; counts nothing.

        Keys are as for `StampedParts`; the answers have shape (n,).
        """
        count = len(np.asarray(keys))
        longest = self._asked.guaranteed_window
        asked = longest if self.query_class is None else self.query_class
        times = np.full(count, now[0]) if now else None
        codes = np.full(count, Operation.QUERY)
        found: NDArray[np.bool_] = self.golden.perform(codes, keys, times, asked).seen
        # A query of a checkpoint counts nothing.
        self.golden.operations -= count
        self.golden.hits -= int(found.sum())
        return found

    def memory_at(self, now: int) -> Ages:
        """Return the ages of all cells at the time `now`, if the window is one in time.

        They are int64, of shape (hashes, cells).
        """
        memory: Ages = self.golden.memory_at(now)
        return memory

    def estimated_false_positive_rate(self, *now: int) -> float:
        """Probability that a fresh key is reported, at the time `now` if there is one."""
        if self.query_class is None:
            return float(np.prod(self.fill_ratios(*now)))
        golden = self.golden
        cells = self.memory_at(*now) if now else self.memory
        # Of each number of cells that have an age, while none is older.
        chances = np.ones((golden.expired_age + 1, 1))
        for part in cells:
            share = np.bincount(part, minlength=len(chances))[:, None] / len(part)
            fewer, more = np.pad(chances, ((0, 0), (0, 1))), np.pad(chances, ((0, 0), (1, 0)))
            chances = fewer * (np.cumsum(share, axis=0) - share) + more * share
        least = golden.thresholds[self.query_class, :, golden.phase][:, None]
        oldest = np.arange(chances.shape[1])
        return float(chances[(oldest > 0) & (oldest >= least)].sum())

    def fill_ratios(self, *now: int) -> NDArray[np.float64]:
        """Share of the cells of each part that are of the window, shape (hashes,).

        If the window is one in time, at the time `now`, or else at the last insertion.
        """
        cells = self.memory_at(*now) if now else self.memory
        fills: NDArray[np.float64] = np.mean(cells <= self._asked.window_blocks, axis=1)
        return fills


class TimingOracle(WindowOracle):
    """Judges by the window of a timing filter; see `WindowOracle`.

    Parameters
    ----------
    spec : StampedPartsSpec
    """

    def __init__(self, spec: StampedPartsSpec) -> None:
        super().__init__(spec.guaranteed_window, block=spec.block_units, timed=spec.timed)

    def check_and_insert(self, keys: NDArray[np.uint64], *times: Times) -> Truth:
        """Judge each operation by the insertions before it, then insert its key.

        The `keys` have shape (n,), or (n, words) if they are wide; the `times`, of shape (n,), are
        given if the window is one in time.
        """
        return self._exchange(keys, *times)


@dataclass(kw_only=True)
class TimingResult(ComparedAnswers):
    """What a run of a timing filter met."""

    FIELDS = ("age", "oldest")
    NAMES = "ages and oldest cells"

    expired: int = 0
    """Answers to keys of which a cell had expired."""
    longest_age: int
    """Age of the oldest cells that have not expired, in blocks."""

    def note(self, told: Results) -> None:
        """Take in what the golden model `told` of some operations."""
        self.expired += int((told.age > self.longest_age).sum())

    def figures(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {"expired": self.expired, "age_mismatches": self.answer_mismatches}


def check_table(spec: Any, table: DecisionTable | None, query_class: int) -> None:
    """Refuse a `table`, or a class of queries, `query_class`, by which a `spec` has no answers.

    Raises
    ------
    SpecificationError
        If there is none for a filter with classes or one for another, it is that of another filter,
        or there is no such class.
    """
    classes = getattr(spec, "classes", None)
    if classes is None:
        if table is not None:
            raise SpecificationError("table: must not be given for a filter without classes")
        return
    if table is None:
        raise SpecificationError(f"table: must be given for a filter whose classes are {classes}")
    # What insertions a tick has, the table alone knows.
    block = None if spec.timed else spec.block_units
    table.check_fits(hashes=spec.hashes, bits=spec.phase_bits, shape=spec.table_shape, block=block)
    require(0 <= query_class < classes, "query_class", f"must be below {classes}", query_class)
