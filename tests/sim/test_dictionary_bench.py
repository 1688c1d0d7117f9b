"""Units of dictionaries under their bench, with either hash."""

import re
from dataclasses import replace

import pytest
from mutants import broken

from campaigns.coverage_report import CROWDED_RING
from lately.golden import dictionary_preset
from lately.hdl.dictionary import core, ring_core
from lately.hdl.dictionary.column import Column
from lately.hdl.dictionary.placement import Placement
from lately.hdl.dictionary.ring_column import RingColumn
from lately.hdl.dictionary.ring_stash import RingStash
from lately.hdl.dictionary.stash import Stash
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

pytestmark = pytest.mark.rtl

SEED = 20260807
TINY = dictionary_preset("tiny")
SPECS = {"h3": TINY, "siphash": replace(TINY, hash="siphash")}
TESTS = {"h3": 26, "siphash": 28}
# A few tests, in block RAMs that answer with garbage.
SHORT = "clear_forgets|latency|blocked"


def check(outcomes, count):
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == count
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


def test_short_bench(tmp_path, capfd):
    options = {"seed": SEED, "memory": "ecp5", "testcase": SHORT}
    check(run_filter_bench(TINY, "icarus", tmp_path, **options), 3)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ecp5", "portable"])
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("hash", SPECS)
def test_bench(hash, simulator, memory, tmp_path, capfd):
    outcomes = run_filter_bench(SPECS[hash], simulator, tmp_path, seed=SEED, memory=memory)
    check(outcomes, TESTS[hash])


@pytest.mark.slow
def test_bench_with_inverted_garbage(tmp_path, capfd):
    options = {"seed": SEED, "memory": "ecp5", "inverted": True}
    check(run_filter_bench(TINY, "icarus", tmp_path, **options), TESTS["h3"])


@pytest.mark.slow
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize(
    "spec", [dictionary_preset("ring-tiny"), CROWDED_RING], ids=["tiny", "crowded"]
)
def test_ring(spec, simulator, tmp_path, capfd):
    outcomes = run_filter_bench(spec, simulator, tmp_path, seed=SEED, memory="ecp5")
    check(outcomes, TESTS["h3"] - 1)


def log_of_failure(spec, simulator, testcase, directory):
    """Run one test of the bench, which must fail, and return what the simulator wrote."""
    outcomes = run_filter_bench(
        spec, simulator, directory, seed=SEED, memory="ecp5", testcase=testcase
    )
    assert outcomes == {testcase: False}
    return (directory / f"{simulator}.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("component", "old", "new", "testcase"),
    [
        # The digest of an operation under way; an erasure that is forestalled; an expired entry.
        (Placement, "mine = acts & self.same[distance - 1]", "mine = acts & 0",
         "removed_and_inserted_elsewhere"),
        (Column, "erase.eq(flight[-1] & expired & ~touched)", "erase.eq(flight[-1] & expired)",
         "insertions_into_the_cells_that_the_sweep_has_in_hand"),
        (Column, "erase.eq(flight[-1] & expired & ~touched)", "erase.eq(0)", "timestamps_repeat"),
        (Stash, "self.lost.eq(later & (gone < self._spec.window))", "self.lost.eq(0)",
         "what_is_lost_is_told"),
    ],
)  # fmt: skip
def test_broken_component_is_found(component, old, new, testcase, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(core, component.__name__, broken(component, old, new))
    log = log_of_failure(TINY, "icarus", testcase, tmp_path)
    assert re.search(r"result \d+: expected|column \d+|lost: expected|guaranteed", log), log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("component", "old", "new", "testcase"),
    [
        # An exchange although an operation of the row is under way; an entry given up in silence.
        (RingColumn, "may.eq(self.asks & self.granted & ~fails & ~self._ended)",
         "may.eq(self.asks & self.granted & ~self._ended)", "random_operations/into=0.5/out=0.0"),
        (RingStash, "(self._valid & oldest & ~self._match).any()", "0",
         "more_digests_than_the_window"),
    ],
)  # fmt: skip
def test_broken_ring_is_found(component, old, new, testcase, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(ring_core, component.__name__, broken(component, old, new))
    log = log_of_failure(CROWDED_RING, "verilator", testcase, tmp_path)
    assert re.search(r"result \d+: expected", log), log
