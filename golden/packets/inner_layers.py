"""Innermost layer 3 of an Ethernet frame within the limits of hardware.

The result is the result of `packet_layers.layers` with `Reach.INNER`, except:

- Hardware parses at most `MOST_HEADERS` headers, and reads the first `MOST_READ` bytes of a frame.
  Layer 3 is the last IP packet that it reached.
- Hardware parses VLAN tags, MPLS labels, IP with extension headers, UDP, VXLAN, GRE without
  routing, and GTP-U. Other protocols end the search, so layer 3 is the packet around them. Only IP
  is a layer 3.
- A frame of `MOST_READ` bytes or more has an unknown length while its headers are read. So any
  length that a packet without a type has in its header fits the frame.

Each of these counts as one header: a tag, a label, an IP header, an extension header of IPv6 or
GTP-U, the end of the extension headers of GTP-U, and a header of UDP, VXLAN, GRE or GTP-U. The
first half byte of content without a type counts as one, and so does a control word. Addresses and
EtherType of Ethernet do not count.
"""

from collections.abc import Iterator

from .encapsulations import (
    BRIDGED,
    CONTROL_WORD,
    GTP_EXTENSION,
    IP4,
    IP6,
    IP_PROTOCOL,
    MPLS,
    NOTHING,
    STEPS,
    TAG_TYPES,
    UDP_PORT,
    UNTYPED,
    HeaderPlace,
    Step,
    number,
    tag,
    typed,
)
from .packet_layers import (
    ETHERNET,
    EXTENSIONS,
    FRAGMENT,
    HEADERS,
    LINK_HEADERS,
    MOST_TAGS,
    SIZES,
    Fault,
    Layers,
    Version,
)

MOST_READ = 192
"""Bytes of a frame that hardware reads in search of the innermost layer 3."""

MOST_HEADERS = 8
"""Headers that hardware passes."""

UNKNOWN_END = (1 << 17) - 1
"""End of a frame of `MOST_READ` bytes or more, while its headers are read."""

IP6_NEXT = 0x50000
"""Added to the number of an extension header of IPv6, it is a kind."""


def _gre(octets: bytes, place: HeaderPlace) -> HeaderPlace:
    """Refuse routing (RFC 1701)."""
    if octets[place.at] & 0x40:
        raise ValueError(octets[place.at])
    return STEPS[IP_PROTOCOL + 47](octets, place)


def _extension(octets: bytes, place: HeaderPlace) -> HeaderPlace:
    """RFC 8200, 4: an extension header; a fragment has no content (4.5)."""
    protocol, at = place.kind - IP6_NEXT, place.at
    octets[at + 7]
    if protocol == FRAGMENT and number(octets, at + 2) & 0xFFF9:
        raise ValueError(at)
    size = 8 + EXTENSIONS[protocol] * octets[at + 1]
    return place._replace(kind=_behind_ip6(octets[at]), at=at + size)


def _behind_ip6(protocol: int) -> int:
    return (IP6_NEXT if protocol in EXTENSIONS else IP_PROTOCOL) + protocol


PASSED: dict[int, Step] = {
    **{kind: STEPS[kind] for kind in (
        MPLS, MPLS + 1, UNTYPED, CONTROL_WORD, GTP_EXTENSION, IP_PROTOCOL + 17, IP_PROTOCOL + 137,
        UDP_PORT + 4789, UDP_PORT + 8472, UDP_PORT + 2152,
    )},
    IP_PROTOCOL + 47: _gre,
    **dict.fromkeys((IP6_NEXT + protocol for protocol in EXTENSIONS), _extension),
}  # fmt: skip
"""Functions of the headers that hardware passes, by kind, IP and tags apart."""


def inner_layers(frame: bytes) -> Layers:
    """Find the innermost layer 3 of a complete Ethernet frame, as hardware does."""
    *_, (_, found) = inner_headers(frame)
    return found


def inner_headers(frame: bytes) -> Iterator[tuple[int, Layers]]:
    """Yield the kind of each header of a frame, and the innermost layer 3 after it.

    The first kind is `BRIDGED`, for the frame. A header that contradicts its protocol has the kind
    `NOTHING`.
    """
    head, whole = frame[:MOST_READ], len(frame) < MOST_READ
    other = found = Layers(Version.OTHER, 0, len(frame), (), Fault(0), len(frame))
    yield BRIDGED, found
    start = HeaderPlace(0, 0, len(frame) if whole else UNKNOWN_END)
    try:
        place = typed(head, LINK_HEADERS[ETHERNET][1], start)
        for _ in range(MOST_HEADERS):
            kind, octets = place.kind, head[: place.end]
            if kind in (IP4, IP6):
                found, place = _network(frame, octets, place)
                yield kind, found
                place = _inside(octets, place)
            elif kind in TAG_TYPES and len(place.tags) < MOST_TAGS:
                place = tag(octets, place)
                yield kind, found
            elif kind in PASSED:
                place = _typeless(head, PASSED[kind](octets, place))
                yield kind, found
            else:
                break
    except (IndexError, ValueError) as error:
        if found is other and (whole or isinstance(error, ValueError)):
            found = other._replace(faults=Fault.MALFORMED)
        yield NOTHING, found


def _network(frame: bytes, octets: bytes, place: HeaderPlace) -> tuple[Layers, HeaderPlace]:
    """Return layer 3 at a place, and the place with the end of layer 3."""
    version, find_size = SIZES[place.kind]
    at, size = place.at, find_size(octets[place.at :])
    end = min(at + size, place.end) if size else place.end
    faults = Fault.MALFORMED if at + size > min(place.end, len(frame)) else Fault(0)
    last = min(end, len(frame))
    return Layers(version, at, last, place.tags, faults, last), place._replace(end=end)


def _inside(octets: bytes, place: HeaderPlace) -> HeaderPlace:
    """Return the content of a packet of IP; a fragment has none (RFC 791, 2.3)."""
    at = place.at
    if place.kind == IP6:
        kind, size = _behind_ip6(octets[at + 6]), HEADERS[Version.IP6]
    else:
        kind, size = IP_PROTOCOL + octets[at + 9], 4 * (octets[at] & 15)
        if number(octets, at + 6) & 0x3FFF:
            raise ValueError(at)
    return _typeless(octets, place._replace(kind=kind, at=at + size))


def _typeless(head: bytes, place: HeaderPlace) -> HeaderPlace:
    """Return the place behind Ethernet, and IP for its protocol number, which count nothing."""
    if place.kind == BRIDGED:
        return typed(head[: place.end], place.at + LINK_HEADERS[ETHERNET][1], place)
    inside = {IP_PROTOCOL + 4: IP4, IP_PROTOCOL + 41: IP6}
    return place._replace(kind=inside.get(place.kind, place.kind))
