"""Units that answer by tables of thresholds: exactly the table's answers, through swaps."""

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator
from garbage_memory import GarbageMemory, with_own_garbage
from mutants import broken
from timing_unit_bench import random_operations
from unit_streams import UnitStreams

from lately.golden import (
    DecisionTable,
    InferentialFilter,
    Operation,
    PartitionedTimingSpec,
    QueryClass,
    SpecificationError,
    TimedTimingSpec,
    from_spec,
)
from lately.hdl.build import filter_unit
from lately.hdl.timing import core
from lately.hdl.timing.decision_tables import DecidingCore

SPEC = PartitionedTimingSpec(
    window=32, block=8, hashes=3, cells=16, stamp_bits=6, key_bits=10, seed=2
)
AGES = SPEC.window_blocks + 2
TIMED = TimedTimingSpec(span=12, period=2, hashes=3, cells=16, stamp_bits=5, key_bits=10, seed=2)


class Bench:
    """Operations with classes of queries, and tables that are loaded and swapped meanwhile."""

    def __init__(self, tables, *, spec=SPEC, seed=0, idle=0.0, stall=0.0, protect="none"):
        self.tables, self.seed = np.asarray(tables), seed
        _, self.classes, _, phases = self.tables.shape
        self.spec = replace(spec, classes=self.classes, phase_bits=phases.bit_length() - 1)
        self.timed = self.spec.timed
        options = {"time_bits": 24} if self.timed else {}
        memory = GarbageMemory if protect == "none" else with_own_garbage(GarbageMemory)
        self.unit = filter_unit(self.spec, memory=memory, protect=protect, **options)
        taken = ("seen", "age", "oldest", *(["time"] if self.timed else []))
        self.streams = UnitStreams(self.unit, taken, seed, idle, stall)
        self.used = []

    def run(self, operations):
        """Perform (code, key, class) once the first table is loaded; compare with golden."""
        self.operations = operations
        requests = [
            {"operation": int(code), "key": key}
            | ({"query_class": number} if self.classes > 1 else {})
            for code, key, number in operations
        ]
        begin = self.tables[0].size + 50
        ticks = [self.tick] if self.timed else []
        self.results = self.streams.run(
            [begin, *requests], self.load, self.watch, *ticks, finish=self.count
        )
        wrong = np.flatnonzero(np.any(self.expected() != np.array(self.results)[:, :3], axis=1))
        assert not len(wrong), f"seed {self.seed}, operation {wrong[0]} of {len(wrong)}"
        return self

    def count(self, ctx):
        """Note how many upsets the unit counted."""
        self.upsets = ctx.get(self.unit.upsets) if hasattr(self.unit, "upsets") else 0

    async def load(self, ctx):
        """Load one table after another; swap at some clock after each."""
        choose, unit = random.Random(self.seed), self.unit
        for table in self.tables:
            for at, least in np.ndenumerate(table):
                names = ("query_class", "age", "phase", "least")
                for name, value in zip(names, (*at, least), strict=True):
                    ctx.set(getattr(unit.table.p, name), int(value))
                ctx.set(unit.table.valid, 1)
                await ctx.tick().until(unit.table.ready)
            ctx.set(unit.table.valid, 0)
            for _ in range(choose.randrange(3)):
                await ctx.tick()
            ctx.set(unit.swap, 1)
            await ctx.tick()
            ctx.set(unit.swap, 0)

    async def watch(self, ctx):
        """Note of each operation that is accepted which table is its: swaps in earlier clocks."""
        swaps, unit = -1, self.unit
        watched = ctx.tick().sample(unit.i.valid, unit.i.ready, unit.swap)
        async for _, _, valid, ready, swap in watched:
            if valid and ready:
                self.used.append(swaps)
            swaps += swap

    async def tick(self, ctx):
        """Give ticks as close as they may come."""
        while True:
            ctx.set(self.unit.tick, 1)
            await ctx.tick()
            ctx.set(self.unit.tick, 0)
            for _ in range(self.unit.profile.least_period - 1):
                await ctx.tick()

    def expected(self):
        """What golden answers, which has each table for the operations that are its."""
        model, used = from_spec(self.spec), np.array(self.used)
        told = []
        for table in np.unique(used):
            codes, keys, classes = np.array(self.operations)[used == table].T
            times = np.array(self.results)[used == table, 3:].T * self.spec.block_units
            model.decide_by(self.tables[table])
            results = model.perform(codes, keys.astype(np.uint64), *times, windows=classes)
            told += zip(results.seen, results.age, results.oldest, strict=True)
        return np.array(told)


