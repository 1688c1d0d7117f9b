"""cocotb bench of a segment memory, the same for every variant.

The environment gives depth and clear width (LATELY_DEPTH, LATELY_CLEAR_BITS),
the registers on the way (LATELY_ADDRESS_REGISTERS) and the seed of all random choices
(LATELY_SEED).
"""

import os
import random
from collections import deque
from collections.abc import Collection

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from ...hdl.latencies import memory_latency

DEPTH = int(os.environ["LATELY_DEPTH"])
CLEAR_BITS = int(os.environ["LATELY_CLEAR_BITS"])
SEED = int(os.environ["LATELY_SEED"])
ADDRESS_REGISTERS = int(os.environ.get("LATELY_ADDRESS_REGISTERS", "1"))
LATENCY = memory_latency(bits=DEPTH, clear=CLEAR_BITS, registers=ADDRESS_REGISTERS)

LARGE = 4096
"""Bits of a memory of which not all are read back at the end of each test."""


class SegmentReference:
    """Set of the addresses whose bits are set, and the answers that are due."""

    def __init__(self) -> None:
        self.ones: set[int] = set()
        self.due: deque[bool | None] = deque([None] * LATENCY)

    def access(self, address: int, setting: bool) -> None:
        """Answer with the bit before the access, then set it."""
        self.due.append(address in self.ones)
        if setting:
            self.ones.add(address)


class Bench:
    """A memory with its reference, driven after the rising edge, sampled at the falling one."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.reference = SegmentReference()
        self.random = random.Random(SEED)
        self.compared = 0
        dut.rst.value = 0
        dut.clear.value = 0
        dut.set.value = 0
        Clock(dut.clk, 10, unit="ns", impl="gpi").start()

    @classmethod
    async def start(cls, dut) -> "Bench":
        """Start the clock and clear the memory."""
        bench = cls(dut)
        await RisingEdge(dut.clk)
        await bench.sweep()
        return bench

    async def clock(self) -> None:
        """Let a clock pass and compare the answer that is due in it."""
        await FallingEdge(self.dut.clk)
        expected = self.reference.due.popleft()
        if expected is not None:
            got = bool(self.dut.bit.value)
            assert got == expected, f"access {self.compared}: expected {expected}, got {got}"
            self.compared += 1
        await RisingEdge(self.dut.clk)

    async def access(self, address: int, setting: bool) -> None:
        """Read a bit and set it if asked."""
        self.dut.address.value = address
        self.dut.set.value = setting
        self.reference.access(address, setting)
        await self.clock()
        self.dut.set.value = 0

    async def sweep(self) -> None:
        """Clear the whole memory while the address wanders."""
        for word in range(DEPTH // CLEAR_BITS):
            self.dut.clear.value = 1
            self.dut.clear_address.value = word
            self.dut.address.value = self.random.randrange(DEPTH)
            self.reference.due.append(None)
            await self.clock()
        self.dut.clear.value = 0
        self.reference.ones.clear()

    async def finish(self, *, named: Collection[int] = ()) -> None:
        """Read every bit back; of a large memory the ones, some others, and those `named`."""
        addresses: Collection[int] = range(DEPTH)
        if DEPTH > LARGE and len(named) < DEPTH:
            some = self.random.sample(range(DEPTH), LARGE)
            addresses = sorted({*self.reference.ones, *named, *some})
        for address in addresses:
            await self.access(address, False)
        for _ in range(LATENCY):
            self.reference.due.append(None)
            await self.clock()
        assert self.compared >= len(addresses)


@cocotb.test()
async def random_accesses(dut) -> None:
    """Accesses at random and near each other answer as one after another."""
    bench = await Bench.start(dut)
    near = bench.random.randrange(DEPTH)
    for _ in range(3000):
        if bench.random.random() < 0.05:
            near = bench.random.randrange(DEPTH)
        wide = bench.random.random() < 0.3
        address = bench.random.randrange(DEPTH) if wide else near ^ bench.random.randrange(4)
        await bench.access(address % DEPTH, bench.random.random() < 0.4)
    await bench.finish()


@cocotb.test()
async def same_bit_back_to_back(dut) -> None:
    """A bit is seen set by the access in the next clock, and in those after it."""
    bench = await Bench.start(dut)
    for address in bench.random.sample(range(DEPTH), min(DEPTH, 50)):
        for _ in range(4):
            await bench.access(address, True)
    await bench.finish()


@cocotb.test()
async def every_bit_is_set_and_cleared(dut) -> None:
    """Each address has a bit of its own, and a sweep reaches all of them."""
    bench = await Bench.start(dut)
    for address in bench.random.sample(range(DEPTH), min(DEPTH, 2000)):
        await bench.access(address, True)
    written = {*bench.reference.ones}
    await bench.finish(named=range(DEPTH))
    await bench.sweep()
    await bench.finish(named=written)


@cocotb.test()
async def accesses_next_to_a_sweep(dut) -> None:
    """The clock before a sweep and the clock after it may have accesses that set bits."""
    bench = await Bench.start(dut)
    for address in (0, CLEAR_BITS - 1, DEPTH - 1, DEPTH // 2):
        await bench.access(address, True)
        await bench.sweep()
        await bench.access(address, False)
        await bench.sweep()
        await bench.access(DEPTH - 1, True)
        await bench.access(DEPTH - 1, True)
    await bench.finish()
