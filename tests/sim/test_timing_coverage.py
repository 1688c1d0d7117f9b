"""What coverage tells of timing filters, and of all units around a core, without a simulator."""

import pytest

from lately.golden import Operation, timing_preset
from lately.sim.bench.coverage import Collector, Ports
from lately.sim.bench.shell_coverage import ShellSampler, shell_points
from lately.sim.bench.timing_coverage import PartClock, PartSampler, TimingSampler, points
from lately.sim.bench.timing_parts import Performed, TimingItem, TimingOutcome, cells_of

TIMED = timing_preset("tiny")
COUNTED = timing_preset("counted-tiny")
INSERT, QUERY, SHIFT, CLEAR = Operation.INSERT, Operation.QUERY, Operation.SHIFT, Operation.CLEAR
IDLE = Ports(ready=True)
CLOSED = Ports()


def found(collector, point):
    return {name: count for name, count in collector.counts[point].items() if count}


def accept(code, key=0):
    return Ports(offered=True, ready=True, operation=code, key=key)


# Around a core


def shell(clocks, point, most_rest=1):
    collector = Collector(shell_points(16, sweep=True))
    sampler = ShellSampler(collector, latency=4, most_rest=most_rest)
    for ports in (Ports(rst=True), *clocks):
        sampler.clock(ports)
    return found(collector, point)


WAITS = Ports(ready=True, valid=True)


@pytest.mark.parametrize(
    ("clocks", "reason"),
    [
        ([accept(QUERY), CLOSED], "for the sweep"),
        ([accept(QUERY), CLOSED, CLOSED], "results wait"),
        ([accept(QUERY), WAITS, CLOSED], "results wait"),
        ([accept(SHIFT), CLOSED], "after another operation alone"),
        ([accept(CLEAR), CLOSED, CLOSED], "after CLEAR"),
    ],
)
def test_input_closed(clocks, reason):
    assert shell([*clocks, IDLE], "input closed") == {reason: 1}


def test_pairs_of_codes():
    pairs = shell([accept(8), accept(13), accept(3)], "operation pairs")
    assert pairs == {"REMOVE, code 13": 1, "code 13, CHECK_AND_INSERT": 1}


@pytest.mark.parametrize(
    ("clocks", "behind"),
    [
        ([accept(INSERT), IDLE, accept(CLEAR)], "insertions under way"),
        ([accept(INSERT), *[IDLE] * 4, accept(CLEAR)], "nothing"),
    ],
)
def test_clear(clocks, behind):
    assert shell(clocks, "CLEAR") == {f"behind {behind}": 1}
    assert shell([*clocks, accept(CLEAR)], "CLEAR")["behind another"] == 1


# Operations and their blocks


def follow(course, point, spec=TIMED):
    """Follow (code, key, clock, block, age, window)."""
    collector = Collector(points(spec))
    TimingSampler(spec, collector, clock=10).follow(
        Performed(TimingItem(code, key, 0, window), 10 * clock, block,
                  TimingOutcome(age <= window, age, 1, 0))
        for code, key, clock, block, age, window in course
    )  # fmt: skip
    return found(collector, point)


def neighbour():
    cells = cells_of(TIMED, range(4096))
    return int(((cells == cells[:, [0]]).sum(axis=0) == 1).nonzero()[0][0])


@pytest.mark.parametrize(("key", "what"), [(0, "key"), (neighbour(), "cell")])
def test_distances(key, what):
    course = [(INSERT, 0, 5, 3, 21, 0), (QUERY, key, 8, 4, 1, 20)]
    point = "clocks between an insertion and a query of its"
    assert follow(course, f"{point} {what}") == {"3, age 1": 1}
    assert not follow([*course[:1], (CLEAR, 0, 6, 3, 0, 0), course[1]], f"{point} {what}")


def test_most_blocks_between_two_operations():
    """One clock in six is the sweep's."""
    bins = points(COUNTED)["clocks between an insertion and a query of its key"]
    assert {"4, age 4", "5, age 4", "8, age 7"} < {*bins}
    assert "5, age 5" not in bins


