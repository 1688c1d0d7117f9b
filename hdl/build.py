"""The units: for which specifications each is, its figures, and how it is built.

Needs no Amaranth until a unit is built.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..golden.errors import SpecificationError
from ..golden.spec import FilterSpec
from ..golden.spec.base import Specification
from ..golden.spec.dictionary_sizes import WindowDictionarySpec
from ..golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from .dictionary.dictionary_figures import DictionaryProfile
from .latencies import DEFAULT_LEVELS
from .memory.map import BLOCK_KINDS, CELL_VARIANTS
from .profile import HardwareProfile
from .timing.timing_profile import TimingProfile

UnitSpec = FilterSpec | WindowDictionarySpec | TimedTimingSpec | PartitionedTimingSpec
"""Specifications for which there are units."""


class UnitProfile(Protocol):
    """Figures of a unit, known before it is built."""

    @property
    def lanes(self) -> int:
        """Operations that the unit accepts per clock."""

    @property
    def segments(self) -> int:
        """Parts of the memory that are alike: segments of a ring, columns of a dictionary."""

    @property
    def block_rams(self) -> int:
        """Block RAMs of an ECP5 that the memory takes."""

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of an operation to its result, on an idle output."""

    @property
    def least_period(self) -> int:
        """Least cycles between two ticks of a window in time; 0 if it counts insertions."""

    @property
    def longest_pause(self) -> int:
        """Most cycles for which a CLEAR, or another operation, keeps the input closed."""

    @property
    def reset_pause(self) -> int:
        """Most cycles from the end of a reset to the first acceptance."""

    def check_buildable(self) -> None:
        """Refuse what the hardware cannot hold, with a `SpecificationError`."""


@dataclass(frozen=True)
class UnitKind:
    """Units of one kind.

    Attributes
    ----------
    specification : type
        Class of the specifications that they are for.
    profile : callable
        Takes a specification, and ``memory``, ``levels`` and ``protect``; returns the figures of
        the unit.
    build : callable
        Takes the same and further options of the unit; returns it.
    memories : tuple of str
        Variants of the memory.
    most_levels : int
        Most levels of look-up tables between two registers; as for `FilterUnit`. With more, a unit
        is slower than its block RAMs.
    """

    specification: type[Specification]
    profile: Callable[..., UnitProfile]
    build: Callable[..., Any]
    memories: tuple[str, ...]
    most_levels: int = 16


def _ring(spec: FilterSpec, **options: Any) -> Any:
    if spec.lanes == 1:
        from .unit import FilterUnit

        return FilterUnit(spec, **options)
    from .lanes.unit import LaneUnit

    return LaneUnit(spec, **options)


def _dictionary(spec: WindowDictionarySpec, **options: Any) -> Any:
    from .dictionary.unit import DictionaryUnit

    return DictionaryUnit(spec, **options)


def _timing(spec: TimedTimingSpec, **options: Any) -> Any:
    from .timing.unit import TimingUnit

    return TimingUnit(spec, **options)


def _counted_timing(spec: PartitionedTimingSpec, **options: Any) -> Any:
    from .timing.unit import CountedTimingUnit

    return CountedTimingUnit(spec, **options)


KINDS = (
    UnitKind(FilterSpec, HardwareProfile, _ring, ("portable", *BLOCK_KINDS)),
    UnitKind(WindowDictionarySpec, DictionaryProfile, _dictionary, CELL_VARIANTS),
    UnitKind(TimedTimingSpec, TimingProfile, _timing, CELL_VARIANTS, most_levels=1),
    UnitKind(PartitionedTimingSpec, TimingProfile, _counted_timing, CELL_VARIANTS, most_levels=1),
)
"""All kinds of units."""


def unit_kind(spec: Specification) -> UnitKind:
    """Return the kind of the unit that a specification asks for.

    Parameters
    ----------
    spec : Specification

    Raises
    ------
    SpecificationError
        If there is no hardware for the family.
    """
    for kind in KINDS:
        if isinstance(spec, kind.specification):
            return kind
    built = [family for kind in KINDS for family in kind.specification.families()]
    raise SpecificationError(
        f"family: must be one of {', '.join(built)} for hardware, not {spec.family!r}"
    )


def unit_profile(
    spec: Specification, *, levels: int = DEFAULT_LEVELS, **options: Any
) -> UnitProfile:
    """Return the figures of the unit that a specification asks for.

    Parameters
    ----------
    spec : Specification
    levels : int
        As for `filter_unit`.
    options
        ``memory`` and ``protect``, as for `filter_unit`.

    Errors: as `unit_kind`.
    """
    kind = unit_kind(spec)
    return kind.profile(spec, levels=min(levels, kind.most_levels), **options)


def filter_unit(
    spec: Specification,
    *,
    memory: str = "portable",
    levels: int = DEFAULT_LEVELS,
    protect: str = "none",
    check: bool = False,
    **options: Any,
) -> Any:
    """Return the unit that a specification asks for, of one of `KINDS`.

    `FilterUnit` for a ring of one lane, `LaneUnit` for several lanes, `DictionaryUnit` for a
    dictionary, `TimingUnit` and `CountedTimingUnit` for timing filters.

    Parameters
    ----------
    spec : Specification
    memory : str
        Variant of the memories, one of the kind's.
    levels : int
        As for `FilterUnit`; at most those of the kind.
    protect : str
        As for `FilterUnit`, `TimingUnit` and `DictionaryUnit`.
    check : bool
        Whether the unit watches its own state, resets itself where that is illegal, and tells with
        its ports ``fault`` and ``alarms``; as for `FilterUnit`, `LaneUnit` and
        `lately.hdl.unit_shell.UnitShell`.
    options
        As for the units.

    Raises
    ------
    SpecificationError
        If there is no hardware for the family, or the hardware cannot hold the specification.
    """
    kind = unit_kind(spec)
    options |= {"check": True} if check else {}
    levels = min(levels, kind.most_levels)
    shape = {"memory": memory, "levels": levels, "protect": protect}
    kind.profile(spec, **shape).check_buildable()
    return kind.build(spec, **shape, **options)
