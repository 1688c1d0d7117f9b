"""Streams of text keys from access logs, CSV and lines, plain or compressed."""

import csv
import gzip
import io
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, BinaryIO, cast

from ..golden.errors import LatelyError

FORMATS = ("auto", "log", "csv", "lines")
"""Formats of a trace; "auto" tells them apart by its first lines."""
LOG_KEY = ("client", "method", "url")
"""Fields of an access log that make up the key unless others are named."""

Record = tuple[str, float]
"""Key, and seconds since the epoch (NaN where the source has none)."""

_HEAD_LINES = 20
_EXAMPLES = 5
_TIME_COLUMNS = ("timestamp", "time")
_LOG_LINE = re.compile(r'\S+ \S+ .+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "')
_REQUEST = re.compile(
    r"(?P<method>[!#$%&'*+.^_`|~\w-]+) (?P<url>\S.*?)(?: (?P<protocol>HTTP/\S+))?"
)
_REQUEST_FIELDS = ("method", "url", "path", "protocol")
_LOG_FIELDS: dict[str, Callable[[Any, Any], Any]] = {
    "client": lambda entry, request: entry.remote_host,
    "user": lambda entry, request: entry.remote_user,
    "method": lambda entry, request: request["method"],
    "url": lambda entry, request: request["url"],
    "path": lambda entry, request: request["url"].partition("?")[0],
    "protocol": lambda entry, request: request["protocol"],
    "status": lambda entry, request: entry.final_status,
    "bytes": lambda entry, request: entry.bytes_sent,
    "referer": lambda entry, request: entry.directives.get("%{Referer}i"),
    "agent": lambda entry, request: entry.directives.get("%{User-Agent}i"),
}
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
}


class TraceError(LatelyError, ValueError):
    """A trace cannot be read as asked; the message says what was expected and what came."""


@dataclass
class Rejects:
    """Lines that hold no record.

    Attributes
    ----------
    count : int
        Lines rejected.
    examples : list of (int, str)
        Line number, from 1, and reason of the first few.
    """

    count: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, reason: str, lines: int = 1) -> None:
        """Count `lines` lines, of which `line` is the last, for a `reason`."""
        self.count += lines
        if len(self.examples) < _EXAMPLES:
            self.examples.append((line, reason))


