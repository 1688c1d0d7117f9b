"""The table of registers, and the code that reads it."""

import subprocess
import sys

from lately.hdl.registers import (
    REGISTERS,
    WORD_BITS,
    Access,
    Block,
    Register,
    counters,
    registers_table,
)


def test_names_and_events_are_unique():
    names = [register.name for register in REGISTERS]
    assert len(set(names)) == len(names)
    events = [register.event for holder in Block for register in counters(holder)]
    assert len(set(events)) == len(events)


def test_addresses_do_not_overlap():
    taken = {}
    for row in REGISTERS:
        line = row.holder is Block.LINE
        assert (row.address >= 0x100) == line
        bits = 64 if row.event and not line else row.width or WORD_BITS
        for address in range(row.address, row.address + bits // 8 or 4, 4):
            assert address % 4 == 0
            assert taken.setdefault(address, row.name) == row.name


def test_readable():
    assert Register(name="a", address=0, width=64, meaning="").readable
    assert not Register(name="a", address=0, access=Access.WRITE, meaning="").readable


def test_table_has_a_row_for_each():
    rows = [list(row) for row in registers_table()]
    assert {row[0] for row in rows} == {f"`{register.name}`" for register in REGISTERS}
    assert [int(row[1], 16) for row in rows] == sorted(register.address for register in REGISTERS)
    assert ["`generation`", "0x20", "read, write", "as specified", "as specified"] in [
        row[:5] for row in rows
    ]


EXTRA_REGISTER = """
from lately.hdl import registers
registers.REGISTERS += (
    registers.Register(name="reports", event="hit", address=0xE8, meaning="Reports once more."),
)
# amaranth: UnusedElaboratable=no
from amaranth.sim import Simulator
from lately.boards.link.link import FilterLink
from lately.golden import preset
assert registers.registers_table()[-1][0] != "`reports`"
link = FilterLink(preset("tiny"), clock_hz=24_000_000, baud=3_000_000)
assert link.unit.registers.registers["reports"] == 64
unit = link.unit.unit
async def bench(ctx):
    ctx.set(unit.o.ready, 1)
    ctx.set(unit.i.valid, 1)
    ctx.set(unit.i.p.operation, 3)
    await ctx.tick().until(unit.o.valid)
    await ctx.tick().repeat(20)
    ctx.set(unit.i.valid, 0)
    await ctx.tick().repeat(unit.latency + 32)
    assert ctx.get(unit.reports) == ctx.get(unit.hits) > 10
simulator = Simulator(unit)
simulator.add_clock(1e-6)
simulator.add_testbench(bench)
simulator.run()
"""


def test_new_counter_needs_a_single_row():
    """A new row adds a port, a register of boards, and documentation."""
    subprocess.run([sys.executable, "-c", EXTRA_REGISTER], check=True)


def test_table_needs_no_hardware():
    code = "import sys, lately.hdl.registers; assert 'amaranth' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
