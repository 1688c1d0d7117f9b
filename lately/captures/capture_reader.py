"""Read pcap and pcapng captures in groups of packets.

Custom pcapng blocks that must not be copied are left out.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..stream_files import (
    BUFFERED,
    PCAP_HEADER,
    PCAP_MAGIC,
    PCAPNG_MAGIC,
    StreamFile,
    TraceError,
    is_capture,
    not_capture,
    open_stream,
    whole,
)
from . import capture_loops as loops

BUFFER = 1 << 22  # maximum bytes per read
MAX_INTERFACES = 1 << 16  # maximum number of interfaces in a section
_SECTION_LENGTH = 16
# Row pitch of a table: not a power of two, or the rows would compete for a few cache lines.
_PACKETS = (1 << 16) + 64
_MAX_CAPTURED = 1 << 18  # maximum captured length of a packet in bytes, as in libpcap
_MAX_OF_LINK = {249: 1 << 20, 279: 1 << 23, 231: 1 << 27}  # for USBPcap, EBHSCR and D-Bus
# Maximum bytes of a block, and of a block besides its packet, including 128 KiB of options.
_MAX_BLOCK = 1 << 24
_MAX_AROUND = (1 << 17) + loops.PACKET_HEADER + 4
# pcap versions, and the order of the two lengths in their records.
_LENGTHS = {
    **dict.fromkeys([(2, 0), (2, 1), (2, 2), (543, 0)], loops.SWAPPED),
    (2, 3): loops.SWAPPED_IF_LESS, (2, 4): loops.KEPT,
}  # fmt: skip
_COOKED2 = 276  # Linux cooked capture v2, whose packets carry their interface number
_BYTE_ORDER = 0x1A2B3C4D
_SECTION_VERSIONS = ((1, 0), (1, 2))
_TSRESOL, _TSOFFSET = 9, 14


def max_captured(link: int) -> int:
    return _MAX_OF_LINK.get(link, _MAX_CAPTURED)


@dataclass(frozen=True)
class Packets:
    """Consecutive packets of a capture.

    The next read leaves the packets intact; the read after it may overwrite their buffer.
    """

    buffer: NDArray[np.uint8]
    begin: int  # start of the part of the buffer with the packets and the content between them
    end: int
    table: NDArray[np.int64]  # packet table of `capture_loops`, shape (ROWS, n)
    section_lengths: tuple[int, ...] = ()  # offsets of the 8-byte pcapng section lengths
    file: int = 0  # number of the file, if there are several
    files_of: NDArray[np.int64] | None = None  # file number per packet, shape (n,), if they differ
    resolution: int = 1  # nanoseconds per unit of the coarsest clock, at least 1

    def __len__(self) -> int:
        return self.table.shape[1]

    @property
    def locations(self) -> NDArray[np.int64]:
        """The packets' offsets, captured lengths, original lengths and link types, shape (4, n)."""
        return self.table[loops.AT : loops.LINK + 1]

    @property
    def times(self) -> NDArray[np.int64]:
        """The packets' times in nanoseconds since 1970, or `capture_loops.NO_TIME`, shape (n,)."""
        times: NDArray[np.int64] = self.table[loops.TIME]
        return times

    @property
    def interfaces(self) -> NDArray[np.int64]:
        """The packets' interface numbers, shape (n,).

        In a Linux cooked capture v2, these are the interface indices in the packets' headers.
        """
        interfaces = self.table[loops.FROM]
        cooked = (self.table[loops.LINK] == _COOKED2) & (self.table[loops.CAPTURED] >= 8)
        if cooked.any():
            at = self.table[loops.AT, cooked]
            interfaces = interfaces.copy()
            interfaces[cooked] = sum(
                self.buffer[at + 4 + byte].astype(np.int64) << 24 - 8 * byte for byte in range(4)
            )
        return interfaces

    @property
    def files(self) -> NDArray[np.int64]:
        return np.full(len(self), self.file) if self.files_of is None else self.files_of

    def part(self, which: slice | NDArray[np.int64]) -> "Packets":
        files = None if self.files_of is None else self.files_of[which]
        table = np.ascontiguousarray(self.table[:, which])
        return replace(self, table=table, files_of=files)

    def options(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, bytes, str]]:
        """Yield the code, value and byte order of each pcapng option of the chosen packets."""
        start, stop, at, captured = self.table[: loops.CAPTURED + 1]
        ends = at + captured + -captured % 4
        chosen = chosen & (at - start == loops.PACKET_HEADER) & (ends < stop - 4)
        for row in np.flatnonzero(chosen).tolist():
            block = self.buffer[start[row] : stop[row]].tobytes()
            order = "<" if block[0] else ">"
            for code, value in _options(block, int(ends[row] - start[row]), order):
                yield code, value, order

    def frame(self, index: int) -> bytes:
        at, captured = self.table[loops.AT : loops.CAPTURED + 1, index].tolist()
        return self.buffer[at : at + captured].tobytes()


