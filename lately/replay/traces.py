"""Read streams of text keys from access logs, CSV, lines and captures, plain or compressed."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from ..stream_files import COMPRESSIONS, StreamFile, is_capture, open_stream, whole
from .trace_formats import Record, Rejects, Take, TraceError, columns_text, open_records, taking

FORMATS = ("auto", "log", "csv", "lines", "capture")

_TOGETHER = 4096


class Trace(AbstractContextManager["Trace"]):
    """Iterates over the records of a stream; skips blank lines, and counts malformed lines."""

    def __init__(
        self, stream: StreamFile, *, format: str, key: Sequence[str], time: str | None
    ) -> None:
        self.name, self.compression = stream.name, stream.compression
        self.rejects = Rejects()
        self.records = 0
        self._stream = stream
        self.time: str | None = "time"
        if format == "capture" or (format == "auto" and is_capture(stream.head(4))):
            self.format = "capture"
            self._take, self.key = _open_capture(stream, self.rejects, key=key, time=time)
            return
        # Keep the decoder: it would close the file when garbage-collected.
        self._text, lines = _text(stream)
        self.format, self._take, self.key, self.time = open_records(
            stream.name, lines, self.rejects, format=format, key=key, time=time
        )

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        while records := self.read(_TOGETHER):
            yield from records

    def read(self, count: int) -> list[Record]:
        """Return the next `count` records; fewer at the end, then none."""
        records = self._take(count)
        self.records += len(records)
        if not self.records and count:
            raise TraceError(self._empty_message())
        return records

    @property
    def fraction(self) -> float | None:
        return self._stream.fraction

    def close(self) -> None:
        self._stream.close()

    def _empty_message(self) -> str:
        expected = {
            "log": "NCSA common or combined log lines",
            "csv": f"CSV rows with a key in {columns_text(self.key)}",
            "lines": "text lines",
            "capture": "packets with a key",
        }[self.format]
        if not self.rejects.count:
            return f"{self.name}: no {expected}"
        line, reason = self.rejects.examples[0]
        unit = "packet" if self.format == "capture" else "line"
        return (
            f"{self.name}: no {expected}; {self.rejects.count} {unit}s were rejected "
            f"({unit} {line}: {reason})"
        )


def open_trace(
    path: str | os.PathLike[str], *, format: str = "auto", key: str | None = None,
    time: str | None = None,
) -> Trace:  # fmt: skip
    """Open a file with a stream of keys, or standard input for '-'.

    `format` is one of `FORMATS`. 'auto' recognises captures by their first bytes, and access
    logs by their first lines. It reads CSV if the name ends in .csv, if a column is given, or if
    the header has a column 'key'. Otherwise it reads one key per line.

    For an access log, `key` lists fields (default `LOG_KEY`), and for CSV columns (default 'key',
    else the only column that is not the time), separated by commas. For a capture, it is one of
    `lately.captures.packet_keys.KEYS`. `time` is a CSV column in seconds since the epoch or ISO
    8601; default 'timestamp' or 'time', if such a column exists.
    """
    if format not in FORMATS:
        raise TraceError(f"format: must be one of {', '.join(FORMATS)}, not {format!r}")
    names = tuple(name.strip() for name in key.split(",")) if key is not None else ()
    if key is not None and not all(names):
        raise TraceError(f"key: must be names separated by commas, not {key!r}")
    stream = open_stream(path)
    try:
        return Trace(stream, format=format, key=names, time=time)
    except BaseException:
        stream.close()
        raise


def _text(stream: StreamFile) -> tuple[io.TextIOWrapper, Iterator[str]]:
    name, compression = stream.name, stream.compression
    if not stream.readable:
        known = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"
        raise TraceError(
            f"{name}: must be text, uncompressed or compressed with {known}, not {compression}"
        )
    # A byte that is not UTF-8 is still part of the key.
    text = io.TextIOWrapper(stream.data, "utf-8-sig", errors="surrogateescape", newline="")
    return text, _text_lines(name, compression, stream.data, text)


def _text_lines(
    name: str, compression: str, data: io.BufferedReader, text: io.TextIOWrapper
) -> Iterator[str]:
    with whole(name, compression):
        if b"\0" in data.peek(1 << 12)[: 1 << 12]:
            raise TraceError(f"{name}: not text: it starts with NUL bytes")
        yield from text


def _open_capture(
    stream: StreamFile, rejects: Rejects, *, key: Sequence[str], time: str | None
) -> tuple[Take, tuple[str, ...]]:
    # Imported here, because other traces do not need these packages.
    from ..captures.capture_reader import CaptureReader
    from ..captures.packet_keys import DEFAULT_KEY, packet_records, parse_key

    if time is not None:
        raise TraceError("time: a capture has its own times")
    if len(key) > 1:
        raise TraceError(f"key: must be a single packet key, not {', '.join(key)}")
    form = parse_key(key[0] if key else DEFAULT_KEY)
    records = packet_records(CaptureReader(stream), form, rejects.add)
    return taking(records), tuple(key) or (DEFAULT_KEY,)
