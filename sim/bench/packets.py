"""Packets for benches and tests: plain, tunnelled or preceded by labels."""

import struct
from collections.abc import Iterable
from random import Random

MACS = bytes(range(12))  # Ethernet addresses


def ethernet(kind: int, payload: bytes, *, tags: Iterable[int] = (), macs: bytes = MACS) -> bytes:
    shown = b"".join(struct.pack(">HH", 0x8100, tag) for tag in tags)
    return macs + shown + struct.pack(">H", kind) + payload


# Fields of an IPv4 header, in order, with their defaults.
IP4_FIELDS = {"tos": 0, "number": 1, "offset": 0, "ttl": 64, "protocol": 17, "checksum": 0}


def ip4(
    payload: bytes,
    *,
    options: bytes = b"",
    size: int | None = None,
    source: bytes = b"\x0a\0\0\1",
    target: bytes = b"\x0a\0\0\2",
    **fields: int,
) -> bytes:
    """Return an IPv4 packet; `size` is its length field, and `fields` override `IP4_FIELDS`."""
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
    size = len(payload) if size is None else size
    head = struct.pack(">IHBB", 6 << 28 | traffic << 20, size, protocol, limit)
    return head + source + bytes(15) + b"\1" + payload


def udp(payload: bytes, source: int = 1000, target: int = 2000) -> bytes:
    return struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload


def mpls(payload: bytes, *labels: int, ttl: int = 64) -> bytes:
    rows = [n << 12 | (at + 1 == len(labels)) << 8 | ttl for at, n in enumerate(labels)]
    return struct.pack(f">{len(rows)}I", *rows) + payload


def pppoe(payload: bytes, protocol: int = 0x21, size: int | None = None) -> bytes:
    size = len(payload) + 2 if size is None else size
    return struct.pack(">BBHHH", 0x11, 0, 1, size, protocol) + payload


def vxlan(frame: bytes, flags: int = 8) -> bytes:
    return udp(struct.pack(">B3xI", flags, 100 << 8) + frame, target=4789)