def random_tables(seed, count, *, spec=SPEC, classes=3, bits=2):
    rng = np.random.default_rng(seed)
    shape = replace(spec, classes=classes, phase_bits=bits).table_shape
    return rng.integers(0, spec.hashes + 2, (count, *shape))


def operations_of(seed, count, *, classes=3):
    return random_operations(seed, count, keys=40, window=classes - 1)


@pytest.mark.parametrize(
    ("seed", "classes", "bits", "idle", "stall"),
    [(0, 3, 2, 0, 0), (1, 1, 0, 0.3, 0.3),
     *(pytest.param(*case, marks=pytest.mark.slow)
       for case in [(2, 2, 3, 0, 0.5), (3, 5, 1, 0.5, 0)])],
)  # fmt: skip
def test_answers_are_the_table_s_through_swaps(seed, classes, bits, idle, stall):
    print("seed", seed)
    tables = random_tables(seed, 8, classes=classes, bits=bits)
    bench = Bench(tables, seed=seed, idle=idle, stall=stall)
    bench.run(operations_of(seed, 900, classes=classes))
    assert len(set(bench.used)) > 3


@pytest.mark.parametrize(("seed", "classes"), [(6, 2), pytest.param(7, 1, marks=pytest.mark.slow)])
def test_answers_are_the_table_s_at_all_times(seed, classes):
    """Of a unit by ticks, which come as close as they may, through swaps."""
    print("seed", seed)
    tables = random_tables(seed, 6, spec=TIMED, classes=classes, bits=0)
    bench = Bench(tables, spec=TIMED, seed=seed, idle=0.3, stall=0.2)
    bench.run(operations_of(seed, 500, classes=classes))
    assert len(set(bench.used)) > 3
    assert len({age for _, age, *_ in bench.results}) == TIMED.window_blocks + 2


@pytest.mark.parametrize("spec", [SPEC, TIMED])
def test_protected_unit_answers_by_the_table(spec):
    """And counts no upset where there is none."""
    tables = random_tables(10, 3, spec=spec, classes=2, bits=0)
    bench = Bench(tables, spec=spec, seed=10, protect="parity")
    bench.run(operations_of(10, 200, classes=2))
    assert bench.upsets == 0


def test_oldest_age_of_one_bit_more():
    """17 ages, of which the last alone has a fifth bit."""
    spec = replace(SPEC, window=120)
    tables = random_tables(9, 6, spec=spec, classes=1, bits=0)
    bench = Bench(tables, spec=spec, seed=9).run(operations_of(9, 400, classes=1))
    assert max(age for _, age, *_ in bench.results) == 16


def test_before_a_table_is_loaded_all_keys_are_seen():
    bench = Bench(np.zeros((1, 2, AGES, 1), int))
    operations = operations_of(8, 100, classes=2)
    bench.used = [0] * len(operations)
    bench.operations = operations
    bench.results = bench.streams.run(
        [{"operation": int(code), "key": key, "query_class": number}
         for code, key, number in operations]
    )  # fmt: skip
    assert (bench.expected() == np.array(bench.results)).all()


def test_table_of_a_filter():
    """That of a prior, as golden computes it, with phases of four insertions."""
    filter_ = InferentialFilter(
        window=SPEC.window, block=SPEC.block, cells=64, hashes=SPEC.hashes,
        distinct={"kind": "uniform", "universe": 100}, probability=0.01,
    )  # fmt: skip
    classes = [
        QueryClass(
            probability=0.01, false_positive=positive, false_negative=negative, window=window
        )
        for positive, negative, window in [(1, 1, 32), (1, 9, 20), (9, 1, 32)]
    ]
    table = DecisionTable.of(filter_, classes, 1).thresholds
    assert table.shape == (3, AGES, 2)
    bench = Bench([table]).run(operations_of(4, 500))
    assert 0 < sum(seen for seen, *_ in bench.results) < 400


