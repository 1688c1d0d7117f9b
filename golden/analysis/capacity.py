"""Sizes, slack and staleness of age-partitioned filters."""

import math

from .rules import require_block, require_counts, require_share


def apbf_generation(slice_bits: int, k: int) -> int:
    """Return the insertions of a generation that fill a slice to one half (APBF, section 5.2).

    It is g = floor(m ln 2 / k) insertions, and never less than 1, for `slice_bits`
    m and the slices `k` that an insertion writes.
    """
    require_counts(slice_bits=slice_bits, k=k)
    return max(1, math.floor(slice_bits * math.log(2) / k))


def apbbf_block_capacity(block_bits: int, hashes_per_block: int) -> float:
    """Return the expected insertions that fill a block to one half (APBF, section 6).

    It is n = ln(1/2) / ln(1 - b/B) insertions per block.

    Parameters
    ----------
    block_bits, hashes_per_block : int
        B and b: bits of a block, and bits that an insertion sets in it, each
        in a part of B / b bits.
    """
    require_block(block_bits, hashes_per_block)
    return math.log(1 / 2) / math.log1p(-hashes_per_block / block_bits)


def apbbf_generation(blocks: int, block_bits: int, hashes_per_block: int, k: int) -> int:
    """Return the insertions of a generation that fill the blocks to one half (APBF, section 6).

    It is g = floor(blocks n / k) insertions with n the capacity of a block, and
    never less than 1.

    `blocks` is the number of blocks of a segment, and `k` is as for `apbf_generation`. Other
    parameters, errors: as `apbbf_block_capacity`.
    """
    require_counts(blocks=blocks, k=k)
    return max(1, math.floor(blocks * apbbf_block_capacity(block_bits, hashes_per_block) / k))


def apbbf_relative_capacity(block_bits: int, hashes_per_block: int) -> float:
    """Window of an APBBF over the window of an APBF in the same memory (APBF, Table 3, 'cap.').

    It is n / ((B/b) ln 2), without unit; the APBF writes k b slices per insertion, and its window
    has l b slices.
    """
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    return capacity * hashes_per_block / (block_bits * math.log(2))


def npws(k: int, l: int, survival: float) -> float:
    """Peak normalised probability-weighted slack, in windows (APBF, section 5.2).

    Just before a shift, the youngest of the k generations of the slack is
    always reported, and each older one keeps one segment fewer: (1/l) times the sum of survival**i
    for i < k. For l < k - 1 some of these segments are not full, and the result is an upper bound.

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    survival : float
        Probability that a full segment matches without the key: 1/2 for an
        APBF, the false-positive rate of a full block for an APBBF.
    """
    require_counts(k=k, l=l)
    require_share("survival", survival)
    return float(sum(survival**i for i in range(k)) / l)


def apbf_npws(k: int, l: int) -> float:
    """Peak normalised probability-weighted slack of an APBF, in windows (section 5.2)."""
    return npws(k, l, 1 / 2)


def apbf_staleness_bound(k: int, l: int, generation: int) -> int:
    """Return the insertions after which an APBF or APBBF has forgotten a key (APBF, section 5.2).

    The first key of a generation is written to segment 0, and the (k + l)-th shift after that
    discards it. This shift occurs (k + l) g = window + slack insertions after the key's own.

    `k` and `l` as for `npws`; `generation` is g, in insertions.
    """
    require_counts(k=k, l=l, generation=generation)
    return (k + l) * generation
