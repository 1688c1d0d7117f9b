"""Timing units against golden: verdicts, ages, cells and counters; memories garble."""

import random
from dataclasses import replace

import pytest
from amaranth.sim import Simulator
from mutants import broken
from timing_unit_bench import Bench, random_operations

from lately.golden import (
    Operation,
    SpecificationError,
    TimedTimingSpec,
    timing_preset,
)
from lately.hdl.build import filter_unit
from lately.hdl.frontend.tick_spacing import TickSpacing
from lately.hdl.latencies import TICKS_WAITING
from lately.hdl.timing.core import TimingCore
from lately.hdl.timing.sweep_rules import check_elision, elision_period
from lately.hdl.timing.timing_profile import TimingProfile, check_bits

QUERY, INSERT, CLEAR = Operation.QUERY, Operation.INSERT, Operation.CLEAR
SPEC = timing_preset("tiny")
"""Stamps come round every 32 ticks."""


@pytest.mark.parametrize(("key_bits", "latency", "ticks"), [(200, 25, "tick"), (300, 26, "period")])
def test_one_operation_a_cycle_with_the_fewest_places_for_results(key_bits, latency, ticks):
    """With 32 places for the results of a latency of 25 cycles, and one cycle more."""
    spec = replace(SPEC, key_bits=key_bits, hashes=4, cells=4)
    operations = random_operations(6, 150, keys=10, window=20, weights=(0, 1, 1, 1))
    bench = Bench(spec, levels=1, ticks=ticks).run(operations)
    assert (bench.unit.latency, bench.clocks) == (latency, 150)


def test_clear_closes_the_input_no_longer_than_told():
    operations = [(INSERT, 1, 0), (CLEAR, 0, 0), (INSERT, 2, 0)]
    bench = Bench(SPEC).run(operations)
    assert SPEC.cells < bench.clocks <= bench.unit.longest_pause


def test_clean_too_early_is_found(monkeypatch):
    defect = broken(TimingCore, "visits.clean & ~clearing", "visits.clean")
    monkeypatch.setattr(TimingCore, "_elaborate_visits", defect._elaborate_visits)
    operations = [(INSERT, key, 0) for key in range(8)]
    operations = [*operations, (CLEAR, 0, 0), *operations, *((QUERY, key, 20) for key in range(8))]
    with pytest.raises(AssertionError):
        Bench(SPEC, levels=1).run(operations)


# Ticks


def passed(least, ticks, clocks):
    """Clocks in which the ticks of some clocks have passed."""
    spacing, told = TickSpacing(least=least), []

    async def bench(ctx):
        for clock in range(clocks):
            ctx.set(spacing.i, clock in ticks)
            await ctx.tick()
            if ctx.get(spacing.tick):
                told.append(clock)

    simulator = Simulator(spacing)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return told


@pytest.mark.parametrize("least", [2, 3, 8, 9])
def test_ticks_that_are_far_enough_pass_at_once(least):
    ticks = [3, 3 + least, 3 + 2 * least, 50, 50 + least]
    assert passed(least, ticks, 80) == ticks


def test_ticks_that_are_too_close_wait():
    assert passed(8, [3, 4, 5, 20, 40, 60], 80) == [3, 11, 19, 27, 40, 60]
    many = passed(4, range(40), 200)
    assert many == [4 * number for number in range(10 + TICKS_WAITING)]


def due(least, ticks):
    """Clocks in which ticks have to pass: up to `TICKS_WAITING` wait, and more are lost."""
    passes = []
    for clock in sorted(ticks):
        if sum(one > clock for one in passes) < TICKS_WAITING + (clock in passes):
            passes.append(max(clock, passes[-1] + least if passes else 0))
    return passes


@pytest.mark.parametrize("least", [2, 3, 8])
def test_ticks_at_random_pass_once_each(least):
    """Seldom, about as often as they may, and in every clock."""
    choose, ticks = random.Random(least), set()
    for part, rate in enumerate((0.5 / least, 1 / least, 1.5 / least, 1.0, 0.3 / least)):
        ticks |= {clock for clock in range(part * 300, part * 300 + 300) if choose.random() < rate}
    assert passed(least, ticks, 2000) == due(least, ticks)


@pytest.mark.parametrize(
    ("cells", "stamp_bits", "span"), [(16, 5, 20), (2, 5, 20), (64, 5, 29), (8192, 16, 32768)]
)
def test_least_period(cells, stamp_bits, span):
    spec = TimedTimingSpec(span=span, hashes=2, cells=cells, stamp_bits=stamp_bits)
    least = elision_period(spec)
    check_elision(spec, clocks=least)
    with pytest.raises(SpecificationError):
        check_elision(spec, clocks=least - 1)


# Figures and parameters


@pytest.mark.parametrize("stamp_bits", [*range(1, 20)])
def test_cells_with_a_parity_have_an_even_number_of_bits(stamp_bits):
    assert check_bits(stamp_bits) == (1 if stamp_bits % 2 else 2)


@pytest.mark.parametrize(("levels", "hashes"), [(1, 4), (1, 1), (1, 2)])
def test_latency_is_that_of_the_profile(levels, hashes):
    """Told, stated and measured: the first result comes `latency` clocks after its acceptance."""
    spec = replace(SPEC, hashes=hashes)
    built = filter_unit(spec, levels=levels)
    assert built.latency == built.profile.latency == TimingProfile.of(spec, levels=levels).latency
    simulator, clocks = Simulator(built), []

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

    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert clocks == [built.latency]


def test_block_rams():
    spec = TimedTimingSpec(span=32768, hashes=4, cells=8192, stamp_bits=16)
    assert TimingProfile.of(spec).block_rams == 32
    assert TimingProfile.of(spec).least_period == 8195


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: filter_unit(replace(SPEC, cells=12)), SpecificationError,
         "cells: must be a power of two greater than 1 in hardware, not 12"),
        (lambda: filter_unit(replace(SPEC, cells=1 << 15), memory="ecp5"), SpecificationError,
         "cells: must be at most 16384 for ecp5, the bits of a block RAM, not 32768"),
        (lambda: filter_unit(SPEC, memory="sram"), SpecificationError,
         "memory: must be portable or ecp5 for family timed-timing, not 'sram'"),
    ],
)  # fmt: skip
def test_parameters_wrong(build, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        build()
