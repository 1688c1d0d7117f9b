"""Timing units that read and write in one access against golden; memories garble."""

import random
from dataclasses import replace

import pytest
from garbage_memory import GarbageExchange
from mutants import broken
from timing_unit_bench import Bench, random_operations

from lately.golden import Operation, PartitionedTimingSpec, SpecificationError, timing_preset
from lately.hdl.build import unit_profile
from lately.hdl.timing import exchange
from lately.hdl.timing.core import ExchangeCore, TimingCore
from lately.hdl.timing.exchange import ExchangePart
from lately.hdl.timing.sweep import ExchangeSweep
from lately.hdl.timing.sweep_rules import EXCHANGE_CLOCKS, check_exchange
from lately.hdl.timing.unit import CountedTimingUnit

NONE, QUERY, INSERT, CHECK, CLEAR, SHIFT = (
    Operation[name] for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "CLEAR", "SHIFT")
)
CELLS = 4
TIGHT = PartitionedTimingSpec(
    window=2**7 - 2 - EXCHANGE_CLOCKS * (CELLS + 2),
    hashes=1,
    cells=CELLS,
    stamp_bits=7,
    key_bits=8,
    seed=1,
)
"""With just as many insertions as the sweep needs."""


def bench(spec, **options):
    return Bench(spec, memory=GarbageExchange, **options)


@pytest.mark.parametrize(
    ("seed", "block", "idle", "stall"),
    [(0, 1, 0, 0), (1, 3, 0.5, 0.5),
     *(pytest.param(*case, marks=pytest.mark.slow)
       for case in [(2, 1, 0.9, 0), (3, 2, 0, 0.9), (4, 1, 0, 0.5), (5, 7, 0, 0)])],
)  # fmt: skip
def test_random_operations(seed, block, idle, stall):
    print("seed", seed)
    spec = replace(
        TIGHT, window=20 * block, block=block, hashes=3, cells=8, stamp_bits=8, key_bits=16
    )
    operations = random_operations(seed, 500, keys=(4, 60, 1000)[seed % 3], window=20)
    operations[200], operations[201] = (CLEAR, 5, 0), (QUERY, operations[199][1], 20)
    operations[400:403] = [(CLEAR, 5, 0), (CLEAR, 5, 0), (SHIFT, 5, 0)]
    bench(spec, seed=seed, idle=idle, stall=stall).run(operations)


