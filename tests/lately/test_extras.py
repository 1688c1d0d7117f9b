"""Each extra, alone and with others, runs the commands that it promises."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from unittest.mock import Mock

import extras
import import_graph
import pytest
from cases import daily
from click.testing import CliRunner
from extras import PROMISES
from package_wheel import build_wheel

from lately.cli.app import main
from lately.cli.reporting import EXTRAS
from lately.cli.run_commands import run

# Every day no extra, and the one of exports, which needs the hardware, too.
QUICK = [name for name, promises in PROMISES.items() if not all(entry.slow for entry in promises)]
QUICK.sort(key=lambda name: name not in ("", "export"))


MEGABYTES = {"": 130, "export": 210}
"""Limits of what is installed, without the packages of an empty environment."""


def label(name):
    return name.replace(",", "+") or "none"


def check(promise, status, errors):
    """Hold how a command ended against its promise."""
    assert status == (2 if promise.error else 0), f"{promise.text}: {errors}"
    if promise.error:
        assert errors.startswith(promise.error)
        assert errors.count("\n") == 1


@pytest.mark.parametrize("name", daily(2, QUICK), ids=label)
def test_commands_without_modules_of_other_extras(name, tmp_path):
    extras.write_inputs(tmp_path)
    command = [sys.executable, extras.__file__, name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    for promise in PROMISES[name]:
        if not promise.slow:
            check(promise, *ended[promise.text])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def environment(tmp_path, wheel, request):
    """The programs of an environment in which the wheel is installed, with extras."""
    home = tmp_path / "environment"
    extras_of = f"[{request.param}]" if request.param else ""
    venv.create(home, with_pip=True)
    # Without the working folder, whose metadata would pass for an installed package.
    pip = [home / "bin" / "python", "-I", "-m", "pip", "install", "--quiet"]
    constraints = ["-c", extras.ROOT / "requirements.txt"]
    before = size(home)
    subprocess.run([*pip, *constraints, f"lately{extras_of} @ {wheel.as_uri()}"], check=True)
    assert size(home) - before < MEGABYTES.get(request.param, 10_000) * 10**6
    yield home / "bin"
    # Its packages take hundreds of megabytes.
    shutil.rmtree(home)


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "name"),
    [(name, name) for name in PROMISES],
    indirect=["environment"],
    ids=map(label, PROMISES),
)
def test_commands_where_extras_are_installed(environment, name, tmp_path):
    (tmp_path / "work").mkdir()
    extras.write_inputs(tmp_path / "work")
    separate = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    separate |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for promise in PROMISES[name]:
        done = subprocess.run(
            promise.arguments(environment),
            cwd=tmp_path / "work",
            env=separate,
            capture_output=True,
            text=True,
            check=False,
        )
        check(promise, done.returncode, done.stderr)


def third_party():
    """Return the modules of others that the package imports, the development tools' apart."""
    result = set()
    for room in import_graph.BELOW:
        for path in (extras.ROOT / room).rglob("*.py"):
            if {"bench", "proofs"} & {*path.parts}:
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    result |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    result.add(node.module.partition(".")[0])
    # FuseSoC runs the program that imports yaml; coverage is measured, and the picture of the
    # folders drawn, in a checkout.
    separate = {"lately", "papers", "campaigns", "yaml", "import_graph"}
    return sorted(result - sys.stdlib_module_names - separate)


def test_hint_names_an_extra_with_the_module(monkeypatch):
    homes_of_modules = metadata.packages_distributions()
    for module in third_party():
        missing = ModuleNotFoundError(f"No module named {module!r}", name=f"{module}.part")
        monkeypatch.setattr(run, "callback", Mock(side_effect=missing))
        line = CliRunner().invoke(main, ["run", "-", "--preset", "tiny"]).stderr
        hint = rf"lately: error: {module} is not installed: pip install (?:'\.\[(\w+)\]'|\.)\n"
        (extra,) = re.findall(hint, line)
        homes = map(extras.normal, homes_of_modules[module])
        assert extras.installed(filter(None, [extra])) & set(homes), module


def test_documentation_names_extras_that_are_tested():
    rooms = [extras.ROOT / name for name in ("docs", *import_graph.BELOW)]
    paths = [path for room in rooms for path in room.rglob("*") if path.suffix in (".md", ".py")]
    text = "".join(path.read_text("utf-8") for path in [extras.ROOT / "README.md", *paths])
    # The package is not published: its name finds nothing.
    assert re.findall(r"pip install .?lately.*", text) == []
    named = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert {frozenset(name.split(",")) for name in named} <= {
        frozenset(name.split(",")) for name in PROMISES
    }
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page("getting-started"), re.MULTILINE))
    assert set(rows) == set(extras.PROJECT["optional-dependencies"])
    for name, (use, _) in EXTRAS.items():
        assert rows[name].replace("`", "") == use


def page(name):
    return (extras.ROOT / "docs" / f"{name}.md").read_text("utf-8")
