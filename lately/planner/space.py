"""The search space: the shapes of each family, and the sizes of each shape.

Arrays of equal length stand for many filters at once, one shape each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from ..golden import FilterSpec
from ..hdl.latencies import TIMED_GENERATION
from .cost import Bools, Ints
from .requirement import Requirement, Span

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

LARGEST_CLEAR = 256
"""Bits of a memory that are zeroed per cycle."""

LEAST_CELLS = 8
"""Fewest bits of one part of a block."""

_MOST_BITS = 2.0**48
"""Number of bits that exceeds every specification."""


@dataclass(frozen=True)
class Shapes:
    """Filters of one family, without their sizes.

    Attributes
    ----------
    family : str
    window : int
        N, in insertions. With a span, the maximum number of insertions within it.
    span : Span or None
        Window in time, if it is one.
    run, generations, parts : ndarray of int, shape (n,)
        k, l and b of an APBBF; 1, r and k of a GEBF.
    block_bits : ndarray of int, shape (n,)
        B; 0 if there are no blocks.
    aged : ndarray of int, shape (n,)
        Generations of the window that may end by their age, before the others are full; 0 without
        a span.
    """

    family: str
    window: int
    span: Span | None
    run: Ints
    generations: Ints
    parts: Ints
    block_bits: Ints
    aged: Ints

    def __len__(self) -> int:
        return len(self.run)

    def __getitem__(self, chosen: Any) -> Self:
        arrays = {f.name: getattr(self, f.name)[chosen] for f in fields(self)[3:]}
        return replace(self, **arrays)

    @property
    def generation(self) -> Ints:
        """Insertions between two shifts, shape (n,): ceil(N / l), aged generations excluded."""
        filled = -(-self.window // (self.generations - self.aged))
        return filled if self.span is None else np.maximum(filled, TIMED_GENERATION)

    @property
    def ring_segments(self) -> Ints:
        """Segments in the ring, shape (n,)."""
        return self.run + self.generations

    @property
    def trace(self) -> Ints:
        """Insertions after which no trace of a key is left, shape (n,): window and slack."""
        return self.ring_segments * self.generation

    @property
    def blocked(self) -> bool:
        """Whether the bits of a key are in one block of each segment."""
        return self.family in BLOCK_BITS

    @property
    def partitioned(self) -> bool:
        """Whether each segment has its own hash functions."""
        return self.family in ("apbf", "apbbf")

    @property
    def block_cells(self) -> Ints:
        """Bits of one part of one block, shape (n,); 1 if there are no blocks."""
        return self.block_bits // self.parts if self.blocked else np.ones_like(self.parts)

    def spec(self, index: int, size: int, requirement: Requirement) -> FilterSpec:
        """Build the specification of shape number `index`, in a size from `sizes`."""
        arrays = (self.run, self.generations, self.parts, self.block_bits)
        run, generations, parts, block_bits = (int(array[index]) for array in arrays)
        values: dict[str, Any] = {"family": self.family, "window": self.window}
        if self.family == "apbf":
            values |= {"k": run, "l": generations, "slice_bits": size}
        elif self.family == "apbbf":
            values |= {"k": run, "l": generations, "block_bits": block_bits,
                       "hashes_per_block": parts, "blocks": size}  # fmt: skip
        else:
            segment = size * (block_bits or parts)
            values |= {"epochs": generations, "hashes": parts, "bits": segment * (generations + 1)}
            values |= {"block_bits": block_bits} if block_bits else {}
        if self.span is not None:
            values |= {"generation": int(self.generation[index]), "span": self.span.ticks}
            values |= {"generation_span": self.span.ticks // (int(self.aged[index]) + 1) + 1}
            values |= {"when_full": self.span.when_full}
        values |= {"key_bits": requirement.key_bits, "seed": requirement.seed}
        if not requirement.any_size:
            one = self[np.array([index])]
            values["clear"] = int(clear_width(one, np.array([size]))[0])
        return FilterSpec.from_dict(values)


def shapes(family: str, requirement: Requirement) -> Shapes:
    """Return all shapes of a family that the search covers."""
    blocks = BLOCK_BITS.get(family, (0,))
    parts = PARTS[family]
    if family == "blocked-gebf" and not requirement.any_size:
        parts = [count for count in parts if count & (count - 1) == 0]
    grid = np.meshgrid(RUNS[family], GENERATIONS, parts, blocks, indexing="ij")
    run, generations, counts, block_bits = (axis.ravel().astype(np.int64) for axis in grid)
    # The last key in a span may retire the earliest ones.
    window = requirement.window if requirement.span is None else max(1, requirement.window - 1)
    aged = aged_generations(run, requirement)
    found = Shapes(family, window, requirement.span, run, generations, counts, block_bits, aged)
    found = found[found.aged < found.generations]
    if found.span is not None:
        # Hardware has generations of two ticks or more.
        found = found[found.aged < found.span.ticks]
    # With more generations than insertions, some generations would be empty.
    kept = found.generations <= found.window
    if found.blocked:
        kept &= found.block_cells >= LEAST_CELLS
    return found[kept]


def aged_generations(run: Ints, requirement: Requirement) -> Ints:
    """Return the generations that time alone may end within a span, shape (n,).

    Age ends a generation after a share ``slack / run`` of the span, so that `run` generations fit
    into the slack. Fewer than ``run / slack`` such generations fit into a span. If at most N keys
    arrive within a span, the other generations of the window are full, so no segment retires early.
    """
    if requirement.span is None:
        return np.zeros_like(run)
    slack = Fraction(str(requirement.slack))
    each = {k: math.ceil(k / slack) - 1 for k in set(run.tolist())}
    return np.array([each[k] for k in run.tolist()], np.int64)


def sizes(any_size: bool) -> Ints:
    """Return the sizes to try, shape (sizes,): bits of a part, or blocks.

    Powers of two; with `any_size`, integers of 7 binary digits and zeros after them.
    """
    if not any_size:
        return np.array([1 << exponent for exponent in range(33)])
    steps = [m << e for e in range(1, 26) for m in range(65, 129)]
    return np.array([*range(1, 129), *steps])


def part_bits(shapes: Shapes, size: Ints) -> Ints:
    """Return the bits of one part of a segment, the depth of one memory.

    The `size` of each filter, as in `sizes`, and the result have shape (n,).
    """
    return size * shapes.block_cells


def clear_width(shapes: Shapes, size: Ints) -> Ints:
    """Return the bits to clear per cycle, so that a segment is clear in time for the next shift.

    Parameters, result: as for `part_bits`.
    """
    depth = part_bits(shapes, size)
    needed = -(-depth // np.maximum(1, shapes.generation - 1))
    return 1 << np.ceil(np.log2(np.maximum(needed, 1))).astype(np.int64)


def too_large(shapes: Shapes, size: Ints, requirement: Requirement) -> Bools:
    """Return which sizes the models, or the hardware if required, do not support.

    If a size is too large, all larger sizes are too. Sizes and result: as for `part_bits`.
    """
    bits = part_bits(shapes, size).astype(np.float64) * shapes.parts * shapes.ring_segments
    beyond = bits >= _MOST_BITS
    if requirement.any_size:
        return beyond
    late = (shapes.generation < 2) | (clear_width(shapes, size) > LARGEST_CLEAR)
    return beyond | late
