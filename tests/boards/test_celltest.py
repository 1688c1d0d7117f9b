"""The self-test of memories of cells: each that misbehaves is found and named, to its last cell."""

import dataclasses

import numpy as np
import pytest
from amaranth.hdl import Const, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from lately.boards.link.celltest import Cells, CellTest, Kind, steps
from lately.boards.link.protocol import Check
from lately.boards.link.selftest import spread_places
from lately.golden import (
    PartitionedTimingSpec,
    TimedTimingSpec,
    WindowDictionarySpec,
    any_preset,
    from_spec,
)
from lately.hdl.build import unit_profile
from lately.hdl.dictionary.unit import DictionaryUnit
from lately.hdl.memory.cells import PortableCellMemory
from lately.hdl.timing.unit import CountedTimingUnit, TimingUnit

SPECS = {
    "dictionary": WindowDictionarySpec(
        window=16, columns=5, rows=16, digest_bits=16, stash=8, key_bits=10
    ),
    "timed": TimedTimingSpec(span=5, hashes=2, cells=16, stamp_bits=4, key_bits=10),
    "counted": PartitionedTimingSpec(window=12, hashes=2, cells=16, stamp_bits=6, key_bits=10),
    "blocks": PartitionedTimingSpec(
        window=12, block=3, hashes=2, cells=16, stamp_bits=5, key_bits=10
    ),
    # A table answers, of which the test takes no notice.
    "deciding": TimedTimingSpec(span=5, hashes=2, cells=16, stamp_bits=4, key_bits=10, classes=2),
}
FILLS = {Kind.FILL, Kind.FLOW}
UNITS = {"dictionary": DictionaryUnit, "timed": TimingUnit, "deciding": TimingUnit}


class FaultyMemory(PortableCellMemory):
    """The portable memory with a fault, of the last cell if of one, in one memory of a unit."""

    fault = ""
    only = 0
    built = 0

    def __init__(self, *, depth, width):
        super().__init__(depth=depth, width=width)
        self._number = FaultyMemory.built
        FaultyMemory.built += 1

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = self.words
        has = {self.fault: 1} if self._number == self.only or self.fault == "no answers" else {}
        last = self.b_address.all()
        write = words.write_port()
        neighbour = words.write_port()
        m.d.comb += [
            write.addr.eq(self.b_address),
            write.data.eq(self.value),
            write.en.eq(self.write),
            neighbour.addr.eq(self.b_address ^ 1),
            neighbour.data.eq(self.value),
            neighbour.en.eq(self.write & has.get("writes neighbours", 0)),
        ]
        if has.get("loses writes"):
            m.d.comb += write.en.eq(self.write & ~last)
        if has.get("never erases"):
            m.d.comb += write.en.eq(self.write & self.value[0])
        for address, word in ((self.a_address, self.a_word), (self.b_address, self.b_word)):
            read = words.read_port()
            m.d.comb += read.addr.eq(address)
            stuck = Const(1 if has.get("stuck bit") else 0, len(word))
            m.d.sync += word.eq(read.data & ~stuck)
        return m


def outcome(name, *, fault="", only=0):
    """Checks that failed, of a unit one of whose memories has a fault."""
    spec = SPECS[name]
    FaultyMemory.fault, FaultyMemory.only, FaultyMemory.built = fault, only, 0
    unit = UNITS.get(name, CountedTimingUnit)(spec, memory=FaultyMemory)
    m = Module()
    m.submodules.unit = unit
    m.submodules.test = test = CellTest(spec=spec, unit=unit, profile=unit_profile(spec))
    wiring.connect(m, test.i, unit.i)
    if fault == "no answers":
        m.d.comb += unit.o.ready.eq(1)
    else:
        wiring.connect(m, unit.o, test.o)
    if UNITS.get(name) is TimingUnit:
        m.d.comb += unit.tick.eq(test.tick)
    failed = []

    async def bench(ctx):
        await ctx.tick()
        ctx.set(test.start, 1)
        await ctx.tick()
        ctx.set(test.start, 0)
        for _ in range(test.cycles):
            await ctx.tick()
            if not ctx.get(test.busy):
                failed.append(Check(ctx.get(test.failed)))
                return

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    (found,) = failed
    return found


