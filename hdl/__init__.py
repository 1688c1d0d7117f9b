"""Amaranth components: filters as pipelined hardware units.

Names are imported on first use, so that importing `lately.hdl.build` does not require Amaranth.
"""

from importlib import import_module

# public names of the package, by the module that defines them
LAZY = {
    "build": ("Family", "filter_unit", "register", "unit_profile"),
    "control": ("CoreSignature",),
    "interface": ("Operation", "UnitSignature"),
    "memory.segment": ("PortableSegmentMemory", "SegmentMemory"),
    "profile": ("Profile", "UnitOptions"),
    "ring.core": ("FilterCore", "ring_core"),
    "unit": ("Unit",),
}

_MODULES = {name: module for module, names in LAZY.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__():
    return sorted({*globals(), *__all__})
