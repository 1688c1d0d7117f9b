"""The unit that a specification asks for."""

from .lanes.unit import LaneUnit
from .profile import HardwareProfile
from .unit import FilterUnit


def filter_unit(spec, *, memory="portable", organisation="separate", **options):
    """Return the unit for a specification: `FilterUnit`, or `LaneUnit` for several lanes.

    Parameters, errors: as those of the units.

    Parameters
    ----------
    spec : FilterSpec
    memory, organisation : str
        As for `FilterUnit`; several lanes have separate segments.
    options
        As for `FilterUnit` or `LaneUnit`.

    Raises
    ------
    SpecificationError
        If several lanes are to have another organisation.
    """
    if spec.lanes == 1:
        return FilterUnit(spec, memory=memory, organisation=organisation, **options)
    HardwareProfile(spec, organisation=organisation, memory=memory).check_buildable()
    return LaneUnit(spec, memory=memory, **options)
