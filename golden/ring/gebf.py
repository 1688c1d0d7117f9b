"""Guarded Epoch Bloom Filter and its blocked form (Alpay, Sarioglu)."""

from ..spec import BlockedGEBFSpec, GEBFSpec
from .ring_sizes import blocked_gebf_sizes, gebf_sizes
from .timed_ring import Spanned


class GEBF(Spanned):
    """Guarded Epoch Bloom Filter.

    A key is reported for all d <= W = `window`, where d is the number of insertions after its own
    (lemma 1). It is forgotten after ``epochs + 1`` epochs of ``ceil(window / epochs)`` insertions.
    If `epochs` divides `window`, this is the window and one epoch (proposition 1); otherwise it is
    up to ``epochs`` insertions more.

    Parameters
    ----------
    window : int
        Window in insertions (W).
    epochs : int
        Epochs in the window (r).
    hashes : int
        Hash functions (k), the same in every segment.
    bits : int
        Total bits of the r + 1 segments (m). A remainder stays unused.
    partitioned : bool
        True (the default) for the form of the hardware, in which each hash function has its own
        part of the segment. False for the form of the paper, in which all hash functions share the
        segment.
    seed, key_bits, hash, rekey, secret
        As for `SlidingFilter`.
    """

    specification = GEBFSpec
    _other_fields = ("generation", "lanes", "clear")
    _sizes = staticmethod(gebf_sizes)


class BlockedGEBF(Spanned):
    """Blocked Guarded Epoch Bloom Filter: one hash selects a block for all other hashes.

    A key is reported for all d <= W = `window`, where d is the number of insertions after its
    own. Window and staleness are as in a `GEBF` (lemma 1, proposition 1).

    Parameters
    ----------
    window, epochs, hashes, bits, seed, key_bits, partitioned, hash, rekey, secret
        As for `GEBF`; with a block in place of a segment.
    block_bits : int
        Bits of a block, a power of two.
    """

    specification = BlockedGEBFSpec
    _other_fields = GEBF._other_fields
    _sizes = staticmethod(blocked_gebf_sizes)
