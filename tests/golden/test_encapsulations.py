"""Layer 3 behind labels, tags and tunnels, and protocols beside IP."""

import random
import struct
from itertools import product

import numpy as np
import pytest
from capture_files import ETHERNET, RAW
from cases import daily
from scapy.contrib.tzsp import TZSP, TZSPTagEnd
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.l2tp import L2TP
from scapy.layers.ppp import HDLC, PPP
from scapy.packet import Raw

from lately.golden import compilation
from lately.golden.packets.comparison import Comparison, Field, FieldError, parse_tunnel
from lately.golden.packets.encapsulations import IS_IS, STP
from lately.golden.packets.packet_digest import packet_digest, packet_digests
from lately.golden.packets.packet_layers import (
    LINK_HEADERS,
    MAX_PACKETS,
    Fault,
    Reach,
    Version,
    find_headers,
    headers,
    layers,
)  # fmt: skip
from lately.sim.bench.packets import (
    CONTROL,
    FRAME,
    INNER,
    LAYER2,
    LIKE_ETHERNET,
    MACS,
    TUNNELS,
    arp,
    erspan2,
    erspan3,
    ethernet,
    geneve,
    gre,
    gtp,
    ip4,
    ip6,
    llc,
    lldp,
    mpls,
    nested,
    pppoe,
    snap,
    udp,
    vxlan,
)

SECRET = 77
HARDWARE, LAYER2_ONLY, INNERMOST = (Comparison(reach=reach) for reach in Reach)


def digest(frame, comparison=INNERMOST, link=ETHERNET):
    return packet_digest(frame, len(frame), link, comparison, secret=SECRET)


def content(frame, reach=Reach.INNER, tag_types=()):
    layer = layers(frame, len(frame), ETHERNET, reach, tag_types)
    return frame[layer.begin : layer.end]


@pytest.mark.parametrize("name", LAYER2)
def test_layer_2(name):
    for padding in (b"", bytes(7)):
        frame = LAYER2[name] + padding
        assert content(frame, Reach.LAYER2) == content(frame) == INNER
        assert content(frame, Reach.HARDWARE) == frame
        assert digest(frame, LAYER2_ONLY) == digest(FRAME, HARDWARE) != digest(frame, HARDWARE)


def test_ip_behind_a_label_is_not_ethernet():
    for packet in LIKE_ETHERNET:
        frame = ethernet(0x8847, mpls(packet, 20))
        assert content(frame) == packet
        assert both([(frame, len(frame), 1)]) == [digest(frame)]


@pytest.mark.parametrize("name", TUNNELS)
def test_tunnels(name):
    for padding in (b"", bytes(7)):
        frame = TUNNELS[name] + padding
        assert content(frame) == INNER
        assert content(frame, Reach.LAYER2) == TUNNELS[name][14:]
        assert digest(frame) == digest(FRAME, HARDWARE)
        assert digest(frame, LAYER2_ONLY) == digest(frame, HARDWARE) != digest(FRAME)


@pytest.mark.parametrize("first", TUNNELS)
def test_a_tunnel_in_a_tunnel(first):
    outer = TUNNELS[first]
    frame = ethernet(0x0800, ip4(vxlan(LAYER2["three labels"].replace(INNER, outer[14:]))))
    assert content(frame) == INNER


def test_6in4_and_4in6():
    inner = ip6(udp(b"payload!"))
    assert content(ethernet(0x0800, ip4(inner, protocol=41))) == inner
    assert content(ethernet(0x86DD, ip6(INNER, protocol=4))) == INNER
    assert content(ethernet(0x86DD, ip6(b"\x04\0" + bytes(6) + INNER, protocol=60))) == INNER


