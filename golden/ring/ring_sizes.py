"""Choose the sizes of a ring of segments for a window and a mean false-positive rate.

Each function tries many shapes, and chooses the one that needs the least memory if its segments are
full. It returns constructor parameters of the family, with the smallest size that meets the mean
rate.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from .. import analysis
from ..sizing import HASHES, smallest
from ..spec.ring import FilterSpec

GENERATIONS = range(1, 33)  # numbers of generations to try
APBBF_BLOCK_BITS = 256
GEBF_BLOCK_BITS = 512  # bits of a block of a blocked GEBF: a cache line
TOLERATED = 1.03  # maximum memory of a GEBF, as a multiple of the minimum
Sizes = dict[str, int]  # constructor parameters of a family
# bits, epochs, hash functions and a size of a GEBF, before the size is minimised
Shape = tuple[int, int, int, int]


def _fitting(shapes: list[Shape], sizes: Callable[[Shape], Sizes]) -> Sizes:
    """Return the dimensions of the smallest shape, or of a faster one that is hardly larger."""

    def cost(shape: Shape) -> float:
        bits, epochs, hashes, _ = shape
        # Number of segments: the epochs, the guard and the spare.
        word = max(8, 1 << (epochs + 1).bit_length())
        return bits / (epochs + 1) * word * hashes

    fewest = min(shapes)
    result = sizes(fewest)
    better = (shape for shape in shapes if cost(shape) < 0.9 * cost(fewest))
    near = sorted((shape for shape in better if shape[0] <= TOLERATED * fewest[0]), key=cost)
    sized = (sizes(shape) for shape in near)
    return next((size for size in sized if size["bits"] <= TOLERATED * result["bits"]), result)


def _sized(
    family: str, fpr: float, fixed: Sizes, name: str, guess: int, unit: int = 1, low: int = 1
) -> Sizes:
    """Add the parameter `name`: the smallest multiple of `unit` that meets the `fpr` on average."""

    def meets(count: int) -> bool:
        values = {"family": family, **fixed, name: unit * count}
        return count >= low and FilterSpec.from_dict(values).mean_false_positive_rate <= fpr

    return {**fixed, name: unit * smallest(meets, guess)}


def apbf_mean_rate(k: int, l: int) -> float:
    """Return the mean false-positive rate over a long generation.

    A slice is assumed to be half full after `k` generations.
    """

    def rate(phase: float) -> float:
        fills = [-math.expm1(-min(1, (i + phase) / k) * math.log(2)) for i in range(k + l)]
        return analysis.apbf_false_positive_rate(k, l, fills=fills)

    return analysis.mean_rate(rate, 1 << 40)


@lru_cache
def apbf_shape(window: int, fpr: float, *, mean: bool = False) -> tuple[int, int]:
    """Return k and l of the smallest APBF that meets `fpr` at a shift, or on average if `mean`."""
    kept = apbf_mean_rate if mean else analysis.apbf_false_positive_rate
    shapes = []
    k = 1
    for l in GENERATIONS[:window]:
        # More generations never need fewer slices.
        while kept(k, l) > fpr:
            k += 1
        shapes.append(((k + l) * k * -(-window // l), k, l))
    return min(shapes)[1:]


@lru_cache
def apbf_sizes(window: int, fpr: float) -> Sizes:
    k, l = apbf_shape(window, fpr)
    fixed = {"k": k, "l": l, "generation": -(-window // l)}
    guess = math.ceil(k * fixed["generation"] / math.log(2))
    return _sized("apbf", fpr, fixed, "slice_bits", guess)


@lru_cache
def apbbf_sizes(window: int, fpr: float) -> Sizes:
    def full_rate(k: int, l: int, b: int) -> float:
        fills = analysis.apbbf_fills(k, l, APBBF_BLOCK_BITS, b)
        return analysis.apbf_false_positive_rate(k, l, fills=fills)

    shapes = []
    for b in (2, 4, 8):
        capacity = analysis.apbbf_block_capacity(APBBF_BLOCK_BITS, b)
        k = 1
        for l in GENERATIONS[:window:2]:
            while full_rate(k, l, b) > fpr:
                k += 1
            blocks = math.ceil(k * -(-window // l) / capacity)
            shapes.append(((k + l) * blocks, k, l, b, blocks))
    _, k, l, b, guess = min(shapes)
    fixed = {"k": k, "l": l, "block_bits": APBBF_BLOCK_BITS, "hashes_per_block": b}
    fixed["generation"] = -(-window // l)
    return _sized("apbbf", fpr, fixed, "blocks", guess)


@lru_cache
def gebf_sizes(window: int, fpr: float) -> Sizes:
    shapes = []
    for epochs in GENERATIONS[:window]:
        segment = -math.expm1(math.log1p(-fpr) / (epochs + 1))
        for hashes in HASHES:
            fill = segment ** (1 / hashes)
            cells = max(2, math.ceil(-1 / math.expm1(math.log1p(-fill) / -(-window // epochs))))
            shapes.append(((epochs + 1) * hashes * cells, epochs, hashes, cells))

    def sizes(shape: Shape) -> Sizes:
        _, epochs, hashes, guess = shape
        fixed = {"window": window, "epochs": epochs, "hashes": hashes}
        return _sized("gebf", fpr, fixed, "bits", guess, hashes * (epochs + 1), low=2)

    return _fitting(shapes, sizes)


@lru_cache
def blocked_gebf_sizes(window: int, fpr: float) -> Sizes:
    shapes = []
    for hashes in (2, 4, 8, 16):
        for load in np.geomspace(0.01, GEBF_BLOCK_BITS, 80):
            rate = analysis.apbbf_block_false_positive_rate(GEBF_BLOCK_BITS, hashes, load)
            # The rate covers the epochs and the guard together.
            limit = math.log1p(-fpr) / math.log1p(-rate) - 1 if 0 < rate < 1 else 0
            for epochs in GENERATIONS[: min(window, int(min(limit, 32)))]:
                blocks = math.ceil(-(-window // epochs) / load)
                shapes.append(((epochs + 1) * blocks, epochs, hashes, blocks))

    def sizes(shape: Shape) -> Sizes:
        _, epochs, hashes, guess = shape
        fixed = {"window": window, "epochs": epochs, "hashes": hashes}
        fixed["block_bits"] = GEBF_BLOCK_BITS
        return _sized("blocked-gebf", fpr, fixed, "bits", guess, GEBF_BLOCK_BITS * (epochs + 1))

    return _fitting(shapes, sizes)
