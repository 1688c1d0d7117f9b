"""Guarded Epoch Bloom Filter and its blocked form (Alpay, Sarioglu)."""

from typing import Any

from ..spec import BlockedGEBFSpec, GEBFSpec
from .ring_sizes import blocked_gebf_sizes, gebf_sizes
from .sliding import SlidingFilter


class GEBF(SlidingFilter):
    """Guarded Epoch Bloom Filter.

    Reports every key for at least the next `window` insertions (lemma 1), and
    has forgotten it after ``epochs + 1`` epochs of ``ceil(window / epochs)``
    insertions: the window and one epoch (proposition 1) when `epochs` divides
    `window`, up to ``epochs`` insertions more when it does not.

    Parameters
    ----------
    window : int
        Insertions to remember (W).
    epochs : int
        Epochs in the window (r).
    hashes : int
        Hash functions (k), the same in every segment.
    bits : int
        Bits of the r + 1 segments together (m); what does not divide evenly
        is left unused.
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.
    partitioned : bool
        True for the form that is built in hardware, where each hash function
        has a part of the segment of its own. False for the paper's, where
        they share it.
    hash : str
        "h3", or "siphash" for a hash under a secret.
    rekey : bool
        Whether a new secret counts from the next segment on.
    secret : int
        Secret of all segments at first, under "siphash": 128 bits at most.

    Raises
    ------
    TypeError
        If `partitioned` is not a bool, or the secret not an integer.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter is of the wrong kind, or breaks a rule.
    """

    specification = GEBFSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return gebf_sizes(keys, fpr)

    def __init__(
        self,
        *,
        window: int,
        epochs: int,
        hashes: int,
        bits: int,
        seed: int = 0,
        key_bits: int = 64,
        partitioned: bool = True,
        hash: str = "h3",
        rekey: bool = False,
        secret: int = 0,
    ) -> None:
        super().__init__(
            GEBFSpec(
                window=window,
                epochs=epochs,
                hashes=hashes,
                bits=bits,
                seed=seed,
                key_bits=key_bits,
                hash=hash,
                rekey=rekey,
            ),
            partitioned=partitioned,
            secret=secret,
        )


class BlockedGEBF(SlidingFilter):
    """Blocked Guarded Epoch Bloom Filter: one hash selects a block for all the others.

    Window and staleness are those of `GEBF` (lemma 1, proposition 1).

    Parameters
    ----------
    window, epochs, hashes, bits, seed, key_bits, partitioned, hash, rekey, secret
        As for `GEBF`; the bits of a block take the place of the segment's.
    block_bits : int
        Bits of a block, a power of two.

    Raises
    ------
    TypeError
        If `partitioned` is not a bool, or the secret not an integer.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter is of the wrong kind, or breaks a rule.
    """

    specification = BlockedGEBFSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return blocked_gebf_sizes(keys, fpr)

    def __init__(
        self,
        *,
        window: int,
        epochs: int,
        hashes: int,
        bits: int,
        block_bits: int,
        seed: int = 0,
        key_bits: int = 64,
        partitioned: bool = True,
        hash: str = "h3",
        rekey: bool = False,
        secret: int = 0,
    ) -> None:
        super().__init__(
            BlockedGEBFSpec(
                window=window,
                epochs=epochs,
                hashes=hashes,
                bits=bits,
                block_bits=block_bits,
                seed=seed,
                key_bits=key_bits,
                hash=hash,
                rekey=rekey,
            ),
            partitioned=partitioned,
            secret=secret,
        )
