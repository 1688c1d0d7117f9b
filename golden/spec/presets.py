"""Presets of all families that have hardware; importing this module registers the families."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from ..errors import SpecificationError, unknown_name
from .base import Specification as Specification
from .base import require
from .dictionary_sizes import DICTIONARIES
from .ring import FilterSpec
from .timestamp import TIMINGS


def preset(name: str) -> FilterSpec:
    """Return the ring preset called `name`; SpecificationError if there is none."""
    require(name in PRESETS, "preset", f"must be one of {', '.join(PRESETS)}", name)
    return PRESETS[name]


def _load() -> dict[str, FilterSpec]:
    known: dict[str, FilterSpec] = {}
    text = Path(__file__).with_name("presets.toml").read_text("utf-8")
    for name, fields in tomllib.loads(text).items():
        known[name] = known[fields] if isinstance(fields, str) else FilterSpec.from_dict(fields)
    return known


PRESETS: Mapping[str, FilterSpec] = _load()
"""Specifications of rings from ``presets.toml``, by name."""


def any_preset(name: str) -> Specification:
    """Return the preset of any family called `name`; SpecificationError if there is none."""
    if name not in ALL_PRESETS:
        raise SpecificationError(unknown_name("preset", name, ALL_PRESETS))
    return ALL_PRESETS[name]


ALL_PRESETS: Mapping[str, Specification] = {
    **PRESETS,
    **{f"dictionary-{name}": spec for name, spec in DICTIONARIES.items()},
    **{f"timing-{name}": spec for name, spec in TIMINGS.items()},
}
"""All presets by name; those of dictionaries and timing filters have a prefix."""