def streams(window):
    """Of all keys in every clock; and of two while others are left alone, or are asked for."""
    choose = random.Random(2)
    mixed = [(choose.choice([CHECK, QUERY]), choose.randrange(40), choose.randint(0, window))
             for _ in range(300)]  # fmt: skip
    quiet = []
    for count in range(70, 140, 10):
        quiet += [(INSERT, count, 0)] + [(CHECK, 200 + at % 2, window) for at in range(count)]
        quiet += [(QUERY, key, window) for key in range(count - 3, count + 1)]
    asked = [(INSERT, key, 0) for key in range(30)]
    asked += [(INSERT if at % 2 else QUERY, at % 2, window) for at in range(300)]
    asked += [(QUERY, at // 50, window) for at in range(300)]
    return mixed, quiet, asked


def distances(window):
    """An insertion and a query so many operations later, at every phase of the sweep."""
    operations = []
    for distance in range(1, 14):
        for other in (QUERY, INSERT):
            operations += [(INSERT, 1, 0), *[(other, 2, window)] * (distance - 1)]
            operations += [(CHECK, 1, window), (NONE, 0, 0)]
    return operations


def test_no_clock_is_lost_at_the_edge_of_the_rule():
    assert TIGHT.sweep_blocks == EXCHANGE_CLOCKS * (TIGHT.cells + 2)
    with pytest.raises(SpecificationError, match="must leave the sweep 66 insertions for 4 cells"):
        check_exchange(replace(TIGHT, window=TIGHT.window + 1))
    for operations in (*streams(TIGHT.window), distances(TIGHT.window)):
        run = bench(TIGHT).run(operations)
        assert run.clocks == len(operations)


# Without its cure, every hazard is found


def wrong(operations, spec):
    """Whether a stream finds an error."""
    try:
        bench(spec).run(operations)
    except AssertionError:
        return True
    return False


def chased(window, rounds=15):
    """Few keys in spells of all lengths, so that operations meet the sweep at every clock."""
    choose = random.Random(4)
    operations = []
    for _ in range(rounds):
        quiet = choose.randrange(8)
        operations += [(INSERT, 8 + choose.randrange(2), 0)] * choose.randint(50, 90)
        for _ in range(choose.randint(1, 60)):
            kind = choose.choice([QUERY, QUERY, CHECK])
            operations.append((kind, choose.choice([quiet, choose.randrange(40)]), window))
    return operations


@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # A read that meets the write of the sweep.
        (ExchangePart, "is_at_least(constant_flags(age, limit)) | dead",
                       "is_at_least(constant_flags(age, limit))"),
        # An insertion since the sweep read the cell, and in the clock in which it writes.
        (ExchangeSweep, "return touched | same", "return same"),
        (ExchangeSweep, "return touched | same", "return touched"),
        # A query does not keep the sweep from a cell.
        (ExchangePart, "sweep.insert.eq(insert.at(told).value)", "sweep.insert.eq(1)"),
        # The sweep, and its pace.
        (ExchangePart, "port.write.eq(whole)", "port.write.eq(whole & ~sweep.clean)"),
        (ExchangeSweep, "    CLOCKS = EXCHANGE_CLOCKS\n", "    CLOCKS = 3 * EXCHANGE_CLOCKS\n"),
    ],
)  # fmt: skip
def test_part_without_a_cure_is_found(monkeypatch, component, old, new):
    defect = broken(component, old, new)
    if component is ExchangeSweep:
        monkeypatch.setattr(exchange, "ExchangeSweep", defect)
    else:
        monkeypatch.setattr(ExchangeCore, "PART", defect)
    _, quiet, asked = streams(TIGHT.window)
    assert any(wrong(each, TIGHT) for each in (asked, quiet, chased(TIGHT.window)))


def test_chase_is_right_without_a_defect():
    bench(TIGHT).run(chased(TIGHT.window))


def test_figures():
    large = timing_preset("counted-default")
    profile = unit_profile(large, memory="ecp5-rbw")
    assert (profile.rest_interval, profile.block_rams) == (0, 32)
    built = CountedTimingUnit(large, memory="ecp5-rbw", levels=1)
    assert built.latency == built.profile.latency == profile_of_rest(large).latency + 2


def profile_of_rest(spec):
    return unit_profile(spec, memory="ecp5", levels=1)


@pytest.mark.parametrize(
    ("spec", "memory", "message"),
    [
        (replace(TIGHT, cells=12), "portable-rbw",
         "cells: must be a power of two greater than 1 in hardware, not 12"),
        (replace(TIGHT, cells=8), "portable-rbw",
         r"stamp_bits: must leave the sweep 110 insertions for 8 cells a part and not 66 "
         r"\(66 blocks of 1\), not 7"),
        (TIGHT, "ice40-rbw",
         "memory: must be portable or ecp5 or portable-rbw or ecp5-rbw for family "
         "partitioned-timing, not 'ice40-rbw'"),
    ],
)  # fmt: skip
def test_wrong(spec, memory, message):
    with pytest.raises(SpecificationError, match=f"^{message}$"):
        CountedTimingUnit(spec, memory=memory)


def test_memory_of_another_kind():
    with pytest.raises(ValueError, match="must be one of portable, ecp5, not 'ecp5-rbw'"):
        TimingCore(timing_preset("tiny"), clocks=64, memory="ecp5-rbw")
