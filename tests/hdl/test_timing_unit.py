"""Components of timing filter units, their latencies and parameters."""

import random
from dataclasses import replace

import pytest
from simulation import simulate

from lately.golden import (
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    timing_preset,
)
from lately.hdl.build import filter_unit
from lately.hdl.frontend.ticks import TickSpacing
from lately.hdl.latencies import TICKS_WAITING
from lately.hdl.parameters import check_bits
from lately.hdl.timing.clocks import BlockCount
from lately.hdl.timing.sweep_rules import (
    BETWEEN,
    check_elision,
    check_rest,
    elision_period,
    rest_interval,
)
from lately.hdl.timing.timing_profile import TimingProfile

QUERY = Operation.QUERY
SPEC, COUNTED = timing_preset("tiny"), timing_preset("counted-tiny")
"""Stamps repeat every 32 ticks; every 128 insertions, and one cycle in 6 is the sweep's."""
TIGHT = PartitionedTimingSpec(window=5, hashes=1, cells=4, stamp_bits=5, key_bits=8, seed=1)


# Ticks


def passed(period, ticks, clocks):
    """Return the cycles in which ticks passed, and in which ticks were lost."""
    spacing, passes, lost = TickSpacing(min_period=period), [], []

    async def bench(ctx):
        for clock in range(clocks):
            ctx.set(spacing.i, clock in ticks)
            await ctx.tick()
            if ctx.get(spacing.tick):
                passes.append(clock)
            if ctx.get(spacing.tick_lost):
                lost.append(clock)

    simulate(spacing, bench)
    return passes, lost


@pytest.mark.parametrize("period", [2, 3, 8, 9])
def test_ticks_that_are_far_enough_pass_at_once(period):
    ticks = [3, 3 + period, 3 + 2 * period, 50, 50 + period]
    assert passed(period, ticks, 80) == (ticks, [])


def test_ticks_that_are_too_close_wait():
    assert passed(8, [3, 4, 5, 20, 40, 60], 80) == ([3, 11, 19, 27, 40, 60], [])
    many, lost = passed(4, range(40), 200)
    assert many == [4 * number for number in range(10 + TICKS_WAITING)]
    assert len(many) + len(lost) == 40


def due(period, ticks):
    """Return the cycles in which ticks must pass and must be lost."""
    passes, lost = [], []
    for clock in sorted(ticks):
        if sum(time > clock for time in passes) < TICKS_WAITING + (clock in passes):
            passes.append(max(clock, passes[-1] + period if passes else 0))
        else:
            lost.append(clock)
    return passes, lost


@pytest.mark.parametrize("period", [2, 3, 8])
def test_ticks_at_random_pass_once_each(period):
    choose, ticks = random.Random(period), set()
    for part, rate in enumerate((0.5 / period, 1 / period, 1.5 / period, 1.0, 0.3 / period)):
        ticks |= {clock for clock in range(part * 300, part * 300 + 300) if choose.random() < rate}
    assert passed(period, ticks, 2000) == due(period, ticks)


@pytest.mark.parametrize(
    ("cells", "stamp_bits", "span"), [(16, 5, 20), (2, 5, 20), (64, 5, 29), (8192, 16, 32768)]
)
def test_min_period(cells, stamp_bits, span):
    spec = TimedTimingSpec(span=span, hashes=2, cells=cells, stamp_bits=stamp_bits)
    period = elision_period(spec)
    check_elision(spec, clocks=period)
    with pytest.raises(SpecificationError):
        check_elision(spec, clocks=period - 1)


def test_blocks():
    count, ends = BlockCount(block=3), []

    async def bench(ctx):
        for clock, (insert, clear) in enumerate([(1, 0)] * 7 + [(0, 1)] + [(1, 0)] * 4):
            ctx.set(count.insert, insert)
            ctx.set(count.clear, clear)
            if ctx.get(count.tick):
                ends.append(clock)
            await ctx.tick()

    simulate(count, bench)
    assert ends == [2, 5, 10]


# Latencies and parameters


def test_interval():
    assert rest_interval(COUNTED) == 6
    large = timing_preset("counted-default")
    assert rest_interval(large) == 31
    built = filter_unit(large)
    assert built.latency == built.profile.latency
    assert (built.profile.rest_interval, built.profile.min_period) == (31, 0)


@pytest.mark.parametrize("stamp_bits", [*range(1, 20)])
def test_cells_with_a_parity_have_an_even_number_of_bits(stamp_bits):
    assert check_bits(stamp_bits) == (1 if stamp_bits % 2 else 2)


@pytest.mark.parametrize(("levels", "hashes"), [(1, 4), (1, 1), (1, 2)])
def test_latency_is_that_of_the_profile(levels, hashes):
    spec = replace(SPEC, hashes=hashes)
    built = filter_unit(spec, levels=levels)
    assert built.latency == built.profile.latency == TimingProfile.of(spec, levels=levels).latency
    clocks = []

    async def bench(ctx):
        ctx.set(built.o.ready, 1)
        ctx.set(built.i.valid, 1)
        ctx.set(built.i.p.operation, QUERY)
        await ctx.tick().until(built.i.ready)
        ctx.set(built.i.valid, 0)
        clocks.append(1)
        while not ctx.get(built.o.valid):
            await ctx.tick()
            clocks[0] += 1

    simulate(built, bench)
    assert clocks == [built.latency]


def test_sweep_of_the_longest_window():
    spec = replace(TIGHT, window=14)
    check_rest(spec)
    assert (spec.sweep_blocks, rest_interval(spec)) == (2 * 4 + BETWEEN + 1, 2)
    with pytest.raises(SpecificationError, match=r"^stamp_bits: "):
        check_rest(replace(TIGHT, window=15))


def test_block_rams():
    spec = TimedTimingSpec(span=32768, hashes=4, cells=8192, stamp_bits=16)
    assert TimingProfile.of(spec).block_rams == 32
    assert TimingProfile.of(spec).min_period == 8195
