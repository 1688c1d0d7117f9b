"""Generated packets: UDP over IPv4 over Ethernet, all distinct."""

import numpy as np
from numpy.typing import NDArray

from ..golden.packets.packet_layers import ETHERNET
from . import capture_loops as loops
from .capture_reader import Packets

# Frame lengths without checksum of the simple IMIX, and their frequencies.
SIZES, SHARES = (60, 590, 1514), (7 / 12, 4 / 12, 1 / 12)
BEGIN = 1_700_000_000 * 10**9  # time of the first packet, in nanoseconds since the epoch
_FLOWS = 1000
_TOGETHER = 1 << 12
_IP = 14
_PORTS = 34


class MadePackets:
    name = "generator"

    def __init__(self, count: int, *, rate: float = 100_000.0, seed: int = 1) -> None:
        # Packets arrive at random times, `rate` per second on average.
        self.packets = 0
        self._count = count
        self._rate = rate
        self._time = BEGIN
        self._random = np.random.default_rng(seed)
        self._flows = self._random.integers(0, 256, (_FLOWS, 12), np.uint8)

    @property
    def fraction(self) -> float:
        return self.packets / self._count

    def read(self) -> Packets | None:
        count = min(_TOGETHER, self._count - self.packets)
        if not count:
            return None
        sizes = self._random.choice(SIZES, count, p=SHARES).astype(np.int64)
        end = int(sizes.sum())
        table = np.empty((loops.ROWS, count), np.int64)
        table[loops.STOP] = np.cumsum(sizes)
        table[[loops.START, loops.AT]] = table[loops.STOP] - sizes
        table[[loops.CAPTURED, loops.LENGTH]] = sizes
        table[loops.LINK] = ETHERNET
        table[loops.FROM] = 0
        gaps = self._random.exponential(10**9 / self._rate, count).astype(np.int64)
        table[loops.TIME] = self._time + np.cumsum(gaps)
        self._time = int(table[loops.TIME, -1])
        # Draw eight more bytes than needed, so that a seed still gives the same packets as before.
        buffer = np.frombuffer(self._random.bytes(end + 8), np.uint8).copy()
        self._write_headers(buffer, table[loops.AT], sizes)
        self.packets += count
        return Packets(buffer, 0, end, table)

    def _write_headers(
        self, buffer: NDArray[np.uint8], at: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        flows = self._flows[self._random.integers(0, _FLOWS, len(at))]
        number = self.packets + np.arange(len(at))
        header = np.zeros((len(at), 42), np.int64)
        header[:, [0, 6]] = 2
        header[:, 5], header[:, 11] = 1, 2
        header[:, 12] = 8
        header[:, _IP], header[:, _IP + 8], header[:, _IP + 9] = 0x45, 64, 17
        _put(header, _IP + 2, sizes - _IP)
        _put(header, _IP + 4, number)
        header[:, _IP + 12 : _PORTS + 4] = flows
        words = header[:, _IP:_PORTS:2] * 256 + header[:, _IP + 1 : _PORTS : 2]
        total = words.sum(axis=1)
        total = (total & 0xFFFF) + (total >> 16)
        _put(header, _IP + 10, ~((total & 0xFFFF) + (total >> 16)))
        _put(header, _PORTS + 4, sizes - _PORTS)
        # A UDP checksum of zero means that there is none.
        buffer[at[:, None] + np.arange(42)] = header
        # The packet number makes every packet distinct, even the shortest.
        for byte in range(8):
            buffer[at + 42 + byte] = number >> 8 * byte & 0xFF


def _put(header: NDArray[np.int64], at: int, values: NDArray[np.int64]) -> None:
    header[:, at], header[:, at + 1] = values >> 8 & 0xFF, values & 0xFF
