"""Contract tests for single-lane rings: count-based and time-based windows, and re-keying."""

import itertools
from collections.abc import Iterable

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge

from ...golden import Operation
from ...hdl.frontend.ticks import Stamps
from ...hdl.frontend.time_window import TimeWindow
from .contract import CHECK, CLEAR, INSERT, NONE, QUERY, SHIFT, keys_and_cells
from .parts import Stalls
from .testplan import sentence
from .unit import PERIOD_NS, UnitUnderTest


def inserts(bench: UnitUnderTest, count: int) -> list[tuple[Operation, int]]:
    return [(CHECK, bench.key()) for _ in range(count)]


# Generations that end by their number of insertions


@sentence()
async def every_pair_of_operations_one_at_a_time(bench: UnitUnderTest) -> None:
    await bench.set_generation(1)
    pairs = itertools.product(range(bench.codes), repeat=2)
    await bench.send((SHIFT, 0), *[(code, bench.key()) for pair in pairs for code in pair])


@sentence()
async def every_key_in_one_block(bench: UnitUnderTest) -> None:
    keys, cells = keys_and_cells(bench)
    first = cells[0] if bench.spec.segment_blocks > 1 else cells[0] // bench.spec.clear
    together = keys[first == first[0]].tolist()
    await bench.send(*[(CHECK, bench.random.choice(together)) for _ in range(500)])
    assert not any(bench.driver.waits), "the unit stalled"


@sentence()
async def forced_shift_at_every_phase(bench: UnitUnderTest) -> None:
    for phase in range(bench.spec.generation + 1):
        await bench.send(*inserts(bench, phase), (SHIFT, 0))


@sentence()
async def shift_and_clear_right_after_an_automatic_shift(bench: UnitUnderTest) -> None:
    for code in (SHIFT, CLEAR) * 2:
        fill = [(INSERT, bench.key()) for _ in range(bench.generation + 1)]
        await bench.send((SHIFT, 0), *fill, (code, 0), *inserts(bench, 2))
        await bench.settle()
        await bench.send((code, 0))


@sentence()
async def query_of_the_shifting_operation_sees_the_old_ring(bench: UnitUnderTest) -> None:
    key, window = bench.key(), bench.spec.window_generations * bench.generation
    others = [(INSERT, bench.key()) for _ in range(bench.generation - 1 + window)]
    before = others[: bench.generation - 1]
    # The last key of its generation; it is queried by the last operation of the guarantee.
    await bench.send(*before, (INSERT, key), *others[len(before) :], (CHECK, key), (QUERY, key))
    await bench.settle()
    turning, after = bench.performed[-2:]
    assert turning.seen, "the key was not seen within its window"
    assert after.outcome["age"] == 0, "the insertion did not follow the shift"


@sentence()
async def forced_shifts_wait_for_the_spare(bench: UnitUnderTest) -> None:
    for _ in range(2 * bench.spec.segments):
        await bench.send(*inserts(bench, 2), *[(SHIFT, 0)] * 3, *inserts(bench, 2))
    # The operation after a waiting SHIFT is accepted only after the SHIFT.
    waited = max(bench.driver.waits[8:])
    shortest, longest = bench.profile.clear_cycles, bench.profile.longest_pause
    assert shortest <= waited <= longest, f"the operation waited for {waited} cycles"


@sentence()
async def shift_pauses_little_when_the_spare_is_clean(bench: UnitUnderTest) -> None:
    for _ in range(bench.spec.segments + 1):
        await ClockCycles(bench.dut.clk, bench.profile.longest_pause)
        await bench.send((CHECK, bench.key()), (SHIFT, 0), *inserts(bench, 2))
        assert bench.driver.waits[-4:] == [0, 0, bench.unit.SHIFT_PAUSE, 0]


@sentence(above=[0, 1])
async def shortest_generations_do_not_pause(bench: UnitUnderTest, above: int) -> None:
    length = bench.unit.minimum_generation + above
    await bench.set_generation(length)
    await bench.send((CLEAR, 0), NOTHING)
    sent = bench.driver.accepted
    await bench.send(*inserts(bench, 4 * bench.spec.segments * length))
    assert not any(bench.driver.waits[sent:]), "the unit stalled"


NOTHING = (NONE, 0)


@sentence()
async def shorter_generations_pause_and_stay_right(bench: UnitUnderTest) -> None:
    minimum = bench.unit.minimum_generation
    await bench.set_generation(max(1, minimum - 1))
    await bench.send((CLEAR, 0), NOTHING)
    sent = bench.driver.accepted
    await bench.send(*inserts(bench, 3 * bench.spec.segments * minimum))
    assert any(bench.driver.waits[sent:]), "no shift waited"


# Re-keying


@sentence(into=[0.0, 0.5])
async def rekeying_in_flight_keeps_the_window(bench: UnitUnderTest, into: float) -> None:
    bench.monitor.stalls = Stalls(into, bench.settings.seed + 1)
    spec, choose = bench.spec, bench.random.choice
    count = 10 * (spec.ring_segments + 8) * spec.generation
    items = [(choose((QUERY, INSERT, *[CHECK] * 6)), bench.key()) for _ in range(count)]
    sending = cocotb.start_soon(bench.send(*items, stalls=bench.stalls(into)))
    loaded = []
    for _ in range(10):
        loaded.append(await bench.load_secret())
        await ClockCycles(bench.dut.clk, bench.random.randrange(1, 4 * spec.generation))
    await sending
    await bench.finish()
    assert bench.reference.golden.secrets[0] in loaded[-2:]