@dataclass
class _Section:
    big: bool
    form: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    interfaces: int = 0
    max_block: int = _MAX_BLOCK
    resolution: int = 1
    room: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((4, loops.INTERFACE_COLUMNS), np.int64)
    )

    def add(self, interface: list[int]) -> None:
        if self.interfaces == len(self.room):
            self.room = np.concatenate([self.room, np.zeros_like(self.room)])
        self.room[self.interfaces] = interface
        self.interfaces += 1
        units = interface[loops.BASE] ** interface[loops.EXPONENT]
        self.resolution = max(self.resolution, -(-(10**9) // units))
        self.max_block = max(self.max_block, max_captured(interface[loops.LINK_OF]) + _MAX_AROUND)


class CaptureReader(AbstractContextManager["CaptureReader"]):
    """Reads the packets of a file, plain or compressed, or of standard input for '-'."""

    def __init__(self, path: str | os.PathLike[str] | StreamFile) -> None:
        self._stream = path if isinstance(path, StreamFile) else open_stream(path)
        self.name, self.compression = self._stream.name, self._stream.compression
        self.packets = 0  # number of packets read so far
        self.missing = 0  # bytes of an incomplete last record, once it has been read
        self.truncated = False  # compressed data is incomplete, or other bytes follow it
        self._failure: TraceError | None = None
        self._section: _Section | None = None
        self._over = False
        self._passed = 0
        # Offsets in the buffer: the next record, and the ends of the data read, returned, and
        # returned next.
        self._at = self._end = self._done = self._next = 0
        self._table = np.empty((loops.ROWS, _PACKETS), np.int64)
        self._other = np.empty(0, np.uint8)
        self._buffer = np.zeros(BUFFER, np.uint8)
        try:
            self._fill()
            head = self._buffer[: min(self._end, PCAP_HEADER)].tobytes()
            if not is_capture(head):
                raise self._failure or not_capture(self._stream, head)
            self.format = "pcapng" if head[:4] == PCAPNG_MAGIC else "pcap"
            if self.format == "pcap":
                self._read_header()
        except BaseException:
            self._stream.close()
            raise

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    @property
    def fraction(self) -> float | None:
        return self._stream.fraction

    def read(self) -> Packets | None:
        """Return the next packets and all data between them, or None at the end of the capture."""
        self._done = self._next
        self._section_lengths: list[int] = []
        count = 0
        while not self._over:
            try:
                count, reason = self._scan()
                if reason == loops.CONTROL and not count and not self._read_control():
                    reason = loops.MORE
            except TraceError:
                if self._at == self._done:
                    raise
                # Return the intact data first; the next read finds the damage again.
                break
            if count or (reason == loops.MORE and self._at > self._done):
                break
            if reason == loops.MORE and not self._fill():
                if self._failure is not None:
                    raise self._failure
                self._over = True
                self.missing = self._end - self._at
                self._end = self._at
        if self._at == self._done:
            return None
        self.packets += count
        self._next = self._at
        table = self._table[:, :count].copy()
        lengths = tuple(position - self._passed for position in self._section_lengths)
        resolution = self._section.resolution if self._section else 1
        return Packets(self._buffer, self._done, self._at, table, lengths, resolution=resolution)

    def _fill(self) -> bool:
        """Read more bytes; return whether there were any. An error is stored, not raised."""
        if self._failure is not None:
            return False
        room = len(self._buffer)
        if self._done:
            rest = self._buffer[self._done : self._end]
            if len(self._other) < room:
                self._other = np.zeros(room, np.uint8)
            self._other[: len(rest)] = rest
            # Packets already returned stay where they are.
            self._buffer, self._other = self._other[:room], self._buffer
            self._passed += self._done
            self._at -= self._done
            self._end, self._done, self._next = len(rest), 0, 0
        if self._end == room:
            self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])
            room *= 2
        began = self._end
        # If a longer read failed, the data already buffered would be lost.
        size = room if self.compression == "none" else BUFFERED
        try:
            with whole(self.name, self.compression):
                while self._end < room:
                    part = self._buffer[self._end : min(room, self._end + size)]
                    try:
                        got = self._stream.data.readinto1(part.data)
                    except EOFError:
                        if not self._passed + self._end:
                            raise
                        self.truncated, got = True, 0
                    self._end += got
                    # Do not hold back data from a pipe for more data that may never arrive.
                    if not got or self._stream.size is None:
                        break
        except TraceError as error:
            self._failure = error
        return self._end > began

    def _scan(self) -> tuple[int, int]:
        section = self._section
        if section is None:
            return 0, loops.CONTROL
        if self.format == "pcap":
            self._at, count, reason = loops.scan_records(
                self._buffer, self._at, self._end, section.big, section.form, self._table
            )
        else:
            self._at, count, reason = loops.scan_blocks(
                self._buffer, self._at, self._end, section.big, section.max_block,
                section.room[: section.interfaces], self._table,
            )  # fmt: skip
        # Damage further on is found when that data is read.
        if reason == loops.DAMAGED and not count:
            raise self._damage("invalid record length")
        return count, reason

    def _damage(self, reason: str) -> TraceError:
        position = self._passed + self._at
        return TraceError(f"{self.name}: {reason} (byte {position:,}, packet {self.packets + 1:,})")

    def _read_header(self) -> None:
        if self._end < PCAP_HEADER:
            raise self._damage(f"the header is incomplete: {self._end} of {PCAP_HEADER} bytes")
        head = self._buffer[:PCAP_HEADER].tobytes()
        big, unit, header = PCAP_MAGIC[head[:4]]
        order = ">" if big else "<"
        version = struct.unpack_from(f"{order}HH", head, 4)
        if version not in _LENGTHS:
            major, minor = version
            raise self._damage(
                f"the version must be between 2.0 and 2.4, or 543.0, not {major}.{minor}"
            )
        # The upper bits hold the length of the frame check sequence.
        link = struct.unpack_from(f"{order}I", head, 20)[0] & 0x03FFFFFF
        form = unit, header, _LENGTHS[version], max_captured(link), link
        self._section = _Section(big, form, resolution=unit)
        self._at = PCAP_HEADER

    def _read_control(self) -> bool:
        """Read a section or interface block; return whether it was complete."""
        if self._end - self._at < 12:
            return False
        new = self._bytes(4) == PCAPNG_MAGIC
        if new:
            magic = self._bytes(12)[8:]
            orders = {struct.pack("<I", _BYTE_ORDER): False, struct.pack(">I", _BYTE_ORDER): True}
            if magic not in orders:
                raise self._damage(
                    f"invalid byte-order magic in the section header: {magic.hex(' ')}"
                )
            self._section = _Section(orders[magic])
        section = self._section
        if section is None:
            raise self._damage("expected the beginning of a section")
        order = ">" if section.big else "<"
        kind, total = struct.unpack(f"{order}2I", self._bytes(8))
        min_total = 28 if new else 20 if kind == loops.INTERFACE else 16
        if not min_total <= total <= _MAX_BLOCK or total % 4:
            raise self._damage(f"invalid block length {total:,}")
        block = self._bytes(total)
        if len(block) < total:
            return False
        if block[-4:] != block[4:8]:
            raise self._damage("the lengths at both ends of the block differ")
        version = struct.unpack_from(f"{order}HH", block, 12)
        if new and version not in _SECTION_VERSIONS:
            major, minor = version
            raise self._damage(f"the section version must be 1.0 or 1.2, not {major}.{minor}")
        if new:
            self._section_lengths.append(self._passed + self._at + _SECTION_LENGTH)
        elif kind == loops.NOT_COPIED:
            # Close the gap: move the preceding data up to its end.
            before = self._buffer[self._done : self._at].copy()
            self._done += total
            self._buffer[self._done : self._at + total] = before
            self._section_lengths = [position + total for position in self._section_lengths]
        else:
            if section.interfaces == MAX_INTERFACES:
                raise self._damage(f"a section has more than {MAX_INTERFACES:,} interfaces")
            section.add(_interface(block, order))
        self._at += total
        return True

    def _bytes(self, count: int) -> bytes:
        return self._buffer[self._at : min(self._at + count, self._end)].tobytes()


def _options(block: bytes, at: int, order: str) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(block) - 4:
        code, size = struct.unpack_from(f"{order}HH", block, at)
        if code == 0:
            return
        yield code, block[at + 4 : min(at + 4 + size, len(block) - 4)]
        at += 4 + size + -size % 4


def _interface(block: bytes, order: str) -> list[int]:
    link, _, snaplen = struct.unpack_from(f"{order}HHI", block, 8)
    base, exponent, offset = 10, 6, 0
    for code, value in _options(block, 16, order):
        if code == _TSRESOL and len(value) == 1:
            base, exponent = (2, value[0] & 0x7F) if value[0] & 0x80 else (10, value[0])
        if code == _TSOFFSET and len(value) == 8:
            offset = struct.unpack(f"{order}q", value)[0]
    # Units and offsets outside the range of real clocks would overflow in the loops.
    exponent = min(exponent, 63 if base == 2 else 19)
    return [link, base, exponent, max(-(1 << 33), min(offset, 1 << 33)), snaplen]
