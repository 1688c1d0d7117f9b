"""Specifications of filters: a class for each family, chosen by ``family``.

The families without hardware stand in modules that this package does not import; `families`
imports all.
"""

from .base import UNSET
from .presets import PRESETS, preset
from .ring import (
    FAMILIES,
    AgePartitionedSpec,
    APBBFSpec,
    APBFSpec,
    BlockedGEBFSpec,
    FilterSpec,
    GEBFSpec,
    GuardedEpochSpec,
)

__all__ = [
    "FAMILIES",
    "PRESETS",
    "UNSET",
    "APBBFSpec",
    "APBFSpec",
    "AgePartitionedSpec",
    "BlockedGEBFSpec",
    "FilterSpec",
    "GEBFSpec",
    "GuardedEpochSpec",
    "preset",
]
