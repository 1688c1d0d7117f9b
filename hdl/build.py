"""Filter families that have hardware, and the units built from their specifications.

A `Family` holds everything that building, export, tests and measurement need for one family.
Amaranth is imported when a unit is built.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..golden.errors import SpecificationError
from ..golden.spec import FilterSpec
from ..golden.spec.base import Specification
from ..golden.spec.dictionary_sizes import WindowDictionarySpec
from ..golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from .dictionary.profile import DictionaryProfile
from .memory.map import MemoryMap, memory_map
from .profile import Profile
from .ring.profile import RingProfile
from .timing.timing_profile import TimingProfile


def _memory_map(profile: Profile) -> MemoryMap:
    return memory_map(profile.spec, memory=profile.memory, protect=profile.protect)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Hardware for one specification class: profile, core, tick source and memory map."""

    specification: type[Specification]
    profile: type[Profile]  # latency and limits of a unit
    core: Callable[[Any], Any]  # builds the core from the profile
    # builds the tick source from the profile; returns None if the unit has no ticks
    clock: Callable[[Any], Any] = lambda profile: None
    memory_map: Callable[[Any], MemoryMap] = _memory_map  # returns the memory map of the profile


FAMILIES: dict[type[Specification], Family] = {}  # all families, by specification class


def register(family: Family) -> None:
    """Add a family to `FAMILIES`, so that `filter_unit` can build units of the family.

    Raises
    ------
    SpecificationError
        If the specification class lacks the property ``storage_bits``.
    """
    name = family.specification.__name__
    if not hasattr(family.specification, "storage_bits"):
        raise SpecificationError(
            f"{name} lacks storage_bits, the number of bits that hold the keys"
        )
    FAMILIES[family.specification] = family


def family_of(spec: Specification) -> Family:
    for kind in type(spec).__mro__:
        if kind in FAMILIES:
            return FAMILIES[kind]
    built = [name for kind in FAMILIES for name in kind.families()]
    raise SpecificationError(
        f"family: must be one of {', '.join(built)} for hardware, not {spec.family!r}"
    )


def _ring_core(profile: RingProfile) -> Any:
    from .ring.core import ring_core

    return ring_core(profile.spec, profile)


def _ring_clock(profile: RingProfile) -> Any:
    from .frontend.time_window import time_window

    return time_window(profile) if profile.spec.timed else None


def _dictionary_core(profile: DictionaryProfile) -> Any:
    from .dictionary.core import DictionaryCore

    options = {"memory": profile.memory, "levels": profile.levels, "protect": profile.protect}
    return DictionaryCore(spec=profile.spec, **options)


def _timing_core(profile: TimingProfile) -> Any:
    from .timing.core import timing_core

    return timing_core(profile)


def _timing_clock(profile: TimingProfile) -> Any:
    from .timing.clocks import timing_clock

    return timing_clock(profile)


register(
    Family(
        specification=FilterSpec,
        profile=RingProfile,
        core=_ring_core,
        clock=_ring_clock,
    )
)
register(
    Family(specification=WindowDictionarySpec, profile=DictionaryProfile, core=_dictionary_core)
)
for _specification in (TimedTimingSpec, PartitionedTimingSpec):
    register(
        Family(
            specification=_specification,
            profile=TimingProfile,
            core=_timing_core,
            clock=_timing_clock,
        )
    )


def unit_profile(spec: Specification, **options: Any) -> Profile:
    """Return the latency and limits of a unit without building the unit.

    Parameters
    ----------
    spec : Specification
    options
        Fields of `lately.hdl.profile.UnitOptions`. `levels` is capped at `Profile.MAX_LEVELS`.

    Raises
    ------
    SpecificationError
        If the family has no hardware, or an option is invalid.
    """
    profile = family_of(spec).profile.of(spec, **options)
    levels = min(profile.levels, profile.MAX_LEVELS)
    return profile.of(spec, **options | {"levels": levels})


def filter_unit(spec: Specification, **options: Any) -> Any:
    """Build the hardware unit for a specification.

    Parameters
    ----------
    spec : Specification
    options
        Fields of `lately.hdl.profile.UnitOptions`.

    Returns
    -------
    lately.hdl.unit.Unit or lately.hdl.lanes.unit.LaneUnit
        A `LaneUnit` if the specification has several lanes.

    Raises
    ------
    SpecificationError
        If the family has no hardware, an option is invalid, or the hardware cannot implement the
        specification.
    """
    profile = unit_profile(spec, **options)
    profile.check_buildable()
    if profile.lanes > 1:
        from .lanes.unit import LaneUnit

        return LaneUnit(profile, family_of(spec))
    from .unit import Unit

    unit = Unit(profile, family_of(spec))
    if unit.latency != profile.unit_latency:
        raise ValueError(
            f"latency: the components take {unit.latency} cycles, but the profile states "
            f"{profile.unit_latency}"
        )
    return unit
