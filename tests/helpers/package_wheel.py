"""The wheel of the package."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("golden", "hdl", "sim", "boards", "lately")


def build_wheel(folder, kind="wheel"):
    """Build the wheel, or sdist, in a copy of the sources, as setuptools leaves files in them.

    The core in the wheel is not optimised: that takes a compiler longer than all tests of wheels.
    """
    copy = folder / "sources"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    if kind == "wheel":
        text = (ROOT / "setup.py").read_text("utf-8")
        (copy / "setup.py").write_text(text.replace('"-O3"', '"-O0"'), "utf-8")
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    build = f"import setuptools.build_meta as backend; print(backend.build_{kind}('..'))"
    command = [sys.executable, "-W", "ignore", "-c", build]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]
