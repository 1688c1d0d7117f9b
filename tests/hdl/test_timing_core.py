"""Components of timing filters: each hazard and its remedy.

Words are random where accesses collide. Stamps have 5 bits and repeat every 32 ticks, so a missing
remedy causes errors.
"""

import itertools
import random

import pytest
from amaranth.hdl import Module, Signal
from cases import daily
from garbage_memory import GarbageMemory
from simulation import simulate
from timing_part import PartBench

from lately.golden import Operation, SpecificationError, timing_preset
from lately.golden.spec.timestamp import TimedTimingSpec
from lately.hdl.control import Control
from lately.hdl.latencies import CONTROL_LAG
from lately.hdl.memory.paged import DelayLine
from lately.hdl.timing.core import TimingCore
from lately.hdl.timing.sweep import constant_flags, reaches_limit
from lately.hdl.timing.sweep_rules import check_elision, elision_need

SEED = 20261123
SPEC = timing_preset("tiny")


# The core


@pytest.mark.parametrize("protect", ["parity", "tmr"])
@pytest.mark.parametrize("operation", daily(1, [Operation.QUERY, Operation.INSERT]))
@pytest.mark.parametrize("counted", daily(1, [False, True]))
def test_upset_is_reported_with_the_ages_of_the_operation_that_reads_it(
    counted, operation, protect
):
    spec = timing_preset("counted-tiny") if counted else SPEC
    core = TimingCore(spec, memory=GarbageMemory, protect=protect)
    memory = core.parts[0].memory
    words = (memory.copies[0] if protect == "tmr" else memory).words.data

    async def fault_cycles(ctx, operation):
        """Cycles after an operation in which the core reports a fault."""
        control = {"valid": 1, "query": operation & 1, "insert": operation >> 1 & 1}
        cycles = []
        for cycle in range(1, core.latency + 1):
            ctx.set(core.key, 77 if cycle == 1 else 0)
            ctx.set(core.control, Control.const(control if cycle == CONTROL_LAG + 1 else {}))
            await ctx.tick()
            cycles.extend([cycle] * ctx.get(core.fault))
        return cycles

    async def stream(ctx):
        await ctx.tick().until(core.clean)
        await ctx.tick().repeat(core.latency)
        before = [ctx.get(words[cell]) for cell in range(SPEC.cells)]
        assert await fault_cycles(ctx, Operation.INSERT) == []
        (cell,) = [cell for cell, word in enumerate(before) if ctx.get(words[cell]) != word]
        ctx.set(words[cell], ctx.get(words[cell]) ^ 1)
        assert await fault_cycles(ctx, operation) == [core.read_latency]

    simulate(core, stream)


# A part and its hazards


def mixed(seed, clocks, choose_cell, inserts=0.5):
    """Return a stream of random operations on cells near the swept cell."""
    choose = random.Random(seed)

    async def stream(ctx, bench):
        for _ in range(clocks):
            cell = choose_cell(choose, ctx.get(bench.part.sweep.address)) % bench.cells
            await bench.access(ctx, cell, insert=choose.random() < inserts)

    return stream


IN_TURN = itertools.count()
STREAMS = {
    "each cell in turn": lambda choose, swept: next(IN_TURN),
    "any cell": lambda choose, swept: choose.randrange(1 << 10),
    "two cells": lambda choose, swept: 3 + (choose.random() < 0.1),
    "the swept cell": lambda choose, swept: swept,
    "around the swept cell": lambda choose, swept: swept + choose.randrange(-1, 2),
}


