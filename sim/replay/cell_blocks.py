"""Where the cells of a dictionary or a timing filter lie in the memories of its unit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...hdl.memory.map import CELL_VARIANTS, cell_columns

_BLOCK_ROWS = 1024
_BLOCK_BITS = 18


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
        Variant of the memory, one of `CELL_VARIANTS`.
    """

    part: str
    parts: int
    cells: int
    bits: int
    memory: str

    @property
    def names(self) -> list[str]:
        """Names of the arrays of words in compiled Verilog, below the unit, part by part."""
        return [
            "__DOT__".join(["core", f"{self.part}{part}", "memory", *block, "words"])
            for part in range(self.parts)
            for block in self._blocks
        ]

    def gather(self, read: Callable[[int, int, int], NDArray[np.bool_]]) -> NDArray[np.int64]:
        """Return the cells, shape (parts, cells).

        Parameters
        ----------
        read : callable
            Takes the number of one of the `names`, its words and their width; returns their bits,
            shape (words, width), lowest first.
        """
        each = len(self._blocks)
        values = np.int64(1) << np.arange(self.bits, dtype=np.int64)
        return np.stack(
            [
                np.hstack([self._block(read, part * each + block) for block in range(each)])[
                    : self.cells, : self.bits
                ]
                @ values
                for part in range(self.parts)
            ]
        )

    @property
    def _blocks(self) -> list[list[str]]:
        """Names of the block RAMs of a part; of a plain memory, none."""
        if self.memory == CELL_VARIANTS[0]:
            return [[]]
        return [[f"block{at}"] for at in range(-(-self.bits // cell_columns(self.cells)))]

    def _block(
        self, read: Callable[[int, int, int], NDArray[np.bool_]], number: int
    ) -> NDArray[np.bool_]:
        """Return the bits that one memory has of the cells, shape (cells or more, columns)."""
        if self.memory == CELL_VARIANTS[0]:
            return read(number, self.cells, self.bits)
        columns = cell_columns(self.cells)
        words = read(number, _BLOCK_ROWS, _BLOCK_BITS)
        # Cells of less than a byte leave the ninth bits of bytes alone.
        kept = np.arange(_BLOCK_BITS) % 9 < (9 if columns >= 9 else 8)
        return words[:, kept].reshape(-1, columns)
