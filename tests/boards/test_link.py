"""What a board shows of its unit."""

import pytest
from amaranth.sim import Simulator

from lately.boards.link.link import Link
from lately.golden import any_preset

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}


@pytest.mark.parametrize("name", ["tiny", "dictionary-tiny", "timing-tiny"])
def test_led_tells_that_a_unit_finds_its_state_wrong(name):
    """From the clock after, and until a reset; a unit that does not watch its state has no port."""
    link = Link(any_preset(name), **RATES, check=True)
    assert "fault" not in Link(any_preset(name), **RATES).unit.signature.members

    async def bench(ctx):
        await ctx.tick().repeat(200)
        assert not ctx.get(link.fault)
        ctx.set(link.unit.fault, 1)
        await ctx.tick().repeat(2)
        for _ in range(100):
            assert ctx.get(link.fault)
            await ctx.tick()

    simulator = Simulator(link)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
