"""Rules for comparing packets: layer 3, additional fields, and ignored bytes."""

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
    """Fields that are compared in addition to layer 3, or excluded from the comparison."""

    NONE = 0
    TOS = 1  # type of service (IPv4), traffic class (IPv6)
    TTL = 2  # TTL (IPv4), hop limit (IPv6)
    VLAN = 4  # VLAN identifiers of all tags
    LAYER2 = 8  # all bytes before layer 3
    FRAME = 16  # all captured bytes, and nothing else
    NO_CHECKSUM = 32  # ignore TCP, UDP and SCTP checksums, which an adapter may fill in later
    NO_SEQUENCE = 64  # ignore the TCP sequence number
    NO_ID = 128  # ignore the IPv4 identification
    NO_RADIOTAP = 256  # ignore the radiotap header before an 802.11 frame


HARDWARE_FIELDS = Field.TOS | Field.TTL | Field.VLAN | Field.LAYER2 | Field.FRAME
DEFAULT_FIELDS = Field.TOS
IP4_TOS, IP4_ID, IP4_TTL, IP4_CHECKSUM = 1, 4, 8, 10  # offsets in an IPv4 header
# Offsets in an IPv6 header. The traffic class begins in the low half of its byte.
IP6_CLASS, IP6_HOP_LIMIT = 0, 7


class FieldError(LatelyError, ValueError):
    """Invalid field name, mask, tunnel or rule for comparing packets."""


def parse_fields(text: str, allowed: Field = ~Field.NONE) -> Field:
    """Parse field names such as "tos,no-id"; "none" stands for no fields."""
    fields = [field for field in Field if field in allowed]
    known = {str(field.name).lower().replace("_", "-"): field for field in fields}
    result = Field.NONE
    for name in [] if text == "none" else text.split(","):
        if name not in known:
            raise FieldError(f"fields: must be none or any of {', '.join(known)}, not {name!r}")
        result |= known[name]
    more = result & ~(Field.FRAME | Field.NO_RADIOTAP)
    if Field.FRAME in result and more:
        names = ", ".join(name for name, field in known.items() if field in more)
        raise FieldError(f"fields: frame compares every byte, and cannot be combined with {names}")
    return result


def parse_mask(text: str) -> tuple[int, bytes]:
    """Split a mask such as "6:0000ff" into its offset and bytes."""
    offset, _, octets = text.partition(":")
    try:
        return int(offset), bytes.fromhex(octets)
    except ValueError:
        raise FieldError(f"mask: must be OFFSET:HEX, such as 6:0000ff, not {text!r}") from None


def parse_tunnel(text: str) -> Tunnel:
    result = re.fullmatch(rf"udp:([0-9]+):([0-9]+):({'|'.join(CONTENTS)})", text)
    if result is None:
        raise FieldError(
            "tunnel: must be udp:PORT:SKIP:ethernet or udp:PORT:SKIP:ip, "
            f"such as udp:37008:5:ethernet, not {text!r}"
        )
    return Tunnel(int(result[1]), int(result[2]), result[3])


# offset in layer 4 and length of the checksum in TCP (RFC 9293, 3.1), UDP (RFC 768) and SCTP (RFC
# 9260, 3.1)
CHECKSUMS = {6: (16, 2), 17: (6, 2), 132: (8, 4)}
TCP, SEQUENCE = 6, (4, 4)  # TCP: protocol number; offset and length of the sequence number
# link type of 802.11 with radiotap, whose length is in the third and fourth byte of its header
RADIOTAP = 127
MAX_OFFSET = 1 << 16  # masks can only cover bytes below this offset


@dataclass(frozen=True)
class Comparison:
    """Rules that decide whether two packets are equal."""

    fields: Field = DEFAULT_FIELDS
    reach: Reach = Reach.LAYER2
    tag_types: tuple[int, ...] = ()  # additional EtherTypes of VLAN tags
    tunnels: tuple[Tunnel, ...] = ()  # additional tunnels for `Reach.INNER`
    # The masks apply first, then `skip`, then `first`.
    masks: tuple[tuple[int, bytes], ...] = ()  # offsets in the message, and mask bytes
    skip: int = 0  # bytes to skip; a message that is not longer is compared whole
    first: int | None = None  # maximum number of bytes of the message to compare

    def __post_init__(self) -> None:
        for offset, octets in self.masks:
            if not (octets and offset >= 0 and offset + len(octets) <= MAX_OFFSET):
                raise FieldError(
                    f"mask: must cover one or more bytes below offset {MAX_OFFSET:,}, "
                    f"not {len(octets):,} from offset {offset:,}"
                )
        if self.skip < 0:
            raise FieldError(f"skip: must be at least 0, not {self.skip}")
        if self.first is not None and self.first < 1:
            raise FieldError(f"bytes: must be at least 1, not {self.first}")
        for kind in self.tag_types:
            if not 0x600 <= kind < 0x10000:
                raise FieldError(f"tpid: must be an EtherType from 0600 to ffff, not {kind:04x}")
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
        """Arguments `reach`, `tag_types` and `tunnels` for `packet_layers.find_headers`."""
        return self.reach, self.tag_types, self.tunnels

    def describe(self) -> dict[str, Any]:
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
        """Bitwise AND of all masks, for the first n bytes of a message; shape (n,)."""
        size = max((offset + len(octets) for offset, octets in self.masks), default=0)
        mask = np.full(size, 0xFF, np.uint8)
        for offset, octets in self.masks:
            mask[offset : offset + len(octets)] &= np.frombuffer(octets, np.uint8)
        return mask

    def cut(self, octets: bytes, length: int) -> tuple[bytes, int]:
        """Return the masked part of a message to compare, and the part's length on the wire."""
        mask = self.mask
        head = np.frombuffer(octets[: len(mask)], np.uint8)
        octets = (head & mask[: len(head)]).tobytes() + octets[len(mask) :]
        if length > self.skip:
            octets, length = octets[self.skip :], length - self.skip
        if self.first is not None:
            octets, length = octets[: self.first], min(length, self.first)
        return octets, length


def hide(layer3: bytearray, version: Version, fields: Field) -> None:
    """Zero the bytes of an IP packet that are not compared."""
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
    """Return the length in bytes of the radiotap header to skip, or 0 if none is to be skipped."""
    if link != RADIOTAP or not fields & Field.NO_RADIOTAP or len(frame) < 4:
        return 0
    size = frame[2] | frame[3] << 8
    return size if size <= len(frame) else 0
