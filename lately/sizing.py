"""Choice of a filter for a window and a false-positive rate."""

import math
from collections.abc import Iterator
from dataclasses import replace

from .golden import FilterSpec, SpecificationError

_RUNS = range(2, 5)
_GENERATIONS = range(2, 13)
_SHAPES = ((32, 2), (64, 2), (64, 4), (128, 4), (256, 8), (512, 8))
"""Block bits and hashes per block."""
_LARGEST_CLEAR = 256
_LARGEST_BLOCKS = 1 << 22


def size(
    window: int, false_positive_rate: float, *, key_bits: int = 64, seed: int = 0
) -> FilterSpec:
    """Find the buildable APBBF with the least storage.

    Parameters
    ----------
    window : int
        Insertions for which a key must be reported.
    false_positive_rate : float
        Bound on the expected rate at the worst phase of a generation, keys
        distinct; above 0 and below 1.
    key_bits : int
        Width of a key.
    seed : int
        Selects the hash functions.

    Returns
    -------
    FilterSpec
        Of equal storage, the one with fewest memories, then the lowest rate.

    Raises
    ------
    SpecificationError
        If an argument is out of range, or no such filter keeps the rate.
    """
    if window < 1:
        raise SpecificationError(f"window: must be at least 1 insertion, not {window}")
    if not 0 < false_positive_rate < 1:
        raise SpecificationError(
            f"fpr: must be a rate above 0 and below 1, not {false_positive_rate:g}"
        )
    best: tuple[tuple[float, ...], FilterSpec] | None = None
    lowest = math.inf
    for candidates in _families(window, key_bits=key_bits, seed=seed):
        for spec in candidates:
            if best is not None and spec.storage_bits > best[0][0]:
                break
            rate = spec.worst_false_positive_rate
            lowest = min(lowest, rate)
            if rate <= false_positive_rate:
                rank = (spec.storage_bits, spec.segments * spec.parts, rate)
                best = min(best or (rank, spec), (rank, spec), key=lambda pair: pair[0])
                break
    if best is None and lowest == math.inf:
        raise SpecificationError(
            "window: must be one that a buildable APBBF can hold, 3 insertions or more, "
            f"not {window}"
        )
    if best is None:
        raise SpecificationError(
            f"fpr: must be at least {lowest:.3g}, the lowest of a buildable APBBF with a window of "
            f"{window}, not {false_positive_rate:g}"
        )
    return best[1]


def _families(window: int, *, key_bits: int, seed: int) -> Iterator[Iterator[FilterSpec]]:
    """Yield buildable filters, in groups that grow from small to large."""
    for k in _RUNS:
        for generations in _GENERATIONS:
            for block_bits, hashes in _SHAPES:
                base = FilterSpec(
                    family="apbbf",
                    window=window,
                    k=k,
                    l=generations,
                    block_bits=block_bits,
                    hashes_per_block=hashes,
                    blocks=1,
                    key_bits=key_bits,
                    seed=seed,
                )
                yield _growing(base)


def _growing(base: FilterSpec) -> Iterator[FilterSpec]:
    """Yield the buildable filters from few to many blocks, clearing as widely as they must."""
    # With a bit per four insertions or fewer, a segment matches nearly every key.
    cells, written = base.cells, base.run * base.generation
    blocks = 1
    while 4 * blocks * cells < written and blocks <= _LARGEST_BLOCKS:
        blocks *= 2
    spec = replace(base, blocks=blocks)
    while spec.blocks <= _LARGEST_BLOCKS:
        clear = spec.clear
        while clear < _LARGEST_CLEAR and -(-spec.part_bits // clear) + 1 > spec.generation:
            clear *= 2
        wide = replace(spec, clear=clear)
        if _buildable(wide):
            yield wide
        elif clear == _LARGEST_CLEAR:
            return
        spec = replace(spec, blocks=2 * spec.blocks)


def _buildable(spec: FilterSpec) -> bool:
    try:
        spec.check_buildable()
    except SpecificationError:
        return False
    return True
