"""Named specifications, used alike by tests, synthesis and docs."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from .base import require
from .ring import FilterSpec


def preset(name: str) -> FilterSpec:
    """Return the preset of that `name`; errors as `require`, if there is none."""
    require(name in PRESETS, "preset", f"must be one of {', '.join(PRESETS)}", name)
    return PRESETS[name]


PRESETS: Mapping[str, FilterSpec] = {
    name: FilterSpec.from_dict(fields)
    for name, fields in tomllib.loads(
        Path(__file__).with_name("presets.toml").read_text("utf-8")
    ).items()
}
"""Named specifications, those of ``presets.toml``."""
