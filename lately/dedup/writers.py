"""Outputs of a deduplication: captures, and a list of the packets that were dropped."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..captures import capture_loops as loops
from .dedup_loops import keep_lines
from .deduplicate import Judged

HEAD = b"number,time,digest\n"
"""First line of a list: number of the packet from 1, seconds since the epoch, hexadecimal."""


class CaptureWriter:
    """Writes the kept packets of a capture, or the dropped ones, to a binary file.

    Everything between the packets is written as well. Sections of pcapng get the length -1, which
    is the value for an unknown length.

    Parameters
    ----------
    file : file
    dropped : bool
        Whether the dropped packets are written.
    """

    def __init__(self, file: BinaryIO, *, dropped: bool = False) -> None:
        self._file = file
        self._dropped = dropped
        self._room = np.empty(0, np.uint8)

    def __call__(self, judged: Judged) -> None:
        """Write whole records, which another program may read already."""
        packets = judged.packets
        for at in packets.section_lengths:
            packets.buffer[at : at + 8] = 0xFF
        # Records, and the bytes before, between and after records.
        bounds = np.empty(2 * len(packets) + 2, np.int64)
        bounds[0], bounds[-1] = packets.begin, packets.end
        bounds[1:-1:2], bounds[2:-1:2] = packets.table[loops.START], packets.table[loops.STOP]
        keep = np.ones(len(bounds) - 1, np.bool_)
        keep[1::2] = judged.dropped if self._dropped else ~judged.dropped
        if len(self._room) < packets.end - packets.begin:
            self._room = np.empty(packets.end - packets.begin, np.uint8)
        self._file.write(self._room[: keep_lines(packets.buffer, bounds, keep, self._room)].data)
        self._file.flush()


class FolderWriter(ExitStack):
    """Writes the kept packets of each input to the output that `open_output` opens by its number.

    An output is complete when the next one begins.
    """

    def __init__(self, open_output: Callable[..., AbstractContextManager[BinaryIO]]) -> None:
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
        """Write packets of one input."""
        if judged.packets.file != self._number:
            self._begin(judged.packets.file)
        self._writer(judged)


class Marks:
    """Writes a line for each packet that was dropped, as CSV, to a binary `file`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(HEAD)

    def __call__(self, judged: Judged) -> None:
        """Write lines for some packets, all at once."""
        at = np.flatnonzero(judged.dropped)
        columns: tuple[NDArray[np.generic], ...] = (
            judged.start + 1 + at, judged.packets.times[at], judged.found.values[at]
        )  # fmt: skip
        lines = []
        for number, time, digest in zip(*(c.tolist() for c in columns), strict=True):
            seconds = "" if time == loops.NO_TIME else f"{time // 10**9}.{time % 10**9:09}"
            lines.append(f"{number},{seconds},{digest:016x}\n")
        self._file.write("".join(lines).encode())
