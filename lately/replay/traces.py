"""Read text keys from access logs, CSV files, plain lines and captures; convert times to ticks."""

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from itertools import chain, islice
from typing import Any

import numpy as np

from ..golden.durations import NANOSECONDS
from ..golden.times import TIME_LIMIT, Times, instant
from ..stream_files import COMPRESSIONS, StreamFile, TraceError, is_capture, open_stream, whole

FORMATS = ("auto", "log", "csv", "lines", "capture")

Record = tuple[str, int | None]  # key, and nanoseconds since the epoch, or None without a time
_TOGETHER = 4096

_MAX_SECONDS = 10**19  # with more digits, the product would not be exact
_HEAD_LINES = 20
_BLOCK_LINES = 4096
_TIME_COLUMNS = ("timestamp", "time")
_EXAMPLES = 5
_LOG_LINE = re.compile(r'\S+ \S+ .+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "')

# A whole line, and the additional part of the longer format. Escapes are unambiguous here: on a
# line that does not match, the library's own patterns take time exponential in its escapes.
_LOG_WORD = r"(?:[!\x23-\x5B\x5D-\x7E]|\\.)*"
_LOG_TEXT = r'"(?:[ !\x23-\x5B\x5D-\x7E]|\\.)*"'
_LOG_WHOLE = re.compile(
    rf"{_LOG_WORD} {_LOG_WORD} (?:\"\"|(?:[ !\x23-\x5B\x5D-\x7E]|\\.)*?) "
    rf"\[[^][]+\] {_LOG_TEXT} (?:\d{{3}}|-) (?:-?\d+|-)(?P<more> {_LOG_TEXT} {_LOG_TEXT})?"
)

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

LOG_KEY = ("client", "method", "url")  # default key of an access log


@dataclass
class Rejects:
    """Counts lines without a valid record, and keeps the numbers (from 1) and reasons of a few."""

    count: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, reason: str, lines: int = 1) -> None:
        self.count += lines
        if len(self.examples) < _EXAMPLES:
            self.examples.append((line, reason))


class TickCounter:
    """Converts the times of a stream to ticks since the first time; ticks never decrease."""

    def __init__(self, tick: int) -> None:
        # Operations with a time before the latest, and without a time; maximum lateness in ns.
        self.late = self.missing = self.latest = 0
        self.tick = tick  # nanoseconds per tick, at least 1
        self._first: int | None = None
        self._reached = 0

    @property
    def begun(self) -> bool:
        return self._first is not None

    def ticks(self, times: Iterable[int | None]) -> Times:
        given = [*times]
        known = np.array([time is not None for time in given], np.bool_)
        # Python integers, because times may be arbitrarily large.
        values = np.array([0 if time is None else time for time in given], object)
        self.missing += int(len(known) - known.sum())
        if self._first is None and known.any():
            self._first = self._reached = int(values[known.argmax()])
        reached = np.array([self._reached], object)
        present = np.where(known, values, reached)
        course = np.maximum.accumulate(np.concatenate([reached, present]))
        late = (course[1:] - present)[known & (course[1:] > present)]
        self.late += len(late)
        self.latest = max(self.latest, int(late.max(initial=0)))
        self._reached = int(course[-1])
        ticks = (course[1:] - (self._first or 0)) // self.tick
        if len(ticks) and ticks[-1] >= TIME_LIMIT:
            raise TraceError(f"time: must be below 2**62 ticks, not {ticks[-1]}")
        return ticks.astype(np.int64)