class Trace:
    """Records of a stream, in order; blank lines are none, malformed ones are counted.

    Iterating yields `Record` tuples and raises `TraceError` where compressed
    data is damaged, and at the end if no line at all could be parsed. Made by
    `open_trace`.

    Parameters
    ----------
    name : str
        What messages call the stream.
    raw : file
        Of bytes.
    format : str
        'log', 'csv', 'lines', or 'auto' to find out.
    key : sequence of str
        Fields or columns that make up the key, joined by blanks; none for lines.
    time : str or None
        Column or field of the timestamp.

    Raises
    ------
    ValueError
        If key or time are not those of the format.
    TraceError
        If compressed data is damaged, or the format cannot be told.

    Attributes
    ----------
    name, format, key, time
        As the parameters, with what was found out.
    compression : str
        'none', 'gzip' or 'zstd'.
    rejects : Rejects
        Malformed lines met so far.
    records : int
        Records yielded so far.
    """

    def __init__(
        self, name: str, raw: BinaryIO, *, format: str, key: Sequence[str], time: str | None
    ) -> None:
        self.name = name
        self.rejects = Rejects()
        self.records = 0
        self._raw = raw
        self._size = _file_size(raw)
        lines = self._open_lines()
        head = list(islice(lines, _HEAD_LINES))
        everything = chain(head, lines)
        self.key: tuple[str, ...]
        self.time: str | None
        self.format = _detect(name, head, key=key, time=time) if format == "auto" else format
        if self.format == "log":
            self.key, self.time = _log_columns(key, time)
            self._source = _log_records(everything, self.key, self.rejects)
        elif self.format == "csv":
            self._source, self.key, self.time = _open_csv(name, everything, key, time, self.rejects)
        else:
            self.key, self.time = _no_columns(key, time)
            self._source = _line_records(everything, self.rejects)

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        for record in self._source:
            self.records += 1
            return record
        if not self.records:
            raise TraceError(self._empty_message())
        raise StopIteration

    def read(self, count: int) -> list[Record]:
        """Return the next `count` records, fewer at the end, none after it.

        Raises
        ------
        TraceError
            If compressed data is damaged, or the file ends and no line was parsed.
        """
        # Not through __next__: a call per record would take longer than parsing it.
        records = list(islice(self._source, count))
        self.records += len(records)
        if not self.records and count:
            raise TraceError(self._empty_message())
        return records

    @property
    def fraction(self) -> float | None:
        """Share of the file that has been read, 0 to 1; None where the size is unknown."""
        return min(1.0, self._raw.tell() / self._size) if self._size else None

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._text.close()
        self._raw.close()

    def _open_lines(self) -> Iterator[str]:
        buffered = io.BufferedReader(cast(io.RawIOBase, self._raw), 1 << 16)
        self.compression, data = _decompress(self.name, buffered)
        # A byte that is not UTF-8 is part of the key all the same. Kept, because it
        # closes the file when it is collected.
        self._text = io.TextIOWrapper(data, "utf-8-sig", errors="surrogateescape", newline="")
        return _text_lines(self.name, self.compression, data, self._text)

    def _empty_message(self) -> str:
        expected = {
            "log": "NCSA common or combined log lines",
            "csv": f"CSV rows with a key in {', '.join(self.key)}",
            "lines": "text lines",
        }[self.format]
        if not self.rejects.count:
            return f"{self.name}: must hold {expected}, but holds none"
        line, reason = self.rejects.examples[0]
        return (
            f"{self.name}: must hold {expected}, but none of {self.rejects.count} lines parses "
            f"(line {line}: {reason})"
        )


def open_trace(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    key: str | None = None,
    time: str | None = None,
) -> Trace:
    """Open a stream of keys.

    Parameters
    ----------
    path : path
        A file, or '-' for standard input. Gzip and zstd are recognised by
        their first bytes.
    format : str
        One of `FORMATS`. 'auto' takes lines that look like an access log for
        one, then CSV where the name ends in .csv, a column is named or the
        header has a column 'key', and single keys, one per line, otherwise.
    key : str, optional
        Comma-separated fields (access log; default `LOG_KEY`) or columns
        (CSV; default 'key', else the only column that is not the time).
    time : str, optional
        Column of the time, in seconds since the epoch or ISO 8601 (CSV;
        default 'timestamp' or 'time' where there is one).

    Raises
    ------
    TraceError
        If the content, a field or a column is not as required.
    OSError
        If the file cannot be read.
    """
    if format not in FORMATS:
        raise TraceError(f"format: must be one of {', '.join(FORMATS)}, not {format!r}")
    names = tuple(name.strip() for name in key.split(",")) if key is not None else ()
    if key is not None and not all(names):
        raise TraceError(f"key: must be names separated by commas, not {key!r}")
    path = os.fspath(path)
    if path == "-":
        return Trace("standard input", _standard_input(), format=format, key=names, time=time)
    raw = open(path, "rb", buffering=0)  # noqa: SIM115  (the trace closes it)
    try:
        return Trace(path, cast(BinaryIO, raw), format=format, key=names, time=time)
    except BaseException:
        raw.close()
        raise


# Bytes to lines


def _standard_input() -> BinaryIO:
    try:
        # A file of its own, so that closing it leaves standard input open.
        raw = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    except (AttributeError, ValueError):
        raise TraceError("standard input: must be open, but is closed") from None
    return cast(BinaryIO, raw)


def _file_size(raw: BinaryIO) -> int | None:
    try:
        return os.fstat(raw.fileno()).st_size if raw.seekable() else None
    except OSError:
        return None