def geneve(
    payload: bytes, kind: int = 0x6558, options: bytes = b"", first: int = 0, second: int = 0
) -> bytes:
    head = struct.pack(">BBHI", first | len(options) // 4, second, kind, 7 << 8)
    return udp(head + options + payload, target=6081)


def gre(payload: bytes, kind: int = 0x0800, *, flags: int = 0, fields: bytes = b"") -> bytes:
    return struct.pack(">HH", flags, kind) + fields + payload


def erspan2(frame: bytes, version: int = 1) -> bytes:
    head = struct.pack(">IHHI", 5, version << 12, 1, 0)
    return gre(head + frame, 0x88BE, flags=0x1000)


def erspan3(content: bytes, of: int = 0, more: bytes = b"") -> bytes:
    head = struct.pack(">IHHIHH", 5, 0x2000, 1, 0, 0, of << 10 | bool(more))
    return gre(head + more + content, 0x22EB, flags=0x1000)


def gtp(payload: bytes, *, flags: int = 0, more: bytes = b"", message: int = 0xFF) -> bytes:
    size = len(payload) + len(more)
    return udp(struct.pack(">BBHI", 0x30 | flags, message, size, 9) + more + payload, target=2152)


def llc(payload: bytes, head: bytes, padding: bytes = b"") -> bytes:
    content = head + payload
    return MACS + struct.pack(">H", len(content)) + content + padding


def snap(payload: bytes, kind: int = 0x0800, organisation: int = 0) -> bytes:
    return llc(
        payload, b"\xaa\xaa\x03" + struct.pack(">I", organisation)[1:] + struct.pack(">H", kind)
    )


def arp(number: int = 1) -> bytes:
    return struct.pack(">HHBBH", 1, 0x800, 6, 4, 1) + bytes([number]) * 20


def lldp(name: bytes = b"a port") -> bytes:
    chassis = struct.pack(">H", 1 << 9 | len(name)) + name
    return chassis + b"\x04\x01\x07" + b"\x06\x02\0\x78" + b"\0\0"


INNER = ip4(udp(b"payload!"), number=77)
FRAME = ethernet(0x0800, INNER)

# Frames in which only layer-2 headers precede `INNER`.
LAYER2 = {
    "one label": ethernet(0x8847, mpls(INNER, 20)),
    "three labels": ethernet(0x8848, mpls(INNER, 20, 21, 22)),
    "explicit null": ethernet(0x8847, mpls(INNER, 0)),
    "pseudo-wire": ethernet(0x8847, mpls(FRAME, 20)),
    "pseudo-wire of a tagged frame": ethernet(0x8847, mpls(ethernet(0x0800, INNER, tags=[5]), 20)),
    "pseudo-wire with control word": ethernet(0x8847, mpls(b"\0\0\0\x05" + FRAME, 20)),
    "pseudo-wire of addresses like IP": ethernet(0x8847, mpls(b"\x45" + FRAME[1:], 20)),
    "PPPoE": ethernet(0x8864, pppoe(INNER)),
    "PPPoE, short protocol": ethernet(0x8864, pppoe(b"", size=37)[:-2] + b"\x21" + INNER),
    "PPPoE of MPLS": ethernet(0x8864, pppoe(mpls(INNER, 7), 0x281)),
    "SNAP": snap(INNER),
    "SNAP of 802.1H": snap(INNER, organisation=0xF8),
    "LLC behind a tag": MACS + b"\x81\0\0\5" + snap(INNER)[12:],
    "five tags": ethernet(0x0800, INNER, tags=range(5)),
    "tag 9200": MACS + b"\x92\0\0\5" + FRAME[12:],
    "tag 9300 before 88a8": MACS + b"\x93\0\0\5\x88\xa8\0\6" + FRAME[12:],
}  # fmt: skip

# IP packets with an EtherType value where an Ethernet header would have it.
LIKE_ETHERNET = [
    ip4(udp(b"payload!"), source=b"\x08\0\0\1"),
    ip4(udp(b"payload!"), source=b"\x08\0\0\1", size=0),
    ip6(udp(b"payload!"), source=bytes(4) + b"\x08\0" + bytes(10)),
]

FIELDS = {0x8000: b"\0" * 4, 0x2000: b"key!", 0x1000: b"\0\0\0\1"}


def _gre_of(flags: int) -> bytes:
    return gre(INNER, flags=flags, fields=b"".join(v for k, v in FIELDS.items() if flags & k))


_CONTENTS = {
    "IPIP": (4, INNER),
    "GRE": (47, gre(INNER)),
    **{f"GRE {flags:04x}": (47, _gre_of(flags)) for flags in range(0x1000, 0x10000, 0x1000)
       if not flags & 0x4000},
    "GRE with routing": (47, gre(
        INNER, flags=0x4000, fields=bytes(4) + b"\x08\0\0\4addr" + b"\x08\0\0\0" + bytes(4))),
    "GRE of Ethernet": (47, gre(FRAME, 0x6558)),
    "NVGRE": (47, gre(FRAME, 0x6558, flags=0x2000, fields=b"vsid")),
    "GRE of MPLS": (47, gre(mpls(INNER, 5), 0x8847)),
    "PPTP": (47, gre(b"\xff\x03\0\x21" + INNER, 0x880B, flags=0x3081,
                     fields=struct.pack(">HHII", len(INNER) + 4, 1, 1, 1))),
    "ERSPAN I": (47, gre(FRAME, 0x88BE)),
    "ERSPAN II": (47, erspan2(FRAME)),
    "ERSPAN III": (47, erspan3(FRAME)),
    "ERSPAN III of IP": (47, erspan3(INNER, of=2)),
    "ERSPAN III with a subheader": (47, erspan3(FRAME, more=bytes(8))),
    "VXLAN": (17, vxlan(FRAME)),
    "GENEVE": (17, geneve(FRAME)),
    "GENEVE of IP with options": (17, geneve(INNER, 0x0800, options=bytes(12))),
    "GTP-U": (17, gtp(INNER)),
    "GTP-U with a sequence number": (17, gtp(INNER, flags=2, more=bytes(4))),
    "GTP-U with extensions": (17, gtp(
        INNER, flags=4, more=b"\0\0\0\x85" + b"\1\0\0\xc0" + b"\2" + bytes(6) + b"\0")),
    "MPLS in IP": (137, mpls(INNER, 5)),
}  # fmt: skip

# Frames in which `INNER` is inside a tunnel.
TUNNELS = {
    name: ethernet(0x0800, ip4(content, protocol=protocol))
    for name, (protocol, content) in _CONTENTS.items()
} | {
    f"{name}, IPv6": ethernet(0x86DD, ip6(content, protocol=protocol))
    for name, (protocol, content) in _CONTENTS.items()
}

# Frames of control protocols, which are compared without looking for inner packets.
CONTROL = {
    "ARP": ethernet(0x0806, arp()),
    "LLDP": ethernet(0x88CC, lldp()),
    "spanning tree": llc(bytes(35), b"\x42\x42\x03"),
    "spanning tree of Cisco": llc(bytes(42), b"\xaa\xaa\x03\0\0\x0c\x01\x0b"),
    "IS-IS": llc(b"\x83" + bytes(50), b"\xfe\xfe\x03"),
    "ES-IS": llc(b"\x82" + bytes(50), b"\xfe\xfe\x03"),
    "IS-IS of type 8870": ethernet(0x8870, b"\xfe\xfe\x03\x83" + bytes(50)),
}


def nested(choose: Random, depth: int) -> bytes:
    tunnels = list({**TUNNELS, **LAYER2}.values())
    frame = choose.choice([*tunnels, *CONTROL.values()])
    for _ in range(depth):
        around = choose.choice(tunnels)
        frame = around.replace(INNER, choose.choice([frame[14:], gre(frame, 0x6558)]))
    return frame


# Encapsulations that the hardware supports; each is put around an untagged IP frame.
_PASSED = {
    "MPLS": lambda choose, inside: ethernet(
        0x8847, mpls(inside[14:], *range(choose.randrange(1, 4)))
    ),
    "pseudo-wire": lambda choose, inside: ethernet(
        0x8848, mpls(choose.choice([b"", bytes(4)]) + inside, *range(choose.randrange(1, 3)))
    ),
    "IPIP": lambda choose, inside: _packet(choose, inside[14:], 4 + 37 * (inside[14] >> 4 == 6)),
    "GRE": lambda choose, inside: _packet(choose, _gre_around(choose, inside), 47),
    "VXLAN": lambda choose, inside: _packet(choose, vxlan(inside), 17),
    "GTP-U": lambda choose, inside: _packet(choose, _gtp_around(choose, inside[14:]), 17),
    "MPLS in IP": lambda choose, inside: _packet(choose, mpls(inside[14:], 5), 137),
}


def _packet(choose: Random, inside: bytes, protocol: int) -> bytes:
    tags = range(choose.choice([0, 0, 1, 2]))
    if choose.random() < 0.6:
        options = bytes(4 * choose.choice([0, 0, 1, 3]))
        return ethernet(0x0800, ip4(inside, protocol=protocol, options=options), tags=tags)
    for kind, head in ((60, b"\0\0" + bytes(6)), (51, b"\0\1" + bytes(10)), (44, bytes(8))):
        if choose.random() < 0.2:
            inside, protocol = bytes([protocol]) + head[1:] + inside, kind
    return ethernet(0x86DD, ip6(inside, protocol=protocol), tags=tags)


def _gre_around(choose: Random, inside: bytes) -> bytes:
    flags = sum(flag for flag in FIELDS if choose.random() < 0.3)
    fields = b"".join(value for flag, value in FIELDS.items() if flags & flag)
    if choose.random() < 0.5:
        return gre(inside, 0x6558, flags=flags, fields=fields)
    kind = 0x86DD if inside[14] >> 4 == 6 else 0x0800
    return gre(inside[14:], kind, flags=flags, fields=fields)


def _gtp_around(choose: Random, packet: bytes) -> bytes:
    rows = [b"", b"\1\0\0", b"\2" + bytes(6)]
    chosen = choose.choices(rows[1:], k=choose.randrange(3))
    more = b"\0\0\0" + b"".join(b"\x85" + row for row in chosen) + b"\0"
    return choose.choice([gtp(packet), gtp(packet, flags=4, more=more)])


def around(choose: Random, depth: int) -> bytes:
    payload = udp(choose.randbytes(choose.randrange(60)))
    kind, packet = choose.choice([(0x0800, ip4(payload)), (0x86DD, ip6(payload))])
    frame = ethernet(kind, packet)
    for _ in range(depth):
        if frame[12:14] not in (b"\x08\0", b"\x86\xdd"):
            break
        frame = choose.choice(list(_PASSED.values()))(choose, frame)
    return frame


def inner_frames(choose: Random, count: int) -> list[bytes]:
    """Return random frames with and without encapsulation, some padded, cut or corrupted."""
    frames = []
    for _ in range(count):
        depth = choose.randrange(4)
        frame = bytearray(around(choose, depth) if choose.random() < 0.7 else nested(choose, depth))
        for _ in range(choose.choice([0, 0, 0, 1, 2])):
            frame[choose.randrange(len(frame))] = choose.choice([0, 1, 0xFF, choose.randrange(256)])
        frame += bytes(choose.choice([0, 0, 7, 200]))
        if choose.random() < 0.2:
            del frame[choose.randrange(1, len(frame)) :]
        frames.append(bytes(frame))
    return frames
