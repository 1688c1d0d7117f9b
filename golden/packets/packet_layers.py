"""Find the headers of one packet in plain Python, or of many packets in a compiled loop."""

from collections.abc import Callable, Iterator
from enum import IntEnum, IntFlag
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation import core
from . import encapsulations as kinds
from .encapsulations import IP4 as IP4
from .encapsulations import IP6 as IP6
from .encapsulations import TAG_TYPES as TAG_TYPES
from .encapsulations import HeaderStart, Step, Tunnel, by_version, number, tag, typed

# Supported link types: bytes before layer 3, and the offset of the EtherType, or -1. Ethernet;
# Linux cooked capture, versions 1 and 2; BSD loopback; and raw IP. Numbers are those in capture
# files (https://www.tcpdump.org/linktypes.html).
LINK_HEADERS = {
    1: (14, 12), 113: (16, 14), 276: (20, 0), 0: (4, -1), 108: (4, -1), 12: (0, -1), 14: (0, -1),
    101: (0, -1), 228: (0, -1), 229: (0, -1),
}  # fmt: skip

Buffer = NDArray[np.uint8]
Packets = NDArray[np.int64]  # rows: offset in a buffer, captured length, length on the wire, link
Types = tuple[int, ...]
Tunnels = tuple[Tunnel, ...]
ETHERNET = 1  # link type of Ethernet
MAX_TAGS = 3  # maximum VLAN tags in hardware
MAX_PACKETS = 8  # maximum depth of nested IP packets


class Fault(IntFlag):
    MALFORMED = 1  # headers contradict each other, or exceed the packet
    CUT = 2  # the capture of the packet is incomplete


class Version(IntEnum):
    """Version of IP, or another type of packet."""

    # none of the other versions, or an unreadable header: the whole frame is digested
    OTHER = 0
    CONTROL = 2  # ARP, LLDP, spanning tree, IS-IS or ES-IS
    IP4 = 4
    IP6 = 6


class Reach(IntEnum):
    """Which headers the search for layer 3 skips."""

    HARDWARE = 0  # up to `MAX_TAGS` VLAN tags of `TAG_TYPES` before IP, like hardware
    LAYER2 = 1  # all tags, LLC and SNAP, MPLS with pseudo-wires, and PPPoE
    INNER = 2  # also tunnels: finds the innermost layer 3, at most `MAX_PACKETS` deep


# kinds of packets in hardware, by EtherType; all others are `Version.OTHER`
ETHER_TYPES = {IP4: Version.IP4, IP6: Version.IP6}
NO_NEXT_HEADER = 59  # IPv6 next header: nothing follows
HEADERS = {Version.IP4: 20, Version.IP6: 40}  # minimum header lengths in bytes
_COOKED_LLC = 4


class Layers(NamedTuple):
    version: Version
    begin: int  # first byte of layer 3; 0 for the whole frame
    end: int  # first byte after layer 3; the rest, such as padding, belongs to the frame
    tags: tuple[int, ...]  # VLAN identifiers, outermost first; none for the whole frame
    faults: Fault
    # first byte after layer 3 on the wire; above `end` if the capture is incomplete
    line_end: int
    kind: int = 0  # for `Version.CONTROL`, kind in `encapsulations`; otherwise 0


def layers(
    frame: bytes,
    length: int,
    link: int,
    reach: Reach = Reach.LAYER2,
    tag_types: Types = (),  # additional EtherTypes of VLAN tags, not with `Reach.HARDWARE`
    tunnels: Tunnels = (),  # with `Reach.INNER`; a tunnel that cannot be parsed ends the search
) -> Layers:
    """Find layer 3 of a packet of `length` bytes on the wire; `frame` holds the captured bytes."""
    cut = Fault.CUT if len(frame) < length else Fault(0)
    other = innermost = Layers(Version.OTHER, 0, len(frame), (), cut, length)
    steps = _steps(reach, tag_types, tunnels)
    try:
        start = _start(frame, length, link)
        for _ in range(MAX_PACKETS):
            start = _walk(frame, start, reach, steps)
            if start.kind not in SIZES:
                break
            innermost = _network(frame, start, cut)
            if reach != Reach.INNER or innermost.version == Version.CONTROL:
                break
            start = _inside(frame[start.at : innermost.end], start.at, innermost)
    except (IndexError, ValueError) as error:
        # Missing bytes were either not captured, or never existed.
        missing = isinstance(error, IndexError) and cut
        if innermost is other and not missing:
            return other._replace(faults=cut | Fault.MALFORMED)
    return innermost


