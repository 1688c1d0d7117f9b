"""Damage to bytes, drawn from a seed."""

import random
from collections.abc import Callable

MOST = 1 << 16
"""Bytes of an input, at most."""

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63)
"""Numbers at edges."""

WORDS = (
    *(b"0", b"-1", b"1e9", b"99999999999999999999", b"0x10", b"nan", b"inf", b"null", b"true"),
    *(b"[]", b"{}", b'""', b'"', b"[", b"\n", b"\r\n", b"\0", b",", b"=", b"#", b"\xff\xfe"),
)
"""Words that texts may have."""


def _number(draw: random.Random) -> bytes:
    size = draw.choice((1, 2, 4, 8))
    value = draw.choice(NUMBERS) % (1 << 8 * size)
    return value.to_bytes(size, draw.choice(("little", "big")))


def _part(draw: random.Random, data: bytes) -> bytes:
    start = draw.randrange(len(data) + 1)
    return data[start : start + 1 + int(draw.expovariate(0.1))]


PIECES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    lambda draw, data, other: b"",
    lambda draw, data, other: draw.randbytes(1),
    lambda draw, data, other: draw.randbytes(draw.randrange(16)),
    lambda draw, data, other: _number(draw),
    lambda draw, data, other: draw.choice(WORDS),
    lambda draw, data, other: _part(draw, data) * draw.choice((1, 1, 1, 50)),
    lambda draw, data, other: _part(draw, other),
    lambda draw, data, other: other[draw.randrange(len(other) + 1) :],
)
"""Pieces that replace a span of an input: nothing, random bytes, a number, a copy, an end."""


def damage(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """Return an input with a few spans replaced; parts of `others` may replace them."""
    for _ in range(1 + min(7, int(draw.expovariate(0.6)))):
        start = draw.randrange(len(data) + 1)
        piece = draw.choice(PIECES)(draw, data, draw.choice(others))
        lengths = (0, 1, len(piece), int(draw.expovariate(0.1)), len(data))
        kept = data[start + draw.choices(lengths, (3, 3, 6, 3, 1))[0] :]
        data = (data[:start] + piece + kept)[:MOST]
    if data and draw.random() < 0.2:
        at = draw.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 1 << draw.getrandbits(3)]) + data[at + 1 :]
    return data
