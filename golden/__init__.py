"""Reference models in numpy, written from the papers."""

import os

from .apbf import APBBF, APBF
from .base import FORMAT as _MODEL_FORMAT
from .base import CountedFilter, Filter, TimedFilter
from .bloom import BlockedBloomFilter, BloomFilter, PartitionedBloomFilter
from .buffered import A2Buffering, DoubleBuffering
from .counting import CountingBloomFilter
from .cuckoo import CuckooDictionary
from .cuckoo_sizes import (
    cuckoo_error_bound,
    cuckoo_signature_bits,
    time_decaying_space_bound,
)
from .errors import LatelyError, RekeyError, SpecificationError, StateFileError
from .forgetful import ForgetfulBloomFilter
from .gebf import GEBF, BlockedGEBF
from .inferential import InferentialFilter
from .operations import Operation, Verdicts
from .posteriors import AgePosterior
from .sliding import FORMAT as _RING_FORMAT
from .sliding import SlidingFilter
from .spec import FAMILIES, PRESETS, FilterSpec, preset
from .stable import StableBloomFilter
from .states import read_state
from .swamp import Swamp
from .time_limited import TimeLimitedAPBF
from .time_limited_pool import PooledTimeLimitedAPBF, PoolStatus
from .timing import BlockTimingBloomFilter, TimingBloomFilter

__all__ = [
    "APBBF",
    "APBF",
    "FAMILIES",
    "GEBF",
    "PRESETS",
    "A2Buffering",
    "AgePosterior",
    "BlockTimingBloomFilter",
    "BlockedBloomFilter",
    "BlockedGEBF",
    "BloomFilter",
    "CountedFilter",
    "CountingBloomFilter",
    "CuckooDictionary",
    "DoubleBuffering",
    "Filter",
    "FilterSpec",
    "ForgetfulBloomFilter",
    "InferentialFilter",
    "LatelyError",
    "Operation",
    "PartitionedBloomFilter",
    "PoolStatus",
    "PooledTimeLimitedAPBF",
    "RekeyError",
    "SlidingFilter",
    "SpecificationError",
    "StableBloomFilter",
    "StateFileError",
    "Swamp",
    "TimeLimitedAPBF",
    "TimedFilter",
    "TimingBloomFilter",
    "Verdicts",
    "cuckoo_error_bound",
    "cuckoo_signature_bits",
    "from_spec",
    "load",
    "preset",
    "time_decaying_space_bound",
]

_CLASSES: dict[str, type[SlidingFilter]] = {
    family: cls for cls in (APBF, APBBF, GEBF, BlockedGEBF) for family in cls.families
}


def from_spec(spec: FilterSpec, *, secret: int = 0) -> SlidingFilter:
    """Build the golden model that a specification describes.

    Parameters, errors: as `SlidingFilter.from_spec`.
    """
    return _CLASSES[spec.family].from_spec(spec, secret=secret)


def load(path: str | os.PathLike[str]) -> SlidingFilter | Filter:
    """Read a filter of any kind that its method `save` wrote.

    Parameters
    ----------
    path : path

    Raises
    ------
    StateFileError
        If the file is not one, or is damaged.
    OSError
        If the file cannot be read.
    """
    header, arrays = read_state(path, (_RING_FORMAT, _MODEL_FORMAT))
    kind = SlidingFilter if header["format"] == _RING_FORMAT else Filter
    return kind.from_state(os.fspath(path), header, arrays)
