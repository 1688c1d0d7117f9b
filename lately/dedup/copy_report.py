"""Report on duplicates: distances, pairs of interfaces, rates over time and addresses."""

import ipaddress
import struct
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..captures import capture_loops as loops
from ..captures.capture_reader import Packets
from ..golden.packets.comparison import IP4_TTL, IP6_HOP_LIMIT
from ..golden.packets.copies import FOR_EVER, CopyRule, CopyTable
from ..golden.packets.encapsulations import MORE_TAG_TYPES, TAG_TYPES
from ..golden.packets.packet_layers import ETHERNET, Version, find_headers
from ..golden.times import Times
from ..replay.drawing import COLOURS, Mark, blank_figure, legend, page_drawing
from ..replay.formatting import render, seconds_text
from .deduplicate import Deduplication, Judged, PacketClock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEPT = 1 << 18  # number of recent packets searched for repeats, plus `_MAX_TOGETHER`

# Up to here every packet is counted. Each time the number doubles, the sampled fraction halves.
EXACT = 1 << 15
BINS = 8  # histogram bins per decade of distance
ALL_BINS = 13 * BINS  # bins, from 1 ns up; the last bin holds all greater distances
EDGES = 10 ** (np.arange(ALL_BINS + 1) / BINS - 9)  # edges of the bins in seconds
TIMES = 240  # maximum number of time slots
NONE = -1  # stands for a missing VLAN identifier or TTL
_MAX_TOGETHER = 1 << 17
_DAY = 86_400 * 10**9
_NAMES = 1 << 16
_ADDRESSES = {Version.IP4: (12, 4), Version.IP6: (8, 16)}
_SHOWN = 10

# Headings of the properties that are counted in pairs: the values of a packet and its duplicate.
TITLES = {
    "interface": "Interfaces", "vlan": "Outermost VLAN", "ttl": "TTL or hop limit",
    "mac": "Ethernet addresses",
}  # fmt: skip
_WORDS = 5  # words per packet: time, interface, TTL, and addresses with the VLAN tag
# Factors that hash a row: the sum of word times factor is in practice unique per row.
_SPREAD = np.array([pow(0x9E3779B97F4A7C15, n, 1 << 64) for n in range(1, 9)], np.uint64).view("i8")


