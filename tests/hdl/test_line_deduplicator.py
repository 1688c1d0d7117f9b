"""A deduplicator between two lines, with PHYs of another project."""

from dataclasses import replace

import pytest
from amaranth.back import verilog
from amaranth.sim import Simulator
from bus_masters import WishboneMaster

from lately.golden import preset
from lately.hdl.packets import line_deduplicator
from lately.hdl.packets.axis_frames import ControlledDeduplicator
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.packets.line_deduplicator import LineDeduplicator
from lately.hdl.verilog import TOP
from lately.sim.bench.runner import SIMULATORS, run_bench

pytestmark = pytest.mark.rtl

SPEC = replace(preset("timed-tiny"), key_bits=64, blocks=256, window=None, generation=None)


def test_registers_and_led(monkeypatch):
    """The bus of a deduplicator that has one is that of the line; the LED goes on and off."""
    monkeypatch.setattr(line_deduplicator, "GMII_HZ", 16)
    inner = ControlledDeduplicator(
        Deduplicator(SPEC, width=8, when_full="drop"), bus="wishbone", version=(1, 2, 3)
    )
    line = LineDeduplicator(inner)
    shone = []

    async def watch(ctx):
        async for *_, lit in ctx.tick().sample(line.alive):
            shone.append(lit)

    async def read(ctx):
        assert await WishboneMaster(ctx, line).access(0) == (False, 0x4C41544C)
        await ctx.tick().repeat(64)

    simulator = Simulator(line)
    simulator.add_clock(1e-6)
    simulator.add_clock(1e-6, domain=line_deduplicator.RECEIVING)
    simulator.add_testbench(watch, background=True)
    simulator.add_testbench(read)
    simulator.run()
    assert "".join(map(str, shone[-32:])) in "".join("0" * 8 + "1" * 8 for _ in range(4))


@pytest.mark.parametrize(
    ("simulator", "count"),
    [("icarus", 12), *(pytest.param(one, 200, marks=pytest.mark.slow) for one in SIMULATORS)],
)
def test_frames_pass_once(simulator, count, tmp_path):
    deduplicator = Deduplicator(SPEC, width=8, when_full="drop")
    SPEC.to_toml(tmp_path / "spec.toml")
    environment = {"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_COUNT": str(count)}
    passed = run_bench(
        verilog.convert(LineDeduplicator(deduplicator), name=TOP, emit_src=False),
        ["line_bench"],
        simulator,
        tmp_path,
        environment=environment | {"LATELY_SEED": "3"},
        models=[],
    )
    assert passed == {"frames_pass_once": True}
