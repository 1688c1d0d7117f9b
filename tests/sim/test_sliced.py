"""The bit-sliced organisation against golden, under two simulators and compiled."""

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import Simulator

from lately.golden import PRESETS, FilterSpec, SpecificationError, from_spec, preset
from lately.hdl import FilterUnit
from lately.hdl.frontend.front import FrontEnd
from lately.hdl.frontend.schedule import Schedule
from lately.hdl.interface import Operation
from lately.hdl.latencies import END_LEFT, PAUSE, WATCHED_GENERATION
from lately.sim import CompiledUnit
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

SEED = 20260807
# Banks enough to sweep at the full rate, and words in two block RAMs side by side.
BANKS = FilterSpec(
    family="gebf",
    window=256,
    epochs=2,
    hashes=3,
    bits=3 * 3 * 64,
    key_bits=20,
    clear=4,
    seed=3,
)
COLUMNS = FilterSpec(
    family="blocked-gebf",
    window=1800,
    epochs=18,
    hashes=2,
    bits=19 * 128,
    block_bits=8,
    key_bits=20,
    clear=1,
    seed=5,
)


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("spec", "memory", "simulator"),
    [
        pytest.param(
            spec,
            memory,
            simulator,
            id=f"{name}-{memory}-{simulator}",
            # One is enough but for a long run.
            marks=()
            if (name, memory, simulator)
            in {
                ("blocked-gebf-tiny", "ecp5", "icarus"),
            }
            else pytest.mark.slow,
        )
        for name, spec, memory in [
            ("gebf-tiny", preset("gebf-tiny"), "portable"),
            ("blocked-gebf-tiny", preset("blocked-gebf-tiny"), "portable"),
            ("blocked-gebf-tiny", preset("blocked-gebf-tiny"), "ecp5"),
            ("banks", BANKS, "ecp5"),
        ]
        for simulator in SIMULATORS
    ],
)
def test_bench(spec, memory, simulator, tmp_path):
    outcomes = run_filter_bench(
        spec, simulator, tmp_path, seed=SEED, memory=memory, organisation="bit-sliced"
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 35
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.slow
def test_bench_of_wide_words(tmp_path):
    outcomes = run_filter_bench(
        COLUMNS,
        "verilator",
        tmp_path,
        seed=SEED,
        memory="ecp5",
        organisation="bit-sliced",
        testcase="random_operations|insertion_beside_the_sweep_of_its_cell",
    )
    assert len(outcomes) == 10
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize(("generation", "least", "most"), [(2500, 0, 1), (1100, 60, 250)])
def test_default_equals_golden(generation, least, most):
    """Verdicts and bits are golden's; the pauses are those that the free banks leave."""
    spec = preset("gebf-default")
    window = spec.window_generations * generation
    spec = replace(spec, generation=generation, window=window)
    keys = np.random.default_rng(SEED).integers(0, 1 << 64, 60_000, np.uint64)
    golden = from_spec(spec)
    expected = golden.check_and_insert(keys)
    with CompiledUnit(spec, organisation="bit-sliced") as unit:
        drained = 2 * unit.profile.latency
        # The first wait for the clear after reset.
        np.testing.assert_array_equal(unit.check_and_insert(keys[:1000]), expected[:1000])
        before = unit.cycles
        np.testing.assert_array_equal(unit.check_and_insert(keys[1000:]), expected[1000:])
        pauses = (unit.cycles - before - len(keys[1000:]) - drained) / golden.shifts
        np.testing.assert_array_equal(unit.memory, golden.memory)
    print(f"seed {SEED}: {pauses:.1f} clocks of pause per shift")
    assert least <= pauses + drained / golden.shifts
    assert pauses <= most


@pytest.mark.parametrize("length", [*range(WATCHED_GENERATION, 34), 63, 64, 65, 200, 511])
def test_end_is_told_between_its_bounds(length):
    """In time for what is under way to fit, and no sooner, while the spare is not clean."""
    schedule = Schedule(generation_bits=9, minimum_generation=2, clear_words=2, watches=True)
    choose = random.Random(SEED + length)

    async def bench(ctx):
        ctx.set(schedule.generation, length)
        ctx.set(schedule.clean, 0)
        await ctx.tick().repeat(40)
        for _ in range(3):
            # The insertion that finds the generation full begins the next one.
            lefts = [length - 1]
            ctx.set(schedule.event, 1)
            await ctx.tick()
            while lefts[-1]:
                event = choose.random() < 0.8
                ctx.set(schedule.event, event)
                await ctx.tick()
                lefts.append(lefts[-1] - event)
                alone = ctx.get(schedule.one_at_a_time)
                assert not (alone and len(lefts) > 4) or lefts[-1] <= END_LEFT
                assert alone or lefts[-1] > END_LEFT - 3 or len(lefts) <= 4
            ctx.set(schedule.event, 0)
            await ctx.tick().repeat(choose.randrange(1, 8))

    simulator = Simulator(schedule)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_shift_waits_for_one_sweep_only():
    """One that waited for the spare opens the input again, though the next sweep has begun."""
    words, sweep = 7, 200
    front = FrontEnd(
        generation_bits=8, minimum_generation=WATCHED_GENERATION, clear_words=words, watches=True
    )
    shifts, cleans, taken = [], [], []

    async def bench(ctx):
        ctx.set(front.credit, 1)
        ctx.set(front.generation, 2 * WATCHED_GENERATION)
        await ctx.tick().repeat(60)
        ctx.set(front.i.payload, Operation.SHIFT)
        ctx.set(front.i.valid, 1)
        for clock in range(3 * sweep):
            if ctx.get(front.i.ready):
                taken.append(clock)
            if ctx.get(front.control.shift):
                shifts.append(clock)
            clean = not shifts or clock >= shifts[-1] + sweep
            if clean and not ctx.get(front.clean):
                cleans.append(clock)
            ctx.set(front.clean, clean)
            await ctx.tick()

    simulator = Simulator(front)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    # The first finds a clean spare, the second waits for the sweep, and the third comes behind it.
    assert taken[1] < sweep
    assert cleans[0] <= shifts[1] < taken[2] <= cleans[0] + PAUSE


def test_organisation_wrong():
    with pytest.raises(
        ValueError, match=r"^Organisation must be one of separate, bit-sliced, not 'sliced'$"
    ):
        FilterUnit(preset("gebf-tiny"), organisation="sliced")


@pytest.mark.parametrize("name", ["apbf-tiny", "apbbf-tiny"])
def test_family_wrong(name):
    family = PRESETS[name].family
    with pytest.raises(
        SpecificationError,
        match=rf"^organisation: must be separate for family {family}, whose segments have hash "
        r"functions of their own, not 'bit-sliced'$",
    ):
        FilterUnit(preset(name), organisation="bit-sliced")


def test_memory_wrong():
    with pytest.raises(
        SpecificationError,
        match=r"^memory: must be portable or ecp5 in the bit-sliced organisation, not 'ice40'$",
    ):
        FilterUnit(preset("gebf-tiny"), memory="ice40", organisation="bit-sliced")


def test_clear_too_large():
    with pytest.raises(
        SpecificationError,
        match=r"^clear: must be at most 8 in the bit-sliced organisation, half the cells of a "
        r"part, not 16$",
    ):
        FilterUnit(replace(preset("gebf-tiny"), clear=16), organisation="bit-sliced")


def test_rekey_wrong():
    spec = replace(preset("gebf-tiny"), hash="siphash", rekey=True)
    with pytest.raises(SpecificationError, match=r"^rekey: must be false for bit-sliced memory"):
        FilterUnit(spec, organisation="bit-sliced")
