"""Protocols around layer 3: a table of functions that skip a header.

A *kind* is a number that identifies the protocol at an offset. An EtherType is its own kind. IP
protocols, UDP ports and PPP protocols become kinds by adding `IP_PROTOCOL`, `UDP_PORT` or
`PPP_PROTOCOL`. `STEPS` maps a kind to its function. A function raises `IndexError` if a byte is
missing, and `ValueError` if the header violates its protocol.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

IP4, IP6, ARP, LLDP = 0x0800, 0x86DD, 0x0806, 0x88CC  # EtherTypes that end the search
TAG_TYPES = (0x8100, 0x88A8, 0x9100)  # EtherTypes of VLAN tags in hardware and software
MORE_TAG_TYPES = (0x9200, 0x9300)  # additional EtherTypes of VLAN tags in software
BRIDGED = 0x6558  # EtherType of an Ethernet frame inside another protocol
IP_PROTOCOL, UDP_PORT, PPP_PROTOCOL = 0x10000, 0x20000, 0x30000
# kinds without an assigned number: LLC, spanning tree, IS-IS, content identified by its first
# bytes, PPP, ERSPAN II, unknown content, content after a possible control word, and the last four
# bytes before a GTP-U extension header
LLC, STP, IS_IS, UNTYPED, PPP, ERSPAN2, NOTHING, CONTROL_WORD, GTP_EXTENSION = range(
    0x40000, 0x40009
)

MPLS = 0x8847  # EtherType of an MPLS label
# values in this range in place of an EtherType are LLC lengths (IEEE 802.3, 3.2.6)
MIN_LENGTH, MAX_LENGTH = 3, 1500


class HeaderStart(NamedTuple):
    """Kind and offset of a header, and the end of the frame or packet that contains it."""

    kind: int
    at: int
    end: int  # first byte after the content on the wire
    tags: tuple[int, ...] = ()  # VLAN identifiers before the header, outermost first


def number(octets: bytes, at: int) -> int:
    """Read the 16-bit number at the offset `at`, most significant byte first."""
    return octets[at] << 8 | octets[at + 1]


def by_version(octets: bytes, at: int) -> int:
    """Return the EtherType for the IP version at the offset `at`, or `NOTHING`."""
    return {4: IP4, 6: IP6}.get(octets[at] >> 4, NOTHING)


def typed(octets: bytes, type_at: int, start: HeaderStart) -> HeaderStart:
    """Return the start of the header after an EtherType or length (IEEE 802.3, 3.2.6)."""
    kind, at, end = number(octets, type_at), type_at + 2, start.end
    if MIN_LENGTH <= kind <= MAX_LENGTH and at + kind <= end:
        return HeaderStart(LLC, at, at + kind, start.tags)
    return HeaderStart(kind if kind > MAX_LENGTH else NOTHING, at, end, start.tags)


def _ethernet(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip the two addresses and the EtherType of an Ethernet frame (IEEE 802.3, 3.1.1)."""
    return typed(octets, start.at + 12, start)


