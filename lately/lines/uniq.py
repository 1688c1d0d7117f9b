"""Remove repeated lines from a stream."""

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from secrets import randbits
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..captures.capture_loops import keep_lines
from ..golden import GEBF, BlockedGEBF, from_spec, load
from ..golden.compilation import core
from ..golden.errors import LatelyError
from ..golden.hash.functions import ConstantStream
from ..golden.hash.keys import KeyDigest
from ..stream_files import StreamFile, whole

MAX_LINE = 1 << 30  # maximum bytes of a line
SAVE_PERIOD = 60.0  # minimum seconds between two saved states
_BUFFER = 1 << 20
_LINES = 1 << 16
_LINE_TIME = 1000  # nanoseconds per line, so that even short windows have enough ticks
_NEWLINE = ord("\n")
Bytes = NDArray[np.uint8]  # bytes of a stream, shape (n,)
Positions = NDArray[np.int64]  # positions in `Bytes`, shape (n,)
MAX_FIELD = (1 << 31) - 1  # largest field number


class LineError(LatelyError, ValueError):
    """A key, a line or a state file is invalid."""


@dataclass(frozen=True, kw_only=True)
class LineKey:
    """Selects the part of a line that is its key; by default, the whole line."""

    # Field numbers, counting from 1. Keys are equal if all their fields are equal.
    field: int | tuple[int, ...] | None = None
    delimiter: bytes = b"\t"  # byte that separates fields
    # Members of a JSON object; dots separate nested members. Equal values give equal keys.
    member: str | tuple[str, ...] | None = None
    pattern: bytes | None = None  # regular expression; the key is group 1, or else the match

    def __post_init__(self) -> None:
        ways = [name for name in ("field", "member", "pattern") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise LineError(f"{' and '.join(ways)} cannot be combined")
        for name in ("field", "member"):
            if isinstance(value := getattr(self, name), tuple):
                # A single field or member keeps its own digest.
                several = tuple(sorted({*value}))
                object.__setattr__(self, name, several if len(several) > 1 else several[0])
        for number in self._fields:
            if number is not None and not 1 <= number <= MAX_FIELD:
                raise LineError(f"field: must be between 1 and {MAX_FIELD}, not {number}")
        if len(self.delimiter) != 1:
            raise LineError(f"delimiter: must be one byte, not {self.delimiter!r}")
        try:
            re.compile(self.pattern or b"")
        except re.error as error:
            raise LineError(f"regex: not a valid regular expression: {error}") from None

    @property
    def _fields(self) -> tuple[int | None, ...]:
        return self.field if isinstance(self.field, tuple) else (self.field,)

    def digests(
        self, data: Bytes, bounds: Positions, digest: KeyDigest
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the digests of the lines that have a key, and a mask that selects these lines."""
        parts = [replace(self, field=field).find(data, bounds) for field in self._fields]
        keyed = np.logical_and.reduce([starts >= 0 for _, starts, _ in parts])
        kept: Any = slice(None) if keyed.all() else keyed
        words = np.hstack([digest.of_spans(content, starts[kept], stops[kept])
                           for content, starts, stops in parts])  # fmt: skip
        if len(parts) > 1:
            # Digests have a fixed length, so adjacent fields cannot be confused.
            ends = np.arange(len(words) + 1) * 8 * words.shape[1]
            octets = words.astype("<u8").view(np.uint8).ravel()
            words = digest.of_spans(octets, ends[:-1], ends[1:])
        return words, keyed

    def find(self, data: Bytes, bounds: Positions) -> tuple[Bytes, Positions, Positions]:
        """Return bytes, and the start and end of each line's key; a missing key starts at -1."""
        starts, stops = bounds[:-1].copy(), bounds[1:].copy()
        # The last line of a stream may lack a newline.
        stops -= data[stops - 1] == _NEWLINE if len(stops) else 0
        if isinstance(self.field, int):
            narrow = core().field_spans if core() else field_spans
            narrow(data, self.field, self.delimiter[0], starts, stops)
        elif self.member is not None or self.pattern is not None:
            extract, whole = self._extractor(), data.tobytes()
            spans = zip(starts.tolist(), stops.tolist(), strict=True)
            keys = [extract(whole[start:stop]) for start, stop in spans]
            sizes = np.array([len(key or b"") for key in keys], np.int64)
            stops = np.cumsum(sizes)
            starts = np.where([key is None for key in keys], -1, stops - sizes)
            data = np.frombuffer(b"".join(key or b"" for key in keys), np.uint8)
        return data, starts, stops

    def _extractor(self) -> Callable[[bytes], bytes | None]:
        if self.pattern is not None:
            search = re.compile(self.pattern).search

            def matched(line: bytes) -> bytes | None:
                match = search(line)
                return None if match is None else match[1 if match.re.groups else 0]

            return matched
        members = self.member if isinstance(self.member, tuple) else (self.member or "",)
        paths = [path.split(".") for path in members]

        def member(line: bytes) -> bytes | None:
            try:
                whole: Any = json.loads(line)
                values = [reduce(getitem, path, whole) for path in paths]
            except (ValueError, KeyError, TypeError, RecursionError):
                return None
            return json.dumps(values if len(values) > 1 else values[0], sort_keys=True).encode()

        return member


def line_bounds(data: Bytes, stop: int, bounds: Positions) -> int:
    """Write the bounds of complete lines in ``data[:stop]`` to `bounds`; return their number."""
    if native := core():
        return int(native.line_bounds(data, stop, bounds))
    ends = np.flatnonzero(data[:stop] == _NEWLINE)[: len(bounds) - 1] + 1
    bounds[0] = 0
    bounds[1 : len(ends) + 1] = ends
    return len(ends)


def field_spans(
    data: Bytes, field: int, delimiter: int, starts: Positions, stops: Positions
) -> None:
    """Narrow the span of each line to one field; set the start to -1 if the field is missing."""
    text, between = data.tobytes(), bytes([delimiter])
    for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        for _ in range(field - 1):
            between_at = text.find(between, start, stop)
            start = between_at + 1 if between_at >= 0 else -1
            if start < 0:
                break
        last = text.find(between, start, stop) if start >= 0 else -1
        starts[number], stops[number] = start, last if last >= 0 else stop


@dataclass
class UniqResult:
    lines: int = 0
    repeats: int = 0
    keyless: int = 0  # lines without a key; they are kept
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0


class RecentLines:
    """Remembers the keys of recent lines in a filter with a window in lines or in time."""

    def __init__(
        self, key: LineKey, *, window: int, fpr: float, span: int | None = None,
        policy: str = "last-seen", state: str | None = None,
    ) -> None:  # fmt: skip
        # With a span, in nanoseconds by the system clock, the window is the capacity in lines.
        self.key = key
        self._refresh = policy == "last-seen"
        self._tick, self._by_clock = 0, span is not None
        if span is None and self._refresh:
            # A blocked filter is faster, but may need much more memory at a very low rate.
            blocked, plain = (kind.for_window(window, fpr) for kind in (BlockedGEBF, GEBF))
            spec = (blocked if blocked.nbytes <= 2 * plain.nbytes else plain).spec
        else:
            # Imported here, because the import is slow.
            from ..dedup.window import dedup_spec

            # Without a span, line numbers serve as time, because repeats are not inserted.
            spec, self._tick = dedup_spec(span or window * _LINE_TIME, window, fpr)
        self._state = None if state is None else Path(state)
        self.model: Any
        if self._state is not None and self._state.exists():
            self.model = load(self._state)
            same = replace(spec, seed=self.model.seed, digest="siphash")
            if getattr(self.model, "spec", None) != same:
                text = f"{state} holds the state of {self.model!r}"
                raise LineError(f"{text}, which has a different window, rate, span or policy")
        else:
            self.model = from_spec(replace(spec, seed=randbits(63), digest="siphash"))
        # Whole lines and parts of lines have different digests.
        spec, label = self.model.spec, f"lines/{key!r}"
        word = 0 if key == LineKey() else ConstantStream(label=label, seed=spec.seed).word()
        self._digest = KeyDigest.of(spec, word)

    def save(self) -> None:
        if self._state is not None:
            self.model.save(self._state)

    def seen(self, data: Bytes, bounds: NDArray[np.int64]) -> tuple[NDArray[np.bool_], int]:
        """Return a mask of the repeated lines, and the number of lines without a key."""
        digests, keyed = self.key.digests(data, bounds, self._digest)
        times: tuple[NDArray[np.int64], ...] = ()
        if self._tick and not self._by_clock:
            numbers = self.model.operations + np.arange(len(digests))
            times = (numbers * _LINE_TIME // self._tick,)
        elif self._tick:
            # If the clock is set back, time stands still instead.
            now = max(self.model.latest, time.time_ns() // self._tick)
            times = (np.full(len(digests), now, np.int64),)
        seen = np.zeros(len(keyed), np.bool_)
        seen[keyed] = self.model.check_and_insert(digests, *times, refresh=self._refresh)
        return seen, len(keyed) - len(digests)


class _Output:
    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._open = False
        self._room = np.empty(0, np.uint8)

    def write(self, data: Bytes, bounds: NDArray[np.int64], keep: NDArray[np.bool_]) -> int:
        if len(self._room) < len(data):
            self._room = np.empty(len(data), np.uint8)
        size = keep_lines(data, bounds, keep, self._room)
        if size and self._file is not None:
            if self._open:
                self._file.write(b"\n")
            self._file.write(self._room[:size].data)
            # A reader may be waiting for these lines.
            self._file.flush()
            self._open = bool(self._room[size - 1] != _NEWLINE)
        return size


def uniq(
    streams: Iterable[StreamFile], output: BinaryIO | None, lines: RecentLines, *,
    repeats: bool = False, read: Callable[[StreamFile, Any], int] | None = None,
    progress: Callable[[UniqResult, float | None], None] | None = None,
) -> UniqResult:  # fmt: skip
    """Copy the lines of streams that are not repeats or, if `repeats` is set, those that are."""
    began = time.monotonic()
    due = began + SAVE_PERIOD
    result, sink = UniqResult(), _Output(output)
    try:
        for stream in streams:
            for data, bounds in _batches(stream, read, result):
                seen, keyless = lines.seen(data, bounds)
                result.bytes_written += sink.write(data, bounds, seen if repeats else ~seen)
                result.lines += len(seen)
                result.repeats += int(np.count_nonzero(seen))
                result.keyless += keyless
                result.seconds = (now := time.monotonic()) - began
                if progress is not None:
                    progress(result, stream.fraction)
                if now > due:
                    lines.save()
                    # The longer a save takes, the less often it is done.
                    due = time.monotonic() + max(SAVE_PERIOD, 20 * (time.monotonic() - now))
    finally:
        lines.save()
    return result


def _batches(
    stream: StreamFile, read: Callable[[StreamFile, Any], int] | None, result: UniqResult
) -> Iterable[tuple[Bytes, NDArray[np.int64]]]:
    """Yield complete lines as soon as they arrive: their bytes, and the bounds of each line."""
    data, bounds = np.empty(_BUFFER, np.uint8), np.empty(_LINES + 1, np.int64)
    filled = 0
    while True:
        if filled == len(data):
            if filled >= MAX_LINE:
                at = f"{stream.name}: line {result.lines + 1}"
                raise LineError(f"{at}: must be shorter than {MAX_LINE:,} bytes")
            data = np.concatenate([data, np.empty(filled, np.uint8)])
        with whole(stream.name, stream.compression):
            room = data[filled:].data
            count = stream.data.readinto1(room) if read is None else read(stream, room)
        result.bytes_read += count
        if not count:
            break
        came = data[filled : filled + count]
        filled += count
        if not (came == _NEWLINE).any():
            continue
        begin = 0
        while number := line_bounds(data[begin:], filled - begin, bounds):
            yield data[begin:filled], bounds[: number + 1]
            begin += int(bounds[number])
        data[: filled - begin] = data[begin:filled].copy()
        filled -= begin
    if filled:
        yield data[:filled], np.array([0, filled])
