"""Presets of all families that have hardware."""

from collections.abc import Mapping

from .base import Specification, require
from .dictionary_sizes import DICTIONARIES
from .presets import PRESETS
from .timestamp import TIMINGS


def any_preset(name: str) -> Specification:
    """Return the preset with this `name`; errors as `require` if there is none."""
    require(name in ALL_PRESETS, "preset", f"must be one of {', '.join(ALL_PRESETS)}", name)
    return ALL_PRESETS[name]


ALL_PRESETS: Mapping[str, Specification] = {
    **PRESETS,
    **{f"dictionary-{name}": spec for name, spec in DICTIONARIES.items()},
    **{f"timing-{name}": spec for name, spec in TIMINGS.items()},
}
"""`PRESETS` and the presets of the other families; each of these has its family before its name."""
