"""Capture packets live from Linux network interfaces, and send packets to one."""

import errno
import math
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..golden.files import named
from ..golden.packets.packet_layers import ETHERNET
from ..stream_files import TraceError
from . import capture_loops as loops
from .capture_files import PacketBlocks
from .capture_reader import Packets, max_captured

ANY = "any"  # name that stands for all interfaces
_LOOPBACK = 772
_LINKS = {1: ETHERNET, _LOOPBACK: ETHERNET, 65534: 101}
# Linux constants; some are missing in Python.
_ALL, _OUTGOING, _PACKET, _HARDWARE = 0x0003, 4, 263, 0x8927
_GET_LINK, _LOWER, _LOWER_NAMESPACE = 18, 5, 37
_TIMESTAMPS, _ROOM = 37, 33
_ON_ARRIVAL = 1 << 3 | 1 << 4  # software timestamps of received packets
_ADD_MEMBERSHIP, _STATISTICS, _AUXILIARY, _PROMISCUOUS = 1, 6, 8, 1
_TAGGED, _TYPED = 1 << 4, 1 << 6
_TOGETHER, _WAIT, _PAUSE = 1 << 12, 0.05, 0.001
_LATE = 20 * 10**6  # nanoseconds from a packet's time until its socket delivers it, under load
_ANCILLARY = 256
_PROBE = 1.0  # seconds until a capture begins without timestamps
_SECOND = 10**9


class _Taken(NamedTuple):
    time: int
    octets: bytes
    interface: str
    link: int


