"""Reference models in numpy, written from the papers."""

import os

from .apbf import APBBF, APBF
from .errors import LatelyError, RekeyError, SpecificationError, StateFileError
from .gebf import GEBF, BlockedGEBF
from .operations import Operation, Verdicts
from .sliding import SlidingFilter
from .spec import FAMILIES, PRESETS, FilterSpec, preset

__all__ = [
    "APBBF",
    "APBF",
    "FAMILIES",
    "GEBF",
    "PRESETS",
    "BlockedGEBF",
    "FilterSpec",
    "LatelyError",
    "Operation",
    "RekeyError",
    "SlidingFilter",
    "SpecificationError",
    "StateFileError",
    "Verdicts",
    "from_spec",
    "load",
    "preset",
]

_CLASSES: dict[str, type[SlidingFilter]] = {
    family: cls for cls in (APBF, APBBF, GEBF, BlockedGEBF) for family in cls.families
}


def from_spec(spec: FilterSpec, *, secret: int = 0) -> SlidingFilter:
    """Build the golden model that a specification describes.

    Parameters, errors: as `SlidingFilter.from_spec`.
    """
    return _CLASSES[spec.family].from_spec(spec, secret=secret)


def load(path: str | os.PathLike[str]) -> SlidingFilter:
    """Read a filter of any family that `SlidingFilter.save` wrote.

    Raises
    ------
    StateFileError
        If the file is not one, or is damaged.
    OSError
        If the file cannot be read.
    """
    return SlidingFilter.load(path)