@pytest.mark.parametrize(
    ("clock", "block", "how"),
    [(12, 3, "under way already"), (13, 3, "in the memory already"), (6, 4, "made")],
)
def test_write(clock, block, how):
    course = [(INSERT, 0, 5, 3, 21, 0), (INSERT, 0, clock, block, 0, 0)]
    expected = {"made": 1}
    expected[how] = expected.get(how, 0) + 1
    assert follow(course, "write of an insertion") == expected


@pytest.mark.parametrize(
    ("blocks", "names"),
    [(20, 0), (21, 1), (31, 1), (32, 2), (127, 2), (128, 3)],
)
def test_silence(blocks, names):
    course = [(QUERY, 0, 0, 5, 21, 20), (QUERY, 0, 900, 5 + blocks, 21, 20)]
    assert len(follow(course, "silence")) == names


@pytest.mark.parametrize(
    ("age", "window", "names"),
    [
        (7, 7, {"the age": 1}),
        (7, 6, {"a block less than the age": 1}),
        (7, 8, {}),
        (20, 20, {"the age": 1, "the longest": 1}),
        (0, 0, {"0": 1, "the age": 1}),
    ],
)
def test_window_of_a_query(age, window, names):
    assert follow([(QUERY, 0, 0, 9, age, window)], "window of a query") == names


# The first part


def part(spec, clocks, point):
    """Follow pairs of ports and the first part, which has an operation a clock later."""
    collector = Collector(points(spec))
    sampler = PartSampler(spec, collector, lag=1)
    for ports, clock in clocks:
        sampler.clock(ports, clock)
    return found(collector, point)


CELL = int(cells_of(TIMED, [0])[0, 0])
NOWHERE = PartClock(CELL, None, CELL)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, {"still young": 1}),
        ({"restamps": True}, {"restamped": 1}),
        ({"restamps": True, "touched": True}, {"called off": 1}),
        ({"restamps": True, "busy": True}, {}),
        ({"restamps": True, "wipes": True}, {}),
    ],
)
def test_cell_in_hand(options, what):
    decides = PartClock(CELL, None, CELL, decides=True, **options)
    assert part(TIMED, [(IDLE, decides)], "sweep of a cell") == what
    waits = part(TIMED, [(IDLE, decides)], "sweep waits")
    assert waits == ({"to write": 1} if "busy" in options else {})


@pytest.mark.parametrize(("code", "kind"), [(QUERY, "query"), (INSERT, "insertion")])
def test_read_that_meets_the_sweep(code, kind):
    decides = PartClock(CELL, None, CELL, decides=True, restamps=True)
    clocks = [(accept(code), NOWHERE), (IDLE, decides), (IDLE, PartClock(CELL, CELL, CELL))]
    point = "read in the clock in which the sweep writes"
    assert part(TIMED, clocks, point) == {kind: 1}
    # An operation writes.
    assert not part(TIMED, [clocks[0], (IDLE, NOWHERE), clocks[2]], point)


def test_sweep_in_a_clock_of_its_own():
    cell = int(cells_of(COUNTED, [0])[0, 0])
    idle, sweeps = PartClock(cell, None, cell), PartClock(cell, None, cell, sweeps=True)
    behind = [(accept(INSERT), idle), (IDLE, idle), (IDLE, sweeps)]
    assert part(COUNTED, behind, "sweep of a cell") == {"behind an insertion under way": 1}
    ahead = [(accept(QUERY), sweeps), (IDLE, idle)]
    assert part(COUNTED, ahead, "operation behind the sweep of its cell") == {"query": 1}
    for written, what in ((cell, "restamped"), (None, "still young")):
        last = (IDLE, PartClock(cell, written, 0))
        told = part(COUNTED, [(IDLE, sweeps), *[(IDLE, idle)] * 7, last], "sweep of a cell")
        assert told == {what: 1}


def test_address_that_is_wrong():
    with pytest.raises(AssertionError, match=f"^cell {CELL ^ 1} at the part, not {CELL}$"):
        part(TIMED, [(accept(QUERY), NOWHERE), (IDLE, PartClock(CELL ^ 1, None, 0))], "age")
