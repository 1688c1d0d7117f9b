"""Units whose window is one in time, against golden at the times that they tell."""

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import Simulator

from lately.golden import FilterSpec, Operation, TimeLimitedRing
from lately.golden.spec import APBBFSpec, APBFSpec, BlockedGEBFSpec, GEBFSpec
from lately.hdl import FilterUnit
from lately.hdl.latencies import GENERATION_LEAD

SEED = 8128
SPECS = {
    "apbf": APBFSpec(k=3, l=4, slice_bits=64, generation=20, key_bits=16),
    "apbbf": APBBFSpec(k=2, l=3, block_bits=16, hashes_per_block=2, blocks=16, generation=20,
                       key_bits=16),
    "gebf": GEBFSpec(window=72, epochs=3, hashes=2, bits=1024, key_bits=16),
    "blocked-gebf": BlockedGEBFSpec(window=72, epochs=3, hashes=2, block_bits=32, bits=1024,
                                    key_bits=16),
}  # fmt: skip
# Each family with one choice, and each choice with two families; all pairs take longer.
PAIRS = [
    pytest.param(family, when_full, marks=[pytest.mark.slow] if (one + other) % 2 else [])
    for one, family in enumerate(SPECS)
    for other, when_full in enumerate(["shorten", "overfill"])
]
CODES = [Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 4]


def timed(family, *, when_full="shorten", span=12):
    return replace(SPECS[family], span=span, when_full=when_full)


class Run:
    """A unit in simulation, and what it answered."""

    def __init__(self, spec, **options):
        self.spec = spec
        self.unit = FilterUnit(spec, **options)
        self.done = []
        self.told = []
        self.waits = 0
        self.clock = 0

    def run(self, bench, *, taking=1.0):
        """Have `bench` drive the unit; results are taken in that share of the clocks."""
        choose = random.Random(SEED)

        async def take(ctx):
            while True:
                ctx.set(self.unit.o.ready, choose.random() < taking)
                sampled = await ctx.tick().sample(
                    self.unit.o.valid, self.unit.o.ready, self.unit.o.p
                )
                *_, valid, ready, payload = sampled
                self.clock += 1
                if valid and ready:
                    names = ("seen", "age", "status", "time", "tag")
                    self.told.append({name: int(getattr(payload, name)) for name in names})

        async def drive(ctx):
            self._ctx = ctx
            if "period" in self.unit.signature.members:
                ctx.set(self.unit.period, self.unit.profile.least_period)
            await ctx.tick().repeat(self.unit.longest_pause + 2 * GENERATION_LEAD)
            await bench(self)
            await ctx.tick().repeat(500)

        simulator = Simulator(self.unit)
        simulator.add_clock(1e-6)
        simulator.add_testbench(drive)
        simulator.add_testbench(take, background=True)
        simulator.run()
        return self

    async def perform(self, code, key, *, tick=False, **fields):
        """Offer an operation until it is accepted, or with NONE let a clock pass."""
        ctx, unit = self._ctx, self.unit
        valid = code != Operation.NONE
        ctx.set(unit.i.valid, valid)
        request = {"key": key, "operation": code, "tag": len(self.done) % 256, **fields}
        for name, value in request.items():
            ctx.set(getattr(unit.i.p, name), value)
        while True:
            if "tick" in unit.signature.members:
                ctx.set(unit.tick, tick)
            tick = False
            *_, ready = await ctx.tick().sample(unit.i.ready)
            if ready or not valid:
                break
            self.waits += 1
        ctx.set(unit.i.valid, 0)
        if "tick" in unit.signature.members:
            ctx.set(unit.tick, 0)
        if valid:
            self.done.append((code, key, fields.get("time", 0)))

    def times(self):
        """Return the times of the operations, made out of their low bits."""
        low = np.array([told["time"] for told in self.told], np.int64)
        wraps = np.cumsum(np.diff(low, prepend=0) < 0)
        return low + wraps * (1 << len(self.unit.o.p.time))

    def check(self):
        """Compare answers, statuses and counters with golden's."""
        assert [told["tag"] for told in self.told] == [n % 256 for n in range(len(self.done))]
        model = TimeLimitedRing(self.spec)
        codes, keys, _ = map(list, zip(*self.done, strict=True))
        expected = model.perform(np.array(codes, np.uint8), keys, self.times())
        for name, values in (("seen", expected.seen), ("status", expected.status),
                             ("age", np.maximum(expected.age, 0))):  # fmt: skip
            got = np.array([told[name] for told in self.told])
            assert (got == values).all(), f"{name} at {np.flatnonzero(got != values)[:5]}"
        for name in ("shortened", "overfilled", "shifts", "insertions"):
            assert self._ctx.get(getattr(self.unit, name)) == getattr(model, name), name
        return expected


