"""Search for the cheapest specification that meets a requirement.

Of every shape the smallest size that keeps the rate is found, which is its
cheapest; then shapes are taken from cheap to dear until enough have passed
the exact figures of `FilterSpec`.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..golden import FilterSpec
from ..hdl.profile import HardwareProfile
from ..hdl.target_clocks import limit_mhz
from . import cost
from .rates import Floats, keeps, log_rates
from .requirement import Requirement
from .space import Ints, Shapes, part_bits, shapes, sizes, too_large

Bools = NDArray[np.bool_]
"""Truth of a statement for each filter, shape (n,)."""

Rank = tuple[float, ...]
"""Cost, bits, memories, rate and shape, which are compared in this order, least first."""

NONE = -1
"""In place of the number of a size: there is none."""


@dataclass(frozen=True)
class Sized:
    """Shapes, each with the smallest size that keeps the rate by `worst_rates`.

    Attributes
    ----------
    shapes : Shapes
    number : ndarray of int, shape (n,)
        Index of the size in `sizes`; `NONE` if no possible size keeps the rate.
    most : ndarray of int, shape (n,)
        Number of the largest possible size; `NONE` if there is none.
    """

    shapes: Shapes
    number: Ints
    most: Ints


@dataclass(frozen=True)
class Found:
    """A specification that meets the requirement.

    Attributes
    ----------
    spec : FilterSpec
    cost : float
        Memories of 16 kbit; if only bits count, bits; on a device, the shares of its block RAMs and
        LUTs, added.
    shapes : Shapes
        Index of one element.
    part_size : int
        Bits of a part, or blocks.
    """

    spec: FilterSpec
    cost: float
    shapes: Shapes
    part_size: int


def cheapest(requirement: Requirement, count: int = 1) -> dict[str, list[Found]]:
    """Return the `count` cheapest specifications of each family, no two of the same shape.

    They come by family, cheapest first; of equal cost, those of fewer bits first, then of fewer
    memories, then of the lower rate. There are none where nothing meets the requirement.
    """
    return {
        family: list(islice(by_cost(sized(family, requirement), requirement), count))
        for family in requirement.rings
    }


def sized(family: str, requirement: Requirement, *, fitting: bool = True) -> Sized:
    """Find the smallest size of every shape of a family that has the slack, by bisection.

    If `fitting`, only what fits on the device counts.
    """
    found = shapes(family, requirement)
    if (longest := requirement.longest_trace) is not None:
        found = found[found.trace <= longest]
    grid = sizes(requirement.any_size)

    def fails(ones: Shapes, size: Ints) -> Bools:
        beyond = too_large(ones, size, requirement)
        if fitting and requirement.device is not None and not beyond.all():
            beyond[~beyond] = ~_fits(ones[~beyond], size[~beyond], requirement)
        return beyond

    most = _first(found, grid, fails) - 1
    found, most = found[most >= 0], most[most >= 0]
    limit = requirement.false_positive_rate
    number = _first(found, grid, lambda ones, size: keeps(ones, size, limit))
    return Sized(found, np.where(number > most, NONE, number), most)


def _first(found: Shapes, grid: Ints, holds: Callable[[Shapes, Ints], Bools]) -> Ints:
    """Return the number of the first size for which something holds, which then does for all after.

    The length of the grid where it holds for none.
    """
    low, high = np.full(len(found), -1), np.full(len(found), len(grid))
    while (left := np.flatnonzero(high - low > 1)).size:
        middle = (low[left] + high[left]) // 2
        true = holds(found[left], grid[middle])
        high[left] = np.where(true, middle, high[left])
        low[left] = np.where(true, low[left], middle)
    return high


def by_cost(found: Sized, requirement: Requirement) -> Iterator[Found]:
    """Yield specifications that meet the requirement, cheapest first, one for each shape."""
    grid = sizes(requirement.any_size)
    numbers = found.number.copy()
    waiting = [
        (rank, index, False)
        for index, rank in enumerate(_ranks(found.shapes, grid[numbers], requirement))
        if numbers[index] != NONE
    ]
    heapq.heapify(waiting)
    while waiting:
        rank, index, judged = heapq.heappop(waiting)
        spec = found.shapes.spec(index, int(grid[numbers[index]]), requirement)
        one = found.shapes[np.array([index])]
        if judged and in_time(spec, requirement):
            yield Found(spec, rank[0], one, int(grid[numbers[index]]))
        elif not judged and spec.worst_false_positive_rate > requirement.false_positive_rate:
            # Rounding made the estimate too low.
            numbers[index] += 1
            if numbers[index] <= found.most[index]:
                (rank,) = _ranks(one, grid[numbers[[index]]], requirement)
                heapq.heappush(waiting, (rank, index, False))
        elif not judged:
            exact = (*rank[:3], spec.worst_false_positive_rate, *rank[4:])
            heapq.heappush(waiting, (exact, index, True))


def in_time(spec: FilterSpec, requirement: Requirement) -> bool:
    """Tell whether ticks of the span are far enough apart for hardware at the device's limit."""
    span, device = requirement.span, requirement.device
    if span is None or device is None:
        return True
    return HardwareProfile(spec).least_period <= span.tick * Fraction(limit_mhz(device.name) * 1e6)


def _ranks(found: Shapes, size: Ints, requirement: Requirement) -> list[Rank]:
    """Rank shapes; the rate stays open until it is known, which is before equals are told apart."""
    bits = _bits(found, size, requirement)
    costs = _costs(found, size, requirement)
    memories = (found.ring_segments + 1) * found.parts
    columns = (costs, bits, memories, np.zeros(len(found)), found.generations, found.block_bits)
    return [tuple(float(value) for value in row) for row in zip(*columns, strict=True)]


def _costs(found: Shapes, size: Ints, requirement: Requirement) -> Floats:
    """Return what is to be least; infinite for what does not fit on the device."""
    if requirement.counts_memories:
        return cost.memory_blocks(found, size).astype(np.float64)
    if requirement.device is None:
        return _bits(found, size, requirement)
    area = cost.area(found, size, requirement.device, requirement.key_bits)
    return area.share(requirement.device)


def _bits(found: Shapes, size: Ints, requirement: Requirement) -> Floats:
    """Return the bits of filters: with the spare, unless sizes are any."""
    segments = found.ring_segments + (0 if requirement.any_size else 1)
    return (segments * found.parts * part_bits(found, size)).astype(np.float64)


def _fits(found: Shapes, size: Ints, requirement: Requirement) -> Bools:
    assert requirement.device is not None
    area = cost.area(found, size, requirement.device, requirement.key_bits)
    return ~np.logical_or.reduce([*area.excess(requirement.device).values()])


def lowest_rate(requirement: Requirement) -> float | None:
    """Return a rate that can be met and is about the lowest, whatever rate is asked.

    On a device, of what fits there. None if no filter has the window and the slack.
    """
    rates = []
    for family in requirement.rings:
        every = sized(family, replace(requirement, false_positive_rate=1e-300))
        largest = sizes(requirement.any_size)[every.most]
        for index in np.argsort(log_rates(every.shapes, largest), kind="stable")[:_JUDGED]:
            spec = every.shapes.spec(int(index), int(largest[index]), requirement)
            rates.append(spec.worst_false_positive_rate)
    return min(rates, default=None)


_JUDGED = 20
"""Filters of a family among which the lowest rate is looked for."""
