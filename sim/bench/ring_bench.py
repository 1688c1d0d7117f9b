"""What the benches of ring filters share, of one lane or several."""

from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from ...golden import FilterSpec
from ...golden.ring.layout import Layout
from ...hdl.memory.map import MemoryMap
from ...hdl.registers import Holder, counters
from . import unit_bench
from .parts import key_array, read_memory
from .unit_bench import NETLIST, TICKS, UnitBench

SPEC = cast(FilterSpec, unit_bench.SPEC)
HASH = Layout.of(SPEC, partitioned=True).hash
"""Hash of the unit's keys, before a secret is loaded."""


def states(keys: list[int]) -> NDArray[np.uint64]:
    """Return the states from which the hash computes indices and shards of keys."""
    return HASH.state(HASH.check_keys(key_array(keys, SPEC)))


class RingBench(UnitBench):
    """A unit of a ring filter; its counters, memory and generation are those of golden."""

    async def reset(self, *, generation: int = SPEC.generation) -> Self:
        """Bring the unit out of reset; its first generation has the length `generation`."""
        self.set_generation(generation)
        return await super().reset()

    def set_generation(self, generation: int) -> None:
        """Program the generation length in unit and reference."""
        self.dut.generation.value = generation
        self.scoreboard.golden.generation = generation

    def check_counters(self) -> None:
        """Hold the counters of the unit against golden's."""
        holders = (Holder.UNIT, Holder.WINDOW) if TICKS else (Holder.UNIT,)
        names = (register.name for holder in holders for register in counters(holder))
        self.check_counts(**{name: getattr(self.scoreboard.golden, name) for name in names})

    def check_memory(self, memories: MemoryMap) -> None:
        """Hold the bits of memory against golden's, where they can be read."""
        if not self.shows_memory:
            return
        memory = read_memory(self.dut, memories, netlist=NETLIST)
        differing = np.argwhere(memory != self.scoreboard.golden.memory)
        assert len(differing) == 0, f"memory differs at {differing[0]} and {len(differing)} bits"
