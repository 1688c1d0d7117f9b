"""Rings: the cheapest specification of each family that meets a requirement.

For every shape, the search finds the smallest size whose rate may be low enough. Then it takes
shapes in order of cost, and enlarges them until the exact figures of `FilterSpec` accept them.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..golden import FilterSpec, analysis
from .cost import Bools, Floats, Ints
from .rates import log_rates, lower_bounds
from .requirement import (
    PLANNER_FAMILIES,
    Binding,
    Found,
    PlannerFamily,
    Requirement,
    in_time,
    unit_profile,
)
from .ring_cost import area, block_rams, features, memory_blocks, of_spec
from .space import (
    GENERATIONS,
    PARTS,
    RUNS,
    Shapes,
    aged_generations,
    part_bits,
    shapes,
    sizes,
    too_large,
)

if TYPE_CHECKING:
    from ..boards.flow.devices import Device

NONE = -1
"""Number of a size that does not exist."""

_FIELDS = {
    "apbf": ("k", "l", "", "slice_bits"),
    "apbbf": ("k", "l", "hashes_per_block", "blocks"),
    "gebf": ("", "epochs", "hashes", "cells"),
    "blocked-gebf": ("", "epochs", "hashes", "blocks"),
}
"""Fields for run, generations, parts and size; the size of a GEBF is the cells of a part."""

_JUDGED = 20
"""Filters per family in the search for the lowest rate."""


class PlannedRing(PlannerFamily):
    """Rings of the named family."""

    limit = "whose segments must be cleared within a generation"

    def search(self, requirement: Requirement, *, fitting: bool = True) -> Iterator[Found]:
        """Yield one specification for each shape, cheapest first; see `PlannerFamily.search`."""
        yield from by_cost(sized(self.name, requirement, fitting=fitting), requirement)

    def rates(self, spec: FilterSpec, requirement: Requirement) -> tuple[float, float]:
        """Return the rates just before a shift, and on average."""
        return spec.worst_false_positive_rate, spec.mean_false_positive_rate

    def slack(self, spec: FilterSpec, requirement: Requirement) -> float:
        """Return the slack, in windows: how long a trace of a key remains past the window."""
        if spec.timed:
            return spec.run * (spec.generation_span - 1) / spec.span
        return (spec.guaranteed_window + spec.slack) / spec.window - 1

    def memories(self, spec: FilterSpec) -> int:
        """Return the number of parts of all segments, including the spare."""
        return spec.segments * spec.parts

    def accesses(self, spec: FilterSpec, requirement: Requirement) -> float:
        """Return the segments that a query reads at the worst moment (APBF, section 5.4)."""
        fills = spec.segment_false_positive_rates(phase=1.0)
        return analysis.apbf_accesses(spec.run, spec.window_generations, "false", fills=fills)

    def model(self, spec: FilterSpec) -> str:
        """Return the name of the model, the same for all rings."""
        return "ring"

    def features(self, spec: FilterSpec, device: "Device") -> dict[str, float]:
        """Return the features from which LUTs and flip-flops are predicted."""
        named = features(*of_spec(spec), device, spec.key_bits)
        return {name: float(values[0]) for name, values in named.items()}

    def block_rams(self, spec: FilterSpec, device: "Device") -> int:
        """Return the block RAMs of segments, spare and small memories."""
        return int(block_rams(*of_spec(spec), device, spec.key_bits)[0])

    def lowest_rate(self, requirement: Requirement) -> float | None:
        """Return the lowest rate of the largest filters of a few shapes."""
        every = sized(self.name, replace(requirement, false_positive_rate=1e-300))
        largest = sizes(requirement.any_size)[every.most]
        order = np.argsort(log_rates(every.shapes, largest), kind="stable")[:_JUDGED]
        specs = (every.shapes.spec(int(i), int(largest[i]), requirement) for i in order)
        return min((spec.worst_false_positive_rate for spec in specs), default=None)

    def least_slack(self, requirement: Requirement) -> float | None:
        """Return the least slack of all shapes."""
        if requirement.span is not None:
            return 1 / min(max(GENERATIONS), requirement.span.ticks)
        found = shapes(self.name, requirement)
        if not requirement.any_size:
            found = found[found.generation >= 2]
        return float(found.trace.min()) / requirement.window - 1 if len(found) else None

    def bindings(self, spec: FilterSpec, requirement: Requirement) -> list[Binding]:
        """Return the broken constraint for each parameter that is one step smaller."""
        broken = (
            (field, value, _broken(shape, size, requirement))
            for field, value, shape, size in _smaller(spec, requirement)
        )
        return [Binding(field, value, *why) for field, value, why in broken if why is not None]


@dataclass(frozen=True)
class Sized:
    """Shapes, each with the smallest size that may meet the rate by `lower_bounds`.

    Attributes
    ----------
    shapes : Shapes
    number : ndarray of int, shape (n,)
        Index of the size in `sizes`; `NONE` if no possible size meets the rate.
    most : ndarray of int, shape (n,)
        Index of the largest possible size; `NONE` if there is none.
    """

    shapes: Shapes
    number: Ints
    most: Ints

    def __getitem__(self, chosen: Bools) -> "Sized":
        return Sized(self.shapes[chosen], self.number[chosen], self.most[chosen])


def sized(family: str, requirement: Requirement, *, fitting: bool = True) -> Sized:
    """Find, by bisection, the smallest size of each shape whose slack is permitted.

    If `fitting`, only filters that fit on the device count.
    """
    found = shapes(family, requirement)
    if (longest := requirement.longest_trace) is not None:
        found = found[found.trace <= longest]
    grid, device = sizes(requirement.any_size), requirement.device

    def fails(ones: Shapes, size: Ints) -> Bools:
        beyond = too_large(ones, size, requirement)
        if fitting and device is not None and not beyond.all():
            own = area(ones[~beyond], size[~beyond], device, requirement.key_bits)
            beyond[~beyond] = ~own.fits(device)
        return beyond

    most = _first(found, grid, fails) - 1
    found, most = found[most >= 0], most[most >= 0]
    limit = requirement.false_positive_rate
    number = _first(found, grid, lambda ones, size: lower_bounds(ones, size) <= limit)
    return Sized(found, np.where(number > most, NONE, number), most)


def _first(found: Shapes, grid: Ints, holds: Callable[[Shapes, Ints], Bools]) -> Ints:
    """Return the index of the first size for which a condition holds, which then stays true.

    Returns the length of the grid if the condition never holds.
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
        if judged and (requirement.device is None or in_time(unit_profile(spec), requirement)):
            yield Found(spec, rank[0])
        elif not judged and spec.worst_false_positive_rate > requirement.false_positive_rate:
            # The rate exceeds its lower bound and the required rate.
            numbers[index] += 1
            if numbers[index] <= found.most[index]:
                one = found.shapes[np.array([index])]
                (rank,) = _ranks(one, grid[numbers[[index]]], requirement)
                heapq.heappush(waiting, (rank, index, False))
        elif not judged:
            exact = (*rank[:3], spec.worst_false_positive_rate, *rank[4:])
            heapq.heappush(waiting, (exact, index, True))