class _ZstdReader(io.RawIOBase):
    """Decompressed bytes of any number of frames; an unfinished frame is an EOFError."""

    def __init__(self, source: io.BufferedReader) -> None:
        import zstandard

        self._zstandard = zstandard
        self._source = source
        self._frame: Any = None
        self._pending = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            # Small pieces, because a piece is decompressed whole.
            compressed = self._pending or self._source.read(1 << 13)
            self._pending = b""
            if not compressed:
                if self._frame is not None:
                    raise EOFError("the data end inside a frame")
                return 0
            self._output = memoryview(self._decompress(compressed))
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            output: bytes = self._frame.decompress(compressed)
        except self._zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
        if self._frame.eof:
            self._pending = self._frame.unused_data
            self._frame = None
        return output


def _decompress(name: str, buffered: "io.BufferedReader[Any]") -> tuple[str, io.BufferedReader]:
    head = buffered.peek(8)[:8]
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "none")
    if kind == "gzip":
        data = gzip.GzipFile(fileobj=buffered)
        return kind, io.BufferedReader(cast(io.RawIOBase, data), 1 << 16)
    if kind == "zstd":
        return kind, io.BufferedReader(_ZstdReader(buffered), 1 << 16)
    if kind != "none":
        raise TraceError(f"{name}: must be text, plain or compressed by gzip or zstd, not {kind}")
    return kind, buffered