def _start(frame: bytes, length: int, link: int) -> HeaderStart:
    if link not in LINK_HEADERS:
        return HeaderStart(kinds.NOTHING, 0, length)
    begin, type_at = LINK_HEADERS[link]
    if len(frame) < begin:
        raise IndexError(begin)
    if type_at < 0:
        return HeaderStart(by_version(frame, begin), begin, length)
    if link == ETHERNET:
        return typed(frame, type_at, HeaderStart(0, 0, length))
    kind = number(frame, type_at)
    return HeaderStart(kinds.LLC if kind == _COOKED_LLC else kind, begin, length)


@cache
def _steps(reach: Reach, tag_types: Types, tunnels: Tunnels) -> dict[int, Step]:
    if reach == Reach.HARDWARE:
        return dict.fromkeys(TAG_TYPES, tag)
    tags = dict.fromkeys((*TAG_TYPES, *kinds.MORE_TAG_TYPES, *tag_types), tag)
    return kinds.STEPS | {kinds.UDP_PORT + tunnel.port: tunnel.step for tunnel in tunnels} | tags


def _walk(frame: bytes, start: HeaderStart, reach: Reach, steps: dict[int, Step]) -> HeaderStart:
    """Skip headers until layer 3 or a header of an unknown kind."""
    limit = MAX_TAGS if reach == Reach.HARDWARE else len(frame)
    while start.kind not in SIZES and start.kind in steps and len(start.tags) < limit:
        start = steps[start.kind](frame[: start.end], start)
    if reach == Reach.HARDWARE and start.kind not in ETHER_TYPES:
        return start._replace(kind=kinds.NOTHING)
    return start


def _network(frame: bytes, start: HeaderStart, cut: Fault) -> Layers:
    at, end = start.at, start.end
    version, find_size = SIZES[start.kind]
    size = find_size(frame[at:end])
    faults = cut | Fault.MALFORMED if at + size > end else cut
    line_end = min(at + size, end) if size else end
    kind = start.kind if version == Version.CONTROL else 0
    return Layers(version, at, min(line_end, len(frame)), start.tags, faults, line_end, kind)


def _inside(layer3: bytes, begin: int, innermost: Layers) -> HeaderStart:
    """Find the content of an IP packet that is not a fragment (RFC 791, 2.3; RFC 8200, 4.5)."""
    if innermost.version == Version.IP4:
        protocol, at, part = layer3[9], 4 * (layer3[0] & 15), number(layer3, 6) & 0x3FFF > 0
    else:
        protocol, at, part = _behind_extensions(layer3)
    if part or at < 0:
        raise IndexError(at)
    return HeaderStart(kinds.IP_PROTOCOL + protocol, begin + at, innermost.line_end, innermost.tags)


def _ip4_size(layer3: bytes) -> int:
    """Return the total length of an IPv4 packet (RFC 791, 3.1); 0 if segmentation is offloaded."""
    layer3[19]
    size, header = number(layer3, 2), 4 * (layer3[0] & 15)
    if layer3[0] >> 4 != Version.IP4 or header < 20 or 0 < size < header:
        raise ValueError(header)
    return size


def _ip6_size(layer3: bytes) -> int:
    """Return the length of an IPv6 packet (RFC 8200, 3), or 0 for a jumbogram."""
    layer3[39]
    payload = number(layer3, 4)
    if layer3[0] >> 4 != Version.IP6:
        raise ValueError(layer3[0])
    return 40 + payload if payload or layer3[6] == NO_NEXT_HEADER else 0


def _lldp_size(layer3: bytes) -> int:
    """Return the length up to the end of the last LLDP TLV (IEEE 802.1AB, 8.2, 8.4 and 8.5.1)."""
    at = count = 0
    while (head := number(layer3, at)) or count < 3:
        count += 1
        if count <= 3 and head >> 9 != count:
            raise ValueError(head)
        at += 2 + (head & 511)
    return at + 2


# By kind of layer 3: the version, and a function that returns the length, 0 for up to the end. ARP
# has two pairs of addresses (RFC 826); LLC gives the length of spanning tree and IS-IS packets.
SIZES: dict[int, tuple[Version, Callable[[bytes], int]]] = {
    IP4: (Version.IP4, _ip4_size),
    IP6: (Version.IP6, _ip6_size),
    kinds.ARP: (Version.CONTROL, lambda layer3: 8 + 2 * (layer3[4] + layer3[5])),
    kinds.LLDP: (Version.CONTROL, _lldp_size),
    kinds.STP: (Version.CONTROL, lambda layer3: 0),
    kinds.IS_IS: (Version.CONTROL, lambda layer3: 0),
}


FRAGMENT = 44  # IPv6 fragment header
# IPv6 extension headers: the unit of their length field in bytes; it counts bytes after the first 8
EXTENSIONS = {0: 8, 43: 8, 60: 8, 135: 8, 51: 4, FRAGMENT: 0}
MAX_EXTENSIONS = 16  # maximum extension headers that are skipped


