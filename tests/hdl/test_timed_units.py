"""Units whose window is one in time, against golden at the times that they tell."""

import itertools
import random
from dataclasses import replace

import pytest
from timed_unit import SEED, SPECS, Run, stream, timed

from lately.golden import Operation
from lately.hdl import FilterUnit
from lately.hdl.frontend.request_times import Stamps
from lately.hdl.frontend.time_window import TimeWindow
from lately.hdl.latencies import TICKS_WAITING
from lately.hdl.profile import HardwareProfile

# Each family with one choice, and each choice with two families; all pairs take longer.
PAIRS = [
    pytest.param(family, when_full, marks=[pytest.mark.slow] if (one + other) % 2 else [])
    for one, family in enumerate(SPECS)
    for other, when_full in enumerate(["shorten", "overfill"])
]


@pytest.mark.parametrize("memory", ["portable", "ecp5", "gowin", "ice40", "ice40-strict"])
def test_times_are_read_with_the_clock_where_tables_hold_no_memories(memory):
    unit = FilterUnit(timed("apbbf"), memory=memory)
    assert unit._window._synchronous == memory.startswith("ice40")


@pytest.mark.parametrize(("family", "when_full"), PAIRS)
def test_ticks_of_a_port(family, when_full):
    """Full rate, half rate and trickles, with SHIFT and CLEAR; results taken with pauses."""
    choose = random.Random(SEED)
    run = Run(timed(family, when_full=when_full), tells_covered=True)

    async def bench(run):
        for rate, control in ((1.0, 0), (0.5, 0.01), (0.03, 0), (1.0, 0.003), (0.0, 0), (0.2, 0)):
            for code, key in stream(run, choose, 400, rate=rate, control=control):
                await run.perform(code, key)

    expected = run.run(bench, taking=0.9).check()
    assert len({told["covered"] for told in run.told}) > 5
    assert {0, 1 if when_full == "shorten" else 2} <= set(expected.status.tolist())


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, marks=pytest.mark.slow if family in ("apbf", "blocked-gebf") else ())
        for family in SPECS
    ],
)
def test_ticks_of_a_period_never_close_the_input(family):
    """At the least period and full rate, through ends of generations by number and by age."""
    run = Run(timed(family), ticks="period")
    choose = random.Random(SEED)

    async def bench(run):
        for rate in (1.0, 0.1, 0.02, 1.0):
            for code, key in stream(run, choose, 700, rate=rate):
                await run.perform(code, key)

    run.run(bench).check()
    assert run.waits == 0, "the input closed"


def test_no_tick_of_a_port_is_lost_at_full_rate():
    """Ticks come in bursts of as many as may wait, as many on average as may come."""
    run = Run(timed("gebf"))
    # The first of a burst does not wait.
    count, least = TICKS_WAITING, run.unit.profile.least_period
    clocks = itertools.cycle([count * least - count, *[1] * (count - 1)])
    run.distance = lambda: next(clocks)
    choose = random.Random(SEED)

    async def bench(run):
        for code, key in stream(run, choose, 3 * count * least, rate=1.0):
            await run.perform(code, key)

    run.run(bench).check()
    assert run.ticks >= 3 * count


@pytest.mark.parametrize(("family", "when_full"), PAIRS)
def test_times_of_requests(family, when_full):
    """Equal times, small steps, the very span, and silences that would wrap the window's times."""
    spec = timed(family, when_full=when_full)
    run = Run(spec, ticks="time", time_bits=16, tells_covered=True)
    choose = random.Random(SEED)

    async def bench(run):
        time = 0
        steps = [*[0] * 30, 1, 1, 2, 4, spec.span, spec.span + 1, 3 * spec.span, 64, 4096]
        for rate, control in ((1.0, 0), (0.7, 0.02), (1.0, 0.01)):
            for code, key in stream(run, choose, 400, rate=rate, control=control):
                time += choose.choice(steps) if choose.random() < 0.5 else 0
                await run.perform(code, key, time=time % (1 << 16))

    run.run(bench, taking=0.95)
    assert [told["time"] for told in run.told] == [time for *_, time in run.done]
    run.check()


def test_operations_of_one_time_come_every_clock():
    run = Run(timed("apbbf"), ticks="time", time_bits=16)

    async def bench(run):
        for number in range(200):
            await run.perform(Operation.CHECK_AND_INSERT, number, time=7)

    run.run(bench).check()
    # Those behind the first one wait until time has gone on.
    assert 0 < run.waits < 40


@pytest.mark.parametrize("later", [95, 3 << 13])
def test_a_time_that_goes_back_counts_as_the_time_reached(later):
    """Whether it was reached by a step or by a leap."""
    run = Run(timed("apbbf"), ticks="time", time_bits=16)

    async def bench(run):
        for time in (90, 5 + later, later, 6 + later, 5 + later):
            await run.perform(Operation.CHECK_AND_INSERT, 5, time=time)

    run.run(bench).check()
    assert [told["time"] - later for told in run.told[1:]] == [5, 5, 6, 6]


