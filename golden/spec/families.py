"""The base of all specifications, with every family of the package registered."""

from . import dictionary_sizes, ring, timestamp
from .base import Specification

MODULES = (ring, timestamp, dictionary_sizes)
"""Modules that define specifications."""

__all__ = ["MODULES", "Specification"]
