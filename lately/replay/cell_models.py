"""What a replay knows of filters whose memory has cells, and compares of all units' answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..golden import Results, from_spec
from ..golden.results import Ages

Answers = Mapping[str, NDArray[Any]]
"""Fields of answers, shape (n,) each, among them ``seen``."""


class CellModel:
    """Golden model of a filter, with the counters that its hardware has.

    Counters go on through a CLEAR.

    Parameters
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
    asked : the same, optional
        With the window that `query` asks for; by default the filter's own.
    """

    shifts = 0

    def __init__(self, spec: Any, asked: Any = None) -> None:
        self.golden: Any = from_spec(spec)
        self._asked = asked or spec

    @property
    def key_bits(self) -> int:
        """Width of a key."""
        return int(self.golden.key_bits)

    @property
    def memory(self) -> Ages:
        """Cells, as the golden model's `memory`, with its shape, such as (parts, cells)."""
        memory: Ages = self.golden.memory
        return memory

    @property
    def operations(self) -> int:
        """Operations that were performed."""
        return int(self.golden.counters["operations"])

    @property
    def hits(self) -> int:
        """Operations that reported their key."""
        return int(self.golden.counters["hits"])

    @property
    def insertions(self) -> int:
        """Operations that inserted their key."""
        return int(self.golden.counters["insertions"])

    def perform(self, *operands: Any) -> Results:
        """Perform operations; `operands` are those of `Filter.perform`."""
        results: Results = self.golden.perform(*operands)
        return results


@dataclass(kw_only=True)
class ComparedAnswers:
    """What is compared of answers beside their verdicts; None without RTL."""

    FIELDS: ClassVar[tuple[str, ...]]
    """Fields of answers that are compared."""

    NAMES: ClassVar[str]
    """What they are called together."""

    answer_mismatches: int | None = None
    """Answers in which RTL and golden model differ."""
    first_answer_mismatch: int | None = None
    """First operation, from 0, of these."""

    def note(self, told: Any) -> None:
        """Take in what the golden model `told` of some operations."""

    def compare(self, start: int, rtl: Answers, golden: Answers) -> None:
        """Compare answers to the operations from `start` on, of `rtl` and `golden`.

        Both have fields of shape (n,).
        """
        differ = np.any([rtl[name] != golden[name] for name in self.FIELDS], axis=0)
        others = np.flatnonzero(differ)
        self.answer_mismatches = (self.answer_mismatches or 0) + len(others)
        if len(others) and self.first_answer_mismatch is None:
            self.first_answer_mismatch = start + int(others[0])

    def failures(self) -> list[str]:
        """Return the messages of what failed."""
        if not self.answer_mismatches:
            return []
        return [
            f"{self.NAMES}: must equal golden's, not differ in {self.answer_mismatches} "
            f"answers; the first is operation {self.first_answer_mismatch}"
        ]
