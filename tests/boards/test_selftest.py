"""The self-test of boards: every memory that misbehaves is found and named."""

import dataclasses

import numpy as np
import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.sim import Simulator

from lately.boards.link.protocol import Check
from lately.boards.link.selftest import (
    SelfTest,
    allowed_strangers,
    check_keys,
    key_places,
    self_test_cycles,
)
from lately.golden import PRESETS, FilterSpec, from_spec
from lately.hdl.memory import variants as memories
from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.unit import FilterUnit

SPECS = {
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=1, block_bits=16, hashes_per_block=2, blocks=8, key_bits=12, clear=8
    ),
    "gebf": FilterSpec(
        family="gebf", window=16, epochs=1, hashes=2, bits=256, key_bits=12, clear=8
    ),
    # So large that strangers are rare.
    "sparse": FilterSpec(
        family="gebf", window=48, epochs=1, hashes=4, bits=2048, key_bits=12, clear=8
    ),
}
# Whose time stands still, as it does on a board during the test.
SPECS |= {f"{name}-timed": dataclasses.replace(spec, span=1) for name, spec in SPECS.items()}


class FaultyMemory(PortableSegmentMemory):
    """The portable memory with a fault in some or all of the memories of a unit."""

    fault = ""
    only = None
    built = 0

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self._number = FaultyMemory.built
        FaultyMemory.built += 1

    def _has(self, fault):
        return self.fault == fault and (self.only is None or self._number in self.only)

    def elaborate(self, platform):
        m = Module()
        width = self._clear_bits
        low = width.bit_length() - 1
        m.submodules.words = words = memory.Memory(shape=width, depth=self._depth // width, init=[])
        read, write = words.read_port(), words.write_port()
        address = Signal.like(self.address)
        setting, repeated, bit = Signal(), Signal(), Signal()
        written, current = Signal(width), Signal(width)
        kept = 0 if self._has("loses neighbours") else current
        word = (1 << width) - 1
        kept = word if self._has("sets neighbours") else kept
        clears = self.clear
        if self._has("clears half"):
            clears = self.clear & ~self.clear_address[0]
        if self._has("never clears"):
            clears = 0
        m.d.comb += [
            read.addr.eq(self.address[low:]),
            current.eq(Mux(repeated, written, read.data)),
            write.en.eq(setting | clears),
            write.addr.eq(Mux(self.clear, self.clear_address, address[low:])),
            write.data.eq(Mux(self.clear, 0, kept | (1 << address[:low]))),
            self.bit.eq(self._late(m, bit)),
        ]
        seen = write.data if self._has("sets first") else current
        same = self.address[low:] == address[low:]
        m.d.sync += [
            address.eq(self.address),
            setting.eq(self.set),
            repeated.eq(setting & same & (not self._has("reads too early"))),
            written.eq(write.data),
            bit.eq(seen.bit_select(address[:low], 1)),
        ]
        return m


def outcome(spec, *, fault="", only=None, clocks=None, check=False):
    """Checks that failed, of a unit whose memories have a fault."""
    FaultyMemory.fault, FaultyMemory.only, FaultyMemory.built = fault, only, 0
    unit = FilterUnit(spec, memory="faulty", statistics_bits=0, check=check)
    m = Module()
    m.submodules.unit = unit
    m.submodules.test = test = SelfTest(spec=spec, unit=unit, profile=unit.profile)
    wiring.connect(m, test.i, unit.i)
    if fault == "no answers":
        m.d.comb += unit.o.ready.eq(1)
    else:
        wiring.connect(m, unit.o, test.o)
    failed = []

    async def bench(ctx):
        await ctx.tick()
        ctx.set(test.start, 1)
        await ctx.tick()
        ctx.set(test.start, 0)
        for _ in range(clocks or self_test_cycles(spec)):
            await ctx.tick()
            if not ctx.get(test.busy):
                assert not (check and ctx.get(unit.fault))
                failed.append(Check(ctx.get(test.failed)))
                return

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    (found,) = failed
    return found


@pytest.fixture(autouse=True)
def faulty(monkeypatch):
    monkeypatch.setitem(memories.VARIANTS, "faulty", FaultyMemory)


@pytest.mark.parametrize("name", SPECS)
def test_sound_memory_passes(name):
    # Were fewer strangers than keys not the limit, the check could not fail.
    assert allowed_strangers(SPECS[name]) < check_keys(SPECS[name])
    assert outcome(SPECS[name]) == Check(0)


def test_unit_that_watches_its_state_raises_no_alarm():
    assert outcome(next(iter(SPECS.values())), check=True) == Check(0)


@pytest.mark.parametrize("window", ["insertions", "time"])
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("never clears", Check.EMPTY),
        ("clears half", Check.EXPIRY),
        ("sets first", Check.FIRST),
        ("reads too early", Check.REPEAT),
        ("loses neighbours", Check.KEEP),
        ("sets neighbours", Check.STRANGERS),
        ("no answers", Check.ANSWERS),
    ],
)
def test_fault_is_named(fault, check, window):
    name = "sparse" if check is Check.STRANGERS else "gebf"
    if window == "time":
        name = f"{name}-timed"
        # No segment counts before the first insertion, whatever its memory holds.
        check = Check.EXPIRY if check is Check.EMPTY else check
    found = outcome(SPECS[name], fault=fault)
    print(f"{fault}: {found!r}")
    assert check in found


@pytest.mark.parametrize("name", ["apbbf", "apbbf-timed"])
@pytest.mark.parametrize("segment", [0, 3])
def test_one_segment_that_is_not_cleared_is_found(segment, name):
    spec = SPECS[name]
    memories = [segment * spec.parts + part for part in range(spec.parts)]
    found = outcome(spec, fault="clears half", only=memories)
    print(f"segment {segment}: {found!r}")
    assert Check.AGE in found


@pytest.mark.parametrize("name", ["default", "small", "gebf-default", "blocked-gebf-default"])
def test_sound_filters_report_few_strangers(name):
    """The keys of the test are regular, and theory must hold for them as for any."""
    counts = []
    for seed in range(3):
        spec = dataclasses.replace(PRESETS[name], seed=seed)
        numbers = np.arange(check_keys(spec), dtype=np.uint64)
        keys = np.zeros_like(numbers)
        for place, bit in enumerate(key_places(spec)):
            keys |= (numbers >> np.uint64(bit) & np.uint64(1)) << np.uint64(place)
        golden = from_spec(spec)
        golden.insert(keys)
        counts.append(int(golden.query(keys | np.uint64(1 << spec.key_bits - 1)).sum()))
    print(f"{name}: {counts} strangers of {len(keys)}, {allowed_strangers(spec)} allowed")
    assert max(counts) <= allowed_strangers(spec) < len(keys) // 10


def test_presets_can_be_tested():
    for name, spec in PRESETS.items():
        assert 1 <= check_keys(spec) <= spec.generation, name
        assert 0 <= allowed_strangers(spec) <= check_keys(spec), name
