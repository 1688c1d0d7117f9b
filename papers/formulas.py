"""Formulas that only the reproduction uses: bounds, and rows of the papers' tables."""

import math
from collections.abc import Sequence

from lately.golden.analysis import (
    CASES,
    apbbf_block_capacity,
    apbbf_fills,
    apbf_accesses,
    apbf_false_positive_rate,
    apbf_fills,
    bloom_accesses,
    npws,
    require_counts,
    require_share,
)
from lately.golden.errors import require


def apbf_npws(k: int, l: int) -> float:
    """Peak normalised probability-weighted slack (NPWS) of an APBF with half-full slices."""
    return npws(k, l, 1 / 2)


def apbf_staleness_bound(k: int, l: int, generation: int) -> int:
    """Return the insertions after which an APBF has forgotten a key (APBF, section 5.2)."""
    require_counts(k=k, l=l, generation=generation)
    return (k + l) * generation


def apbf_efficiency(k: int, l: int, bloom_k: float) -> float:
    """Memory efficiency: a Bloom filter's memory over an APBF's (APBF, section 5.5).

    The ratio is (bloom_k / k) l / (k + l). In Table 2, `bloom_k` is log2(1 / rate) for the APBF's
    own rate, not rounded up.
    """
    require_counts(k=k, l=l)
    require(0 < bloom_k < math.inf, "bloom_k", "must be above 0 and finite", bloom_k)
    return float(bloom_k / k * l / (k + l))


def apbf_metrics(k: int, l: int, *, profile: str = "exact") -> dict[str, float]:
    """Return a row of the APBF paper's Table 2; the profile 'linear' gives the printed figures."""
    rate = apbf_false_positive_rate(k, l, profile=profile)
    return {
        "actual_fp": rate,
        "efficiency": apbf_efficiency(k, l, -math.log2(rate)),
        **_all_accesses(k, l, apbf_fills(k, l, profile=profile)),
        "npws": apbf_npws(k, l),
    }


def apbbf_relative_capacity(block_bits: int, hashes_per_block: int) -> float:
    """Return an APBBF's window relative to an APBF with the same memory (APBF, Table 3)."""
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    return capacity * hashes_per_block / (block_bits * math.log(2))


def apbbf_metrics(k: int, l: int, block_bits: int, hashes_per_block: int) -> dict[str, float]:
    """Return a row of the APBF paper's Table 3; accesses are counted in blocks."""
    fills = apbbf_fills(k, l, block_bits, hashes_per_block)
    return {
        "fp_apbbf": apbf_false_positive_rate(k, l, fills=fills),
        "fp_apbf_same_memory": apbf_false_positive_rate(
            k * hashes_per_block, l * hashes_per_block, profile="linear"
        ),
        "relative_capacity": apbbf_relative_capacity(block_bits, hashes_per_block),
        **_all_accesses(k, l, fills),
        "npws": npws(k, l, fills[-1]),
    }


def _all_accesses(k: int, l: int, fills: Sequence[float]) -> dict[str, float]:
    columns = zip(("window", "fp", "false"), CASES, strict=True)
    return {f"accesses_{name}": apbf_accesses(k, l, case, fills=fills) for name, case in columns}


def gebf_staleness_bound(window: int, epochs: int) -> int:
    """Insertions after which a GEBF has forgotten a key: (r + 1) ceil(W/r) (GEBF, proposition 1).

    The paper's W + ceil(W/r) is equal if r divides W; otherwise it is too small by r ceil(W/r) - W.
    """
    require_counts(window=window, epochs=epochs)
    return (epochs + 1) * -(-window // epochs)


def gebf_false_positive_rate(m: int, W: int, r: int, k: int) -> float:
    """False-positive rate of a GEBF, with the paper's approximation.

    All segments are full and not partitioned: 1 - (1 - (1 - e^(-k l/s))^k)^(r + 1), with epochs of
    l = ceil(W/r) insertions and segments of s = m / (r + 1) bits.
    """
    require_counts(m=m, W=W, r=r, k=k)
    fill = -math.expm1(-k * -(-W // r) * (r + 1) / m)
    segment = fill**k
    if segment == 1:
        return 1.0
    return -math.expm1((r + 1) * math.log1p(-segment))


def bloom_hashes(rate: float) -> int:
    """Return the number of hash functions for a rate: ceil(log2(1 / rate)) (section 4.1)."""
    require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return math.ceil(-math.log2(rate))


def bloom_bits_per_item(k: int) -> float:
    """Return the bits per key of a half-full Bloom filter: k / ln 2 (APBF, section 4.1)."""
    require_counts(k=k)
    return k / math.log(2)


def bloom_false_positive_rate(k: int, fill: float = 1 / 2) -> float:
    """Return the rate fill**k of a partitioned Bloom filter (APBF, section 4.1)."""
    require_counts(k=k)
    require_share("fill", fill)
    return float(fill**k)


def bloom_metrics(k: int) -> dict[str, float]:
    """Return a row of the APBF paper's Table 1, for a fill ratio of one half."""
    return {
        "bits_per_item": bloom_bits_per_item(k),
        "actual_fp": bloom_false_positive_rate(k),
        "accesses_true": bloom_accesses(k, "true"),
        "accesses_false": bloom_accesses(k, "false"),
    }
