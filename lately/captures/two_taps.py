"""Generate packets, and simulate two taps on their path; record which packets are duplicates."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..golden.packets.packet_layers import ETHERNET, find_headers
from ..stream_files import TraceError
from . import capture_loops as loops
from .capture_reader import Packets, max_captured

_AT, _CAPTURED, _LENGTH, _TIME, _TAP, _VERSION, _BEGIN, _NUMBER, _ORDER, _COLUMNS = range(10)
_AGAIN = 1 << 62  # bit in the number of a packet that marks a retransmission

# Frame lengths without checksum of the simple IMIX, and their frequencies.
SIZES, SHARES = (60, 590, 1514), (7 / 12, 4 / 12, 1 / 12)
BEGIN = 1_700_000_000 * 10**9  # time of the first packet, in nanoseconds since the epoch
_FLOWS = 1000
_TOGETHER = 1 << 12

_ADDRESSES = 12  # bytes in front of a VLAN tag
_IP, _UDP = 14, 34


class MadePackets:
    """Generated packets: UDP over IPv4 over Ethernet, all distinct."""

    name = "generator"

    def __init__(self, count: int, *, rate: float = 100_000.0, seed: int = 1) -> None:
        # Packets arrive at random times, `rate` per second on average.
        self.packets = 0
        self._count = count
        self._rate = rate
        self._time = BEGIN
        self._random = np.random.default_rng(seed)
        self._flows = self._random.integers(0, 256, (_FLOWS, 12), np.uint8)

    @property
    def fraction(self) -> float:
        return self.packets / self._count

    def read(self) -> Packets | None:
        count = min(_TOGETHER, self._count - self.packets)
        if not count:
            return None
        sizes = self._random.choice(SIZES, count, p=SHARES).astype(np.int64)
        end = int(sizes.sum())
        table = np.empty((loops.ROWS, count), np.int64)
        table[loops.STOP] = np.cumsum(sizes)
        table[[loops.START, loops.AT]] = table[loops.STOP] - sizes
        table[[loops.CAPTURED, loops.LENGTH]] = sizes
        table[loops.LINK] = ETHERNET
        table[loops.FROM] = 0
        gaps = self._random.exponential(10**9 / self._rate, count).astype(np.int64)
        table[loops.TIME] = self._time + np.cumsum(gaps)
        self._time = int(table[loops.TIME, -1])
        # Draw eight more bytes than needed, so that a seed still gives the same packets as before.
        buffer = np.frombuffer(self._random.bytes(end + 8), np.uint8).copy()
        self._write_headers(buffer, table[loops.AT], sizes)
        self.packets += count
        return Packets(buffer, 0, end, table)

    def _write_headers(
        self, buffer: NDArray[np.uint8], at: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        flows = self._flows[self._random.integers(0, _FLOWS, len(at))]
        number = self.packets + np.arange(len(at))
        header = np.zeros((len(at), 42), np.uint8)
        header[:, [0, 6]] = 2
        header[:, 5], header[:, 11] = 1, 2
        header[:, 12] = 8
        header[:, _IP], header[:, _IP + 8], header[:, _IP + 9] = 0x45, 64, 17
        header[:, _IP + 2 : _IP + 4] = _big(sizes - _IP)
        header[:, _IP + 4 : _IP + 6] = _big(number)
        header[:, _IP + 12 : _UDP + 4] = flows
        header[:, _IP + 10 : _IP + 12] = _ip_checksum(header)
        header[:, _UDP + 4 : _UDP + 6] = _big(sizes - _UDP)
        # A UDP checksum of zero means that there is none.
        buffer[at[:, None] + np.arange(42)] = header
        # The packet number makes every packet distinct, even the shortest.
        for byte in range(8):
            buffer[at + 42 + byte] = number >> 8 * byte & 0xFF


class Added(NamedTuple):
    """Header bytes that the network adds to a frame."""

    octets: bytes
    before: int = 0  # bytes of the frame that stay in front of them
    version: int = 0  # IP version of the following packet; 0 if the whole frame follows
    # Offsets of 16-bit length fields, and the byte from which each length counts.
    lengths: tuple[tuple[int, int], ...] = ()


def _ethernet(kind: int) -> bytes:
    return b"\2\0\0\0\0\x0a\2\0\0\0\0\x0b" + kind.to_bytes(2, "big")


def _ip4(protocol: int) -> bytes:
    addresses = b"\x0a\xff\0\1\x0a\xff\0\2"
    return _ethernet(0x0800) + b"\x45\0\0\0\0\0\x40\0\x40" + bytes([protocol, 0, 0]) + addresses


def _udp(port: int) -> bytes:
    return _ip4(17) + b"\xc0\0" + port.to_bytes(2, "big") + bytes(4)


_IP_LENGTH, _UDP_LENGTH = (_IP + 2, _IP), (_UDP + 4, _UDP)

TUNNELS = {
    # An MPLS label and a pseudo-wire control word (RFC 3032, RFC 4385).
    "mpls": Added(_ethernet(0x8847) + b"\0\x06\x41\x40" + bytes(4)),
    # RFC 7348, RFC 2784 with an Ethernet frame, draft-foschiano-erspan-03 (type II).
    "vxlan": Added(
        _udp(4789) + b"\x08\0\0\0\0\0\5\0", lengths=(_IP_LENGTH, _UDP_LENGTH)
    ),
    "gre": Added(_ip4(47) + b"\0\0\x65\x58", lengths=(_IP_LENGTH,)),
    "erspan": Added(
        _ip4(47) + b"\x10\0\x88\xbe\0\0\0\1" + b"\x10\1\0\1\0\0\0\0", lengths=(_IP_LENGTH,)
    ),
    # 3GPP TS 29.281, RFC 2003.
    "gtp": Added(
        _udp(2152) + b"\x30\xff\0\0\0\0\0\1", version=4,
        lengths=(_IP_LENGTH, _UDP_LENGTH, (_UDP + 10, _UDP + 16)),
    ),
    "ipip": Added(_ip4(4), version=4, lengths=(_IP_LENGTH,)),
}  # fmt: skip


def added_octets(added: Added, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    octets = np.tile(np.frombuffer(added.octets, np.uint8), (len(sizes), 1))
    for at, begin in added.lengths:
        octets[:, at : at + 2] = _big(sizes - begin)
    if _IP_LENGTH in added.lengths:
        octets[:, _IP + 10 : _IP + 12] = _ip_checksum(octets)
    return octets


def _ip_checksum(headers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    words = headers[:, _IP:_UDP].astype(np.int64)
    return _big(_complement((words[:, ::2] * 256 + words[:, 1::2]).sum(axis=1)))


def _complement(total: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the complement of a sum of 16-bit words, with its carries added (RFC 1071)."""
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))


