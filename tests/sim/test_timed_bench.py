"""Units whose window is one in time under their bench, with each source of ticks."""

import itertools
from dataclasses import replace

import pytest

from lately.golden import preset
from lately.hdl.latencies import TICKS
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

pytestmark = pytest.mark.rtl

SEED = 20260807
SPECS = {
    "separate": preset("timed-tiny"),
    "bit-sliced": replace(preset("gebf-tiny"), window=48, generation=None, bits=192, span=12),
}
# Tests of units of their kind, and those of windows in time with each source of ticks.
COUNTED = {"separate": 30, "bit-sliced": 35}
TIMED = {"tick": 17, "period": 13, "time": 13}
# A few tests under one simulator, and a whole bench, compiled, under the other.
SHORT = "bursts|end=number|come_close"


def check(outcomes, count):
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == count
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


def test_short_bench(tmp_path, capfd):
    spec = SPECS["separate"]
    check(run_filter_bench(spec, "icarus", tmp_path, seed=SEED, testcase=SHORT), 3)


RUNS = [*itertools.product(SPECS, TICKS, ("shorten", "overfill"), SIMULATORS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("organisation", "ticks", "when_full", "simulator"),
    RUNS,
)
def test_bench(organisation, ticks, when_full, simulator, tmp_path, capfd):
    spec = replace(SPECS[organisation], when_full=when_full)
    outcomes = run_filter_bench(
        spec, simulator, tmp_path, seed=SEED, organisation=organisation, ticks=ticks
    )
    counts = (ticks, when_full) == ("tick", "shorten")
    check(outcomes, TIMED[ticks] + (COUNTED[organisation] if counts else 0))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ecp5", "ice40", "gowin"])
def test_bench_with_block_rams(memory, tmp_path, capfd):
    outcomes = run_filter_bench(
        SPECS["separate"], "icarus", tmp_path, seed=SEED, memory=memory, testcase="timed_bench"
    )
    check(outcomes, TIMED["tick"])
