"""Builds the sdist's wheel with every Python and compiler that is here, and tests the models.

`make matrix` prints a table. Pythons: those of --pythons; compilers: gcc, clang, and none.
Without gcc or clang, its column says so.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "helpers"))
from package_wheel import ROOT, build_wheel

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
COMPILERS = {"gcc": "gcc", "clang": "clang", "none": "false"}
NEEDED = ("numpy", "pytest", "hypothesis", "pyarrow", "pandas", "polars", "setuptools>=77", "click")
TESTS = [f"tests/golden/test_{name}.py" for name in ("contract", "filters", "keys", "spec", "span")]
CHECK = "from lately import GEBF; print(GEBF.for_window(100).compiled)"


def run(*command, **options):
    """Run a command; return its output, or exit with the output."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def tested(python, wheel, compiled, folder):
    """Install a wheel and run the tests away from the checkout; return the closing line."""
    run(python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall", wheel)
    assert run(python, "-c", CHECK, cwd=folder) == str(compiled)
    only = ("-m", "not slow and not statistics", "-p", "no:cacheprovider")
    only += ("-W", "ignore:lately has no compiled extension")
    return run(python, "-m", "pytest", "-q", *only, *TESTS, cwd=folder).splitlines()[-1]


def main():
    """Print what each Python and compiler gives, and whether the first wheel fits the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, metavar="PYTHON")
    pythons = [path for path in map(shutil.which, parser.parse_args().pythons) if path]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist = build_wheel(folder, kind="sdist")
        for part in ("tests", "papers"):
            shutil.copytree(ROOT / part, folder / "work" / part)
        shutil.copy(ROOT / "pyproject.toml", folder / "work")
        first = None
        for number, path in enumerate(pythons):
            home = folder / f"python{number}"
            run(path, "-m", "venv", home)
            python = home / "bin" / "python"
            run(python, "-m", "pip", "install", "-q", *NEEDED)
            version = run(python, "--version").removeprefix("Python ")
            for compiler, program in COMPILERS.items():
                if compiler != "none" and not shutil.which(program):
                    print(f"| {version} | {compiler} | not installed |", flush=True)
                    continue
                out = home / compiler
                options = ("--no-index", "--no-deps", "--no-build-isolation", "-w", out, sdist)
                environment = os.environ | {"CC": program}
                run(python, "-m", "pip", "wheel", "-q", *options, env=environment)
                (wheel,) = out.iterdir()
                line = tested(python, wheel, compiler != "none", folder / "work")
                print(f"| {version} | {compiler} | {line} |", flush=True)
                first = first or (version, wheel)
            if number == len(pythons) - 1 > 0:
                line = tested(python, first[1], True, folder / "work")
                print(f"| {version} | wheel of {first[0]} | {line} |", flush=True)


if __name__ == "__main__":
    main()
