"""Read several captures as one: one after the other, or merged by time."""

import struct
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..golden.packets.packet_order import due_times
from ..stream_files import (
    PCAP_HEADER,
    PCAP_MAGIC,
    PCAPNG_MAGIC,
    StreamFile,
    TraceError,
    is_capture,
    not_capture,
    open_stream,
)
from . import capture_loops as loops
from .capture_reader import CaptureReader, Packets, max_captured

_SECTION = struct.pack("<IIIHHqI", loops.SECTION, 28, 0x1A2B3C4D, 1, 0, -1, 28)
_NAME, _RESOLUTION = 2, 9
_MAX_LINK = 0xFFFF
_FILE, _DUE, _ROWS = loops.ROWS, loops.ROWS + 1, loops.ROWS + 2


class CaptureFiles(AbstractContextManager["CaptureFiles"]):
    """Captures that are read one after the other; a damaged capture is read up to the damage."""

    def __init__(
        self, paths: Sequence[str], *, joined: bool = True, alone: bool | None = None
    ) -> None:
        self._paths = paths
        self._joined = joined and len(paths) > 1
        self._pipes: dict[int, StreamFile] = {}
        self._reader: CaptureReader | None = None
        self.empty: list[str] = []  # names of empty files
        self.damages: list[str] = []  # messages about damaged files
        self.missing = 0  # bytes of incomplete last records
        self.truncated = False  # compressed data is incomplete, or other bytes follow it
        self.name, self.format = paths[0], "pcap"
        numbers = [*range(len(paths))]
        try:
            if not (len(paths) == 1 if alone is None else alone):
                numbers = self._check()
            self._numbers = iter(numbers)
            self._first = self._number = next(self._numbers, 0)
            if numbers:
                self._reader = self._open(self._number)
                self.name, self.format = self._reader.name, self._reader.format
        except BaseException:
            self.__exit__()
            raise
        self._new = True

    def __exit__(self, *exception: object) -> None:
        for stream in (self._reader, *self._pipes.values()):
            if stream is not None:
                stream.close()

    @property
    def fraction(self) -> float | None:
        share = 1.0 if self._reader is None else self._reader.fraction
        return None if share is None else (self._number + share) / len(self._paths)

    def read(self) -> Packets | None:
        while (reader := self._reader) is not None:
            try:
                if (packets := reader.read()) is not None:
                    return self._number_packets(packets)
            except TraceError as error:
                self.damages.append(str(error))
            self.missing += reader.missing
            self.truncated |= reader.truncated
            reader.close()
            self._reader = None
            while self._reader is None and (number := next(self._numbers, None)) is not None:
                self._number, self._new = number, True
                try:
                    self._reader = self._open(number)
                except (OSError, TraceError) as error:
                    self.damages.append(str(error))
        return None

    def _open(self, number: int) -> CaptureReader:
        return CaptureReader(self._pipes.pop(number, self._paths[number]))

    def _number_packets(self, packets: Packets) -> Packets:
        """Set the file number, and leave out all pcap headers except the first."""
        begin = packets.begin
        if self._new and self._joined and self.format == "pcap":
            if self._number != self._first:
                begin += PCAP_HEADER
            else:
                # Packets in later files may exceed the snapshot length of the first file.
                head = packets.buffer[begin : begin + PCAP_HEADER].view("<u4")
                big = PCAP_MAGIC[head[:1].tobytes()][0]
                link = int(head[5:].view(">u4" if big else "<u4")[0]) & 0x03FFFFFF
                head[4:5].view(">u4" if big else "<u4")[:] = max_captured(link)
        self._new = False
        return replace(packets, begin=begin, file=self._number)

    def _check(self) -> list[int]:
        """Check that the captures can be joined; return the indices of non-empty files."""
        captures: list[int] = []
        first: list[str] = []
        for number, path in enumerate(self._paths):
            if path == "-" and len(self._paths) > 1:
                raise TraceError("standard input cannot be combined with other inputs")
            stream = open_stream(path)
            # Bytes already read from a pipe cannot be read again.
            self._pipes[number] = stream
            head = stream.head(PCAP_HEADER) if stream.readable else b""
            empty = not head and stream.readable
            if empty or stream.raw.seekable():
                self._pipes.pop(number).close()
            if empty:
                self.empty.append(path)
                continue
            if not is_capture(head):
                raise not_capture(stream, head)
            captures.append(number)
            form = _form(head)
            first = first or form
            differing = [both for both in zip(form, first, strict=False) if both[0] != both[1]]
            if self._joined and differing:
                name, text = self._paths[captures[0]], ", not ".join(differing[0])
                hint = "use --reorder or --out-dir"
                raise TraceError(f"{path} cannot be joined with {name}: {text}; {hint}")
        return captures


def _form(head: bytes) -> list[str]:
    if head[:4] == PCAPNG_MAGIC:
        return ["pcapng"]
    big, unit, before = PCAP_MAGIC[head[:4]]
    form = ">HH12xI" if big else "<HH12xI"
    major, minor, link = struct.unpack_from(form, head.ljust(24, b"\0"), 4)
    kind, end = "pcap" if before == 16 else "modified pcap", "big" if big else "little"
    times = f"times in {'micro' if unit == 1000 else 'nano'}seconds"
    return [kind, f"{end}-endian", times, f"version {major}.{minor}", f"link type {link}"]


