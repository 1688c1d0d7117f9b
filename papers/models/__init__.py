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
