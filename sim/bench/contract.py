"""Contract tests for all units, and for units of any family with secrets, ticks or generations.

Each test checks one statement of `testplan.toml`.
"""

import itertools
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from ...golden import Operation
from ...hdl.latencies import TICKS_WAITING
from .parts import Pattern, Stalls
from .reference import cells_of
from .testplan import sentence
from .unit import PERIOD_NS, UnitUnderTest

NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "REMOVE")
)  # fmt: skip

QUEUE = 66  # more results than the queue of a unit with one lane can store


def keys_and_cells(bench: UnitUnderTest) -> tuple[np.ndarray, np.ndarray]:
    """Return keys and the cells that they use, an array of shape (parts, keys)."""
    keys = np.arange(min(1 << bench.spec.key_bits, 1 << 12))
    return keys, cells_of(bench.spec, keys.tolist())


def keys_without_common_cells(bench: UnitUnderTest) -> list[int]:
    used: set[tuple[int, int]] = set()
    keys = []
    for key, cells in enumerate(keys_and_cells(bench)[1].T.tolist()):
        key_cells = {*enumerate(cells)}
        if not used & key_cells:
            keys.append(key)
            used |= key_cells
    return keys


def keys_with_common_cells(bench: UnitUnderTest) -> tuple[int, int]:
    """Return two keys that share as many of their first cells as possible."""
    keys, cells = keys_and_cells(bench)
    # Keys that share all cells of a dictionary have the same digest.
    longest = len(cells) - ("dictionary" in bench.settings.traits)
    for shared in range(longest, 0, -1):
        _, first, counts = np.unique(cells[:shared], axis=1, return_index=True, return_counts=True)
        for start in first[counts > 1]:
            same = (cells[:shared] == cells[:shared, [start]]).all(axis=0)
            same[start] = False
            others = (
                same & (cells != cells[:, [start]]).any(axis=0) if longest < len(cells) else same
            )
            if others.any():
                return int(keys[start]), int(keys[others][0])
    raise AssertionError("no two keys share a cell")


async def grow_older(bench: UnitUnderTest, count: int, other: int) -> None:
    """Increase the age of all keys by `count`, by inserting the key `other` if necessary."""
    traits = bench.settings.traits
    if "ring" in traits:
        await bench.send(*[(SHIFT, 0)] * count)
    elif "ticks" in traits:
        await bench.settle()
        await bench.ticks.advance(count)
        await bench.settle()
    else:
        await bench.send(*[(INSERT, other)] * (count * bench.spec.block_units))


