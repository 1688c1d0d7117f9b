"""Keyed digest of a packet, without what routers and taps change: one packet at a time.

The message is a word of 8 bytes and the bytes of layer 3, to the end that its own header
gives; TTL or hop limit, and the checksum of an IPv4 header, are zeros in it. The word holds
the version (4 or 6), and three VLAN identifiers of two bytes each, outermost first, after the
number of tags. A packet that is not of IP is its whole frame, after a word of zeros. The digest
is SipHash-1-3 of the message (`lately.golden.hash.siphash`).

`compiled_packets` does the same for many packets.
"""

from enum import IntFlag

import numpy as np

from ..errors import LatelyError
from ..hash.siphash import siphash
from .packet_layers import Layers, Version, layers


class Field(IntFlag):
    """What a digest takes besides layer 3 without its mutable fields."""

    NONE = 0
    TOS = 1
    """Type of service of IPv4, traffic class of IPv6."""
    TTL = 2
    """TTL of IPv4, hop limit of IPv6."""
    VLAN = 4
    """VLAN identifiers of all tags."""
    LAYER2 = 8
    """All bytes before layer 3."""
    FRAME = 16
    """Every byte that was captured, and nothing else."""


DEFAULT_FIELDS = Field.TOS
"""Fields of a digest if nobody names others."""

IP4_TOS, IP4_TTL, IP4_CHECKSUM = 1, 8, 10
"""Places in a header of IPv4."""

IP6_CLASS, IP6_HOP_LIMIT = 0, 7
"""Places in a header of IPv6, that of the traffic class with the half of a byte after it."""


class FieldError(LatelyError, ValueError):
    """There is no such field."""


def parse_fields(text: str) -> Field:
    """Return the fields of a text such as "tos,vlan"; "none" stands for none.

    Raises
    ------
    FieldError
        If there is no such field.
    """
    known = {field.name.lower(): field for field in Field if field.name}
    found = Field.NONE
    for name in [] if text == "none" else text.split(","):
        if name not in known:
            raise FieldError(f"fields: must be none, or among {', '.join(known)}, not {name!r}")
        found |= known[name]
    return found


def message(frame: bytes, place: Layers, fields: Field) -> bytes:
    """Return the message of a packet, which is digested.

    Parameters
    ----------
    frame : bytes
        What was captured of it.
    place : Layers
    fields : Field
    """
    version = Version.OTHER if fields & Field.FRAME else place.version
    if version == Version.OTHER:
        return bytes(8) + frame
    layer3 = bytearray(frame[place.begin : place.end])
    if version == Version.IP4:
        layer3[IP4_CHECKSUM : IP4_CHECKSUM + 2] = bytes(2)
    if not fields & Field.TTL:
        layer3[IP4_TTL if version == Version.IP4 else IP6_HOP_LIMIT] = 0
    if not fields & Field.TOS and version == Version.IP4:
        layer3[IP4_TOS] = 0
    elif not fields & Field.TOS:
        layer3[IP6_CLASS] &= 0xF0
        layer3[IP6_CLASS + 1] &= 0x0F
    tags = place.tags if fields & Field.VLAN else ()
    numbers = b"".join(tag.to_bytes(2, "little") for tag in tags)
    before = frame[: place.begin] if fields & Field.LAYER2 else b""
    return bytes([version, len(tags)]) + numbers.ljust(6, b"\0") + before + layer3


def packet_digest(
    frame: bytes, length: int, link: int, *, fields: Field = DEFAULT_FIELDS, secret: int = 0
) -> int:
    """Return the digest of a packet, of 64 bits.

    Parameters
    ----------
    frame, length, link
        As for `layers`.
    fields : Field
    secret : int
        Of 128 bits.
    """
    octets = message(frame, layers(frame, length, link), fields)
    words = np.frombuffer(octets + bytes(-len(octets) % 8), "<u8").astype(np.uint64)
    return int(siphash(words.reshape(1, -1), secret, key_bits=8 * len(octets))[0])
