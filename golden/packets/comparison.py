"""Comparison of packets: layer 3, the fields that count, and the bytes that are ignored."""

import re
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LatelyError
from .encapsulations import CONTENTS, Tunnel
from .packet_layers import Reach, Version, find_layer4


class Field(IntFlag):
    """Fields compared in addition to layer 3, and fields excluded from the comparison."""

    NONE = 0
    TOS = 1  # type of service of IPv4, traffic class of IPv6
    TTL = 2  # TTL of IPv4, hop limit of IPv6
    VLAN = 4  # VLAN identifiers of all tags
    LAYER2 = 8  # all bytes before layer 3
    FRAME = 16  # all captured bytes, and nothing else
    NO_CHECKSUM = 32  # not the checksum of TCP, UDP or SCTP, which an adapter may compute later
    NO_SEQUENCE = 64  # not the sequence number of TCP
    NO_ID = 128  # not the identification of IPv4
    NO_RADIOTAP = 256  # not the radiotap header before an 802.11 frame


# fields that hardware supports
HARDWARE_FIELDS = Field.TOS | Field.TTL | Field.VLAN | Field.LAYER2 | Field.FRAME
DEFAULT_FIELDS = Field.TOS  # fields of a digest by default
IP4_TOS, IP4_ID, IP4_TTL, IP4_CHECKSUM = 1, 4, 8, 10  # places in a header of IPv4
# Places in a header of IPv6. The traffic class begins in the second half of its byte.
IP6_CLASS, IP6_HOP_LIMIT = 0, 7


class FieldError(LatelyError, ValueError):
    """A field does not exist."""


def parse_fields(text: str, allowed: Field = ~Field.NONE) -> Field:
    """Return the fields of a text such as "tos,no-id"; "none" stands for none."""
    known = {
        field.name.lower().replace("_", "-"): field
        for field in Field
        if field.name and field in allowed
    }
    result = Field.NONE
    for name in [] if text == "none" else text.split(","):
        if name not in known:
            raise FieldError(f"fields: must be none, or among {', '.join(known)}, not {name!r}")
        result |= known[name]
    more = result & ~(Field.FRAME | Field.NO_RADIOTAP)
    if Field.FRAME in result and more:
        names = ", ".join(name for name, field in known.items() if field in more)
        raise FieldError(f"fields: frame compares every byte, so it cannot have {names} beside it")
    return result


def parse_mask(text: str) -> tuple[int, bytes]:
    """Return offset and bytes of a mask such as "6:0000ff"."""
    offset, _, octets = text.partition(":")
    try:
        return int(offset), bytes.fromhex(octets)
    except ValueError:
        raise FieldError(f"mask: must be OFFSET:HEX, as 6:0000ff, not {text!r}") from None


def parse_tunnel(text: str) -> Tunnel:
    """Return the tunnel of a text such as "udp:37008:5:ethernet"."""
    result = re.fullmatch(rf"udp:([0-9]+):([0-9]+):({'|'.join(CONTENTS)})", text)
    if result is None:
        raise FieldError(
            "tunnel: must be udp:PORT:SKIP:ethernet or udp:PORT:SKIP:ip, as udp:37008:5:ethernet, "
            f"not {text!r}"
        )
    return Tunnel(int(result[1]), int(result[2]), result[3])


# place in layer 4, and bytes, of the checksum of TCP (RFC 9293, 3.1), UDP (RFC 768) and SCTP (RFC
# 9260, 3.1)
CHECKSUMS = {6: (16, 2), 17: (6, 2), 132: (8, 4)}
TCP, SEQUENCE = 6, (4, 4)  # protocol of TCP; place and bytes of its sequence number (RFC 9293, 3.1)
# link type of 802.11 with a radiotap header, whose length is its third and fourth byte
RADIOTAP = 127
MAX_OFFSET = 1 << 16  # offsets of masks end before it