@sentence(code=["CLEAR", "SHIFT"])
async def secret_comes_in_with_a_turn(bench: UnitUnderTest, code: str) -> None:
    spec = bench.spec
    for _ in range(3):
        await bench.send(*inserts(bench, spec.generation + (code == "SHIFT")))
        await bench.settle()
        secret = await bench.load_secret()
        await FallingEdge(bench.dut.clk)
        assert not bench.dut.secret__ready.value, "a second secret would be accepted"
        await ClockCycles(bench.dut.clk, bench.secret_lead)
        await bench.send((Operation[code], 0), *inserts(bench, spec.generation))
        await bench.settle()
        count = spec.ring_segments if code == "CLEAR" else 1
        assert bench.reference.golden.secrets.count(secret) == count
        await bench.send(*inserts(bench, spec.ring_segments * spec.generation))


# Time-based windows


@sentence()
async def bursts_and_trickles(bench: UnitUnderTest) -> None:
    spec, ticks = bench.spec, bench.ticks
    for _ in range(2):
        # More insertions at one time than a span can hold.
        await bench.send(*inserts(bench, (spec.window_generations + 2) * bench.generation))
        for _ in range(4 * spec.span):
            await bench.send(*inserts(bench, 1))
            await ticks.advance(1)
        await ticks.advance(spec.span + 2)
        await bench.send(*inserts(bench, 2))
        # An old generation must not shift the ring while the oldest segment is live.
        for _ in range(spec.window_generations + 1):
            await bench.send(*inserts(bench, bench.generation))
        await bench.send(*inserts(bench, 2))
        await ticks.advance(spec.generation_span)
        await bench.send(*inserts(bench, 2), (SHIFT, 0))
        await ticks.advance(3 * spec.span)
        await bench.send(*inserts(bench, 2))
    await bench.finish()
    golden = bench.reference.golden
    assert golden.shortened, "no segment was lost"
    assert golden.overfilled or spec.when_full == "shorten", "the ring was never overfilled"


@sentence()
async def a_key_is_reported_for_the_whole_span(bench: UnitUnderTest) -> None:
    key = bench.key()
    await bench.send((INSERT, key))
    for _ in range(bench.spec.span + 3):
        await bench.ticks.advance(1)
        await bench.settle()
        await bench.send((QUERY, key))
    await bench.settle()
    first, *others = bench.performed
    for query in others:
        assert query.seen == (query.time - first.time <= bench.spec.span), f"wrong result: {query}"
    assert {query.seen for query in others} == {True, False}


async def around_a_turn(bench: UnitUnderTest, end: str, age: int, distance: int) -> None:
    await bench.send(*inserts(bench, 2 * bench.generation))
    await bench.ticks.advance(max(age, bench.spec.generation_span if end == "age" else 0))
    await bench.send(*inserts(bench, bench.generation - 1 if end == "number" else 0))
    await ClockCycles(bench.dut.clk, 2 * bench.ticks.period + 16)
    code = {"SHIFT": SHIFT, "CLEAR": CLEAR}.get(end, CHECK)
    operations = [(code, bench.key()), *inserts(bench, 12)]
    pulse = cocotb.start_soon(bench.ticks.tick(after=8 + distance))
    await ClockCycles(bench.dut.clk, 8)
    await bench.send(*operations)
    await pulse
    await ClockCycles(bench.dut.clk, bench.ticks.period)


@sentence(end=["number", "age", "SHIFT"])
async def tick_at_every_distance_from_a_turn(bench: UnitUnderTest, end: str) -> None:
    for distance, age in itertools.product(range(-8, 9), (0, bench.spec.span)):
        await around_a_turn(bench, end, age, distance)


@sentence()
async def an_earlier_time_is_the_time_that_was_reached(bench: UnitUnderTest) -> None:
    for time in (100, 90, 95, 101, 0, 100, 120, 119):
        bench.ticks.time = time
        await bench.send(*inserts(bench, 2))
    # If an earlier time precedes a leap, the leap counts from the current time.
    bench.ticks.time = 119 + bench.spec.span - 1
    await bench.send(*inserts(bench, 2))


@sentence()
async def shift_that_waits_keeps_its_time(bench: UnitUnderTest) -> None:
    for step in (7, 1, 3):
        bench.ticks.time += step
        operations = [bench.item(SHIFT, 0) for _ in range(4)]
        for _ in range(3):
            bench.ticks.time += 1
            operations.append(bench.item(CHECK, bench.key()))
        await bench.send(*operations)


@sentence()
async def later_times_come_at_the_interval(bench: UnitUnderTest) -> None:
    async def later(steps: Iterable[int]) -> list[int]:
        # The first two ticks are stored; later ones are lost.
        for step in steps:
            bench.ticks.time += step
            await bench.send((QUERY, bench.key()))
        times = bench.driver.times[-8:]
        return [round((b - a) / PERIOD_NS) for a, b in itertools.pairwise(times)]

    span = bench.spec.span
    assert await later([1, 2, span, span + 1, 100] * 2) == [Stamps.INTERVAL] * 7
    for _ in range(bench.spec.segments):
        bench.ticks.time += 1
        await bench.send((INSERT, bench.key()), (SHIFT, 0))
    cycles = await later([span - 2, 1, 1, 1, 1, 100, 1, 1, span, 1])
    limit = Stamps.INTERVAL + TimeWindow.SETTLE * bench.spec.segments
    assert Stamps.INTERVAL < max(cycles) <= limit, f"cycles between requests: {cycles}"
