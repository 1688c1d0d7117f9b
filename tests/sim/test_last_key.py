"""A family that one file adds has everything that the families of the package have."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from campaigns.pages.tables import families
from campaigns.soak import soak
from lately.cli.app import main
from lately.golden import filter
from lately.golden.spec import base
from lately.hdl.build import FAMILIES
from lately.planner import PLANNER_FAMILIES
from lately.sim.bench.runner import run_filter_bench
from lately.sim.bench.runs import PlannedUnit

TABLES = (base._FAMILIES, filter._CLASSES, filter.MODELS, FAMILIES, PLANNER_FAMILIES)


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """Return the path of a specification of the family, which is known while the tests run."""
    module = import_module("last_key")
    path = tmp_path_factory.mktemp("last-key") / "last.toml"
    module.LastKeySpec().to_toml(path)
    yield path
    for table in TABLES:
        for name in ("last-key", "LastKey", module.LastKeySpec):
            table.pop(name, None)


def lately(*words):
    result = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_bench(spec, tmp_path):
    loaded = base.Specification.from_toml(spec)
    passed = run_filter_bench(loaded, "icarus", tmp_path)
    assert all(passed.values()), passed
    assert {name.split("/")[0] for name in passed} == {*PlannedUnit(loaded).sentences}
    assert "accepts_an_operation_every_cycle" in passed


def test_random_test(spec):
    figures = soak(base.Specification.from_toml(spec), operations=20_000)
    assert figures["hits"] > 1000
    assert not any(figures["mismatches"].values()), figures


def test_run(spec, tmp_path):
    keys = np.random.default_rng(1).integers(0, 4, 1000)
    (tmp_path / "keys.txt").write_text("".join(f"{key}\n" for key in keys))
    loaded = lately("run", tmp_path / "keys.txt", "--spec", spec, "--json")
    assert f'"repeats_found": {(keys[1:] == keys[:-1]).sum()}' in loaded


def test_export_with_registers(spec, tmp_path):
    lately("export", "--spec", spec, "--name", "last", "--bus", "wishbone", "--out-dir", tmp_path)
    assert "HITS" in (tmp_path / "last.h").read_text()


def test_board(spec):
    figures = lately("host", "--port", f"sim:{spec}", "self-test", "--json")
    assert json.loads(figures)["passed"] is True


def test_planner_and_pages(spec):
    assert "* last-key" in " ".join(lately("plan", "--window", 1, "--fpr", 0.01).split())
    assert re.search(r"(?m)^\| `last-key` \|.*\| age 0 \|", families()["families"])


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("storage_bits", "LastKeySpec lacks storage_bits, the number of bits that hold the keys"),
        ("_arrays", "LastKey must override _arrays, which lists the arrays of its state files"),
    ],
)
def test_missing_member_is_one_line(member, message, tmp_path):
    source = Path(import_module("last_key").__file__).read_text("utf-8")
    assert source.count(f"def {member}(self)") == 1
    source = source.replace(f"def {member}(self)", f"def other{member}(self)")
    (tmp_path / "broken_family.py").write_text(source)
    (tmp_path / "last.toml").write_text('family = "last-key"\n')
    done = subprocess.run(
        [Path(sys.executable).with_name("lately"), "show", "--spec", tmp_path / "last.toml"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"LATELY_FAMILIES": "broken_family", "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode != 0, done.stderr) == (True, f"lately: error: {message}\n")
