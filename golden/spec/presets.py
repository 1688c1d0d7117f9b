"""Named specifications, used alike by tests, synthesis and docs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .base import UNSET, require
from .ring import SHARDS, APBBFSpec, APBFSpec, BlockedGEBFSpec, FilterSpec, GEBFSpec


def preset(name: str) -> FilterSpec:
    """Return the preset of that `name`; errors as `require`, if there is none."""
    require(name in PRESETS, "preset", f"must be one of {', '.join(PRESETS)}", name)
    return PRESETS[name]


_SIPHASH: Mapping[str, Any] = {"hash": "siphash", "rekey": True}
_APBBF_TINY = APBBFSpec(k=2, l=2, block_bits=8, hashes_per_block=2, blocks=4, key_bits=8, clear=8)
_APBBF_DEFAULT = APBBFSpec(k=2, l=5, block_bits=64, hashes_per_block=4, blocks=1024)


def _with_lanes(shard: APBBFSpec, lanes: int) -> APBBFSpec:
    blocks = shard.blocks * SHARDS[lanes]
    return replace(shard, lanes=lanes, blocks=blocks, window=UNSET, generation=UNSET)


PRESETS: Mapping[str, FilterSpec] = {
    "default": _APBBF_DEFAULT,
    # The largest of k = 3 with which block RAMs of the largest ECP5 are filled.
    "large": APBBFSpec(k=3, l=9, block_bits=64, hashes_per_block=4, blocks=4096),
    # The largest of its kind that fits the small iCE40 devices.
    "small": APBBFSpec(k=2, l=4, block_bits=64, hashes_per_block=4, blocks=256),
    "tiny": _APBBF_TINY,
    "apbbf-default": _APBBF_DEFAULT,
    "apbbf-tiny": _APBBF_TINY,
    "apbf-default": APBFSpec(k=10, l=7, slice_bits=16384),
    "apbf-tiny": APBFSpec(k=3, l=2, slice_bits=32, key_bits=8, clear=8),
    "gebf-default": GEBFSpec(window=20000, epochs=8, hashes=4, bits=9 * 4 * 8192),
    "gebf-tiny": GEBFSpec(window=16, epochs=2, hashes=2, bits=3 * 2 * 16, key_bits=8, clear=8),
    "blocked-gebf-default": BlockedGEBFSpec(
        window=20000, epochs=8, hashes=4, bits=9 * 32768, block_bits=64
    ),
    "blocked-gebf-tiny": BlockedGEBFSpec(
        window=16, epochs=2, hashes=2, bits=3 * 32, block_bits=8, key_bits=8, clear=8
    ),
    "siphash-default": replace(_APBBF_DEFAULT, **_SIPHASH),
    "siphash-tiny": replace(_APBBF_TINY, key_bits=16, **_SIPHASH),
    # In each shard as many blocks as the default has; of the tiny ones twice as many.
    "two-lanes": _with_lanes(_APBBF_DEFAULT, 2),
    "four-lanes": _with_lanes(_APBBF_DEFAULT, 4),
    "two-lanes-tiny": _with_lanes(replace(_APBBF_TINY, blocks=8), 2),
    "four-lanes-tiny": _with_lanes(replace(_APBBF_TINY, blocks=8), 4),
}
"""Named specifications, used alike by tests, synthesis and docs."""
