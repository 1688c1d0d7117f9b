"""Hash functions for one key at a time, with Python integers.

Everything that depends on a key or a secret is plain integer arithmetic, so that a proof can
substitute symbols for the integers.
"""

from .functions import (
    SHARD_BITS,
    WORD_BITS,
    IndexField,
    expand_rotations,
    fold_columns,
    index_fields,
    mix_constants,
    shard_rotations,
)


def _rotate(value: int, amount: int, width: int) -> int:
    return (value << amount | value >> (width - amount)) & ((1 << width) - 1)


def siphash(words: list[int], secret: int, *, c: int = 1, d: int = 3) -> int:
    """Compute SipHash-c-d of words that include the length byte (sections 2.1 to 2.4)."""
    mask = (1 << 64) - 1
    k0, k1 = secret & mask, secret >> 64
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def sip_round() -> None:
        nonlocal v0, v1, v2, v3
        v0 = v0 + v1 & mask
        v1 = _rotate(v1, 13, 64) ^ v0
        v0 = _rotate(v0, 32, 64)
        v2 = v2 + v3 & mask
        v3 = _rotate(v3, 16, 64) ^ v2
        v0 = v0 + v3 & mask
        v3 = _rotate(v3, 21, 64) ^ v0
        v2 = v2 + v1 & mask
        v1 = _rotate(v1, 17, 64) ^ v2
        v2 = _rotate(v2, 32, 64)

    for m in words:
        v3 ^= m
        for _ in range(c):
            sip_round()
        v0 ^= m
    v2 ^= 0xFF
    for _ in range(d):
        sip_round()
    return v0 ^ v1 ^ v2 ^ v3


class ScalarHash:
    """Hash functions h_0, h_1, ... of a filter; the constructor has the parameters of `KeyHash`."""

    def __init__(
        self,
        *,
        sizes: list[int],
        functions: int = 1,
        seed: int = 0,
        key_bits: int = 64,
        hash: str = "h3",
        shards: int = 1,
    ) -> None:
        self.hash, self.shards = hash, shards
        self.key_bytes = -(-key_bits // 8)
        self.columns = fold_columns(key_bits, seed)
        self.constants = mix_constants(seed)
        self.fields = index_fields(sizes)
        self.words = expand_rotations(self.fields, functions, seed)
        self.shard_word = shard_rotations(self.fields, functions, seed) if shards > 1 else ()

    def __call__(self, key: int, function: int, secret: int = 0) -> list[int]:
        state = self._state(key, secret)
        return [self._index(state, field, function) for field in self.fields]

    def shard(self, key: int, secret: int = 0) -> int:
        state = self._state(key, secret)
        word = 0
        for amount in self.shard_word:
            word ^= _rotate(state, amount, WORD_BITS)
        return (word >> WORD_BITS - SHARD_BITS) * self.shards >> SHARD_BITS

    def _state(self, key: int, secret: int) -> int:
        if self.hash == "siphash":
            words = [key >> low & (1 << 64) - 1 for low in range(0, 8 * self.key_bytes + 8, 64)]
            words[self.key_bytes // 8 :] = [words[self.key_bytes // 8] | self.key_bytes % 256 << 56]
            return siphash(words, secret)
        state = self.constants[0]
        for bit, column in enumerate(self.columns):
            state ^= column * (key >> bit & 1)
        left, right = state >> 32, state & 0xFFFFFFFF
        for constant in self.constants[1:]:
            mixed = _rotate(left, 1, 32) & _rotate(left, 8, 32) ^ _rotate(left, 2, 32)
            left, right = right ^ mixed ^ constant, left
        return left << 32 | right

    def _index(self, state: int, field: IndexField, function: int) -> int:
        word = 0
        for amount in self.words[function][field.word]:
            word ^= _rotate(state, amount, WORD_BITS)
        value = word >> (WORD_BITS - field.offset - field.bits) & ((1 << field.bits) - 1)
        return value if 1 << field.bits == field.size else value * field.size >> field.bits
