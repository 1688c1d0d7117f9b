"""Variants of segment and cell memories, by name."""

from .cells import PortableCellMemory
from .ecp5 import ECP5CellMemory, ECP5SegmentMemory
from .gowin import GowinSegmentMemory
from .ice40 import ICE40SegmentMemory
from .map import BLOCK_KINDS, STRICT
from .segment import PortableSegmentMemory, RegisteredSegmentMemory

VARIANTS = {
    "portable": PortableSegmentMemory,
    "portable-registered": RegisteredSegmentMemory,
    "ecp5": ECP5SegmentMemory,
    "ice40": ICE40SegmentMemory,
    "gowin": GowinSegmentMemory,
}
"""Components by variant name."""

CELL_MEMORIES = {"portable": PortableCellMemory, "ecp5": ECP5CellMemory}
"""Variants of cell memories."""

VARIANTS |= {
    f"{name}{STRICT}": type(
        f"Strict{variant.__name__}",
        (variant,),
        {
            "__module__": __name__,
            "STRICT": True,
            "__doc__": f"`{variant.__name__}` without words in which another port writes a bit.",
        },
    )
    for name, variant in VARIANTS.items()
    if name in BLOCK_KINDS
}


def segment_memory(variant, **parameters):
    """Build the segment memory of a variant.

    Parameters
    ----------
    variant : str
        One of `VARIANTS`.
    parameters
        As for `SegmentMemory`.

    Raises
    ------
    ValueError
        If the variant is unknown, or a parameter breaks a rule of the variant.
    """
    if variant not in VARIANTS:
        raise ValueError(f"Memory must be one of {', '.join(VARIANTS)}, not {variant!r}")
    return VARIANTS[variant](**parameters)


def cell_memory(variant, *, depth, width):
    """Build the memory of cells of a variant.

    Parameters
    ----------
    variant : str or type
        One of `CELL_MEMORIES`, or a class with the ports of `lately.hdl.memory.cells.CellMemory`.
    depth, width : int
        As for `CellMemory`.

    Raises
    ------
    ValueError
        If the variant is unknown, or a parameter breaks a rule of the variant.
    """
    kind = CELL_MEMORIES.get(variant, variant)
    if isinstance(kind, str):
        raise ValueError(f"Memory must be one of {', '.join(CELL_MEMORIES)}, not {variant!r}")
    return kind(depth=depth, width=width)
