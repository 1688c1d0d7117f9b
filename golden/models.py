"""Filters of any kind, from a specification or from a state file.

Only this module imports all of them: all its imports count for each study that uses it.
"""

import os
from types import ModuleType
from typing import cast, overload

from .cuckoo import window_dictionary
from .filter import Filter
from .ring import apbf, gebf, timed_ring
from .ring.sliding import SlidingFilter
from .ring.timed_ring import TimeLimitedRing
from .spec import FilterSpec
from .spec.base import Specification
from .timestamp import inferential, partitioned_timing, timing

_KINDS: dict[str, type[Filter]] = {}


def register(*modules: ModuleType) -> None:
    """Let `from_spec` build the filters that modules define."""
    for module in modules:
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Filter):
                _KINDS[kind.specification.family] = kind


register(apbf, gebf, window_dictionary, timed_ring, inferential, timing, partitioned_timing)


@overload
def from_spec(spec: FilterSpec, *, secret: int = 0) -> SlidingFilter: ...


@overload
def from_spec(spec: Specification) -> Filter: ...


def from_spec(spec: Specification, **options: int) -> Filter:
    """Build the golden model that a specification of any family describes.

    That of a ring with a `span` is a `TimeLimitedRing`. The `options` are, for
    a ring filter, its `secret`; errors as for the class.
    """
    if spec.kind == "ring" and spec.timed:
        return TimeLimitedRing.from_spec(cast(FilterSpec, spec), **options)
    return _KINDS[spec.family].from_spec(spec, **options)


def load(path: str | os.PathLike[str]) -> Filter:
    """Read a filter of any kind that its method `save` wrote to `path`; errors as `Filter.load`."""
    return Filter.load(path)
