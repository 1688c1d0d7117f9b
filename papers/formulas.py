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
)


def apbf_npws(k: int, l: int) -> float:
    """Return the peak normalised probability-weighted slack of an APBF with half-full slices."""
    return npws(k, l, 1 / 2)


def apbf_staleness_bound(k: int, l: int, generation: int) -> int:
    """Return the number of insertions after which an APBF has forgotten a key (section 5.2)."""
    return (k + l) * generation


def apbf_efficiency(k: int, l: int, bloom_k: float) -> float:
    """Return the memory of a Bloom filter divided by the memory of an APBF (APBF, section 5.5).

    In Table 2, `bloom_k` is log2(1 / rate) for the rate of the APBF, not rounded up.
    """
    return float(bloom_k / k * l / (k + l))


def apbf_metrics(k: int, l: int, *, profile: str = "exact") -> dict[str, float]:
    """Return a row of the APBF paper's Table 2; the profile 'linear' gives the printed figures."""
    rate = apbf_false_positive_rate(k, l, profile=profile)
    return {
        "actual_fp": rate,
        "efficiency": apbf_efficiency(k, l, -math.log2(rate)),
        **_accesses(k, l, apbf_fills(k, l, profile=profile)),
        "npws": apbf_npws(k, l),
    }


def apbbf_metrics(k: int, l: int, block_bits: int, hashes_per_block: int) -> dict[str, float]:
    fills = apbbf_fills(k, l, block_bits, hashes_per_block)
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    return {
        "fp_apbbf": apbf_false_positive_rate(k, l, fills=fills),
        "fp_apbf_same_memory": apbf_false_positive_rate(
            k * hashes_per_block, l * hashes_per_block, profile="linear"
        ),
        # The window relative to an APBF with the same memory.
        "relative_capacity": capacity * hashes_per_block / (block_bits * math.log(2)),
        **_accesses(k, l, fills),
        "npws": npws(k, l, fills[-1]),
    }


def _accesses(k: int, l: int, fills: Sequence[float]) -> dict[str, float]:
    columns = zip(("window", "fp", "false"), CASES, strict=True)
    return {f"accesses_{name}": apbf_accesses(k, l, case, fills=fills) for name, case in columns}


def bloom_hashes(rate: float) -> int:
    """Return the number of hash functions for a rate: ceil(log2(1 / rate)) (section 4.1)."""
    return math.ceil(-math.log2(rate))


def bloom_metrics(k: int) -> dict[str, float]:
    return {
        "bits_per_item": k / math.log(2),
        "actual_fp": 0.5**k,
        "accesses_true": bloom_accesses(k, "true"),
        "accesses_false": bloom_accesses(k, "false"),
    }


def gebf_staleness_bound(window: int, epochs: int) -> int:
    """Return the number of insertions after which a GEBF has forgotten a key (GEBF, proposition 1).

    It is (r + 1) ceil(W/r). The paper's W + ceil(W/r) is equal if r divides W; otherwise it is too
    small by r ceil(W/r) - W.
    """
    return (epochs + 1) * -(-window // epochs)


def gebf_false_positive_rate(m: int, W: int, r: int, k: int) -> float:
    """Return the false-positive rate of a GEBF by the paper's approximation.

    All segments are full and not partitioned: 1 - (1 - (1 - e^(-k l/s))^k)^(r + 1), with epochs of
    l = ceil(W/r) insertions and segments of s = m / (r + 1) bits.
    """
    fill = -math.expm1(-k * -(-W // r) * (r + 1) / m)
    segment = fill**k
    if segment == 1:
        return 1.0
    return -math.expm1((r + 1) * math.log1p(-segment))
