"""A stream as two taps capture it, one after the other, with its true copies."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from ..golden.packets.packet_layers import ETHERNET, find_headers
from ..stream_files import TraceError
from . import capture_loops as loops
from .added_headers import TUNNELS, Added, added_octets, vlan_tag
from .capture_reader import Packets, most_captured

_AT, _CAPTURED, _LENGTH, _TIME, _TAP, _VERSION, _BEGIN, _NUMBER, _ORDER, _COLUMNS = range(10)
# Bit of the number of a packet that was sent again.
_AGAIN = 1 << 62


class Source(Protocol):
    """A capture, or an object with the same interface."""

    name: str

    @property
    def fraction(self) -> float | None:
        """Share that has been read, 0 to 1, or None."""

    def read(self) -> Packets | None:
        """Return the next packets; None at the end."""


@dataclass(frozen=True, kw_only=True)
class Taps:
    """Settings of two taps on one stream; times are in nanoseconds."""

    delay: int = 5000  # between the taps
    jitter: int = 0  # maximum additional delay of each packet
    loss: float = 0.0  # share of the packets that a tap loses
    vlan: int | None = None  # VLAN identifier of the second tap's packets
    hops: int = 0  # routers between the taps; each decrements the TTL or hop limit
    # One of `TUNNELS` around the second tap's packets; one that it cannot carry stays outside.
    tunnel: str | None = None
    repeats: float = 0.0  # share of the packets that are sent again, byte for byte
    repeat_after: int = 20_000_000  # time after which they are sent again
    disorder: int = 0  # maximum time by which a packet is late in the file
    seed: int = 1  # for losses, jitter, repeats and disorder

    def __post_init__(self) -> None:
        if self.vlan is not None and self.tunnel is not None:
            raise TraceError("--vlan cannot be combined with --encapsulate")

    @property
    def added(self) -> Added | None:
        """Header of the second tap's packets."""
        if self.tunnel is not None:
            return TUNNELS[self.tunnel]
        return None if self.vlan is None else vlan_tag(self.vlan)


@dataclass
class TapResult:
    """Counts of a stream at two taps."""

    packets: int = 0  # packets of the source
    repeats: int = 0  # packets that are sent again
    first: int = 0  # packets that the first tap saw
    second: int = 0  # packets that the second tap saw
    copies: int = 0  # packets that both taps saw


def tap(
    source: Source,
    output: BinaryIO,
    how: Taps,
    *,
    truth: BinaryIO | None = None,
    progress: Callable[[TapResult, float | None], None] | None = None,
    read: Callable[[], Packets | None] | None = None,
) -> TapResult:
    """Write a stream as two taps capture it: a pcap file in the order of capture times.

    The `truth` gets a CSV line for each written packet: its number from 1, the number of the source
    packet, the tap (1 or 2), whether it is a second copy, and whether it was sent again. `progress`
    gets the result so far, and the share if known. `read` replaces the method of the source.
    """
    course = _Course(source.name, output, how, truth)
    while (packets := (read or source.read)()) is not None:
        course.take(packets)
        if progress is not None:
            progress(course.result, source.fraction)
    return course.finish()


