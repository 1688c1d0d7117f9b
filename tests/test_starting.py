"""Tests run the same however they are started."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

SIGNALLED = """
import signal, subprocess, sys
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

def test_child_hears_ctrl_c():
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
"""

ORDERED = """
import os
import pytest

@pytest.mark.parametrize("number", range(6))
def test_order(number):
    with open(os.environ["LOG"], "a") as log:
        log.write(f"{__name__[-1]}{number} ")
"""

PROPERTY = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_property(number):
    with open(__import__("os").environ["LOG"], "a") as log:
        log.write(f"{number} ")
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that runs tests of their own with the settings of these."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text("utf-8"))

    def started(files, *arguments, shell=""):
        for name, text in files.items():
            (folder / name).write_text(text)
        log = folder / "log"
        log.write_text("")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, "."]
        done = subprocess.run(
            ["sh", "-c", f'{shell} exec "$@"', "sh", *command] if shell else command,
            cwd=folder,
            env=os.environ | {"LOG": str(log)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, log.read_text().split()

    return started


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell ignores signals")
def test_ctrl_c_is_ignored_by_the_shell(start):
    start({"test_it.py": SIGNALLED}, shell="trap '' INT;")


def test_any_order(start):
    files = {"test_a.py": ORDERED, "test_b.py": ORDERED}
    _, given = start(files)
    _, shuffled = start(files, "--shuffle", "1")
    assert given == [f"{file}{number}" for file in "ab" for number in range(6)]
    assert sorted(shuffled) == given != shuffled
    # Files stay together.
    assert "".join(dict.fromkeys(name[0] for name in shuffled)) in ("ab", "ba")
    assert start(files, "--shuffle", "1")[1] == shuffled != start(files, "--shuffle", "2")[1]


@pytest.mark.slow
def test_property_tests_are_repeatable(start):
    header, first = start({"test_it.py": PROPERTY})
    assert "property tests: repeatable" in header
    assert start({})[1] == first


def test_random_property_tests_print_their_seed(start):
    header, first = start({"test_it.py": PROPERTY}, "--hypothesis-profile=random")
    (seed,) = [line.split("=")[1] for line in header.splitlines() if "--hypothesis-seed=" in line]
    again = ("--hypothesis-profile=random", f"--hypothesis-seed={seed}")
    assert start({}, *again)[1] == first
    assert start({}, "--hypothesis-profile=random")[1] != first


def test_test_modules_do_not_import_each_other():
    wrong = []
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            wrong += [f"{path.name}: {name}" for name in names if name.startswith("test_")]
    assert wrong == []
