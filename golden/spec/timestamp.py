"""Specifications of the filters whose cells hold timestamps; fields as their models have them.

Fields that a model can derive from the others may be left out, and are then None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from .base import Specification, optional, required

_LONGEST = 1 << 30
_HASHES = 1 << 10
_REQUIRED = {"required": True}


@dataclass(frozen=True, kw_only=True)
class TimingSpec(Specification, family="timing"):
    """Timing Bloom filter, with fields as `TimingBloomFilter` has them."""

    window: int = required(most=_LONGEST)
    cells: int = required(most=_LONGEST)
    hashes: int = required(most=_HASHES)
    padding: int = optional(least=0, most=_LONGEST)


@dataclass(frozen=True, kw_only=True)
class BlockTimingSpec(TimingSpec, family="block-timing"):
    """Block timing Bloom filter, with fields as `BlockTimingBloomFilter` has them."""

    block: int = required(most=_LONGEST)


@dataclass(frozen=True, kw_only=True)
class InferentialSpec(TimingSpec, family="inferential"):
    """Inferential time-decaying filter, with fields as `InferentialFilter` has them."""

    block: int = optional(1, most=_LONGEST)
    distinct: Mapping[str, Any] = field(default=cast(dict[str, Any], None), metadata=_REQUIRED)
    probability: float = field(default=cast(float, None), metadata=_REQUIRED)
    false_positive: float = 1.0
    false_negative: float = 1.0
    recurring: bool = False
