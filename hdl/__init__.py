"""Amaranth components: the filters as pipelined units."""

from .frontend.issue import Operation
from .lanes.unit import LaneUnit, filter_unit
from .memory.segment import PortableSegmentMemory, SegmentMemory
from .ring.core import FilterCore
from .ring.sliced import SlicedCore
from .unit import APBBF, APBF, GEBF, BlockedGEBF, FilterUnit, Request, Result

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
    "Request",
    "Result",
    "SegmentMemory",
    "SlicedCore",
    "filter_unit",
]