class Headers(NamedTuple):
    """Positions of the headers of a packet; `find_headers` returns a row for each field."""

    version: int
    begin: int  # first byte of layer 3
    end: int
    faults: int
    protocol: int  # protocol of layer 4; -1 if unknown
    layer4: int  # first byte of layer 4; -1 if there is none, as in a later fragment


def headers(frame: bytes, length: int, link: int, *search: Any) -> Headers:
    version, begin, end, _, faults, *_ = layers(frame, length, link, *search)
    protocol, layer4 = find_layer4(frame[begin:end], version)
    at = begin + layer4 if layer4 >= 0 else -1
    return Headers(version, begin, end, faults, protocol, at)


def find_layer4(layer3: bytes, version: Version) -> tuple[int, int]:
    """Return the protocol of layer 4 and its offset in layer 3; -1 stands for a missing value."""
    if version == Version.IP4:
        first = number(layer3, 6) & 0x1FFF == 0
        return layer3[9], 4 * (layer3[0] & 15) if first else -1
    if version == Version.IP6:
        return _behind_extensions(layer3)[:2]
    return -1, -1


def _behind_extensions(layer3: bytes) -> tuple[int, int, bool]:
    """Return the protocol and offset of layer 4, and whether the packet is a fragment.

    The offset is -1 if layer 4 is missing.
    """
    kind, at, part = layer3[6], HEADERS[Version.IP6], False
    for _ in range(MAX_EXTENSIONS):
        if kind not in EXTENSIONS:
            return kind, at, part
        if at + 8 > len(layer3):
            return kind, -1, part
        if kind == FRAGMENT:
            fragment = number(layer3, at + 2)
            part = part or fragment & 0xFFF9 > 0
            if fragment & 0xFFF8:
                return layer3[at], -1, part
        kind, at = layer3[at], at + 8 + EXTENSIONS[kind] * layer3[at + 1]
    return kind, -1, part


def frames(buffer: Buffer, packets: Packets) -> Iterator[tuple[bytes, int, int]]:
    """Yield the captured bytes, length on the wire and link type of each packet in a buffer."""
    for at, captured, length, link in packets.T.tolist():
        if not (at >= 0 and 0 <= captured <= min(len(buffer) - at, length)):
            raise ValueError("packets: must be inside the buffer")
        yield buffer[at : at + captured].tobytes(), length, link


def find_headers(
    buffer: Buffer,
    packets: Packets,
    reach: Reach = Reach.LAYER2,
    tag_types: Types = (),
    tunnels: Tunnels = (),
) -> NDArray[np.int64]:
    """Find the headers of n packets; the rows are the fields of `Headers`, shape (6, n)."""
    table = np.empty((len(Headers._fields), packets.shape[1]), np.int64)
    if (compiled := core()) is not None:
        compiled.packet_headers(
            buffer, packets, int(reach), *search_tables(tag_types, tunnels), table
        )
    else:
        for number, packet in enumerate(frames(buffer, packets)):
            table[:, number] = headers(*packet, reach, tag_types, tunnels)
    return table


