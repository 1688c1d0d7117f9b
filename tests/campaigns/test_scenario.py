"""The scenario of a seed is the same for each player, and is replayed with waves."""

import json
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from campaigns import soak
from campaigns.soak import steps_of, waves
from lately.cli.reporting import CheckError
from lately.golden import any_preset
from lately.hdl.verilog import unit_verilog
from lately.sim import CompiledUnit
from lately.sim.bench import runner

CASE, SEED, OPERATIONS = "two-lanes-tiny", 2, 400


@pytest.fixture
def steps(monkeypatch):
    """The scenario of the case, in four chunks."""
    monkeypatch.setattr(soak, "CHUNK", OPERATIONS // 4)
    return steps_of(any_preset(CASE), operations=OPERATIONS, seed=SEED)


def plain(value):
    return np.asarray(value).tolist()


@pytest.mark.rtl
def test_compiled_hardware_sees_the_operations_of_the_scenario(steps, monkeypatch):
    seen = []

    class Watched(CompiledUnit):
        def interrupt(self, codes, keys, beats):
            seen.append(("interrupt", plain(codes), plain(keys)))
            super().interrupt(codes, keys, beats)

        def perform(self, codes, keys, *others, **settings):
            seen.append(("perform", plain(codes), plain(keys)))
            return super().perform(codes, keys, *others, **settings)

    monkeypatch.setattr("lately.sim.compiled_unit", partial(Watched, optimisation=0))
    soak.soak(any_preset(CASE), operations=OPERATIONS, seed=SEED, memory="portable")
    # An interrupt performs its operations.
    seen = [now for before, now in pairwise([(), *seen]) if now[1:] != before[1:]]
    due = [(name, *at[:2]) for name, at, _ in steps if name in ("perform", "interrupt")]
    assert seen == due
    assert {name for name, *_ in due} == {"perform", "interrupt"}


@pytest.mark.rtl
def test_wrong_unit_fails_with_waves_of_the_scenario(steps, tmp_path, monkeypatch, capfd):
    """Its hash has other constants; the command is the one of CONTRIBUTING.md."""
    other = replace(any_preset(CASE), seed=9)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        runner, "unit_verilog", lambda _, **settings: unit_verilog(other, **settings)
    )
    options = ["--seed", SEED, "--operations", OPERATIONS, "--memory", "portable"]
    with pytest.raises(CheckError, match=f"^{CASE}: seed {SEED} fails"):
        waves.main([CASE, *map(str, options)], standalone_mode=False)
    folder = tmp_path / "build" / "waves" / f"{CASE}-{SEED}"
    assert json.loads((folder / "steps.json").read_text()) == steps
    log = (folder / "icarus.log").read_text()
    assert re.search("AssertionError: (result|memory)", log)
    assert (folder / "icarus" / "lately_unit.fst").stat().st_size > 1000
