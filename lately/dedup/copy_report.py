"""Report on copies: distances, pairs of taps, rates over time, and addresses."""

import ipaddress
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..captures.capture_reader import Packets
from ..golden.packets.copies import FOR_EVER, CopyRule, CopyTable, properties
from ..golden.packets.encapsulations import MORE_TAG_TYPES, TAG_TYPES
from ..golden.packets.packet_layers import ETHERNET, Version, find_headers
from .dedup_loops import PacketClock
from .deduplicate import Deduplication, Judged

KEPT = 1 << 19
"""Packets in which repeats are searched, less `_MOST_TOGETHER`."""

BINS = 8
"""Bins of a decade of distances."""

MOST_BINS = 13 * BINS
"""Bins from 1 ns on; the last bin has all greater distances."""

TIMES = 240
"""Most parts of the time."""

NONE = -1
"""VLAN identifier or TTL of packets without one."""

_MOST_TOGETHER = 1 << 17
_DAY = 86_400 * 10**9
_NAMES = 1 << 16
_ADDRESSES = {Version.IP4: (12, 4), Version.IP6: (8, 16)}
_SHOWN = 10

KINDS = ("interface", "vlan", "ttl", "mac")
"""Properties that the report counts in pairs: of the earlier packet and of the copy."""


@dataclass
class _KeptParts:
    """Properties of the last packets, at their numbers modulo `KEPT`."""

    elapsed: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Interface, VLAN identifier and TTL, shape (3, KEPT)."""
    mac: NDArray[np.uint8]
    """Addresses of Ethernet, shape (KEPT, 12)."""


class CopyReport:
    """Counts copies and other repeats of packets; an output of a deduplication.

    A repeat is a packet with the digest of an earlier packet, at any distance in time, among about
    the last `KEPT` packets.

    Parameters
    ----------
    what : Deduplication
    names : sequence of str
        Names of the captures.

    Attributes
    ----------
    distances : ndarray of int64, shape (MOST_BINS, 2)
        Repeats that were kept and dropped, by their distance: bin i is from 10**(i / BINS) ns on.
    rates : ndarray of int64, shape (TIMES, 2)
        Packets that were kept and dropped in each part of the time.
    part : int
        Length of each part of the time, in nanoseconds.
    pairs : dict of str to Counter
        Dropped packets by a property of the earlier packet and of the copy, for each of `KINDS`.
    talkers : Counter
        Dropped packets by source and target address of layer 3.
    """

    def __init__(self, what: Deduplication, names: list[str]) -> None:
        self._compared = what.compared
        # The clock of the deduplication shortens silence.
        self._clock = PacketClock(what.span, _DAY)
        self._names = names
        self._table = CopyTable(FOR_EVER, FOR_EVER, KEPT // 2, CopyRule())
        zeros = np.zeros(KEPT, np.int64), np.zeros((3, KEPT), np.int64)
        self._kept = _KeptParts(*zeros, np.zeros((KEPT, 12), np.uint8))
        self.distances = np.zeros((MOST_BINS, 2), np.int64)
        self.rates = np.zeros((TIMES, 2), np.int64)
        self.part = 1000
        self.pairs: dict[str, Counter[Any]] = {kind: Counter() for kind in KINDS}
        self.talkers: Counter[tuple[str, str]] = Counter()

    def __call__(self, judged: Judged) -> None:
        """Count some packets, at most as many as are kept."""
        for start in range(0, len(judged.packets), _MOST_TOGETHER):
            self._count(judged.part(slice(start, start + _MOST_TOGETHER)))

    def _count(self, judged: Judged) -> None:
        packets = judged.packets
        elapsed = self._clock.follow(packets.times)
        count = len(packets)
        every, zeros = np.ones(count, np.bool_), np.zeros(count, np.uint64)
        earlier = self._table.judge(judged.found.values, every, elapsed, zeros)
        number = judged.start + 1 + np.arange(count)
        self._keep(packets, elapsed, number % KEPT)
        found = (earlier > 0) & (number - earlier < KEPT - _MOST_TOGETHER)
        self._count_distances(elapsed, earlier, found, judged.dropped)
        self._count_times(elapsed, judged.dropped)
        copies = np.flatnonzero(found & judged.dropped)
        self._count_pairs(earlier[copies] % KEPT, number[copies] % KEPT)
        self._count_talkers(packets, np.flatnonzero(judged.dropped))

    def _keep(self, packets: Packets, elapsed: NDArray[np.int64], at: NDArray[np.int64]) -> None:
        """Remember the properties of packets."""
        kept, places = self._kept, packets.places
        kept.elapsed[at] = elapsed
        kept.numbers[0, at] = packets.files << 32 | packets.interfaces
        ttl = properties("ttl", packets.buffer, places, packets.interfaces, self._compared)
        kept.numbers[2, at] = np.where(ttl == 0, NONE, ttl.astype(np.int64))
        known = (places[3] == ETHERNET) & (places[1] >= 18)
        begin = places[0] * known
        mac = packets.buffer[begin[:, None] + np.arange(12)]
        mac[~known] = 0
        kept.mac[at] = mac
        words = packets.buffer[begin[:, None] + np.arange(12, 16)].astype(np.int64)
        types = [*TAG_TYPES, *MORE_TAG_TYPES, *self._compared.tag_types]
        tagged = known & np.isin(words[:, 0] << 8 | words[:, 1], types)
        kept.numbers[1, at] = np.where(tagged, (words[:, 2] << 8 | words[:, 3]) & 0xFFF, NONE)

    def _count_distances(
        self,
        elapsed: NDArray[np.int64],
        earlier: NDArray[np.int64],
        found: NDArray[np.bool_],
        dropped: NDArray[np.bool_],
    ) -> None:
        away = elapsed[found] - self._kept.elapsed[earlier[found] % KEPT]
        bins = np.floor(BINS * np.log10(np.maximum(away, 1)) + 1e-9).astype(np.int64)
        np.add.at(self.distances, (np.minimum(bins, MOST_BINS - 1), dropped[found] * 1), 1)

    def _count_times(self, elapsed: NDArray[np.int64], dropped: NDArray[np.bool_]) -> None:
        while elapsed[-1] // self.part >= TIMES:
            self.rates = np.concatenate(
                [self.rates.reshape(TIMES // 2, 2, 2).sum(axis=1), np.zeros((TIMES // 2, 2), int)]
            )
            self.part *= 2
        np.add.at(self.rates, (elapsed // self.part, dropped * 1), 1)

    def _count_pairs(self, earlier: NDArray[np.int64], own: NDArray[np.int64]) -> None:
        kept = self._kept
        for kind, row in zip(KINDS, kept.numbers, strict=False):
            both, counts = np.unique(np.stack([row[earlier], row[own]]), axis=1, return_counts=True)
            self.pairs[kind].update(dict(zip(map(tuple, both.T.tolist()), counts.tolist(),
                                             strict=True)))  # fmt: skip
        both = np.concatenate([kept.mac[earlier], kept.mac[own]], axis=1)
        rows, counts = np.unique(both.view("V24").reshape(-1), return_counts=True)
        for octets, count in zip(rows.tolist(), counts.tolist(), strict=True):
            self.pairs["mac"][octets[:12], octets[12:]] += count
        _trim(self.pairs["mac"])

    def _count_talkers(self, packets: Packets, copies: NDArray[np.int64]) -> None:
        places = np.ascontiguousarray(packets.places[:, copies])
        what = self._compared
        versions, begins = find_headers(packets.buffer, places, *what.search)[:2]
        for version, (place, size) in _ADDRESSES.items():
            at = (places[0] + begins)[versions == version]
            octets = packets.buffer[(at + place)[:, None] + np.arange(2 * size)]
            rows, counts = np.unique(octets.view(f"V{2 * size}").reshape(-1), return_counts=True)
            for both, count in zip(rows.tolist(), counts.tolist(), strict=True):
                ends = (str(ipaddress.ip_address(one)) for one in (both[:size], both[size:]))
                self.talkers[next(ends), next(ends)] += count
        _trim(self.talkers)

    @property
    def suggested_span(self) -> int | None:
        """Span in nanoseconds that covers the first group of distances; None without such a group.

        A group has at least one percent of all repeats and ends before one second. The decade after
        the group has at most one percent of the repeats up to the end of the group. The span is
        twice the greatest distance of the group, rounded up to 1, 2 or 5 times a power of ten.
        """
        repeats = self.distances.sum(axis=1)
        until = np.cumsum(repeats)
        for end in range(1, 9 * BINS + 1):
            behind = until[min(end + BINS, MOST_BINS) - 1] - until[end - 1]
            if until[end - 1] > 0 and until[end - 1] >= until[-1] / 100 and (
                repeats[end - 1] and behind <= until[end - 1] / 100
            ):  # fmt: skip
                longest = 2 * 10 ** (end / BINS)
                decade = 10 ** int(np.log10(longest))
                return int(next(one for one in (1, 2, 5, 10) if one * decade >= longest) * decade)
        return None

    def figures(self) -> dict[str, Any]:
        """Return the counts for JSON; of pairs and talkers, the most frequent ones."""
        span, filled = self.suggested_span, np.flatnonzero(self.distances.sum(axis=1))
        return {
            "suggested_span_seconds": None if span is None else span / 1e9,
            "repeats": int(self.distances.sum()),
            "distances": [
                {
                    "from_seconds": 10 ** (at / BINS - 9), "kept": kept, "dropped": dropped,
                }
                for at, (kept, dropped) in zip(
                    filled.tolist(), self.distances[filled].tolist(), strict=True
                )
            ],
            "pairs": {
                kind: [
                    {"from": self._name(kind, one), "to": self._name(kind, two), "copies": count}
                    for (one, two), count in self.pairs[kind].most_common(_SHOWN)
                ]
                for kind in KINDS
            },
            "talkers": [
                {"from": one, "to": two, "copies": count}
                for (one, two), count in self.talkers.most_common(_SHOWN)
            ],
        }  # fmt: skip

    def _name(self, kind: str, value: Any) -> str:
        """Write a property of a packet."""
        if kind == "interface":
            file = f"{self._names[value >> 32]}: " if len(self._names) > 1 else ""
            return f"{file}interface {value & 0xFFFFFFFF}"
        if kind == "mac":
            return f"{value[6:].hex(':')} to {value[:6].hex(':')}"
        return "none" if value == NONE else str(value)


def _trim(counter: Counter[Any]) -> None:
    """Remove rare entries when there are too many."""
    if len(counter) > _NAMES:
        few = counter.most_common(_NAMES // 2)
        counter.clear()
        counter.update(dict(few))


def edges() -> NDArray[np.float64]:
    """Return the edges of the bins of distances, in seconds, shape (MOST_BINS + 1,)."""
    return np.asarray(10 ** (np.arange(MOST_BINS + 1) / BINS - 9))
