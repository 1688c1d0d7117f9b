"""A dictionary unit beside its golden model, in Amaranth's simulator, with memories that garble."""

from dataclasses import dataclass, field

import numpy as np
from garbage_memory import GarbageMemory
from unit_streams import UnitStreams

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
                age = int(self.model.apply([code], [key], [window]).age[0])
            due.append((age >= 0, max(age, 0), short))
        return due

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
