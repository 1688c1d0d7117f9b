"""A dictionary unit beside its golden model, in Amaranth's simulator, with memories that garble."""

import random
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from amaranth.sim import Simulator
from garbage_memory import GarbageMemory

from lately.golden import Operation, WindowDictionary
from lately.hdl.dictionary.unit import DictionaryUnit

ASKS = (Operation.QUERY, Operation.CHECK_AND_INSERT)


@dataclass
class Bench:
    """Operations to perform, and what comes of them."""

    spec: object
    seed: int = 1
    secret: int = 0
    stall: float = 0.0
    idle: float = 0.0
    results: list = field(default_factory=list)
    clocks: int = 0

    def run(self, operations):
        """Perform (code, key, window) one after another; compare all results with golden."""
        self.unit = DictionaryUnit(self.spec, memory=GarbageMemory, tag_bits=8)
        self.model = WindowDictionary.from_spec(self.spec)
        expected = self.expect(operations)
        simulator = Simulator(self.unit)
        simulator.add_clock(1e-6)
        simulator.add_testbench(partial(self.drive, operations), background=True)
        simulator.add_testbench(partial(self.take, len(operations)))
        simulator.run()
        for number, (found, due) in enumerate(zip(self.results, expected, strict=True)):
            assert found == due, f"seed {self.seed}, operation {number}: {operations[number]}"
        if all(code != Operation.CLEAR for code, *_ in operations):
            assert self.counts["lost"] == self.model.lost
        return self

    def expect(self, operations):
        """Results of the golden model: seen, age, status and tag."""
        due = []
        for number, (code, key, window) in enumerate(operations):
            short = code in ASKS and window > self.model.guaranteed_window
            age = -1
            if code != Operation.SHIFT:
                age = int(self.model.apply([code], [key], [window]).age[0])
            due.append((age >= 0, max(age, 0), short, number % 256))
        return due

    async def drive(self, operations, ctx):
        choose = random.Random(self.seed)
        unit = self.unit
        for number, (code, key, window) in enumerate(operations):
            while choose.random() < self.idle:
                await ctx.tick()
            for name, value in (
                ("key", key), ("operation", int(code)), ("window", window), ("tag", number % 256)
            ):  # fmt: skip
                ctx.set(getattr(unit.i.p, name), value)
            ctx.set(unit.i.valid, 1)
            await ctx.tick().until(unit.i.ready)
            ctx.set(unit.i.valid, 0)

    async def take(self, count, ctx):
        choose = random.Random(self.seed + 1)
        unit = self.unit
        self.first = None
        while len(self.results) < count:
            ctx.set(unit.o.ready, choose.random() >= self.stall)
            _, _, valid, ready, seen, age, status, tag = await ctx.tick().sample(
                unit.o.valid, unit.o.ready, unit.o.p.seen, unit.o.p.age, unit.o.p.status,
                unit.o.p.tag,
            )  # fmt: skip
            self.clocks += 1
            if valid and ready:
                self.first = self.clocks if self.first is None else self.first
                self.results.append((bool(seen), age, bool(status), tag))
            assert self.clocks < 50 * count + 20_000, "the unit hangs"
        for _ in range(40):
            await ctx.tick()
        self.read_back(ctx)

    def read_back(self, ctx):
        """Compare every live cell, and the counters."""
        spec, model, core = self.spec, self.model, self.unit._core
        number = ctx.get(core.columns[0].number)
        found = np.zeros((2, spec.columns, spec.rows), np.int64)
        for column, each in enumerate(core.columns):
            for row in range(spec.rows):
                word = ctx.get(each.memory.words.data[row])
                time = word >> 1 & (1 << spec.timestamp_bits) - 1
                distance = (number - time) % (1 << spec.timestamp_bits)
                if word & 1 and distance <= spec.window:
                    found[:, column, row] = distance, word >> 1 + spec.timestamp_bits
        assert np.array_equal(found, model.memory)
        assert ctx.get(self.unit.guaranteed) == model.guaranteed_window
        self.counts = {
            name: ctx.get(getattr(self.unit, name))
            for name in ("operations", "insertions", "hits", "lost")
        }
