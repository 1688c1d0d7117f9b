"""Amaranth components: the filters as pipelined units."""

from .core import FilterCore
from .issue import Operation
from .lanes import LaneUnit, filter_unit
from .segment import PortableSegmentMemory, SegmentMemory
from .sliced import SlicedCore
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
