"""Models of filters without a hardware counterpart, written from the papers.

Once this package is imported, `lately.golden.from_spec` and `lately.golden.load` support them.
"""

from .bloom import (
    A2Buffering,
    BlockedBloomFilter,
    BloomFilter,
    DoubleBuffering,
    ForgetfulBloomFilter,
    PartitionedBloomFilter,
)
from .cells import CountingBloomFilter, StableBloomFilter, Swamp
from .cuckoo import CuckooDictionary
from .time_limited import TimeLimitedAPBF

__all__ = [
    "A2Buffering",
    "BlockedBloomFilter",
    "BloomFilter",
    "CountingBloomFilter",
    "CuckooDictionary",
    "DoubleBuffering",
    "ForgetfulBloomFilter",
    "PartitionedBloomFilter",
    "StableBloomFilter",
    "Swamp",
    "TimeLimitedAPBF",
]