def _ranks(found: Shapes, size: Ints, requirement: Requirement) -> list[tuple[float, ...]]:
    """Return cost, bits, memories, rate and shape of each filter, in order of comparison.

    The rate is 0 until it is known, which is before ties are resolved.
    """
    segments = found.ring_segments + 1
    bits: Floats = (segments * found.parts * part_bits(found, size)).astype(np.float64)
    costs = bits
    if requirement.counts_memories:
        costs = memory_blocks(found, size).astype(np.float64)
    elif requirement.device is not None:
        taken = area(found, size, requirement.device, requirement.key_bits)
        costs = taken.share(requirement.device)
    memories = segments * found.parts
    columns = (costs, bits, memories, np.zeros(len(found)), found.generations, found.block_bits)
    return [tuple(float(value) for value in row) for row in zip(*columns, strict=True)]


# What binds


def _smaller(spec: FilterSpec, requirement: Requirement) -> Iterator[tuple[str, int, Shapes, Ints]]:
    """Yield a field, its next smaller value, and the shape and size of that filter."""
    shape, size = of_spec(spec, requirement)
    run, generations, parts, sized = _FIELDS[spec.family]
    if (less := _below(sizes(requirement.any_size).tolist(), int(size[0]))) is not None:
        yield sized, less, shape, np.array([less])
    choices = (
        (generations, "generations", GENERATIONS),
        (run, "run", RUNS[spec.family]),
        (parts, "parts", PARTS[spec.family]),
    )
    for name, attribute, values in choices:
        less = _below(values, int(getattr(shape, attribute)[0]))
        if less is None or not name:
            continue
        if name == "hashes" and spec.blocked and not requirement.any_size:
            less = 1 << less.bit_length() - 1
        changed: dict[str, Any] = {attribute: np.array([less])}
        smaller = replace(shape, **changed)
        yield name, less, replace(smaller, aged=aged_generations(smaller.run, requirement)), size


def _below(values: Any, value: int) -> int | None:
    return max((one for one in values if one < value), default=None)


def _broken(shape: Shapes, size: Ints, requirement: Requirement) -> tuple[str, float] | None:
    longest = requirement.longest_trace
    if longest is not None and shape.trace[0] > longest:
        return "slack", float(shape.trace[0]) / shape.window - 1
    if shape.aged[0] >= shape.generations[0]:
        return "slack", float(shape.run[0]) / int(shape.generations[0])
    if too_large(shape, size, requirement)[0]:
        return "clearing", float(part_bits(shape, size)[0])
    if part_bits(shape, size)[0] < 2:
        return "rate", 1.0
    rate = shape.spec(0, int(size[0]), requirement).worst_false_positive_rate
    return ("rate", rate) if rate > requirement.false_positive_rate else None


PLANNER_FAMILIES.update({name: PlannedRing(name) for name in _FIELDS})
