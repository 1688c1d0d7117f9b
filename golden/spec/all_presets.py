"""Presets of all families that have hardware."""

from collections.abc import Mapping

from ..errors import SpecificationError, unknown_name
from .base import Specification
from .dictionary_sizes import DICTIONARIES
from .presets import PRESETS
from .timestamp import TIMINGS


def any_preset(name: str) -> Specification:
    """Return the preset with this `name`; raise a SpecificationError if there is none."""
    if name not in ALL_PRESETS:
        raise SpecificationError(unknown_name("preset", name, ALL_PRESETS))
    return ALL_PRESETS[name]


ALL_PRESETS: Mapping[str, Specification] = {
    **PRESETS,
    **{f"dictionary-{name}": spec for name, spec in DICTIONARIES.items()},
    **{f"timing-{name}": spec for name, spec in TIMINGS.items()},
}
"""`PRESETS` and the presets of the other families; each of these has its family before its name."""
