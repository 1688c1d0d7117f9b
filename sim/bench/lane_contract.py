"""Contract tests for multi-lane units."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from ...golden import Operation
from .contract import CHECK, CLEAR, INSERT, NONE, QUERY, SHIFT
from .parts import Beat
from .reference import shards_of
from .testplan import sentence
from .unit import PERIOD_NS, UnitUnderTest

CODES = (NONE, QUERY, INSERT, CHECK)  # operations of a lane


def beat(
    bench: UnitUnderTest, *operations: tuple[Operation, int] | None, alone: Operation = NONE
) -> Beat:
    """Return a beat with (operation, key) pairs from lane 0 on; None leaves a lane idle."""
    items = [None if operation is None else bench.item(*operation) for operation in operations]
    return Beat(alone, (*items, *[None] * (bench.signature.lanes - len(items))))


def full(bench: UnitUnderTest, count: int) -> list[Beat]:
    return bench.beats([(CHECK, bench.key()) for _ in range(count * bench.signature.lanes)])


def operations_per_cycle(bench: UnitUnderTest) -> float:
    times = bench.driver.times
    return len(bench.performed) / ((times[-1] - times[0]) / PERIOD_NS + 1)


@sentence()
async def full_beats_turn_the_ring(bench: UnitUnderTest) -> None:
    spec = bench.spec
    count = (2 * spec.segments + 1) * spec.generation // bench.signature.lanes + 1
    await bench.driver.send(full(bench, count))
    await bench.finish()
    assert bench.reference.golden.shifts >= 2 * spec.segments, "the ring did not wrap"


@sentence()
async def queries_flow_in_all_lanes(bench: UnitUnderTest) -> None:
    lanes = bench.signature.lanes
    await bench.perform(*[(QUERY, bench.any_key()) for _ in range(300 * lanes)])
    rate = operations_per_cycle(bench)
    assert rate > 0.95 * lanes, f"only {rate} operations per cycle"


@sentence()
async def ring_turns_for_an_insertion_in_every_lane(bench: UnitUnderTest) -> None:
    lanes, golden = bench.signature.lanes, bench.reference.golden
    for company, lane in itertools.product(("others", "none", "its own key"), range(lanes)):
        alone = company == "none"
        before = bench.generation - (0 if alone else lane)
        await bench.send((SHIFT, 0), *[(INSERT, bench.key()) for _ in range(before)])
        await bench.settle()
        shifts = golden.shifts
        keys = [bench.key() for _ in range(lanes)]
        keys = keys[:1] * lanes if company == "its own key" else keys
        turning = [None if alone and n != lane else (CHECK, keys[n]) for n in range(lanes)]
        await bench.driver.send([beat(bench, *turning)])
        await bench.send(*[(QUERY, key) for key in keys])
        await bench.settle()
        assert golden.shifts == shifts + 1, (
            f"wrong number of shifts: lane {lane}, other lanes {company}"
        )


@sentence()
async def turn_comes_before_the_lanes(bench: UnitUnderTest) -> None:
    beats = []
    for phase in range(0, bench.spec.generation // bench.signature.lanes + 2, 2):
        turn = CLEAR if phase % 8 == 6 else SHIFT
        lanes = [(CHECK, bench.key()) for _ in range(phase // 2 % bench.signature.lanes)]
        beats += [*full(bench, phase), beat(bench, *lanes, alone=turn), *full(bench, 1)]
    await bench.driver.send(beats)


@sentence()
async def turns_one_after_another(bench: UnitUnderTest) -> None:
    beats = []
    for first, second in itertools.product((SHIFT, CLEAR), repeat=2):
        for pause in range(4):
            beats += [*full(bench, 3), beat(bench, (INSERT, bench.key()), alone=first)]
            beats += [*full(bench, pause), beat(bench, (QUERY, bench.key()), alone=second)]
    await bench.driver.send(beats)


@sentence()
async def every_combination_on_one_key(bench: UnitUnderTest) -> None:
    lanes = itertools.product((None, *CODES), repeat=bench.signature.lanes)
    every = [*itertools.product((NONE, SHIFT, CLEAR), lanes)]
    beats = []
    for alone, codes in bench.random.sample(every, min(100, len(every))):
        key = bench.key()
        operations = [None if code is None else (code, key) for code in codes]
        beats += [beat(bench, *operations, alone=alone), beat(bench, (QUERY, key))]
    await bench.driver.send(beats)


@sentence()
async def one_key_flows(bench: UnitUnderTest) -> None:
    await bench.perform(*[(CHECK, bench.key())] * (5 * bench.spec.generation))
    rate = operations_per_cycle(bench)
    assert rate > 1, f"only {rate} operations per cycle"


@sentence()
async def hot_key(bench: UnitUnderTest) -> None:
    hot, draw = bench.key(), bench.random
    keys = [hot if draw.random() < 0.5 else bench.key() for _ in range(300 * bench.signature.lanes)]
    codes = draw.choices(CODES[1:], [1, 1, 4], k=len(keys))
    await bench.send(*zip(codes, keys, strict=True))


@sentence()
async def keys_of_one_shard_wait(bench: UnitUnderTest) -> None:
    keys = [*range(min(1 << bench.spec.key_bits, 256))]
    shards = shards_of(bench.spec, keys).tolist()
    same = [key for key, shard in zip(keys, shards, strict=True) if shard == 0]
    # No key occurs twice in a beat, so each key is looked up in its shard.
    count = 300 * bench.signature.lanes
    await bench.send(*[(CHECK, same[number % len(same)]) for number in range(count)])
    assert any(bench.driver.waits), "no beat waited"


@sentence(into=[0.0, 0.7])
async def secret_comes_in_with_a_clear_at_full_rate(bench: UnitUnderTest, into: float) -> None:
    driver, lanes = bench.driver, bench.signature.lanes
    beats = [
        beat(bench, *[(CHECK, bench.key())] * lanes, alone=NONE if number % 20 else CLEAR)
        for number in range(120)
    ]
    sent = len(driver.times)

    def adopted(since: float) -> float | None:
        accepted = zip(driver.times[sent:], beats, strict=False)
        return next((time for time, taken in accepted if taken.alone and time >= since), None)

    sending = cocotb.start_soon(driver.send(beats, stalls=bench.stalls(into)))
    pauses = []
    for _ in range(2):
        await bench.load_secret()
        loaded = bench.secrets[-1]
        while (turn := adopted(loaded + bench.secret_lead * PERIOD_NS)) is None:
            assert not sending.done(), "no CLEAR adopted the secret"
            await RisingEdge(bench.dut.clk)
        await ClockCycles(bench.dut.clk, bench.random.randrange(1, 60))
        # While a secret waits, beats keep their minimum distance, also from the previous beat.
        times = [time for time in driver.times[sent:] if time <= turn]
        pauses += [after - before for before, after in itertools.pairwise(times)
                   if after > loaded + 2 * PERIOD_NS]  # fmt: skip
    await sending
    cycles = min(pauses) / PERIOD_NS
    assert cycles >= bench.unit.SECRET_PACE, f"beats {cycles} cycles apart while a secret waits"
