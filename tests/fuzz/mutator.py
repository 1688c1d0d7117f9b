"""Damage to bytes, drawn from a seed."""

import random

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63)
"""Numbers at edges."""

MOST = 1 << 16
"""Bytes of an input, at most."""

WORDS = (
    *(b"0", b"-1", b"1e9", b"99999999999999999999", b"0x10", b"nan", b"inf", b"null", b"true"),
    *(b"[]", b"{}", b'""', b'"', b"[", b"\n", b"\r\n", b"\0", b",", b"=", b"#", b"\xff\xfe"),
)
"""Words that texts may have."""


def mutate(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """Return data with a few changes; parts of `others` may come in."""
    changed = bytearray(data)
    for _ in range(1 + min(7, int(draw.expovariate(0.6)))):
        draw.choice(CHANGES)(changed, draw, others)
    return bytes(changed[:MOST])


def _place(data: bytearray, draw: random.Random) -> int:
    return int(draw.random() * (len(data) + 1))


def _span(data: bytearray, draw: random.Random) -> slice:
    at = _place(data, draw)
    return slice(at, at + 1 + int(draw.expovariate(0.1)))


def flip(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Flip a bit."""
    if data:
        data[int(draw.random() * len(data))] ^= 1 << draw.getrandbits(3)


def set_byte(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Set a byte to any value."""
    if data:
        data[int(draw.random() * len(data))] = draw.getrandbits(8)


def set_number(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Write a number at an edge, of 1 to 8 bytes, in either order."""
    size = draw.choice((1, 2, 4, 8))
    number = draw.choice(INTERESTING) % (1 << 8 * size)
    at = _place(data, draw)
    data[at : at + size] = number.to_bytes(size, draw.choice(("little", "big")))


def remove(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Remove some bytes."""
    del data[_span(data, draw)]


def cut(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Cut off the end."""
    del data[_place(data, draw) :]


def double(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Copy some bytes to another place, once or often."""
    at = _place(data, draw)
    data[at:at] = data[_span(data, draw)] * draw.choice((1, 1, 1, 50))


def insert(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Insert a word or random bytes."""
    at = _place(data, draw)
    data[at:at] = draw.choice(WORDS) if draw.random() < 0.7 else draw.randbytes(draw.randrange(16))


def replace(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Write a word over some bytes."""
    data[_span(data, draw)] = draw.choice(WORDS)


def splice(data: bytearray, draw: random.Random, others: list[bytes]) -> None:
    """Go on with the end of another input."""
    other = draw.choice(others)
    data[_place(data, draw) :] = other[int(draw.random() * (len(other) + 1)) :]


CHANGES = (flip, flip, set_byte, set_number, remove, cut, double, insert, replace, splice)
"""Ways to change bytes."""
