"""Tables of thresholds: their memories and parameters."""

from dataclasses import replace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, ResetInserter, Signal
from cases import daily
from simulation import simulate

from lately.golden import PartitionedTimingSpec, TimedTimingSpec
from lately.hdl.build import filter_unit
from lately.hdl.latencies import CONTROL_LAG
from lately.hdl.timing.core import DecidingCore
from lately.sim.proofs.timing import AnyCore

SPEC = PartitionedTimingSpec(
    window=32, block=8, hashes=3, cells=16, stamp_bits=6, key_bits=10, seed=2
)
TIMED = TimedTimingSpec(span=12, period=2, hashes=3, cells=16, stamp_bits=5, key_bits=10, seed=2)


@pytest.mark.parametrize(
    ("spec", "memory", "blocks"),
    daily(
        2,
        [
            (TIMED, "portable", 0),
            (TIMED, "ecp5", 1),
            (SPEC, "portable", 0),
            (SPEC, "ecp5", 1),
        ],
    ),
)
def test_tables_lie_in_memories_of_the_device(spec, memory, blocks):
    text = rtlil.convert(filter_unit(replace(spec, classes=2), memory=memory), emit_src=False)
    (tables,) = (part for part in text.split("\nmodule ") if "thresholds" in part.split("\n")[0])
    assert tables.count("cell \\DP16KD") == blocks


@pytest.mark.parametrize("spec", [SPEC, TIMED])
def test_latency(spec):
    built = filter_unit(replace(spec, classes=2))
    assert built.latency == built.profile.latency == filter_unit(spec).latency + 3


class OneVerdict(AnyCore):
    """Core with the same verdict for each key."""

    latency = CONTROL_LAG + 4

    def elaborate(self, platform):
        return Module()


def test_every_key_is_reported_until_the_first_swap_after_a_reset():
    part = DecidingCore(core=OneVerdict(), spec=SPEC, classes=1, bits=0)
    reset, answers = Signal(), []

    async def load(ctx):
        """Load an entry that no key reaches, and swap."""
        ctx.set(part.table.p.least, SPEC.hashes + 1)
        ctx.set(part.table.valid, 1)
        await ctx.tick().until(part.table.ready)
        ctx.set(part.table.valid, 0)
        ctx.set(part.swap, 1)
        await ctx.tick()
        ctx.set(part.swap, 0)

    async def bench(ctx):
        # There is a query in every cycle, and an entry in both banks before the reset.
        ctx.set(part.control.query, 1)
        for _ in range(2):
            await load(ctx)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        await ctx.tick().repeat(part.latency)
        await load(ctx)
        for _ in range(2 * part.latency):
            answers.append(ctx.get(part.verdict.seen))
            await ctx.tick()

    simulate(ResetInserter(reset)(part), bench)
    # The first result belongs to a key `latency - 1` cycles before the swap.
    assert answers == [1] * part.latency + [0] * part.latency