@pytest.mark.parametrize("outer", [IP, IPv6])
@pytest.mark.parametrize("inner", [IP(ttl=9) / UDP() / b"one", IPv6() / UDP() / b"other"])
def test_free_tunnels(route, outer, inner):
    """In its tunnel a packet equals itself, and in C each damaged packet is as in Python."""
    seed, alone = 7, digest(bytes(Ether() / inner))
    l2tp = L2TP(hdr="length+offset", tunnel_id=7, session_id=9, offset=0) / HDLC() / PPP()
    packets = {
        "37008:5:ethernet": TZSP() / TZSPTagEnd() / Ether() / inner,
        "7932:12:ethernet": Raw(bytes(12)) / Ether() / Dot1Q(vlan=5) / inner,
        "1701:14:ip": l2tp / inner,
        # A form of the user precedes VXLAN.
        "4789:0:ip": inner,
    }
    choose, every = random.Random(seed), tuple(parse_tunnel(f"udp:{text}") for text in packets)
    with pytest.raises(FieldError, match="UDP port 1701 is given more than once"):
        Comparison(tunnels=(*every, every[2]))
    for tunnel, packet in zip(every, packets.values(), strict=True):
        frame = bytes(Ether() / outer() / UDP(dport=tunnel.port) / packet)
        rows = [(frame, len(frame), ETHERNET)]
        for _ in range(100):
            damaged = bytearray(frame)
            damaged[choose.randrange(12, len(frame))] = choose.choice([0, 0x45, 0xFF])
            kept = choose.choice([len(frame), choose.randrange(len(frame))])
            rows.append((bytes(damaged[:kept]), len(frame), ETHERNET))
        for tunnels in (tunnel,), every:
            comparison = Comparison(reach=Reach.INNER, tunnels=tunnels)
            assert digest(frame, comparison) == alone != digest(frame), tunnel
            for row, value in zip(rows, both(rows, comparison), strict=True):
                assert value == packet_digest(*row, comparison, secret=SECRET), (seed, tunnel, row)
                positions = np.array([[0], [len(row[0])], *([n] for n in row[1:])])
                many = find_headers(np.frombuffer(row[0], np.uint8), positions, *comparison.search)
                assert many[:, 0].tolist() == [*headers(*row, *comparison.search)], (
                    seed,
                    tunnel,
                    row,
                )


def test_depth():
    """Of more packets inside each other, the innermost is not looked for."""
    packets = [INNER]
    for _ in range(MAX_PACKETS):
        packets.append(ip4(packets[-1], protocol=4))
    assert content(ethernet(0x0800, packets[MAX_PACKETS - 1])) == INNER
    assert content(ethernet(0x0800, packets[MAX_PACKETS])) == packets[1]


def test_tags_of_further_types():
    frame = MACS + b"\xab\xcd\0\5" * 2 + FRAME[12:]
    assert content(frame) == frame
    assert content(frame, tag_types=(0xABCD,)) == INNER
    assert content(frame, Reach.HARDWARE, (0xABCD,)) == frame
    comparison = Comparison(tag_types=(1600, 0xABCD))
    assert digest(frame, comparison) == digest(FRAME)
    assert both([(frame, len(frame), 1)], comparison) == [digest(FRAME)]


@pytest.mark.parametrize("count", range(9))
def test_vlan_identifiers_of_any_number_of_tags(count):
    comparison = Comparison(Field.VLAN)
    frames = [
        ethernet(0x0800, INNER, tags=tags)
        for tags in (range(count), range(count + 1), [*range(count), 9], [9, *range(count)])
    ]
    assert len({digest(frame, comparison) for frame in frames}) == (4 if count else 3)
    assert len({digest(frame) for frame in frames}) == 1
    assert both([(f, len(f), 1) for f in frames], comparison) == [
        digest(f, comparison) for f in frames
    ]


NO_TUNNELS = {
    "VXLAN without an identifier": (17, vxlan(FRAME, flags=0)),
    "GENEVE of another version": (17, geneve(FRAME, first=0x40)),
    "GENEVE for control": (17, geneve(FRAME, second=0x80)),
    "GRE of another version": (47, gre(INNER, flags=2)),
    "GRE of another type": (47, gre(INNER, 0x1234)),
    "PPTP without a payload": (47, gre(INNER, 0x880B, flags=0x2001, fields=bytes(8))),
    "ERSPAN II of another version": (47, erspan2(FRAME, version=2)),
    "ERSPAN III of another frame": (47, erspan3(FRAME, of=3)),
    "GTP-U for control": (17, gtp(INNER, message=1)),
    "GTP-U with an endless extension": (17, gtp(INNER, flags=4, more=b"\0\0\0\1\0\0\0\0")),
    "GTP of another kind": (17, udp(b"\x20\xff" + bytes(6) + INNER, target=2152)),
    "UDP to another port": (17, udp(INNER, target=4790)),
    "nothing": (47, b""),
    "no IP": (4, bytes(20)),
}


