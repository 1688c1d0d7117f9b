"""A timing unit beside its golden model, in Amaranth's simulator, with memories that garble."""

import random

import numpy as np
from garbage_memory import GarbageMemory
from unit_streams import UnitStreams
from upsets import copies_of

from lately.golden import Operation, PartitionedTimingFilter, from_spec
from lately.hdl.build import filter_unit

TICK_LAG = 5
"""Clocks from a tick that need not wait until the time is that of it."""

HAS_KEY = (Operation.NONE, Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT)


class Bench:
    """Operations to perform, each (code, key, window), or a number of clocks without any.

    Attributes
    ----------
    results : list of (seen, age, oldest, time)
        Without a time if the clock counts insertions.
    now : int
        Ticks at the end; modulo those that stamps tell apart if the clock counts insertions.
    """

    def __init__(self, spec, *, seed=1, idle=0.0, stall=0.0, gap=0, **options):
        self.spec, self.seed, self.gap = spec, seed, gap
        self.model = from_spec(spec)
        self.timed = not isinstance(self.model, PartitionedTimingFilter)
        taken = ("seen", "age", "oldest")
        if self.timed:
            # So many bits that the time does not come round.
            taken, options = (*taken, "time"), {**options, "time_bits": 24}
        self.unit = filter_unit(spec, **{"memory": GarbageMemory, **options})
        self.streams = UnitStreams(self.unit, taken, seed, idle, stall)
        # Clocks so far, and those in which ticks came.
        self.clock, self.given = 0, []

    def run(self, operations, *others):
        """Perform them; compare all results, the cells and the counters with golden.

        Beside `others`, further test benches.
        """
        requests = [
            one if isinstance(one, int)
            else {"operation": int(one[0]), "key": one[1], "window": one[2]}
            for one in operations
        ]  # fmt: skip
        self.sent = [one for one in operations if not isinstance(one, int)]
        ticks = [self.tick] if self.timed else []
        self.results = self.streams.run(requests, *ticks, *others, finish=self.read_back)
        self.clocks = self.streams.clocks - self.streams.first + 1
        self.judge()
        return self

    def judge(self):
        """Compare what came with golden."""
        wrong = self.errors()
        assert wrong == [], f"seed {self.seed}, operations {wrong[:5]} of {len(wrong)}"
        assert self.counts == self.due

    async def tick(self, ctx):
        """Give ticks as close as they may come, and up to `gap` clocks later."""
        unit, choose, least = (
            self.unit,
            random.Random(self.seed + 2),
            self.unit.profile.least_period,
        )
        ports, distance = unit.signature.members, least
        if "period" in ports:
            ctx.set(unit.period, least + self.gap)
        while True:
            for late in reversed(range(distance)):
                if "tick" in ports:
                    ctx.set(unit.tick, late == 0)
                await ctx.tick()
                self.clock += 1
            self.given.append(self.clock)
            # The first of a period comes after the least one.
            distance = least + (choose.randint(0, self.gap) if "tick" in ports else self.gap)

    def check_ticks(self):
        """Compare the time with the ticks that were given; the last may be under way."""
        settled = sum(clock + TICK_LAG <= self.clock for clock in self.given)
        assert settled <= self.now <= len(self.given), f"{len(self.given)} ticks, told {self.now}"

    def errors(self):
        """Numbers of the operations whose result is not that of golden; -1 if cells are wrong."""
        codes, keys, windows = np.array(self.sent).T
        seen, age, oldest, *times = np.array(self.results).T
        # A SHIFT of golden is a tick, which a unit does not do.
        performed = np.where(codes == Operation.SHIFT, Operation.NONE, codes)
        model = self.model
        unit = self.spec.period if self.timed else self.spec.block
        clock = [time * unit for time in times]
        due = model.perform(performed, keys.astype(np.uint64), *clock, windows=windows * unit)
        self.outcome(codes, seen, age, due)
        wrong = seen != due.seen
        with_key = np.isin(codes, HAS_KEY)
        wrong |= with_key & ((age != due.age) | (oldest != due.oldest))
        found = np.flatnonzero(wrong).tolist()
        cells = model.memory_at(self.now * unit) if self.timed else model.memory
        if not np.array_equal(self.memory, cells):
            found.append(-1)
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        counts = {"operations": len(codes), "insertions": inserts.sum(), "hits": due.seen.sum()}
        self.due = counts
        return found

    def outcome(self, codes, seen, age, due):
        """Count answers that say less than they have to, and those that say more."""
        # What comes with an operation that asks for nothing is its key's all the same.
        with_key = np.isin(codes, HAS_KEY)
        self.negatives = ((due.seen & ~seen.astype(bool)) | with_key & (age > due.age)).sum()
        self.positives = ((seen & ~due.seen) | with_key & (age < due.age)).sum()

    def read_back(self, ctx):
        """Take the age of each cell, as the golden model's memory has them, and the counters."""
        spec, core = self.spec, self.unit.core
        codes, limit = 1 << spec.stamp_bits, spec.window_blocks + 1
        self.now = now = ctx.get(self.unit.clock.time if self.timed else core.ticks.stamps.now)
        self.memory = [
            [min((now - ctx.get(copies_of(part.memory)[0].data[cell])) % codes, limit)
             for cell in range(spec.cells)]
            for part in core.parts
        ]  # fmt: skip
        if self.timed:
            self.check_ticks()
        names = ("operations", "insertions", "hits")
        self.counts = {name: ctx.get(getattr(self.unit, name)) for name in names}
        told = "upsets" in self.unit.signature.members
        self.upsets = ctx.get(self.unit.upsets) if told else 0


def random_operations(seed, count, *, keys, window, weights=(1, 4, 2, 4)):
    """Return random operations on a few keys, in spells of one key."""
    choose = random.Random(seed)
    hot, spell, operations = 0, 0.0, []
    for _ in range(count):
        if choose.random() < 0.01:
            hot, spell = choose.randrange(keys), choose.choice([0, 0.5, 1])
        key = hot if choose.random() < spell else choose.randrange(keys)
        operations.append((choose.choices(HAS_KEY, weights)[0], key, choose.randint(0, window)))
    return operations