@pytest.mark.parametrize(
    "inserts", [*(pytest.param(share, marks=pytest.mark.slow) for share in (0.02, 1)), 0.5]
)
@pytest.mark.parametrize("name", STREAMS)
def test_ages_of_cells(name, inserts):
    clocks = 16 - (-elision_need(16) // (30 - 20))
    check_elision(SPEC, clocks=clocks)
    with pytest.raises(SpecificationError):
        check_elision(SPEC, clocks=clocks - 1)
    print(f"seed {SEED}")
    bench = PartBench(clocks=clocks).run(mixed(SEED, 100 * clocks, STREAMS[name], inserts))
    assert bench.errors == []
    assert bench.compared == 100 * clocks
    assert bench.now == 100


@pytest.mark.parametrize(("clocks", "holds"), [(36, True), (22, False)])
def test_sweep_that_is_starved(clocks, holds):
    """Insertions block the sweep whenever it reads; 22 cycles per tick are too few."""

    async def stream(ctx, bench):
        quiet, cell, waited, tick = (0, 8), -1, 0, -1
        for key in quiet:
            await bench.access(ctx, key, insert=True)
        for number in range(160 * clocks):
            if bench.now != tick:
                tick, begun = bench.now, False
                pending = [key for key in range(16) if key not in quiet]
            swept = ctx.get(bench.part.sweep.address)
            waited = waited + 1 if swept == cell else 0
            cell, begun = swept, begun or waited == 4
            if begun and pending:
                await bench.access(ctx, pending.pop(), insert=True)
            else:
                await bench.access(ctx, quiet[number % 2])

    bench = PartBench(clocks=clocks).run(stream)
    assert (bench.errors == []) == holds


async def each_distance(ctx, bench):
    """Insertions, and queries so many clocks later, with and without a tick between."""
    for distance in range(1, 10):
        for lead in (0, distance // 2, distance, 40):
            cell = (3 * distance + lead) % bench.cells
            while bench.until != 1 + lead % bench.clocks:
                await bench.rest(ctx, 1, cell=(cell + 5) % bench.cells)
            await bench.access(ctx, cell, insert=True)
            for other in range(distance - 1):
                await bench.access(ctx, (cell + 1 + other % 3) % bench.cells)
            await bench.access(ctx, cell)
        await bench.rest(ctx, 3 * bench.clocks)


def ask_swept(insert_at, clocks=100 * 64):
    """Return a stream of queries for the swept cell, with insertions from `insert_at`."""

    async def stream(ctx, bench):
        cell, age, moments = -1, 0, itertools.cycle(insert_at)
        for _ in range(clocks):
            swept = ctx.get(bench.part.sweep.address)
            if swept != cell:
                cell, age, moment = swept, 0, next(moments)
            await bench.access(ctx, cell, insert=age == moment and bench.now % 24 == 0)
            age += 1

    return stream


async def ask_one_cell(ctx, bench):
    await bench.access(ctx, 5, insert=True)
    for _ in range(80 * bench.clocks):
        await bench.access(ctx, 5)


async def ask_after_reset(ctx, bench):
    await bench.read_all(ctx)
    await bench.rest(ctx, 40 * bench.clocks)
    await bench.read_all(ctx)


async def insert_in_every_clock(ctx, bench):
    """Insert all cells but one, which must not come alive again."""
    await bench.access(ctx, 0, insert=True)
    for clock in range(40 * 64):
        await bench.access(ctx, 1 + clock % 15, insert=True)
        if clock % 64 == 63:
            await bench.access(ctx, 0)


HAZARDS = {
    "a read before a write": (each_distance, {}),
    "a read meets the write of the sweep": (ask_swept([3]), {}),
    "an insertion while the cell is in hand": (ask_swept(range(13)), {}),
    "queries keep the sweep from a cell": (ask_one_cell, {}),
    "cells hold anything after reset": (ask_after_reset, {}),
    "writes that are not needed take the clocks of the sweep": (
        insert_in_every_clock, {"clocks": 36}
    ),
}  # fmt: skip


@pytest.mark.parametrize("hazard", HAZARDS)
def test_hazard(hazard):
    stream, options = HAZARDS[hazard]
    assert PartBench(**options).run(stream).errors == []


# Other components


@pytest.mark.parametrize("cycles", [2, 3, 9, 16, 17])
def test_delay_line(cycles):
    line = DelayLine(width=8, cycles=cycles)
    sent = [(37 * number + 11) % 251 for number in range(60)]
    outputs = []

    async def bench(ctx):
        for value in sent:
            ctx.set(line.i, value)
            outputs.append(ctx.get(line.o))
            await ctx.tick()

    simulate(line, bench)
    assert outputs[cycles:] == sent[:-cycles]


@pytest.mark.parametrize("minimum", [1, 2, 15, 16, 17, 200, 255])
def test_comparison_with_a_constant(minimum):
    m, value, flag = Module(), Signal(8), Signal()
    m.d.comb += flag.eq(reaches_limit(constant_flags(value, minimum)))

    async def bench(ctx):
        for number in range(256):
            ctx.set(value, number)
            assert ctx.get(flag) == (number >= minimum)

    simulate(m, bench, period=None)


# Parameters


@pytest.mark.parametrize(
    ("fields", "clocks", "message"),
    [
        ({"cells": 12}, 64, "^cells: must be a power of two greater than 1 in hardware, not 12$"),
        ({"cells": 1}, 64, "^cells: must be a power of two greater than 1 in hardware, not 1$"),
        ({}, 16, "^clocks: must be at least 17 for 16 cells per part, not 16$"),
        ({"cells": 2}, 7, "^clocks: must be at least 8 for 2 cells per part, not 7$"),
        ({"span": 28}, 64, "^stamp_bits: the sweep needs 196 free cycles before a stamp repeats, "
         "but with 5 bits it has 96: 2 ticks, each with 64 cycles minus 16 for writes$"),
    ],
)  # fmt: skip
def test_specification_wrong(fields, clocks, message):
    spec = TimedTimingSpec(**{"span": 20, "hashes": 2, "cells": 16, "stamp_bits": 5} | fields)
    with pytest.raises(SpecificationError, match=message):
        check_elision(spec, clocks=clocks)
