# amaranth: UnusedElaboratable=no
"""The self-test: unit and golden agree on its signature, and a fault changes the signature."""

from dataclasses import replace

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring
from cases import daily
from simulation import simulate

from lately.boards.link.link import FilterLink
from lately.boards.link.self_test import SelfTest, plan
from lately.golden import FilterSpec, PartitionedTimingSpec, any_preset
from lately.hdl.build import unit_profile
from lately.host import self_test_results, signature

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}
TIMED = FilterSpec(family="apbbf", k=2, l=2, block_bits=16, hashes_per_block=2, blocks=16, clear=8,
                   key_bits=20, span=6)  # fmt: skip
SPECS = {
    "ring": replace(any_preset("tiny"), key_bits=20),
    "timed ring": TIMED,
    "dictionary": any_preset("dictionary-tiny"),
    "counted": any_preset("timing-counted-tiny"),
    "timing": any_preset("timing-tiny"),
    "table": PartitionedTimingSpec(window=32, block=4, hashes=3, cells=16, stamp_bits=6,
                                   key_bits=20, classes=3, phase_bits=2),
}  # fmt: skip


def shortened(spec, operations):
    """Unit and description of a board whose self-test has fewer operations."""
    link = FilterLink(spec, **RATES)
    plan = replace(link.information.plan, operations=operations)
    return link.unit.unit, replace(link.information, plan=plan)


def performed(spec, unit, information, fault=None):
    """Signature that the hardware gives.

    A `fault` is the path of a memory, a mask and a value: bits of its words that never change.
    """
    m = Module()
    m.submodules.unit = unit
    least_period = unit_profile(spec).least_period
    m.submodules.test = test = SelfTest(unit, information, least_period=least_period, patience=2000)
    wiring.connect(m, test.i, unit.i)
    wiring.connect(m, unit.o, test.o)
    if least_period:
        m.d.comb += unit.tick.eq(test.tick)
    found = []

    async def bench(ctx):
        await ctx.tick().repeat(3)
        ctx.set(test.start, 1)
        await ctx.tick()
        ctx.set(test.start, 0)
        await ctx.tick().until(~test.busy)
        found.append(ctx.get(test.crc))

    async def break_words(ctx):
        path, words, mask, value = fault
        data = memory_of(fragment, ["unit", *path.split(".")])
        async for _ in ctx.tick():
            for word in words:
                held = ctx.get(data[word])
                wrong = held & ~mask | value
                if wrong != held:
                    ctx.set(data[word], wrong)

    fragment = Fragment.get(m, None)
    simulate(fragment, bench, background=[break_words] if fault else [])
    return found[0]


def memory_of(fragment, path):
    """Contents of a memory of a design."""
    for name in path:
        (fragment,) = (one for one, found, *_ in fragment.subfragments if found == name)
    return fragment._data


@pytest.mark.parametrize("name", daily(2, SPECS))
def test_unit_and_golden_agree(name):
    # Each tick takes as long as a sweep.
    unit, information = shortened(SPECS[name], 300 if name == "timing" else 700)
    expected = self_test_results(information)
    assert performed(SPECS[name], unit, information) == signature(information, expected)
    # The first table reports every key.
    assert 0.02 < expected.seen.mean() < 0.9 or name == "table"


FAULTS = {
    "bit at 0": ("ring", ("core.store.segment0_part0.words", [1], 1, 0)),
    "whole column": ("dictionary", ("core.column2.memory.words", range(16), -1, 0)),
    "bit of a part": ("counted", ("core.part1.memory.words", [1], 1, 0)),
    "bit at 1": ("ring", ("core.store.segment3_part1.words", [1], 1, 1)),
    "bit of a column": ("dictionary", ("core.column0.memory.words", [1], 1, 1)),
}


@pytest.mark.parametrize(("name", "fault"), daily(1, FAULTS.values()), ids=FAULTS)
def test_fault_changes_the_signature(name, fault):
    """A bit of a memory that is stuck, and a column whose words stay 0."""
    unit, information = shortened(SPECS[name], 2000)
    expected = signature(information, self_test_results(information))
    assert performed(SPECS[name], unit, information, fault) != expected


def test_unit_that_gives_no_answer(monkeypatch):
    """The test gives up, and its signature is wrong."""
    unit, information = shortened(SPECS["ring"], 200)
    monkeypatch.setattr(unit, "elaborate", lambda platform: Module())
    expected = signature(information, self_test_results(information))
    assert performed(SPECS["ring"], unit, information) != expected


@pytest.mark.parametrize("name", ["large", "dictionary-10000", "timing-default",
                                  "timing-counted-default", "timed-tiny"])  # fmt: skip
def test_plans(name):
    """Operations reach past the window, and timestamps wrap."""
    spec = any_preset(name)
    found = plan(spec)
    window = getattr(spec, "window", None) or spec.cells
    stamps = getattr(spec, "stamp_bits", getattr(spec, "timestamp_bits", 0))
    assert max(8 * window, 1 << stamps) <= found.operations < 1 << 21
    assert 1 << found.distance_bits > window