class Trace(AbstractContextManager["Trace"]):
    """Iterates over the records of a stream; skips blank lines, and counts malformed lines."""

    def __init__(
        self, stream: StreamFile, *, format: str, key: Sequence[str], time: str | None
    ) -> None:
        self.name, self.compression = stream.name, stream.compression
        self.rejects = Rejects()
        self.records = 0
        self._stream = stream
        # Key fields or columns, and the time field or column; None if there are no times.
        self.key, self.time = tuple(key), time
        if format == "capture" or (format == "auto" and is_capture(stream.head(4))):
            self.format = "capture"
            self._open_capture()
            return
        lines = self._lines()
        head = list(islice(lines, _HEAD_LINES))
        lines = chain(head, lines)
        self.format = _detect(self.name, head, key=key, time=time) if format == "auto" else format
        if self.format == "csv":
            self._open_csv(lines)
        elif self.format == "log":
            self._open_log(lines)
        elif key or time:
            raise TraceError(f"{'key' if key else 'time'}: plain lines have no columns")
        else:
            self._take_from(_line_records(lines, self.rejects))

    def _take_from(self, records: Iterator[Record]) -> None:
        self._take = lambda count: list(islice(records, count))

    def _lines(self) -> Iterator[str]:
        name, compression, data = self.name, self.compression, self._stream.data
        if not self._stream.readable:
            known = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"
            raise TraceError(
                f"{name}: must be text, uncompressed or compressed with {known}, not {compression}"
            )
        # A byte that is not UTF-8 is still part of the key.
        text = io.TextIOWrapper(data, "utf-8-sig", errors="surrogateescape", newline="")
        # Keep the decoder: it would close the file when garbage-collected.
        self._text = text
        with whole(name, compression):
            if b"\0" in data.peek(1 << 12)[: 1 << 12]:
                raise TraceError(f"{name}: must be text, but contains NUL bytes")
            yield from text

    def _open_capture(self) -> None:
        # Imported here, because other traces do not need these packages.
        from ..captures.capture_reader import CaptureReader
        from ..captures.packet_keys import DEFAULT_KEY, packet_records, parse_key

        if self.time is not None:
            raise TraceError("time: not needed for a capture, which has its own times")
        if len(self.key) > 1:
            raise TraceError(f"key: must be a single packet key, not {', '.join(self.key)}")
        self.key, self.time = self.key or (DEFAULT_KEY,), "time"
        form = parse_key(self.key[0])
        self._take_from(packet_records(CaptureReader(self._stream), form, self.rejects.add))

    def _open_log(self, lines: Iterator[str]) -> None:
        if self.time is not None:
            raise TraceError("time: not needed for an access log, which has its own times")
        for name in self.key:
            if name not in _LOG_FIELDS:
                fields = ", ".join(_LOG_FIELDS)
                raise TraceError(f"key: must be one of {fields} for an access log, not {name!r}")
        self.key, self.time = self.key or LOG_KEY, "time"
        self._take_from(_log_records(lines, self.key, self.rejects))

    def _open_csv(self, lines: Iterator[str]) -> None:
        reader = csv.reader(lines)
        try:
            header = [column.strip() for column in next(reader, [])]
        except csv.Error as error:
            raise TraceError(f"{self.name}: no CSV header: {error}") from None
        if not header:
            raise TraceError(f"{self.name}: no CSV header: the first line is empty")
        columns = _excerpt(", ".join(header), 200)
        if self.time is None:
            self.time = next((column for column in _TIME_COLUMNS if column in header), None)
        if not self.key:
            others = tuple(column for column in header if column != self.time)
            self.key = ("key",) if "key" in header else others
            if len(self.key) != 1:
                raise TraceError(f"give a key; the columns of {self.name} are {columns}")
        for option, column in [("key", column) for column in self.key] + [("time", self.time)]:
            if column is not None and column not in header:
                raise TraceError(
                    f"{option}: must be a column of {self.name} ({columns}), not {column!r}"
                )
        keys = [header.index(column) for column in self.key]
        time = None if self.time is None else header.index(self.time)
        rows = _CsvRecords(lines, reader.line_num, len(header), keys, time, self.rejects)
        self._take = rows.take

    def __exit__(self, *exception: object) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[Record]:
        while records := self.read(_TOGETHER):
            yield from records

    def read(self, count: int) -> list[Record]:
        """Return the next `count` records, or the remaining records at the end of the stream."""
        records = self._take(count)
        self.records += len(records)
        if self.records or not count:
            return records
        expected = {
            "log": "NCSA common or combined log lines",
            "csv": f"CSV rows with a key in {_excerpt(', '.join(self.key), 200)}",
            "lines": "text lines",
            "capture": "packets with a key",
        }[self.format]
        if not self.rejects.count:
            raise TraceError(f"{self.name}: no {expected}")
        line, reason = self.rejects.examples[0]
        unit = "packet" if self.format == "capture" else "line"
        raise TraceError(
            f"{self.name}: no {expected}; {self.rejects.count} {unit}s were rejected "
            f"({unit} {line}: {reason})"
        )

    @property
    def fraction(self) -> float | None:
        return self._stream.fraction


