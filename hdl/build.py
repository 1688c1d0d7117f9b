"""Units and their figures, by specification. Amaranth is imported when a unit is built."""

from typing import Any

from ..golden.spec.base import Specification
from .family import family_of
from .profile import Profile


def unit_profile(spec: Specification, **options: Any) -> Profile:
    """Return the figures of the unit of a specification.

    Parameters
    ----------
    spec : Specification
    options
        As for `lately.hdl.profile.UnitOptions`; levels are at most `Profile.MOST_LEVELS`.

    Raises
    ------
    SpecificationError
        If there is no hardware for the family.
    """
    profile = family_of(spec).profile.of(spec, **options)
    levels = min(profile.levels, profile.MOST_LEVELS)
    return profile.of(spec, **options | {"levels": levels})


def filter_unit(spec: Specification, **options: Any) -> Any:
    """Return the unit of a specification: a `lately.hdl.unit.Unit`.

    Parameters
    ----------
    spec : Specification
    options
        As for `lately.hdl.profile.UnitOptions`.

    Raises
    ------
    SpecificationError
        If there is no hardware for the family, or the hardware cannot hold the specification.
    """
    profile = unit_profile(spec, **options)
    profile.check_buildable()
    if profile.lanes > 1:
        from .lanes.unit import LaneUnit

        return LaneUnit(profile)
    from .unit import Unit

    return Unit(profile)
