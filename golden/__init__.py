"""Reference models in numpy, written from the papers."""

import os

from .baselines.bloom import BlockedBloomFilter, BloomFilter, PartitionedBloomFilter
from .baselines.buffered import A2Buffering, DoubleBuffering
from .baselines.counting import CountingBloomFilter
from .baselines.forgetful import ForgetfulBloomFilter
from .baselines.stable import StableBloomFilter
from .baselines.swamp import Swamp
from .cuckoo.dictionary import CuckooDictionary
from .cuckoo.sizes import cuckoo_error_bound, cuckoo_signature_bits, time_decaying_space_bound
from .errors import LatelyError, RekeyError, SpecificationError, StateFileError
from .filter import FORMAT as _MODEL_FORMAT
from .filter import CountedFilter, Filter, TimedFilter
from .operations import Operation, Verdicts
from .ring.apbf import APBBF, APBF
from .ring.gebf import GEBF, BlockedGEBF
from .ring.sliding import FORMAT as _RING_FORMAT
from .ring.sliding import SlidingFilter
from .ring.time_limited import TimeLimitedAPBF
from .ring.time_limited_pool import PooledTimeLimitedAPBF, PoolStatus
from .spec import FAMILIES, PRESETS, FilterSpec, preset
from .states import read_state
from .timestamp.inferential import InferentialFilter
from .timestamp.posteriors import AgePosterior
from .timestamp.timing import BlockTimingBloomFilter, TimingBloomFilter

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
