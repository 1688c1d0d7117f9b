"""The base of all specifications, with every family in its register."""

from . import compared, cuckoo, dictionary_sizes, ring, time_limited, timestamp
from .base import Specification

MODULES = (ring, time_limited, timestamp, cuckoo, dictionary_sizes, compared)
"""Modules that define specifications."""

__all__ = ["MODULES", "Specification"]