def stream(run, choose, count, *, rate, control=0.0):
    """Yield operations and keys, some of them few keys, with pauses."""
    pool = [choose.randrange(1 << 16) for _ in range(60)]
    for _ in range(count):
        if choose.random() < control:
            yield choose.choice([Operation.SHIFT, Operation.CLEAR]), 0
        elif choose.random() < rate:
            yield choose.choice(CODES), choose.choice(pool)
        else:
            yield Operation.NONE, 0


@pytest.mark.parametrize(("family", "when_full"), PAIRS)
def test_ticks_of_a_port(family, when_full):
    """Full rate, half rate and trickles, with SHIFT and CLEAR; results taken with pauses."""
    choose = random.Random(SEED)
    run = Run(timed(family, when_full=when_full))
    period = run.unit.profile.least_period

    async def bench(run):
        clock = 0
        for rate, control in ((1.0, 0), (0.5, 0.01), (0.03, 0), (1.0, 0.003), (0.0, 0), (0.2, 0)):
            for code, key in stream(run, choose, 400, rate=rate, control=control):
                await run.perform(code, key, tick=run.clock // period > clock)
                clock = max(clock, run.clock // period)

    expected = run.run(bench, taking=0.9).check()
    assert {0, 1 if when_full == "shorten" else 2} <= set(expected.status.tolist())


@pytest.mark.parametrize("family", SPECS)
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
    least = run.unit.profile.least_period
    assert abs(run.times()[-1] - (run.clock - 500) / least) < 3


@pytest.mark.parametrize(("family", "when_full"), PAIRS)
def test_times_of_requests(family, when_full):
    """Equal times, small steps, the very span, and silences that would wrap the window's times."""
    spec = timed(family, when_full=when_full)
    run = Run(spec, ticks="time", time_bits=16)
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


def test_a_time_that_goes_back_counts_as_the_time_reached():
    run = Run(timed("apbbf"), ticks="time", time_bits=16)

    async def bench(run):
        for time in (100, 90, 95, 101, 100):
            await run.perform(Operation.CHECK_AND_INSERT, 5, time=time)

    run.run(bench).check()
    assert [told["time"] for told in run.told] == [100, 100, 100, 101, 101]


@pytest.mark.parametrize("age", [12, 13])
@pytest.mark.parametrize("family", SPECS)
def test_a_key_is_reported_for_the_whole_span_and_not_a_tick_longer(family, age):
    run = Run(timed(family), ticks="time", time_bits=16)

    async def bench(run):
        await run.perform(Operation.INSERT, 5, time=1000)
        await run.perform(Operation.QUERY, 5, time=1000 + age)

    run.run(bench).check()
    assert run.told[-1]["seen"] == (age == 12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 2, "blocks": 48}, "lanes: must be 1 for FilterUnit, not 2"),
        ({"generation": 15, "clear": 16}, "generation: must be at least 16 for a window in time"),
        ({"span": 1}, "generation_span: must be at least 2 ticks for hardware, not 1"),
    ],
)
def test_span_wrong(changes, message):
    spec: FilterSpec = replace(timed("apbbf"), window=None, generation_span=None, **changes)
    with pytest.raises(ValueError, match=message):
        FilterUnit(spec)


def test_ticks_wrong():
    with pytest.raises(ValueError, match="Ticks must be tick or period or time, not 'clock'"):
        FilterUnit(timed("apbbf"), ticks="clock")
