"""What a board shows of its unit."""

import pytest
from amaranth.sim import Simulator

from lately.boards.link.information import Information
from lately.boards.link.link import Link
from lately.golden import any_preset

RATES = {"clock_hz": 512, "baud": 64}
NAMES = ("tiny", "dictionary-tiny", "timing-tiny")


@pytest.mark.parametrize("name", NAMES)
def test_led_tells_that_a_unit_finds_its_state_wrong(name, monkeypatch):
    """For good; the link is reset with the unit."""
    monkeypatch.setattr("lately.boards.link.uart.LOWEST_BAUD", RATES["baud"])
    link = Link(any_preset(name), **RATES, check=True)

    async def bench(ctx):
        await ctx.tick().until(link.alive)
        assert not ctx.get(link.fault)
        ctx.set(link.unit.fault, 1)
        await ctx.tick().repeat(3)
        assert not ctx.get(link.alive)
        for _ in range(100):
            assert ctx.get(link.fault)
            await ctx.tick()
        assert ctx.get(link.unit.alarms) == 1

    simulator = Simulator(link)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("name", NAMES)
def test_host_is_told_of_the_count_of_alarms(name):
    plain, checked = (
        Link(any_preset(name), clock_hz=24_000_000, baud=3_000_000, check=check).information
        for check in (False, True)
    )
    assert Information.unpack(checked.pack()).statistics == [*plain.statistics, "alarms"]
