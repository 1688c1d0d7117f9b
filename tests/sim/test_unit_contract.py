"""The test plan on units of every kind, by day and by night; broken units fail it."""

import ast
import os
from pathlib import Path

import cocotb_tools.config
import pytest

from lately.hdl.packets.deduplicator import AxisFrames
from lately.sim import toolchain
from lately.sim.bench import runner
from lately.sim.bench.runner import run_filter_bench, run_frame_bench
from lately.sim.bench.runs import DAYS, KINDS, SEED, UNITS, daily_runs, nightly_runs
from lately.sim.bench.testplan import MODULES, PLAN

DAY = os.environ.get("NIGHTLY_DAY")
"""Day whose share of the nightly runs is due, as a number; all runs by default."""


def check(run, folder):
    """Perform a run of the plan: exactly its tests run, and all of them pass."""
    outcomes = run.perform(folder)
    failed = [test for test, passed in outcomes.items() if not passed]
    print(f"seed {SEED}: {len(outcomes) - len(failed)} of {len(outcomes)} tests passed")
    assert {test.partition("/")[0] for test in outcomes} == {*run.tests}
    assert not failed


@pytest.mark.rtl
@pytest.mark.parametrize("run", daily_runs(), ids=lambda run: run.name)
def test_daily(run, tmp_path, capfd):
    check(run, tmp_path)


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize(
    "run", nightly_runs(None if DAY is None else int(DAY)), ids=lambda run: run.name
)
def test_nightly(run, tmp_path, capfd):
    check(run, tmp_path)


@pytest.mark.slow
@pytest.mark.rtl
def test_packages_in_a_path_with_spaces(tmp_path, monkeypatch, capfd):
    """Makefiles cannot hold such a path; the bench builds and runs nevertheless."""
    spaced = tmp_path / "with spaces"
    spaced.mkdir()
    for name in ("libs_dir", "share_dir"):
        link = spaced / name
        link.symlink_to(getattr(cocotb_tools.config, name))
        monkeypatch.setattr(cocotb_tools.config, name, link)
    link = spaced / "verilator"
    link.symlink_to(toolchain.verilator_root())
    monkeypatch.setattr(toolchain, "verilator_root", lambda: link)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    outcomes = run_filter_bench(
        UNITS["gebf-tiny"].spec, "verilator", tmp_path, testcase="same_key_back_to_back"
    )
    assert outcomes == {"same_key_back_to_back": True}


def test_every_sentence_has_a_test_and_every_test_a_sentence():
    folder = Path(__file__).parents[2] / "sim" / "bench"
    tests = {
        (path.stem, node.name)
        for path in folder.glob("*contract.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef) and node.decorator_list
    }
    assert tests == {(row.module, row.test) for row in PLAN.values()}
    assert {module for module, _ in tests} == {*MODULES}


def test_every_sentence_and_every_kind_of_unit_is_daily():
    by_day = {run.unit: run.tests for run in daily_runs()}
    for name, tests in by_day.items():
        assert {*tests} <= {*UNITS[name].sentences}, f"{name}: a sentence does not apply"
    assert {test for tests in by_day.values() for test in tests} == {*PLAN}
    named = {name for row in PLAN.values() for name in row.daily}
    assert named == {*by_day}, "a sentence names an unknown unit"
    kinds = [UNITS[name].traits for name in by_day]
    missing = [
        kind_ for kind_ in KINDS if not any(kind.issuperset(kind_.split(", ")) for kind in kinds)
    ]
    assert not missing


def test_every_pair_of_sentence_and_unit_is_nightly_and_due_within_the_days():
    runs = nightly_runs()
    pairs = {(run.unit, test) for run in runs for test in run.tests}
    assert pairs == {(name, test) for name, unit in UNITS.items() for test in unit.sentences}
    assert {test for _, test in pairs} == {*PLAN}
    for name, test in pairs:
        assert (PLAN[test].module == "frame_contract") == UNITS[name].of_frames, f"{name}: {test}"
    due = [run.name for day in range(20_000, 20_000 + DAYS) for run in nightly_runs(day)]
    assert sorted(due) == sorted(run.name for run in runs)
    assert len(set(due)) == len(due)


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["frames-8", "frames-64"])
def test_frames_of_many_protocols(name, tmp_path):
    options = {**UNITS[name].options, "modules": ["protocol_bench"], "seed": SEED}
    outcomes = run_frame_bench(UNITS[name].spec, "icarus", tmp_path, **options)
    assert outcomes == {"protocols": True}


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize(("port", "test"), [("tdata", "lengths"), ("tuser", "fields")])
def test_unit_of_frames_with_a_fault_fails(port, test, monkeypatch, tmp_path):
    class Faulty(AxisFrames):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            m.d.comb += getattr(self, f"m_axis_{port}")[0].eq(0)
            return m

    monkeypatch.setattr(runner, "AxisFrames", Faulty)
    outcomes = UNITS["frames-8"].run("icarus", tmp_path, (test, "registers"), seed=SEED, count=10)
    assert outcomes == {test: False, "registers": True}
