"""Rings: the cheapest specification of each family that meets a requirement.

For each shape, a lower bound of the rate gives the smallest size that may be large enough. The
search then takes the filters in order of cost, and the exact rate of `FilterSpec` decides.
"""

import math
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice, product, repeat
from math import comb
from typing import Any, NamedTuple

from ..golden import FilterSpec, analysis
from ..golden.errors import SpecificationError
from ..golden.sizing import parts_rate, smallest
from ..hdl.latencies import MOST_SEGMENTS, TIMED_GENERATION
from .requirement import (
    PLANNER_FAMILIES,
    Binding,
    Found,
    PlannerFamily,
    Requirement,
    is_buildable,
    is_in_time,
)

GENERATIONS = (*range(1, 33), *(m << e for e in range(1, 6) for m in range(17, 33)))
"""l of an APBF, r of a GEBF: every one up to 32, then 16 to an octave, up to 1024."""

RUNS = {"apbf": range(1, 41), "apbbf": range(1, 9), "gebf": (1,), "blocked-gebf": (1,)}
"""Segments that an insertion writes: k of an APBF."""

PARTS: dict[str, Sequence[int]] = {
    "apbf": (1,),
    "apbbf": (2, 4, 8),
    "gebf": range(1, 41),
    "blocked-gebf": range(1, 17),
}
"""Bits that a key sets in a segment: b of an APBBF, k of a GEBF."""

BLOCK_BITS = {"apbbf": (32, 64, 128, 256, 512), "blocked-gebf": (32, 64, 128, 256, 512)}
"""B; parts have 8 bits or more of it."""

SIZES = {
    False: [1 << exponent for exponent in range(33)],
    True: [*range(1, 129), *(m << e for e in range(1, 26) for m in range(65, 129))],
}
"""Bits of a part, or blocks: powers of two; in any size, 7 binary digits and zeros after them."""

LARGEST_CLEAR = 256
"""Bits of a memory that are zeroed per cycle."""

LEAST_CELLS = 8
"""Fewest bits of one part of a block."""

_MOST_BITS = (1 << 48) - 1
"""Bits of the largest filter."""

_LOWEST = 1e-300
"""Rate for which all shapes are tried."""

_FIELDS = {
    "apbf": ("k", "l", "", "slice_bits"),
    "apbbf": ("k", "l", "hashes_per_block", "blocks"),
    "gebf": ("", "epochs", "hashes", "cells"),
    "blocked-gebf": ("", "epochs", "hashes", "blocks"),
}
"""Fields for run, generations, parts and size; the size of a GEBF is the cells of a part."""


class Shape(NamedTuple):
    """A ring: k, l and b of an APBBF, or 1, r and k of a GEBF, with its sizes.

    The `generation` is in insertions. The `block_bits` are 0 without blocks; the `size` is in
    blocks, or in bits of a part.
    """

    run: int
    generations: int
    parts: int
    block_bits: int
    generation: int
    size: int

    @property
    def segments(self) -> int:
        """Segments, including the spare."""
        return self.run + self.generations + 1

    @property
    def bits(self) -> int:
        """Bits of all segments, including the spare."""
        return self.segments * self.parts * self.size * self.cells

    @property
    def cells(self) -> int:
        return self.block_bits // self.parts if self.block_bits else 1

    @property
    def least_size(self) -> int:
        """Index of the smallest size with two bits in a part."""
        return 0 if self.block_bits else 1

    @property
    def trace(self) -> int:
        """Insertions after which no trace of a key is left: window and slack."""
        return (self.run + self.generations) * self.generation

    def enlarged(self, size: int) -> "Shape":
        """Return the shape with another size."""
        return self._replace(size=size)

    @property
    def rate_bound(self) -> float:
        """A lower bound, except for rounding, of the rate of distinct keys before a shift.

        With F(t) the probability that a run ends with segment t or before, F(t) = F(t - 1) +
        (1 - F(t - k - 1)) (1 - p(t - k)) p(t - k + 1) ... p(t): the recursion of the APBF paper
        (section 5.3). The bound follows, as 1 - F(t - k - 1) is at least 1 - F(t - 1). In a ring
        with fewer than k generations, only the oldest k segments count.
        """
        k, l = self.run, self.generations
        full = self._match(k)
        if l < k:
            return math.prod(map(self._match, range(l + 1, k)), start=full ** (l + 1))
        whole = full**k
        if whole >= 1:
            return 1.0
        return -math.expm1(math.log1p(-whole) + (l - k) * math.log1p((full - 1) * whole))

    def _match(self, generations: int) -> float:
        """Return the probability that a fresh key matches a segment with so many generations."""
        load = generations * self.generation
        if not self.block_bits:
            return parts_rate(load, self.size, self.parts)
        # (1 - q**j)**b, expanded and averaged over the binomial number of keys j in a block.
        b, kept = self.parts, 1 - 1 / self.cells
        terms = (
            (-1) ** t * comb(b, t) * math.exp(load * math.log1p((kept**t - 1) / self.size))
            for t in range(b + 1)
        )
        return max(0.0, math.fsum(terms) - 1e-15 * 2.0**b)  # less the rounding errors


