"""Specifications of filters: one class per family, which the field ``family`` selects.

This package imports only the ring families; `spec.presets` also imports the other families.
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
