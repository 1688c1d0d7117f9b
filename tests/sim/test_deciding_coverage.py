"""What coverage tells of units that answer by tables, without a simulator."""

from dataclasses import replace

import numpy as np
import pytest

from lately.golden import Operation, timing_preset
from lately.sim.bench.coverage import Collector, Ports
from lately.sim.bench.deciding_coverage import (
    NO_TABLE,
    SwapSampler,
    TablePorts,
    deciding_points,
    sample_answers,
)
from lately.sim.bench.timing_parts import ClassItem, LookedUp, Performed, TimingOutcome

SPEC = replace(timing_preset("counted-tiny"), block=4, classes=3, phase_bits=1)
IDLE, ACCEPT = Ports(ready=True), Ports(ready=True, offered=True)
RESULT = Ports(ready=True, valid=True, taken=True)
NONE, SWAP = TablePorts(False, False, True), TablePorts(True, False, False)
ENTRY, HELD = TablePorts(False, True, True), TablePorts(False, True, False)


def found(collector, point):
    return {name: count for name, count in collector.counts[point].items() if count}


def clocks(point, *pairs):
    collector = Collector(deciding_points(SPEC))
    sampler = SwapSampler(collector)
    for ports, table in ((Ports(rst=True), NONE), *pairs):
        sampler.clock(ports, table)
    return found(collector, point)


@pytest.mark.parametrize(
    ("before", "beside", "after", "expected"),
    [
        (ACCEPT, IDLE, IDLE, "in the clock before"),
        (IDLE, ACCEPT, IDLE, "in its clock"),
        (IDLE, IDLE, ACCEPT, "in the clock after"),
    ],
)
def test_operation_beside_a_swap(before, beside, after, expected):
    pairs = [(before, NONE), (beside, SWAP), (after, NONE), (ACCEPT, NONE)]
    assert clocks("operation beside a swap", *pairs) == {expected: 1}


def test_entries():
    assert clocks("entry", (IDLE, ENTRY), (ACCEPT, NONE), (RESULT, NONE), (IDLE, ENTRY)) == {}
    busy = clocks("entry", (ACCEPT, ENTRY), (IDLE, ENTRY), (RESULT, ENTRY), (IDLE, ENTRY))
    assert busy == {"taken while operations are under way": 2}
    held = clocks("entry", (IDLE, HELD), (IDLE, HELD), (IDLE, ENTRY), (IDLE, ENTRY))
    assert held == {"held by a swap": 2, "taken after that": 1}
    # A reset forgets what was under way.
    assert clocks("entry", (ACCEPT, NONE), (Ports(rst=True), NONE), (IDLE, ENTRY)) == {}


def test_answers():
    collector = Collector(deciding_points(SPEC))
    table = np.full(SPEC.table_shape, 2)
    tables = [np.zeros_like(table), table, table + 1]
    operations = [
        (Operation.QUERY, 0, 1, 0, (0, 0)),
        (Operation.QUERY, 5, 2, 1, (1, 1)),
        (Operation.CHECK_AND_INSERT, 6, 1, 2, (2, 1)),
        # Neither asks.
        (Operation.INSERT, 4, 3, 0, (1, 0)),
        (Operation.CLEAR, 3, 3, 0, (1, 0)),
    ]
    performed = [
        Performed(ClassItem(code, 7, 0, number), 0.0, 0, TimingOutcome(True, age, oldest, 0, 0))
        for code, age, oldest, number, _ in operations
    ]
    looked_up = [LookedUp(*there) for *_, there in operations]
    sample_answers(collector, performed, looked_up, tables)
    assert found(collector, "age") == {"0": 1, "4": 1, "5": 1, "6": 1}
    assert found(collector, "class of a query") == {"0": 1, "1": 1, "2": 1}
    assert found(collector, "phase") == {"0": 1, "1": 2}
    banks = {NO_TABLE: 1, "of bank 1": 1, "of bank 0": 1}
    assert found(collector, "table that answers") == banks
    cells = {"more": 1, "as many": 1, "fewer than the threshold": 1}
    assert found(collector, "oldest cells") == cells


def test_every_age_of_the_table_is_a_bin():
    assert [*deciding_points(SPEC)["age"]] == [str(age) for age in range(SPEC.window_blocks + 2)]
    ended = replace(SPEC, block=1, phase_bits=0)
    # The block of an insertion ends with it.
    assert deciding_points(ended)["age"][0] == "1"
