"""Checks of arguments that the formulas share."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of real numbers, of a shape that is given where it is used."""


def require(condition: bool, name: str, rule: str, value: object) -> None:
    """Raise an error that names a parameter, its rule and its value, unless a condition holds.

    Parameters
    ----------
    condition : bool
    name, rule : str
        Name of the parameter, for the message.
    value : object

    Raises
    ------
    ValueError
        If the condition does not hold.
    """
    if not condition:
        raise ValueError(f"{name}: {rule}, not {value!r}")


def require_count(name: str, value: int) -> None:
    """Check a count.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : int

    Raises
    ------
    ValueError
        If it is not an integer of at least 1.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(whole and value >= 1, name, "must be an integer of at least 1", value)


def require_share(name: str, value: float) -> None:
    """Check a share.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : float

    Raises
    ------
    ValueError
        If it is not in 0 to 1.
    """
    require(0 <= value <= 1, name, "must be in 0 to 1", value)


def require_load(load: float) -> None:
    """Check the load of a segment or block.

    Parameters
    ----------
    load : float
        In keys.

    Raises
    ------
    ValueError
        If it is negative or not finite.
    """
    require(0 <= load < math.inf, "load", "must be at least 0 and finite", load)


def require_block(block_bits: int, hashes_per_block: int) -> None:
    """Check the form of a block.

    Parameters
    ----------
    block_bits, hashes_per_block : int
        B and b.

    Raises
    ------
    ValueError
        If one is not an integer of at least 1, or b is not below B.
    """
    require_count("block_bits", block_bits)
    require_count("hashes_per_block", hashes_per_block)
    require(
        hashes_per_block < block_bits,
        "hashes_per_block",
        f"must be below block_bits = {block_bits}",
        hashes_per_block,
    )
