"""Exact detection of duplicate packets: the reference for a deduplicator."""

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
    equal: int = 0  # packets with an earlier equal packet, at any distance
    duplicates: int = 0  # packets with an earlier equal packet within the span and the window
    passed_duplicates: int = 0  # duplicates that were not dropped
    lost_uniques: int = 0  # dropped packets that are not duplicates
    remembered: int = 0  # lost uniques with an equal packet slightly before the span
    fresh: int = 0  # packets of which the filter holds no trace
    expected: float = 0.0  # expected number of fresh packets lost, from the bits set in the filter

    def figures(self) -> dict[str, Any]:
        false = self.lost_uniques - self.remembered
        return vars(self) | {
            "false_positives": false,
            "false_positive_rate": false / self.fresh if self.fresh else None,
            "false_positive_interval": clopper_pearson(false, self.fresh),
            "predicted_false_positive_rate": self.expected / self.fresh if self.fresh else None,
        }


@dataclass
class PacketOracle:
    """Finds duplicates exactly; memory use grows with the number of distinct packets."""

    spec: FilterSpec
    span: int  # in nanoseconds
    window: int  # in packets
    findings: Findings = field(default_factory=Findings)
    rule: CopyRule = field(default_factory=CopyRule)  # which repeats are duplicates

    def __post_init__(self) -> None:
        self._last = LastInsertions(2)
        self._kept: dict[int, tuple[int, int, int]] = {}
        self._oracle = Oracle(self.spec)
        self._number = 0
        self._waiting: list[tuple[Any, ...]] = []

    def add(
        self,
        keys: NDArray[np.uint64],  # digests, shape (n,)
        elapsed: Times,  # nanoseconds, never decreasing
        ticks: Times,
        dropped: NDArray[np.bool_],
        rate: float,  # probability that the filter reports a new packet
        properties: NDArray[np.uint64] | None = None,  # values that must differ
    ) -> None:
        properties = np.zeros(len(keys), np.uint64) if properties is None else properties
        self._waiting.append((keys, elapsed, ticks, dropped, np.full(len(keys), rate), properties))
        if sum(len(part[0]) for part in self._waiting) >= _TOGETHER:
            self._judge()

    def finish(self) -> Findings:
        if self._waiting:
            self._judge()
        return self.findings

    def _judge(self) -> None:
        keys, elapsed, ticks, dropped, rates, properties = map(
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
            duplicate = self._copies(keys, number, elapsed, properties)
        fresh = self._oracle.check_and_insert(keys, ticks).kind == FRESH
        findings, lost = self.findings, dropped & ~duplicate
        findings.equal += int(known.sum())
        findings.duplicates += int(duplicate.sum())
        findings.passed_duplicates += int((duplicate & ~dropped).sum())
        findings.lost_uniques += int(lost.sum())
        findings.remembered += int((lost & ~fresh).sum())
        findings.fresh += int((fresh & ~duplicate).sum())
        findings.expected += float(rates[fresh].sum())

    def _copies(self, *columns: NDArray[Any]) -> NDArray[np.bool_]:
        differs, refresh = self.rule.differing is not None, self.rule.policy == "last-seen"
        copies = []
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for key, number, time, mine in rows:
            last, then, kept = self._kept.get(key, (-self.window, 0, mine))
            copy = number - last <= self.window and time - then <= self.span
            copy = copy and not (differs and kept == mine)
            if refresh or not copy:
                self._kept[key] = number, time, kept if copy else mine
            copies.append(copy)
        return np.array(copies, bool)
