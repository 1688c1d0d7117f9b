"""Named specifications for tests, synthesis and documentation."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from .base import require
from .ring import FilterSpec


def preset(name: str) -> FilterSpec:
    """Return the preset with this `name`; errors as `require` if there is none."""
    require(name in PRESETS, "preset", f"must be one of {', '.join(PRESETS)}", name)
    return PRESETS[name]


def _load() -> dict[str, FilterSpec]:
    known: dict[str, FilterSpec] = {}
    text = Path(__file__).with_name("presets.toml").read_text("utf-8")
    for name, fields in tomllib.loads(text).items():
        known[name] = known[fields] if isinstance(fields, str) else FilterSpec.from_dict(fields)
    return known


PRESETS: Mapping[str, FilterSpec] = _load()
"""Named specifications from ``presets.toml``."""