def test_a_time_that_goes_back_makes_the_next_step_no_leap():
    """The next step is counted from the time reached: 5 ticks, and not 15 of a span of 12."""
    run = Run(timed("apbbf"), ticks="time", time_bits=16)

    async def bench(run):
        await run.perform(Operation.INSERT, 5, time=1000)
        await run.perform(Operation.QUERY, 6, time=990)
        await run.perform(Operation.QUERY, 5, time=1005)

    run.run(bench).check()
    assert [told["seen"] for told in run.told] == [0, 0, 1]


def test_a_shift_that_waits_for_the_spare_keeps_its_time():
    """Though an operation of a later time waits behind it."""
    run = Run(timed("apbbf"), ticks="time", time_bits=16)
    times = [7, 7, 7, 7, 8, 9]

    async def bench(run):
        for time in times[:4]:
            await run.perform(Operation.SHIFT, 0, time=time)
        for time in times[4:]:
            await run.perform(Operation.CHECK_AND_INSERT, 5, time=time)

    run.run(bench).check()
    assert [told["time"] for told in run.told] == times


@pytest.mark.parametrize(
    ("family", "ticks"),
    [*((family, "tick") for family in SPECS), ("gebf", "period"), ("apbf", "time")],
)
def test_latency(family, ticks):
    spec = timed(family)
    run = Run(spec, ticks=ticks)

    async def bench(run):
        for number in range(5):
            await run.perform(Operation.CHECK_AND_INSERT, number)

    run.run(bench).check()
    profile = HardwareProfile(spec)
    expected = profile.latency + (Stamps.LATENCY if ticks == "time" else 0)
    assert expected == run.unit.latency
    assert set(run.latencies()) == {expected}


def test_interval_of_later_times():
    """As stated, and longer for each settled segment that expires; never for a silence."""
    spec = timed("apbbf", when_full="overfill")
    run = Run(spec, ticks="time", time_bits=16)
    # After the two at first: no segment expires, one does, and two.
    times = {11: 0, 12: 0, 14: 1, 100: 2, 101: 0, 103: 0, 500: 0, 5000: 0}

    async def bench(run):
        for time in (0, 1, 2, 3):
            await run.perform(Operation.INSERT, 5, time=time)
            await run.perform(Operation.SHIFT, 0, time=time)
        for time in times:
            await run.perform(Operation.QUERY, 5, time=time)

    run.run(bench).check()
    expected = [Stamps.INTERVAL + TimeWindow.SETTLE * count for count in times.values()]
    assert run.intervals()[1 - len(times) :] == expected[1:]


SILENCES = [1, 13, 64, 5000, 30_000]


def seen_at(spec, insertions, ages):
    """Return whether a key is seen at each age; `insertions` are ages of it or another one."""
    run = Run(spec, ticks="time", time_bits=16)

    async def bench(run):
        for age, key in insertions:
            await run.perform(Operation.INSERT, key, time=1000 + age)
        for age in ages:
            await run.perform(Operation.QUERY, 5, time=1000 + age)

    run.run(bench).check()
    return [told["seen"] for told in run.told[len(insertions) :]]


@pytest.mark.parametrize("family", SPECS)
def test_a_key_is_reported_for_the_whole_span_and_not_a_tick_longer(family):
    spec = timed(family)
    ages = [spec.span, *(spec.span + silence for silence in SILENCES)]
    assert seen_at(spec, [(0, 5)], ages) == [1, *[0] * len(SILENCES)]


@pytest.mark.parametrize("family", SPECS)
def test_a_key_is_reported_no_longer_than_the_last_of_its_generation(family):
    """The slack of the window: a generation gets no insertion once it is old."""
    spec = timed(family)
    last = spec.generation_span - 1
    insertions = [(0, 5), (last, 6), *[(last + 1, 7)] * spec.run]
    ages = [last + spec.span, *(last + spec.span + silence for silence in SILENCES)]
    assert seen_at(spec, insertions[:2], ages) == [1, *[0] * len(SILENCES)]
    # Where several segments are written, the next ones keep a trace of the key for a while.
    if spec.run == 1:
        assert seen_at(spec, insertions, ages) == [1, *[0] * len(SILENCES)]


def test_no_silence_brings_a_key_back():
    """Through all times that the window can tell apart, and what comes round again."""
    run = Run(timed("gebf", span=3))
    asked = range(4 * (1 << len(run.unit.o.p.time)))

    async def bench(run):
        await run.perform(Operation.INSERT, 5)
        for _ in asked:
            await run.perform(Operation.QUERY, 5)
            for _ in range(run.unit.profile.least_period - 1):
                await run.perform(Operation.NONE, 0)

    run.run(bench).check()
    age = run.times() - run.times()[0]
    assert [told["seen"] for told in run.told[1:]] == [*(age[1:] <= 3)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 2, "blocks": 48}, "lanes: must be 1 with a span, not 2"),
        ({"generation": 15, "clear": 16}, "generation: must be at least 16 for a window in time"),
        ({"span": 1}, "generation_span: must be at least 2 ticks for hardware, not 1"),
    ],
)
def test_span_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        FilterUnit(replace(timed("apbbf"), window=None, generation_span=None, **changes))


def test_ticks_wrong():
    with pytest.raises(ValueError, match="Ticks must be tick or period or time, not 'clock'"):
        FilterUnit(timed("apbbf"), ticks="clock")
