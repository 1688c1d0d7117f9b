"""A part of a timing filter in Amaranth's simulator, against the last insertion of each cell."""

from collections import deque

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from garbage_memory import GarbageMemory
from simulation import simulate

from lately.hdl.timing.part import TickCount, TimingPart
from lately.hdl.timing.sweep import PortSweep, Visits

LIMIT, STAMP_BITS = 21, 5


class PartBench:
    """Drives a part, one operation per clock, and compares the age of its cell.

    Attributes
    ----------
    errors : list of (clock, age, age told)
    compared : int
    """

    def __init__(self, *, cells=16, clocks=64, part=TimingPart, sweep=PortSweep, visits=Visits):
        shape = {"cells": cells, "stamp_bits": STAMP_BITS, "limit": LIMIT}
        self.part = part(**shape, sweep=sweep, memory=GarbageMemory)
        self.visits = visits(cells=cells)
        self.address = Signal.like(self.part.address)
        self.cells, self.clocks = cells, clocks
        self.until, self.now, self.last = clocks, 0, {}
        self.due = deque([None] * (TimingPart.LATENCY - 1))
        self.errors, self.compared = [], 0

    def age(self, cell):
        """Age of a cell, at most the limit."""
        return min(self.now - self.last.get(cell, -LIMIT), LIMIT)

    async def access(self, ctx, cell, *, insert=False, asks=True):
        """Let a clock pass with an operation."""
        self.until -= 1
        tick = self.until == 0
        if tick:
            self.until, self.now = self.clocks, self.now + 1
        ctx.set(self.address, cell)
        ctx.set(self.part.insert, insert)
        ctx.set(self.part.tick, tick)
        self.due.append(self.age(cell) if asks else None)
        if insert:
            self.last[cell] = self.now
        await ctx.tick()
        expected = self.due.popleft()
        if expected is not None:
            self.compared += 1
            answer = LIMIT if ctx.get(self.part.expired) else ctx.get(self.part.age)
            if answer != expected:
                self.errors.append((self.compared, expected, answer))

    async def rest(self, ctx, clocks, cell=0):
        """Let clocks pass without an operation."""
        for _ in range(clocks):
            await self.access(ctx, cell, asks=False)

    async def read_all(self, ctx):
        """Ask for every cell."""
        for cell in range(self.cells):
            await self.access(ctx, cell)

    def run(self, stream):
        """Run a coroutine that takes context and bench; return the bench."""

        async def testbench(ctx):
            while not ctx.get(self.visits.clean):
                await ctx.tick()
            await stream(ctx, self)
            await self.rest(ctx, 8)

        ticks = TickCount(stamp_bits=STAMP_BITS, limit=LIMIT)
        m = Module()
        m.submodules.part, m.submodules.ticks = self.part, ticks
        m.submodules.visits = visits = self.visits
        wiring.connect(m, ticks.stamps, self.part.stamps)
        m.d.comb += [
            ticks.tick.eq(self.part.tick),
            self.part.address.eq(Mux(visits.visit, visits.cell, self.address)),
            *(getattr(self.part, name).eq(getattr(visits, name))
              for name in ("visit", "wipe", "clean")),
        ]  # fmt: skip
        simulate(m, testbench)
        return self
