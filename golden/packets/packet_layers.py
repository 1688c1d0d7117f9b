"""Where the headers of packets are: one packet in plain Python, or many in a compiled loop."""

from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation import core

LINK_HEADERS = {
    1: (14, 12), 113: (16, 14), 276: (20, 0), 0: (4, -1), 108: (4, -1), 12: (0, -1), 14: (0, -1),
    101: (0, -1), 228: (0, -1), 229: (0, -1),
}  # fmt: skip
"""Link types whose packets have a layer 3: bytes before it, and where the EtherType is, or -1.

Ethernet; Linux cooked capture, versions 1 and 2; loopback of BSD; and raw IP. Numbers are those
of capture files (https://www.tcpdump.org/linktypes.html).
"""

ETHERNET = 1
"""Link type of Ethernet."""

TAG_TYPES = (0x8100, 0x88A8, 0x9100)
"""EtherTypes of VLAN tags."""

MOST_TAGS = 3
"""VLAN tags that are understood; a packet that has more is compared as a whole frame."""


class Fault(IntFlag):
    """What is wrong with a packet."""

    MALFORMED = 1
    """Its headers contradict each other, or are longer than the packet."""
    CUT = 2
    """The capture does not have all of its bytes."""


class Version(IntEnum):
    """What a packet is."""

    OTHER = 0
    """No packet of IP, or one whose header cannot be read: its digest takes the whole frame."""
    IP4 = 4
    IP6 = 6


ETHER_TYPES = {0x0800: Version.IP4, 0x86DD: Version.IP6}
"""What the packets of an EtherType are, those of others being `Version.OTHER`."""

NO_NEXT_HEADER = 59
"""Next header of IPv6 after which nothing follows."""

HEADERS = {Version.IP4: 20, Version.IP6: 40}
"""Bytes of the shortest header of each version."""


class Layers(NamedTuple):
    """Where layer 3 of a packet is."""

    version: Version
    begin: int
    """First byte of layer 3; 0 for the whole frame."""
    end: int
    """First byte past it: what follows, such as padding, belongs to the frame."""
    tags: tuple[int, ...]
    """VLAN identifiers, outermost first; none for the whole frame."""
    faults: Fault
    line_end: int
    """First byte past it on the line; after `end` if the capture does not have all of it."""


def layers(frame: bytes, length: int, link: int) -> Layers:
    """Find layer 3 of a packet.

    Parameters
    ----------
    frame : bytes
        What was captured of it.
    length : int
        Bytes that it had on the line.
    link : int
        Type of the link, one of `LINK_HEADERS` or any other.
    """
    cut = Fault.CUT if len(frame) < length else Fault(0)
    other = Layers(Version.OTHER, 0, len(frame), (), cut, length)
    try:
        begin, version, tags = _network(frame, link)
        if version == Version.OTHER:
            return other
        size = _size(frame[begin:], version)
    except IndexError:
        # What is missing was not captured, or never there.
        return other._replace(faults=cut or Fault.MALFORMED)
    except ValueError:
        return other._replace(faults=cut | Fault.MALFORMED)
    if begin + size > length:
        cut |= Fault.MALFORMED
    line_end = min(begin + size, length) if size else length
    return Layers(version, begin, min(line_end, len(frame)), tags, cut, line_end)


def _network(frame: bytes, link: int) -> tuple[int, Version, tuple[int, ...]]:
    """Return where the header of layer 3 begins, what it should be, and the VLAN identifiers."""
    if link not in LINK_HEADERS:
        return 0, Version.OTHER, ()
    begin, place = LINK_HEADERS[link]
    if len(frame) < begin:
        raise IndexError(begin)
    if place < 0:
        return begin, {4: Version.IP4, 6: Version.IP6}.get(frame[begin] >> 4, Version.OTHER), ()
    tags: list[int] = []
    kind = _number(frame, place)
    while kind in TAG_TYPES and len(tags) < MOST_TAGS:
        tags.append(_number(frame, begin) & 0xFFF)
        kind = _number(frame, begin + 2)
        begin += 4
    return begin, ETHER_TYPES.get(kind, Version.OTHER), tuple(tags)