def max_stalls(bench: UnitUnderTest, count: int) -> int:
    if "moves" in bench.settings.traits:
        from ...hdl.dictionary.dictionary_figures import MAX_STALL, STALL_PERIOD

        return MAX_STALL * (1 + count // STALL_PERIOD)
    if interval := getattr(bench.profile, "rest_interval", 0):
        return count // (interval - 1) + 1
    # The first operations with a new time may wait until the unit's time has advanced.
    return 40 if bench.settings.ticks == "time" else 0


# All units


@sentence()
async def accepts_an_operation_every_cycle(bench: UnitUnderTest) -> None:
    bench.ticks.start(lambda: bench.ticks.period)
    draw = bench.random
    codes = (NONE, QUERY, INSERT, *[CHECK] * 3, *[REMOVE] * (bench.codes > 8))
    count = 3 * bench.reference.round_length
    operations = [(draw.choice(codes), bench.any_key()) for _ in range(count)]
    await bench.send(*operations)
    waits = bench.driver.waits
    limit = max_stalls(bench, len(operations))
    assert sum(waits) <= limit, f"stall cycles: expected at most {limit}, got {sum(waits)}"
    if interval := getattr(bench.profile, "rest_interval", 0):
        assert max(waits) == 1, "a stall lasted more than one cycle"
        stalled = [at for at, wait in enumerate(waits) if wait]
        assert {after - at for at, after in itertools.pairwise(stalled)} == {interval - 1}


@sentence()
async def latency_is_as_specified(bench: UnitUnderTest) -> None:
    poll = getattr(bench.unit, "poll", 1)
    if bench.signature.lanes == 1:
        await bench.send(*[(CHECK, bench.key()) for _ in range(60)])
    else:
        # The distance of beats grows, so that they arrive in every cycle between two polls.
        polls = bench.unit.latency // poll + 2
        for _ in range(poll):
            await bench.send((QUERY, bench.key()))
            await ClockCycles(bench.dut.clk, polls * poll + 1)
    await bench.finish()
    pairs = zip(bench.driver.times, bench.monitor.times, strict=True)
    latencies = {(delivered - accepted) / PERIOD_NS for accepted, delivered in pairs}
    expected = {*range(bench.unit.latency, bench.unit.latency + poll)}
    assert latencies == expected, f"latencies in cycles: expected {expected}, got {latencies}"


@sentence(pauses=["none", "both", "input", "output"])
async def random_operations(bench: UnitUnderTest, pauses: str) -> None:
    into, out = {"none": (0, 0), "both": (0.5, 0.5), "input": (0.9, 0), "output": (0, 0.9)}[pauses]
    bench.monitor.stalls = Stalls(out, bench.settings.seed + 1)
    bench.ticks.start()
    # With pauses, a few operations take many cycles.
    items = bench.mixture(250 if max(into, out) > 0.5 else 800)
    await bench.send(*items, stalls=bench.stalls(into), gaps=0.3)
    await bench.settle()
    assert bool(bench.monitor.held) == bool(out), (
        "results must wait if and only if the output pauses"
    )


@sentence()
async def every_pair_of_operations(bench: UnitUnderTest) -> None:
    bench.ticks.start()
    pairs = itertools.product(range(bench.codes), repeat=2)
    await bench.send(*[(code, bench.key()) for pair in pairs for code in pair])


@sentence()
async def every_operation_has_its_documented_effect(bench: UnitUnderTest) -> None:
    old, new = keys_without_common_cells(bench)[:2]
    for code in range(bench.codes):
        await bench.send((CLEAR, 0), (INSERT, old), (code, old), (code, new), (INSERT, new))
        await bench.send(*[(QUERY, key) for key in (old, new)])


@sentence()
async def same_key_back_to_back(bench: UnitUnderTest) -> None:
    operations: list[Any] = []
    for _ in range(60):
        operations += [(CHECK, bench.key())] * bench.random.randrange(1, 5)
    await bench.send(*operations)


async def at_every_distance(bench: UnitUnderTest, first: int, second: int) -> None:
    """Query a key 1, 2, 3, ... operations after its insertion, with other operations in between."""
    others = [key for key in range(32) if key not in (first, second)]
    for distance in range(1, min(bench.unit.latency, 24) + 2):
        for between in (NONE, QUERY, INSERT):
            fillers = [(between, bench.random.choice(others)) for _ in range(distance - 1)]
            await bench.send(
                (CLEAR, 0), (INSERT, first), *fillers, (CHECK, second), *fillers, (QUERY, first)
            )


@sentence()
async def every_distance_between_equal_keys(bench: UnitUnderTest) -> None:
    key = bench.key()
    await at_every_distance(bench, key, key)


@sentence()
async def every_distance_between_keys_of_one_cell(bench: UnitUnderTest) -> None:
    if "ring" in bench.settings.traits:
        # In such a long generation, all insertions use the youngest segment.
        await bench.set_generation(2 * bench.spec.generation - 1)
    await at_every_distance(bench, *keys_with_common_cells(bench))


@sentence()
async def every_age_is_reported(bench: UnitUnderTest) -> None:
    other, key, *_ = keys_without_common_cells(bench)
    ages = len(bench.signature.of_lane(bench.signature.result, 0)["age"].shape)
    for age in range(ages + 1):
        await bench.send((CLEAR, 0), (INSERT, key))
        await grow_older(bench, age, other)
        await bench.send(*[(QUERY, key)] * (QUEUE if age < 4 else 10))
    await bench.finish()
    asked = [result.outcome for result in bench.asked()]
    # Periodic ticks do not stop while the bench waits. A block of one insertion ends immediately.
    youngest = int(getattr(bench.spec, "block", 0) == 1)
    reported = {result["age"] for result in asked if result["seen"] or "oldest" in result}
    assert bench.settings.ticks == "period" or reported == {*range(youngest, ages)}, (
        f"reported ages: {reported}"
    )


@sentence()
async def windows_of_queries_are_exact(bench: UnitUnderTest) -> None:
    other, key, *_ = keys_without_common_cells(bench)
    await bench.send((INSERT, key))
    for age in range(bench.window + 3):
        near = {min(max(age + more, 0), bench.window) for more in (-1, 0, 1)}
        await bench.send(*[(QUERY, key, window) for window in sorted(near | {0, bench.window})])
        await grow_older(bench, 1, other)
    await bench.settle()
    beyond = int("dictionary" in bench.settings.traits)
    for query in bench.asked():
        inside = query.outcome["age"] + beyond <= query.item["window"]
        # A dictionary returns an age only for keys that it reports.
        assert query.seen == inside or (beyond and not query.seen), (
            f"wrong result {query.outcome} of request {query.item}"
        )


@sentence()
async def pauses_of_every_length(bench: UnitUnderTest) -> None:
    bench.ticks.start()
    rounds, blocked = (8, 150) if bench.signature.lanes == 1 else (3, bench.profile.lane_slots + 32)
    bench.monitor.stalls = stalls = Pattern([*[*range(1, 10)] * rounds, blocked])
    for into in (*(Pattern([length]) for length in range(1, 10)), *[None] * 3):
        await bench.send(*[(CHECK, bench.key()) for _ in range(90)], stalls=into)
    assert stalls.rounds > 1, "the output did not pause for all lengths"
    bench.monitor.stalls = Stalls()
    await bench.finish()


@sentence()
async def blocked_output_stops_the_input(bench: UnitUnderTest) -> None:
    slots = getattr(bench.profile, "lane_slots", 0) if bench.signature.lanes > 1 else 75
    count = (2 * slots + 50) * bench.signature.lanes
    items = bench.beats([(CHECK, bench.key()) for _ in range(count)])
    bench.monitor.stalls = Stalls(1.0)
    accepted = await bench.interrupt(items, cycles=4 * slots)
    limit = slots if bench.signature.lanes > 1 else 2 * slots
    assert bench.unit.latency <= accepted <= limit, (
        f"accepted beats: expected up to {limit}, got {accepted}"
    )
    # After a reset while all slots are in use, as many are free again.
    await ClockCycles(bench.dut.clk, bench.settled)
    sending = cocotb.start_soon(bench.driver.send(items))
    await ClockCycles(bench.dut.clk, 4 * slots)
    after = bench.driver.accepted
    assert after == accepted, f"accepted {accepted} operations, but {after} after a reset"
    bench.monitor.stalls = Stalls()
    await sending


@sentence()
async def clear_forgets_everything(bench: UnitUnderTest) -> None:
    bench.ticks.start()
    for count in (1, 2, 5):
        keys = [bench.any_key() for _ in range(min(2 * max(bench.window, 20), 150))]
        await bench.send(*[(INSERT, key) for key in keys], *[(CLEAR, 0)] * count)
        sent = bench.driver.accepted
        await bench.send(*[(QUERY, key) for key in keys])
        wait = bench.driver.waits[sent]
        longest = bench.profile.longest_pause
        assert wait <= longest or bench.signature.lanes > 1, f"the unit stalled for {wait} cycles"
        await bench.settle()
        if "tables" not in bench.settings.traits:
            assert not any(query.seen for query in bench.performed[-len(keys) :]), (
                "a key was seen after CLEAR"
            )
        await bench.send(*[(INSERT, key) for key in keys])


@sentence()
async def reset_in_mid_stream(bench: UnitUnderTest) -> None:
    latency = bench.unit.latency
    for cut in (1, latency // 2, latency + 3, 3 * latency):
        bench.monitor.stalls = Stalls(0.3, bench.settings.seed)
        bench.ticks.start_too_fast()
        items = bench.beats(bench.mixture(500), gaps=0.2)
        await bench.interrupt(items, cycles=bench.profile.longest_pause + cut)
    await bench.send(*[(CHECK, bench.key()) for _ in range(60)])


# Units with a secret


@sentence()
async def secret_applies_from_the_next_clear(bench: UnitUnderTest) -> None:
    for _ in range(3):
        await bench.settle()
        await bench.load_secret()
        await ClockCycles(bench.dut.clk, max(bench.secret_lead, 1))
        await bench.send(*[(CHECK, bench.key()) for _ in range(4 * bench.signature.lanes)])
        await bench.send((CLEAR, 0), *[(CHECK, bench.key()) for _ in range(60)])


@sentence()
async def secret_at_every_distance_from_a_clear(bench: UnitUnderTest) -> None:
    for distance in range(12):
        keys = [(CHECK, key) for key in range(5)]
        sending = cocotb.start_soon(bench.send(*keys, (CLEAR, 0), *keys))
        await ClockCycles(bench.dut.clk, 1 + distance)
        await bench.load_secret()
        await sending
        await bench.settle()


# Units with ticks


@sentence()
async def no_silence_brings_a_key_back(bench: UnitUnderTest) -> None:
    other, *keys = keys_without_common_cells(bench)
    longest = bench.spec.window_blocks if bench.spec.query_field else bench.spec.span
    stamps = 1 << getattr(bench.spec, "stamp_bits", 5)
    await bench.send(*[(INSERT, key) for key in keys])
    for silence in (longest + 1, stamps - longest - 1, 1, stamps, 4 * stamps):
        await bench.settle()
        if bench.settings.ticks:
            await bench.ticks.advance(silence)
        else:
            await grow_older(bench, silence, other)
        await bench.settle()
        await bench.send(*[(QUERY, key) for key in keys])
    await bench.settle()
    assert not any(query.seen for query in bench.asked()), "an expired key was seen"


@sentence(pause=[0.0, 0.9, 0.98])
async def time_never_closes_the_input(bench: UnitUnderTest, pause: float) -> None:
    bench.ticks.start(lambda: bench.ticks.period)
    operations = [(CHECK, bench.any_key()) for _ in range(int((1 - pause) * 2000))]
    await bench.send(*operations, stalls=bench.stalls(pause))
    assert not any(bench.driver.waits), "the unit stalled"
    await bench.settle()
    assert bench.reference.now > 2


@sentence()
async def ticks_that_come_close_wait(bench: UnitUnderTest) -> None:
    period = bench.ticks.period
    for count in (2, TICKS_WAITING + 1, 5):
        await bench.send((SHIFT, 0), (INSERT, bench.key()))
        for _ in range(count):
            await bench.ticks.tick()
        for _ in range((count + 2) * period // 4):
            await bench.send((CHECK, bench.key()))
            await ClockCycles(bench.dut.clk, 4)
        await ClockCycles(bench.dut.clk, bench.profile.longest_pause)


@sentence()
async def tick_at_every_distance_from_a_clear(bench: UnitUnderTest) -> None:
    period = bench.ticks.period
    for distance in range(2 * period + bench.unit.latency):
        pulse = cocotb.start_soon(bench.ticks.tick(after=1 + distance))
        keys = [bench.key() for _ in range(6)]
        await bench.send(*[(INSERT, key) for key in keys], (CLEAR, 0))
        await bench.send(*[(CHECK, key) for key in keys])
        await pulse
        await ClockCycles(bench.dut.clk, period)


@sentence()
async def ticks_come_at_the_period(bench: UnitUnderTest) -> None:
    minimum = bench.ticks.period
    for period in (minimum + 1, 5 * minimum, 0, minimum):
        bench.ticks.set_period(period)
        await ClockCycles(bench.dut.clk, 5 * minimum + 1)
        await bench.send((QUERY, 0))
        await ClockCycles(bench.dut.clk, 20 * minimum - 1)
        await bench.send((QUERY, 0))
        await bench.settle()
        before, after = (query.time for query in bench.performed[-2:])
        expected = 20 * minimum / max(period, minimum)
        assert abs(after - before - expected) < 1, (
            f"expected {expected} ticks, got {after - before}"
        )


# Units with a programmable generation length


@sentence()
async def generation_is_programmable(bench: UnitUnderTest) -> None:
    longest = (1 << len(bench.dut.generation)) - 1
    minimum = bench.unit.minimum_generation
    for length in (bench.generation, minimum, minimum + 1, 1, 2, longest, longest - 1):
        # Set while the unit is idle, so that unit and reference apply it to the same operation.
        await bench.set_generation(length)
        await bench.send(*[(CHECK, bench.key()) for _ in range(2 * longest + 1)])
        if "window in time" in bench.settings.traits:
            await bench.ticks.advance(bench.spec.generation_span)
