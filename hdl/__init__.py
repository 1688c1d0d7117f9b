"""Amaranth components: the filters as pipelined units."""

from .interface import Operation, UnitSignature
from .lanes.unit import LaneUnit, filter_unit
from .memory.segment import PortableSegmentMemory, SegmentMemory
from .ring.core import FilterCore
from .ring.sliced import SlicedCore
from .unit import APBBF, APBF, GEBF, BlockedGEBF, FilterUnit

__all__ = [
    "APBBF",
    "APBF",
    "GEBF",
    "BlockedGEBF",
    "FilterCore",
    "FilterUnit",
    "LaneUnit",
    "Operation",
    "PortableSegmentMemory",
    "SegmentMemory",
    "SlicedCore",
    "UnitSignature",
    "filter_unit",
]
