"""Defects that slow tests of `lately.sim` have to find are pieces of the source as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from mutants import broken
from ring_defects import DEFECTS

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.rtl
def test_defects_of_slow_tests_can_be_made():
    """A test that is run seldom must not have been left behind by a change of the source."""
    files = sorted(HERE.glob("test_proofs_*.py"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "unproven", "-p", "no:cacheprovider",
         "-p", "no:randomly", "-m", "slow", "-k", "found_out", *map(str, files)],
        capture_output=True, encoding="utf-8", check=False, cwd=HERE.parents[1],
    )  # fmt: skip
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    assert " passed" in run.stdout


@pytest.mark.parametrize(("component", "old", "new"), DEFECTS)
def test_defects_of_rings_can_be_made(component, old, new):
    assert broken(component, old, new) is not component
