"""Models of filters that no hardware matches, written from the papers.

`lately.golden.from_spec` and `lately.golden.load` know them once this package is imported.
"""

from .bloom import BlockedBloomFilter, BloomFilter, PartitionedBloomFilter
from .buffered import A2Buffering, DoubleBuffering, ForgetfulBloomFilter
from .counting import CountingBloomFilter
from .cuckoo import (
    CuckooDictionary,
    cuckoo_error_bound,
    cuckoo_signature_bits,
    time_decaying_space_bound,
)
from .stable import StableBloomFilter
from .swamp import Swamp
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
    "cuckoo_error_bound",
    "cuckoo_signature_bits",
    "time_decaying_space_bound",
]
