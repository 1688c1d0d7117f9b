"""Computes keys with chosen cells for the hash "h3" when the constants of the hash are known.

The fold and expand steps are linear over GF(2), and the mixing step between them is an unkeyed
permutation. So an attacker who knows the seed can choose up to 64 linearly independent index bits,
in one or several segments, and solve for a key that has them. For keys of more than 64 bits, the
fold also has a kernel: key differences that change no cell in any filter with this seed.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lately.golden.hash.functions import STATE_BITS, KeyHash
from lately.golden.hash.keys import Keys, check_keys

Vectors = list[int]

_HALF = np.uint64(STATE_BITS // 2)
_LOW = np.uint64((1 << STATE_BITS // 2) - 1)


class ChosenKeys:
    """Computes keys that the hash "h3" maps to chosen cells.

    Keys must have at least 64 bits, and all sizes must be powers of two.
    """

    def __init__(self, key_hash: KeyHash) -> None:
        if key_hash.hash != "h3":
            raise ValueError(f"hash: must be 'h3', not {key_hash.hash!r}")
        if key_hash.key_bits < STATE_BITS:
            raise ValueError(f"key_bits: must be at least {STATE_BITS}, not {key_hash.key_bits}")
        for field in key_hash.fields:
            if not field.power_of_two:
                raise ValueError(f"sizes: must be powers of two, not {field.size}")
        self._hash = key_hash
        columns = [*enumerate(key_hash.columns[:STATE_BITS])]
        rows = [sum((c >> bit & 1) << at for at, c in columns) for bit in range(STATE_BITS)]
        self._unfold, _ = solutions(rows)

    def keys_of(self, states: NDArray[np.uint64], above: Keys = 0) -> NDArray[np.uint64]:
        """Return keys, shape (n, words), whose hash states are `states`, shape (n,).

        Key bits above the lowest 64 come from `above`, which is one key for all states, or an array
        of shape (n, words).
        """
        keys = check_keys(above, self._hash.key_bits)
        keys = np.broadcast_to(keys, (len(states), keys.shape[1])).copy()
        keys[:, 0] = 0
        wanted = self._unmixed(states) ^ self._unmixed(self._hash.state(keys))
        keys[:, 0] = _combine(wanted, self._unfold)
        return keys

    def with_indices(
        self,
        indices: Mapping[int, Sequence[NDArray[np.intp]]],
        random: np.random.Generator,
        above: Keys = 0,
    ) -> NDArray[np.uint64]:
        """Return keys, shape (n, words), that the hash functions map to the chosen `indices`.

        `indices` maps the number of a hash function to one array of shape (n,) for each field of
        the hash.
        """
        rows = [row for function in indices for row in index_rows(self._hash, function)]
        basis, kernel = solutions(rows)
        arrays = [array for each in indices.values() for array in each]
        states = np.zeros(len(arrays[0]), np.uint64)
        fields = self._hash.fields * len(indices)
        start = 0
        for array, field in zip(arrays, fields, strict=True):
            states ^= _combine(array.astype(np.uint64), basis[start : start + field.bits])
            start += field.bits
        states ^= _combine(random.integers(0, 1 << 63, len(states), np.uint64), kernel)
        return self.keys_of(states, above)

    def with_cells_of(
        self, keys: Keys, functions: Sequence[int], random: np.random.Generator
    ) -> NDArray[np.uint64]:
        """Return other keys that have the same cells as `keys` under these hash `functions`."""
        checked = check_keys(keys, self._hash.key_bits)
        rows = [row for function in functions for row in index_rows(self._hash, function)]
        _, kernel = solutions(rows)
        if not kernel:
            raise ValueError("functions: must leave at least one of the 64 state bits undetermined")
        choices = random.integers(1, 1 << len(kernel), len(checked), np.uint64)
        return self.keys_of(self._hash.state(checked) ^ _combine(choices, kernel), checked)

    def kernel(self) -> NDArray[np.uint64]:
        """Return a basis of the key differences that change no state.

        The basis has shape (key_bits - 64, words).
        """
        columns = np.array(self._hash.columns[STATE_BITS:], np.uint64)
        count, words = len(columns), -(-self._hash.key_bits // 64)
        differences = np.zeros((count, words), np.uint64)
        bit = np.arange(STATE_BITS, STATE_BITS + count)
        differences[np.arange(count), bit // 64] = np.uint64(1) << (bit % 64).astype(np.uint64)
        differences[:, 0] = _combine(columns, self._unfold)
        return differences

    def _unmixed(self, states: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = states >> _HALF, states & _LOW
        for constant in self._hash.constants[:0:-1]:
            mixed = _rotate(right, 1) & _rotate(right, 8) ^ _rotate(right, 2)
            left, right = right, left ^ mixed ^ np.uint64(constant)
        return left << _HALF | right


def index_rows(key_hash: KeyHash, function: int) -> Vectors:
    units = np.uint64(1) << np.arange(STATE_BITS, dtype=np.uint64)
    indices = key_hash.indices(units, function)
    return [
        sum(1 << int(unit) for unit in np.flatnonzero(index >> bit & 1))
        for index, field in zip(indices, key_hash.fields, strict=True)
        for bit in range(field.bits)
    ]


def solutions(rows: Vectors) -> tuple[Vectors, Vectors]:
    """Solve linear equations over GF(2) in 64 variables; raise ValueError if rows are dependent.

    Returns `basis` and `kernel`. For each row, `basis` contains a vector for which this row gives 1
    and all other rows give 0. `kernel` is a basis of the vectors for which all rows give 0.
    """
    reduced: list[tuple[int, int, int]] = []
    for number, row in enumerate(rows):
        used = 1 << number
        for pivot, other, other_used in reduced:
            if row >> pivot & 1:
                row, used = row ^ other, used ^ other_used
        if row == 0:
            raise ValueError(f"rows: must be independent, but {len(rows)} have rank {number}")
        pivot = row.bit_length() - 1
        reduced = [
            (at, other ^ row, other_used ^ used) if other >> pivot & 1 else (at, other, other_used)
            for at, other, other_used in reduced
        ]
        reduced.append((pivot, row, used))
    basis = [
        sum(1 << pivot for pivot, _, used in reduced if used >> number & 1)
        for number in range(len(rows))
    ]
    free = set(range(STATE_BITS)) - {pivot for pivot, _, _ in reduced}
    kernel = [
        1 << bit | sum(1 << pivot for pivot, row, _ in reduced if row >> bit & 1)
        for bit in sorted(free)
    ]
    return basis, kernel


def _combine(values: NDArray[np.uint64], vectors: Vectors) -> NDArray[np.uint64]:
    total = np.zeros(len(values), np.uint64)
    for bit, vector in enumerate(vectors):
        total ^= (values >> np.uint64(bit) & np.uint64(1)) * np.uint64(vector)
    return total


def _rotate(value: NDArray[np.uint64], amount: int) -> NDArray[np.uint64]:
    return (value << np.uint64(amount) | value >> _HALF - np.uint64(amount)) & _LOW