class PacketBlocks:
    """Encodes packets as blocks of one pcapng section; interface blocks precede their packets."""

    def __init__(self) -> None:
        self._head = _SECTION
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, link: int, name: str) -> int:
        if key not in self._numbers:
            if link > _MAX_LINK:
                raise TraceError(
                    f"{name}: the link type must be at most {_MAX_LINK:,} in pcapng, not {link:,}"
                )
            self._numbers[key] = len(self._numbers)
            # The description gives the name and the resolution of times, 10**-9 seconds.
            text = name.encode(errors="replace")[:4096]
            options = b"".join(
                struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
                for code, value in ((_NAME, text), (_RESOLUTION, b"\x09"), (0, b""))
            )
            size = struct.pack("<I", 20 + len(options))
            body = struct.pack("<HHI", max(link, 0), 0, 0) + options
            self._head += struct.pack("<I", loops.INTERFACE) + size + body + size
        return self._numbers[key]

    def write(
        self, source: NDArray[np.uint8], rows: NDArray[np.int64], times: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> Packets:  # fmt: skip
        head, self._head = np.frombuffer(self._head, np.uint8), b""
        captured, size = rows[loops.CAPTURED], rows[loops.CAPTURED] + 35 & ~3
        stops = len(head) + np.cumsum(size)
        starts = stops - size
        buffer = np.zeros(stops[-1] if len(stops) else len(head), np.uint8)
        buffer[: len(head)] = head
        kind = np.full_like(size, 6)
        words = (kind, size, numbers, times >> 32, times & 0xFFFFFFFF, captured, rows[loops.LENGTH])
        heads = np.stack(words, axis=1).astype("<u4").view(np.uint8).reshape(-1)
        count = np.arange(len(size))
        for octets, begins, sizes, targets in (
            (heads, 28 * count, np.full_like(size, 28), starts),
            (source, rows[loops.AT], captured, starts + 28),
            (heads, 28 * count + 4, np.full_like(size, 4), stops - 4),
        ):
            loops.copy_parts(octets, begins, sizes, buffer, targets)
        table = rows.copy()
        table[[loops.START, loops.STOP, loops.AT]] = starts, stops, starts + 28
        return Packets(buffer, 0, len(buffer), table)


@dataclass
class _Input:
    capture: CaptureFiles
    reached: int = 0
    open: bool = True


class MergedCaptures(AbstractContextManager["MergedCaptures"]):
    """Merges captures into one section, in the order of `lately.golden.packets.packet_order`."""

    def __init__(self, paths: Sequence[str], bound: int) -> None:
        self._bound = bound
        with ExitStack() as stack:
            self._inputs = [
                _Input(stack.enter_context(CaptureFiles([path], alone=len(paths) == 1)))
                for path in paths
            ]
            self._stack = stack.pop_all()
        self.name, self.format = self._inputs[0].capture.name, "pcapng"
        self.empty = [name for source in self._inputs for name in source.capture.empty]
        self._buffer = np.empty(0, np.uint8)
        self._table = np.empty((_ROWS, 0), np.int64)
        self._writer = PacketBlocks()
        self._resolution = 1

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def missing(self) -> int:
        return sum(source.capture.missing for source in self._inputs)

    @property
    def truncated(self) -> bool:
        return any(source.capture.truncated for source in self._inputs)

    @property
    def damages(self) -> list[str]:
        return [message for source in self._inputs for message in source.capture.damages]

    @property
    def fraction(self) -> float | None:
        shares = [source.capture.fraction for source in self._inputs]
        known = [share for share in shares if share is not None]
        return sum(known) / len(shares) if len(known) == len(shares) else None

    def read(self) -> Packets | None:
        while waiting := [source for source in self._inputs if source.open]:
            self._take(min(waiting, key=lambda source: source.reached))
            left = [source.reached for source in self._inputs if source.open]
            due = self._table[_DUE]
            ready = due < min(left) - self._bound if left else np.ones(len(due), np.bool_)
            if ready.any() or not left:
                return self._release(ready)
        return None

    def _take(self, source: _Input) -> None:
        packets = source.capture.read()
        if packets is None:
            source.open = False
            return
        if not len(packets):
            return
        self._resolution = max(self._resolution, packets.resolution)
        table = np.empty((_ROWS, len(packets)), np.int64)
        table[: loops.ROWS] = packets.table
        table[loops.AT] += len(self._buffer) - packets.begin
        table[_FILE] = self._inputs.index(source)
        table[_DUE] = due_times(packets.times, self._bound, source.reached)
        source.reached = max(source.reached, int(packets.times.max()))
        self._buffer = np.concatenate([self._buffer, packets.buffer[packets.begin : packets.end]])
        self._table = np.concatenate([self._table, table], axis=1)

    def _release(self, ready: NDArray[np.bool_]) -> Packets:
        at = np.flatnonzero(ready)
        # Ties are resolved by file number, then by position in the file.
        order = np.lexsort((self._table[_FILE, at], self._table[_DUE, at]))
        rows = self._table[:, at[order]]
        names, indices = np.unique(
            rows[[_FILE, loops.LINK, loops.FROM]], axis=1, return_inverse=True
        )
        numbers = [
            self._writer.number(
                (file, link, interface), link, f"{self._inputs[file].capture.name}:{interface}"
            )
            for file, link, interface in names.T.tolist()
        ]
        numbers_of = np.array(numbers, np.int64)[indices.reshape(-1)]
        times = np.where(rows[loops.TIME] < 0, rows[_DUE], rows[loops.TIME])
        packets = self._writer.write(self._buffer, rows[: loops.ROWS], times, numbers_of)
        blocks = replace(packets, files_of=rows[_FILE].copy(), resolution=self._resolution)
        rest = self._table[:, ~ready]
        ends = np.cumsum(rest[loops.CAPTURED])
        kept = np.empty(ends[-1] if len(ends) else 0, np.uint8)
        starts = ends - rest[loops.CAPTURED]
        loops.copy_parts(self._buffer, rest[loops.AT], rest[loops.CAPTURED], kept, starts)
        rest[loops.AT] = starts
        self._buffer, self._table = kept, rest
        return blocks
