"""Timing units with a clock of insertions against golden; memories garble."""

import random
from dataclasses import replace

import pytest
from amaranth.sim import Simulator
from mutants import broken
from timing_unit_bench import Bench, random_operations

from lately.golden import (
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    timing_preset,
)
from lately.hdl.timing import core
from lately.hdl.timing.core import CountedTimingCore
from lately.hdl.timing.rest import RestPart
from lately.hdl.timing.sweep_rules import BETWEEN, check_rest, rest_interval
from lately.hdl.timing.ticks import BlockCount
from lately.hdl.timing.unit import CountedTimingUnit

NONE, QUERY, INSERT, CHECK, CLEAR, SHIFT = (
    Operation[name] for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "CLEAR", "SHIFT")
)
SPEC = timing_preset("counted-tiny")
"""A tick an insertion; stamps come round every 128 insertions; one clock in 6 is the sweep's."""
TIGHT = PartitionedTimingSpec(window=5, hashes=1, cells=4, stamp_bits=5, key_bits=8, seed=1)


@pytest.mark.parametrize(
    ("seed", "block", "idle", "stall"),
    [(0, 1, 0, 0), (1, 3, 0.5, 0.5),
     *(pytest.param(*case, marks=pytest.mark.slow)
       for case in [(2, 1, 0.9, 0), (3, 2, 0, 0.9), (4, 1, 0, 0.5), (5, 7, 0, 0)])],
)  # fmt: skip
def test_random_operations(seed, block, idle, stall):
    print("seed", seed)
    spec = replace(SPEC, window=20 * block, block=block)
    operations = random_operations(seed, 700, keys=(4, 60, 1000)[seed % 3], window=20)
    operations[300], operations[301] = (CLEAR, 5, 0), (QUERY, operations[299][1], 20)
    operations[500:503] = [(CLEAR, 5, 0), (CLEAR, 5, 0), (SHIFT, 5, 0)]
    Bench(spec, seed=seed, idle=idle, stall=stall).run(operations)


@pytest.mark.parametrize(
    "spec",
    [
        replace(TIGHT, window=1, hashes=1, cells=2, stamp_bits=4),
        replace(TIGHT, window=2, hashes=5, cells=8, block=2, stamp_bits=5),
        replace(TIGHT, window=8, block=8, cells=32, stamp_bits=4),
    ],
)
def test_other_shapes(spec):
    operations = random_operations(7, 400, keys=20, window=spec.window_blocks)
    Bench(spec, levels=1).run(operations)


def each_distance(window=5):
    """An insertion, and a query so many operations later; others between, or none at all."""
    operations = []
    for distance in range(1, BETWEEN + 4):
        for between in (NONE, QUERY, INSERT):
            operations += [
                (INSERT, 1, 0),
                *[(between, 2 + at, window) for at in range(distance - 1)],
            ]
            operations += [(CHECK, 1, window), 20]
            operations += [
                (INSERT, 1, 0),
                *[(between, 1, window)] * (distance - 1),
                (CHECK, 1, window),
                20,
            ]
    return operations


def test_every_distance():
    Bench(TIGHT).run(each_distance())


def streams(window=5):
    """Insertions in every clock: of all keys, and of two while others are left alone."""
    choose = random.Random(2)
    mixed = [(choose.choice([CHECK, QUERY]), choose.randrange(40), choose.randint(0, window))
             for _ in range(600)]  # fmt: skip
    quiet = []
    for count in range(20, 50):
        quiet += [(INSERT, count, 0)] + [(CHECK, 200 + at % 2, window) for at in range(count)]
        quiet += [(QUERY, key, window) for key in range(count - 3, count + 1)]
    return mixed, quiet, each_distance(window)


def test_one_clock_in_so_many_is_the_sweep_s():
    interval = rest_interval(TIGHT)
    assert interval == 4
    for operations in streams()[:2]:
        bench = Bench(TIGHT).run(operations)
        assert len(operations) < bench.clocks <= len(operations) * interval / (interval - 1) + 8


