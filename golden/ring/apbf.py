"""Age-Partitioned Bloom Filter and its blocked form (Shtul, Baquero, Almeida)."""

from ..spec import APBBFSpec, APBFSpec
from .ring_sizes import apbbf_sizes, apbf_sizes
from .timed_ring import Spanned


class APBF(Spanned):
    """Age-Partitioned Bloom Filter (section 5).

    A key is reported for all d <= W = ``l * generation``, where d is the number of insertions
    after its own. A key is forgotten for d >= ``(k + l) * generation``.

    Parameters
    ----------
    k : int
        Slices that an insertion writes.
    l : int
        Generations in the window.
    slice_bits : int
        Bits of a slice (m).
    generation : int, optional
        Insertions between two shifts (g). The default fills a slice to one half: ``floor(m ln 2 /
        k)`` (section 5.2).
    seed, key_bits, hash, rekey, secret
        As for `SlidingFilter`.
    """

    specification = APBFSpec
    _sizes = staticmethod(apbf_sizes)


class APBBF(Spanned):
    """Age-Partitioned Blocked Bloom Filter (section 6), each block partitioned.

    A key is reported for all d <= W = ``l * generation``, where d is the number of insertions
    after its own. Window and slack are as in an `APBF`. With one block, each segment is a
    partitioned Bloom filter of b slices: the other design of section 6 (Figure 9).

    Parameters
    ----------
    k : int
        Segments that an insertion writes.
    l : int
        Generations in the window.
    block_bits : int
        Bits of a block (B).
    hashes_per_block : int
        Bits that a key sets in a block (b), each in a part of B/b bits.
    blocks : int
        Blocks of a segment.
    generation : int, optional
        Insertions between two shifts (g); by default ``floor(blocks * n / k)``
        with ``n = ln(1/2) / ln(1 - b/B)``, the load of a full block (Table 3).
    seed, key_bits, hash, rekey, secret
        As for `SlidingFilter`.
    """

    specification = APBBFSpec
    _sizes = staticmethod(apbbf_sizes)
