"""Amaranth components: the filters as pipelined units.

Names are imported when they are asked for, so that `lately.hdl.profile` needs no Amaranth.
"""

from importlib import import_module

_MODULES = {
    "APBBF": "unit",
    "APBF": "unit",
    "GEBF": "unit",
    "BlockedGEBF": "unit",
    "FilterCore": "ring.core",
    "FilterUnit": "unit",
    "HardwareProfile": "profile",
    "LaneUnit": "lanes.unit",
    "Operation": "interface",
    "PortableSegmentMemory": "memory.segment",
    "SegmentMemory": "memory.segment",
    "UnitSignature": "interface",
    "filter_unit": "build",
    "ring_core": "ring.core",
}

__all__ = list(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__():
    return sorted({*globals(), *__all__})
