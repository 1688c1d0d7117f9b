"""SipHash, the keyed function of Aumasson and Bernstein, over arrays of keys.

*SipHash: a fast short-input PRF* (Indocrypt 2012), sections 2.1 to 2.4. Without knowing the secret,
nobody can choose messages that collide more often than by chance; no hash with public constants can
ensure this. The default is SipHash-1-3: one round for each word of the message, and three at the
end. It needs half the hardware of the paper's SipHash-2-4.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

SECRET_BITS = 128
WORD_BITS = 64  # width of message words, state words and the result
COMPRESSION_ROUNDS = 1  # c: rounds for each word of the message
FINALIZATION_ROUNDS = 3  # d: rounds after the last word
# XORed with the halves of the secret: the text "somepseudorandomlygeneratedbytes"
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
FINAL = 0xFF  # XORed with the third word before the last rounds
Words = list[NDArray[np.uint64]]  # one array of shape (n,) for each word
Word = TypeVar("Word", np.uint32, np.uint64)


def random_secret() -> int:
    """Return a random secret without importing the module `secrets`, which loads slowly."""
    return int.from_bytes(os.urandom(SECRET_BITS // 8))


def check_secret(secret: object) -> int:
    """Convert a `secret` of at most 128 bits to an int; error messages do not reveal the secret."""
    if isinstance(secret, bool) or not isinstance(secret, int | np.integer):
        raise TypeError(f"secret: must be an integer, not {type(secret).__name__}")
    secret, size = int(secret), int(secret).bit_length()
    if secret < 0:
        raise ValueError("secret: must not be negative")
    if size > SECRET_BITS:
        raise ValueError(f"secret: must have at most {SECRET_BITS} bits, not {size}")
    return secret


def message_bytes(key_bits: int) -> int:
    return -(-key_bits // 8)


def message_words(key_bits: int) -> int:
    """Count the 64-bit words of a message; the last word includes the length byte."""
    return message_bytes(key_bits) // 8 + 1


def length_word(key_bits: int) -> int:
    """Return a word that holds only the length byte: the length modulo 256 in the top byte."""
    return message_bytes(key_bits) % 256 << 56


def siphash(
    keys: NDArray[np.uint64],
    secret: int | NDArray[np.uint64],
    *,
    key_bits: int,
    compression: int = COMPRESSION_ROUNDS,
    finalization: int = FINALIZATION_ROUNDS,
) -> NDArray[np.uint64]:
    """Hash keys of shape (n, words) under one secret, or under n secrets of shape (n, 2)."""
    halves: Sequence[NDArray[np.uint64] | np.uint64]
    if isinstance(secret, np.ndarray):
        halves = secret[:, 0], secret[:, 1]
    else:
        mask = (1 << WORD_BITS) - 1
        halves = np.uint64(secret & mask), np.uint64(secret >> WORD_BITS)
    v = [
        np.full(len(keys), constant, np.uint64) ^ halves[number % 2]
        for number, constant in enumerate(INITIAL)
    ]
    last = message_words(key_bits) - 1
    for number in range(last + 1):
        word = keys[:, number] if number < keys.shape[1] else np.zeros(len(keys), np.uint64)
        if number == last:
            word = word | np.uint64(length_word(key_bits))
        v[3] = v[3] ^ word
        for _ in range(compression):
            _round(v)
        v[0] ^= word
    v[2] ^= np.uint64(FINAL)
    for _ in range(finalization):
        _round(v)
    hashes: NDArray[np.uint64] = v[0] ^ v[1] ^ v[2] ^ v[3]
    return hashes


def siphash_spans(
    data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64], secret: int
) -> NDArray[np.uint64]:
    """Hash n byte strings, each of them ``data[start:stop]``, under one `secret`."""
    digests = np.empty(len(starts), np.uint64)
    sizes = stops - starts
    for size in np.unique(sizes).tolist():
        alike = sizes == size
        padded = np.zeros((np.count_nonzero(alike), -(-size // 8) * 8), np.uint8)
        padded[:, :size] = data[starts[alike, None] + np.arange(size)]
        digests[alike] = siphash(padded.view("<u8"), secret, key_bits=8 * size)
    return digests


def _round(v: Words) -> None:
    """Perform SipRound (section 2.3, figure 2.1)."""
    _add_rotate_add(v, 0, 1, 13)
    v[0] = rotate(v[0], 32)
    _add_rotate_add(v, 2, 3, 16)
    _add_rotate_add(v, 0, 3, 21)
    _add_rotate_add(v, 2, 1, 17)
    v[2] = rotate(v[2], 32)


def _add_rotate_add(v: Words, total: int, other: int, amount: int) -> None:
    v[total] = v[total] + v[other]
    v[other] = rotate(v[other], amount) ^ v[total]


def rotate(value: NDArray[Word], amount: int) -> NDArray[Word]:
    """Rotate unsigned integers left by `amount` bits."""
    kind = value.dtype.type
    return value << kind(amount) | value >> kind(-amount % (8 * value.itemsize))
