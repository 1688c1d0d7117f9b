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
from lately.hdl.build import filter_unit
from lately.hdl.timing import core, part, recent, timing_profile
from lately.hdl.timing.part import TimingPart
from lately.hdl.timing.sweep import VisitSweep
from lately.hdl.timing.sweep_rules import BETWEEN, check_rest, rest_interval
from lately.hdl.timing.ticks import BlockCount

NONE, QUERY, INSERT, CHECK = (
    Operation[name] for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT")
)
SPEC = timing_preset("counted-tiny")
"""A tick an insertion; stamps come round every 128 insertions; one clock in 6 is the sweep's."""
TIGHT = PartitionedTimingSpec(window=5, hashes=1, cells=4, stamp_bits=5, key_bits=8, seed=1)


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


def wrong(operations, spec=TIGHT):
    """Whether a stream finds an error."""
    try:
        Bench(spec).run(operations)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    ("module", "piece", "old", "new"),
    [
        *((part, recent.recent_insertion, "address, other, flag))",
           f"address, other, flag & (ahead != {distance})))") for distance in (1, BETWEEN)),
        (part, recent.recent_insertion, "(passed + tick)", "(tick + 0)"),
        (core, TimingPart, "recent, since >= self._limit, swept & ~renewed",
         "recent & 0, 0, swept & ~recent"),
        (core, TimingPart, "since >= self._limit, swept & ~renewed", "since >= self._limit, 0"),
        (core, VisitSweep, "(decided.wipe | decided.expired)", "decided.wipe"),
        (core, VisitSweep, "decided.visit & (decided.wipe | decided.expired)", "decided.visit"),
        (core, VisitSweep, "decided.wipe | decided.expired", "decided.expired"),
    ],
)  # fmt: skip
def test_part_without_a_cure_is_found(monkeypatch, module, piece, old, new):
    monkeypatch.setattr(module, piece.__name__, broken(piece, old, new))
    short = replace(TIGHT, window=2)
    assert any(wrong(each, spec) for spec in (TIGHT, short) for each in streams(2))


def test_sweep_at_half_its_pace_is_found(monkeypatch):
    monkeypatch.setattr(timing_profile, "rest_interval", lambda spec: 2 * rest_interval(spec))
    assert wrong(streams()[1])


def test_rule_at_its_edge():
    """With as many insertions as the sweep needs it takes every other clock."""
    spec = replace(TIGHT, window=14)
    assert (spec.sweep_blocks, rest_interval(spec)) == (2 * 4 + BETWEEN + 1, 2)
    with pytest.raises(SpecificationError):
        check_rest(replace(spec, window=15))
    for operations in streams(14)[:2]:
        Bench(spec).run(operations)


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
    built = filter_unit(large)
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
    ],
)  # fmt: skip
def test_specification_wrong(spec, message):
    with pytest.raises(SpecificationError, match=f"^{message}$"):
        filter_unit(spec)