def _size(layer3: bytes, version: Version) -> int:
    """Return the bytes of layer 3 as its header has them, 0 if it does not say.

    A sender that leaves the division into packets to its adapter writes 0, and so does one of a
    jumbogram. A header of IPv6 that nothing follows has 0 as well.
    """
    octets = layer3[: HEADERS[version]]
    octets[HEADERS[version] - 1]
    if octets[0] >> 4 != version:
        raise ValueError(version)
    if version == Version.IP6:
        payload = _number(octets, 4)
        return 40 + payload if payload or octets[6] == NO_NEXT_HEADER else 0
    size, header = _number(octets, 2), 4 * (octets[0] & 15)
    if header < 20 or 0 < size < header:
        raise ValueError(header)
    return size


def _number(octets: bytes, at: int) -> int:
    return octets[at] << 8 | octets[at + 1]


FRAGMENT = 44
"""Extension header of IPv6 for a fragment."""

EXTENSIONS = {0: 8, 43: 8, 60: 8, 135: 8, 51: 4, FRAGMENT: 0}
"""Extension headers of IPv6; the unit of their length in bytes, which counts from byte 8 on."""

MOST_EXTENSIONS = 16
"""Extension headers that are followed."""


class Headers(NamedTuple):
    """Where the headers of a packet are: rows of the table of `find_headers`."""

    version: int
    begin: int
    """First byte of layer 3."""
    end: int
    faults: int
    protocol: int
    """Protocol of layer 4, -1 if it is unknown."""
    layer4: int
    """First byte of layer 4, -1 where there is none, such as in a later fragment."""


def headers(frame: bytes, length: int, link: int) -> Headers:
    """Find the headers of a packet; parameters are as for `layers`."""
    place = layers(frame, length, link)
    layer3, protocol, layer4 = frame[place.begin : place.end], -1, -1
    if place.version == Version.IP4:
        first = _number(frame, place.begin + 6) & 0x1FFF == 0
        protocol = frame[place.begin + 9]
        layer4 = place.begin + 4 * (frame[place.begin] & 15) if first else -1
    elif place.version == Version.IP6:
        protocol, at = _behind_extensions(layer3)
        layer4 = place.begin + at if at >= 0 else -1
    return Headers(place.version, place.begin, place.end, place.faults, protocol, layer4)


def _behind_extensions(layer3: bytes) -> tuple[int, int]:
    """Return protocol and place of layer 4 of a packet of IPv6; -1 if it is not there."""
    kind, at = layer3[6], HEADERS[Version.IP6]
    for _ in range(MOST_EXTENSIONS):
        if kind not in EXTENSIONS:
            return kind, at
        if at + 8 > len(layer3):
            return kind, -1
        if kind == FRAGMENT and _number(layer3, at + 2) & 0xFFF8:
            return layer3[at], -1
        kind, at = layer3[at], at + 8 + EXTENSIONS[kind] * layer3[at + 1]
    return kind, -1


def frames(
    buffer: NDArray[np.uint8], packets: NDArray[np.int64]
) -> Iterator[tuple[bytes, int, int]]:
    """Yield the captured bytes, the bytes on the line, and the link of packets of a buffer.

    Raises
    ------
    ValueError
        If a packet is not inside the buffer.
    """
    for at, captured, length, link in packets.T.tolist():
        if not (at >= 0 and 0 <= captured <= min(len(buffer) - at, length)):
            raise ValueError("packets: must be inside the buffer")
        yield buffer[at : at + captured].tobytes(), length, link


def find_headers(buffer: NDArray[np.uint8], packets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the headers of packets.

    Parameters
    ----------
    buffer : ndarray of uint8
    packets : ndarray of int64, shape (4, n)
        Of each packet: place in the buffer, bytes captured, bytes on the line, type of the link.

    Returns
    -------
    ndarray of int64, shape (6, n)
        A row for each field of `Headers`.
    """
    table = np.empty((len(Headers._fields), packets.shape[1]), np.int64)
    if (compiled := core()) is not None:
        compiled.packet_headers(buffer, packets, table)
    else:
        for number, packet in enumerate(frames(buffer, packets)):
            table[:, number] = headers(*packet)
    return table
