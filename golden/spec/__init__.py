"""Specifications of filters: one class per family, selected by the field ``family``.

This package does not import families without hardware; `families` imports all families.
"""

from .base import UNSET as UNSET
from .ring import FAMILIES as FAMILIES
from .ring import AgePartitionedSpec as AgePartitionedSpec
from .ring import APBBFSpec as APBBFSpec
from .ring import APBFSpec as APBFSpec
from .ring import BlockedGEBFSpec as BlockedGEBFSpec
from .ring import FilterSpec as FilterSpec
from .ring import GEBFSpec as GEBFSpec
from .ring import GuardedEpochSpec as GuardedEpochSpec