@dataclass(frozen=True)
class Comparison:
    """Rules by which two packets are the same.

    The message of `packet_digest` is masked, its first bytes are skipped, and the rest is cut.
    """

    fields: Field = DEFAULT_FIELDS
    reach: Reach = Reach.LAYER2
    tag_types: tuple[int, ...] = ()  # further EtherTypes of VLAN tags
    tunnels: tuple[Tunnel, ...] = ()  # further tunnels that are entered with `Reach.INNER`
    masks: tuple[tuple[int, bytes], ...] = ()  # offset in the message, and bytes from there on
    skip: int = 0  # bytes of the message; one of at most this length counts completely
    first: int | None = None  # maximum number of bytes of the message that count

    def __post_init__(self) -> None:
        for offset, octets in self.masks:
            if not (octets and offset >= 0 and offset + len(octets) <= MAX_OFFSET):
                raise FieldError(f"mask: must cover bytes before {MAX_OFFSET:,}, not {offset:,}")
        if self.skip < 0:
            raise FieldError(f"skip: must be at least 0, not {self.skip}")
        if self.first is not None and self.first < 1:
            raise FieldError(f"bytes: must be at least 1, not {self.first}")
        for kind in self.tag_types:
            if not 0x600 <= kind < 0x10000:
                raise FieldError(f"tpid: must be an EtherType, 0600 to ffff, not {kind:04x}")
        ports = [tunnel.port for tunnel in self.tunnels]
        for tunnel in self.tunnels:
            if not (0 < tunnel.port < 1 << 16 and 0 <= tunnel.skip < 1 << 16):
                raise FieldError(
                    "tunnel: must have a port from 1 to 65,535 and skip at most 65,535 bytes, not "
                    f"udp:{tunnel.port}:{tunnel.skip}"
                )
            if ports.count(tunnel.port) > 1:
                raise FieldError(f"tunnel: UDP port {tunnel.port} is given more than once")

    @property
    def search(self) -> tuple[Reach, tuple[int, ...], tuple[Tunnel, ...]]:
        """Arguments of `packet_layers.find_headers` after the packets."""
        return self.reach, self.tag_types, self.tunnels

    def describe(self) -> dict[str, Any]:
        """Return the rules as values for JSON."""
        fields = [f.name.lower().replace("_", "-") for f in self.fields if f.name]
        return {
            "fields": ",".join(fields) or "none",
            "layer3": "innermost" if self.reach == Reach.INNER else "outermost",
            "tag_types": [f"{kind:04x}" for kind in self.tag_types],
            "tunnels": [f"udp:{port}:{skip}:{kind}" for port, skip, kind in self.tunnels],
            "masks": [f"{offset}:{octets.hex()}" for offset, octets in self.masks],
            "skip": self.skip,
            "bytes": self.first,
        }

    @property
    def mask(self) -> NDArray[np.uint8]:
        """All masks combined, shape (n,), from the first byte of the message."""
        size = max((offset + len(octets) for offset, octets in self.masks), default=0)
        mask = np.full(size, 0xFF, np.uint8)
        for offset, octets in self.masks:
            mask[offset : offset + len(octets)] &= np.frombuffer(octets, np.uint8)
        return mask

    def cut(self, octets: bytes, length: int) -> tuple[bytes, int]:
        """Return the part of a message that counts, and its bytes on the line."""
        mask = self.mask
        head = np.frombuffer(octets[: len(mask)], np.uint8)
        octets = (head & mask[: len(head)]).tobytes() + octets[len(mask) :]
        if length > self.skip:
            octets, length = octets[self.skip :], length - self.skip
        if self.first is not None:
            octets, length = octets[: self.first], min(length, self.first)
        return octets, length


def hide(layer3: bytearray, version: Version, fields: Field) -> None:
    """Zero the bytes of an IP packet that are excluded from the comparison."""
    if version == Version.IP4:
        layer3[IP4_CHECKSUM : IP4_CHECKSUM + 2] = bytes(2)
    if not fields & Field.TTL:
        layer3[IP4_TTL if version == Version.IP4 else IP6_HOP_LIMIT] = 0
    if not fields & Field.TOS and version == Version.IP4:
        layer3[IP4_TOS] = 0
    elif not fields & Field.TOS:
        layer3[IP6_CLASS] &= 0xF0
        layer3[IP6_CLASS + 1] &= 0x0F
    if fields & Field.NO_ID and version == Version.IP4:
        layer3[IP4_ID : IP4_ID + 2] = bytes(2)
    protocol, layer4 = find_layer4(bytes(layer3), version)
    hidden = []
    if fields & Field.NO_CHECKSUM and protocol in CHECKSUMS:
        hidden.append(CHECKSUMS[protocol])
    if fields & Field.NO_SEQUENCE and protocol == TCP:
        hidden.append(SEQUENCE)
    for offset, size in hidden:
        for at in range(layer4 + offset, layer4 + offset + size):
            if layer4 >= 0 and at < len(layer3):
                layer3[at] = 0


def radiotap(frame: bytes, link: int, fields: Field) -> int:
    """Return the length in bytes of a radiotap header to skip; 0 if there is none."""
    if link != RADIOTAP or not fields & Field.NO_RADIOTAP or len(frame) < 4:
        return 0
    size = frame[2] | frame[3] << 8
    return size if size <= len(frame) else 0