class LiveCapture(AbstractContextManager["LiveCapture"]):
    """Captures packets live, as pcap from a single interface and as pcapng from several."""

    missing, truncated, fraction = 0, False, None

    def __init__(
        self,
        interfaces: Sequence[str],
        *,
        omitted: Container[str] = (),  # interfaces that `ANY` leaves out
        count: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.name, self.damages = ", ".join(interfaces), list[str]()
        self._omitted = omitted
        # Packets left out by `ANY`: counts per interface with another link type.
        self.unknown = Counter[str]()
        self._left = math.inf if count is None else count
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self._lost = self._begun = self._drained = 0
        self._waiting: list[_Taken] = []
        self._ended = set[str]()
        self._room = memoryview(bytearray(1 << 18))
        _require_linux("--interface")
        if len({*interfaces}) < len(interfaces) or (ANY in interfaces and len(interfaces) > 1):
            rule = "must be different names, or only 'any'"
            raise TraceError(f"--interface: {rule}, not {self.name}")
        several = len(interfaces) > 1 or ANY in interfaces
        self._blocks = PacketBlocks() if several else None
        self.format = "pcapng" if several else "pcap"
        with ExitStack() as stack:
            stack.enter_context(_timestamps())
            self._sockets = {self._open(stack, interface): interface for interface in interfaces}
            self._all = [*self._sockets]
            self._stack = stack.pop_all()

    def _open(self, stack: ExitStack, interface: str) -> socket.socket:
        with named(interface):
            # With protocol 0, nothing arrives before the socket is bound.
            protocol = socket.htons(_ALL) if interface == ANY else 0
            opened = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, protocol))
            opened.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, _ON_ARRIVAL)
            opened.setsockopt(_PACKET, _AUXILIARY, 1)
            with suppress(OSError):
                opened.setsockopt(socket.SOL_SOCKET, _ROOM, 1 << 25)
            opened.setblocking(False)
            if interface == ANY:
                return opened
            self._link = _link_of(opened, interface)
            number = socket.if_nametoindex(interface)
            if self._blocks is not None:
                self._blocks.number((interface, self._link), self._link, interface)
            membership = struct.pack("iHH8s", number, _PROMISCUOUS, 0, b"")
            opened.setsockopt(_PACKET, _ADD_MEMBERSHIP, membership)
            opened.bind((interface, _ALL))
        return opened

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def lost(self) -> int:
        """The number of packets that the system dropped because a buffer was full."""
        for opened in self._all:
            self._lost += struct.unpack("II", opened.getsockopt(_PACKET, _STATISTICS, 8))[1]
        return self._lost

    def read(self, stop: Callable[[], object]) -> Packets | None:
        """Return the next packets, or None at the end; a true result of `stop` ends the capture."""
        if not self._begun:
            self._begun = 1
            empty = np.empty((loops.ROWS, 0), np.int64)
            if self._blocks is not None:
                return self._blocks.write(np.empty(0, np.uint8), empty, empty[0], empty[0])
            head = (0xA1B23C4D, 2, 4, 0, 0, max_captured(self._link), self._link)
            buffer = np.frombuffer(struct.pack("<IHHiIII", *head), np.uint8).copy()
            return Packets(buffer, 0, len(buffer), empty)
        taken, over = list[_Taken](), False
        while not taken and not over:
            self._collect(stop)
            if stop() or time.monotonic() >= self._end:
                # Read everything that has arrived; a process that lags has a backlog.
                self._drain(math.inf)
                self._sockets.clear()
            over = len(self._waiting) >= self._left or not self._sockets
            taken = self._release(over)
        return self._packets(taken) if taken else None

    def _collect(self, stop: Callable[[], object]) -> None:
        until, limit = math.inf, min(len(self._waiting) + _TOGETHER, self._left)
        while self._sockets and len(self._waiting) < limit:
            now = time.monotonic()
            if stop() or now >= min(self._end, until):
                return
            ready = self._waiting or self._ended
            if ready or select.select([*self._sockets], [], [], _WAIT)[0]:
                # Ordering packets from several sockets requires all that have arrived.
                self._drain(_TOGETHER if len(self._all) == 1 else math.inf)
                until = min(until, now + _WAIT)
                # A short wait makes batches larger.
                time.sleep(_PAUSE)

    def _drain(self, limit: float) -> None:
        self._drained = time.time_ns()
        for opened, interface in [*self._sockets.items()]:
            try:
                while len(self._waiting) < limit:
                    # A packet of the future is older: it came before the clock was set back.
                    if self._drained < self._take(opened) <= time.time_ns():
                        break
            except BlockingIOError:
                if interface in self._ended:
                    self._ended.remove(interface)
                    del self._sockets[opened]
            except OSError as error:
                # The error is reported before packets that arrived earlier.
                self._ended.add(interface)
                self.damages.append(f"{interface}: {error.strerror}")

    def _take(self, opened: socket.socket) -> int:
        """Receive a packet; return its timestamp, or 0 if it has none."""
        size, more, _, address = opened.recvmsg_into([self._room], _ANCILLARY)
        interface, _, kind, hardware, *_ = address
        stamp, octets = 0, bytes(self._room[:size])
        data: Any
        for level, form, data in more:
            if (level, form) == (socket.SOL_SOCKET, _TIMESTAMPS):
                seconds, rest = struct.unpack_from("qq", data)
                stamp = seconds * _SECOND + rest
            elif (level, form) == (_PACKET, _AUXILIARY):
                status, *_, tag, tag_type = struct.unpack_from("IIIHHHH", data)
                if status & _TAGGED:
                    # The system has removed the VLAN tag.
                    tag_type = tag_type if status & _TYPED else 0x8100
                    octets = octets[:12] + struct.pack(">HH", tag_type, tag) + octets[12:]
        if interface in self._omitted:
            return stamp
        if hardware not in _LINKS:
            self.unknown[interface] += 1
        elif hardware != _LOOPBACK or kind != _OUTGOING:
            packet = _Taken(stamp or time.time_ns(), octets, interface, _LINKS[hardware])
            self._waiting.append(packet)
        return stamp

    def _release(self, every: bool) -> list[_Taken]:
        """Remove and return packets in time order; unless `every`, keep those still in doubt."""
        taken, self._waiting = self._waiting, []
        if len(self._all) > 1:
            taken.sort(key=lambda packet: packet.time)
            # A time far ahead dates from before the clock was set back.
            recent = range(self._drained - _LATE, self._drained + _SECOND)
            while taken and not every and taken[-1].time in recent:
                self._waiting.append(taken.pop())
        if len(taken) > self._left:
            del taken[int(self._left) :]
        self._left -= len(taken)
        return taken

    def _packets(self, taken: list[_Taken]) -> Packets:
        table = np.zeros((loops.ROWS, len(taken)), np.int64)
        sizes = np.array([len(packet.octets) for packet in taken])
        table[loops.TIME] = [packet.time for packet in taken]
        table[loops.LINK] = [packet.link for packet in taken]
        table[[loops.CAPTURED, loops.LENGTH]] = sizes
        if self._blocks is not None:
            table[loops.FROM] = [
                self._blocks.number((packet.interface, packet.link), packet.link, packet.interface)
                for packet in taken
            ]
            table[loops.AT] = np.cumsum(sizes) - sizes
            source = np.frombuffer(b"".join(packet.octets for packet in taken), np.uint8)
            return self._blocks.write(source, table, table[loops.TIME], table[loops.FROM])
        table[loops.STOP] = np.cumsum(loops.RECORD_HEADER + sizes)
        table[loops.AT] = table[loops.STOP] - sizes
        table[loops.START] = table[loops.AT] - loops.RECORD_HEADER
        buffer = bytearray()
        for moment, octets, *_ in taken:
            buffer += struct.pack("<IIII", *divmod(moment, _SECOND), len(octets), len(octets))
            buffer += octets
        return Packets(np.frombuffer(buffer, np.uint8), 0, len(buffer), table)


