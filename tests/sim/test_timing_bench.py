"""Units of timing filters under their bench, with each source of ticks."""

import re
from dataclasses import replace

import pytest
from mutants import broken

from lately.golden import timing_preset
from lately.hdl.timing import core, part, recent
from lately.hdl.timing.sweep import VisitSweep
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

pytestmark = pytest.mark.rtl

SEED = 20260807
SPECS = {
    "tick": timing_preset("tiny"),
    "period": timing_preset("tiny"),
    "insertions": timing_preset("counted-tiny"),
}
TESTS = {"tick": 26, "period": 25, "insertions": 24}
# A few tests, in block RAMs that answer with garbage.
SHORT = "clear_forgets|latency|blocked"


def run(ticks, simulator, folder, **options):
    source = {"ticks": "tick" if ticks == "insertions" else ticks}
    return run_filter_bench(SPECS[ticks], simulator, folder, seed=SEED, **source, **options)


def check(outcomes, count):
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == count
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.parametrize("ticks", ["tick", "insertions"])
def test_short_bench(ticks, tmp_path, capfd):
    check(run(ticks, "icarus", tmp_path, memory="ecp5", testcase=SHORT), 3)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ecp5", "portable"])
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("ticks", SPECS)
def test_bench(ticks, simulator, memory, tmp_path, capfd):
    check(run(ticks, simulator, tmp_path, memory=memory), TESTS[ticks])


@pytest.mark.slow
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("ticks", SPECS)
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_bench_of_tables(simulator, ticks, classes, tmp_path, capfd):
    spec = replace(SPECS[ticks], classes=classes)
    if ticks == "insertions":
        spec = replace(spec, block=4, stamp_bits=5, phase_bits=2)
    source = {"ticks": "tick" if ticks == "insertions" else ticks}
    check(run_filter_bench(spec, simulator, tmp_path, seed=SEED, memory="ecp5", **source), 6)


@pytest.mark.slow
@pytest.mark.parametrize("ticks", ["tick", "insertions"])
def test_bench_with_inverted_garbage(ticks, tmp_path, capfd):
    check(run(ticks, "icarus", tmp_path, memory="ecp5", inverted=True), TESTS[ticks])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ticks", "module", "piece", "old", "new", "testcase"),
    [
        # A tick between two operations; a write that is under way; cells that expire.
        ("tick", part, recent.recent_insertion, "(passed + tick)", "(tick + 0)",
         "every_distance_between_equal_keys"),
        ("tick", part, recent.recent_insertion, "address, other, flag))",
         "address, other, flag & (ahead != 4)))", "every_distance_between_keys_of_one_cell"),
        ("insertions", part, recent.recent_insertion, "(passed + tick)", "(tick + 0)",
         "every_distance_between_equal_keys"),
        ("insertions", core, VisitSweep, "(decided.wipe | decided.expired)", "decided.wipe",
         "no_silence_brings_a_key_back"),
    ],
)  # fmt: skip
def test_broken_part_is_found(
    ticks, module, piece, old, new, testcase, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(module, piece.__name__, broken(piece, old, new))
    outcomes = run(ticks, "icarus", tmp_path, memory="ecp5", testcase=testcase)
    assert outcomes == {testcase: False}
    log = (tmp_path / "icarus.log").read_text()
    assert re.search(r"result \d+: expected|part \d+", log), log
