"""Memories of a simulated unit, read through the simulator."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...hdl.memory.map import PhysicalMemory, cell_memories
from ..netlist import instance_name


class UnitMemory:
    """Memories of a unit.

    Parameters
    ----------
    dut : handle
    unit : Component
        As it was built, for its memory map.
    variant : str
        Variant of the memories.
    netlist : bool
        Whether the design is a netlist, in which only explicit block RAMs are found.
    """

    def __init__(self, dut, unit: Any, *, variant: str, netlist: bool) -> None:
        self._dut = dut
        self._unit = unit
        self._variant = variant
        self._netlist = netlist

    @property
    def readable(self) -> bool:
        """Whether the memories are found in the design."""
        return not self._netlist or self._variant != "portable"

    def bits(self) -> NDArray[np.bool_]:
        """Return all bits, through the memory map of the unit."""
        bits: NDArray[np.bool_] = self._unit.memory_map.gather(self._bits)
        return bits

    def cells(self, path: Sequence[str], *, depth: int, width: int) -> NDArray[np.int64]:
        """Return the words of a memory of cells, shape (depth,).

        Parameters
        ----------
        path : sequence of str
            Names of the submodules down to the memory.
        depth, width : int
            As for `lately.hdl.memory.map.cell_memories`.
        """
        blocks = cell_memories(self._variant, depth=depth, width=width)
        own = [replace(block, path=(*path, *block.path)) for block in blocks]
        bits = np.hstack([self._bits(block) for block in own])[:, :width]
        return bits @ (np.int64(1) << np.arange(width))

    def _bits(self, memory: PhysicalMemory) -> NDArray[np.bool_]:
        """Return the bits of a memory, shape (words, width)."""
        if self._netlist:
            holder = self._dut[instance_name(memory.path)]
        else:
            holder = reduce(lambda handle, name: handle[name], memory.path, self._dut)
        words = _words(holder) if memory.cell else holder
        values = [int(words[word].value) for word in range(memory.words)]
        return np.array(
            [[value >> bit & 1 for bit in range(memory.width)] for value in values], np.bool_
        )


def _words(block_ram):
    """Find the array in a model of a block RAM: ours, or the one that yosys has for iCE40."""
    ours = block_ram._get("words")
    return block_ram.memory if ours is None else ours
