"""Specification of the filter whose slices grow with the rate; fields as its model has them."""

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
