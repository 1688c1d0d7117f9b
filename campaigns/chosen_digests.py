"""Digests that want the same few cells of a window dictionary."""

import numpy as np
from numpy.typing import NDArray

from lately.golden.hash.chosen_keys import ChosenKeys
from lately.golden.hash.functions import KeyHash, offset_terms
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec

Digests = NDArray[np.int64]  # digests, or rows, shape (n,) or (columns, n)


def crowded_digests(spec: WindowDictionarySpec) -> tuple[Digests, int]:
    """Return as many digests as the window has insertions, and the few cells that they share.

    The row of a digest in each column is linear in its bits. So digests of a subspace share as many
    rows as its images have; one direction after another is added that costs the fewest cells.
    """
    left = rows_of(spec, np.arange(1 << spec.digest_bits))
    span = np.arange(1 << spec.digest_bits)
    ranks = np.zeros(spec.columns, np.int64)
    chosen = np.zeros(1, np.int64)
    while len(chosen) < spec.window:
        cost = ((left != 0) * (1 << ranks)[:, None]).sum(axis=0)
        cost[span == 0] = np.iinfo(np.int64).max
        best = int(np.argmin(cost))
        chosen = np.concatenate([chosen, chosen ^ best])
        span = _reduced(span, int(span[best]))
        for column in range(spec.columns):
            image = int(left[column, best])
            ranks[column] += image != 0
            left[column] = _reduced(left[column], image)
    return chosen[: spec.window], int((1 << ranks).sum())


def _reduced(vectors: Digests, by: int) -> Digests:
    """Clear the highest bit of `by` in all vectors by adding it."""
    return np.where(vectors >> by.bit_length() - 1 & 1, vectors ^ by, vectors) if by else vectors


def rows_of(spec: WindowDictionarySpec, digests: Digests) -> Digests:
    """Row of each digest in each column."""
    terms = offset_terms(
        columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
    )
    rest = digests >> spec.row_bits
    rows = np.repeat((digests & spec.rows - 1)[None], spec.columns, axis=0)
    for row, column in zip(rows, terms, strict=True):
        for bit, added in enumerate(column):
            for term in added:
                row ^= (rest >> term & 1) << bit
    return rows


def dictionary_hash(spec: WindowDictionarySpec) -> KeyHash:
    """Return the hash of keys to a row and a rest, which together are the digest."""
    sizes = [spec.rows, 1 << spec.rest_bits]
    return KeyHash(key_bits=spec.key_bits, sizes=sizes, functions=1, seed=spec.seed, hash=spec.hash)


def keys_of_digests(
    spec: WindowDictionarySpec, digests: Digests, random: np.random.Generator
) -> NDArray[np.uint64]:
    """Return a key for each digest, shape (n,), of 64 bits and for the hash h3."""
    indices = [digests & spec.rows - 1, digests >> spec.row_bits]
    return ChosenKeys(dictionary_hash(spec)).with_indices({0: indices}, random)[:, 0]
