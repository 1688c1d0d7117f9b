"""Sizes, false-positive rates, accesses and staleness of the filters, as the papers derive them."""

from .age_partitioned import (
    CASES,
    PROFILES,
    apbbf_fills,
    apbbf_metrics,
    apbf_accesses,
    apbf_efficiency,
    apbf_false_positive_rate,
    apbf_fills,
    apbf_metrics,
)
from .capacity import (
    apbbf_block_capacity,
    apbbf_generation,
    apbbf_relative_capacity,
    apbf_generation,
    apbf_npws,
    apbf_staleness_bound,
    npws,
)
from .guarded_epoch import gebf_false_positive_rate, gebf_staleness_bound
from .plain_bloom import (
    bloom_accesses,
    bloom_bits_per_item,
    bloom_false_positive_rate,
    bloom_hashes,
    bloom_metrics,
)
from .segment_rates import (
    apbbf_block_false_positive_rate,
    mean_rate,
    segment_false_positive_rate,
    segment_loads,
)

__all__ = [
    "CASES",
    "PROFILES",
    "apbbf_block_capacity",
    "apbbf_block_false_positive_rate",
    "apbbf_fills",
    "apbbf_generation",
    "apbbf_metrics",
    "apbbf_relative_capacity",
    "apbf_accesses",
    "apbf_efficiency",
    "apbf_false_positive_rate",
    "apbf_fills",
    "apbf_generation",
    "apbf_metrics",
    "apbf_npws",
    "apbf_staleness_bound",
    "bloom_accesses",
    "bloom_bits_per_item",
    "bloom_false_positive_rate",
    "bloom_hashes",
    "bloom_metrics",
    "gebf_false_positive_rate",
    "gebf_staleness_bound",
    "mean_rate",
    "npws",
    "segment_false_positive_rate",
    "segment_loads",
]
