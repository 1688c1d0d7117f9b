"""Functions that size filters of all families for a window and a false-positive rate."""

import math
from bisect import bisect_left
from collections.abc import Callable

from .errors import require, require_number

HASHES = range(1, 41)  # numbers of hash functions tried


def check_rate(value: float, name: str = "fpr") -> float:
    require_number(name, value)
    require(0 < value < 1, name, "must be above 0 and below 1", value)
    return float(value)


def expected_keys(span: float, rate: float) -> int:
    """Return the number of keys in a span, including both ends, at `rate` keys per unit of time."""
    require_number("rate", rate)
    rule = "must be above 0 and give at most 2**40 keys in the span"
    require(0 < rate * span <= 1 << 40, "rate", rule, rate)
    return math.ceil(rate * span) + 1


def smallest(meets: Callable[[int], bool], guess: int) -> int:
    """Return the smallest size of at least 1 for which `meets`, a monotonic predicate, is true."""
    low, high = 0, max(1, guess)
    step = max(1, guess // 64)
    while not meets(high):
        low, high, step = high, high + step, 2 * step
    if not low:
        while high - step > 0 and meets(high - step):
            high, step = high - step, 2 * step
        low = max(0, high - step)
    return low + 1 + bisect_left(range(low + 1, high), True, key=meets)


def shared_cells(load: int, fpr: float, hashes: int) -> int:
    """Return the number of cells that meets `fpr` if all hash functions share the cells."""
    touched = fpr ** (1 / hashes)
    return max(2, math.ceil(-1 / math.expm1(math.log1p(-touched) / (hashes * load))))


def bloom_rate(load: float, cells: int, hashes: int) -> float:
    """Return the false-positive rate of a filter whose hash functions share all `cells`."""
    return float((-math.expm1(hashes * load * math.log1p(-1 / cells))) ** hashes)


def parts_rate(load: float, cells: int, hashes: int) -> float:
    """Return the false-positive rate of a filter whose hash functions have `cells` cells each."""
    return bloom_rate(load, cells, 1) ** hashes


def parts_cells(load: int, fpr: float, hashes: int) -> int:
    """Return the minimum number of cells per hash function that meets `fpr`."""
    return shared_cells(load, fpr ** (1 / hashes), 1)


def best_hashes(cells: int, keys: float) -> int:
    """Return the best number of hash functions: ln 2 times the number of cells per key."""
    return max(1, round(cells / keys * math.log(2)))


def bloom_sizes(load: int, fpr: float) -> tuple[int, int]:
    """Return the number of bits and the number of hash functions of the smallest Bloom filter."""
    return min((shared_cells(load, fpr, hashes), hashes) for hashes in HASHES)
