"""What the benches of units share: the unit that the environment names, brought out of reset.

The environment names the specification (LATELY_SPEC, a TOML file), the seed
of all random choices (LATELY_SEED) and the variant of the segment memories
(LATELY_MEMORY).
"""

import os
import random
import warnings
from typing import Any, Self

import cocotb
import numpy as np
from amaranth.hdl import UnusedElaboratable
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from numpy.typing import NDArray

from ...golden import FilterSpec
from ...golden.ring.layout import Layout
from ...hdl.memory.map import MemoryMap
from .parts import Scoreboard, key_array, read_memory

SPEC = FilterSpec.from_toml(os.environ["LATELY_SPEC"])
SEED = int(os.environ.get("LATELY_SEED", "1"))
MEMORY = os.environ.get("LATELY_MEMORY", "portable")
PERIOD_NS = 10
HASH = Layout.of(SPEC, partitioned=True).hash
"""Hash of the unit's keys, before a secret is loaded."""

# Units are built for their figures only.
warnings.filterwarnings("ignore", category=UnusedElaboratable)


def states(keys: list[int]) -> NDArray[np.uint64]:
    """Return the states from which the hash computes indices and shards of keys."""
    return HASH.state(HASH.check_keys(key_array(keys, SPEC)))


class UnitBench:
    """A unit with its driver, monitor and scoreboard.

    Attributes
    ----------
    streams : tuple of str
        Input streams of the unit.
    settled : int
        Clocks after reset, and after the last result, until the spare is clear.
    """

    streams: tuple[str, ...] = ("i",)
    settled: int

    def __init__(self, dut, scoreboard: Scoreboard, driver: Any, monitor: Any) -> None:
        self.dut = dut
        self.scoreboard: Any = scoreboard
        self.driver = driver
        self.monitor = monitor
        self.random = random.Random(SEED)
        dut._log.info("seed %d", SEED)

    async def reset(self) -> Self:
        """Start the clock, reset the unit, start the monitor and wait for the first clear."""
        dut = self.dut
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, unit="ns", impl="gpi").start()
        # Icarus runs an `always @*` only when an input changes, so every input has to.
        for level in (1, 0):
            for stream in self.streams:
                payload = getattr(dut, f"{stream}__payload")
                payload.value = -level % (1 << len(payload))
                getattr(dut, f"{stream}__valid").value = level
            await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        cocotb.start_soon(self.monitor.run())
        await ClockCycles(dut.clk, self.settled)
        return self

    def key(self) -> int:
        """Return a random key, often one of a few."""
        few = self.random.random() < 0.5
        return self.random.randrange(min(1 << SPEC.key_bits, 24 if few else 1 << 64))

    async def drain(self) -> None:
        """Wait until all results have come, and counters and spare are settled."""
        for _ in range(1000):
            if not self.scoreboard.outstanding:
                break
            await ClockCycles(self.dut.clk, 20)
        await ClockCycles(self.dut.clk, self.settled)
        await FallingEdge(self.dut.clk)

    async def finish(self, *, sent: int | None = None) -> None:
        """Wait for all results and check that as many came as were `sent`."""
        await self.drain()
        board = self.scoreboard
        assert board.outstanding == 0, f"{board.outstanding} results are missing"
        if sent is not None:
            assert board.compared == sent, f"sent {sent}, compared {board.compared}"

    def check_memory(self, memories: MemoryMap, *, netlist: bool = False) -> None:
        """Hold the bits of memory against golden's."""
        memory = read_memory(self.dut, memories, netlist=netlist)
        differing = np.argwhere(memory != self.scoreboard.golden.memory)
        assert len(differing) == 0, f"memory differs at {differing[0]} and {len(differing)} bits"
