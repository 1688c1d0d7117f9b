"""Exact detection of duplicate packets, the reference for a deduplicator."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden import FilterSpec
from ..golden.packets.copies import CopyRule
from ..golden.times import Times
from ..intervals import clopper_pearson
from ..replay.oracle import FRESH, LastInsertions, Oracle

_TOGETHER = 1 << 18


@dataclass
class Findings:
    """Results of an exact comparison.

    Attributes
    ----------
    equal : int
        Packets with an earlier copy, at any distance.
    duplicates : int
        Packets with an earlier copy within the span and the window.
    passed_duplicates : int
        Duplicates that were not dropped.
    lost_uniques : int
        Other packets that were dropped.
    remembered : int
        Lost packets with an earlier copy slightly past the span.
    fresh : int
        Packets without a trace in the filter.
    expected : float
        Expected number of lost fresh packets, from the set bits of the filter.
    """

    equal: int = 0
    duplicates: int = 0
    passed_duplicates: int = 0
    lost_uniques: int = 0
    remembered: int = 0
    fresh: int = 0
    expected: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Return the counts and the false-positive rates, for JSON."""
        false = self.lost_uniques - self.remembered
        return vars(self) | {
            "false_positives": false,
            "false_positive_rate": false / self.fresh if self.fresh else None,
            "false_positive_interval": clopper_pearson(false, self.fresh),
            "predicted_false_positive_rate": self.expected / self.fresh if self.fresh else None,
        }


@dataclass
class PacketOracle:
    """Remembers the time of every packet, by a digest that is unrelated to the filter's.

    Memory grows with the number of distinct packets.

    Attributes
    ----------
    spec : FilterSpec
    span : int
        In nanoseconds.
    window : int
        In packets.
    findings : Findings
    rule : CopyRule
        Which repeats are copies.
    """

    spec: FilterSpec
    span: int
    window: int
    findings: Findings = field(default_factory=Findings)
    rule: CopyRule = field(default_factory=CopyRule)

    def __post_init__(self) -> None:
        self._last = LastInsertions(2)
        self._kept: dict[int, tuple[int, int, int]] = {}
        self._turns = Oracle(self.spec)
        self._number = 0
        self._waiting: list[tuple[Any, ...]] = []

    def add(
        self,
        keys: NDArray[np.uint64],
        elapsed: Times,
        ticks: Times,
        dropped: NDArray[np.bool_],
        rate: float,
        own: NDArray[np.uint64] | None = None,
    ) -> None:
        """Add some packets, which are judged later in large groups or by `finish`.

        Parameters
        ----------
        keys : ndarray of uint64, shape (n,)
            Digests.
        elapsed, ticks : ndarray of int64, shape (n,)
            Their times, in nanoseconds and in ticks of the filter, which never decrease.
        dropped : ndarray of bool, shape (n,)
        rate : float
            Probability that the filter reports a new packet as a duplicate.
        own : ndarray of uint64, shape (n,), optional
            Numbers of the property that must differ.
        """
        own = np.zeros(len(keys), np.uint64) if own is None else own
        self._waiting.append((keys, elapsed, ticks, dropped, np.full(len(keys), rate), own))
        if sum(len(part[0]) for part in self._waiting) >= _TOGETHER:
            self._judge()

    def finish(self) -> Findings:
        """Judge the remaining packets, and return the findings."""
        if self._waiting:
            self._judge()
        return self.findings

    def _judge(self) -> None:
        keys, elapsed, ticks, dropped, rates, own = map(
            np.concatenate, zip(*self._waiting, strict=True)
        )
        self._waiting.clear()
        number = self._number + 1 + np.arange(len(keys), dtype=np.int64)
        self._number += len(keys)
        before = self._last.exchange(keys, np.stack([number, elapsed], axis=1))
        known = before[:, 0] > 0
        duplicate = known & (elapsed - before[:, 1] <= self.span)
        duplicate &= number - before[:, 0] <= self.window
        if self.rule.exact:
            duplicate = self._copies(keys, number, elapsed, own)
        fresh = self._turns.check_and_insert(keys, ticks).kind == FRESH
        found, lost = self.findings, dropped & ~duplicate
        found.equal += int(known.sum())
        found.duplicates += int(duplicate.sum())
        found.passed_duplicates += int((duplicate & ~dropped).sum())
        found.lost_uniques += int(lost.sum())
        found.remembered += int((lost & ~fresh).sum())
        found.fresh += int((fresh & ~duplicate).sum())
        found.expected += float(rates[fresh].sum())

    def _copies(
        self, keys: NDArray[np.uint64], numbers: Times, elapsed: Times, own: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return which packets are copies by the rule, packet by packet."""
        differs, refresh = self.rule.differing is not None, self.rule.policy == "last-seen"
        found = []
        rows = zip(*(column.tolist() for column in (keys, numbers, elapsed, own)), strict=True)
        for key, number, time, mine in rows:
            last, then, kept = self._kept.get(key, (-self.window, 0, mine))
            copy = number - last <= self.window and time - then <= self.span
            copy = copy and not (differs and kept == mine)
            if refresh or not copy:
                self._kept[key] = number, time, kept if copy else mine
            found.append(copy)
        return np.array(found, bool)
