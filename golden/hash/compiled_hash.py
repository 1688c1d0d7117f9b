"""Compiled loops from keys to hash states: those of `KeyHash.state`."""

import numpy as np
from numpy.typing import NDArray

from ..compilation import jit
from .functions import KeyHash
from .siphash import (
    COMPRESSION_ROUNDS,
    FINAL,
    FINALIZATION_ROUNDS,
    INITIAL,
    length_word,
    message_words,
)

_HALF = np.uint64(32)
_BYTE = np.uint64(0xFF)
_WORD = (1 << 64) - 1
_INITIAL = np.array(INITIAL, np.uint64)
_FINAL = np.uint64(FINAL)


class CompiledHash:
    """States of keys under one of the hashes; the same as those of a `KeyHash`.

    Parameters
    ----------
    key_hash : KeyHash
    """

    def __init__(self, key_hash: KeyHash) -> None:
        self._keyed = key_hash.hash == "siphash"
        self._words = message_words(key_hash.key_bits)
        self._length = np.uint64(length_word(key_hash.key_bits))
        self._tables = np.array(key_hash.tables)
        self._constants = np.array(key_hash.constants, np.uint64)

    def states(self, keys: NDArray[np.uint64], secrets: list[int]) -> NDArray[np.uint64]:
        """Return the states of keys of shape (n, words), shape (secrets, n)."""
        # Another layout in memory would be another compilation.
        keys = np.require(keys, requirements=["C", "W"])
        states = np.empty((len(secrets), len(keys)), np.uint64)
        for row, secret in zip(states, secrets, strict=True):
            if self._keyed:
                low, high = np.uint64(secret & _WORD), np.uint64(secret >> 64)
                _siphash(keys, low, high, self._words, self._length, row)
            else:
                _fold(keys, self._tables, self._constants[0], row)
                _mix(self._constants, row)
        return states


@jit
def _fold(keys, tables, initial, states):
    if keys.shape[1] == 1 and len(tables) == 8:
        # Written out, it is four times as fast.
        t0, t1, t2, t3 = tables[0], tables[1], tables[2], tables[3]
        t4, t5, t6, t7 = tables[4], tables[5], tables[6], tables[7]
        for i in range(len(keys)):
            key = keys[i, 0]
            low = t0[key & _BYTE] ^ t1[key >> np.uint64(8) & _BYTE]
            low ^= t2[key >> np.uint64(16) & _BYTE] ^ t3[key >> np.uint64(24) & _BYTE]
            high = t4[key >> np.uint64(32) & _BYTE] ^ t5[key >> np.uint64(40) & _BYTE]
            high ^= t6[key >> np.uint64(48) & _BYTE] ^ t7[key >> np.uint64(56)]
            states[i] = initial ^ low ^ high
        return
    states[:] = initial
    for position in range(len(tables)):
        table = tables[position]
        shift = np.uint64(8 * (position % 8))
        for i in range(len(keys)):
            states[i] ^= table[keys[i, position // 8] >> shift & _BYTE]


@jit
def _mix(constants, states):
    # Round by round, not key by key, so that the inner loop becomes vector instructions.
    for position in range(1, len(constants)):
        constant = np.uint32(constants[position])
        for i in range(len(states)):
            left = np.uint32(states[i] >> _HALF)
            right = np.uint32(states[i])
            mixed = _rotate32(left, np.uint32(1)) & _rotate32(left, np.uint32(8))
            mixed = np.uint32(mixed ^ _rotate32(left, np.uint32(2)) ^ right ^ constant)
            states[i] = np.uint64(mixed) << _HALF | np.uint64(left)


@jit
def _rotate32(value, amount):
    return np.uint32(np.uint32(value << amount) | np.uint32(value >> (np.uint32(32) - amount)))


@jit
def _siphash(keys, low, high, words, length, states):
    for i in range(len(keys)):
        a, b = _INITIAL[0] ^ low, _INITIAL[1] ^ high
        c, d = _INITIAL[2] ^ low, _INITIAL[3] ^ high
        for number in range(words):
            word = keys[i, number] if number < keys.shape[1] else np.uint64(0)
            if number == words - 1:
                word |= length
            d ^= word
            for _ in range(COMPRESSION_ROUNDS):
                a, b, c, d = _round(a, b, c, d)
            a ^= word
        c ^= _FINAL
        for _ in range(FINALIZATION_ROUNDS):
            a, b, c, d = _round(a, b, c, d)
        states[i] = a ^ b ^ c ^ d


@jit
def _round(a, b, c, d):
    """SipRound: `siphash._round`."""
    a += b
    b = _rotate64(b, np.uint64(13)) ^ a
    a = _rotate64(a, _HALF)
    c += d
    d = _rotate64(d, np.uint64(16)) ^ c
    a += d
    d = _rotate64(d, np.uint64(21)) ^ a
    c += b
    b = _rotate64(b, np.uint64(17)) ^ c
    c = _rotate64(c, _HALF)
    return a, b, c, d


@jit
def _rotate64(value, amount):
    return value << amount | value >> (np.uint64(64) - amount)
