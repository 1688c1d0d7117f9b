"""Packets as blocks of one section of pcapng, with times in nanoseconds."""

import struct
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from ..stream_files import TraceError
from . import capture_loops as loops
from .capture_reader import Packets

_SECTION = struct.pack("<IIIHHqI", loops.SECTION, 28, 0x1A2B3C4D, 1, 0, -1, 28)
_NAME, _RESOLUTION = 2, 9
_MOST_LINK = 0xFFFF


class PacketBlocks:
    """Writes packets as blocks of one section, behind the descriptions of their interfaces."""

    def __init__(self) -> None:
        self._head = _SECTION
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, link: int, name: str) -> int:
        """Return the number of an interface; the next blocks describe it if it is new."""
        if key not in self._numbers:
            if link > _MOST_LINK:
                raise TraceError(
                    f"{name}: must have a link type up to {_MOST_LINK:,} in pcapng, not {link:,}"
                )
            self._numbers[key] = len(self._numbers)
            self._head += _description(max(link, 0), name.encode(errors="replace")[:4096])
        return self._numbers[key]

    def write(
        self,
        source: NDArray[np.uint8],
        rows: NDArray[np.int64],
        times: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> Packets:
        """Return the packets of a table of `source`, with other times and interfaces, as blocks."""
        head, self._head = np.frombuffer(self._head, np.uint8), b""
        captured, size = rows[loops.CAPTURED], rows[loops.CAPTURED] + 35 & ~3
        stops = len(head) + np.cumsum(size)
        starts = stops - size
        buffer = np.zeros(stops[-1] if len(stops) else len(head), np.uint8)
        buffer[: len(head)] = head
        kind = np.full_like(size, 6)
        words = (kind, size, numbers, times >> 32, times & 0xFFFFFFFF, captured, rows[loops.LENGTH])
        heads = np.stack(words, axis=1).astype("<u4").view(np.uint8).reshape(-1)
        count = np.arange(len(size))
        for octets, places, sizes, targets in (
            (heads, 28 * count, np.full_like(size, 28), starts),
            (source, rows[loops.AT], captured, starts + 28),
            (heads, 28 * count + 4, np.full_like(size, 4), stops - 4),
        ):
            loops.copy_parts(octets, places, sizes, buffer, targets)
        table = rows.copy()
        table[[loops.START, loops.STOP, loops.AT]] = starts, stops, starts + 28
        return Packets(buffer, 0, len(buffer), table)


def _description(link: int, name: bytes) -> bytes:
    """Return the block of an interface with a name, whose times are in nanoseconds."""
    options = b"".join(
        struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
        for code, value in ((_NAME, name), (_RESOLUTION, b"\x09"), (0, b""))
    )
    size = struct.pack("<I", 20 + len(options))
    body = struct.pack("<HHI", link, 0, 0) + options
    return struct.pack("<I", loops.INTERFACE) + size + body + size
