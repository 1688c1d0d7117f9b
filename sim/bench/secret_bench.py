"""Tests of the secret that a unit with siphash takes, beside those of `filter_bench`."""

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from ...golden import Operation
from .filter_bench import Bench
from .parts import Stalls, tagged
from .ring_bench import SPEC
from .unit_bench import SEED


@cocotb.test()
async def secret_counts_from_the_clear(dut) -> None:
    """A secret that waits is that of everything after a clear."""
    bench = await Bench.start(dut)
    for secret in (bench.random.getrandbits(128), (1 << 128) - 1):
        await bench.drain()
        await RisingEdge(dut.clk)
        await bench.load_secret(secret)
        await ClockCycles(dut.clk, max(bench.secret_lead, 1))
        await bench.driver.send(tagged([(Operation.CLEAR, 0)]))
        await bench.driver.send(bench.inserts(3 * SPEC.segments * SPEC.generation))
    await bench.finish()
    assert bench.scoreboard.golden.secrets == [secret] * SPEC.ring_segments


if not SPEC.rekey:

    @cocotb.test()
    async def secret_at_every_distance_from_a_clear(dut) -> None:
        """It comes in with one that is accepted with it or later; none is taken while one waits."""
        bench = await Bench.start(dut)
        for distance in range(12):
            sending = cocotb.start_soon(
                bench.driver.send(
                    [*bench.inserts(5), *tagged([(Operation.CLEAR, 0)]), *bench.inserts(5)]
                )
            )
            await ClockCycles(dut.clk, 1 + distance)
            await bench.load_secret(bench.random.getrandbits(128))
            await sending
            await bench.drain()
            await RisingEdge(dut.clk)
        await bench.finish()


if SPEC.rekey:

    @cocotb.test()
    @cocotb.parametrize(into=[0.0, 0.5], out=[0.0, 0.5])
    async def rekeying_in_flight_keeps_the_window(dut, into: float, out: float) -> None:
        """Secrets that come as soon as they are taken, while operations flow; ten in a row."""
        bench = await Bench.start(dut)
        bench.monitor.stalls = Stalls(out, SEED + 1)
        choices = (Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 6)
        count = 10 * (SPEC.ring_segments + 8) * SPEC.generation
        items = tagged([(bench.random.choice(choices), bench.key()) for _ in range(count)])
        sending = cocotb.start_soon(bench.driver.send(items, stalls=Stalls(into, SEED + 2)))
        loaded = []
        for _ in range(10):
            secret = bench.random.getrandbits(128)
            await bench.load_secret(secret)
            loaded.append(secret)
            await ClockCycles(dut.clk, bench.random.randrange(1, 4 * SPEC.generation))
        await sending
        await bench.finish()
        assert bench.scoreboard.golden.secrets[0] in loaded[-2:]

    @cocotb.test()
    async def secret_comes_in_with_a_clear(dut) -> None:
        """All segments have it, also one whose generation was to end with the next insertion."""
        bench = await Bench.start(dut)
        for _ in range(3):
            await bench.driver.send(bench.inserts(2 * SPEC.generation))
            await bench.drain()
            await RisingEdge(dut.clk)
            secret = bench.random.getrandbits(128)
            await bench.load_secret(secret)
            await ClockCycles(dut.clk, bench.secret_lead)
            await bench.driver.send(tagged([(Operation.CLEAR, 0)]))
            await bench.driver.send(bench.inserts(SPEC.generation))
            assert bench.scoreboard.golden.secrets == [secret] * SPEC.ring_segments
        await bench.finish()

    @cocotb.test()
    async def secret_comes_in_with_a_forced_shift(dut) -> None:
        """The next segment has it, whoever turns the ring; the others keep theirs."""
        bench = await Bench.start(dut)
        for _ in range(3):
            await bench.driver.send(bench.inserts(SPEC.generation + 1))
            await bench.drain()
            await RisingEdge(dut.clk)
            secret = bench.random.getrandbits(128)
            await bench.load_secret(secret)
            await FallingEdge(dut.clk)
            assert not dut.secret__ready.value, "a second secret would be taken"
            await ClockCycles(dut.clk, bench.secret_lead)
            await bench.driver.send(tagged([(Operation.SHIFT, 0)]))
            await bench.driver.send(bench.inserts(SPEC.generation))
            assert bench.scoreboard.golden.secrets.count(secret) == 1
            await bench.driver.send(bench.inserts(SPEC.ring_segments * SPEC.generation))
        await bench.finish()
