"""Units whose window is one in time under their bench, with each source of ticks."""

from dataclasses import replace

import pytest

from lately.golden import preset
from lately.hdl.latencies import TICKS
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

pytestmark = pytest.mark.rtl

SEED = 20260807
SPEC = preset("timed-tiny")
# Tests of units of their kind, and those of windows in time with each source of ticks.
COUNTED = 30
TIMED = {"tick": 17, "period": 13, "time": 13}
# A few tests under one simulator, and a whole bench, compiled, under the other.
SHORT = "bursts|end=number|come_close"


def check(outcomes, count):
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == count
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


def test_short_bench(tmp_path, capfd):
    check(run_filter_bench(SPEC, "icarus", tmp_path, seed=SEED, testcase=SHORT), 3)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("when_full", ["shorten", "overfill"])
@pytest.mark.parametrize("ticks", TICKS)
def test_bench(ticks, when_full, simulator, tmp_path, capfd):
    spec = replace(SPEC, when_full=when_full)
    outcomes = run_filter_bench(spec, simulator, tmp_path, seed=SEED, ticks=ticks)
    counts = (ticks, when_full) == ("tick", "shorten")
    check(outcomes, TIMED[ticks] + (COUNTED if counts else 0))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ecp5", "ice40", "gowin"])
def test_bench_with_block_rams(memory, tmp_path, capfd):
    outcomes = run_filter_bench(
        SPEC, "icarus", tmp_path, seed=SEED, memory=memory, testcase="timed_bench"
    )
    check(outcomes, TIMED["tick"])
