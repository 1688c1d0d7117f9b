"""Contract tests for dictionaries, with and without moves."""

import itertools

import numpy as np
from cocotb.triggers import ClockCycles

from ...hdl.dictionary.dictionary_figures import HAZARDS, swept_per_row
from .contract import CHECK, INSERT, NONE, QUERY, REMOVE, keys_and_cells, keys_with_common_cells
from .testplan import sentence
from .unit import UnitUnderTest

PAUSE = [(NONE, 0)] * 15  # after these idle operations, all earlier operations have completed


def keys_of_one_column(bench: UnitUnderTest) -> list[int]:
    _, first = np.unique(keys_and_cells(bench)[1][0], return_index=True)
    return [int(key) for key in np.sort(first)]


@sentence(second=["digest", "cell"])
async def every_distance_between_kinds_of_operations(bench: UnitUnderTest, second: str) -> None:
    first, other = keys_with_common_cells(bench)
    other = first if second == "digest" else other
    # Pairs of an operation and the next one. Removing an absent entry does nothing.
    kinds = ((REMOVE, INSERT), (INSERT, CHECK), (INSERT, REMOVE), (INSERT, QUERY | REMOVE))
    for distance in range(1, HAZARDS + 3):
        filler = [(NONE, 7)] * (distance - 1)
        for (before, code), (_, later) in itertools.product(kinds, repeat=2):
            await bench.send((before, first))
            await ClockCycles(bench.dut.clk, 12)
            await bench.send(
                (code, first), *filler, (later, other), *filler, (QUERY, first), (QUERY, other)
            )
            await ClockCycles(bench.dut.clk, 12)
            await bench.send((REMOVE, other))


@sentence()
async def removed_and_inserted_elsewhere(bench: UnitUnderTest) -> None:
    first, second = keys_with_common_cells(bench)
    for distance in range(1, HAZARDS + 3):
        await bench.send((INSERT, first), (INSERT, second), (REMOVE, first), *PAUSE)
        await bench.send((REMOVE, second), *PAUSE[1:distance], (CHECK, second), *PAUSE)
        await bench.send((QUERY, second), (REMOVE, second), *PAUSE, (QUERY, second))
    await bench.settle()
    assert not bench.performed[-1].seen, "a removed key was seen"


@sentence()
async def removed_from_every_place(bench: UnitUnderTest) -> None:
    golden = bench.reference.golden
    for kind, step in itertools.product((REMOVE, QUERY | REMOVE), (1, 3)):
        keys = [*range(0, step * bench.window, step)]
        await bench.send(*[(CHECK, key) for key in keys])
        await bench.settle()
        assert golden.stashed, "the stash is empty"
        await bench.send(*[(kind, key) for key in keys for _ in range(2)])
        await bench.send(*[(QUERY, key) for key in keys])
        await bench.settle()
        assert not golden.memory.any()
        assert not golden.stashed


@sentence()
async def losses_are_reported_until_they_expire(bench: UnitUnderTest) -> None:
    pair = keys_with_common_cells(bench)
    for _ in range(3):
        await bench.send(*[(CHECK, key) for key in range(min(1 << bench.spec.key_bits, 256))])
        await bench.send((QUERY, 0))
        await bench.settle()
        assert bench.performed[-1].outcome["status"], "no entry was lost"
        for age in range(2 * bench.window):
            await bench.send((CHECK, pair[age % 2]), (QUERY, pair[0], age % bench.window + 1))
        await bench.settle()
        assert not bench.performed[-1].outcome["status"], (
            "the status was not cleared after the loss expired"
        )
        await bench.send((REMOVE, pair[0]), (REMOVE, pair[1]))
    await bench.settle()
    assert bench.reference.golden.counters["lost"]


@sentence()
async def moves_report_what_they_may_miss(bench: UnitUnderTest) -> None:
    keys = [*range(1 << bench.spec.key_bits)]
    bench.random.shuffle(keys)
    for _ in range(3):
        for at, key in enumerate(keys):
            age = bench.random.randrange(bench.window)
            await bench.send((CHECK, key), (QUERY, keys[at - age], age + 1))
        await bench.send(*[(REMOVE, key) for key in keys[::3]])
        await bench.send(*[(CHECK, key) for key in keys[: bench.window // 8]] * 10)
        await bench.settle()
        assert not bench.performed[-1].outcome["status"], (
            "the status was not cleared after the loss expired"
        )
    crowded = bench.spec.columns * bench.spec.rows + bench.spec.stash < bench.window
    assert bool(bench.reference.missed) == crowded
    # The guaranteed window and the memory must be consistent with the reported statuses.
    await bench.send(*[(CHECK, key) for key in keys])
    await bench.send(*[(QUERY, keys[-1], window) for window in range(bench.window + 1)])


@sentence()
async def sweep_of_a_busy_column_rests_the_input(bench: UnitUnderTest) -> None:
    keys = keys_of_one_column(bench)
    operations = [(CHECK, key) for key, _ in zip(itertools.cycle(keys), range(1500), strict=False)]
    await bench.send(*operations)
    stalls, limit = sum(bench.driver.waits), 1.2 * len(operations) / swept_per_row(bench.spec)
    assert 0 < stalls <= limit, f"stall cycles: expected 1 to {limit}, got {stalls}"
    await bench.settle()
    assert all(check.seen for check in bench.performed[len(keys) :])


@sentence()
async def overdue_sweep_closes_the_input(bench: UnitUnderTest) -> None:
    keys, spec = keys_of_one_column(bench), bench.spec
    few = keys[: len(keys) // 2]
    count = (spec.window + 2 * spec.rows * swept_per_row(spec)) // len(few)
    for _ in range(4):
        await bench.send(*[(INSERT, key) for key in keys], *[(CHECK, key) for key in few] * count)
    assert max(bench.driver.waits) > 0
    await bench.settle()
    assert bench.reference.golden.counters["insertions"] > bench.reference.round_length


@sentence()
async def entries_expire_before_timestamps_repeat(bench: UnitUnderTest) -> None:
    window = bench.window
    for _ in range(3):
        await bench.send(*[(INSERT, bench.any_key()) for _ in range(window + 20)])
        few = [bench.any_key() for _ in range(4)]
        quiet = bench.reference.round_length - window - 20
        await bench.send(*[(CHECK, bench.random.choice(few)) for _ in range(quiet)])
        await bench.send(*[(QUERY, key) for key in range(0, min(1 << bench.spec.key_bits, 256), 3)])


@sentence(pace=[0.0, 0.3, 0.6, 0.8, 0.9])
async def insertions_into_the_rows_that_are_swept(bench: UnitUnderTest, pace: float) -> None:
    keys = keys_of_one_column(bench)
    await bench.send(*[(INSERT, key) for key in keys])
    await bench.send(*[(INSERT, keys[0])] * (bench.window + 1))
    operations = [(CHECK, key) for _ in range(6) for key in keys]
    await bench.send(*operations, stalls=bench.stalls(pace))
