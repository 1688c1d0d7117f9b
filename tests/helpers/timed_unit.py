"""Units whose window is one in time, in the simulator of Amaranth, against golden."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
from amaranth.sim import Simulator

from lately.golden import Operation, TimeLimitedRing
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
COUNTED = ("shortened", "overfilled", "shifts", "insertions")
CODES = [Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 4]


def timed(family, *, when_full="shorten", span=12):
    return replace(SPECS[family], span=span, when_full=when_full)


class Run:
    """A unit in simulation, and what it answered.

    Ticks of a port come at `distance()` clocks from one to the next, while that is not 0.
    """

    def __init__(self, spec, *, distance=None, **options):
        self.spec = spec
        self.unit = FilterUnit(spec, **options)
        self.ported = "tick" in self.unit.signature.members
        self.distance = distance or (lambda: self.unit.profile.least_period)
        self.ticks = 0
        self.done = []
        self.told = []
        self.accepted, self.delivered = [], []
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
                if valid and ready:
                    names = payload.shape().members
                    self.told.append({name: int(getattr(payload, name)) for name in names})
                    self.delivered.append(self.clock)
                self.clock += 1

        async def tick(ctx):
            while distance := self.distance():
                for late in reversed(range(distance)):
                    ctx.set(self.unit.tick, late == 0)
                    await ctx.tick()
                self.ticks += 1
            ctx.set(self.unit.tick, 0)
            self.distance = None

        async def drive(ctx):
            self._ctx = ctx
            if "period" in self.unit.signature.members:
                ctx.set(self.unit.period, self.unit.profile.least_period)
            await ctx.tick().repeat(self.unit.longest_pause + 2 * GENERATION_LEAD)
            await bench(self)
            if self.ported:
                await self._stop(ctx)
            elif "period" in self.unit.signature.members:
                await self._stop_period(ctx)
            await ctx.tick().repeat(500)

        simulator = Simulator(self.unit)
        simulator.add_clock(1e-6)
        # Testbenches run in this order in each clock: the others see the clock that `take` ends.
        simulator.add_testbench(drive)
        simulator.add_testbench(take, background=True)
        if self.ported:
            simulator.add_testbench(tick, background=True)
        simulator.run()
        return self

    async def _stop(self, ctx):
        """Let the last tick come, and ask what time it is when it has had its effect."""
        self.distance = lambda: 0
        while self.distance is not None:
            await ctx.tick()
        await ctx.tick().repeat(500)
        await self.perform(Operation.QUERY, 0)

    async def _stop_period(self, ctx):
        """Let no tick but the next one come, and ask what time it is then."""
        least = self.unit.profile.least_period
        while self.clock % least != least // 2:
            await ctx.tick()
        ctx.set(self.unit.period, (1 << len(self.unit.period)) - 1)
        self.ticks = self.clock // least + 1
        await ctx.tick().repeat(least + 500)
        await self.perform(Operation.QUERY, 0)

    async def perform(self, code, key, **fields):
        """Offer an operation until it is accepted, or with NONE let a clock pass."""
        ctx, unit = self._ctx, self.unit
        valid = code != Operation.NONE
        ctx.set(unit.i.valid, valid)
        request = {"key": key, "operation": code, "tag": len(self.done) % 256, **fields}
        for name, value in request.items():
            ctx.set(getattr(unit.i.p, name), value)
        while True:
            *_, ready = await ctx.tick().sample(unit.i.ready)
            if ready or not valid:
                break
            self.waits += 1
        ctx.set(unit.i.valid, 0)
        if valid:
            self.done.append((code, key, fields.get("time", 0)))
            self.accepted.append(self.clock)

    def latencies(self):
        """Return the clocks from the acceptance of each operation to its result."""
        pairs = zip(self.accepted, self.delivered, strict=True)
        return [delivered - accepted for accepted, delivered in pairs]

    def intervals(self):
        """Return the clocks from each result to the next."""
        return [later - one for one, later in pairwise(self.delivered)]

    def times(self):
        """Return the times of the operations, made out of their low bits."""
        low = np.array([told["time"] for told in self.told], np.int64)
        wraps = np.cumsum(np.diff(low, prepend=0) < 0)
        return low + wraps * (1 << len(self.unit.o.p.time))

    def check(self):
        """Compare answers, statuses and counters with golden's."""
        assert [told["tag"] for told in self.told] == [n % 256 for n in range(len(self.done))]
        if self.ported or "period" in self.unit.signature.members:
            now = self.told[-1]["time"]
            assert now == self.ticks % (1 << len(self.unit.o.p.time)), "a tick was lost"
        model = TimeLimitedRing(self.spec)
        codes, keys, _ = map(list, zip(*self.done, strict=True))
        expected = model.perform(np.array(codes, np.uint8), keys, self.times())
        for name, values in (("seen", expected.seen), ("status", expected.status),
                             ("age", np.maximum(expected.age, 0))):  # fmt: skip
            got = np.array([told[name] for told in self.told])
            assert (got == values).all(), f"{name} at {np.flatnonzero(got != values)[:5]}"
        if "covered" in self.told[0]:
            got = np.array([told["covered"] for told in self.told])
            values = expected.covered
            assert (got == values).all(), f"covered at {np.flatnonzero(got != values)[:5]}"
        self.counts = {name: self._ctx.get(getattr(self.unit, name)) for name in COUNTED}
        assert self.counts == {name: getattr(model, name) for name in COUNTED}
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
