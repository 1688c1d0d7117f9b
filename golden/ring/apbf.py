"""Age-Partitioned Bloom Filter and its blocked form (Shtul, Baquero, Almeida)."""

from typing import Any

from ..spec import UNSET, APBBFSpec, APBFSpec
from .ring_sizes import apbbf_sizes, apbf_sizes
from .sliding import SlidingFilter


class APBF(SlidingFilter):
    """Age-Partitioned Bloom Filter (section 5).

    Reports every key for at least the next ``l * generation`` insertions, and
    has forgotten it after ``(k + l) * generation``.

    Parameters
    ----------
    k : int
        Slices that an insertion writes.
    l : int
        Generations in the window.
    slice_bits : int
        Bits of a slice (m).
    generation : int, optional
        Insertions between two shifts (g); by default the number that fills a
        slice to one half, ``floor(m ln 2 / k)`` (section 5.2).
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.
    hash : str
        "h3", or "siphash" for a hash under a secret.
    rekey : bool
        Whether a new secret counts from the next segment on.
    secret : int
        Secret of all segments at first, under "siphash": 128 bits at most.

    Raises
    ------
    TypeError
        If the secret is not an integer.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter is of the wrong kind, or breaks a rule.
    """

    specification = APBFSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return apbf_sizes(keys, fpr)

    def __init__(
        self,
        *,
        k: int,
        l: int,
        slice_bits: int,
        generation: int = UNSET,
        seed: int = 0,
        key_bits: int = 64,
        hash: str = "h3",
        rekey: bool = False,
        secret: int = 0,
    ) -> None:
        super().__init__(
            APBFSpec(
                k=k,
                l=l,
                slice_bits=slice_bits,
                generation=generation,
                seed=seed,
                key_bits=key_bits,
                hash=hash,
                rekey=rekey,
            ),
            secret=secret,
        )


class APBBF(SlidingFilter):
    """Age-Partitioned Blocked Bloom Filter (section 6), each block partitioned.

    Window and slack are those of `APBF`.

    Parameters
    ----------
    k : int
        Segments that an insertion writes.
    l : int
        Generations in the window.
    block_bits : int
        Bits of a block (B), a power of two.
    hashes_per_block : int
        Bits that a key sets in a block (b), a power of two.
    blocks : int
        Blocks of a segment.
    generation : int, optional
        Insertions between two shifts (g); by default ``floor(blocks * n / k)``
        with ``n = ln(1/2) / ln(1 - b/B)``, the load of a full block (Table 3).
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.
    hash : str
        "h3", or "siphash" for a hash under a secret.
    rekey : bool
        Whether a new secret counts from the next segment on.
    secret : int
        Secret of all segments at first, under "siphash": 128 bits at most.

    Raises
    ------
    TypeError
        If the secret is not an integer.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter is of the wrong kind, or breaks a rule.
    """

    specification = APBBFSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return apbbf_sizes(keys, fpr)

    def __init__(
        self,
        *,
        k: int,
        l: int,
        block_bits: int,
        hashes_per_block: int,
        blocks: int,
        generation: int = UNSET,
        seed: int = 0,
        key_bits: int = 64,
        hash: str = "h3",
        rekey: bool = False,
        secret: int = 0,
    ) -> None:
        super().__init__(
            APBBFSpec(
                k=k,
                l=l,
                block_bits=block_bits,
                hashes_per_block=hashes_per_block,
                blocks=blocks,
                generation=generation,
                seed=seed,
                key_bits=key_bits,
                hash=hash,
                rekey=rekey,
            ),
            secret=secret,
        )
