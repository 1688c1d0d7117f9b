"""Where the cells of a dictionary or a timing filter lie in the memories of its unit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...hdl.latencies import BANK_COLUMNS, BANK_ROWS
from ...hdl.memory.map import cell_columns
from ..toolchain import models

Read = Callable[[int, int, int], NDArray[np.bool_]]
"""Takes the number of a memory, its words and their width; returns their bits, lowest first."""


def first_copy(protect: str) -> tuple[str, ...]:
    """Return the names of the submodules from a part to its memory, or to the first copy of that.

    Parameters
    ----------
    protect : str
        One of `lately.hdl.latencies.PROTECTIONS`.
    """
    return ("memory", "copy0") if protect == "ecc" else ("memory",)


@dataclass(frozen=True)
class CellBlocks:
    """The memories of parts that are alike, each of which has some cells.

    Attributes
    ----------
    part : str
        Name of the parts in the core, which their numbers follow.
    parts : int
    cells, bits : int
        Cells of a part, and bits of a cell.
    memory : str
        Variant of the memory: one of `CELL_VARIANTS`.
    core : tuple of str
        Names of the submodules from the unit to the core.
    held : tuple of str
        As of `first_copy`.
    """

    part: str
    parts: int
    cells: int
    bits: int
    memory: str
    core: tuple[str, ...] = ("core",)
    held: tuple[str, ...] = ("memory",)

    @property
    def names(self) -> list[str]:
        """Names of the arrays of words in compiled Verilog, below the unit, part by part."""
        return [
            "__DOT__".join([*self.core, f"{self.part}{part}", *self.held, *block, "words"])
            for part in range(self.parts)
            for block in self._blocks
        ]

    def gather(self, read: Read) -> NDArray[np.int64]:
        """Return the cells, shape (parts, cells).

        Parameters
        ----------
        read : callable
            Takes the number of one of the `names`, its words and their width; returns their bits,
            lowest first, shape (words, width).
        """
        numbers = np.arange(len(self.names)).reshape(self.parts, -1).tolist()
        bits = np.stack([np.hstack([self._block(read, at) for at in part]) for part in numbers])
        values = np.int64(1) << np.arange(self.bits, dtype=np.int64)
        cells: NDArray[np.int64] = bits[:, : self.cells, : self.bits] @ values
        return cells

    @property
    def _blocks(self) -> list[list[str]]:
        """Names of the block RAMs of a part; of a plain memory, one without name."""
        if not models(self.memory):
            return [[]]
        return [[f"block{at}"] for at in range(-(-self.bits // cell_columns(self.cells)))]

    def _block(self, read: Read, number: int) -> NDArray[np.bool_]:
        """Return the bits that one memory has of the cells, shape (cells or more, columns)."""
        if not models(self.memory):
            return read(number, self.cells, self.bits)
        words = read(number, BANK_ROWS, BANK_COLUMNS)
        columns = cell_columns(self.cells)
        # Cells of less than a byte leave the ninth bits of bytes alone.
        kept = np.arange(BANK_COLUMNS) % 9 < (9 if columns >= 9 else 8)
        return words[:, kept].reshape(-1, columns)
