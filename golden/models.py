"""Build or load a filter of any family; importing this module imports all filters."""

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
    """Build the golden model that a specification of any family describes.

    The model of a ring with a `span` is a `TimeLimitedRing`. For a ring filter, `options` may
    contain the `secret`. Raises the errors of the class.
    """
    return model_of(spec).from_spec(spec, **options)


def model_of(spec: Specification) -> type[Filter]:
    """Return the class of the golden model for a specification."""
    timed = spec.kind == "ring" and spec.timed
    return TimeLimitedRing if timed else MODELS[spec.family]


# These load a filter of any class.
load, from_bytes = Filter.load, Filter.from_bytes
