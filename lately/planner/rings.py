"""Plan rings: find the cheapest specification of each family that meets a requirement.

For each shape, a lower bound on the rate gives the smallest size that may be large enough. The
search then checks the exact rate of the filters in order of cost.
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
from ..hdl.latencies import MAX_SEGMENTS, MAX_WORDS, TIMED_GENERATION
from .requirement import (
    PLANNER_FAMILIES,
    USELESS,
    Binding,
    PlannerFamily,
    PricedSpec,
    Requirement,
    is_buildable,
    is_in_time,
)

# Values tried for l of an APBF or r of a GEBF: all up to 32, then 16 per octave up to 1024.
GENERATIONS = (*range(1, 33), *(m << e for e in range(1, 6) for m in range(17, 33)))

# Values tried for k of an APBF, the number of segments that an insertion writes.
RUNS = {"apbf": range(1, 41), "apbbf": range(1, 9), "gebf": (1,), "blocked-gebf": (1,)}

# Values tried for the bits that a key sets in a segment: b of an APBBF, k of a GEBF.
PARTS: dict[str, Sequence[int]] = {
    "apbf": (1,),
    "apbbf": (2, 4, 8),
    "gebf": range(1, 41),
    "blocked-gebf": range(1, 17),
}

# Values tried for B, the bits of a block; each part has at least `MIN_CELLS` of them.
BLOCK_BITS = {"apbbf": (32, 64, 128, 256, 512), "blocked-gebf": (32, 64, 128, 256, 512)}

# Values tried for the bits of a part, or the number of blocks: powers of two; with any size, also
# other numbers of 7 significant binary digits.
SIZES = {
    False: [1 << exponent for exponent in range(33)],
    True: [*range(1, 129), *(m << e for e in range(1, 26) for m in range(65, 129))],
}

MAX_CLEAR = 256  # maximum bits of a memory that are zeroed per cycle
MIN_CELLS = 8  # minimum bits per part of a block
_MAX_BITS = (1 << 48) - 1  # bits of the largest filter
_LOWEST = 1e-300  # rate at which all shapes are tried

# Specification fields for run, generations, parts and size (cells per part in a GEBF).
_FIELDS = {
    "apbf": ("k", "l", "", "slice_bits"),
    "apbbf": ("k", "l", "hashes_per_block", "blocks"),
    "gebf": ("", "epochs", "hashes", "cells"),
    "blocked-gebf": ("", "epochs", "hashes", "blocks"),
}


class Shape(NamedTuple):
    run: int  # k of an APBF; 1 in a GEBF
    generations: int  # l, or r of a GEBF
    parts: int  # b of an APBBF, or k of a GEBF
    block_bits: int  # 0 without blocks
    generation: int  # length of a generation in insertions
    size: int  # blocks, or bits per part

    @property
    def segments(self) -> int:
        return self.run + self.generations + 1

    @property
    def bits(self) -> int:
        return self.segments * self.parts * self.size * self.cells

    @property
    def cells(self) -> int:
        return self.block_bits // self.parts if self.block_bits else 1

    @property
    def min_size(self) -> int:
        return 0 if self.block_bits else 1

    @property
    def trace(self) -> int:
        return (self.run + self.generations) * self.generation

    def resized(self, size: int) -> "Shape":
        return self._replace(size=size)

    @property
    def rate_bound(self) -> float:
        """A lower bound on the false-positive rate for distinct keys just before a shift."""
        # A run ends by segment t with F(t) = F(t - 1) + (1 - F(t - k - 1)) (1 - p(t - k))
        # p(t - k + 1) ... p(t) (APBF paper, section 5.3), and F(t - k - 1) is at most F(t - 1).
        k, l = self.run, self.generations
        full = self._match(k)
        if l < k:
            return math.prod(map(self._match, range(l + 1, k)), start=full ** (l + 1))
        whole = full**k
        if whole >= 1:
            return 1.0
        return -math.expm1(math.log1p(-whole) + (l - k) * math.log1p((full - 1) * whole))

    def _match(self, generations: int) -> float:
        """Return the probability that a new key matches a segment of `generations` generations."""
        load = generations * self.generation
        if not self.block_bits:
            return parts_rate(load, self.size, self.parts)
        # (1 - q**j)**b, expanded and averaged over the binomial number of keys j in a block.
        b, kept = self.parts, 1 - 1 / self.cells
        terms = (
            (-1) ** t * comb(b, t) * math.exp(load * math.log1p((kept**t - 1) / self.size))
            for t in range(b + 1)
        )
        return max(0.0, math.fsum(terms) - 1e-15 * 2.0**b)  # minus a bound on the rounding errors


class _Option(NamedTuple):
    rank: tuple[int, ...]
    number: int
    shape: Shape
    larger: Iterator[Shape]


class PlannedRing(PlannerFamily):
    limit = "whose segments must be cleared within a generation"

    def __init__(self, name: str, generations: Sequence[int] = GENERATIONS) -> None:
        super().__init__(name)
        self.generations = generations

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

    def search(self, requirement: Requirement) -> Iterator[PricedSpec]:
        ranked: list[tuple[tuple[float, ...], int, FilterSpec]] = []
        limit = None if requirement.counts_bits else requirement.max_memories
        options = []
        for number, (shape, larger) in enumerate(self._smallest(requirement)):
            order: tuple[int, ...] = (shape.bits, shape.bits, shape.segments * shape.parts)
            if not requirement.counts_bits:
                order = self._rank(self.spec(shape, requirement), requirement)
            options.append(_Option(order, number, shape, larger))
        for option in sorted(options):
            while ranked and ranked[0][0][:3] < option.rank:
                rank, _, spec = ranked.pop(0)
                yield PricedSpec(spec, int(rank[0]))
            if limit is not None and option.rank[0] > limit:
                break
            if (decided := self._decided(option, requirement)) is not None:
                worst = decided.worst_false_positive_rate
                insort(ranked, ((*self._rank(decided, requirement), worst), option.number, decided))
        yield from (PricedSpec(spec, int(rank[0])) for rank, _, spec in ranked)

    def _rank(self, spec: FilterSpec, requirement: Requirement) -> tuple[int, ...]:
        return self.cost(spec, requirement), spec.storage_bits, self.memories(spec)

    def _decided(self, option: _Option, requirement: Requirement) -> FilterSpec | None:
        specs = [self.spec(option.shape, requirement)]
        larger = (self.spec(shape, requirement) for shape in option.larger)
        if not is_in_time(specs[0], requirement):
            # With more generations, clearing a segment takes fewer cycles.
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
        """Yield each shape at the smallest size that may meet the rate, and its larger shapes."""
        # Larger shapes have more bits with any size, otherwise more generations of the same size.
        sizes, rate = SIZES[requirement.any_size], requirement.false_positive_rate
        budget = _MAX_BITS
        for shapes in self._shapes(requirement):
            number, last = 1, len(sizes)
            for position, shape in enumerate(shapes):
                first, end = shape.min_size, self._max_size(shape, budget, requirement)

                def meets(
                    number: int, shape: Shape = shape, first: int = first, end: int = end
                ) -> bool:
                    size = sizes[min(first + number - 1, end)]
                    return shape.resized(size).rate_bound <= rate

                if end < first or not meets(len(sizes)):
                    continue
                number = smallest(meets, min(number, end - first + 1))
                index = first + number - 1
                shape = shape.resized(sizes[index])
                if requirement.counts_bits:
                    budget = min(budget, 2 * shape.bits)  # no candidates with more bits
                if requirement.any_size:
                    yield shape, map(shape.resized, islice(sizes, index + 1, end + 1))
                elif index < last:
                    # Include the next size, because the rate may exceed its lower bound.
                    more = shapes[position + 1 :]
                    for size in sizes[index : min(last, index + 2, end + 1)]:
                        yield shape.resized(size), map(Shape.resized, more, repeat(size))
                    last = index

    def _shapes(self, requirement: Requirement) -> Iterator[list[Shape]]:
        """Yield lists of shapes that differ only in their generations, with the fewest first."""
        longest, span = requirement.longest_trace, requirement.span
        window, max_memories = requirement.window, requirement.max_memories
        max_hashes = 2 - 2 * math.log2(requirement.false_positive_rate)
        for run, parts, block_bits in product(
            RUNS[self.name], PARTS[self.name], BLOCK_BITS.get(self.name, (0,))
        ):
            if block_bits and block_bits // parts < MIN_CELLS:
                continue
            if block_bits and not requirement.any_size and parts & (parts - 1):
                continue
            by_generation: dict[int, Shape] = {}
            for generations in self.generations:
                generation = _generation(run, generations, requirement)
                if generation is None or generations > max(1, window - (span is not None)):
                    continue
                # With more bits per key, segments are so full that fewer bits need less memory.
                if run * parts > max_hashes + 2 * math.log2(generations):
                    continue
                shape = Shape(run, generations, parts, block_bits, generation, 0)
                if not requirement.any_size and shape.segments > MAX_SEGMENTS:
                    break
                if longest is not None and shape.trace > longest:
                    continue
                memories = shape.segments * parts
                if max_memories is not None and memories > max_memories and _fills(requirement):
                    break
                # More generations of the same length only use more memory.
                by_generation.setdefault(generation, shape)
            if by_generation:
                yield list(by_generation.values())

    def _max_size(self, shape: Shape, total: int, requirement: Requirement) -> int:
        device, max_memories = requirement.device, requirement.max_memories
        if requirement.max_bits is not None:
            total = min(total, requirement.max_bits)
        if max_memories is not None and _fills(requirement):
            memory_bits = device.bram_bits if device else 1 << 14
            total = min(total, max_memories * memory_bits * 9 // 8)  # including ninth bits
        memories = shape.segments * shape.parts
        bits = total // memories
        if not requirement.any_size:
            bits = min(bits, MAX_CLEAR * (shape.generation - 1))
            # A memory has at most as many words as a clear has cycles, rounded to a power of two.
            words = 1 << (shape.generation - 1).bit_length() - 1
            if device is None and memories * words > MAX_WORDS:
                bits = min(bits, MAX_WORDS // memories)
        return bisect_right(SIZES[requirement.any_size], bits // shape.cells) - 1

    def spec(self, shape: Shape, requirement: Requirement) -> FilterSpec:
        span = requirement.span
        window = requirement.window if span is None else max(1, requirement.window - 1)
        k, l, parts, size = shape.run, shape.generations, shape.parts, shape.size
        values: dict[str, Any] = {"k": k, "l": l, "slice_bits": size}
        if self.name == "apbbf":
            values = {"k": k, "l": l, "hashes_per_block": parts, "blocks": size}
        elif self.name != "apbf":
            bits = size * (shape.block_bits or parts) * (l + 1)
            values = {"epochs": l, "hashes": parts, "bits": bits}
        if shape.block_bits:
            values["block_bits"] = shape.block_bits
        if span is not None:
            aged = _aged(k, requirement)
            values |= {"generation": shape.generation, "span": span.ticks}
            values |= {"generation_span": span.ticks // (aged + 1) + 1, "when_full": span.when_full}
        values |= {"window": window, "key_bits": requirement.key_bits, "seed": requirement.seed}
        return FilterSpec.families()[self.name](**values)

    def lowest_rate(self, requirement: Requirement) -> float | None:
        sizes = SIZES[requirement.any_size]
        free = replace(requirement, false_positive_rate=_LOWEST)
        limit, permitted = USELESS, list[tuple[float, int, FilterSpec]]()
        for shape in chain.from_iterable(self._shapes(free)):
            for index in range(self._max_size(shape, _MAX_BITS, requirement), -1, -1):
                sized = shape.resized(sizes[index])
                if index < shape.min_size or (bound := sized.rate_bound) >= limit:
                    break
                spec = self.spec(sized, requirement)
                if self.is_permitted(spec, requirement):
                    permitted.append((bound, len(permitted), spec))
                    # Exact rates may be ordered differently where the bounds are nearly equal.
                    limit = min(limit, 2 * bound)
                    break
        best = (spec for _, _, spec in sorted(permitted)[:20])
        return min((spec.worst_false_positive_rate for spec in best), default=None)

    def min_slack(self, requirement: Requirement) -> float | None:
        if requirement.span is not None:
            segments = math.inf if requirement.any_size else MAX_SEGMENTS
            longest = max(count for count in GENERATIONS if count + 2 <= segments)
            return 1 / min(longest, requirement.span.ticks)
        free = Requirement(
            window=requirement.window, false_positive_rate=_LOWEST, any_size=requirement.any_size
        )
        traces = [shape.trace for shapes in self._shapes(free) for shape in shapes]
        return min(traces) / requirement.window - 1 if traces else None

    def bindings(self, spec: FilterSpec, requirement: Requirement) -> list[Binding]:
        bindings = []
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
            less = max((smaller for smaller in values if smaller < value), default=None)
            if less is None or not name:
                continue
            if name == "hashes" and spec.blocked and not requirement.any_size:
                less = 1 << less.bit_length() - 1
            reason = self._broken(shape._replace(**{attribute: less}), requirement)
            if reason is not None:
                bindings.append(Binding(name, less, *reason))
        return bindings

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


def _fills(requirement: Requirement) -> bool:
    """Return whether even small memories use block RAMs; on a PolarFire, they do not."""
    return requirement.device is None or requirement.device.usram == 0


def _aged(run: int, requirement: Requirement) -> int:
    """Return the maximum number of generations in a span that end by age before they are full."""
    if requirement.span is None:
        return 0
    # A generation ends by age after slack / run of the span; fewer than run / slack fit into it.
    return math.ceil(run / Fraction(str(requirement.slack))) - 1


def _generation(run: int, generations: int, requirement: Requirement) -> int | None:
    """Return the generation length in insertions, or None if no length meets the requirement."""
    span, aged = requirement.span, _aged(run, requirement)
    # The last key in a span may retire the earliest keys.
    window = requirement.window if span is None else max(1, requirement.window - 1)
    # In hardware, a generation has at least two ticks.
    if aged >= generations or (span is not None and aged >= span.ticks):
        return None
    filled = -(-window // (generations - aged))
    if span is not None:
        return max(filled, TIMED_GENERATION)
    return filled if filled > 1 or requirement.any_size else None


PLANNER_FAMILIES.update({name: PlannedRing(name) for name in _FIELDS})
