"""Front end of a unit: operations that wait for the spare."""

from itertools import pairwise

import pytest
from simulation import simulate

from lately.golden import FilterSpec, Operation
from lately.hdl.build import filter_unit
from lately.hdl.frontend.front import FrontEnd

SPEC = FilterSpec(family="apbf", k=3, l=2, slice_bits=256, clear=8)
WORDS = SPEC.slice_bits // SPEC.clear
"""Clocks that the memories of a segment take to be cleared, long enough to be no other figure."""


def flags(operations, *, start=0, generation=500, dirty=range(0)):
    """Feed a front end; return the cycles of its acceptances and of its flags."""
    # Inputs that the unit itself drives.
    front = filter_unit(SPEC).front
    events = {name: [] for name in ("valid", "insert", "shift", "clear")}
    accepted = []
    waiting = list(operations)

    async def bench(ctx):
        ctx.set(front.credit, 1)
        ctx.set(front.generation, min(generation, (1 << len(front.generation)) - 1))
        for clock in range(5000):
            ctx.set(front.i.valid, bool(waiting) and clock >= start)
            ctx.set(front.i.payload, waiting[0] if waiting else Operation.NONE)
            ctx.set(front.clean, clock not in dirty)
            if ctx.get(front.i.valid) and ctx.get(front.i.ready):
                waiting.pop(0)
                accepted.append(clock)
            await ctx.tick()
            for name, clocks in events.items():
                if ctx.get(getattr(front.control, name)):
                    clocks.append(clock + 1)
            if not waiting and clock > max(accepted[-1], dirty.stop) + 4 * WORDS:
                break
        assert not waiting

    simulate(front, bench)
    return events | {"accepted": accepted}


def gaps(clocks):
    return [after - before for before, after in pairwise(clocks)]


def test_nothing_comes_before_the_clear_of_reset():
    events = flags([Operation.INSERT] * 3)
    (cleared,) = events["clear"]
    assert WORDS < events["insert"][0] - cleared <= WORDS + FrontEnd.PAUSE
    assert gaps(events["insert"]) == [1, 1]


def test_latency():
    events = flags([Operation.INSERT] * 5)
    pairs = zip(events["accepted"], events["insert"], strict=True)
    assert {after - before for before, after in pairs} == {FrontEnd.LATENCY}


def test_shift_waits_for_the_spare_of_the_previous_shift():
    events = flags([Operation.SHIFT] * 4)["shift"]
    assert len(events) == 4
    assert all(WORDS < gap <= WORDS + FrontEnd.PAUSE for gap in gaps(events))


def test_clear_keeps_the_gate_closed_until_all_is_clear():
    events = flags([Operation.CLEAR, Operation.INSERT])
    assert WORDS < events["insert"][0] - events["clear"][1] <= WORDS + FrontEnd.PAUSE


def test_clear_does_not_wait_for_the_spare():
    events = flags([Operation.SHIFT, Operation.CLEAR])
    assert events["clear"][1] - events["shift"][0] < WORDS


def test_core_may_say_that_the_spare_is_not_clean():
    dirty = range(200, 600)
    (shifted,) = flags([Operation.SHIFT], start=250, dirty=dirty)["shift"]
    assert dirty.stop <= shifted <= dirty.stop + FrontEnd.PAUSE
    events = flags([Operation.CLEAR, Operation.INSERT], start=250, dirty=dirty)
    assert 250 < events["clear"][1] < dirty.stop
    assert dirty.stop <= events["insert"][0] <= dirty.stop + FrontEnd.PAUSE


def test_generations_as_short_as_a_unit_allows_never_wait():
    unit = filter_unit(SPEC)
    shortest = unit.minimum_generation
    events = flags([Operation.INSERT] * 5 * shortest, generation=shortest)
    assert set(gaps(events["insert"])) == {1}
    assert set(gaps(events["shift"])) == {shortest}
    assert shortest > WORDS


def test_first_generation_after_reset_has_its_length():
    shortest = filter_unit(SPEC).minimum_generation
    events = flags([Operation.INSERT] * 2 * shortest, generation=shortest)
    assert events["shift"] == [events["insert"][shortest]]


@pytest.mark.parametrize("generation", [2, WORDS])
def test_shorter_generations_wait_for_the_spare(generation):
    events = flags([Operation.INSERT] * 4 * generation, generation=generation)
    assert len(events["shift"]) == 3
    assert min(gaps(events["shift"])) > WORDS