class LiveOutput(AbstractContextManager["LiveOutput"]):
    def __init__(self, interface: str) -> None:
        self.figures: dict[str, Any] = {"interface": interface}
        self.figures |= dict.fromkeys(("sent", "cut", "other_link", "other_length"), 0)
        # Error that stopped the output, such as that the interface went down.
        self.damages: list[str] = []
        _require_linux("--to")
        with ExitStack() as stack, named(interface):
            self._socket = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
            self._link = _link_of(self._socket, interface)
            self._socket.bind((interface, 0))
            stack.pop_all()

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def send(self, packets: Packets, kept: NDArray[np.bool_]) -> None:
        for at, captured, length, link in packets.locations[:, kept].T.tolist():
            if self.damages:
                return
            if captured < length:
                self.figures["cut"] += 1
            elif link != self._link:
                self.figures["other_link"] += 1
            else:
                self._send(packets.buffer.data[at : at + captured])

    def _send(self, frame: memoryview) -> None:
        while True:
            try:
                self._socket.send(frame)
                self.figures["sent"] += 1
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    # The interface's queue is full.
                    time.sleep(_PAUSE)
                    continue
                if error.errno in (errno.EMSGSIZE, errno.EINVAL):
                    self.figures["other_length"] += 1
                else:
                    self.damages.append(f"{self.figures['interface']}: {error.strerror}")
            return


def getting(interface: str) -> set[str]:
    """Return the interfaces that can capture packets sent to `interface`: itself, and its link."""
    _require_linux("--to")
    with named(interface), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        number, attributes, at = socket.if_nametoindex(interface), {}, 32
        # Netlink header, then family, type, index, flags and change mask.
        netlink.send(struct.pack("=IHHIIBxHiII", at, _GET_LINK, 1, 0, 0, 0, 0, number, 0, 0))
        answer = netlink.recv(1 << 16)
        while at + 4 <= len(answer):
            size, kind = struct.unpack_from("=HH", answer, at)
            attributes[kind] = answer[at + 4 : at + size]
            at += size + 3 & ~3
        if _LOWER not in attributes or _LOWER_NAMESPACE in attributes:
            return {interface}
        return {interface, socket.if_indextoname(int.from_bytes(attributes[_LOWER], sys.byteorder))}


def _timestamps() -> socket.socket:
    """Return an open socket for which the system has begun to record when packets arrive."""
    # It begins some time after a socket asks for it; packets to oneself show when. Without a
    # loopback interface, the first packets captured may lack timestamps.
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, _ON_ARRIVAL)
        opened.bind(("127.0.0.1", 0))
        opened.connect(opened.getsockname())
        opened.settimeout(_PROBE)
        until = time.monotonic() + _PROBE
        stamps: list[Any] = []
        while not stamps and time.monotonic() < until:
            opened.send(b"")
            stamps = opened.recvmsg(0, _ANCILLARY)[1]
            time.sleep(0 if stamps else _PAUSE)
    return opened


def _require_linux(option: str) -> None:
    if not hasattr(socket, "AF_PACKET"):
        raise TraceError(f"{option} needs Linux")


def _link_of(opened: socket.socket, interface: str) -> int:
    import fcntl  # Linux has this constant.

    request = struct.pack("256s", interface.encode())
    (kind,) = struct.unpack_from("H", fcntl.ioctl(opened, _HARDWARE, request), 16)
    if kind not in _LINKS:
        raise TraceError(f"{interface}: hardware type {kind} is neither Ethernet nor IP")
    return _LINKS[kind]