def open_trace(
    path: str | os.PathLike[str], *, format: str = "auto", key: str | None = None,
    time: str | None = None,
) -> Trace:  # fmt: skip
    """Open a file that contains a stream of keys, or standard input for '-'.

    `key` names log fields (default: `LOG_KEY`) or CSV columns (default: 'key', or else the only
    column besides the time), separated by commas. For a capture, it is one of
    `lately.captures.packet_keys.KEYS`. `time` names a CSV column that contains seconds since the
    epoch or ISO 8601 times (default: 'timestamp' or 'time').
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


def _detect(name: str, head: list[str], *, key: Sequence[str], time: str | None) -> str:
    if any(_LOG_LINE.match(line) for line in head):
        return "log"
    stem = re.sub(r"\.(gz|zst)$", "", name.lower())
    header: list[str] = []
    # A line with a field too long for CSV cannot be a header.
    with suppress(csv.Error):
        header = next(csv.reader(head[:1]), [])
    if stem.endswith(".csv") or key or time or (len(header) > 1 and "key" in header):
        return "csv"
    filled = [line for line in head if not line.isspace()]
    start = filled[0].strip() if filled else ""
    tabs, other = {line.count("\t") for line in filled}, ""
    if len(filled) > 1 and len(tabs) == 1 and tabs != {0}:
        other = "tab-separated values"
    if start.startswith("[{") or start in ("{", "[") or (start and all(map(_is_object, filled))):
        other = "JSON"
    if other:
        raise TraceError(
            f"{name} looks like {other}, not an access log, CSV or one key per line; "
            "the format 'lines' reads each line as a key"
        )
    return "lines"


def _is_object(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), dict)
    return False


def _line_records(lines: Iterator[str], rejects: Rejects) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if "\0" in text:
            rejects.add(number, "contains a NUL byte")
        elif text and not text.isspace():
            yield text, None


def _log_records(lines: Iterator[str], key: Sequence[str], rejects: Rejects) -> Iterator[Record]:
    parse = _log_parser()
    getters = [_LOG_FIELDS[name] for name in key]
    needs_request = any(name in _REQUEST_FIELDS for name in key)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = parse(line.rstrip("\r\n"))
        except (ValueError, OverflowError):
            # OverflowError: a year out of the range of dates.
            rejects.add(number, f"not an access log line: {_excerpt(line)}")
            continue
        request = _REQUEST.fullmatch(entry.request_line or "")
        if needs_request and request is None:
            rejects.add(number, f"not a request: {_excerpt(entry.request_line or '-')}")
            continue
        values = [getter(entry, request) for getter in getters]
        text = " ".join("-" if value is None else str(value) for value in values)
        yield text, instant(entry.request_time)


def _log_parser() -> Callable[[str], Any]:
    import apachelogs

    common, combined = (
        apachelogs.LogParser(form, encoding="utf-8", errors="surrogateescape")
        for form in (apachelogs.COMMON, apachelogs.COMBINED)
    )

    def parse(line: str) -> Any:
        if not line.isascii():
            # Apache escapes these bytes, and the parser requires that; other servers do not.
            raw = line.encode("utf-8", "surrogateescape")
            line = raw.decode("ascii", "backslashreplace")
        match = _LOG_WHOLE.fullmatch(line)
        if match is None:
            raise ValueError("neither format")
        return (combined if match["more"] else common).parse(line)

    return parse


class _CsvRecords:
    """Parses blocks of CSV lines: by column if all records are plain, otherwise row by row."""

    def __init__(
        self, lines: Iterator[str], line: int, width: int, keys: Sequence[int], time: int | None,
        rejects: Rejects,
    ) -> None:  # fmt: skip
        self._lines, self._line, self._width = lines, line, width
        self._keys, self._time, self._rejects = keys, time, rejects

    def take(self, count: int) -> list[Record]:
        records: list[Record] = []
        while left := count - len(records):
            block = list(islice(self._lines, min(left, _BLOCK_LINES)))
            if not block:
                break
            records += self._plain(block) or self._rows(block)
        return records

    def _plain(self, block: list[str]) -> list[Record] | None:
        """Return one record per line, or None if a line does not hold exactly one record."""
        # A quoted field may continue on the next line.
        if '"' in block[-1]:
            return None
        try:
            rows = list(csv.reader(block))
            if len(rows) != len(block) or {*map(len, rows)} != {self._width}:
                return None
            times: list[int | None] = [None] * len(rows)
            if self._time is not None:
                times = _moments([row[self._time] for row in rows])
        except (csv.Error, ValueError, OverflowError):
            return None
        first, *others = self._keys
        texts = [row[first] for row in rows]
        if others:
            texts = [" ".join(row[index] for index in self._keys) for row in rows]
        if not all(texts) or any(map(str.isspace, texts)):
            return None
        self._line += len(block)
        return list(zip(texts, times, strict=True))

    def _rows(self, block: list[str]) -> list[Record]:
        records: list[Record] = []
        reader, before = csv.reader(chain(block, self._lines)), 0
        while reader.line_num < len(block):
            try:
                row = next(reader)
            except csv.Error as error:
                spanned = max(1, reader.line_num - before)
                self._rejects.add(self._line + reader.line_num, str(error), spanned)
            else:
                record = self._record(row)
                if isinstance(record, tuple):
                    records.append(record)
                elif record:
                    number = self._line + reader.line_num
                    self._rejects.add(number, record, reader.line_num - before)
            before = reader.line_num
        self._line += reader.line_num
        return records

    def _record(self, row: list[str]) -> Record | str:
        """Return the record of a row, or the reason why there is none (empty for a blank line)."""
        if len(row) != self._width:
            return f"{len(row)} fields, not {self._width}" if row else ""
        text = " ".join(row[index] for index in self._keys)
        if not text or text.isspace():
            return "no key"
        try:
            return text, None if self._time is None else _nanoseconds(row[self._time])
        except (ValueError, OverflowError):
            return f"not a time: {_excerpt(row[self._time or 0])}"


def _moments(texts: Sequence[str]) -> list[int | None]:
    try:
        seconds = [*map(int, texts)]
    except ValueError:
        return [*map(_nanoseconds, texts)]
    if max(map(abs, seconds)) >= _MAX_SECONDS:
        raise ValueError("out of range")
    return [value * NANOSECONDS for value in seconds]


def _nanoseconds(text: str) -> int | None:
    if not text:
        return None
    try:
        seconds = Decimal(text)
    except DecimalException:
        moment = datetime.fromisoformat(text.strip())
        # A time without a zone is UTC, so that a file reads the same everywhere.
        return instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if seconds.is_nan():
        return None
    # copy_abs does not round: abs would overflow for huge numbers.
    if seconds.copy_abs() >= _MAX_SECONDS:
        raise ValueError("out of range")
    return round(seconds * NANOSECONDS)


def _excerpt(text: str, length: int = 60) -> str:
    text = text.rstrip("\r\n")
    shown = text if len(text) <= length else text[: length - 3] + "..."
    # Escape control characters, and surrogates that a terminal cannot print.
    return ascii(shown)
