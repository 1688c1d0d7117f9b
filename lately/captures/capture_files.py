"""Several captures that are read in sequence as one capture."""

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

    Parameters
    ----------
    paths : sequence of str
        Files, or '-' alone for standard input.
    joined : bool
        Whether the packets go to one capture. The captures must then have the same format, and all
        pcap headers except the first are omitted.

    Attributes
    ----------
    name, format : str
        Name and format of the first capture.
    damages : list of str
        Messages about damage.
    missing : int
        Bytes of incomplete last records.
    truncated : bool
        Whether compressed data ends early or is followed by other bytes.

    Raises
    ------
    TraceError
        If a file is not a capture, or captures that are joined have different formats.
    OSError
        If a file cannot be read.
    """

    def __init__(self, paths: Sequence[str], *, joined: bool = True) -> None:
        self._paths = paths
        self._joined = joined and len(paths) > 1
        self._pipes: dict[int, StreamFile] = {}
        self._reader: CaptureReader | None = None
        self.damages: list[str] = []
        self.missing, self.truncated = 0, False
        try:
            if len(paths) > 1:
                self._check()
            self._reader = self._open(0)
        except BaseException:
            self.__exit__()
            raise
        self._number, self._new = 0, True
        self.name, self.format = self._reader.name, self._reader.format

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
        while self._reader is None and self._number + 1 < len(self._paths):
            self._number, self._new = self._number + 1, True
            try:
                self._reader = self._open(self._number)
            except (OSError, TraceError) as error:
                self.damages.append(str(error))

    def _open(self, number: int) -> CaptureReader:
        return CaptureReader(self._pipes.pop(number, self._paths[number]))

    def _place(self, packets: Packets) -> Packets:
        """Give packets the number of their file, and deal with the header of a pcap file."""
        begin = packets.begin
        if self._new and self._joined and self.format == "pcap":
            if self._number:
                begin += PCAP_HEADER
            else:
                # Packets of other files may be longer than the limit of the first file.
                head = packets.buffer[begin : begin + PCAP_HEADER].view("<u4")
                big = PCAP_MAGIC[head[:1].tobytes()][0]
                link = int(head[5:].view(">u4" if big else "<u4")[0]) & 0x03FFFFFF
                head[4:5].view(">u4" if big else "<u4")[:] = most_captured(link)
        self._new = False
        return replace(packets, begin=begin, file=self._number)

    def _check(self) -> None:
        """Read the beginnings of all files before any work."""
        first = b""
        for number, path in enumerate(self._paths):
            if path == "-":
                raise TraceError("standard input: must be the only input, but there are several")
            stream = open_stream(path)
            # The bytes that a pipe gave are not available to a second reader.
            self._pipes[number] = stream
            head = stream.head(PCAP_HEADER) if stream.readable else b""
            if stream.raw.seekable():
                self._pipes.pop(number).close()
            if not is_capture(head):
                raise not_capture(stream, head)
            # Snapshot length and accuracy may differ.
            head = head[:4] if head[:4] == PCAPNG_MAGIC else head[:8] + head[20:24]
            first = first or head
            if self._joined and head != first:
                raise TraceError(
                    f"{path}: must have the format, version and link type of {self._paths[0]} "
                    "to be joined with it"
                )
