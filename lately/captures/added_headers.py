"""Headers that a network adds to packets: a VLAN tag, or a tunnel."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ADDRESSES = 12
"""Bytes of a frame before a VLAN tag."""

_IP, _UDP = 14, 34


class Added(NamedTuple):
    """Bytes that are added to a frame."""

    octets: bytes
    own: int = 0
    """Bytes of the frame before them."""
    version: int = 0
    """Version of IP that is left of the frame, behind the bytes; 0 for the whole frame."""
    lengths: tuple[tuple[int, int], ...] = ()
    """Places of lengths of 16 bits, and the byte that each is counted from."""


def vlan_tag(identifier: int) -> Added:
    """Return a tag of IEEE 802.1Q."""
    return Added(b"\x81\0" + identifier.to_bytes(2, "big"), ADDRESSES)


def _ethernet(kind: int) -> bytes:
    return b"\2\0\0\0\0\x0a\2\0\0\0\0\x0b" + kind.to_bytes(2, "big")


def _ip4(protocol: int) -> bytes:
    addresses = b"\x0a\xff\0\1\x0a\xff\0\2"
    return _ethernet(0x0800) + b"\x45\0\0\0\0\0\x40\0\x40" + bytes([protocol, 0, 0]) + addresses


def _udp(port: int) -> bytes:
    return _ip4(17) + b"\xc0\0" + port.to_bytes(2, "big") + bytes(4)


_IP_LENGTH, _UDP_LENGTH = (_IP + 2, _IP), (_UDP + 4, _UDP)

TUNNELS = {
    # A label of MPLS, and the control word of a pseudo-wire (RFC 3032, RFC 4385).
    "mpls": Added(_ethernet(0x8847) + b"\0\x06\x41\x40" + bytes(4)),
    # RFC 7348, RFC 2784 with a frame of Ethernet, draft-foschiano-erspan-03 (type II).
    "vxlan": Added(
        _udp(4789) + b"\x08\0\0\0\0\0\5\0", lengths=(_IP_LENGTH, _UDP_LENGTH)
    ),
    "gre": Added(_ip4(47) + b"\0\0\x65\x58", lengths=(_IP_LENGTH,)),
    "erspan": Added(
        _ip4(47) + b"\x10\0\x88\xbe\0\0\0\1" + b"\x10\1\0\1\0\0\0\0", lengths=(_IP_LENGTH,)
    ),
    # 3GPP TS 29.281, RFC 2003.
    "gtp": Added(
        _udp(2152) + b"\x30\xff\0\0\0\0\0\1", version=4,
        lengths=(_IP_LENGTH, _UDP_LENGTH, (_UDP + 10, _UDP + 16)),
    ),
    "ipip": Added(_ip4(4), version=4, lengths=(_IP_LENGTH,)),
}  # fmt: skip
"""Tunnels by their names."""


def added_octets(added: Added, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the bytes that are added to frames, with their lengths and checksums.

    Parameters
    ----------
    added : Added
    sizes : ndarray of int64, shape (n,)
        Bytes of the frames with the added bytes.

    Returns
    -------
    ndarray of uint8, shape (n, m)
    """
    octets = np.tile(np.frombuffer(added.octets, np.uint8), (len(sizes), 1))
    for place, begin in added.lengths:
        octets[:, place : place + 2] = _big(sizes - begin)
    if _IP_LENGTH in added.lengths:
        words = octets[:, _IP:_UDP].astype(np.int64)
        total = (words[:, ::2] * 256 + words[:, 1::2]).sum(axis=1)
        total = (total & 0xFFFF) + (total >> 16)
        octets[:, _IP + 10 : _IP + 12] = _big(0xFFFF - total)
    return octets


def _big(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return numbers of 16 bits as two bytes, the most significant first."""
    return np.stack([values >> 8 & 0xFF, values & 0xFF], axis=1).astype(np.uint8)