@pytest.mark.parametrize(
    ("spec", "memory", "blocks"),
    [
        (TIMED, "portable", 0),
        (TIMED, "ecp5", 1),
        (SPEC, "portable", 0),
        (SPEC, "ecp5", 1),
    ],
)
def test_tables_lie_in_memories_of_the_device(spec, memory, blocks):
    text = rtlil.convert(filter_unit(replace(spec, classes=2), memory=memory), emit_src=False)
    (tables,) = (part for part in text.split("\nmodule ") if "thresholds" in part.split("\n")[0])
    assert tables.count("cell \\DP16KD") == blocks


def test_every_key_is_reported_until_there_is_a_table():
    """From the first operation after the swap on no table does, and after a reset all again."""
    spec = replace(SPEC, classes=1, phase_bits=0)
    unit, whole = filter_unit(spec, memory=GarbageMemory), Module()
    whole.domains.sync = domain = ClockDomain("sync")
    whole.submodules.unit = unit

    async def ask(ctx):
        ctx.set(unit.i.valid, 1)
        ctx.set(unit.i.p.operation, Operation.QUERY)
        await ctx.tick().until(unit.i.ready)
        ctx.set(unit.i.valid, 0)
        told = await ctx.tick().sample(unit.o.p.seen).until(unit.o.valid)
        return told[0]

    async def stream(ctx):
        ctx.set(unit.o.ready, 1)
        for _ in range(2):
            assert await ask(ctx)
            for age in range(AGES):
                ctx.set(unit.table.p.age, age)
                ctx.set(unit.table.p.least, spec.hashes + 1)
                ctx.set(unit.table.valid, 1)
                await ctx.tick().until(unit.table.ready)
            ctx.set(unit.table.valid, 0)
            assert await ask(ctx)
            ctx.set(unit.swap, 1)
            await ctx.tick()
            ctx.set(unit.swap, 0)
            assert not await ask(ctx)
            ctx.set(domain.rst, 1)
            await ctx.tick()
            ctx.set(domain.rst, 0)

    simulator = Simulator(whole)
    simulator.add_clock(1e-6)
    simulator.add_testbench(stream)
    simulator.run()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"swap").at(CONTROL_LAG)', '"swap").at(CONTROL_LAG - 1)'),
        ('"swap").at(CONTROL_LAG)', '"swap").at(CONTROL_LAG + 1)'),
        ("(settling == 0) & ~self.swap", "1"),
        ('asked["phase"].at(told)', 'asked["phase"].at(told + 1)'),
    ],
)
def test_defect_is_found(monkeypatch, old, new):
    monkeypatch.setattr(core, "DecidingCore", broken(DecidingCore, old, new))
    with pytest.raises(AssertionError, match="operation"):
        Bench(random_tables(5, 8, classes=1), seed=5).run(operations_of(5, 500, classes=1))


@pytest.mark.parametrize("spec", [SPEC, TIMED])
def test_latency(spec):
    built = filter_unit(replace(spec, classes=2))
    assert built.latency == built.profile.latency == filter_unit(spec).latency + 3


@pytest.mark.parametrize(
    ("classes", "bits", "message"),
    [(2, 4, "Phase bits must be at most 3, not 4"), (0, 0, "Classes must be at least 1, not 0")],
)
def test_parameters_wrong(classes, bits, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        DecidingCore(core=filter_unit(SPEC).core, spec=SPEC, classes=classes, bits=bits)


def test_block_wrong():
    spec = replace(SPEC, window=30, block=6, classes=1)
    with pytest.raises(
        SpecificationError, match=r"^block: must be a power of two for tables, not 6$"
    ):
        filter_unit(spec)
