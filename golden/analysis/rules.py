"""Checks of arguments that the formulas share."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of real numbers; its shape is given where it is used."""


def require(condition: bool, name: str, rule: str, value: object) -> None:
    """Raise an error that names a parameter, its rule and its value, unless a condition holds."""
    if not condition:
        raise ValueError(f"{name}: {rule}, not {value!r}")


def require_counts(**values: int) -> None:
    """Check that the named values are integers of at least 1; errors as `require`."""
    for name, value in values.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        require(whole and value >= 1, name, "must be an integer of at least 1", value)


def require_share(name: str, value: float) -> None:
    """Check that a value is from 0 to 1; parameters, errors: as `require`."""
    require(0 <= value <= 1, name, "must be in 0 to 1", value)


def require_load(load: float) -> None:
    """Check a load in keys: at least 0 and finite; errors as `require`."""
    require(0 <= load < math.inf, "load", "must be at least 0 and finite", load)


def require_block(block_bits: int, hashes_per_block: int) -> None:
    """Check `block_bits`, and `hashes_per_block`, which is smaller; errors as `require`."""
    require_counts(block_bits=block_bits, hashes_per_block=hashes_per_block)
    below = hashes_per_block < block_bits
    require(below, "hashes_per_block", f"must be below block_bits = {block_bits}", hashes_per_block)
