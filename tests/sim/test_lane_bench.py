"""The units of several lanes against golden, under two simulators, sentence by sentence."""

import re
from dataclasses import replace

import pytest
from mutants import broken

from lately.golden import preset
from lately.hdl.lanes.collector import Collector
from lately.hdl.lanes.unit import LaneUnit
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

pytestmark = pytest.mark.rtl

SEED = 20261122

KEYED = replace(preset("two-lanes-tiny"), hash="siphash")

CASES = [
    ("two-lanes-tiny", "icarus"),
    # Verilator runs what is compiled, too, which tests/hdl/test_lanes.py does; this takes longer.
    *(
        pytest.param(name, simulator, marks=pytest.mark.slow)
        for name, simulator in [
            ("two-lanes-tiny", "verilator"),
            *(("four-lanes-tiny", simulator) for simulator in SIMULATORS),
        ]
    ),
]


@pytest.mark.parametrize(("name", "simulator"), CASES)
def test_bench(name, simulator, tmp_path, capfd):
    outcomes = run_filter_bench(preset(name), simulator, tmp_path, seed=SEED)
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 26
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.parametrize(
    ("simulator", "testcase", "count"),
    [
        ("icarus", "secret_comes_in_with_a_clear/into=0.0", 1),
        pytest.param("icarus", "secret_comes_in_with_a_clear", 2, marks=pytest.mark.slow),
        pytest.param("verilator", None, 28, marks=pytest.mark.slow),
    ],
)
def test_secrets(simulator, testcase, count, tmp_path, capfd):
    """Secrets come in while all lanes have keys in each clock that they may."""
    outcomes = run_filter_bench(KEYED, simulator, tmp_path, seed=SEED, testcase=testcase)
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == count
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


BROKEN = [
    pytest.param(
        Collector, " | (kept.known & kept.query)", "", "one_key_flows",
        r"result \d+: expected .*seen=True.*, got .*seen=False", id="wrong verdict",
    ),
    pytest.param(
        Collector,
        "queue.valid_next.eq(coming.value)",
        "queue.valid_next.eq(coming.value & (answer.lanes[0].tag != 77))",
        "hot_key",
        r"result \d+: expected .*, got ", id="lost answer", marks=pytest.mark.slow,
    ),
    pytest.param(
        LaneUnit,
        "self.o.p.eq(collector.o.p)",
        "self.o.p.eq(collector.o.p.as_value() & self.o.ready.as_signed())",
        "reset_in_mid_stream",
        r"result \d+ changed while it waited", id="unstable payload", marks=pytest.mark.slow,
    ),
    pytest.param(
        LaneUnit, "pace.all()", "pace[:2].all()", "secret_comes_in_with_a_clear/into=0.0",
        r"result \d+: expected ", id="beat too close to the clear", marks=pytest.mark.slow,
    ),
]  # fmt: skip
"""Component, what is taken out and put in, the test of the bench that fails, and how."""


@pytest.mark.parametrize(("component", "old", "new"), [one.values[:3] for one in BROKEN])
def test_defect_can_be_made(component, old, new):
    """Also those of a long run, which must not have been left behind by a change of the source."""
    assert broken(component, old, new) is not component


@pytest.mark.parametrize(("component", "old", "new", "testcase", "message"), BROKEN)
def test_broken_unit_is_found_out(
    component, old, new, testcase, message, tmp_path, monkeypatch, capfd
):
    name = f"lately.hdl.lanes.unit.{component.__name__}"
    monkeypatch.setattr(name, broken(component, old, new))
    outcomes = run_filter_bench(
        KEYED if "secret" in testcase else preset("two-lanes-tiny"),
        "icarus", tmp_path, seed=SEED, testcase=testcase,
    )  # fmt: skip
    assert outcomes == {testcase: False}
    log = (tmp_path / "icarus.log").read_text()
    assert re.search(message, log), log
