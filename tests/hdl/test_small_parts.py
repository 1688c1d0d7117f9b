"""Small components: only upsets are reported as upsets, after any reset."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from cases import daily
from garbage_memory import GarbageMemory, with_own_garbage
from simulation import simulate
from upsets import cell_words

from lately.golden import Operation, PartitionedTimingSpec, TimedTimingSpec
from lately.hdl.build import filter_unit

SWEEPS = {"elided": True, "resting": False}


def small_unit(sweep, cells, protect):
    timed = SWEEPS[sweep]
    shape = {"hashes": 1, "cells": cells, "key_bits": 8, "seed": 3}
    if timed:
        spec = TimedTimingSpec(span=5, stamp_bits=6, **shape)
    else:
        spec = PartitionedTimingSpec(window=20, stamp_bits=8, **shape)
    return filter_unit(spec, memory=with_own_garbage(GarbageMemory), protect=protect)


def garble(ctx, words, choose):
    """Give memories random contents, like after power-up."""
    for copy in (copy for copies in words for copy in copies):
        for row in range(copy.depth):
            ctx.set(copy.data[row], choose.getrandbits(copy.shape))


@pytest.mark.parametrize("protect", ["parity", pytest.param("tmr", marks=pytest.mark.slow)])
@pytest.mark.parametrize("cells", daily(1, [2, 4, 8, 16]))
@pytest.mark.parametrize("sweep", SWEEPS)
def test_upsets_of_small_parts(sweep, cells, protect):
    unit, reset, choose = small_unit(sweep, cells, protect), Signal(), random.Random(cells)
    words, period = cell_words(unit), unit.profile.min_period
    counts = []

    async def load(ctx):
        for clock in range(100 + 12 * cells):
            ctx.set(unit.i.valid, choose.random() < 0.9)
            ctx.set(unit.i.p.operation, choose.choice([Operation.QUERY, Operation.INSERT]).value)
            ctx.set(unit.i.p.key, choose.randrange(256))
            if period:
                ctx.set(unit.tick, clock % period == 0)
            await ctx.tick()
        counts.append(ctx.get(unit.upsets))

    async def bench(ctx):
        ctx.set(unit.o.ready, 1)
        garble(ctx, words, choose)
        await load(ctx)
        ctx.set(reset, 1)
        await ctx.tick()
        garble(ctx, words, choose)
        ctx.set(reset, 0)
        await load(ctx)
        ctx.set(unit.i.valid, 0)
        await ctx.tick().repeat(60)
        cell = words[0][-1].data[cells - 1]
        ctx.set(cell, ctx.get(cell) ^ 2)
        # The slowest lap of the sweep, and the latency of the counter.
        await ctx.tick().repeat(12 * (cells + 2) + 40)
        counts.append(ctx.get(unit.upsets))

    top = Module()
    top.submodules.unit = ResetInserter(reset)(unit)
    simulate(top, bench)
    assert counts[:2] == [0, 0]
    # Every read counts until the cell is written.
    assert 1 <= counts[2] <= 4
