"""Digests of wide frames against the vectors of their definition, and the field that they use."""

import random

import pytest

from lately.golden.packets.comparison import Comparison
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.packets.packet_digest import packet_digest
from lately.golden.packets.packet_layers import ETHERNET, Reach
from lately.golden.packets.polynomial_digest import (
    keys,
    multiply,
    polynomial_digest,
    times_x,
    values,
)
from lately.golden.spec import GEBFSpec
from lately.sim.bench.packets import ethernet, ip4

SECRET = 0x0F0E0D0C0B0A09080706050403020100
UDP = bytes.fromhex(
    "020000000001 020000000002 0800 4500002e 12340000 40115489 0a000001 0a000002 03e80035 001a0000"
) + bytes(range(0x12))
TAGGED = bytes.fromhex(
    "02000000000a 02000000000b 81000007 0800 4500002e 12340000 3f115589 0a000001 0a000002"
    "03e80035 001a0000"
) + bytes([*range(0x12), *[0xEE] * 6])


def test_keys():
    assert keys(SECRET) == (0xF07D446E2B73898B, 0xC60A5D18EFBCE7AE)


@pytest.mark.parametrize(
    ("octets", "closing", "expected", "digests"),
    [
        (
            bytes(range(0x2E)),
            0x2002E,
            (0xFF3D35C9D70E7146, 0x5799EE91F0E94117),
            (0x355444C5C3E6F35A, 0x355444C5C3E6F35A, 0xE6D5878F8FFB5E5A, 0xE6D5878F8FFB5E5A),
        ),
        (
            bytes(i % 251 for i in range(1500)),
            0x7705DC,
            (0x7C6A20B911A6EF92, 0x311CD4DB0813E923),
            (0xA9DBCF46112A4567, 0xA9DBCF46112A4567, 0xA9DBCF46112A4567, 0xCB89949F4F9578B5),
        ),
        (
            b"\1",
            1,
            (0x2099C2FBF2FC81D9, 0xF46CEF95B806BF84),
            (0x71D45B8C07C1AD43, 0x69F3CFB90C37727F, 0xCD202F7A6E878879, 0x04A3F18C3986874B),
        ),
        (bytes(64), 0x40, (0, 0), (0x338B71D804F529A7,) * 4),
    ],
)
def test_vectors(octets, closing, expected, digests):
    assert values(octets, SECRET, 64) == expected
    assert tuple(polynomial_digest(octets, closing, SECRET, b) for b in (8, 16, 32, 64)) == digests


@pytest.mark.parametrize("frame", [UDP, TAGGED])
def test_packets(frame):
    """Layer 2, TTL and checksum differ; the digests do not."""
    comparison = Comparison(reach=Reach.HARDWARE)
    digests = [
        packet_digest(frame, len(frame), ETHERNET, comparison, secret=SECRET, width=width)
        for width in (128, 256, 512)
    ]
    assert digests == [0x5677EBE64EB201E7, 0x6136984D87A022EF, 0x6136984D87A022EF]


def test_field():
    """x has the order of the whole group only if the modulus is primitive; it is irreducible."""
    choose = random.Random(6)
    a, b, c = (choose.getrandbits(64) for _ in range(3))
    assert multiply(a, 2) == times_x(a)
    assert multiply(a, b) == multiply(b, a)
    assert multiply(a, b ^ c) == multiply(a, b) ^ multiply(a, c)
    assert multiply(multiply(a, b), c) == multiply(a, multiply(b, c))
    power = a
    for _ in range(64):
        power = multiply(power, power)
    assert power == a


def test_the_sum_over_all_beats_of_a_message():
    """The words are the coefficients, the first of the highest power."""
    choose = random.Random(7)
    for size in (1, 63, 64, 65, 200):
        octets = choose.randbytes(size)
        padded = octets.ljust(-(-size // 64) * 64, b"\0")
        for key, value in zip(keys(SECRET), values(octets, SECRET, 64), strict=True):
            total = 0
            for at in range(0, len(padded), 8):
                total = multiply(total, key) ^ int.from_bytes(padded[at : at + 8], "little")
            assert value == total


SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


def test_deduplicator_digests_as_its_width(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "lately.golden.packets.packet_digest.polynomial_digest",
        lambda octets, closing, secret, beat_bytes: asked.append(beat_bytes) or 5,
    )
    frame = ethernet(0x0800, ip4(b"a"))
    for width in (64, 128, 256, 512):
        assert len(FrameDeduplicator(SPEC, width=width).perform([frame, frame], [0, 0])) == 1
    assert asked == [16, 16, 32, 32, 64, 64]
