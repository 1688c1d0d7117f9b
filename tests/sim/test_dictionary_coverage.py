"""What coverage tells of dictionaries, without a simulator."""

import pytest

from lately.golden import Operation, WindowDictionarySpec
from lately.sim.bench.coverage import Collector, Ports
from lately.sim.bench.dictionary_coverage import (
    ColumnClock,
    ColumnSampler,
    DictionarySampler,
    points,
)
from lately.sim.bench.dictionary_parts import (
    DictionaryItem,
    DictionaryScoreboard,
    Performed,
    Places,
)

SPEC = WindowDictionarySpec(
    window=16, columns=1, rows=4, digest_bits=6, stash=1, key_bits=8, seed=2
)
QUERY, INSERT, CHECK, CLEAR, REMOVE = (
    Operation[name] for name in ("QUERY", "INSERT", "CHECK_AND_INSERT", "CLEAR", "REMOVE")
)
POOL = Places.of(SPEC, range(256))


def keys_of_one_cell():
    """Return keys of different digests that share the one cell that each has."""
    chosen = {}
    for key in range(256):
        if POOL.rows[0, key] == POOL.rows[0, 0]:
            chosen.setdefault(int(POOL.digests[key]), key)
    return [*chosen.values()]


A, B, C, D = keys_of_one_cell()[:4]


def follow(course, point):
    """Follow (code, key, window), one per clock; an integer is a pause in clocks."""
    board, collector = DictionaryScoreboard(SPEC), Collector(points(SPEC))
    now, performed = 0, []
    for one in course:
        if isinstance(one, int):
            now += one
            continue
        now += 1
        code, key, *window = one
        item = DictionaryItem(code, key, 0, *window or [SPEC.window])
        performed.append(Performed(item, 10 * now, board.perform(item)))
    DictionarySampler(SPEC, collector, clock=10).follow(performed)
    return {name: count for name, count in collector.counts[point].items() if count}


def test_places_are_those_of_golden():
    board = DictionaryScoreboard(SPEC)
    for key in range(8):
        board.golden.clear()
        board.golden.insert([key])
        distances, rests = board.golden.memory
        row = int(POOL.rows[0, key])
        assert distances[0, row] == 1
        assert rests[0, row] == POOL.digests[key] >> SPEC.row_bits


@pytest.mark.parametrize(
    ("course", "names"),
    [
        ([(INSERT, A), 3, (CHECK, A)],
         {"4, insertion, then query": 1, "4, insertion, then insertion": 1}),
        ([(REMOVE, A), (REMOVE, A)], {"1, removal, then removal": 1}),
        ([(INSERT, A), 8, (QUERY, A)], {}),
    ],
)  # fmt: skip
def test_distances(course, names):
    assert follow(course, "clocks between operations of a digest") == names
    other = [one if isinstance(one, int) or number == 0 else (one[0], B)
             for number, one in enumerate(course)]  # fmt: skip
    assert follow(other, "clocks between operations of a cell") == names


FULL = [(INSERT, A), (INSERT, B)]


def test_where_digests_go():
    assert follow(FULL, "insertion of a new digest") == {"column 0": 1, "stash": 1}
    again = "insertion of a digest that is held"
    assert follow([*FULL, (INSERT, A)], again) == {"column 0": 1}
    assert follow([*FULL, (INSERT, B)], again) == {"stash to stash": 1}
    assert follow([*FULL, (REMOVE, A), (INSERT, B)], again) == {"stash to cell": 1}
    assert follow([*FULL, (QUERY, A), (CHECK, B)], "hit") == {"column 0": 1, "stash": 1}
    removals = [(REMOVE, A), (REMOVE, A), (REMOVE, B)]
    assert follow([*FULL, *removals], "removal") == {"column 0": 1, "nothing": 1, "stash": 1}


@pytest.mark.parametrize(("between", "name"), [(15, "expires with the insertion"), (16, "none")])
def test_cell_that_is_filled(between, name):
    # Insertions elsewhere.
    there = next(key for key in range(256) if POOL.rows[0, key] != POOL.rows[0, 0])
    course = [(INSERT, A), *[(INSERT, there)] * between, (INSERT, B)]
    assert follow(course, "entry in the cell that is filled").get(name) == 1 + 2 * (name == "none")


def test_full_stash_and_what_is_guaranteed():
    lost = [*FULL, (INSERT, C)]
    assert follow(lost, "full stash") == {"an entry is given up": 1}
    assert follow([*lost, (INSERT, D)], "full stash")["another is given up"] == 1
    assert follow(lost, "guarantee") == {"falls": 1}
    assert follow([*lost, (CLEAR, 0)], "guarantee")["cleared"] == 1
    later = [*lost, *[(INSERT, C)] * 15]
    assert follow(later, "guarantee") == {"falls": 1, "returns": 1}
    asked = [*lost, (QUERY, A, 1), (QUERY, A, 2)]
    assert follow(asked, "query while less is guaranteed") == {"within it": 1, "beyond it": 1}


@pytest.mark.parametrize(
    ("window", "name"),
    [(2, "one more than the age"), (1, "the age"), (0, "0"), (16, "the longest")],
)
def test_window_of_a_query(window, name):
    course = [(INSERT, A), (INSERT, B), (QUERY, A, window)]
    assert follow(course, "window of a query") == {name: 1}


ROW = int(POOL.rows[0, A])
IDLE = ColumnClock(
    reads=ROW, writes=None, hand=ROW, due=False, resting=False, ends=False, erases=False,
    expired=False, late=False, overdue=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "point", "names"),
    [
        ({"writes": ROW}, "read in the clock of", {"a write of its cell": 1}),
        ({"writes": ROW ^ 1}, "read in the clock of", {}),
        ({"ends": True, "erases": True}, "read in the clock of", {"an erasure of its cell": 1}),
        ({"ends": True, "erases": True}, "sweep of a cell", {"erased": 1}),
        ({"ends": True, "expired": True}, "sweep of a cell", {"called off": 1}),
        ({"ends": True}, "sweep of a cell", {"nothing to erase": 1}),
        ({"ends": True, "erases": True, "writes": ROW}, "sweep waits", {"to erase": 1}),
        ({"due": True, "writes": ROW}, "sweep waits", {"to read": 1}),
        ({"due": True, "resting": True, "writes": ROW}, "sweep waits", {}),
        ({"late": True}, "rows that are due", {"late": 1}),
    ],
)
def test_column(values, point, names):
    collector = Collector(points(SPEC))
    sampler = ColumnSampler(SPEC, collector, lag=1)
    sampler.clock(Ports(offered=True, ready=True, operation=QUERY, key=A), IDLE)
    sampler.clock(Ports(), IDLE._replace(**values))
    found = {name: count for name, count in collector.counts[point].items() if count}
    assert found == names


def test_row_that_is_wrong():
    sampler = ColumnSampler(SPEC, Collector(points(SPEC)), lag=1)
    sampler.clock(Ports(offered=True, ready=True, operation=QUERY, key=A), IDLE)
    with pytest.raises(AssertionError, match=f"^row {ROW ^ 1} at the column, not {ROW}$"):
        sampler.clock(Ports(), IDLE._replace(reads=ROW ^ 1))
