"""cocotb bench of a bit-sliced unit: what it shares with the others, and what it says of its own.

In place of `accepts_every_clock`, `every_key_in_one_block` and
`shortest_generations_do_not_pause` stand tests of when it pauses.
"""

from functools import partial

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from ...golden import Operation
from ...hdl.latencies import END_LEFT
from .filter_bench import (
    GENERATION,
    PROFILE,
    SEED,
    SPEC,
    UNIT,
    Bench,
    blocked_output_stops_the_input,
    clear_forgets_everything,
    every_distance_between_equal_keys,
    forced_shifts_wait_for_the_spare,
    generation_is_programmable,
    latency_is_as_specified,
    query_of_the_shifting_operation_sees_the_old_ring,
    random_operations,
    reset_in_mid_stream,
    same_key_back_to_back,
    shift_pauses_little_when_the_spare_is_clean,
    shorter_generations_pause_and_stay_right,
)
from .parts import Item, Stalls, tagged

__all__ = [
    "blocked_output_stops_the_input",
    "clear_forgets_everything",
    "every_distance_between_equal_keys",
    "forced_shifts_wait_for_the_spare",
    "generation_is_programmable",
    "latency_is_as_specified",
    "query_of_the_shifting_operation_sees_the_old_ring",
    "random_operations",
    "reset_in_mid_stream",
    "same_key_back_to_back",
    "shift_pauses_little_when_the_spare_is_clean",
    "shorter_generations_pause_and_stay_right",
]


def check_pauses(bench: Bench, generation: int = GENERATION) -> int:
    """Check that pauses between check-and-inserts lie near the ends, one in each; count them."""
    assert bench.scoreboard.golden.insertions == len(bench.driver.waits)
    long = 0
    for number, wait in enumerate(bench.driver.waits):
        if wait:
            left = generation - number % generation
            assert left <= END_LEFT, f"paused {wait} clocks {left} insertions before the end"
            assert wait <= UNIT.longest_pause, f"paused {wait} clocks"
            long += 1
    ends = len(bench.driver.waits) // generation + 1
    assert long <= ends, f"paused {long} times in {ends} generations"
    return long


def one_cell(bench: Bench, count: int) -> list[int]:
    """Return different keys of one cell in the first part."""
    pool, index = bench.pool()
    return sorted({key for key, cell in zip(pool, index, strict=True) if cell == index[0]})[:count]


@cocotb.test()
async def pauses_only_before_a_shift(dut) -> None:
    """At the full rate operations flow, but for one pause until the spare is swept."""
    bench = await Bench.start(dut)
    await bench.perform(bench.inserts(4 * SPEC.segments * GENERATION))
    pauses = check_pauses(bench)
    dut._log.info("%d pauses in %d shifts", pauses, bench.scoreboard.golden.shifts)
    assert bench.scoreboard.golden.shifts > 2 * SPEC.segments, "the ring did not wrap"


@cocotb.test()
async def free_banks_sweep_enough(dut) -> None:
    """Where banks have twice the clocks that they need, the full rate of random keys is held."""
    free = (GENERATION - END_LEFT - UNIT.latency) * (PROFILE.banks - 1) / PROFILE.banks
    enough = free >= 2 * PROFILE.clear_cycles
    bench = await Bench.start(dut)
    draw = partial(bench.random.randrange, 1 << SPEC.key_bits)
    await bench.perform(bench.inserts(4 * SPEC.segments * GENERATION, draw))
    pauses = check_pauses(bench)
    assert not (enough and pauses), f"paused {pauses} times with {free:.0f} free clocks"


@cocotb.test()
async def one_cell_at_full_rate_pauses_before_each_shift(dut) -> None:
    """Keys that leave a bank no clock to sweep cost a sweep per generation, and stay right."""
    bench = await Bench.start(dut)
    draw = partial(bench.random.choice, one_cell(bench, 4))
    await bench.perform(bench.inserts(6 * SPEC.segments * GENERATION, draw))
    # That of the first generation is swept after reset.
    assert check_pauses(bench) >= bench.scoreboard.golden.shifts - 1