class CopyReport:
    """Counts repeated packets; beyond `EXACT` packets, it counts a sample and scales the counts."""

    def __init__(self, settings: Deduplication, names: list[str]) -> None:
        self._compared = settings.compared
        # The deduplication's clock shortens silence, so the report measures time itself.
        self._clock = PacketClock(settings.span, _DAY)
        self._names = names
        self._table = CopyTable(FOR_EVER, FOR_EVER, KEPT // 2, CopyRule())
        # The last packets; the index is the packet number modulo `KEPT`.
        self._kept = np.zeros((KEPT, _WORDS), np.int64)
        self._resolution, self._halvings, self._packets = 1, 0, 0
        self._groups: Counter[bytes] = Counter()
        self.talkers: Counter[bytes] = Counter()  # layer-3 addresses: source, then destination
        # Kept and dropped: repeats by distance, where bin i starts at 10**(i / BINS) ns; packets
        # per time slot, whose length is in nanoseconds; and packets per capture.
        self.distances = np.zeros((ALL_BINS, 2), np.int64)
        self.part, self.rates = 1000, np.zeros((TIMES, 2), np.int64)
        self.inputs = np.zeros((len(names), 2), np.int64)

    def __call__(self, judged: Judged) -> None:
        packets, dropped = judged.packets, judged.dropped
        elapsed = self._clock.follow(packets.times)
        self._resolution = max(self._resolution, packets.resolution)
        while len(elapsed) and elapsed[-1] // self.part >= TIMES:
            halves = self.rates.reshape(TIMES // 2, 2, 2).sum(axis=1)
            self.rates = np.concatenate([halves, np.zeros_like(halves)])
            self.part *= 2
        _add(self.rates, elapsed // self.part, dropped)
        _add(self.inputs, packets.files, dropped)
        while judged.start >> self._halvings >= EXACT:
            self._halvings += 1
        # The lower bits of a digest already index the table of copies.
        mask = np.uint64((1 << self._halvings) - 1 << 64 - self._halvings)
        every = np.flatnonzero(judged.digests.values & mask == 0)
        for start in range(0, len(every), _MAX_TOGETHER):
            at = every[start : start + _MAX_TOGETHER]
            self._count(packets.part(at), elapsed[at], judged.digests.values[at], dropped[at])

    def _count(
        self, packets: Packets, elapsed: Times, digests: NDArray[np.uint64],
        dropped: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        count, weight = len(packets), 1 << self._halvings
        every, zeros = np.ones(count, np.bool_), np.zeros(count, np.uint64)
        earlier = self._table.judge(digests, every, elapsed, zeros)
        number = self._packets + 1 + np.arange(count)
        self._packets += count
        headers = find_headers(packets.buffer, packets.locations, *self._compared.search)
        locations, (version, begin) = packets.locations, headers[:2]
        words = np.zeros((count, _WORDS), np.int64)
        words[:, 0], words[:, 1] = elapsed, packets.files << 32 | packets.interfaces
        at = locations[0] + begin + np.where(version == Version.IP4, IP4_TTL, IP6_HOP_LIMIT)
        known = version >= Version.IP4
        words[:, 2] = packets.buffer[at * known] * known
        known = (locations[3] == ETHERNET) & (locations[1] >= 18)
        _gather(packets, locations[0], 16 * known, words.view(np.uint8), 24)
        self._kept[number % KEPT] = words
        near = (earlier > 0) & (number - earlier < KEPT - _MAX_TOGETHER)
        before = self._kept[earlier[near] % KEPT]
        away = np.maximum(elapsed[near] - before[:, 0], self._resolution)
        bins = np.minimum(np.floor(BINS * np.log10(away) + 1e-9).astype(np.int64), ALL_BINS - 1)
        _add(self.distances, bins, dropped[near], weight)
        pairs = np.stack([before[dropped[near]], words[near & dropped]], axis=1)
        _tally(self._groups, pairs[:, :, 1:], weight)
        for kind, (offset, size) in _ADDRESSES.items():
            at = np.flatnonzero(dropped & (version == kind))
            octets = np.zeros((len(at), 2 * size), np.uint8)
            begins = locations[0, at] + begin[at] + offset
            _gather(packets, begins, np.full(len(at), 2 * size), octets, 0)
            _tally(self.talkers, octets.view(np.int64), weight)

    @property
    def pairs(self) -> dict[str, Counter[Any]]:
        """The number of dropped packets for each pair of values of each property in `TITLES`."""
        pairs: dict[str, Counter[Any]] = {kind: Counter() for kind in TITLES}
        types = [*TAG_TYPES, *MORE_TAG_TYPES, *self._compared.tag_types]
        for octets, count in sorted(self._groups.items()):
            rows = []
            for interface, ttl, mac, tag in struct.iter_unpack("=qq12s4s", octets):
                kind, tci = struct.unpack(">HH", tag)
                rows.append((interface, tci & 0xFFF if kind in types else NONE, ttl or NONE, mac))
            for name, *values in zip(TITLES, *rows, strict=True):
                pairs[name][tuple(values)] += count
        return pairs

    @property
    def suggested_span(self) -> int | None:
        """A span in nanoseconds that covers the cluster of shortest distances, or None."""
        repeats = self.distances.sum(axis=1)
        until = np.cumsum(repeats)
        for end in range(1, 9 * BINS + 1):
            behind = until[min(end + BINS, ALL_BINS) - 1] - until[end - 1]
            if until[end - 1] > 0 and until[end - 1] >= until[-1] / 100 and (
                repeats[end - 1] and behind <= until[end - 1] / 100
            ):  # fmt: skip
                longest = max(2 * 10 ** (end / BINS), 10 * self._resolution)
                decade = 10 ** int(np.log10(longest))
                return int(
                    next(digit for digit in (1, 2, 5, 10) if digit * decade >= longest) * decade
                )
        return None

    def figures(self) -> dict[str, Any]:
        pairs, kept, dropped = self.pairs, *self.inputs.T.tolist()
        span, filled = self.suggested_span, np.flatnonzero(self.distances.sum(axis=1))
        return {
            "suggested_span_seconds": None if span is None else span / 1e9,
            "inputs": [
                {"name": name, "packets": first + second, "dropped": second}
                for name, first, second in zip(self._names, kept, dropped, strict=True)
            ],
            "repeats": int(self.distances.sum()),
            "sampled": self._halvings > 0,
            "distances": [
                {"from_seconds": 10 ** (at / BINS - 9), "kept": kept, "dropped": dropped}
                for at in filled.tolist() for kept, dropped in [self.distances[at].tolist()]
            ],
            "pairs": {
                kind: [
                    {"from": self._name(kind, first), "to": self._name(kind, second),
                     "copies": count}
                    for (first, second), count in pairs[kind].most_common(_SHOWN)
                ]
                for kind in TITLES
            },
            "talkers": [
                {"from": _address(ends[: len(ends) // 2]), "to": _address(ends[len(ends) // 2 :]),
                 "copies": count}
                for ends, count in self.talkers.most_common(_SHOWN)
            ],
        }  # fmt: skip

    def _name(self, kind: str, value: Any) -> str:
        if kind == "interface":
            file = f"{self._names[value >> 32]}: " if len(self._names) > 1 else ""
            return f"{file}interface {value & 0xFFFFFFFF}"
        if kind == "mac":
            return f"{value[6:].hex(':')} to {value[:6].hex(':')}"
        return "none" if value == NONE else str(value)


def _address(octets: bytes) -> str:
    return str(ipaddress.ip_address(octets))


def _add(counts: Any, at: NDArray[np.int64], dropped: NDArray[np.bool_], weight: int = 1) -> None:
    counts += weight * np.bincount(2 * at + dropped, minlength=counts.size).reshape(counts.shape)


def _gather(
    packets: Packets, begins: NDArray[np.int64], sizes: NDArray[np.int64], rows: Any, offset: int
) -> None:
    targets = offset + rows.shape[1] * np.arange(len(rows))
    loops.copy_parts(packets.buffer, begins, sizes, rows.reshape(-1), targets)


def _tally(counter: Counter[bytes], rows: NDArray[np.int64], weight: int) -> None:
    """Count equal rows; if the counter has too many distinct rows, remove the rarest."""
    if not len(rows):
        return
    rows = rows.reshape(len(rows), -1)
    codes = rows @ _SPREAD[: rows.shape[1]]
    _, at, counts = np.unique(codes, return_index=True, return_counts=True)
    names = rows[at].view(f"V{8 * rows.shape[1]}").reshape(-1).tolist()
    for name, count in zip(names, counts.tolist(), strict=True):
        counter[name] += weight * count
    if len(counter) > _NAMES:
        few = counter.most_common(_NAMES // 2)
        counter.clear()
        counter.update(dict(few))


def html(figures: dict[str, Any], report: CopyReport) -> str:
    span = figures["span_seconds"]
    distances = page_drawing(4, partial(_draw_distances, report=report, span=span))
    rates = page_drawing(3.4, partial(_draw_rates, report=report))
    plots = [(distances, "Repeats by distance"), (rates, "Packets over time")]
    counts = report.figures()
    return render("copies.html", figures=figures, report=counts, plots=plots, titles=TITLES)


def picture(report: CopyReport, span: float) -> "Figure":
    figure = blank_figure(12, 3.9)
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (1.2, 1), "wspace": 0.16})
    _draw_distances(left, report=report, span=span)
    _draw_rates(right, report=report)
    return figure


def _draw_distances(axes: "Axes", report: CopyReport, span: float) -> list[Mark]:
    filled = np.flatnonzero(report.distances.sum(axis=1))
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, 1)
    bounds = EDGES[first : last + 1]
    kept, dropped = report.distances[first:last].T
    axes.stairs(dropped, bounds, fill=True, color=COLOURS["blue"], alpha=0.85, label="dropped")
    axes.stairs(
        kept + dropped, bounds, baseline=dropped, fill=True, color=COLOURS["orange"], alpha=0.9,
        label="kept",
    )  # fmt: skip
    axes.axvline(span, color=COLOURS["ink"], linewidth=1.2, label=f"span {seconds_text(span)}")
    ends = [bounds[0], bounds[-1], span]
    if report.suggested_span is not None:
        suggested = report.suggested_span / 1e9
        ends.append(suggested)
        axes.axvline(
            suggested, color=COLOURS["green"], linestyle=(0, (5, 3)), linewidth=1.4,
            label=f"suggested span {seconds_text(suggested)}",
        )  # fmt: skip
    axes.set(xscale="log", ylim=(0, 1.15 * max(1, (kept + dropped).max())), ylabel="repeats")
    axes.set(
        xlim=(min(ends) / 1.5, max(ends) * 1.5),
        xlabel="time since the last packet with this digest",
    )
    axes.xaxis.set_major_formatter(lambda value, _: seconds_text(value) if value >= 1e-9 else "")
    axes.set_title(f"{int(report.distances.sum()):,} repeats, {int(dropped.sum()):,} dropped")
    legend(axes)
    return [
        Mark(
            axes, float(np.sqrt(EDGES[at] * EDGES[at + 1])), float(report.distances[at].sum()),
            f"{_short(EDGES[at])} to {_short(EDGES[at + 1])}: "
            f"{report.distances[at].sum():,} repeats, {report.distances[at, 1]:,} dropped",
        )
        for at in filled.tolist()
    ]  # fmt: skip


def _short(seconds: float) -> str:
    return seconds_text(float(f"{seconds:.2g}"))


def _draw_rates(axes: "Axes", report: CopyReport) -> list[Mark]:
    filled = np.flatnonzero(report.rates.sum(axis=1))
    end, part = (int(filled[-1]) + 1 if len(filled) else 1), report.part / 1e9
    bounds, rates = part * np.arange(end + 1), report.rates[:end] / part
    axes.stairs(rates.sum(axis=1), bounds, fill=True, color=COLOURS["band"], alpha=0.5,
                label="all packets")  # fmt: skip
    axes.stairs(rates[:, 1], bounds, fill=True, color=COLOURS["blue"], alpha=0.85, label="dropped")
    axes.set(ylim=(0, 1.15 * max(1e-9, rates.sum(axis=1).max())), xlim=(0, bounds[-1]))
    axes.set(xlabel="seconds", ylabel="packets per second")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("Packets over time")
    legend(axes)
    return [
        Mark(
            axes, (at + 0.5) * part, float(rates[at].sum()),
            f"from {_short(at * part)}: {rates[at].sum():,.0f} packets/s, "
            f"{rates[at, 1]:,.0f} of them dropped",
        )
        for at in filled.tolist()
    ]  # fmt: skip