@pytest.mark.parametrize("name", NO_TUNNELS)
def test_no_tunnel(name):
    """Then layer 3 is the packet around it, which has no fault."""
    protocol, inside = NO_TUNNELS[name]
    packet = ip4(inside, protocol=protocol)
    frame = ethernet(0x0800, packet)
    assert content(frame) == packet
    assert layers(frame, len(frame), ETHERNET, Reach.INNER).faults == Fault(0)
    assert both([(frame, len(frame), 1)]) == [digest(frame)]


def test_fragments_are_not_entered():
    for offset in (1, 0x2000):
        packet = ip4(INNER, protocol=4, offset=offset)
        assert content(ethernet(0x0800, packet)) == packet
    for offset in (1, 8):
        packet = ip6(struct.pack(">BBHI", 4, 0, offset, 5) + INNER, protocol=44)
        assert content(ethernet(0x86DD, packet)) == packet
    whole = ip6(struct.pack(">BBHI", 4, 0, 0, 5) + INNER, protocol=44)
    assert content(ethernet(0x86DD, whole)) == INNER


def test_a_packet_that_a_tunnel_cuts():
    """A packet ends with its tunnel, not with the padding behind it."""
    frame = ethernet(0x0800, ip4(erspan2(FRAME[:-3]), protocol=47)) + b"padding"
    assert content(frame) == INNER[:-3]
    assert layers(frame, len(frame), ETHERNET, Reach.INNER).faults == Fault.MALFORMED


@pytest.mark.parametrize("name", CONTROL)
def test_control(name):
    """Padding, tags, a check sequence and addresses do not count; the content does."""
    frame = CONTROL[name]
    layer = layers(frame, len(frame), ETHERNET)
    assert (layer.version, layer.line_end, layer.faults) == (Version.CONTROL, len(frame), Fault(0))
    if name == "IS-IS of type 8870":
        return
    others = [frame + bytes(18), frame + b"\1\2\3\4", frame[:12] + b"\x81\0\0\7" + frame[12:]]
    others += [b"other MACs.." + frame[12:], others[2] + bytes(9)]
    assert {digest(other, LAYER2_ONLY) for other in others} == {digest(frame)}
    assert len({digest(other, HARDWARE) for other in [frame, *others]}) == 6
    changed = bytearray(frame)
    changed[layer.begin + 3] ^= 1
    assert digest(bytes(changed), LAYER2_ONLY) != digest(frame)
    assert both([(f, len(f), 1) for f in others], LAYER2_ONLY) == [digest(frame)] * 5


def test_equal_bytes_of_two_protocols_differ():
    frames = [llc(b"\x83" + bytes(9), head) for head in (b"\x42\x42\x03", b"\xfe\xfe\x03")]
    assert [layers(f, len(f), ETHERNET).kind for f in frames] == [STP, IS_IS]
    assert digest(frames[0]) != digest(frames[1])


@pytest.mark.parametrize(
    ("frame", "faults"),
    [
        (ethernet(0x0806, arp()[:27]), Fault.MALFORMED),
        (ethernet(0x0806, arp()[:5]), Fault.MALFORMED),
        (ethernet(0x88CC, lldp()[:-2]), Fault.MALFORMED),
        (ethernet(0x88CC, b"\0\0" + lldp()), Fault.MALFORMED),
        (ethernet(0x88CC, lldp()[:8] + b"\x08" + lldp()[9:]), Fault.MALFORMED),
        (ethernet(0x8864, b"\x12" + pppoe(INNER)[1:]), Fault.MALFORMED),
        (ethernet(0x8847, b"\0\0\0\0" * 3), Fault.MALFORMED),
        (ethernet(0x8847, mpls(b"\x10" + bytes(40), 5)), Fault(0)),
        (ethernet(0x8863, pppoe(INNER)), Fault(0)),
        (llc(bytes(9), b"\xe0\xe0\x03"), Fault(0)),
        (llc(b"\x81" + bytes(9), b"\xfe\xfe\x03"), Fault(0)),
        (snap(INNER, organisation=5), Fault(0)),
        (MACS + b"\x05\xdc" + bytes(40), Fault(0)),
    ],
)
def test_headers_that_cannot_be_read(frame, faults):
    layer = layers(frame, len(frame), ETHERNET, Reach.INNER)
    assert layer.faults == faults
    assert digest(frame) == both([(frame, len(frame), 1)])[0]
    # Without all of its bytes, nothing speaks against a packet.
    cut = layers(frame, len(frame) + 99, ETHERNET, Reach.INNER)
    assert cut.faults in (Fault.CUT, Fault.CUT | Fault.MALFORMED)


