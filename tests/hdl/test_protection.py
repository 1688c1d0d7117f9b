"""Cell protections: an upset bit is detected at either port, and a sweep repairs the cell."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from simulation import simulate

from lately.hdl.memory.cells import PortableCellMemory
from lately.hdl.memory.protection import CELL_PROTECTIONS

HELD, FRESH, ROW = 0b10110, 0b01001, 1
"""A cell with an odd number of ones, and a part of the cell that replaces it if it is lost."""


class SweptCells(wiring.Component):
    """A protected memory; a sweep repairs the cell at port B while `repairs` is high."""

    def __init__(self, protection):
        self.protection = protection
        self.memory = protection.memory(PortableCellMemory, depth=2, width=6)
        super().__init__(
            {"write": In(1), "value": In(6), "read": In(1), "repairs": In(1), "wrong": Out(2)}
            | {name: Out(1) for name in ("upset", "lost")}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        repair = self.protection.repair(m, memory, self.read)
        rewrites = repair.write(m, self.repairs)
        m.d.comb += [
            memory.a_address.eq(ROW),
            memory.b_address.eq(ROW),
            memory.write.eq(self.write | rewrites),
            memory.value.eq(repair.value(self.repairs, self.value)),
            self.wrong[0].eq(self.protection.wrong(m, memory, "a")),
            self.wrong[1].eq(self.protection.wrong(m, memory, "b")),
            self.upset.eq(repair.wrong),
            self.lost.eq(repair.lost),
        ]
        return m


async def look(ctx, cells):
    """Read the cell at both ports; return `wrong`, `upset` and `lost`."""
    await ctx.tick().repeat(PortableCellMemory.LATENCY)
    ctx.set(cells.read, 1)
    await ctx.tick()
    ctx.set(cells.read, 0)
    wrong = ctx.get(cells.wrong)
    await ctx.tick().repeat(3)
    return wrong, ctx.get(cells.upset), ctx.get(cells.lost)


@pytest.mark.parametrize(
    ("protect", "copy"),
    [(name, copy) for name, each in CELL_PROTECTIONS.items() for copy in range(each.copies)],
)
def test_upset_is_detected_and_repaired(protect, copy):
    cells = SweptCells(CELL_PROTECTIONS[protect])
    copies = [each.words.data for each in getattr(cells.memory, "copies", [cells.memory])]
    reported, lost = protect != "none", protect == "parity"

    async def bench(ctx):
        ctx.set(cells.write, 1)
        ctx.set(cells.value, HELD)
        await ctx.tick()
        ctx.set(cells.write, 0)
        assert await look(ctx, cells) == (0, 0, 0)
        for bit in range(6):
            ctx.set(copies[copy][ROW], HELD ^ 1 << bit)
            assert await look(ctx, cells) == (3 * reported, reported, lost)
            ctx.set(cells.value, FRESH | 1 << 5)
            ctx.set(cells.repairs, 1)
            await ctx.tick()
            ctx.set(cells.repairs, 0)
            repaired = {"none": HELD ^ 1 << bit, "parity": FRESH | 1 << 5, "tmr": HELD}[protect]
            assert {ctx.get(words[ROW]) for words in copies} == {repaired}
            for words in copies:
                ctx.set(words[ROW], HELD)
            assert await look(ctx, cells) == (0, 0, 0)

    simulate(cells, bench)
