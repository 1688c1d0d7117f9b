"""What a type checker says about programs that use the models."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import numpy as np
from numpy.typing import NDArray
from lately.golden import GEBF, InferentialFilter, PartitionedTimingFilter, WindowDictionary, load
from papers.models import CuckooDictionary, Swamp, TimeLimitedAPBF

ring = GEBF.for_window(20_000, fpr=0.01, seed=3)
one: bool = ring.check_and_insert("a")
one = ring.query(np.uint64(5))
several: NDArray[np.bool_] = ring.query(["a", "b"])
several = ring.check_and_insert(keys=np.arange(3))
age: int = ring.age(b"a")
ages: NDArray[np.int64] = ring.age([1, 2])
insertions: int = ring.insertions
dictionary = WindowDictionary.for_window(100, moves=3)
one = dictionary.query("a", window=5)
several = dictionary.query(["a"], [5])
one = PartitionedTimingFilter.for_window(100).query("a")
timed = TimeLimitedAPBF.for_window(60_000, rate=0.003)
timed.insert("a", 5)
one = timed.query("a", now=5)
one = GEBF.for_span("1h", rate=5).check_and_insert("a", refresh=False)
one = ring.check_and_insert("a", refresh=False)
multiplicity: int = Swamp.for_window(9).multiplicity("a")
update: int = CuckooDictionary.for_window(9).last_update("a")
loaded = load("ring.npz")
loaded.insert("a")
loaded.insert(["a"], [5])
again: GEBF = GEBF.load("ring.npz")

def chance(inferential: InferentialFilter) -> float:
    return inferential.posterior("a", probabilities=0.1)

GEBF.for_window(100, sed=3)  # wrong
TimeLimitedAPBF.for_window(100, rate=1, sed=3)  # wrong
GEBF(20_000)  # wrong
Swamp(20_000)  # wrong
ring.query(1.5j)  # as numpy's arrays, which hold numbers of any kind
ring.check_and_insert("a", 5)  # wrong
ring.check_and_insert("a").any()  # wrong
if ring.query(["a"]) is True:  # wrong
    pass
dictionary.query("a", windw=5)  # wrong
timed.query("a", 5, 6)  # wrong
load("ring.npz").inset("a")  # wrong
"""
SETTINGS = """\
[mypy]
strict = True
[mypy-lately.*,papers.*]
follow_imports = silent
"""


def test_program(tmp_path):
    """As if the package were installed, which has the folders of the sources in it."""
    package = tmp_path / "installed" / "lately"
    package.mkdir(parents=True)
    for path in (*(ROOT / "lately").iterdir(), *(ROOT / name for name in ("golden", "hdl", "sim"))):
        (package / path.name).symlink_to(path)
    (package.parent / "papers").symlink_to(ROOT / "papers")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "settings.ini").write_text(SETTINGS)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=settings.ini", "program.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(package.parent)},
        capture_output=True,
        text=True,
    )
    found = {int(line) for line in re.findall(r"^program.py:(\d+): error", result.stdout, re.M)}
    lines = PROGRAM.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert found == wrong, result.stdout + result.stderr
