"""Outputs of a deduplication: captures, and a list of the dropped packets."""

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from time import time_ns
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..captures import capture_loops as loops
from ..stream_files import PCAPNG_MAGIC
from .deduplicate import Judged

HEAD = b"number,time,digest\n"
_NO_LIMIT = 1 << 61
_Opener = Callable[..., AbstractContextManager[BinaryIO]]


class CaptureWriter:
    """Writes the kept packets of a capture (or the dropped ones), and all data between packets."""

    def __init__(self, file: BinaryIO, *, dropped: bool = False) -> None:
        self._file = file
        self._dropped = dropped
        self._room = np.empty(0, np.uint8)

    def __call__(self, judged: Judged) -> None:
        packets = judged.packets
        for at in packets.section_lengths:
            packets.buffer[at : at + 8] = 0xFF
        # Records alternate with the bytes before, between and after them.
        bounds = np.empty(2 * len(packets) + 2, np.int64)
        bounds[0], bounds[-1] = packets.begin, packets.end
        bounds[1:-1:2], bounds[2:-1:2] = packets.table[loops.START], packets.table[loops.STOP]
        keep = np.ones(len(bounds) - 1, np.bool_)
        keep[1::2] = judged.dropped if self._dropped else ~judged.dropped
        if len(self._room) < packets.end - packets.begin:
            self._room = np.empty(packets.end - packets.begin, np.uint8)
        size = loops.keep_lines(packets.buffer, bounds, keep, self._room)
        self._file.write(self._room[:size].data)
        self._file.flush()


class FolderWriter(ExitStack):
    def __init__(self, open_output: _Opener) -> None:
        super().__init__()
        self._open = open_output
        self._number = -1

    def _begin(self, number: int, *time: int) -> BinaryIO:
        self.close()
        self._number = number
        file = self.enter_context(self._open(number, *time))
        self._writer = CaptureWriter(file)
        return file

    def __call__(self, judged: Judged) -> None:
        if judged.packets.file != self._number:
            self._begin(judged.packets.file)
        self._writer(judged)


class RotatingWriter(FolderWriter):
    def __init__(self, open_output: _Opener, size: int, time: int) -> None:
        super().__init__(open_output)
        self._size, self._time = size or _NO_LIMIT, time or _NO_LIMIT
        self._head, self._order = b"", "<"

    def __call__(self, judged: Judged) -> None:
        if self._number < 0:
            self._rotate(judged.packets.times[~judged.dropped])
        while (cut := self._cut(judged)) < len(judged.packets):
            rest = judged.part(slice(cut, None))
            start = int(rest.packets.table[loops.START, 0])
            self._write(judged.part(slice(cut)), judged.packets.begin, start)
            self._rotate(rest.packets.times)
            judged = rest._replace(packets=replace(rest.packets, begin=start))
        self._write(judged, judged.packets.begin, judged.packets.end)

    def _rotate(self, times: NDArray[np.int64]) -> None:
        known = len(times) and times[0] != loops.NO_TIME
        file = self._begin(self._number + 1, int(times[0]) if known else time_ns())
        file.write(self._head)
        # Bytes left in the output, and the time at which it ends once it has a packet.
        self._room, self._end = self._size - len(self._head), 0

    def _cut(self, judged: Judged) -> int:
        """Return the number of packets before the first one that starts a new output."""
        packets, kept = judged.packets, np.flatnonzero(~judged.dropped)
        starts, stops = packets.table[loops.START], packets.table[loops.STOP]
        written = stops - packets.begin - np.cumsum((stops - starts) * judged.dropped)
        first = not self._end and len(kept) > 0
        if first:
            self._end = int(judged.elapsed[kept[0]]) + self._time
        full = int(np.searchsorted(written[kept], self._room, "right"))
        over = max(int(first), min(full, int(np.searchsorted(judged.elapsed[kept], self._end))))
        return int(kept[over]) if over < len(kept) else len(packets)

    def _write(self, judged: Judged, begin: int, end: int) -> None:
        """Write the bytes from `begin` to `end`, and store headers for the next output."""
        packets = replace(judged.packets, begin=begin, end=end)
        self._writer(judged._replace(packets=packets))
        starts, stops = packets.table[loops.START], packets.table[loops.STOP]
        self._room -= end - begin - int((stops - starts)[judged.dropped].sum())
        begins, ends = np.append(begin, stops), np.append(starts, end)
        for gap in np.flatnonzero(begins < ends):
            blocks = packets.buffer[begins[gap] : ends[gap]].tobytes()
            if not self._head and blocks[:4] != PCAPNG_MAGIC:
                self._head, blocks = blocks, b""
            at = 0
            while at < len(blocks):
                if blocks[at : at + 4] == PCAPNG_MAGIC:
                    self._order = "<" if blocks[at + 8] == 0x4D else ">"
                    self._head = b""
                kind, size = struct.unpack_from(f"{self._order}2I", blocks, at)
                if kind in (loops.SECTION, loops.INTERFACE):
                    self._head += blocks[at : at + size]
                at += size


class Marks:
    """Writes a CSV line for each dropped packet."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(HEAD)

    def __call__(self, judged: Judged) -> None:
        at = np.flatnonzero(judged.dropped)
        columns: tuple[NDArray[np.generic], ...] = (
            judged.start + 1 + at, judged.packets.times[at], judged.digests.values[at]
        )  # fmt: skip
        lines = []
        for number, time, digest in zip(*(c.tolist() for c in columns), strict=True):
            seconds = "" if time == loops.NO_TIME else f"{time // 10**9}.{time % 10**9:09}"
            lines.append(f"{number},{seconds},{digest:016x}\n")
        self._file.write("".join(lines).encode())
