"""Bit-sliced units whose window is one in time: the sweep of the spare, and ticks that wait."""

import random

import pytest
from mutants import broken
from timed_unit import SEED, Run, stream, timed

from lately.golden import Operation
from lately.golden.spec import GEBFSpec
from lately.hdl.frontend.schedule import Schedule
from lately.hdl.latencies import END_LEFT

# A bank that is swept in idle clocks only, long enough for many ticks to come meanwhile.
UNSWEPT = GEBFSpec(
    window=600, epochs=1, hashes=1, bits=1024, key_bits=16, clear=1, span=39, generation_span=40
)
PAIRS = [
    pytest.param("gebf", "shorten"),
    pytest.param("blocked-gebf", "overfill"),
    pytest.param("gebf", "overfill", marks=pytest.mark.slow),
    pytest.param("blocked-gebf", "shorten", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("family", "when_full"), PAIRS)
def test_ticks_of_a_port(family, when_full):
    """Full rate, half rate and trickles, with SHIFT and CLEAR; results taken with pauses."""
    choose = random.Random(SEED)
    run = Run(timed(family, when_full=when_full), organisation="bit-sliced")

    async def bench(run):
        for rate, control in ((1.0, 0), (0.5, 0.01), (0.03, 0), (1.0, 0.003), (0.2, 0)):
            for code, key in stream(run, choose, 150, rate=rate, control=control):
                await run.perform(code, key)

    expected = run.run(bench, taking=0.9).check()
    assert {0, 1 if when_full == "shorten" else 2} <= set(expected.status.tolist())


@pytest.mark.parametrize(("family", "when_full"), PAIRS)
def test_times_of_requests(family, when_full):
    spec = timed(family, when_full=when_full)
    run = Run(spec, organisation="bit-sliced", ticks="time", time_bits=16)
    choose = random.Random(SEED)

    async def bench(run):
        time = 0
        steps = [*[0] * 30, 1, 2, 4, spec.span, spec.span + 1, 3 * spec.span, 4096]
        for rate, control in ((1.0, 0), (0.7, 0.02)):
            for code, key in stream(run, choose, 150, rate=rate, control=control):
                time += choose.choice(steps) if choose.random() < 0.5 else 0
                await run.perform(code, key, time=time % (1 << 16))

    run.run(bench, taking=0.95)
    assert [told["time"] for told in run.told] == [time for *_, time in run.done]
    run.check()


def unswept():
    """Return the run of a unit whose operations leave the sweep no clock."""
    run = Run(UNSWEPT, organisation="bit-sliced")
    span = UNSWEPT.generation_span * run.unit.profile.least_period
    choose = random.Random(SEED)

    async def bench(run):
        # The first generation has the spare that was swept after reset.
        while run.clock < 3 * span:
            code = Operation.INSERT if choose.random() < 0.1 else Operation.QUERY
            await run.perform(code, choose.randrange(1 << 16))

    return run.run(bench)


def test_no_tick_is_lost_while_a_spare_is_swept_for_an_old_generation():
    """Operations are far from filling the generation that gets old."""
    run = unswept()
    run.check()
    turns = run.counts["shifts"]
    assert turns > 1, "no generation got old"
    assert run.counts["insertions"] < UNSWEPT.generation - END_LEFT, "one may be nearly full"
    assert 0 < run.waits <= turns * run.unit.longest_pause


def test_an_input_that_stays_open_for_an_old_generation_is_noticed(monkeypatch):
    schedule = broken(Schedule, "soon = soon | self.hurry", "soon = soon")
    monkeypatch.setattr("lately.hdl.frontend.front.Schedule", schedule)
    with pytest.raises(AssertionError):
        unswept().check()
