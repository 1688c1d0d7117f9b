"""Keyed digest for frames at 128 or more bits per cycle, from a polynomial over GF(2^64).

The message and its closing are those of `packet_digest.Message`. The message is padded with zeros
to whole beats of the hardware. Its 64-bit words are the coefficients of a polynomial, highest power
first. The polynomial is evaluated at two keys, and a keyed function F computes the digest from both
values and the closing:

- F(x0, x1, c) is SipHash-1-3, under the secret, of 23 bytes: 8 of x0, 8 of x1 and 7 of c.
- The field is GF(2)[x] / (x^64 + x^4 + x^3 + x + 1). Bit i of a word is the coefficient of x^i.
- The keys are F(0, 0, EMPTY) and F(1, 0, EMPTY). No packet has the closing EMPTY.

**Collisions.** The difference of two messages of n words and equal closings is a polynomial with at
most n - 1 roots. So both values agree with a probability of at most ((n - 1) / 2^64)^2: 2^-122 for
a beat of 64 bytes, 2^-112 for 2,000 bytes and 2^-107 for 9,600 bytes. The closing contains the
length modulo 2^16, so the bound holds for messages below 65,536 bytes.

**Attacker.** An attacker chooses all frames and sees which frames are dropped. F is a pseudo-random
function. As long as no two messages agree in both values, drops reveal nothing about the keys. So
P(two different messages have the same digest) <= pairs * (bound + 2^-64) + Adv(F), where `pairs` is
the number of pairs of a frame and a remembered frame, and Adv(F) is the advantage of an attacker
who tries to distinguish F from a random function. The 2^-64 is the probability that F collides
by chance. Such a collision gives an attacker one pair of frames, not a key.
"""

from functools import lru_cache

import numpy as np

from ..hash.siphash import WORD_BITS, siphash

MODULUS = 0b11011  # terms of the modulus below x^64
EMPTY = 0x10000  # closing for the keys: an empty message of `Version.CONTROL`
KEYS = 2  # number of keys: the polynomial is evaluated at each
FINISH_BITS = 184  # total bits of the three arguments of F
Key = list[list[int]]  # products of a key and each value of each byte, by byte and value


def times_x(word: int) -> int:
    """Multiply a word by x in GF(2^64)."""
    return (word << 1) % (1 << WORD_BITS) ^ MODULUS * (word >> WORD_BITS - 1)


def multiply(first: int, second: int) -> int:
    product = 0
    for bit_index in reversed(range(WORD_BITS)):
        product = times_x(product) ^ first * (second >> bit_index & 1)
    return product


def finish(first: int, second: int, closing: int, secret: int) -> int:
    """Compute the keyed function F of two values and a closing, under a 128-bit secret."""
    words = np.array([[first, second, closing]], np.uint64)
    return int(siphash(words, secret, key_bits=FINISH_BITS)[0])


@lru_cache(maxsize=4)
def keys(secret: int) -> tuple[int, ...]:
    """Derive, from a secret, the two keys at which polynomials are evaluated."""
    return tuple(finish(number, 0, EMPTY, secret) for number in range(KEYS))


@lru_cache(maxsize=8)
def _products(key: int) -> Key:
    products = []
    for bit_index in range(0, WORD_BITS, 8):
        row = [0]
        for bit in range(8):
            power = multiply(key, 1 << bit_index + bit)
            row += [power ^ value for value in row]
        products.append(row)
    return products


def values(octets: bytes, secret: int, beat_bytes: int) -> tuple[int, ...]:
    """Evaluate a message's polynomial at both keys; `beat_bytes` is 8 times a power of two."""
    beats = max(1, -(-len(octets) // beat_bytes))
    words = np.frombuffer(octets.ljust(beats * beat_bytes, b"\0"), "<u8").tolist()
    results = []
    for key in keys(secret):
        rows, value = _products(key), 0
        for word in words:
            product = word
            for row in rows:
                product ^= row[value & 255]
                value >>= 8
            value = product
        results.append(value)
    return tuple(results)


def polynomial_digest(octets: bytes, closing: int, secret: int, beat_bytes: int) -> int:
    """Return the 64-bit digest of a message, which must be shorter than 65,536 bytes."""
    first, second = values(octets, secret, beat_bytes)
    return finish(first, second, closing, secret)
