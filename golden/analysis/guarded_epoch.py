"""Staleness and false-positive rate of guarded-epoch filters."""

import math

from .rules import require, require_counts

EPOCHS = range(1, 63)
"""Numbers of epochs that are tried; with guard and spare, a ring has at most 64 segments."""


def gebf_staleness_bound(window: int, epochs: int) -> int:
    """Return the insertions after which a GEBF has forgotten a key (GEBF, proposition 1).

    A segment is cleared r + 1 epochs after it became the current one, so the
    first key of an epoch is forgotten after (r + 1) ceil(W/r) more insertions. The paper's W +
    ceil(W/r) is the same if r divides W. Otherwise it is too small by r ceil(W/r) - W, the
    insertions that the r epochs cover past W.

    The `window` is W, in insertions, and the `epochs` in it are r.
    """
    require_counts(window=window, epochs=epochs)
    return (epochs + 1) * -(-window // epochs)


def gebf_false_positive_rate(m: int, W: int, r: int, k: int) -> float:
    """False-positive rate of a GEBF as the paper approximates it.

    All r + 1 segments are taken as full and not partitioned:
    1 - (1 - (1 - e^(-k l/s))^k)^(r + 1), with epochs of l = ceil(W/r)
    insertions and segments of s = m / (r + 1) bits.

    `m` is the number of bits of all segments, `W` the window in insertions, `r` the number of
    epochs in it, and `k` the number of hash functions.
    """
    require_counts(m=m, W=W, r=r, k=k)
    fill = -math.expm1(-k * -(-W // r) * (r + 1) / m)
    segment = fill**k
    if segment == 1:
        return 1.0
    return -math.expm1((r + 1) * math.log1p(-segment))


def gebf_bits_per_key(rate: float, spare: int = 0) -> float:
    """Fewest bits for each key of a long window with which a GEBF keeps a rate just before a shift.

    It is the minimum over r of (1 + (1 + spare) / r) log2(1 / p) / ln 2. Each of the r + 1 full
    segments is a Bloom filter of the rate p, with 1 - (1 - p)^(r + 1) the `rate`. The number of
    `spare` segments is 1 in hardware and 0 in the paper. Errors: as `require`.
    """
    require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return min(
        -(1 + (1 + spare) / r) * math.log2(-math.expm1(math.log1p(-rate) / (r + 1))) / math.log(2)
        for r in EPOCHS
    )


def labelled_bits_per_key(rate: float) -> float:
    """Fewest bits for each key of a window in which fingerprints with a label keep the `rate`.

    It is the minimum over r of (1 + 1/r) (log2(1 / rate) + log2 e + log2(r + 1)). A set of n
    fingerprints out of n / rate takes at least log2(1 / rate) + log2 e bits each, for small rates.
    The label is one of r + 1 generations, all full just before a shift. Errors: as `require`.
    """
    require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return min((1 + 1 / r) * math.log2(math.e * (r + 1) / rate) for r in EPOCHS)
