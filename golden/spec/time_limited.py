"""Specifications of the filters whose window is a span of time; fields as their models have them.

Fields that a model can derive from the others may be left out, and are then None.
"""

from dataclasses import dataclass

from ..times import TIME_LIMIT
from .base import Specification, optional, required


@dataclass(frozen=True, kw_only=True)
class TimeLimitedSpec(Specification, family="time-limited-apbf"):
    """Time-limited APBF whose slices grow with the rate, as `TimeLimitedAPBF`."""

    k: int = required()
    l: int = required()
    span: int = required(most=TIME_LIMIT - 1)
    capacity: int = required()
    slice_bits_limit: int = optional(1 << 24, least=2, most=1 << 32)


@dataclass(frozen=True, kw_only=True)
class PooledTimeLimitedSpec(Specification, family="pooled-time-limited-apbf"):
    """Time-limited APBF in a fixed pool of slices, as `PooledTimeLimitedAPBF`."""

    k: int = required()
    l: int = required()
    span: int = required(most=TIME_LIMIT - 1)
    slice_bits: int = required(most=1 << 32)
    generation: int = optional()
    generation_span: int = optional(most=TIME_LIMIT)
    when_full: str = "shorten"
