"""Remove repeated lines from a stream."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import randbits
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..captures.capture_loops import keep_lines
from ..golden import GEBF, BlockedGEBF, from_spec, load
from ..golden.errors import LatelyError
from ..stream_files import StreamFile, whole
from .line_keys import Bytes, LineKey, line_bounds, line_digest

MAX_LINE = 1 << 30  # maximum bytes of a line
SAVE_PERIOD = 60.0  # minimum seconds between two saved states
_BUFFER = 1 << 20
_LINES = 1 << 16
_LINE_TIME = 1000  # nanoseconds per line, so that even short windows have enough ticks
_SEED_BITS = 63
_NEWLINE = ord("\n")


class LineError(LatelyError, ValueError):
    """A line, or a state file, is invalid."""


@dataclass
class UniqResult:
    lines: int = 0
    repeats: int = 0
    keyless: int = 0  # lines without a key; they are kept
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0


class RecentLines:
    """A filter of the keys of recent lines, within a window in lines or in time."""

    def __init__(
        self,
        key: LineKey,
        *,
        window: int,
        fpr: float,
        span: int | None = None,  # nanoseconds
        policy: str = "last-seen",
        state: str | None = None,
    ) -> None:
        self.key = key
        self._refresh = policy == "last-seen"
        self._tick, self._by_clock = 0, span is not None
        if span is None and self._refresh:
            # A blocked filter is faster, but may need more than twice the memory at a very low
            # rate.
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
                raise LineError(
                    f"{state} holds the state of {self.model!r}, which has a different window, "
                    f"rate, "
                    "span or policy"
                )
        else:
            seed = randbits(_SEED_BITS)
            self.model = from_spec(replace(spec, seed=seed, digest="siphash"))
        self._digest = line_digest(self.model.spec, key)

    def save(self) -> None:
        if self._state is not None:
            self.model.save(self._state)

    def seen(self, data: Bytes, bounds: NDArray[np.int64]) -> tuple[NDArray[np.bool_], int]:
        """Return a mask of repeated lines, and the number of lines without a key."""
        digests, keyed = self.key.digests(data, bounds, self._digest)
        seen = np.zeros(len(keyed), np.bool_)
        seen[keyed] = self._answer(digests)
        return seen, len(keyed) - len(digests)

    def _answer(self, digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
        times: tuple[NDArray[np.int64], ...] = ()
        if self._tick and not self._by_clock:
            numbers = self.model.operations + np.arange(len(digests))
            times = (numbers * _LINE_TIME // self._tick,)
        elif self._tick:
            # If the clock is set back, time stands still instead.
            now = max(self.model.latest, time.time_ns() // self._tick)
            times = (np.full(len(digests), now, np.int64),)
        seen: NDArray[np.bool_] = self.model.check_and_insert(
            digests, *times, refresh=self._refresh
        )
        return seen


class _Output:
    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._open = False
        self._room = np.empty(0, np.uint8)

    def write(self, data: Bytes, bounds: NDArray[np.int64], keep: NDArray[np.bool_]) -> int:
        """Write the kept lines, and return the number of bytes."""
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
    """Write the lines of streams without repeated lines, or only the repeated lines."""
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
    """Yield complete lines as soon as they have arrived: bytes, and the starts of the lines."""
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
