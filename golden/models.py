"""Filters of any kind, from a specification or from a state file.

This module alone imports all of them: what it imports counts for each study that uses it.
"""

import os

from .baselines import bloom, buffered, counting, forgetful, stable, swamp
from .cuckoo import dictionary
from .filter import Filter
from .ring import apbf, gebf, time_limited, time_limited_pool
from .ring.sliding import SlidingFilter
from .spec import FilterSpec
from .timestamp import inferential, timing

MODULES = (
    bloom,
    buffered,
    counting,
    forgetful,
    stable,
    swamp,
    dictionary,
    time_limited,
    time_limited_pool,
    inferential,
    timing,
)
"""Modules that define filters: a state file may hold a filter of each."""

_CLASSES: dict[str, type[SlidingFilter]] = {
    family: cls
    for cls in (apbf.APBF, apbf.APBBF, gebf.GEBF, gebf.BlockedGEBF)
    for family in cls.families
}


def from_spec(spec: FilterSpec, *, secret: int = 0) -> SlidingFilter:
    """Build the golden model that a specification describes.

    Parameters, errors: as `SlidingFilter.from_spec`.
    """
    return _CLASSES[spec.family].from_spec(spec, secret=secret)


def load(path: str | os.PathLike[str]) -> Filter:
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
    return Filter.load(path)