def both(frames, comparison=INNERMOST):
    """Digests of (frame, bytes on the line, link), by the compiled loop where there is one.

    Every frame has a buffer that ends with it, so that a sanitizer sees what is read behind it.
    """
    values = []
    for frame, length, link in frames:
        positions = np.array([[0], [len(frame)], [length], [link]], np.int64)
        digests = packet_digests(
            np.frombuffer(frame, np.uint8), positions, comparison, secret=SECRET
        )
        layer = layers(frame, length, link, *comparison.search)
        assert (digests.versions[0], digests.faults[0]) == (layer.version, layer.faults), (
            frame,
            length,
        )
        values += digests.values.tolist()
    return values


@pytest.fixture(params=["compiled", "plain"])
def route(request, monkeypatch):
    monkeypatch.setenv(compilation.VARIABLE, "0" if request.param == "plain" else "1")


def damaged(choose, count):
    """Packets of all kinds, cut and changed at random; their bytes on the line and their links."""
    for _ in range(count):
        frame = bytearray(nested(choose, choose.randrange(3)))
        for _ in range(choose.choice([0, 0, 1, 2])):
            frame[choose.randrange(len(frame))] = choose.choice([0, 1, 0xFF, choose.randrange(256)])
        frame += bytes(choose.choice([0, 0, 5]))
        length = len(frame)
        if choose.random() < 0.4:
            del frame[choose.randrange(length) :]
        link = choose.choice([ETHERNET] * 9 + [RAW, 127, *LINK_HEADERS])
        yield bytes(frame), length, link


RULES = [
    *(Comparison(reach=reach) for reach in Reach),
    Comparison(Field.VLAN | Field.LAYER2 | Field.NO_ID, Reach.INNER, (0x9999,)),
    Comparison(Field.NO_CHECKSUM | Field.NO_SEQUENCE | Field.VLAN, Reach.INNER),
    Comparison(reach=Reach.INNER, masks=((3, b"\x0f\xf0"), (20, bytes(9)))),
    Comparison(Field.FRAME | Field.NO_RADIOTAP, masks=((0, bytes(7)),), skip=3),
    Comparison(reach=Reach.LAYER2, skip=30, first=25),
]


@pytest.mark.parametrize("comparison", RULES)
def test_damaged_packets_are_the_same(route, comparison):
    seed = 31
    frames = list(damaged(random.Random(seed), 150))
    for row, value in zip(frames, both(frames, comparison), strict=True):
        assert value == packet_digest(*row, comparison, secret=SECRET), (seed, row)


def test_packets_cut_anywhere():
    """A packet that is cut is read up to its end and no further."""
    for frame in {**TUNNELS, **LAYER2, **CONTROL}.values():
        rows = [(frame[:size], len(frame), 1) for size in range(0, len(frame), 7)]
        assert both(rows) == [packet_digest(*row, INNERMOST, secret=SECRET) for row in rows]