QUICK = {"dictionary": [], "timed": [], "deciding": []}
QUICK |= dict.fromkeys(("counted", "blocks"), pytest.mark.slow)


@pytest.mark.parametrize("name", [pytest.param(one, marks=QUICK[one]) for one in SPECS])
def test_sound_memory_passes(name):
    assert outcome(name) == Check(0)


FAULTS = [
    ("dictionary", "loses writes", 0, Check.KEEP),
    ("dictionary", "loses writes", 1, Check.KEEP),
    ("dictionary", "never erases", 1, Check.EMPTY),
    ("dictionary", "never erases", 0, Check.EXPIRY),
    ("dictionary", "writes neighbours", 0, Check.KEEP),
    ("dictionary", "stuck bit", 0, Check.KEEP),
    ("dictionary", "no answers", 0, Check.ANSWERS),
    ("timed", "loses writes", 0, Check.AGE),
    ("timed", "loses writes", 1, Check.AGE),
    ("timed", "stuck bit", 1, Check.AGE),
    ("counted", "loses writes", 1, Check.KEEP),
    ("counted", "stuck bit", 1, Check.KEEP),
    ("blocks", "loses writes", 1, Check.KEEP),
    ("deciding", "loses writes", 1, Check.AGE),
]
"""Unit, fault, number of the memory that has it, and a check that fails."""

DEFAULT = ("timed", "loses writes", 1, Check.AGE)


@pytest.mark.parametrize(
    ("name", "fault", "only", "check"),
    [pytest.param(*one, marks=[] if one == DEFAULT else pytest.mark.slow) for one in FAULTS],
)  # fmt: skip
def test_fault_is_named(name, fault, only, check):
    found = outcome(name, fault=fault, only=only)
    print(f"{name}, memory {only}, {fault}: {found!r}")
    assert check in found


def test_memory_of_the_table_does_not_matter():
    """Any table may be loaded while the cells are tested."""
    # Behind the two parts.
    assert outcome("deciding", fault="stuck bit", only=2) == Check(0)
    assert FaultyMemory.built == 3


def test_window_and_turn_are_reached_to_the_unit():
    """Keys are asked for at the last distance of the window, the next, and a turn of stamps on."""
    for name, spec in SPECS.items():
        program = steps(Cells(spec))
        block = max(1, Cells(spec).block)
        inserted = 0
        for step in program:
            if step.kind is Kind.CLEAR:
                inserted = now = 0
            elif (
                step.kind in (Kind.FILL, Kind.FLOW) and not spec.timed
            ) or step.kind is Kind.ADVANCE:
                inserted += step.count
            now = inserted // block
            if step.kind is Kind.ASK:
                assert step.now == now, name
        last = (program[6].count - 1) // block if not spec.timed else 0
        edges = [step.now - last for step in program if step.check is Check.EXPIRY]
        assert edges == [spec.window_blocks, spec.window_blocks + 1, Cells(spec).turn + 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dictionary-1000", "timing-small", "timing-counted-default"])
def test_sound_filters_are_within_what_is_allowed(name):
    """The keys of the test are regular, and theory must hold for them as for any."""
    for seed in range(3):
        spec = dataclasses.replace(any_preset(name), seed=seed)
        cells = Cells(spec)
        numbers = np.arange(cells.few, dtype=np.uint64)
        keys = np.zeros_like(numbers)
        for place, bit in enumerate(spread_places(cells.all, spec.key_bits)):
            keys |= (numbers >> np.uint64(bit) & np.uint64(1)) << np.uint64(place)
        times = [np.zeros(len(keys), np.int64)] if name == "timing-small" else []
        golden = from_spec(spec)
        golden.insert(keys, *times)
        others = golden.query(keys | np.uint64(1 << spec.key_bits - 1), *times)
        print(f"{name}: {others.sum()} strangers, {cells.strangers(cells.few)} allowed")
        assert others.sum() <= cells.strangers(cells.few) < len(keys) // 10
        assert golden.query(keys, *times).all() or spec.window_blocks < len(keys)
