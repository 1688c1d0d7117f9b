"""Packets of a network interface of Linux, in order of arrival."""

import errno
import os
import socket
import struct
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import numpy as np

from ..golden.packets.packet_layers import ETHERNET
from ..stream_files import TraceError
from . import capture_loops as loops
from .capture_reader import Packets, most_captured

_LINKS = {1: ETHERNET, 772: ETHERNET, 65534: 101}
# Numbers of Linux, of which Python does not name all.
_ALL, _OUTGOING, _PACKET, _HARDWARE = 0x0003, 4, 263, 0x8927
_TIMESTAMP, _ROOM = 35, 33
_ADD_MEMBERSHIP, _STATISTICS, _AUXILIARY, _PROMISCUOUS = 1, 6, 8, 1
_TAGGED, _TYPED = 1 << 4, 1 << 6
_TOGETHER, _WAIT = 1 << 12, 0.05
_ANCILLARY = 256


class LiveCapture(AbstractContextManager["LiveCapture"]):
    """Packets of an interface, as a pcap file with times in nanoseconds.

    Parameters
    ----------
    interface : str
    count : int, optional
        Packets after which the capture ends.
    seconds : float, optional
        Time after which the capture ends.

    Attributes
    ----------
    name, format : str
    missing, truncated, fraction
        As for a file without faults.
    damages : list of str
        The error that ended the capture, such as an interface that went down.

    Raises
    ------
    TraceError
        If the system is not Linux, or the link type of the interface is neither Ethernet nor IP.
    OSError
        If there is no such interface, or the user may not read from it.
    """

    format = "pcap"
    missing, truncated, fraction = 0, False, None

    def __init__(
        self, interface: str, *, count: int | None = None, seconds: float | None = None
    ) -> None:
        self.name, self.damages = interface, list[str]()
        self._left = count
        self._end = None if seconds is None else time.monotonic() + seconds
        self._lost = self._begun = 0
        if not hasattr(socket, "AF_PACKET"):
            raise TraceError("interface: must be one of Linux, but this is another system")
        with ExitStack() as stack:
            try:
                raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                self._socket = stack.enter_context(raw)
                self._prepare(interface)
            except OSError as error:
                number = error.errno or errno.ENODEV
                raise OSError(number, os.strerror(number), interface) from None
            stack.pop_all()

    def _prepare(self, interface: str) -> None:
        import fcntl  # Linux has this constant.

        one, number = self._socket, socket.if_nametoindex(interface)
        request = struct.pack("256s", interface.encode())
        (kind,) = struct.unpack_from("H", fcntl.ioctl(one, _HARDWARE, request), 16)
        if kind not in _LINKS:
            raise TraceError(f"{interface}: must be of Ethernet or IP, but is of type {kind}")
        self._link, self._loopback = _LINKS[kind], kind == 772
        one.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
        one.setsockopt(_PACKET, _AUXILIARY, 1)
        with suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, _ROOM, 1 << 25)
        membership = struct.pack("iHH8s", number, _PROMISCUOUS, 0, b"")
        one.setsockopt(_PACKET, _ADD_MEMBERSHIP, membership)
        one.settimeout(_WAIT)
        one.bind((interface, _ALL))

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    @property
    def lost(self) -> int:
        """Packets that the system dropped because its buffer was full."""
        found = self._socket.getsockopt(_PACKET, _STATISTICS, 8)
        self._lost += struct.unpack("II", found)[1]
        return self._lost

    def read(self) -> Packets | None:
        """Return the next packets; None at the end. The first result is empty."""
        if not self._begun:
            self._begun = 1
            head = (0xA1B23C4D, 2, 4, 0, 0, most_captured(self._link), self._link)
            buffer = np.frombuffer(struct.pack("<IHHiIII", *head), np.uint8).copy()
            return Packets(buffer, 0, len(buffer), np.empty((loops.ROWS, 0), np.int64))
        found: list[tuple[int, bytes]] = []
        try:
            self._collect(found)
        except KeyboardInterrupt:
            self._left = 0
        return self._packets(found) if found else None

    def _collect(self, found: list[tuple[int, bytes]]) -> None:
        """Wait for packets, and take further packets that follow soon."""
        until = None
        while self._left != 0 and len(found) < _TOGETHER:
            now = time.monotonic()
            if (self._end is not None and now >= self._end) or (until is not None and now >= until):
                return
            try:
                octets, more, _, address = self._socket.recvmsg(1 << 18, _ANCILLARY)
            except TimeoutError:
                continue
            except OSError as error:
                self.damages.append(f"{self.name}: {error.strerror}")
                self._left = 0
                return
            if self._loopback and address[2] == _OUTGOING:
                continue
            found.append(_whole(octets, more))
            self._left = None if self._left is None else self._left - 1
            until = until or now + _WAIT

    def _packets(self, found: list[tuple[int, bytes]]) -> Packets:
        table = np.zeros((loops.ROWS, len(found)), np.int64)
        sizes = np.array([len(octets) for _, octets in found])
        table[loops.TIME] = [moment for moment, _ in found]
        table[[loops.CAPTURED, loops.LENGTH]] = sizes
        table[loops.STOP] = np.cumsum(loops.RECORD_HEADER + sizes)
        table[loops.AT] = table[loops.STOP] - sizes
        table[loops.START] = table[loops.AT] - loops.RECORD_HEADER
        table[loops.LINK] = self._link
        buffer = bytearray()
        for moment, octets in found:
            buffer += struct.pack("<IIII", *divmod(moment, 10**9), len(octets), len(octets))
            buffer += octets
        return Packets(np.frombuffer(buffer, np.uint8), 0, len(buffer), table)


def _whole(octets: bytes, ancillary: list[tuple[int, int, bytes]]) -> tuple[int, bytes]:
    """Return the time of a packet, and its bytes with the tag that the system took from it."""
    moment = time.time_ns()
    data: Any
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMP):
            seconds, rest = struct.unpack_from("qq", data)
            moment = seconds * 10**9 + rest
        elif (level, kind) == (_PACKET, _AUXILIARY):
            status, *_, tag, tag_type = struct.unpack_from("IIIHHHH", data)
            if status & _TAGGED:
                tag_type = tag_type if status & _TYPED else 0x8100
                octets = octets[:12] + struct.pack(">HH", tag_type, tag) + octets[12:]
    return moment, octets
