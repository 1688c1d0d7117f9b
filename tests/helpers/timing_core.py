"""Timing cores in the simulator of Amaranth, against the golden model, with garbage in reads."""

import random
from collections import deque

import numpy as np
from amaranth.sim import Simulator
from garbage_memory import GarbageMemory

from lately.golden import Operation, TimedTimingFilter, timing_preset
from lately.hdl.control import Control
from lately.hdl.latencies import CONTROL_LAG
from lately.hdl.timing.core import TimingCore

NOTHING: dict[str, int] = {}
SPEC = timing_preset("tiny")
CLOCKS = 64


class Bench:
    """Operations into a core, one per clock, and what comes out of it.

    A tick comes every `clocks` clocks, with the operation of that clock or beside none.
    """

    def __init__(self, core, spec, *, clocks=CLOCKS):
        self.core, self.spec, self.clocks = core, spec, clocks
        self.sent, self.verdicts = [], []
        self.until, self.now = clocks, 0
        self.controls = deque([NOTHING] * CONTROL_LAG)

    async def start(self, ctx):
        """Wait until the memory is clear."""
        while not ctx.get(self.core.clean):
            await ctx.tick()

    async def send(self, ctx, operation, key=0, window=0):
        """Let a clock pass with an operation, NONE for none."""
        self.until -= 1
        tick = self.until == 0
        if tick:
            self.until, self.now = self.clocks, self.now + 1
        code = int(operation)
        ctx.set(self.core.key, key)
        ctx.set(self.core.window, window)
        if code:
            self.sent.append((code, key, window, self.now))
        await self.clock(ctx, {
            "valid": code != 0, "query": code & 1, "insert": code >> 1 & 1, "shift": tick,
        })  # fmt: skip

    async def clock(self, ctx, control=NOTHING):
        """Let a clock pass with a control, which follows its key; take the verdict that comes."""
        self.controls.append(control)
        ctx.set(self.core.control, Control.const(self.controls.popleft()))
        await ctx.tick()
        if ctx.get(self.core.valid):
            verdict = ctx.get(self.core.verdict)
            self.verdicts.append((verdict.seen, verdict.age, verdict.oldest))

    async def silence(self, ctx, clocks):
        """Send nothing for some clocks."""
        for _ in range(clocks):
            await self.send(ctx, Operation.NONE)

    def read_memory(self, ctx):
        """Take the age of each cell, as the golden model's memory has them."""
        codes, limit = 1 << self.spec.stamp_bits, self.spec.window_blocks + 1
        self.memory = [
            [min((self.now - ctx.get(part.memory.words.data[cell])) % codes, limit)
             for cell in range(self.spec.cells)]
            for part in self.core.parts
        ]  # fmt: skip

    def errors(self):
        """Numbers of the operations whose verdict is not that of the golden model; -1 if cells."""
        assert len(self.verdicts) == len(self.sent)
        codes, keys, windows, times = np.array(self.sent).T
        golden = TimedTimingFilter.from_spec(self.spec)
        results = golden.perform(codes, keys.astype(np.uint64), times, windows)
        expected = results.seen, results.age, results.oldest
        wrong = [
            number
            for number, (got, *rest) in enumerate(zip(self.verdicts, *expected, strict=True))
            if got != tuple(rest)
        ]
        same = golden.memory_at(self.now).tolist() == self.memory
        return wrong if same else [*wrong, -1]


def simulate(stream, *, spec=SPEC, clocks=CLOCKS, core=None):
    """Run a stream, a coroutine that takes context and bench, and return the bench."""
    core = core or TimingCore(spec, memory=GarbageMemory)
    bench = Bench(core, spec, clocks=clocks)

    async def testbench(ctx):
        await bench.start(ctx)
        await stream(ctx, bench)
        await bench.silence(ctx, core.latency + 1)
        bench.read_memory(ctx)

    simulator = Simulator(core)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    return bench


def random_stream(seed, clocks, *, keys=60, idle=0.1, inserts=0.5):
    """Return a stream of random operations on a few keys, in spells of each kind."""
    choose = random.Random(seed)

    async def stream(ctx, bench):
        hot, spell = 0, 0.0
        for _ in range(clocks):
            if choose.random() < 0.01:
                hot, spell = choose.randrange(keys), choose.choice([0, 0.5, 1])
            key = hot if choose.random() < spell else choose.randrange(keys)
            kind = choose.choice([Operation.INSERT, Operation.CHECK_AND_INSERT])
            operation = kind if choose.random() < inserts else Operation.QUERY
            operation = Operation.NONE if choose.random() < idle else operation
            window = choose.randrange(bench.spec.window_blocks + 1)
            await bench.send(ctx, operation, key, window)

    return stream
