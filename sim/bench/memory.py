"""Memories of a simulated unit, read through the simulator."""

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...hdl.memory.map import PORTABLE, PhysicalMemory
from .netlist import instance_name


class UnitMemory:
    """Memories of a unit; a `netlist` contains only explicit block RAMs."""

    def __init__(self, dut, unit: Any, *, variant: str, netlist: bool) -> None:
        self._dut = dut
        self._unit = unit
        self._variant = variant
        self._netlist = netlist

    @property
    def readable(self) -> bool:
        """Whether the memories are found in the design."""
        return not self._netlist or self._variant not in PORTABLE

    def view(self, now: int) -> NDArray[Any]:
        """Return the contents of the memories, as the golden model's `memory` at the tick `now`."""
        held: NDArray[Any] = self._unit.memory_map.view(self._bits, now)
        return held

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
    """Return the array in a model of a block RAM: this project's, or yosys's for iCE40."""
    ours = block_ram._get("words")
    return block_ram.memory if ours is None else ours
