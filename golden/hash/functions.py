"""Keyed hashing shared by the golden models and the hardware.

A key goes through three steps, each of which needs only one level of four-input look-up tables per
pipeline stage:

1. *Fold*: the H3 class of Carter and Wegman. Every key bit has a random 64-bit column; the columns
   of the set bits are XORed. The columns of the first 64 key bits are linearly independent, so two
   keys of 64 bits or fewer never collide here.
2. *Mix*: a few rounds of the quadratic Feistel step of the Simon cipher. The fold alone is linear,
   so regular keys (counters, strides, addresses) would exceed the false-positive rates that
   theory predicts.
3. *Expand*: each segment takes its cell indices from separate words, each the XOR of three
   rotations of the mixed state. The index bits of consecutive segments are linearly independent if
   together they are at most 64 bits; for a uniform state they are then uniform and independent.
   (Where a longer ring wraps around, this may hold for fewer segments.)

These three steps are the hash "h3". In the hash "siphash", SipHash-1-3 under a secret replaces fold
and mix. With several shards, bits of the mixed state also select the shard; they are linearly
independent of the index bits as far as 64 bits allow. All constants are drawn from the seed with
SHAKE-256.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from .siphash import rotate, siphash

STATE_BITS = 64  # width of the mixed state
MIX_ROUNDS = 4  # a bias is visible after two (`tests/golden/test_hashing.py`); two more are margin
WORD_BITS = 64  # width of an expanded word
RANGE_BITS = 32  # width of an index field for a size that is not a power of two
SHARD_BITS = 12  # bits of the state that select a shard; scaled down to the number of shards
OFFSET_TERMS = 3  # maximum number of remainder bits that are XORed with one row bit
_DRAWS = 1000  # number of candidates for one function before its condition is relaxed


class ConstantStream:
    """Endless deterministic stream of pseudorandom constants for a label and a seed."""

    def __init__(self, *, label: str, seed: int) -> None:
        self._prefix = f"lately/{label}/{seed}/".encode()
        self._position = 0

    def word(self) -> int:
        digest = hashlib.shake_256(self._prefix + str(self._position).encode()).digest(8)
        self._position += 1
        return int.from_bytes(digest, "little")

    def below(self, bound: int) -> int:
        limit = (1 << 64) - (1 << 64) % bound
        while (word := self.word()) >= limit:
            continue
        return word % bound


@dataclass(frozen=True)
class IndexField:
    """Bit field of an expanded word that determines one cell index."""

    size: int  # the index is in ``range(size)``
    word: int  # number of the expanded word, counted within the segment
    offset: int  # number of bits of the word above the field
    # width of the field: ``log2(size)`` for a power of two, else `RANGE_BITS`; the index is then
    # ``(field * size) >> bits``
    bits: int

    @property
    def power_of_two(self) -> bool:
        return 1 << self.bits == self.size


Fields = tuple[IndexField, ...]


def index_fields(sizes: Sequence[int]) -> Fields:
    """Assign an index field to each size; the fields fill each word from its top bit down."""
    fields = []
    word = offset = 0
    for size in sizes:
        bits = size.bit_length() - 1 if size & (size - 1) == 0 else RANGE_BITS
        if offset + bits > WORD_BITS:
            word, offset = word + 1, 0
        fields.append(IndexField(size=size, word=word, offset=offset, bits=bits))
        offset += bits
    return tuple(fields)


Basis = dict[int, int]  # independent vectors over GF(2), by the index of their highest bit


def _insert_independent(basis: Basis, vector: int) -> bool:
    """Add `vector` to `basis` and return True if it is linearly independent, else return False."""
    while vector:
        top = vector.bit_length()
        if top not in basis:
            basis[top] = vector
            return True
        vector ^= basis[top]
    return False


def _independent(vectors: Iterable[int], of: Basis | None = None) -> bool:
    basis = dict(of or {})
    return all(_insert_independent(basis, vector) for vector in vectors)


@lru_cache(maxsize=64)
def fold_columns(key_bits: int, seed: int) -> tuple[int, ...]:
    """Return the columns of the H3 matrix: a 64-bit integer for each key bit, lowest bit first."""
    stream = ConstantStream(label=f"fold/{key_bits}", seed=seed)
    basis: Basis = {}
    columns = []
    for position in range(key_bits):
        column = stream.word()
        # More than 64 columns cannot be independent, so further columns are random.
        while position < STATE_BITS and not _insert_independent(basis, column):
            column = stream.word()
        columns.append(column)
    return tuple(columns)


@lru_cache(maxsize=64)
def mix_constants(seed: int) -> tuple[int, ...]:
    """Draw the initial 64-bit state, followed by a 32-bit constant for each round."""
    stream = ConstantStream(label="mix", seed=seed)
    return (stream.word(), *(stream.word() >> 32 for _ in range(MIX_ROUNDS)))


# three rotation amounts: a word is the XOR of the mixed state rotated by each of them
Rotations = tuple[int, int, int]
Terms = tuple[tuple[int, ...], ...]  # for each row bit, the remainder bits XORed with it


def _field_rows(fields: Sequence[IndexField], words: Sequence[Rotations]) -> list[int]:
    """Return, for each bit of each field, the mask of the state bits whose XOR is that bit."""
    rows = []
    for field in fields:
        for bit in range(field.bits):
            position = WORD_BITS - 1 - field.offset - bit
            rows.append(sum(1 << (position - amount) % STATE_BITS for amount in words[field.word]))
    return rows


@lru_cache(maxsize=64)
def expand_rotations(
    fields: Fields, functions: int, seed: int
) -> tuple[tuple[Rotations, ...], ...]:
    """Draw the rotation amounts of all functions, indexed by function, word and term."""
    # Each function is redrawn until its index bits are linearly independent of those of as many
    # neighbours in the ring of functions as fit into the state. If that fails, fewer are required.
    stream = ConstantStream(label=f"expand/{functions}", seed=seed)
    words = fields[-1].word + 1
    bits = sum(field.bits for field in fields)
    # If one function is wider than the state, only its first words are independent.
    checked = fields
    while sum(field.bits for field in checked) > STATE_BITS:
        checked = checked[:-1]
    # A field of size 1 has no bits.
    reach = max(1, min(STATE_BITS // max(1, bits), functions))
    chosen: list[tuple[Rotations, ...]] = []
    rows: list[list[int]] = []
    while len(chosen) < functions:
        bases = _neighbour_bases(rows, functions, reach)
        for _ in range(_DRAWS if bases else 0):
            candidate = tuple(_draw_rotations(stream) for _ in range(words))
            row = _field_rows(checked, candidate)
            if all(_independent(row, of=basis) for basis in bases):
                chosen.append(candidate)
                rows.append(row)
                break
        else:
            reach -= 1
    return tuple(chosen)


def _neighbour_bases(rows: list[list[int]], functions: int, reach: int) -> list[Basis]:
    """Return a basis for each group of functions near the next function in the ring.

    If the index bits within a group are linearly dependent, the result is an empty list.
    """
    neighbourhoods = [rows[max(0, len(rows) - reach + 1) :]]
    if len(rows) == functions - 1:
        # The ring wraps around: the last functions are neighbours of the first.
        neighbourhoods += [
            rows[ahead - reach + 1 :] + rows[:ahead] for ahead in range(1, reach - 1)
        ]
        neighbourhoods.append(rows[: reach - 1])
    bases: list[Basis] = []
    for near in neighbourhoods:
        basis: Basis = {}
        if not all(_insert_independent(basis, vector) for vector in chain(*near)):
            return []
        bases.append(basis)
    return bases


@lru_cache(maxsize=64)
def shard_rotations(fields: Fields, functions: int, seed: int) -> Rotations:
    """Draw the rotation amounts of the word whose highest bits select the shard."""
    # These bits are linearly independent of the index bits of as many consecutive functions as fit
    # into the state, or of fewer functions if no candidate succeeds.
    stream = ConstantStream(label="shard", seed=seed)
    words = expand_rotations(fields, functions, seed)
    rows = [_field_rows(fields, function) for function in words]
    field = IndexField(size=1 << SHARD_BITS, word=0, offset=0, bits=SHARD_BITS)
    reach = min((STATE_BITS - SHARD_BITS) // max(1, len(rows[0])), functions)
    for near in range(reach, -1, -1):
        windows = [[*chain(*rows[at : at + near])] for at in range(functions - near + 1)]
        for _ in range(_DRAWS):
            candidate = _draw_rotations(stream)
            selected = _field_rows([field], [candidate])
            if all(_independent([*selected, *window]) for window in windows):
                return candidate
    raise AssertionError("no three rotations give independent shard bits")


def _draw_rotations(stream: ConstantStream) -> Rotations:
    # Three terms: the XOR of an odd number of 64-bit rotations is invertible.
    first, second, third = (stream.below(STATE_BITS) for _ in range(3))
    distinct = len({first, second, third}) == 3
    return (first, second, third) if distinct else _draw_rotations(stream)


@lru_cache(maxsize=64)
def offset_terms(*, columns: int, row_bits: int, rest_bits: int, seed: int) -> tuple[Terms, ...]:
    """Draw, for each column and row bit, the remainder bits of a digest that are XORed with it."""
    # The row of a digest is its low part, XORed with these bits except in the first column. Any two
    # columns differ by a map of full rank if possible, so that digests with a common cell in one
    # column seldom share a cell in another.
    stream = ConstantStream(label=f"columns/{row_bits}/{rest_bits}", seed=seed)
    chosen: list[Terms] = [((),) * row_bits]
    rank = min(row_bits, rest_bits)
    while len(chosen) < columns:
        for _ in range(_DRAWS):
            candidate = tuple(_draw_terms(stream, rest_bits) for _ in range(row_bits))
            if all(_rank_of_difference(candidate, before) >= rank for before in chosen):
                chosen.append(candidate)
                break
        else:
            rank -= 1
    return tuple(chosen)


def _draw_terms(stream: ConstantStream, rest_bits: int) -> tuple[int, ...]:
    # Even and odd numbers of terms: with only odd numbers, the XOR of two maps never has full rank.
    count = stream.below(min(OFFSET_TERMS, rest_bits) + 1)
    terms: set[int] = set()
    while len(terms) < count:
        terms.add(stream.below(rest_bits))
    return tuple(sorted(terms))


def _rank_of_difference(first: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> int:
    basis: Basis = {}
    for terms in zip(first, other, strict=True):
        mask = 0
        for bit in chain(*terms):
            mask ^= 1 << bit
        _insert_independent(basis, mask)
    return len(basis)


def offset_tables(terms: Sequence[Sequence[int]], rest_bits: int) -> list[NDArray[np.uint64]]:
    """Return tables of shape (256,), one per remainder byte, whose XOR is the offset of a row."""
    masks = [0] * rest_bits
    for row, bits in enumerate(terms):
        for bit in bits:
            masks[bit] |= 1 << row
    return [*_byte_tables(masks)]


class KeyHash:
    """Hash functions, each of which maps a key to an index in ``range(size)`` for every size."""

    def __init__(
        self,
        *,
        key_bits: int,
        sizes: Sequence[int],  # at most 2**32 each
        functions: int,  # number of functions: one for each physical segment
        seed: int,
        hash: str = "h3",
        shards: int = 1,  # an index is a position within a shard
    ) -> None:
        self.key_bits, self.functions, self.seed = key_bits, functions, seed
        self.hash, self.shards = hash, shards
        self.fields = index_fields(sizes)
        self.columns = fold_columns(key_bits, seed)
        self.constants = mix_constants(seed)
        self.rotations = expand_rotations(self.fields, functions, seed)
        self.tables = _byte_tables(self.columns)

    def state(self, keys: NDArray[np.uint64], secret: int = 0) -> NDArray[np.uint64]:
        """Hash keys of shape (n, words) to n states; only "siphash" uses the `secret`."""
        if self.hash == "siphash":
            return siphash(keys, secret, key_bits=self.key_bits)
        state = np.full(len(keys), self.constants[0], np.uint64)
        for position, table in enumerate(self.tables):
            word, byte = divmod(position, 8)
            column = keys[:, word] >> np.uint64(8 * byte) & np.uint64(0xFF)
            state ^= table[column.astype(np.intp)]
        left = (state >> np.uint64(32)).astype(np.uint32)
        right = state.astype(np.uint32)
        for constant in self.constants[1:]:
            mixed = rotate(left, 1) & rotate(left, 8) ^ rotate(left, 2)
            left, right = mixed ^ right ^ np.uint32(constant), left
        return left.astype(np.uint64) << np.uint64(32) | right

    def indices(self, state: NDArray[np.uint64], function: int) -> list[NDArray[np.intp]]:
        """Return the cell indices of n states under one function; shape (n,) for each size."""
        words = [_xor_of_rotations(state, rotations) for rotations in self.rotations[function]]
        indices = []
        for field in self.fields:
            low = np.uint64(WORD_BITS - field.offset - field.bits)
            value = words[field.word] >> low & np.uint64((1 << field.bits) - 1)
            if not field.power_of_two:
                value = value * np.uint64(field.size) >> np.uint64(field.bits)
            indices.append(value.astype(np.intp))
        return indices

    def shard(self, state: NDArray[np.uint64]) -> NDArray[np.intp]:
        word = _xor_of_rotations(state, shard_rotations(self.fields, self.functions, self.seed))
        value = word >> np.uint64(WORD_BITS - SHARD_BITS)
        return (value * np.uint64(self.shards) >> np.uint64(SHARD_BITS)).astype(np.intp)

    def compiled(self) -> tuple[Any, Any]:
        """Return the C extension and its `Hash` object for these hash functions."""
        fields = [
            # A field of zero width must not shift by the whole word.
            [f.word, (64 - f.offset - f.bits) % 64, (1 << f.bits) - 1, f.size, f.bits]
            for f in self.fields
        ]
        arrays = (
            np.array(values, np.uint64)
            for values in (self.tables, self.constants, self.rotations, fields)
        )
        core = compilation.extension()
        return core, core.Hash(self.key_bits, self.hash == "siphash", self.functions, *arrays)


def _byte_tables(columns: Sequence[int]) -> NDArray[np.uint64]:
    """Tabulate the XOR of columns for every value of every key byte; shape (bytes, 256)."""
    bits = np.array([*columns, *[0] * (-len(columns) % 8)], np.uint64).reshape(-1, 8, 1)
    tables = np.zeros((len(bits), 256), np.uint64)
    for bit in range(8):
        tables[:, 1 << bit : 2 << bit] = tables[:, : 1 << bit] ^ bits[:, bit]
    return tables


def _xor_of_rotations(state: NDArray[np.uint64], amounts: Rotations) -> NDArray[np.uint64]:
    first, second, third = (rotate(state, amount) for amount in amounts)
    return first ^ second ^ third
