"""Layers and digests of packets: one packet in plain Python, and many in compiled loops."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from capture_files import RAW
from cases import daily
from plain_siphash import MASK, plain_round

from lately.golden import compilation
from lately.golden.packets.comparison import Comparison, Field, parse_fields
from lately.golden.packets.packet_digest import message, packet_digest, packet_digests
from lately.golden.packets.packet_layers import (
    LINK_HEADERS,
    Fault,
    Layers,
    Reach,
    Version,
    find_headers,
    headers,
    layers,
)
from lately.sim.bench.packets import ethernet, ip4, ip6, udp

COMPARED = Comparison()
SECRET = 0x0F0E0D0C0B0A09080706050403020100
UDP = ip4(udp(b"payload"))
WHOLE = ethernet(0x0800, UDP)


def joined(frames):
    """A buffer of frames that ends with the last of them, and places in it."""
    buffer = np.frombuffer(b"".join(f for f, _, _ in frames), np.uint8)
    sizes = np.array([len(f) for f, _, _ in frames], np.int64)
    others = np.array([row[1:] for row in frames], np.int64).reshape(-1, 2).T
    return buffer, np.ascontiguousarray([np.cumsum(sizes) - sizes, sizes, *others])


def digest_all(frames, *, comparison=COMPARED, fields=None, secret=SECRET):
    """Digests, versions and faults of (frame, bytes on the line, link) by the compiled loop."""
    comparison = comparison if fields is None else replace(comparison, fields=fields)
    actual = packet_digests(*joined(frames), comparison, secret=secret)
    return tuple(column.tolist() for column in actual)


@pytest.fixture(params=["compiled", "plain"])
def route(request, monkeypatch):
    """Whether loops are compiled; both give the same."""
    monkeypatch.setenv(compilation.VARIABLE, "0" if request.param == "plain" else "1")


@pytest.mark.parametrize(
    ("frame", "link", "expected"),
    [
        (WHOLE, 1, (4, 14, 14 + len(UDP), (), 0)),
        (WHOLE + bytes(9), 1, (4, 14, 14 + len(UDP), (), 0)),
        (ethernet(0x0800, UDP, tags=[0xE005, 7, 8]), 1, (4, 26, 26 + len(UDP), (5, 7, 8), 0)),
        (ethernet(0x86DD, ip6(b"abc")), 1, (6, 14, 57, (), 0)),
        # Nothing but its end tells how long it is.
        (ethernet(0x0800, ip4(b"abc", size=0)), 1, (4, 14, 37, (), 0)),
        (ethernet(0x86DD, ip6(b"abc", size=0)), 1, (6, 14, 57, (), 0)),
        (ethernet(0x86DD, ip6(b"abc", size=0, protocol=0)), 1, (6, 14, 57, (), 0)),
        # The header says that nothing follows it.
        (ethernet(0x86DD, ip6(bytes(6), size=0, protocol=59)), 1, (6, 14, 54, (), 0)),
        (ethernet(0x86DD, ip6(bytes(6), size=2, protocol=59)), 1, (6, 14, 56, (), 0)),
        *((UDP, link, (4, 0, len(UDP), (), 0)) for link in (RAW, 12, 14, 101, 228, 229)),
        (b"\2\0\0\0" + UDP, 0, (4, 4, 4 + len(UDP), (), 0)),
        (b"\0\0\0\x1c" + ip6(b""), 108, (6, 4, 44, (), 0)),
        (bytes(14) + b"\x08\0" + UDP, 113, (4, 16, 16 + len(UDP), (), 0)),
        (b"\x08\0" + bytes(18) + UDP, 276, (4, 20, 20 + len(UDP), (), 0)),
        # What is not understood is compared as it is.
        (ethernet(0x0806, bytes(28)), 1, (0, 0, 42, (), 0)),
        (ethernet(0x0800, UDP, tags=[1, 2, 3, 4]), 1, (0, 0, 30 + len(UDP), (), 0)),
        (WHOLE, 127, (0, 0, len(WHOLE), (), 0)),
        (b"\x08\0" + bytes(17), 276, (0, 0, 19, (), 1)),
        (b"\x50", RAW, (0, 0, 1, (), 0)),
        (b"", RAW, (0, 0, 0, (), 1)),
        (bytes(13), 1, (0, 0, 13, (), 1)),
        (ethernet(0x8100, b"\0\1\x08"), 1, (0, 0, 17, (), 1)),
        (ethernet(0x0800, UDP[:19]), 1, (0, 0, 33, (), 1)),
        (ethernet(0x86DD, UDP + bytes(40)), 1, (0, 0, 54 + len(UDP), (), 1)),
        (ethernet(0x0800, b"\x44" + UDP[1:]), 1, (0, 0, len(WHOLE), (), 1)),
        (ethernet(0x0800, ip4(b"abc", size=19)), 1, (0, 0, 37, (), 1)),
        # Longer than the frame that it came in.
        (ethernet(0x0800, ip4(b"abc", size=24)), 1, (4, 14, 37, (), 1)),
        # The header of the link alone.
        (bytes(14), 1, (0, 0, 14, (), 0)),
    ],
)
def test_layers(frame, link, expected):
    actual = layers(frame, len(frame), link, Reach.HARDWARE)
    assert actual == Layers(Version(expected[0]), *expected[1:4], Fault(expected[4]), expected[2])
    comparison = Comparison(reach=Reach.HARDWARE)
    assert digest_all([(frame, len(frame), link)], comparison=comparison)[1:] == (
        [expected[0]],
        [expected[4]],
    )


def test_a_packet_that_was_cut():
    """What is missing was cut off; it says nothing against the packet."""
    for size in range(len(WHOLE)):
        actual = layers(WHOLE[:size], len(WHOLE), 1)
        assert actual.faults == Fault.CUT
        assert actual.version == (Version.IP4 if size >= 34 else Version.OTHER)
        assert (actual.end, actual.line_end) == (size, len(WHOLE))


def test_padding_that_was_cut():
    """The end of layer 3 is known, if only padding is missing, or if all of it is open."""
    actual = layers(WHOLE + bytes(3), len(WHOLE) + 9, 1)
    assert (actual.end, actual.line_end) == (len(WHOLE), len(WHOLE))
    actual = layers(WHOLE[:-3], len(WHOLE) + 9, 1)
    assert (actual.end, actual.line_end) == (len(WHOLE) - 3, len(WHOLE))
    for tail in (ip4(b"abc", size=0), ip6(b"abc", size=0)):
        frame = ethernet(0x0800 if tail[0] == 0x45 else 0x86DD, tail)
        actual = layers(frame, 99, 1)
        assert (actual.end, actual.line_end) == (len(frame), 99)


@pytest.mark.parametrize("size", [0, 1, 16, 17, 24, 60])
def test_cut_packets_of_other_lengths_differ(size):
    """A packet that was cut is no whole packet, and none of another length."""
    random = np.random.default_rng(size)
    kinds = [random.bytes(60), ethernet(0x0800, ip4(bytes(60), size=0))]
    kinds += [ethernet(0x86DD, ip6(bytes(60), size=0)), ethernet(0x0800, ip4(bytes(90)))]
    for octets in kinds:
        for fields in (Field.TOS, Field.FRAME, Field.LAYER2):
            if octets is kinds[-1] and fields != Field.FRAME and size > 33:
                continue
            frames = [(octets[:size], length, 1) for length in (size, size + 1, 1500, 1501, 70_000)]
            digests = digest_all(frames, fields=fields)[0]
            assert len(set(digests)) == len(frames)
            assert digests == [packet_digest(*f, Comparison(fields), secret=SECRET) for f in frames]


def test_cut_packets_of_ip_have_a_length():
    """Padding does not count, whether it was captured or not."""
    frames = [(WHOLE[:50], len(WHOLE) + padding, 1) for padding in (0, 9)]
    whole = [(WHOLE + bytes(padding), len(WHOLE) + 9, 1) for padding in (0, 3, 9)]
    for rows in (frames, whole):
        assert len(set(digest_all(rows)[0])) == 1
        assert len({packet_digest(*row) for row in rows}) == 1
        assert len(set(digest_all(rows, fields=Field.FRAME)[0])) == len(rows)


@pytest.mark.parametrize("header", [ip4, ip6])
def test_what_changes_on_the_way_does_not_count(header):
    kind, ttl, tos = (0x0800, "ttl", "tos") if header is ip4 else (0x86DD, "limit", "traffic")

    def digest(fields=Field.TOS, payload=b"payload", tags=(), padding=b"", macs=bytes(12), **more):
        frame = ethernet(kind, header(payload, **more), tags=tags, macs=macs) + padding
        return packet_digest(frame, len(frame), 1, Comparison(fields))

    same = digest()
    assert digest(**{ttl: 3}, padding=bytes(7), tags=[5], macs=b"another one.") == same
    if header is ip4:
        assert digest(checksum=77) == same
        assert digest(Field.TTL, checksum=77) == digest(Field.TTL)
    assert digest(payload=b"Payload") != same
    assert digest(**{tos: 4}) != same
    assert digest(Field.NONE, **{tos: 0xFF}) == digest(Field.NONE)
    assert digest(Field.TTL, **{ttl: 3}) != digest(Field.TTL)
    assert digest(Field.VLAN, tags=[5]) != digest(Field.VLAN, tags=[6]) != digest(Field.VLAN)
    assert digest(Field.VLAN, tags=[0x1005]) == digest(Field.VLAN, tags=[5])
    assert digest(Field.VLAN, tags=[0]) != digest(Field.VLAN)
    assert digest(Field.LAYER2, macs=b"another one.") != digest(Field.LAYER2)
    assert digest(Field.LAYER2, **{ttl: 3}) == digest(Field.LAYER2)
    assert digest(Field.FRAME, **{ttl: 3}) != digest(Field.FRAME)
    assert digest(Field.FRAME, padding=b"\0") != digest(Field.FRAME)


def test_message():
    frame = ethernet(0x0800, ip4(b"abc", ttl=9, tos=3, checksum=5), tags=[0x123, 0x456])
    layer3 = bytearray(frame[22:])
    layer3[8] = layer3[10] = layer3[11] = 0
    parsed = layers(frame, len(frame), 1)
    size = len(frame)

    def of(fields, length=size):
        return message(frame, length, parsed, Comparison(fields))

    assert of(Field.VLAN | Field.TOS) == (layer3, 4, (0x123, 0x456), 23, 0)
    assert of(Field.TOS) == (layer3, 4, (), 23, 0)
    assert of(Field.LAYER2 | Field.TOS) == (frame[:22] + layer3, 4, (), size, 0)
    assert of(Field.FRAME, size + 9) == (frame, 0, (), size + 9, 0)
    assert of(Field.VLAN).closing == 0x456123A << 16 | 23
    assert of(Field.FRAME).closing == size


@pytest.mark.parametrize("size", [0, 1, 8, 9, 15, 16, 17, 24, 25])
def test_words(size):
    """Padded with zeros, two at least; their number and the length tell all messages apart."""
    frame = bytes(range(1, 1 + size))
    actual = message(frame, size, layers(frame, size, 1), Comparison(Field.FRAME))
    cut = message(frame, size + 300, layers(frame, size + 300, 1), Comparison(Field.FRAME))
    assert cut.words == [*actual.words, (size + 300).to_bytes(8, "little")]
    assert cut.closing == actual.closing
    assert b"".join(actual.words).rstrip(b"\0") == frame
    assert [len(word) for word in actual.words] == [8] * max(2, -(-size // 8))
    assert actual.closing == size


def test_length_is_told_modulo_its_bits():
    frame = bytes((1 << 16) + 5)
    parsed = layers(frame, len(frame), 1)
    assert message(frame, len(frame), parsed, Comparison(Field.FRAME)).closing == 5


def plain_lane(words, closing, key):
    words = [*words, closing | (8 * len(words) + 7) % 256 << 56]
    low, high = key & MASK, key >> 64
    text = b"somepseudorandomlygeneratedbytes"
    initial = [int.from_bytes(text[at : at + 8], "big") for at in range(0, 32, 8)]
    v = tuple(x ^ k for x, k in zip(initial, [low, high, low, high], strict=True))
    for word in words:
        a, b, c, d = plain_round((*v[:3], v[3] ^ word))
        v = a ^ word, b, c, d
    v = *v[:2], v[2] ^ 0xFF, v[3]
    for _ in range(3):
        v = plain_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize("size", [*range(34), 100, 1500])
def test_digest_in_plain_python(size):
    random = np.random.default_rng(size)
    frame, secret = random.bytes(size), int.from_bytes(random.bytes(16), "little")
    padded = frame.ljust(max(16, size + -size % 8), b"\0")
    words = [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]
    other = secret ^ 0x243F6A88_85A308D3_13198A2E_03707344
    expected = plain_lane(words[::2], size, secret) ^ plain_lane(words[1::2], size, other)
    assert packet_digest(frame, size, 127, secret=secret) == expected
    assert digest_all([(frame, size, 127)], secret=secret)[0] == [expected]
    words.append(size + 9)
    expected = plain_lane(words[::2], size, secret) ^ plain_lane(words[1::2], size, other)
    assert packet_digest(frame, size + 9, 127, secret=secret) == expected
    assert digest_all([(frame, size + 9, 127)], secret=secret)[0] == [expected]


def test_digest_of_packets_in_plain_python():
    layer3 = ip4(b"abcd", ttl=0, checksum=0, tos=7)
    words = struct.unpack("<3Q", layer3)
    closing = 24 | 2 << 16 | 2 << 18 | 5 << 20 | 0xABC << 32
    other = SECRET ^ 0x243F6A88_85A308D3_13198A2E_03707344
    expected = plain_lane(words[::2], closing, SECRET)
    expected ^= plain_lane(words[1::2], closing, other)
    frame = ethernet(0x0800, ip4(b"abcd", ttl=9, checksum=8, tos=7), tags=[5, 0x1ABC]) + bytes(3)
    fields = Field.TOS | Field.VLAN
    assert packet_digest(frame, len(frame), 1, Comparison(fields), secret=SECRET) == expected
    assert digest_all([(frame, len(frame), 1)], fields=fields)[0] == [expected]


def random_frames(random, count):
    """Frames of all kinds, of which some are cut and some have wrong bytes."""
    for _ in range(count):
        payload = random.bytes(int(random.integers(0, 80)))
        version = random.choice([4, 6])
        tos = int(random.integers(0, 256))
        size = 0 if random.random() < 0.1 else None
        protocol = int(random.choice([17, 59]))
        header, more = (ip4, {"tos": tos}) if version == 4 else (ip6, {"traffic": tos})
        layer3 = header(payload, size=size, protocol=protocol, **more)
        tags = random.integers(0, 1 << 16, random.integers(0, 5)).tolist()
        kind = {4: 0x0800, 6: 0x86DD}[version]
        frame = bytearray(ethernet(kind, layer3, tags=tags) + bytes(int(random.integers(0, 9))))
        for index in random.integers(0, len(frame), random.integers(0, 3)):
            frame[index] = random.integers(0, 256)
        length = len(frame)
        if random.random() < 0.3:
            frame = frame[: random.integers(0, length)]
        link = int(random.choice([*LINK_HEADERS, 1, 1, 1, 1, 127, 70000, -1]))
        yield bytes(frame), length, link


@pytest.mark.parametrize(
    "fields", daily(6, [Field.NONE, Field.VLAN | Field.TTL, Field.TOS, *Field])
)
def test_many_packets_are_the_same(route, fields):
    seed = 20
    frames = list(random_frames(np.random.default_rng(seed), 150))
    actual = zip(*digest_all(frames, fields=fields), strict=True)
    for row, (digest, version, faults) in zip(frames, actual, strict=True):
        parsed = layers(*row)
        assert (version, faults) == (parsed.version, parsed.faults), (seed, row)
        assert digest == packet_digest(*row, Comparison(fields), secret=SECRET), (seed, row)


def test_many_headers_are_the_same(route):
    """Of packets that were cut, too, before others."""
    seed = 21
    frames = list(random_frames(np.random.default_rng(seed), 800))
    for row, actual in zip(frames, find_headers(*joined(frames)).T.tolist(), strict=True):
        parsed = layers(*row)
        assert actual == list(headers(*row)), (seed, row)
        assert actual[:4] == [parsed.version, parsed.begin, parsed.end, parsed.faults], (seed, row)


@pytest.mark.parametrize("loop", [packet_digests, find_headers])
def test_packets_outside_the_buffer(route, loop):
    for row in [(-1, 3, 3), (8, 3, 3), (0, 11, 11), (0, -1, 3), (5, 3, 2)]:
        for column in (0, 1):
            packets = np.array([[0, 4, 4, 1]] * 2).T.copy()
            packets[:3, column] = row
            with pytest.raises(ValueError, match=r"^packets: must be inside the buffer$"):
                loop(np.zeros(10, np.uint8), packets)


def layer4(frame, link=1):
    """Protocol and place of layer 4, in both ways."""
    row = frame, len(frame), link
    actual = find_headers(*joined([row]))[4:, 0].tolist()
    assert list(headers(*row)[4:]) == actual
    return actual


def test_layer_4():
    assert layer4(WHOLE) == [17, 34]
    assert layer4(ethernet(0x0800, ip4(b"", options=bytes(8)), tags=[1])) == [17, 46]
    assert layer4(ethernet(0x0800, ip4(b"", offset=1))) == [17, -1]
    assert layer4(ethernet(0x0800, ip4(b"", offset=0x2000))) == [17, 34]
    assert layer4(ethernet(0x0806, bytes(28))) == [-1, -1]
    assert layer4(ethernet(0x86DD, ip6(bytes(8)))) == [17, 54]


def test_extension_headers():
    hop, routing = b"\x2b\0" + bytes(6), b"\x3c\1" + bytes(14)
    options, fragment = b"\x33\0" + bytes(6), b"\x06\0\0\1" + bytes(4)
    authentication = b"\x2c\4" + bytes(22)
    chain = hop + routing + options + authentication + fragment
    assert layer4(ethernet(0x86DD, ip6(chain + bytes(20), protocol=0))) == [6, 54 + len(chain)]
    # A fragment that is not the first has no ports, and a chain may not be whole.
    later = chain[:-6] + b"\0\x08" + bytes(4)
    assert layer4(ethernet(0x86DD, ip6(later + bytes(20), protocol=0))) == [6, -1]
    assert layer4(ethernet(0x86DD, ip6(chain[:20], protocol=0))) == [60, -1]
    endless = b"\0\0" + bytes(6)
    assert layer4(ethernet(0x86DD, ip6(endless * 40, protocol=0))) == [0, -1]


def test_fields():
    assert parse_fields("none") == Field.NONE
    assert parse_fields("tos,vlan") == Field.TOS | Field.VLAN
    assert parse_fields("no-radiotap,frame") == Field.FRAME | Field.NO_RADIOTAP
