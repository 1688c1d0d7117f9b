"""Contract tests for timing filters and their tables of thresholds."""

import itertools

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from ...hdl.timing.sweep_rules import BETWEEN
from .contract import (
    CHECK,
    CLEAR,
    INSERT,
    NONE,
    QUERY,
    SHIFT,
    grow_older,
    keys_and_cells,
    keys_with_common_cells,
    keys_without_common_cells,
)
from .parts import Stalls
from .testplan import sentence
from .unit import UnitUnderTest


def each_cell(bench: UnitUnderTest) -> list[int]:
    cells = keys_and_cells(bench)[1][0]
    return [int(np.flatnonzero(cells == cell)[0]) for cell in range(bench.spec.cells)]


@sentence()
async def tick_between_an_insertion_and_a_query(bench: UnitUnderTest) -> None:
    first, second = keys_with_common_cells(bench)
    for key, distance in itertools.product((first, second), range(1, BETWEEN + 4)):
        for ahead in range(1, BETWEEN + 2, 2):
            await bench.send((CLEAR, 0))
            await ClockCycles(bench.dut.clk, bench.settled)
            fillers = [(NONE, 0)] * (distance - 1)
            beside = cocotb.start_soon(bench.ticks.tick(after=ahead))
            await bench.send((INSERT, first), *fillers, (CHECK, key), *fillers, (QUERY, first))
            await beside


@sentence()
async def every_number_of_oldest_cells_is_reported(bench: UnitUnderTest) -> None:
    other, *keys = keys_without_common_cells(bench)
    cells = keys_and_cells(bench)[1]
    same = cells[:, [keys[0]]] == cells
    alone = same & (same.sum(axis=0) == 1)
    near = [keys[0], *(int(np.flatnonzero(part)[0]) for part in alone[:-1])]
    for number in range(2 * bench.window):
        if number < bench.window // 2:
            await bench.send((INSERT, keys[number % len(keys)]), (INSERT, near[number % len(near)]))
        await grow_older(bench, 1, other)
        await bench.send(*[(code, key) for key in (*keys, *near) for code in (NONE, QUERY)])
    await bench.settle()
    reported = {operation.outcome["oldest"] for operation in bench.performed if operation.outcome}
    assert reported >= {*range(1, bench.spec.hashes + 1)}


@sentence()
async def other_keys_do_not_keep_the_sweep_from_a_cell(bench: UnitUnderTest) -> None:
    bench.ticks.start(lambda: bench.ticks.period)
    first, second, third, *_ = keys_without_common_cells(bench)
    cells = keys_and_cells(bench)[1][0]
    others = [key for key in each_cell(bench) if cells[key] != cells[first]]
    stamps = 1 << bench.spec.stamp_bits
    for fillers in (
        [(QUERY, first)],
        [(INSERT, key) for key in others],
        [(INSERT, second)],
        [(CHECK, second), (CHECK, third)],
        [(INSERT, key) for key in others for _ in range(2)],
        [(QUERY, first), (INSERT, second)],
    ):
        await bench.send((INSERT, first), (QUERY, first))
        count = stamps * bench.ticks.period * 5 // 4
        await bench.send(*itertools.islice(itertools.cycle(fillers), count), (QUERY, first))
    await bench.settle()
    assert bench.reference.block > stamps


@sentence(pace=[0.0, 0.3, 0.6, 0.8, 0.9, 0.95])
async def insertions_into_the_cells_that_are_swept(bench: UnitUnderTest, pace: float) -> None:
    keys, other = each_cell(bench), keys_without_common_cells(bench)[0]
    await bench.send(*[(INSERT, key) for key in keys])
    await grow_older(bench, bench.window + 1, other)
    bench.ticks.start()
    operations = [(CHECK, key) for key in keys for _ in range(1 + (pace == 0.3))]
    await bench.send(*operations, stalls=bench.stalls(pace))


@sentence()
async def blocks_count_insertions_alone(bench: UnitUnderTest) -> None:
    other, key, *_ = keys_without_common_cells(bench)
    await bench.send((INSERT, key))
    for _ in range(3):
        await ClockCycles(bench.dut.clk, 4 << bench.spec.stamp_bits)
        await bench.send(*[(code, other) for code in (NONE, QUERY, SHIFT, 6, 7)])
    await bench.send((QUERY, key, 1))
    await bench.settle()
    assert bench.performed[-1].seen, "time advanced without an insertion"


# Tables of thresholds


@sentence(into=[0.0, 0.5])
async def answers_are_those_of_the_table(bench: UnitUnderTest, into: float) -> None:
    bench.ticks.start()
    bench.monitor.stalls = Stalls(into, bench.settings.seed + 1)
    choose = bench.random.choice
    # With a time-based window, most cells must be old first.
    codes = (0, *[1] * 40, 2, 3) if bench.settings.ticks else (0, 1, 1, 2, 2, *[3] * 6)
    alone = (*[3] * 8, SHIFT, *[CLEAR] * 3, 6, 7)
    count = 1600 if bench.settings.ticks else 700
    drawn = [choose(codes) for _ in range(count)] + [choose(alone) for _ in range(150)]
    items = [bench.item(code, bench.key()) for code in drawn]
    sending = cocotb.start_soon(bench.send(*items, stalls=bench.stalls(into)))
    for fraction in (1.0, 0.2, 0.0, 1.0):
        await bench.tables.load(bench.tables.drawn(), fraction=fraction)
        await bench.tables.swap()
    await sending
    await bench.settle()
    ages = {operation.outcome["age"] for operation in bench.performed if operation.outcome}
    assert len(ages) > bench.window


@sentence()
async def swap_between_any_two_operations(bench: UnitUnderTest) -> None:
    key = keys_without_common_cells(bench)[0]
    for answer in (0, 1):
        # One table reports all keys, the other reports none.
        await bench.tables.load(bench.tables.filled(answer * (bench.spec.hashes + 1)))
        await bench.tables.swap()
    for distance in range(12):
        sending = cocotb.start_soon(bench.send(*[(QUERY, key)] * 12))
        await ClockCycles(bench.dut.clk, 1 + distance)
        await bench.tables.swap()
        await sending
        await ClockCycles(bench.dut.clk, 40)
    await bench.settle()
    assert {operation.seen for operation in bench.performed} == {True, False}


@sentence()
async def no_entry_is_taken_while_its_bank_is_asked(bench: UnitUnderTest) -> None:
    for _ in range(4):
        items = [(CHECK, bench.key()) for _ in range(60)]
        sending = cocotb.start_soon(bench.send(*items))
        await ClockCycles(bench.dut.clk, 20)
        await bench.tables.swap()
        # Load immediately into the bank that operations in flight still use.
        await bench.tables.load(bench.tables.drawn())
        await sending