def test_radiotap():
    heads = [struct.pack("<BxHI", 0, 8 + size, 0) + bytes([size]) * size for size in (0, 5)]
    frames = [head + b"802.11 frame" for head in heads]
    comparison = Comparison(Field.NO_RADIOTAP)
    assert len({digest(f, comparison, link=127) for f in frames}) == 1
    assert len({digest(f, link=127) for f in frames}) == 2
    assert len({digest(f, comparison, link=105) for f in frames}) == 2
    for frame in (b"\0\0\x20\0short", b"\0\0\x04", b""):
        assert digest(frame, comparison, link=127) == digest(frame, link=127)
    # Its own length counts if the packet was cut.
    rows = [(frames[0], len(frames[0]) + 9, 127), (frames[1], len(frames[1]) + 9, 127)]
    assert len(set(both(rows, comparison))) == 1
    assert len(set(both([rows[0], (frames[1], len(frames[1]), 127)], comparison))) == 2


def tcp(payload, *, sequence=5, checksum=6):
    return struct.pack(">HHIIHHHH", 1, 2, sequence, 9, 0x5010, 99, checksum, 0) + payload


def test_fields_that_do_not_count():
    def differs(fields, first, second, link=RAW):
        rows = [(packet, len(packet), link) for packet in (first, second)]
        values = both(rows, Comparison(fields))
        assert values == [digest(packet, Comparison(fields), link) for packet in (first, second)]
        return values[0] != values[1]

    for header in (ip4, ip6):
        for protocol, at, size in ((6, 16, 2), (17, 6, 2), (132, 8, 4)):
            first = header(tcp(b"abc"), protocol=protocol)
            for position in range(20):
                second = bytearray(first)
                second[len(first) - 23 + position] ^= 1
                expected = not at <= position < at + size
                assert differs(Field.NO_CHECKSUM, first, bytes(second)) == expected
        first, second = (header(tcp(b"abc", sequence=n), protocol=6) for n in (5, 0x05060708))
        assert not differs(Field.NO_SEQUENCE, first, second)
        assert differs(Field.NO_CHECKSUM, first, second)
        first, second = (header(tcp(b"abc", sequence=n), protocol=17) for n in (5, 6))
        assert differs(Field.NO_SEQUENCE, first, second)
    first, second = (ip4(b"abc", number=number) for number in (0x1234, 0x5678))
    assert not differs(Field.NO_ID, first, second)
    assert differs(Field.NONE, first, second)
    # A later fragment has no layer 4.
    first, second = (ip4(tcp(b"", checksum=n), protocol=6, offset=1) for n in (5, 6))
    assert differs(Field.NO_CHECKSUM, first, second)


@pytest.mark.parametrize(
    ("at", "octets"), daily(2, [(0, b"\0"), (7, b"\x0f\0\xff"), (40, bytes(9)), (97, bytes(9))])
)
def test_mask(at, octets):
    frame = bytes(range(100))
    comparison = Comparison(Field.FRAME, masks=((at, octets), (at, b"\xf0")))
    for position, bit in product(range(100), (1, 0x10)):
        other = bytearray(frame)
        other[position] ^= bit
        mask = octets[position - at] if at <= position < at + len(octets) else 0xFF
        mask &= 0xF0 if position == at else 0xFF
        assert (digest(bytes(other), comparison) != digest(frame, comparison)) == bool(mask & bit)


def test_skip_and_bytes():
    """A message that is not longer than what is skipped counts whole, as editcap -I has it."""
    packet = ip4(udp(bytes(range(60))))
    for skip, first in product((0, 1, 19, 20, 87, 88, 89), (None, 1, 10, 88, 99)):
        comparison = Comparison(skip=skip, first=first)
        begin = skip if skip < len(packet) else 0
        end = len(packet) if first is None else min(len(packet), begin + first)
        for position in range(3, len(packet), 3):
            other = bytearray(packet)
            other[position] ^= 1
            counts = begin <= position < end and position not in (8, 10, 11)
            rows = [(frame, len(packet), RAW) for frame in (packet, bytes(other))]
            assert (len(set(both(rows, comparison))) == 2) == counts, (skip, first, position)


def test_copies_of_other_captured_lengths():
    """The first bytes are equal if all of them were captured."""
    packet = ip4(udp(bytes(100)))
    comparison = Comparison(first=64)
    rows = [(packet[:size], len(packet), RAW) for size in (63, 64, 65, len(packet))]
    values = both(rows, comparison)
    assert len(set(values[1:])) == 1
    assert values[0] != values[1]
