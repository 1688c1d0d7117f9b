"""What coverage tells of windows in time, without a simulator."""

from dataclasses import replace

import pytest

from lately.golden import Operation, preset
from lately.sim.bench.coverage import Collector, points
from lately.sim.bench.parts import Item
from lately.sim.bench.timed_coverage import TimedSampler
from lately.sim.bench.timed_parts import Answered

SHORTEN = preset("timed-tiny")
OVERFILL = replace(SHORTEN, when_full="overfill")
# A spare that takes long to clear.
SLOW = replace(SHORTEN, clear=1, generation=80, window=160)
INSERT, QUERY, SHIFT = Operation.INSERT, Operation.QUERY, Operation.SHIFT


def hits(course, *, spec=SHORTEN, ticks=(), point=None):
    """Follow (operation, time) pairs, 1 ns apart; a string is a pause of 100 ns."""
    collector, answered, accepted = Collector(points(spec)), [], 0
    for one in course:
        if isinstance(one, str):
            accepted += 100
            continue
        accepted += 1
        answered.append(Answered(Item(one[0], 0, 0), accepted, one[1]))
    TimedSampler(spec, collector, period=40, clock=1).follow(answered, ticks)
    found = collector.counts[point]
    return {name: count for name, count in found.items() if count}


FULL = [(INSERT, 0)] * SHORTEN.generation
EVERY = [*FULL * 3, (INSERT, 0)]
OLD = SHORTEN.generation_span


@pytest.mark.parametrize(
    ("course", "turns"),
    [
        ([*FULL, (INSERT, OLD - 1)], {"by number": 1}),
        ([*FULL, (INSERT, OLD)], {"by number and age": 1}),
        ([*FULL[1:], (INSERT, OLD)], {"by age": 1}),
        ([*FULL[1:], (INSERT, OLD - 1)], {}),
        ([*FULL, (QUERY, OLD)], {}),
    ],
)
def test_turn(course, turns):
    assert hits(course, point="turn") == turns


def test_what_is_full_is_refused_or_shortens():
    assert hits(EVERY, point="turn refused") == {}
    assert hits(EVERY, point="window") == {"shortened": 1}
    assert hits(EVERY, spec=OVERFILL, point="turn refused") == {"full": 1}
    assert hits(EVERY, spec=OVERFILL, point="window") == {"overfilled": 1}


def test_what_is_old_is_refused():
    assert hits([*EVERY[:-2], (INSERT, OLD)], point="turn refused") == {"old": 1}


@pytest.mark.parametrize(("time", "name"), [(12, "oldest counts"), (13, "oldest does not count")])
def test_shift(time, name):
    # The first of three generations is the oldest of the ring.
    course = [*FULL * 2, (INSERT, 0), (SHIFT, time)]
    assert hits(course, point="SHIFT") == {name: 1}
    assert not hits(course, point="window"), "not by an insertion"


@pytest.mark.parametrize(
    ("ticks", "name"),
    [(12, None), (13, "longer than the span"), (48, "longer than the span"), (49, "four spans")],
)
def test_silence(ticks, name):
    found = hits([(QUERY, 5), (QUERY, 5 + ticks)], point="silence")
    assert found == ({name: 1} if name else {})


@pytest.mark.parametrize(
    ("course", "names"),
    [
        ([(QUERY, 0), (QUERY, 1)], {"any": 1}),
        ([(QUERY, 0), "pause", (QUERY, 1)], {}),
        ([(QUERY, 0), (SHIFT, 1)], {"any": 1, "before a turn": 1}),
        ([(SHIFT, 0), (QUERY, 1)], {"any": 1, "behind a turn": 1}),
    ],
)
def test_tick_between_two_clocks(course, names):
    assert hits(course, point="tick between two clocks") == names


@pytest.mark.parametrize(("late", "found"), [(40, {"not clean": 1}), (39, {})])
def test_spare_of_an_old_generation(late, found):
    """A tick that was to make the generation old has had no effect after a period."""
    course = [(INSERT, OLD - 1), "pause", (QUERY, 2 * OLD - 2)]
    ticks = [0] * (2 * OLD - 2) + [102 - late]
    point = "spare of an old generation"
    assert hits(course, spec=SLOW, ticks=ticks, point=point) == found
    assert point not in points(SHORTEN)