def search_tables(
    tag_types: Types, tunnels: Tunnels
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows = [(tunnel.port, tunnel.skip, kinds.CONTENTS.index(tunnel.content)) for tunnel in tunnels]
    return np.array(tag_types, np.int64), np.array(rows, np.int64)


# Search for the innermost layer 3 in hardware: see `inner_layers`.

MAX_READ = 192  # bytes of a frame that hardware searches for the innermost layer 3
MAX_HEADERS = 8  # maximum headers that hardware skips
# assumed end of a frame of `MAX_READ` bytes or more
UNKNOWN_END = (1 << 17) - 1
IP6_NEXT = 0x50000  # added to the number of an IPv6 extension header to make a kind


def _inner_gre(octets: bytes, start: HeaderStart) -> HeaderStart:
    if octets[start.at] & 0x40:
        raise ValueError(octets[start.at])
    return kinds.STEPS[kinds.IP_PROTOCOL + 47](octets, start)


def _extension(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip an IPv6 extension header of a packet that is not a fragment (RFC 8200, 4 and 4.5)."""
    protocol, at = start.kind - IP6_NEXT, start.at
    octets[at + 7]
    if protocol == FRAGMENT and number(octets, at + 2) & 0xFFF9:
        raise ValueError(at)
    size = 8 + EXTENSIONS[protocol] * octets[at + 1]
    return start._replace(kind=_behind_ip6(octets[at]), at=at + size)


def _behind_ip6(protocol: int) -> int:
    return (IP6_NEXT if protocol in EXTENSIONS else kinds.IP_PROTOCOL) + protocol


# functions of the headers that hardware skips, by kind, without IP and tags
PASSED: dict[int, Step] = {
    **{kind: kinds.STEPS[kind] for kind in (
        kinds.MPLS, kinds.MPLS + 1, kinds.UNTYPED, kinds.CONTROL_WORD, kinds.GTP_EXTENSION,
        kinds.IP_PROTOCOL + 17, kinds.IP_PROTOCOL + 137,
        kinds.UDP_PORT + 4789, kinds.UDP_PORT + 8472, kinds.UDP_PORT + 2152,
    )},
    kinds.IP_PROTOCOL + 47: _inner_gre,
    **dict.fromkeys((IP6_NEXT + protocol for protocol in EXTENSIONS), _extension),
}  # fmt: skip


def inner_layers(frame: bytes) -> Layers:
    """Find the innermost layer-3 packet of a complete Ethernet frame, as the hardware parser does.

    The result is that of `layers` with `Reach.INNER`, except:

    - Hardware parses at most `MAX_HEADERS` headers in the first `MAX_READ` bytes of a frame. Layer
      3 is the last IP packet reached.
    - Hardware parses VLAN tags, MPLS labels, IP with extension headers, UDP, VXLAN, GRE without
      routing, and GTP-U. Other protocols end the search. Only IP counts as layer 3.
    - While hardware parses the headers, the length of a frame of `MAX_READ` bytes or more is not
      yet known. So in content without a type field, hardware accepts any length in an IP header.

    Each of these counts as one header: a tag, a label, an IP, UDP, VXLAN, GRE or GTP-U header, an
    IPv6 or GTP-U extension header, the end of the GTP-U extension headers, a control word, and the
    first nibble of content without a type field. Ethernet addresses and the EtherType do not
    count.
    """
    *_, (_, innermost) = inner_headers(frame)
    return innermost


def inner_headers(frame: bytes) -> Iterator[tuple[int, Layers]]:
    """Yield each header's kind, starting with `BRIDGED`, and the innermost layer 3 found so far."""
    head, whole = frame[:MAX_READ], len(frame) < MAX_READ
    other = innermost = Layers(Version.OTHER, 0, len(frame), (), Fault(0), len(frame))
    yield kinds.BRIDGED, innermost
    start = HeaderStart(0, 0, len(frame) if whole else UNKNOWN_END)
    try:
        start = typed(head, LINK_HEADERS[ETHERNET][1], start)
        for _ in range(MAX_HEADERS):
            kind, octets = start.kind, head[: start.end]
            if kind in (IP4, IP6):
                innermost, start = _inner_network(frame, octets, start)
                yield kind, innermost
                start = _inner_content(octets, start)
            elif kind in TAG_TYPES and len(start.tags) < MAX_TAGS:
                start = tag(octets, start)
                yield kind, innermost
            elif kind in PASSED:
                start = _typeless(head, PASSED[kind](octets, start))
                yield kind, innermost
            else:
                break
    except (IndexError, ValueError) as error:
        if innermost is other and (whole or isinstance(error, ValueError)):
            innermost = other._replace(faults=Fault.MALFORMED)
        yield kinds.NOTHING, innermost


def _inner_network(frame: bytes, octets: bytes, start: HeaderStart) -> tuple[Layers, HeaderStart]:
    """Return the layer-3 header at `start`, and `start` cut off at the end of its packet."""
    version, find_size = SIZES[start.kind]
    at, size = start.at, find_size(octets[start.at :])
    end = min(at + size, start.end) if size else start.end
    faults = Fault.MALFORMED if at + size > min(start.end, len(frame)) else Fault(0)
    last = min(end, len(frame))
    return Layers(version, at, last, start.tags, faults, last), start._replace(end=end)


def _inner_content(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Find the payload of an IP packet that is not a fragment (RFC 791, 2.3)."""
    at = start.at
    if start.kind == IP6:
        kind, size = _behind_ip6(octets[at + 6]), HEADERS[Version.IP6]
    else:
        kind, size = kinds.IP_PROTOCOL + octets[at + 9], 4 * (octets[at] & 15)
        if number(octets, at + 6) & 0x3FFF:
            raise ValueError(at)
    return _typeless(octets, start._replace(kind=kind, at=at + size))


def _typeless(head: bytes, start: HeaderStart) -> HeaderStart:
    """Skip an Ethernet header, and replace the protocol number of IP by its EtherType."""
    if start.kind == kinds.BRIDGED:
        return typed(head[: start.end], start.at + LINK_HEADERS[ETHERNET][1], start)
    inside = {kinds.IP_PROTOCOL + 4: IP4, kinds.IP_PROTOCOL + 41: IP6}
    return start._replace(kind=inside.get(start.kind, start.kind))
