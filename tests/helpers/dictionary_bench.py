"""A dictionary unit beside its golden model, in Amaranth's simulator, with memories that garble."""

from dataclasses import dataclass, field

import numpy as np
from garbage_memory import GarbageMemory, with_own_garbage
from unit_streams import UnitStreams
from upsets import column_words

from lately.golden import Operation, WindowDictionary
from lately.hdl.build import filter_unit

ASKS = (Operation.QUERY, Operation.CHECK_AND_INSERT)


@dataclass
class Bench:
    """Operations to perform, and what comes of them."""

    spec: object
    seed: int = 1
    secret: int = 0
    stall: float = 0.0
    idle: float = 0.0
    protect: str = "none"
    results: list = field(default_factory=list)
    clocks: int = 0

    def run(self, operations):
        """Perform (code, key, window) one after another; compare all results with golden."""
        memory = GarbageMemory if self.protect == "none" else with_own_garbage(GarbageMemory)
        self.unit = filter_unit(self.spec, memory=memory, tag_bits=8, protect=self.protect)
        self.model = WindowDictionary.from_spec(self.spec)
        expected = self.expect(operations)
        streams = UnitStreams(
            self.unit, ("seen", "age", "status"), self.seed, self.idle, self.stall
        )
        requests = [
            {"operation": int(code), "key": key, "window": window}
            for code, key, window in operations
        ]
        self.results = streams.run(requests, finish=self.read_back)
        self.clocks, self.first = streams.clocks, streams.first
        for number, (found, due) in enumerate(zip(self.results, expected, strict=True)):
            assert self.agree(found, due), (
                f"seed {self.seed}, operation {number}: {operations[number]}"
            )
        if all(code != Operation.CLEAR for code, *_ in operations):
            self.compare_lost()
        return self

    def agree(self, found, due):
        """Whether a result is as golden's."""
        return found == due

    def compare_lost(self):
        """Compare what was given up."""
        assert self.counts["lost"] == self.model.lost

    def expect(self, operations):
        """Results of the golden model: seen, age and status."""
        due = []
        for code, key, window in operations:
            short = code in ASKS and window > self.model.guaranteed_window
            age = -1
            if code != Operation.SHIFT:
                age = int(self.model.apply([code], [key], windows=[window]).age[0])
            due.append((age >= 0, max(age, 0), short))
        return due

    def read_back(self, ctx):
        """Compare every live cell, and the counters."""
        spec, model, core = self.spec, self.model, self.unit.core
        number = ctx.get(core.columns[0].number)
        found = np.zeros((2, spec.columns, spec.rows), np.int64)
        for column, row, time, rest in self.cells(ctx):
            distance = (number - time) % (1 << spec.timestamp_bits)
            if distance <= spec.window:
                found[:, column, row] = distance, rest
        assert np.array_equal(found, model.memory)
        assert ctx.get(self.unit.guaranteed) == model.guaranteed_window
        self.counts = {name: ctx.get(getattr(self.unit, name)) for name in self.unit.counters}

    def cells(self, ctx):
        """Column, row, number and rest of every cell in use, live or not."""
        spec = self.spec
        for column, (words, *_) in enumerate(column_words(self.unit)):
            for row in range(spec.rows):
                word = ctx.get(words.data[row])
                if word & 1:
                    time = word >> 1 & (1 << spec.timestamp_bits) - 1
                    rest = word >> 1 + spec.timestamp_bits & (1 << spec.rest_bits) - 1
                    yield column, row, time, rest
