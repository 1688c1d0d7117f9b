"""What type checkers say about a program that uses the names of `lately.golden`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cases import daily

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import numpy as np
from numpy.typing import NDArray
from lately import (
    GEBF, Filter, InferentialFilter, PartitionedTimingFilter, TimeLimitedRing, WindowDictionary,
    __version__, load,
)
from papers.models import CuckooDictionary, Swamp, TimeLimitedAPBF

ring = GEBF.for_window(20_000, fpr=0.01, seed=3)
one: bool = ring.check_and_insert("a")
one = ring.query(np.uint64(5))
several: NDArray[np.bool_] = ring.query(["a", "b"])
several = ring.check_and_insert(keys=np.arange(3), nulls="skip")
several = ring.query((np.arange(3), np.arange(3)))
one = ring.query(("a", 1))
age: int = ring.age(b"a")
ages: NDArray[np.int64] = ring.age([1, 2])
size: int = ring.insertions + ring.window + ring.nbytes
rate: float = ring.fpr + ring.fill
ring.add("a")
ring.update(["a", "b"], (str(number) for number in range(3)), np.arange(3))
dictionary = WindowDictionary.for_window(100, moves=3)
one = dictionary.query("a", window=5)
several = dictionary.query(["a"], [5])
one = PartitionedTimingFilter.for_window(100).query("a")
timed = TimeLimitedAPBF.for_window(60_000, rate=0.003)
timed.insert("a", 5)
timed.add("a", now=6)
one = timed.query("a", now=5)
spanned: TimeLimitedRing = GEBF.for_span("10min", rate=5000)
one = spanned.check_and_insert("a")
multiplicity: int = Swamp.for_window(9).multiplicity("a")
update: int = CuckooDictionary.for_window(9).last_update("a")
loaded: Filter = load("ring.npz")
loaded.insert("a")
loaded.insert(["a"], [5])
loaded.add("a")
one = loaded.check_and_insert("a")
several = loaded.query(["a"], [5])
again: GEBF = GEBF.load("ring.npz")
version: str = __version__

def chance(inferential: InferentialFilter) -> float:
    return inferential.posterior("a", probabilities=0.1)

GEBF.for_window(100, sed=3)  # wrong
TimeLimitedAPBF.for_window(100, rate=1, sed=3)  # wrong
GEBF.for_span("10min", rate=1, sed=3)  # wrong
GEBF(20_000)  # wrong
Swamp(20_000)  # wrong
ring.query(1.5j)  # as numpy's arrays, which hold numbers of any kind
ring.check_and_insert("a", 5)  # wrong
ring.check_and_insert("a").any()  # wrong
number: int = ring.query(["a"])  # wrong
ring.update(5)  # as numpy's arrays
dictionary.query("a", windw=5)  # wrong
load("ring.npz").inset("a")  # wrong
load("ring.npz").query("a").any()  # wrong
"""
SETTINGS = """\
[mypy]
strict = True
[mypy-lately.*,papers.*]
follow_imports = silent
"""
PYRIGHT = {
    "extraPaths": ["installed"],
    "pythonVersion": "3.11",
    "typeCheckingMode": "strict",
    # The program ends in names that nothing uses, and in expressions.
    "reportUnusedExpression": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """As if the package were installed, which has the folders of the sources in it."""
    folder = tmp_path_factory.mktemp("types")
    package = folder / "installed" / "lately"
    package.mkdir(parents=True)
    for path in (*(ROOT / "lately").iterdir(), *(ROOT / name for name in ("golden", "hdl", "sim"))):
        (package / path.name).symlink_to(path)
    (package.parent / "papers").symlink_to(ROOT / "papers")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "settings.ini").write_text(SETTINGS)
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    return folder


@pytest.mark.parametrize(
    ("command", "error"),
    daily(
        1,
        [
            (["mypy", "--config-file=settings.ini", "program.py"], r"^program.py:(\d+): error"),
            (
                ["basedpyright", "--pythonpath", sys.executable, "program.py"],
                r"program.py:(\d+):\d+ - error",
            ),
        ],
    ),
    ids=["mypy", "pyright"],
)
def test_program(folder, command, error):
    result = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "MYPYPATH": "installed"},
        capture_output=True,
        text=True,
    )
    rejected = {int(line) for line in re.findall(error, result.stdout, re.M)}
    lines = PROGRAM.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert rejected == wrong, result.stdout + result.stderr