class _Option(NamedTuple):
    """A filter that may meet the rate, and larger ones, each of which has a lower rate."""

    rank: tuple[int, ...]
    number: int
    shape: Shape
    larger: Iterator[Shape]


class PlannedRing(PlannerFamily):
    """Rings of the named family, with the given numbers of generations."""

    limit = "whose segments must be cleared within a generation"

    def __init__(self, name: str, generations: Sequence[int] = GENERATIONS) -> None:
        super().__init__(name)
        self.generations = generations

    # Figures

    def rates(self, spec: FilterSpec, requirement: Requirement) -> tuple[float, float]:
        return spec.worst_false_positive_rate, spec.mean_false_positive_rate

    def slack(self, spec: FilterSpec, requirement: Requirement) -> float:
        if spec.timed:
            return spec.run * (spec.generation_span - 1) / spec.span
        return (spec.guaranteed_window + spec.slack) / spec.window - 1

    def memories(self, spec: FilterSpec) -> int:
        return spec.segments * spec.parts

    def accesses(self, spec: FilterSpec, requirement: Requirement) -> float:
        fills = spec.segment_false_positive_rates(phase=1.0)
        return analysis.apbf_accesses(spec.run, spec.window_generations, "false", fills=fills)

    # Search

    def search(self, requirement: Requirement) -> Iterator[Found]:
        """Yield filters that meet a requirement, cheapest first; see `PlannerFamily.search`.

        In hardware, one filter stands for all of the same size whose generations are more.
        """
        found: list[tuple[tuple[float, ...], int, FilterSpec]] = []
        most = requirement.most_memories
        for option in sorted(self._options(requirement)):
            while found and found[0][0][:3] < option.rank:
                rank, _, spec = found.pop(0)
                yield Found(spec, int(rank[0]))
            if most is not None and not requirement.counts_bits and option.rank[0] > most:
                break
            if (decided := self._decided(option, requirement)) is not None:
                worst = decided.worst_false_positive_rate
                insort(found, ((*self._rank(decided, requirement), worst), option.number, decided))
        yield from (Found(spec, int(rank[0])) for rank, _, spec in found)

    def _options(self, requirement: Requirement) -> Iterator[_Option]:
        for number, (shape, larger) in enumerate(self._smallest(requirement)):
            rank: tuple[int, ...] = (shape.bits, shape.bits, shape.segments * shape.parts)
            if not requirement.counts_bits:
                rank = self._rank(self.spec(shape, requirement), requirement)
            yield _Option(rank, number, shape, larger)

    def _rank(self, spec: FilterSpec, requirement: Requirement) -> tuple[int, ...]:
        return self.cost(spec, requirement), spec.storage_bits, self.memories(spec)

    def _decided(self, option: _Option, requirement: Requirement) -> FilterSpec | None:
        """Return the first filter with a rate that is low enough; None if it is not permitted."""
        specs = [self.spec(option.shape, requirement)]
        larger = (self.spec(shape, requirement) for shape in option.larger)
        if not is_in_time(specs[0], requirement):
            # A segment of more generations is cleared in fewer cycles.
            specs = [spec for spec in larger if is_in_time(spec, requirement)]
        if not specs or not self.is_permitted(specs[0], requirement):
            return None

        def meets(number: int) -> bool:
            specs.extend(islice(larger, max(0, number - len(specs))))
            if number > len(specs):
                return True
            worst: float = specs[number - 1].worst_false_positive_rate
            return worst <= requirement.false_positive_rate

        number = smallest(meets, 1)
        spec = specs[number - 1] if number <= len(specs) else None
        return spec if spec and self.is_permitted(spec, requirement) else None

    def _smallest(self, requirement: Requirement) -> Iterator[tuple[Shape, Iterator[Shape]]]:
        """Yield shapes in the smallest size that may meet the rate, and what is larger.

        In hardware, only the fewest generations with each size are yielded, and what is larger has
        more generations; in any size, it has more bits.
        """
        sizes, rate = SIZES[requirement.any_size], requirement.false_positive_rate
        budget = _MOST_BITS
        for shapes in self._shapes(requirement):
            number, last = 1, len(sizes)
            for place, shape in enumerate(shapes):
                least, most = shape.least_size, self._most(shape, budget, requirement)

                def meets(
                    number: int, shape: Shape = shape, least: int = least, most: int = most
                ) -> bool:
                    size = sizes[min(least + number - 1, most)]
                    return shape._replace(size=size).rate_bound <= rate

                if most < least or not meets(len(sizes)):
                    continue
                number = smallest(meets, min(number, most - least + 1))
                index = least + number - 1
                shape = shape.enlarged(sizes[index])
                if requirement.counts_bits:
                    budget = min(budget, 2 * shape.bits)  # more bits are not offered
                if requirement.any_size:
                    yield shape, map(shape.enlarged, islice(sizes, index + 1, most + 1))
                elif index < last:
                    # The next size, too, as the rate may exceed its bound.
                    more = shapes[place + 1 :]
                    for size in sizes[index : min(last, index + 2, most + 1)]:
                        yield shape.enlarged(size), map(Shape.enlarged, more, repeat(size))
                    last = index

    def _shapes(self, requirement: Requirement) -> Iterator[list[Shape]]:
        """Yield lists of shapes without size that differ in generations alone, fewest first."""
        longest, span = requirement.longest_trace, requirement.span
        window, most = requirement.window, requirement.most_memories
        most_hashes = 2 - 2 * math.log2(requirement.false_positive_rate)
        for run, parts, block_bits in product(
            RUNS[self.name], PARTS[self.name], BLOCK_BITS.get(self.name, (0,))
        ):
            if block_bits and block_bits // parts < LEAST_CELLS:
                continue
            if block_bits and not requirement.any_size and parts & (parts - 1):
                continue
            found: dict[int, Shape] = {}
            for generations in self.generations:
                generation = _generation(run, generations, requirement)
                if generation is None or generations > max(1, window - (span is not None)):
                    continue
                # Full segments with so many bits per key are fuller than 1 - 2**-0.5: fewer bits
                # per key then need less memory.
                if run * parts > most_hashes + 2 * math.log2(generations):
                    continue
                shape = Shape(run, generations, parts, block_bits, generation, 0)
                if not requirement.any_size and shape.segments > MOST_SEGMENTS:
                    break
                if longest is not None and shape.trace > longest:
                    continue
                if most is not None and shape.segments * parts > most and _fills(requirement):
                    break
                # More generations of the same length only cost memory.
                found.setdefault(generation, shape)
            if found:
                yield list(found.values())

    def _most(self, shape: Shape, total: int, requirement: Requirement) -> int:
        """Return the index of the largest size, of `total` bits at most, that may be permitted."""
        device, most = requirement.device, requirement.most_memories
        if requirement.most_bits is not None:
            total = min(total, requirement.most_bits)
        if most is not None and _fills(requirement):
            each = device.bram_bits if device else 1 << 14
            total = min(total, most * each * 9 // 8)  # with ninth bits
        bits = total // (shape.segments * shape.parts)
        if not requirement.any_size:
            bits = min(bits, LARGEST_CLEAR * (shape.generation - 1))
        return bisect_right(SIZES[requirement.any_size], bits // shape.cells) - 1

    def spec(self, shape: Shape, requirement: Requirement) -> FilterSpec:
        """Build the specification of a shape."""
        span = requirement.span
        window = requirement.window if span is None else max(1, requirement.window - 1)
        values: dict[str, Any] = {"window": window, "key_bits": requirement.key_bits}
        values |= {"seed": requirement.seed}
        k, l, parts, size = shape.run, shape.generations, shape.parts, shape.size
        if self.name == "apbf":
            values |= {"k": k, "l": l, "slice_bits": size}
        elif self.name == "apbbf":
            values |= {"k": k, "l": l, "hashes_per_block": parts, "blocks": size}
        else:
            bits = size * (shape.block_bits or parts) * (l + 1)
            values |= {"epochs": l, "hashes": parts, "bits": bits}
        if shape.block_bits:
            values["block_bits"] = shape.block_bits
        if span is not None:
            aged = _aged(k, requirement)
            values |= {"generation": shape.generation, "span": span.ticks}
            values |= {"generation_span": span.ticks // (aged + 1) + 1, "when_full": span.when_full}
        return FilterSpec.families()[self.name](**values)

    # What cannot be, and what binds

    def lowest_rate(self, requirement: Requirement) -> float | None:
        sizes = SIZES[requirement.any_size]
        free = replace(requirement, false_positive_rate=_LOWEST)
        large = [
            shape.enlarged(sizes[index])
            for shape in chain.from_iterable(self._shapes(free))
            for most in (self._most(shape, _MOST_BITS, requirement),)
            for index in (most, most - 1)
            if index >= shape.least_size
        ]
        large.sort(key=lambda shape: shape.rate_bound)
        specs = (self.spec(shape, requirement) for shape in large)
        able = (spec for spec in specs if self.is_permitted(spec, requirement))
        return min((one.worst_false_positive_rate for one in islice(able, 20)), default=None)

    def least_slack(self, requirement: Requirement) -> float | None:
        if requirement.span is not None:
            return 1 / min(most_generations(requirement), requirement.span.ticks)
        free = Requirement(
            window=requirement.window, false_positive_rate=_LOWEST, any_size=requirement.any_size
        )
        traces = [shape.trace for shapes in self._shapes(free) for shape in shapes]
        return min(traces) / requirement.window - 1 if traces else None

    def bindings(self, spec: FilterSpec, requirement: Requirement) -> list[Binding]:
        broken = (
            (field, value, self._broken(smaller, requirement))
            for field, value, smaller in self._smaller(spec, requirement)
        )
        return [Binding(field, value, *why) for field, value, why in broken if why is not None]

    def _smaller(
        self, spec: FilterSpec, requirement: Requirement
    ) -> Iterator[tuple[str, int, Shape]]:
        """Yield a field, its next smaller value, and the shape of that filter."""
        size = spec.segment_blocks if spec.blocked else spec.cells
        block_bits = getattr(spec, "block_bits", 0)
        shape = Shape(spec.run, spec.window_generations, spec.parts, block_bits, 0, size)
        run, generations, parts, sized = _FIELDS[spec.family]
        for name, attribute, values in (
            (sized, "size", SIZES[requirement.any_size]),
            (generations, "generations", self.generations),
            (run, "run", RUNS[spec.family]),
            (parts, "parts", PARTS[spec.family]),
        ):
            value = getattr(shape, attribute)
            less = max((one for one in values if one < value), default=None)
            if less is None or not name:
                continue
            if name == "hashes" and spec.blocked and not requirement.any_size:
                less = 1 << less.bit_length() - 1
            yield name, less, shape._replace(**{attribute: less})

    def _broken(self, shape: Shape, requirement: Requirement) -> tuple[str, float] | None:
        generation = _generation(shape.run, shape.generations, requirement)
        if generation is None and _aged(shape.run, requirement) >= shape.generations:
            return "slack", shape.run / shape.generations
        if generation is None:
            return "clearing", float(shape.size * shape.cells)
        shape = shape._replace(generation=generation)
        longest = requirement.longest_trace
        if longest is not None and shape.trace > longest:
            return "slack", shape.trace / requirement.window - 1
        if shape.size * shape.cells < 2:
            return "rate", 1.0
        try:
            spec = self.spec(shape, requirement)
        except SpecificationError:
            return None
        if not is_buildable(spec, requirement):
            return "clearing", float(spec.part_bits)
        rate = spec.worst_false_positive_rate
        return ("rate", rate) if rate > requirement.false_positive_rate else None


def most_generations(requirement: Requirement) -> int:
    """Return the generations of the longest ring."""
    segments = math.inf if requirement.any_size else MOST_SEGMENTS
    return max(generations for generations in GENERATIONS if generations + 2 <= segments)


def _fills(requirement: Requirement) -> bool:
    """Return whether each memory takes a block RAM: small memories of a PolarFire take none."""
    return requirement.device is None or requirement.device.usram == 0


def _aged(run: int, requirement: Requirement) -> int:
    """Return the generations that time alone may end within a span.

    Age ends a generation after a share ``slack / run`` of the span, so that `run` generations fit
    into the slack. Fewer than ``run / slack`` such generations fit into a span. If at most N keys
    arrive within a span, the other generations of the window are full, so no segment retires early.
    """
    if requirement.span is None:
        return 0
    return math.ceil(run / Fraction(str(requirement.slack))) - 1


def _generation(run: int, generations: int, requirement: Requirement) -> int | None:
    """Return the insertions between two shifts; None if no generations are left for bursts."""
    span, aged = requirement.span, _aged(run, requirement)
    # The last key in a span may retire the earliest ones.
    window = requirement.window if span is None else max(1, requirement.window - 1)
    # Hardware has generations of two ticks or more.
    if aged >= generations or (span is not None and aged >= span.ticks):
        return None
    filled = -(-window // (generations - aged))
    if span is not None:
        return max(filled, TIMED_GENERATION)
    return filled if filled > 1 or requirement.any_size else None


PLANNER_FAMILIES.update({name: PlannedRing(name) for name in _FIELDS})