class _Course:
    """One stream in progress: copies that are not written yet are those of later times."""

    def __init__(self, name: str, output: BinaryIO, how: Taps, truth: BinaryIO | None) -> None:
        self._name = name
        self._output = output
        self._how = how
        self._truth = truth
        self._random = np.random.default_rng(how.seed)
        self._link: int | None = None
        self._reached = 0
        self._buffer = np.empty(0, np.uint8)
        self._waiting = np.empty((_COLUMNS, 0), np.int64)
        self._seen = np.empty(0, np.int64)
        self._written = 0
        self.result = TapResult()
        if truth is not None:
            truth.write(b"number,source,tap,copy,again\n")

    def take(self, packets: Packets) -> None:
        """Take some packets, and write what is not later than the last of them."""
        if not len(packets):
            return
        self._check_link(packets.table[loops.LINK])
        copies = self._copies(packets)
        # What waits is behind the packets in one buffer.
        copies[_AT] -= packets.begin
        waiting = self._waiting.copy()
        waiting[_AT] += packets.end - packets.begin
        part = packets.buffer[packets.begin : packets.end]
        self._buffer = np.concatenate([part, self._buffer])
        self._waiting = np.concatenate([waiting, copies], axis=1)
        self._write(self._reached)
        self._drop_written()

    def finish(self) -> TapResult:
        """Write what is left."""
        self._begin_file(ETHERNET)
        self._write(1 << 62)
        return self.result

    def _check_link(self, links: NDArray[np.int64]) -> None:
        self._begin_file(int(links[0]))
        other = links[links != self._link]
        rule = f"{self._name}: must have packets of one type of link"
        if len(other):
            raise TraceError(f"{rule}, not of {self._link} and {other[0]}")
        if self._how.added is not None and self._link != ETHERNET:
            name = "tunnel" if self._how.vlan is None else "vlan"
            raise TraceError(f"{name}: must not be given for links of type {self._link}")

    def _begin_file(self, link: int) -> None:
        if self._link is None:
            self._link = link
            head = (0xA1B23C4D, 2, 4, 0, 0, most_captured(link), max(link, 0))
            self._output.write(struct.pack("<IHHiIII", *head))

    def _copies(self, packets: Packets) -> NDArray[np.int64]:
        """Return what each tap sees of some packets: columns, by tap."""
        count, how = len(packets), self._how
        known = np.where(packets.times == loops.NO_TIME, 0, packets.times)
        known[0] = max(known[0], self._reached)
        times = np.maximum.accumulate(known)
        self._reached = int(times[-1])
        version, begin, *_ = find_headers(packets.buffer, packets.places)
        copies = np.empty((_COLUMNS, 2, count), np.int64)
        copies[[_AT, _CAPTURED, _LENGTH]] = packets.places[:3, None]
        copies[_TIME] = times
        copies[_TIME, 1] += how.delay + self._random.integers(0, how.jitter + 1, count)
        copies[_TAP] = [[0], [1]]
        copies[_VERSION], copies[_BEGIN] = version, begin
        copies[_NUMBER] = self.result.packets + 1 + np.arange(count)
        if how.repeats:
            again = copies[:, :, self._random.random(count) < how.repeats].copy()
            again[_TIME] += how.repeat_after
            again[_NUMBER] |= _AGAIN
            copies = np.concatenate([copies, again], axis=2)
        kept = self._random.random(copies.shape[1:]) >= how.loss
        copies[_ORDER] = copies[_TIME]
        if how.disorder:
            copies[_ORDER] += self._random.integers(0, how.disorder + 1, kept.shape)
        self.result.packets += count
        self.result.repeats += kept.shape[1] - count
        self.result.first += int(kept[0].sum())
        self.result.second += int(kept[1].sum())
        self.result.copies += int(kept.all(axis=0).sum())
        return copies[:, kept]

    def _write(self, until: int) -> None:
        """Write the copies up to a time, in their order."""
        due = np.flatnonzero(self._waiting[_ORDER] <= until)
        due = due[np.argsort(self._waiting[_ORDER, due], kind="stable")]
        copies = self._waiting[:, due]
        self._output.write(_records(self._buffer, copies, self._how).data)
        numbers, taps = self._waiting[_NUMBER, due], self._waiting[_TAP, due]
        self._waiting = np.delete(self._waiting, due, axis=1)
        self._tell(numbers, taps)

    def _tell(self, numbers: NDArray[np.int64], taps: NDArray[np.int64]) -> None:
        """Write lines of the truth; remember what came once and may come again."""
        if self._truth is None:
            return
        both = np.concatenate([self._seen, numbers])
        _, first = np.unique(both, return_index=True)
        copy = np.ones(len(both), np.bool_)
        copy[first] = False
        rows = zip(numbers.tolist(), taps.tolist(), copy[len(self._seen) :].tolist(), strict=True)
        lines = [
            f"{place},{number & ~_AGAIN},{which + 1},{int(again)},{number // _AGAIN}\n"
            for place, (number, which, again) in enumerate(rows, self._written + 1)
        ]
        self._written += len(lines)
        self._truth.write("".join(lines).encode())
        # Numbers are in order except for the delay.
        left = self._waiting[_NUMBER]
        self._seen = np.intersect1d(both, left)

    def _drop_written(self) -> None:
        """Keep the bytes of what waits, and no others."""
        at, sizes = self._waiting[_AT], self._waiting[_CAPTURED]
        ends = np.cumsum(sizes)
        kept = np.empty(int(sizes.sum()), np.uint8)
        loops.copy_parts(self._buffer, at, sizes, kept, ends - sizes)
        self._waiting[_AT] = ends - sizes
        self._buffer = kept


def _records(buffer: NDArray[np.uint8], copies: NDArray[np.int64], how: Taps) -> NDArray[np.uint8]:
    """Return copies of packets as records of a pcap file, little-endian, with nanoseconds."""
    at, captured, length, time, tap = copies[: _TAP + 1]
    added, version, begin = how.added or Added(b""), copies[_VERSION], copies[_BEGIN]
    second = tap > 0
    # A packet without addresses has no place for a tag, and not every tunnel takes every packet.
    changed = second & (captured >= added.own) & ((version == added.version) | (not added.version))
    own, more, skipped = changed * added.own, changed * len(added.octets), np.zeros_like(at)
    if added.version:
        skipped = changed * begin
    captured, length = captured - skipped + more, length - skipped + more
    stops = np.cumsum(loops.RECORD_HEADER + captured)
    starts = stops - captured
    records = np.empty(stops[-1] if len(stops) else 0, np.uint8)
    heads = np.stack([*divmod(time, 10**9), captured, length], axis=1).astype("<u4")
    octets = added_octets(added, length[changed])
    numbers, sizes = np.arange(len(at)), np.full_like(at, loops.RECORD_HEADER)
    row = np.cumsum(changed) - 1
    for source, places, size, targets in (
        (heads.view(np.uint8).reshape(-1), 16 * numbers, sizes, starts - 16),
        (buffer, at, own, starts),
        (octets.reshape(-1), np.maximum(row, 0) * len(added.octets), more, starts + own),
        (buffer, at + skipped + own, captured - own - more, starts + own + more),
    ):
        loops.copy_parts(source, places, size, records, targets)
    if how.hops:
        layer3 = starts + begin - skipped + more
        _age(records, layer3[second & (version == 4)], 8, how.hops)
        _age(records, layer3[second & (version == 6)], 7, how.hops)
    return records


def _age(octets: NDArray[np.uint8], layer3: NDArray[np.int64], place: int, hops: int) -> None:
    """Lower TTL or hop limit, but not below 1; correct a checksum (RFC 1624, equation 3)."""
    limit = octets[layer3 + place].astype(np.int64)
    lower = np.maximum(1, limit - hops)
    octets[layer3 + place] = lower
    if place == 8:
        checksum = octets[layer3 + 10].astype(np.int64) << 8 | octets[layer3 + 11]
        total = 2 * 0xFFFF - checksum - (limit << 8) + (lower << 8)
        total = (total & 0xFFFF) + (total >> 16)
        checksum = 0xFFFF - ((total & 0xFFFF) + (total >> 16))
        octets[layer3 + 10], octets[layer3 + 11] = checksum >> 8, checksum & 0xFF
