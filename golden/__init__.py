"""Reference models of the filters, implemented in numpy as the papers describe them.

A name is imported at its first use, so that a program loads only the filters that it uses. For type
checkers, ``__init__.pyi`` lists the same names.
"""

from importlib import import_module, util
from typing import Any

LAZY = {
    "cuckoo.window_dictionary": ("WindowDictionary",),
    "errors": ("LatelyError", "RekeyError", "SpecificationError", "StateFileError"),
    "filter": ("CountedFilter", "Filter"),
    "models": ("from_bytes", "from_spec", "load"),
    "operations": ("Operation",),
    "results": ("Results",),
    "ring.rings": ("APBBF", "APBF", "GEBF", "BlockedGEBF", "SlidingFilter", "TimeLimitedRing"),
    "ring.live": ("attach", "share"),
    "ring.rotation": ("PoolStatus", "RotationPolicy", "RotationState"),
    "spec.dictionary_sizes": ("DICTIONARIES", "WindowDictionarySpec", "dictionary_preset"),
    "spec.presets": ("ALL_PRESETS", "PRESETS", "Specification", "any_preset", "preset"),
    "spec.ring": ("FAMILIES", "FilterSpec"),
    "spec.timestamp": ("TIMINGS", "PartitionedTimingSpec", "TimedTimingSpec", "timing_preset"),
    "timed_filter": ("TimedFilter",),
    "timestamp.decisions": ("DecisionTable", "QueryClass"),
    "timestamp.inferential": ("AgePosterior", "InferentialFilter"),
    "timestamp.partitioned_timing": ("PartitionedTimingFilter", "TimedTimingFilter"),
    "timestamp.timing": ("BlockTimingBloomFilter", "TimingBloomFilter"),
}
"""Exported names, grouped by the module that defines them."""

_MODULES = {name: module for module, names in LAZY.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    elif not name.startswith("_") and util.find_spec(f"{__name__}.{name}") is not None:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