def wrong(operations, spec=TIGHT):
    """Whether a stream finds an error."""
    try:
        Bench(spec).run(operations)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("same.append(self._elaborate_same(pipe, f\"same{distance}\", address, there, flag))",
           f"same.append(self._elaborate_same(pipe, f\"same{{distance}}\", address, there, "
           f"flag & (distance != {distance})))") for distance in (1, BETWEEN)),
        ("before + tick.at(2).value", "before"),
        ("Mux(known, since >= limit, dead)", "dead & ~known"),
        ("Mux(known, since >= limit, dead)", "known & (since >= limit)"),
        ("sweep & (expired.value | wipe)", "sweep & wipe"),
        ("sweep & (expired.value | wipe)", "sweep"),
        ("expired.value | wipe", "expired.value"),
    ],
)  # fmt: skip
def test_part_without_a_cure_is_found(monkeypatch, old, new):
    monkeypatch.setattr(CountedTimingCore, "PART", broken(RestPart, old, new))
    short = replace(TIGHT, window=2)
    assert any(wrong(each, spec) for spec in (TIGHT, short) for each in streams(2))


def test_sweep_at_half_its_pace_is_found(monkeypatch):
    monkeypatch.setattr(core, "rest_interval", lambda spec: 2 * rest_interval(spec))
    assert wrong(streams()[1])


def test_rule_at_its_edge():
    """With as many insertions as the sweep needs it takes every other clock."""
    spec = replace(TIGHT, window=14)
    assert (spec.sweep_blocks, rest_interval(spec)) == (2 * 4 + BETWEEN + 1, 2)
    with pytest.raises(SpecificationError):
        check_rest(replace(spec, window=15))
    for operations in streams(14)[:2]:
        Bench(spec).run(operations)


def test_reported_at_exactly_the_window():
    """Of blocks of one insertion, a window of w reports the last w and no more."""
    operations = []
    for between in range(8):
        operations += [(INSERT, 100, 0), *[(INSERT, at, 0) for at in range(between)]]
        operations += [(QUERY, 100, window) for window in range(6)]
    roomy = replace(TIGHT, hashes=3, cells=64, stamp_bits=9)
    bench = Bench(roomy).run(operations)
    pairs = zip(bench.sent, bench.results, strict=True)
    asked = [(window, *result) for (code, _, window), result in pairs if code == QUERY]
    assert [seen for _, seen, *_ in asked] == [
        between < window for between in range(8) for window in range(6)
    ]


def test_blocks():
    count, told = BlockCount(block=3), []

    async def bench(ctx):
        for clock, (insert, clear) in enumerate([(1, 0)] * 7 + [(0, 1)] + [(1, 0)] * 4):
            ctx.set(count.insert, insert)
            ctx.set(count.clear, clear)
            if ctx.get(count.tick):
                told.append(clock)
            await ctx.tick()

    simulator = Simulator(count)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert told == [2, 5, 10]


def test_interval():
    assert rest_interval(SPEC) == 6
    large = timing_preset("counted-default")
    assert rest_interval(large) == 31
    built = CountedTimingUnit(large)
    assert built.latency == built.profile.latency
    assert (built.profile.rest_interval, built.profile.least_period) == (31, 0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (replace(TIGHT, cells=12),
         "cells: must be a power of two greater than 1 in hardware, not 12"),
        (replace(TIGHT, cells=16),
         r"stamp_bits: must leave the sweep 40 insertions for 16 cells a part and not 25 "
         r"\(25 blocks of 1\), not 5"),
        (timing_preset("tiny"),
         "family: must be partitioned-timing for CountedTimingUnit, not 'timed-timing'"),
    ],
)  # fmt: skip
def test_specification_wrong(spec, message):
    with pytest.raises(SpecificationError, match=f"^{message}$"):
        CountedTimingUnit(spec)
