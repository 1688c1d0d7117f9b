"""Staleness and false-positive rate of guarded-epoch filters."""

import math

from .rules import require_counts


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
