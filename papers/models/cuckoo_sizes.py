"""Sizes of a time-decaying cuckoo dictionary, and bounds that hold for it.

Near-optimal Approximate Membership Query over Time-decaying Windows, sections
IV.C and V.
"""

import math

from lately.golden.errors import SpecificationError
from lately.golden.filter import require_count
from lately.golden.sizing import check_rate

MOST_POSITIONS = 1 << 30
"""Positions of a table, at most."""

MOST_SIGNATURE_BITS = 32
"""Bits of a signature, at most."""


def cuckoo_signature_bits(*, positions: int, error_rate: float) -> int:
    """Return the bits of a signature for an error rate (Theorem 1).

    They are max{0, log(1 / epsilon) - log(positions) + 1}, rounded up.

    Parameters
    ----------
    positions : int
        Positions of each table.
    error_rate : float
        epsilon, the largest false-positive rate.

    Raises
    ------
    TypeError
        If a count is not an integer, or `error_rate` not a number.
    SpecificationError
        If a parameter is out of its range, or the signature would have more than
        `MOST_SIGNATURE_BITS` bits.
    """
    require_count("positions", positions, most=MOST_POSITIONS)
    check_rate(error_rate, "error_rate")
    for bits in range(MOST_SIGNATURE_BITS + 1):
        if cuckoo_error_bound(positions=positions, signature_bits=bits) <= error_rate:
            return bits
    least = cuckoo_error_bound(positions=positions, signature_bits=MOST_SIGNATURE_BITS)
    raise SpecificationError(
        f"error_rate: must be at least {least:.3g} with {positions} positions, not {error_rate!r}"
    )


def cuckoo_error_bound(*, positions: int, signature_bits: int) -> float:
    """Return the bound of the false-positive rate, which no load exceeds (Theorem 1).

    Two tables, in each of which one of ``positions * 2**signature_bits`` pairs matches.

    Parameters, errors: as `cuckoo_signature_bits`; the signature's width is given.
    """
    require_count("positions", positions, most=MOST_POSITIONS)
    require_count("signature_bits", signature_bits, least=0, most=MOST_SIGNATURE_BITS)
    return min(1.0, 2 / (positions << signature_bits))


def cuckoo_rate(keys: int, positions: int, signature_bits: int) -> float:
    """Return the expected false-positive rate: a key has both positions and the signature."""
    return -math.expm1(keys * math.log1p(-1 / (positions**2 << signature_bits)))


def time_decaying_space_bound(*, window: int, universe: int, error_rate: float) -> float:
    """Return the bits that any structure for time-decaying windows needs (Theorem 3).

    They are (n - epsilon m) log2(n - epsilon m); 0 where n - epsilon m is below 1
    and the bound says nothing.

    Parameters
    ----------
    window : int
        n, the largest window.
    universe : int
        m, the number of possible keys.
    error_rate : float
        As for `cuckoo_signature_bits`, with its errors.
    """
    require_count("window", window)
    require_count("universe", universe)
    check_rate(error_rate, "error_rate")
    certain = window - error_rate * universe
    return certain * math.log2(certain) if certain > 1 else 0.0
