"""Several captures that are read in sequence as one capture."""

import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

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
from .capture_reader import CaptureReader, Packets, most_captured


class CaptureFiles(AbstractContextManager["CaptureFiles"]):
    """Captures that are read in sequence. A damaged capture is read up to the damage.

    If they are `joined` to one capture, they must have the same format, and all pcap headers except
    the first are omitted. An empty file is skipped, unless it is `alone`; by default, one path is.
    """

    def __init__(
        self, paths: Sequence[str], *, joined: bool = True, alone: bool | None = None
    ) -> None:
        self._paths = paths
        self._joined = joined and len(paths) > 1
        self._pipes: dict[int, StreamFile] = {}
        self._reader: CaptureReader | None = None
        self.empty: list[str] = []  # names
        self.damages: list[str] = []  # messages
        self.missing = 0  # bytes of incomplete last records
        self.truncated = False  # whether compressed data ends early or is followed by other bytes
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
        """Share of the files that has been read, 0 to 1; None if a size is unknown."""
        share = 1.0 if self._reader is None else self._reader.fraction
        return None if share is None else (self._number + share) / len(self._paths)

    def read(self) -> Packets | None:
        """Return the next packets, all of one file; None at the end of the last file."""
        while self._reader is not None:
            try:
                packets = self._reader.read()
            except TraceError as error:
                self.damages.append(str(error))
                packets = None
            if packets is not None:
                return self._place(packets)
            self._open_next(self._reader)
        return None

    def _open_next(self, reader: CaptureReader) -> None:
        self.missing += reader.missing
        self.truncated |= reader.truncated
        reader.close()
        self._reader = None
        for number in self._numbers:
            self._number, self._new = number, True
            try:
                self._reader = self._open(number)
                return
            except (OSError, TraceError) as error:
                self.damages.append(str(error))

    def _open(self, number: int) -> CaptureReader:
        return CaptureReader(self._pipes.pop(number, self._paths[number]))

    def _place(self, packets: Packets) -> Packets:
        """Give packets the number of their file, and deal with the header of a pcap file."""
        begin = packets.begin
        if self._new and self._joined and self.format == "pcap":
            if self._number != self._first:
                begin += PCAP_HEADER
            else:
                # Packets of other files may be longer than the limit of the first file.
                head = packets.buffer[begin : begin + PCAP_HEADER].view("<u4")
                big = PCAP_MAGIC[head[:1].tobytes()][0]
                link = int(head[5:].view(">u4" if big else "<u4")[0]) & 0x03FFFFFF
                head[4:5].view(">u4" if big else "<u4")[:] = most_captured(link)
        self._new = False
        return replace(packets, begin=begin, file=self._number)

    def _check(self) -> list[int]:
        """Read the beginnings of all files before any work; return the numbers of all captures."""
        captures: list[int] = []
        first: list[str] = []
        for number, path in enumerate(self._paths):
            if path == "-" and len(self._paths) > 1:
                raise TraceError("standard input: must be the only input, but there are several")
            stream = open_stream(path)
            # The bytes that a pipe gave are not available to a second reader.
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
                raise TraceError(f"{path}: cannot be joined with {name}: {text}; {hint}")
        return captures


def _form(head: bytes) -> list[str]:
    """Return what joined captures share. Their snapshot lengths and accuracies may differ."""
    if head[:4] == PCAPNG_MAGIC:
        return ["pcapng"]
    big, unit, before = PCAP_MAGIC[head[:4]]
    form = ">HH12xI" if big else "<HH12xI"
    major, minor, link = struct.unpack_from(form, head.ljust(24, b"\0"), 4)
    kind, end = "pcap" if before == 16 else "modified pcap", "big" if big else "little"
    times = f"times in {'micro' if unit == 1000 else 'nano'}seconds"
    return [kind, f"{end}-endian", times, f"version {major}.{minor}", f"link type {link}"]