@cocotb.test()
async def light_load_does_not_pause(dut) -> None:
    """Where the clocks without an operation are enough for the sweep, it costs nothing."""
    bench = await Bench.start(dut)
    items = bench.inserts(8 * GENERATION)
    await bench.driver.send(items[:GENERATION])
    for item in items[GENERATION:]:
        await bench.driver.send([item])
        # Enough before the end is near for the sweep, and for what leads to it.
        await ClockCycles(dut.clk, 1 + (PROFILE.clear_cycles + 60) // (GENERATION - END_LEFT))
    assert not any(bench.driver.waits[GENERATION:]), "the unit paused"
    await bench.finish()


@cocotb.test()
async def insertion_beside_the_sweep_of_its_cell(dut) -> None:
    """In every clock around the sweep of a row, insertions into it neither suffer nor revive it."""
    bench = await Bench.start(dut)
    keys = one_cell(bench, 6)
    fill = tagged([(Operation.INSERT, bench.random.choice(keys)) for _ in range(4)])
    for clock in range(PROFILE.clear_cycles + UNIT.latency + 6):
        await bench.driver.send([*fill, Item(Operation.SHIFT, 0, 0)])
        await ClockCycles(dut.clk, 1 + clock)
        burst = [(Operation.CHECK_AND_INSERT, key) for key in keys[: 1 + clock % 3]]
        await bench.driver.send(tagged(burst))
        await ClockCycles(dut.clk, UNIT.longest_pause)
        if clock % 8 == 0:
            await bench.finish()
            await RisingEdge(dut.clk)
    await bench.finish()


@cocotb.test()
async def shift_in_the_midst_of_one_cell(dut) -> None:
    """The shift falls on each operation of a run of insertions into one row, and between them."""
    bench = await Bench.start(dut)
    keys = one_cell(bench, 4)
    other = bench.key()
    for phase in range(8):
        operations = [(Operation.SHIFT, 0)]
        operations += [(Operation.INSERT, other)] * (GENERATION - phase)
        for _ in range(4):
            operations.append((Operation.CHECK_AND_INSERT, bench.random.choice(keys)))
            operations.append((Operation.QUERY, bench.random.choice(keys)))
        await bench.driver.send(tagged(operations * (SPEC.segments + 1)))
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(position=[0, 1, GENERATION // 2, GENERATION - 1], pause=[0.0, 0.5])
async def key_expires_exactly(dut, position: int, pause: float) -> None:
    """A key is seen by the operation that retires its segment, and by none after it."""
    bench = await Bench.start(dut)
    pool, index = bench.pool()
    key = pool[0]
    other = next(k for k, cell in zip(pool, index, strict=True) if cell != index[0])
    operations = [(Operation.INSERT, other)] * position + [(Operation.INSERT, key)]
    # To the end of the window, and one epoch of slack less the position.
    rest = (SPEC.window_generations + 1) * GENERATION - position - 1
    operations += [(Operation.INSERT, other)] * rest + [(Operation.QUERY, key)] * 5
    operations += [(Operation.INSERT, other)] + [(Operation.QUERY, key)] * 5
    await bench.perform(tagged(operations), stalls=Stalls(pause, SEED))
    seen = [outcome.seen for outcome in bench.monitor.outcomes]
    assert all(seen[-11:-6]), "the key was lost before its segment was retired"
    assert not any(seen[-5:]), "the key outlived its segment"


@cocotb.test()
async def shifting_operation_sees_what_it_retires(dut) -> None:
    """The check-and-insert that retires a key's segment reports it; its age is then 0."""
    bench = await Bench.start(dut)
    key, other = bench.pool()[0][:2]
    rest = (SPEC.window_generations + 1) * GENERATION - 1
    operations = [(Operation.INSERT, key)] + [(Operation.INSERT, other)] * rest
    operations += [(Operation.CHECK_AND_INSERT, key), (Operation.QUERY, key)]
    await bench.perform(tagged(operations))
    assert bench.monitor.outcomes[-2].age == SPEC.window_generations
    assert bench.monitor.outcomes[-1].age == 0
