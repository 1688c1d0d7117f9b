"""Packets that benches and tests make, byte by byte."""

import struct
from collections.abc import Iterable

MACS = bytes(range(12))  # addresses of Ethernet


def ethernet(kind: int, payload: bytes, *, tags: Iterable[int] = (), macs: bytes = MACS) -> bytes:
    """Return a frame of Ethernet with VLAN tags."""
    shown = b"".join(struct.pack(">HH", 0x8100, tag) for tag in tags)
    return macs + shown + struct.pack(">H", kind) + payload


IP4_FIELDS = {"tos": 0, "number": 1, "offset": 0, "ttl": 64, "protocol": 17, "checksum": 0}
"""Fields of a header of IPv4, in order, with their defaults."""


def ip4(
    payload: bytes,
    *,
    options: bytes = b"",
    size: int | None = None,
    source: bytes = b"\x0a\0\0\1",
    target: bytes = b"\x0a\0\0\2",
    **fields: int,
) -> bytes:
    """Return a packet of IPv4; `size` replaces its length, and `fields` are `IP4_FIELDS`."""
    tos, number, offset, ttl, protocol, checksum = (IP4_FIELDS | fields).values()
    words = 5 + len(options) // 4
    size = 4 * words + len(payload) if size is None else size
    head = struct.pack(
        ">BBHHHBBH", 0x40 | words, tos, size, number, offset, ttl, protocol, checksum
    )
    return head + source + target + options + payload


def ip6(
    payload: bytes,
    *,
    limit: int = 64,
    traffic: int = 0,
    protocol: int = 17,
    size: int | None = None,
    source: bytes = bytes(16),
) -> bytes:
    """Return a packet of IPv6; `size` replaces its length."""
    size = len(payload) if size is None else size
    head = struct.pack(">IHBB", 6 << 28 | traffic << 20, size, protocol, limit)
    return head + source + bytes(15) + b"\1" + payload


def udp(payload: bytes, source: int = 1000, target: int = 2000) -> bytes:
    """Return a datagram of UDP without a checksum."""
    return struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload
