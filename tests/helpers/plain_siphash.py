"""SipRound in plain Python, from the paper alone, and golden's scalar SipHash of bytes."""

from lately.golden.hash.scalar_hash import siphash

MASK = (1 << 64) - 1


def plain_round(v):
    """SipRound, as the paper's figure 2.1 has it."""
    a, b, c, d = v
    a, c = a + b & MASK, c + d & MASK
    b, d = turn(b, 13) ^ a, turn(d, 16) ^ c
    a = turn(a, 32)
    c, a = c + b & MASK, a + d & MASK
    b, d = turn(b, 17) ^ c, turn(d, 21) ^ a
    return a, b, turn(c, 32), d


def turn(value, bits):
    return (value << bits | value >> 64 - bits) & MASK


def scalar_siphash(message, secret, **rounds):
    """SipHash of a message under a secret of 16 bytes, with the scalar function of golden."""
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    words = [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]
    return siphash(words, int.from_bytes(secret, "little"), **rounds)