def _big(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    return np.stack([values >> 8 & 0xFF, values & 0xFF], axis=1).astype(np.uint8)


@dataclass(frozen=True, kw_only=True)
class Taps:
    """Settings for two taps on one stream; times are in nanoseconds."""

    delay: int = 5000  # delay between the taps
    jitter: int = 0  # maximum random extra delay per packet
    loss: float = 0.0  # fraction of packets that each tap loses
    vlan: int | None = None  # VLAN identifier added to the second tap's packets
    hops: int = 0  # routers between the taps; each decrements the TTL or hop limit
    # One of `TUNNELS`, around the second tap's packets, except those that it cannot carry.
    encapsulate: str | None = None
    repeats: float = 0.0  # fraction of packets that are retransmitted, byte for byte
    repeat_after: int = 20_000_000  # time after which they are retransmitted
    disorder: int = 0  # maximum time by which packets in the file are late
    seed: int = 1  # seed for losses, jitter, repeats and disorder

    def __post_init__(self) -> None:
        if self.vlan is not None and self.encapsulate is not None:
            raise TraceError("--vlan cannot be combined with --encapsulate")

    @property
    def added(self) -> Added | None:
        if self.encapsulate is not None:
            return TUNNELS[self.encapsulate]
        if self.vlan is not None:
            return Added(b"\x81\0" + self.vlan.to_bytes(2, "big"), before=_ADDRESSES)
        return None


@dataclass
class TapResult:
    packets: int = 0  # packets in the source
    repeats: int = 0  # packets that are retransmitted
    first: int = 0  # packets that the first tap saw
    second: int = 0  # packets that the second tap saw
    copies: int = 0  # packets that both taps saw


def tap(
    source: Any,  # a `CaptureReader`, or an object with the same interface
    output: BinaryIO,
    taps: Taps,
    *,
    truth: BinaryIO | None = None,
    progress: Callable[[TapResult, float | None], None] | None = None,
    read: Callable[[], Packets | None] | None = None,
) -> TapResult:
    """Write to a pcap file, in time order, the packets that two taps capture from a stream."""
    course = _Course(source.name, output, taps, truth)
    while (packets := (read or source.read)()) is not None:
        course.take(packets)
        if progress is not None:
            progress(course.result, source.fraction)
    return course.finish()


class _Course:
    def __init__(self, name: str, output: BinaryIO, taps: Taps, truth: BinaryIO | None) -> None:
        self._name, self._output, self._taps, self._truth = name, output, taps, truth
        self._random = np.random.default_rng(taps.seed)
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
        if not len(packets):
            return
        links = packets.table[loops.LINK]
        self._begin_file(int(links[0]))
        other = links[links != self._link]
        if len(other):
            raise TraceError(
                f"{self._name} has packets of link types {self._link} and {other[0]}, but a pcap "
                "file holds only one link type"
            )
        if self._taps.added is not None and self._link != ETHERNET:
            name = "encapsulate" if self._taps.vlan is None else "vlan"
            raise TraceError(f"--{name} needs Ethernet frames, not link type {self._link}")
        copies = self._copies(packets)
        # Append the waiting packets to the buffer, behind the new ones.
        copies[_AT] -= packets.begin
        waiting = self._waiting.copy()
        waiting[_AT] += packets.end - packets.begin
        part = packets.buffer[packets.begin : packets.end]
        self._buffer = np.concatenate([part, self._buffer])
        self._waiting = np.concatenate([waiting, copies], axis=1)
        self._write(self._reached)
        # Discard the bytes of packets that have been written.
        at, sizes = self._waiting[_AT], self._waiting[_CAPTURED]
        ends = np.cumsum(sizes)
        kept = np.empty(int(sizes.sum()), np.uint8)
        loops.copy_parts(self._buffer, at, sizes, kept, ends - sizes)
        self._waiting[_AT] = ends - sizes
        self._buffer = kept

    def finish(self) -> TapResult:
        self._begin_file(ETHERNET)
        self._write(1 << 62)
        return self.result

    def _begin_file(self, link: int) -> None:
        if self._link is None:
            self._link = link
            head = (0xA1B23C4D, 2, 4, 0, 0, max_captured(link), max(link, 0))
            self._output.write(struct.pack("<IHHiIII", *head))

    def _copies(self, packets: Packets) -> NDArray[np.int64]:
        count, taps = len(packets), self._taps
        known = np.where(packets.times == loops.NO_TIME, 0, packets.times)
        known[0] = max(known[0], self._reached)
        times = np.maximum.accumulate(known)
        self._reached = int(times[-1])
        version, begin, *_ = find_headers(packets.buffer, packets.locations)
        copies = np.empty((_COLUMNS, 2, count), np.int64)
        copies[[_AT, _CAPTURED, _LENGTH]] = packets.locations[:3, None]
        copies[_TIME] = times
        copies[_TIME, 1] += taps.delay + self._random.integers(0, taps.jitter + 1, count)
        copies[_TAP] = [[0], [1]]
        copies[_VERSION], copies[_BEGIN] = version, begin
        copies[_NUMBER] = self.result.packets + 1 + np.arange(count)
        if taps.repeats:
            again = copies[:, :, self._random.random(count) < taps.repeats].copy()
            again[_TIME] += taps.repeat_after
            again[_NUMBER] |= _AGAIN
            copies = np.concatenate([copies, again], axis=2)
        kept = self._random.random(copies.shape[1:]) >= taps.loss
        copies[_ORDER] = copies[_TIME]
        if taps.disorder:
            copies[_ORDER] += self._random.integers(0, taps.disorder + 1, kept.shape)
        self.result.packets += count
        self.result.repeats += kept.shape[1] - count
        self.result.first += int(kept[0].sum())
        self.result.second += int(kept[1].sum())
        self.result.copies += int(kept.all(axis=0).sum())
        return copies[:, kept]

    def _write(self, until: int) -> None:
        due = np.flatnonzero(self._waiting[_ORDER] <= until)
        due = due[np.argsort(self._waiting[_ORDER, due], kind="stable")]
        copies = self._waiting[:, due]
        self._output.write(_records(self._buffer, copies, self._taps).data)
        numbers, taps = self._waiting[_NUMBER, due], self._waiting[_TAP, due]
        self._waiting = np.delete(self._waiting, due, axis=1)
        if self._truth is None:
            return
        both = np.concatenate([self._seen, numbers])
        _, first = np.unique(both, return_index=True)
        copy = np.ones(len(both), np.bool_)
        copy[first] = False
        rows = zip(numbers.tolist(), taps.tolist(), copy[len(self._seen) :].tolist(), strict=True)
        lines = [
            f"{position},{number & ~_AGAIN},{which + 1},{int(again)},{number // _AGAIN}\n"
            for position, (number, which, again) in enumerate(rows, self._written + 1)
        ]
        self._written += len(lines)
        self._truth.write("".join(lines).encode())
        # Numbers are in order, apart from delays.
        left = self._waiting[_NUMBER]
        self._seen = np.intersect1d(both, left)


def _records(
    buffer: NDArray[np.uint8], copies: NDArray[np.int64], settings: Taps
) -> NDArray[np.uint8]:
    at, captured, length, time, tap = copies[: _TAP + 1]
    added, version, begin = settings.added or Added(b""), copies[_VERSION], copies[_BEGIN]
    second = tap > 0
    # A packet too short for addresses gets no tag, and not every tunnel can carry every packet.
    fits = (captured >= added.before) & ((version == added.version) | (not added.version))
    changed = second & fits
    before, more, skipped = changed * added.before, changed * len(added.octets), np.zeros_like(at)
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
    for source, begins, size, targets in (
        (heads.view(np.uint8).reshape(-1), 16 * numbers, sizes, starts - 16),
        (buffer, at, before, starts),
        (octets.reshape(-1), np.maximum(row, 0) * len(added.octets), more, starts + before),
        (buffer, at + skipped + before, captured - before - more, starts + before + more),
    ):
        loops.copy_parts(source, begins, size, records, targets)
    if settings.hops:
        layer3 = starts + begin - skipped + more
        _age(records, layer3[second & (version == 4)], 8, settings.hops)
        _age(records, layer3[second & (version == 6)], 7, settings.hops)
    return records


def _age(octets: NDArray[np.uint8], layer3: NDArray[np.int64], offset: int, hops: int) -> None:
    """Reduce TTLs or hop limits by `hops`, at least to 1; update checksums (RFC 1624)."""
    limit = octets[layer3 + offset].astype(np.int64)
    lower = np.maximum(1, limit - hops)
    octets[layer3 + offset] = lower
    if offset == 8:
        checksum = octets[layer3 + 10].astype(np.int64) << 8 | octets[layer3 + 11]
        checksum = _complement(2 * 0xFFFF - checksum - (limit << 8) + (lower << 8))
        octets[layer3 + 10], octets[layer3 + 11] = checksum >> 8, checksum & 0xFF
