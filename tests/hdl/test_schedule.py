"""When generations end and the spare is clean, to the clock."""

import pytest
from amaranth.sim import Simulator

from lately.hdl.frontend.schedule import GenerationCounter, GenerationLength, SpareTimer


def clocks(component, inputs, outputs, count=80):
    """Return the outputs in each clock, with inputs that are set in some of them and stay."""
    told = []

    async def bench(ctx):
        for clock in range(count):
            for name, value in inputs(clock).items():
                ctx.set(getattr(component, name), value)
            told.append(tuple(ctx.get(getattr(component, name)) for name in outputs))
            await ctx.tick()

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return told


@pytest.mark.parametrize("words", [1, 2, 7, 8])
def test_spare_is_clean_after_its_words(words):
    """After reset as well; a start during a clear begins anew."""
    starts = (20, 40, 41)
    told = clocks(SpareTimer(words=words), lambda clock: {"start": clock in starts}, ["clean"])
    dirty = {*range(words), *range(21, 21 + words), *range(41, 42 + words)}
    assert [not clean for (clean,) in told] == [clock in dirty for clock in range(80)]


@pytest.mark.parametrize("length", [1, 2, 14, 15])
def test_generation_is_full_after_its_length(length):
    counter = GenerationCounter(width=4)
    told = clocks(counter, lambda clock: {"length": length, "event": clock >= 2}, ["full", "left"])
    # Full until the first event, which begins a generation.
    full = [clock for clock, (one, _) in enumerate(told) if one]
    assert full == [0, 1, *range(2, 80, length)]
    assert {left for _, left in told} == {*range(-1, length - 1)}


@pytest.mark.parametrize("length", [1, 2, 15])
def test_generation_that_a_shift_begins_holds_no_insertion(length):
    def inputs(clock):
        # A SHIFT fills the generation and waits; then it turns the ring.
        return {"length": length, "fill": 20 <= clock < 30, "event": 2 <= clock < 20 or clock >= 30}

    told = clocks(GenerationCounter(width=4), inputs, ["full"])
    full = [clock for clock, (one,) in enumerate(told) if one and clock > 20]
    assert full == [*range(21, 31), *range(31 + length, 80, length)]


def test_full_generation_goes_on_until_it_is_told_to_turn():
    def inputs(clock):
        return {"length": 5, "event": clock >= 2, "turn": clock in (2, 20, 23)}

    told = clocks(GenerationCounter(width=4, goes_on=True), inputs, ["full"], 40)
    full = [clock for clock, (one,) in enumerate(told) if one]
    assert full == [0, 1, 2, *range(7, 21), *range(28, 40)]


@pytest.mark.parametrize("length", [4, 5])
def test_length_is_taken_over_and_told_ahead(length):
    component = GenerationLength(width=4, minimum=5)
    period = component.PERIOD
    told = clocks(
        component,
        lambda clock: {"generation": 15 if clock < 3 * period else length},
        ["length", "below", "below_soon"],
    )
    # The first sample is taken with the last clock of a period, and handed on with the next.
    assert [one for one, _, _ in told] == [
        0 if clock < 2 * period else 15 if clock < 5 * period else length for clock in range(80)
    ]
    below = [clock for clock, (_, one, _) in enumerate(told) if one]
    soon = [clock for clock, (_, _, one) in enumerate(told) if one]
    assert below == [*range(2 * period), *(range(5 * period, 80) if length < 5 else ())]
    assert set(below) <= set(soon)
    if length < 5:
        assert min(set(soon) - {*range(2 * period + 1)}) == 4 * period + 2