@contextmanager
def _damage_reported(name: str, compression: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{name}: must be whole {compression} data, but: {error}") from None


def _text_lines(
    name: str, compression: str, data: io.BufferedReader, text: io.TextIOWrapper
) -> Iterator[str]:
    with _damage_reported(name, compression):
        if b"\0" in data.peek(1 << 12)[: 1 << 12]:
            raise TraceError(f"{name}: must be UTF-8 text, but has NUL bytes at its start")
        yield from text


# Lines to records


def _detect(name: str, head: list[str], *, key: Sequence[str], time: str | None) -> str:
    if any(_LOG_LINE.match(line) for line in head):
        return "log"
    stem = re.sub(r"\.(gz|zst)$", "", name.lower())
    header = next(csv.reader(head[:1]), [])
    if stem.endswith(".csv") or key or time or (len(header) > 1 and "key" in header):
        return "csv"
    return "lines"


def _no_columns(key: Sequence[str], time: str | None) -> tuple[tuple[str, ...], None]:
    if key or time:
        option = "key" if key else "time"
        raise TraceError(f"{option}: must not be given for lines, which have no columns")
    return (), None


def _line_records(lines: Iterator[str], rejects: Rejects) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if "\0" in text:
            rejects.add(number, "a NUL byte")
        elif text and not text.isspace():
            yield text, math.nan


def _log_columns(key: Sequence[str], time: str | None) -> tuple[tuple[str, ...], str]:
    if time is not None:
        raise TraceError(f"time: must not be given for an access log, which has its own ({time!r})")
    for name in key:
        if name not in _LOG_FIELDS:
            raise TraceError(
                f"key: must be among {', '.join(_LOG_FIELDS)} for an access log, not {name!r}"
            )
    return tuple(key) or LOG_KEY, "time"


def _log_records(lines: Iterator[str], key: Sequence[str], rejects: Rejects) -> Iterator[Record]:
    parse = _log_parser()
    getters = [_LOG_FIELDS[name] for name in key]
    needs_request = any(name in _REQUEST_FIELDS for name in key)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = parse(line.rstrip("\r\n"))
        except ValueError:
            rejects.add(number, f"not an access log line: {_excerpt(line)}")
            continue
        request = _REQUEST.fullmatch(entry.request_line or "")
        if needs_request and request is None:
            rejects.add(number, f"not a request: {_excerpt(entry.request_line or '-')}")
            continue
        values = [getter(entry, request) for getter in getters]
        text = " ".join("-" if value is None else str(value) for value in values)
        yield text, entry.request_time.timestamp()


def _log_parser() -> Callable[[str], Any]:
    """Return a function from a line to an entry that raises ValueError if it is neither format."""
    import apachelogs

    parsers = [
        apachelogs.LogParser(form, encoding="utf-8", errors="surrogateescape")
        for form in (apachelogs.COMBINED, apachelogs.COMMON)
    ]

    def parse(line: str) -> Any:
        if not line.isascii():
            # Apache escapes these bytes and the parser insists on it; other servers do not.
            raw = line.encode("utf-8", "surrogateescape")
            line = raw.decode("ascii", "backslashreplace")
        try:
            return parsers[0].parse(line)
        except ValueError:
            entry = parsers[1].parse(line)
        parsers.reverse()
        return entry

    return parse


def _open_csv(
    name: str, lines: Iterator[str], key: Sequence[str], time: str | None, rejects: Rejects
) -> tuple[Iterator[Record], tuple[str, ...], str | None]:
    reader = csv.reader(lines)
    try:
        header = [column.strip() for column in next(reader, [])]
    except csv.Error as error:
        raise TraceError(f"{name}: must begin with a CSV header, but: {error}") from None
    if not header:
        raise TraceError(f"{name}: must begin with a CSV header, but is empty")
    if time is None:
        time = next((column for column in _TIME_COLUMNS if column in header), None)
    names = tuple(key) or _default_key(name, header, time)
    for option, column in [("key", column) for column in names] + [("time", time)]:
        if column is not None and column not in header:
            raise TraceError(
                f"{option}: must be a column of {name} ({_columns(header)}), not {column!r}"
            )
    keys = [header.index(column) for column in names]
    times = header.index(time) if time is not None else None
    return _csv_records(reader, len(header), keys, times, rejects), names, time


def _default_key(name: str, header: Sequence[str], time: str | None) -> tuple[str, ...]:
    if "key" in header:
        return ("key",)
    others = tuple(column for column in header if column != time)
    if len(others) != 1:
        raise TraceError(
            f"key: must name a column of {name}, which has no column 'key': {_columns(header)}"
        )
    return others


def _csv_records(
    reader: Any, width: int, keys: Sequence[int], time: int | None, rejects: Rejects
) -> Iterator[Record]:
    first = keys[0]
    before = reader.line_num
    while True:
        try:
            for row in reader:
                number, spanned = reader.line_num, reader.line_num - before
                before = number
                if len(row) != width:
                    if row:
                        rejects.add(number, f"{len(row)} fields, not {width}", spanned)
                    continue
                text = row[first] if len(keys) == 1 else " ".join(row[index] for index in keys)
                if not text or text.isspace():
                    rejects.add(number, "no key", spanned)
                    continue
                try:
                    seconds = _seconds(row[time]) if time is not None else math.nan
                except (ValueError, OverflowError):
                    rejects.add(number, f"not a time: {_excerpt(row[time or 0])}", spanned)
                    continue
                yield text, seconds
            return
        except csv.Error as error:
            rejects.add(reader.line_num, str(error), max(1, reader.line_num - before))
            before = reader.line_num


def _seconds(text: str) -> float:
    if not text:
        return math.nan
    try:
        seconds = float(text)
    except ValueError:
        return _iso_seconds(text.strip())
    if math.isinf(seconds):
        raise ValueError("infinite")
    return seconds


def _iso_seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    # A time without a zone is taken for UTC, so that the same file reads alike everywhere.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _columns(header: Sequence[str]) -> str:
    return _excerpt(", ".join(header), 200)


def _excerpt(text: str, length: int = 60) -> str:
    text = text.rstrip("\r\n")
    shown = text if len(text) <= length else text[: length - 3] + "..."
    # Escapes control characters, and surrogates that a terminal could not print.
    return ascii(shown)
