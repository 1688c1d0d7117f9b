"""Sizes, false-positive rate and accesses of a Bloom filter."""

import math

from .rules import require, require_counts, require_share


def bloom_hashes(rate: float) -> int:
    """Number of hash functions of a Bloom filter for a false-positive rate (APBF, section 4.1).

    It is ceil(log2(1 / rate)), for a `rate` above 0 and below 1. Errors: as `require`.
    """
    require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return math.ceil(-math.log2(rate))


def bloom_bits_per_item(k: int) -> float:
    """Bits per key of a Bloom filter that is filled to one half (APBF, section 4.1): k / ln 2."""
    require_counts(k=k)
    return k / math.log(2)


def bloom_false_positive_rate(k: int, fill: float = 1 / 2) -> float:
    """False-positive rate fill**k of a partitioned Bloom filter (APBF, section 4.1).

    It has `k` slices, each with its own hash function; `fill` is the share of bits
    set, 0 to 1. Errors: as `require_counts` and `require_share`.
    """
    require_counts(k=k)
    require_share("fill", fill)
    return float(fill**k)


def bloom_accesses(k: int, case: str, fill: float = 1 / 2) -> float:
    """Return the expected slice accesses of a Bloom-filter query (APBF, section 4.2).

    In the `case` 'true' the query is reported, and the result is k. In the case 'false' it is the
    mean position of the first 0, given that there is one, and the fill must be below 1. Parameters,
    errors: as `bloom_false_positive_rate`.
    """
    require_counts(k=k)
    require(case in ("true", "false"), "case", "must be one of true, false", case)
    require_share("fill", fill)
    if case == "true":
        return float(k)
    require(fill < 1, "fill", "must be below 1 for the case 'false'", fill)
    first_miss = sum(i * fill ** (i - 1) * (1 - fill) for i in range(1, k + 1))
    return float(first_miss / (1 - fill**k))


def bloom_metrics(k: int) -> dict[str, float]:
    """Row of Table 1 of the APBF paper, by column name, at a fill ratio of one half.

    The columns are ``bits_per_item``, ``actual_fp``, ``accesses_true`` and ``accesses_false``.
    """
    return {
        "bits_per_item": bloom_bits_per_item(k),
        "actual_fp": bloom_false_positive_rate(k),
        "accesses_true": bloom_accesses(k, "true"),
        "accesses_false": bloom_accesses(k, "false"),
    }