def tag(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip a VLAN tag, and record its identifier (IEEE 802.1Q, 9.6)."""
    identifier = number(octets, start.at) & 0xFFF
    return typed(octets, start.at + 2, start._replace(tags=(*start.tags, identifier)))


def _llc(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip LLC (IEEE 802.2, 802.1H; RFC 1042), or recognise spanning tree or IS-IS (RFC 1195)."""
    at = start.at
    head = octets[at], octets[at + 1], octets[at + 2]
    if head == (0x42, 0x42, 3):
        return start._replace(kind=STP, at=at + 3)
    if head == (0xFE, 0xFE, 3):
        return _osi(octets, start._replace(at=at + 3))
    if head != (0xAA, 0xAA, 3):
        return start._replace(kind=NOTHING)
    organisation = octets[at + 3] << 16 | number(octets, at + 4)
    kind = number(octets, at + 6)
    if organisation in (0, 0xF8) and kind > MAX_LENGTH:
        return start._replace(kind=kind, at=at + 8)
    return start._replace(kind=STP if (organisation, kind) == (0xC, 0x10B) else NOTHING, at=at + 8)


def _osi(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Recognise ES-IS and IS-IS by the first byte (ISO/IEC 9577)."""
    return start._replace(kind=IS_IS if octets[start.at] in (0x82, 0x83) else NOTHING)


def _mpls(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip an MPLS label; the last one in a stack does not state what follows (RFC 3032, 2.1)."""
    bottom = octets[start.at + 2] & 1
    return start._replace(kind=UNTYPED if bottom else MPLS, at=start.at + 4)


def _untyped(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Guess the kind of content without a type: IP, a control word or Ethernet (RFC 4928, 3)."""
    kind = by_version(octets, start.at)
    if kind != NOTHING and _fits(octets, start, kind):
        return start._replace(kind=kind)
    if number(octets, start.at) == 0:
        return start._replace(kind=CONTROL_WORD, at=start.at + 4)
    return start._replace(kind=BRIDGED if _like_ethernet(octets, start) else kind)


def _control_word(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Find an Ethernet frame after a control word, or in place of the word (RFC 4448, 4.6)."""
    for candidate in (start, start._replace(at=start.at - 4)):
        if _like_ethernet(octets, candidate):
            return candidate._replace(kind=BRIDGED)
    return start._replace(kind=NOTHING)


def _fits(octets: bytes, start: HeaderStart, kind: int) -> bool:
    """Whether the lengths in an IP header are possible at this offset."""
    at, room = start.at, start.end - start.at
    if at + 6 > len(octets):
        return False
    if kind == IP6:
        return 40 + number(octets, at + 4) <= room
    header, size = 4 * (octets[at] & 15), number(octets, at + 2)
    return header >= 20 and (size == 0 or header <= size <= room)


def _like_ethernet(octets: bytes, start: HeaderStart) -> bool:
    """Whether two addresses are followed by a known EtherType or a possible length."""
    at = start.at + 12
    if at + 2 > len(octets):
        return False
    candidate = typed(octets, at, start)
    return candidate.kind == LLC or candidate.kind in ETHER_TYPES


def _pppoe(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip the header of a PPPoE session packet of version 1 (RFC 2516, 4)."""
    at = start.at
    if (octets[at], octets[at + 1]) != (0x11, 0):
        raise ValueError(octets[at])
    return start._replace(kind=PPP, at=at + 6, end=min(start.end, at + 6 + number(octets, at + 4)))


def _ppp(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip a PPP header, which the sender may have compressed (RFC 1661, 2; RFC 1662, 3.1)."""
    at = start.at
    if octets[at] == 0xFF and octets[at + 1] == 3:
        at += 2
    if octets[at] & 1:
        return start._replace(kind=PPP_PROTOCOL + octets[at], at=at + 1)
    return start._replace(kind=PPP_PROTOCOL + number(octets, at), at=at + 2)


def _udp(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip a UDP header, and ignore a length below 8 (RFC 768)."""
    at, size = start.at, number(octets, start.at + 4)
    end = min(start.end, at + size) if size >= 8 else start.end
    return start._replace(kind=UDP_PORT + number(octets, at + 2), at=at + 8, end=end)


def _vxlan(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip a VXLAN header with a valid identifier (RFC 7348, 5)."""
    if not octets[start.at] & 8:
        raise ValueError(octets[start.at])
    return start._replace(kind=BRIDGED, at=start.at + 8)


def _geneve(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip a Geneve header and its options, except in control packets (RFC 8926, 3.4)."""
    first, second = octets[start.at], octets[start.at + 1]
    if first >> 6 or second & 0x80:
        raise ValueError(first)
    kind = number(octets, start.at + 2)
    return start._replace(kind=kind, at=start.at + 8 + 4 * (first & 63))


def _gre(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip GRE (RFC 1701; RFC 2784, 2.1; RFC 2890, 2), NVGRE (RFC 7637) or PPTP (RFC 2637, 4.1)."""
    flags, kind, at = number(octets, start.at), number(octets, start.at + 2), start.at + 4
    key, sequence = 4 * (flags >> 13 & 1), 4 * (flags >> 12 & 1)
    if flags & 7 == 1:
        if kind != 0x880B or not key or not sequence:
            raise ValueError(flags)
        begin = at + 8 + 4 * (flags >> 7 & 1)
        return start._replace(kind=PPP, at=begin, end=min(start.end, begin + number(octets, at)))
    if flags & 7:
        raise ValueError(flags)
    at += (4 if flags & 0xC000 else 0) + key + sequence
    while flags & 0x4000:
        family, size = number(octets, at), octets[at + 3]
        at += 4 + size
        if family == size == 0:
            break
    if kind == 0x88BE:
        kind = ERSPAN2 if sequence else BRIDGED
    return start._replace(kind=kind, at=at)


def _erspan2(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip an ERSPAN header of type II, 8 bytes (draft-foschiano-erspan-03, 4.2)."""
    if octets[start.at] >> 4 != 1:
        raise ValueError(octets[start.at])
    return start._replace(kind=BRIDGED, at=start.at + 8)


def _erspan3(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip an ERSPAN header of type III, 12 or 20 bytes (draft-foschiano-erspan-03, 4.3)."""
    last = number(octets, start.at + 10)
    if octets[start.at] >> 4 != 2:
        raise ValueError(octets[start.at])
    kind = {0: BRIDGED, 2: UNTYPED}.get(last >> 10 & 31, NOTHING)
    return start._replace(kind=kind, at=start.at + 12 + 8 * (last & 1))


def _gtp(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip the header of a GTP-U packet with user data (3GPP TS 29.281, 5.1)."""
    at = start.at
    flags = octets[at]
    if flags >> 4 != 3 or octets[at + 1] != 0xFF:
        raise ValueError(flags)
    end = min(start.end, at + 8 + number(octets, at + 2))
    if flags & 4:
        return start._replace(kind=GTP_EXTENSION, at=at + 8, end=end)
    return start._replace(kind=UNTYPED, at=at + (12 if flags & 3 else 8), end=end)


def _gtp_extension(octets: bytes, start: HeaderStart) -> HeaderStart:
    """Skip one GTP-U extension header, unless the preceding type is 0 (3GPP TS 29.281, 5.2.1)."""
    at = start.at
    if not octets[at + 3]:
        return start._replace(kind=UNTYPED, at=at + 4)
    if not octets[at + 4]:
        raise ValueError(at)
    return start._replace(at=at + 4 * octets[at + 4])


def _as(kind: int) -> "Step":
    return lambda octets, start: start._replace(kind=kind)


Step = Callable[[bytes, HeaderStart], HeaderStart]


class Tunnel(NamedTuple):
    """UDP tunnel on one port: datagrams hold an Ethernet frame or IP packet after `skip` bytes."""

    port: int
    skip: int
    content: str  # one of `CONTENTS`

    def step(self, octets: bytes, start: HeaderStart) -> HeaderStart:
        at = start.at + self.skip
        kind = BRIDGED if self.content == "ethernet" else by_version(octets, at)
        return start._replace(kind=kind, at=at)


CONTENTS = ("ethernet", "ip")
# functions that skip a header, by EtherType, without VLAN tags
ETHER_STEPS: dict[int, Step] = {
    BRIDGED: _ethernet, MPLS: _mpls, 0x8848: _mpls, 0x8864: _pppoe, 0x880B: _ppp,
    0x22EB: _erspan3, 0x00FE: _osi, 0x8870: _llc,
}  # fmt: skip

# functions that skip a header, by kind, without VLAN tags: IPIP is RFC 2003, 6in4 RFC 4213, 4in6
# RFC 2473, MPLS RFC 4023
STEPS: dict[int, Step] = {
    **ETHER_STEPS, LLC: _llc, UNTYPED: _untyped, PPP: _ppp, ERSPAN2: _erspan2,
    CONTROL_WORD: _control_word, GTP_EXTENSION: _gtp_extension,
    PPP_PROTOCOL + 0x21: _as(IP4), PPP_PROTOCOL + 0x57: _as(IP6),
    PPP_PROTOCOL + 0x281: _mpls, PPP_PROTOCOL + 0x283: _mpls,
    IP_PROTOCOL + 4: _as(IP4), IP_PROTOCOL + 41: _as(IP6),
    IP_PROTOCOL + 17: _udp, IP_PROTOCOL + 47: _gre, IP_PROTOCOL + 137: _mpls,
    UDP_PORT + 4789: _vxlan, UDP_PORT + 8472: _vxlan,
    UDP_PORT + 6081: _geneve, UDP_PORT + 2152: _gtp,
}  # fmt: skip

ETHER_TYPES: Iterable[int] = frozenset(
    {IP4, IP6, ARP, LLDP, *ETHER_STEPS, *TAG_TYPES, *MORE_TAG_TYPES}
)
