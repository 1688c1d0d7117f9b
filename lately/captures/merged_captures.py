"""Several captures, merged in order of time into one capture in pcapng format."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..golden.packets.packet_order import due_times
from . import capture_loops as loops
from .capture_files import CaptureFiles
from .capture_reader import Packets
from .packet_blocks import PacketBlocks

_FILE, _DUE, _ROWS = loops.ROWS, loops.ROWS + 1, loops.ROWS + 2


@dataclass
class _Input:
    """One capture, and the latest time of its packets."""

    capture: CaptureFiles
    reached: int = 0
    open: bool = True


class MergedCaptures(AbstractContextManager["MergedCaptures"]):
    """Captures that are read in the order of `lately.golden.packets.packet_order`.

    The packets are blocks of one section of pcapng, with times in nanoseconds. Each interface of
    each file is an interface of the section. Other blocks, and options of packets, are omitted.
    A packet may be up to `bound` nanoseconds later than a following packet of its file. Packets
    wait until no file can have an earlier one, so memory grows with the files.
    """

    def __init__(self, paths: Sequence[str], bound: int) -> None:
        self._bound = bound
        with ExitStack() as stack:
            self._inputs = [
                _Input(stack.enter_context(CaptureFiles([path], alone=len(paths) == 1)))
                for path in paths
            ]
            self._stack = stack.pop_all()
        self.name, self.format = self._inputs[0].capture.name, "pcapng"
        # Files without a byte.
        self.empty = [name for one in self._inputs for name in one.capture.empty]
        self._buffer = np.empty(0, np.uint8)
        self._table = np.empty((_ROWS, 0), np.int64)
        self._writer = PacketBlocks()
        self._resolution = 1

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def missing(self) -> int:
        """Bytes of incomplete last records."""
        return sum(one.capture.missing for one in self._inputs)

    @property
    def truncated(self) -> bool:
        """Whether compressed data ends early or is followed by other bytes."""
        return any(one.capture.truncated for one in self._inputs)

    @property
    def damages(self) -> list[str]:
        """Messages about damage."""
        return [message for one in self._inputs for message in one.capture.damages]

    @property
    def fraction(self) -> float | None:
        """Share of the files that has been read, 0 to 1; None if a size is unknown."""
        shares = [one.capture.fraction for one in self._inputs]
        known = [share for share in shares if share is not None]
        return sum(known) / len(shares) if len(known) == len(shares) else None

    def read(self) -> Packets | None:
        """Return the next packets in order; None at the end."""
        while waiting := [one for one in self._inputs if one.open]:
            self._take(min(waiting, key=lambda one: one.reached))
            left = [one.reached for one in self._inputs if one.open]
            due = self._table[_DUE]
            ready = due < min(left) - self._bound if left else np.ones(len(due), np.bool_)
            if ready.any() or not left:
                return self._release(ready)
        return None

    def _take(self, one: _Input) -> None:
        """Read packets of a file."""
        packets = one.capture.read()
        if packets is None:
            one.open = False
            return
        if not len(packets):
            return
        self._resolution = max(self._resolution, packets.resolution)
        table = np.empty((_ROWS, len(packets)), np.int64)
        table[: loops.ROWS] = packets.table
        table[loops.AT] += len(self._buffer) - packets.begin
        table[_FILE] = self._inputs.index(one)
        table[_DUE] = due_times(packets.times, self._bound, one.reached)
        one.reached = max(one.reached, int(packets.times.max()))
        self._buffer = np.concatenate([self._buffer, packets.buffer[packets.begin : packets.end]])
        self._table = np.concatenate([self._table, table], axis=1)

    def _release(self, ready: NDArray[np.bool_]) -> Packets:
        """Return packets as blocks, and keep the others."""
        at = np.flatnonzero(ready)
        # Files are numbered in their order, and packets of one file are in theirs.
        order = np.lexsort((self._table[_FILE, at], self._table[_DUE, at]))
        rows = self._table[:, at[order]]
        packets = self._blocks(rows)
        rest = self._table[:, ~ready]
        ends = np.cumsum(rest[loops.CAPTURED])
        kept = np.empty(ends[-1] if len(ends) else 0, np.uint8)
        starts = ends - rest[loops.CAPTURED]
        loops.copy_parts(self._buffer, rest[loops.AT], rest[loops.CAPTURED], kept, starts)
        rest[loops.AT] = starts
        self._buffer, self._table = kept, rest
        return packets

    def _blocks(self, rows: NDArray[np.int64]) -> Packets:
        """Return packets as enhanced packet blocks, behind descriptions of new interfaces."""
        names, places = np.unique(
            rows[[_FILE, loops.LINK, loops.FROM]], axis=1, return_inverse=True
        )
        numbers = [
            self._writer.number(
                (file, link, interface), link, f"{self._inputs[file].capture.name}:{interface}"
            )
            for file, link, interface in names.T.tolist()
        ]
        numbers_of = np.array(numbers, np.int64)[places.reshape(-1)]
        times = np.where(rows[loops.TIME] < 0, rows[_DUE], rows[loops.TIME])
        packets = self._writer.write(self._buffer, rows[: loops.ROWS], times, numbers_of)
        return replace(packets, files_of=rows[_FILE].copy(), resolution=self._resolution)
