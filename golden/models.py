"""Functions that build or load a filter of any family; this module imports all families."""

from typing import overload

from .cuckoo import window_dictionary as window_dictionary
from .filter import MODELS, Filter
from .ring import rings as rings
from .ring.rings import SlidingFilter, TimeLimitedRing
from .spec.base import Specification
from .spec.ring import FilterSpec
from .timestamp import inferential as inferential
from .timestamp import partitioned_timing as partitioned_timing
from .timestamp import timing as timing


@overload
def from_spec(spec: FilterSpec, *, secret: int = 0) -> SlidingFilter: ...


@overload
def from_spec(spec: Specification) -> Filter: ...


def from_spec(spec: Specification, **options: int) -> Filter:
    """Build an empty golden model from a specification of any family.

    For a ring with a `span`, the result is a `TimeLimitedRing`. For any ring, `options` may contain
    the `secret`.
    Errors are those of the model's constructor.
    """
    return model_of(spec).from_spec(spec, **options)


def model_of(spec: Specification) -> type[Filter]:
    timed = spec.kind == "ring" and spec.timed
    return TimeLimitedRing if timed else MODELS[spec.family]


# These load a filter of any class.
load, from_bytes = Filter.load, Filter.from_bytes
