"""Specification of the time-decaying cuckoo dictionary; fields as its model has them.

Fields that the model can derive from the others may be left out, and are then None.
"""

from dataclasses import dataclass

from .base import Specification, optional, required


@dataclass(frozen=True, kw_only=True)
class CuckooSpec(Specification, family="cuckoo"):
    """Time-decaying cuckoo dictionary, with fields as `CuckooDictionary` has them."""

    window: int = required()
    signature_bits: int = optional(0, least=0, most=32)
    positions: int = optional(most=1 << 30)
    moves: int = optional()
