"""Structure of the sources: who imports whom, what modules are called, where tests stand."""

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from import_graph import BELOW, scan

ROOT = Path(__file__).parents[1]

WITHIN = {
    "captures": set(),
    "replay": {"captures"},
    "workers": set(),
    "benchmarks": {"captures", "dedup", "replay", "workers"},
    "studies": {"replay", "workers"},
    "papers": {"replay", "studies"},
    "planner": {"replay", "studies"},
    "dedup": {"captures", "replay", "planner"},
    "cli": {"captures", "dedup", "replay", "workers", "benchmarks", "studies", "papers", "planner"},
}
"""Rooms of `lately` itself that each of them may import."""

ONE_MEANING = {
    "apbf": "the filter, and the paper that it is from",
    "gebf": "the filter, and the paper that it is from",
    "dictionary": "what holds digests with the time of their insertion",
    "cuckoo": "the family, and the paper that it is from",
    "inferential": "the filter, and the paper that it is from",
    "time_limited": "the filter, and the paper that it is from",
    "ring": "the family",
    "hash": "the hash functions of keys",
    "functions": "the families of hash functions",
    "siphash": "the hash function",
    "segments": "the segments of a ring",
    "core": "the core of a filter unit",
    "frontend": "what decides when an operation enters the core",
    "unit": "what a user instantiates",
    "lanes": "units that take several operations a cycle",
    "timestamp": "the family",
    "timing": "the family",
    "build": "how hardware is built: a unit, the bitstream of a board",
    "beats": "operations of several lanes that come together",
    "replay": "a stream through the hardware",
    "catalogue": "all that there is of a kind",
    "link": "the serial link of a board",
    "packets": "what networks carry",
    "frames": "what a line carries at a time: of the serial link, of Ethernet",
}
"""Names that several modules have for the same thing."""


def room(name):
    """Return the room of a module; that of a module beside the rooms of `lately` is `lately`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in BELOW else "lately"


def inner(name):
    """Return the room of `lately` itself that a module is in; nothing if in none."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in WITHIN else ""


def circles(graph):
    """Return the modules that import themselves by way of others."""
    left = {name: set(after) for name, after in graph.items()}
    while ends := {name for name, after in left.items() if not after & left.keys()}:
        left = {name: after for name, after in left.items() if name not in ends}
    while starts := left.keys() - set().union(*left.values()):
        left = {name: after for name, after in left.items() if name not in starts}
    return sorted(left)


def backward(modules):
    """Return the imports against the order of the rooms."""
    wrong = []
    for name, module in modules.items():
        for other in sorted(module.imports):
            here, there = room(name), room(other)
            inside, beside = inner(name), inner(other)
            # The package itself only knows where its rooms are.
            if here != there and there not in BELOW[here] and other != "lately":
                wrong.append(f"{name} -> {other}")
            if inside != beside and beside and beside not in WITHIN.get(inside, set()):
                wrong.append(f"{name} -> {other}")
    return wrong


@pytest.fixture(scope="module")
def modules():
    return scan(ROOT)


def test_no_circle(modules):
    assert circles({name: module.imports for name, module in modules.items()}) == []


def test_no_arrow_backward(modules):
    assert backward(modules) == []


def test_no_private_name_is_imported(modules):
    assert [line for module in modules.values() for line in module.private] == []


def test_one_meaning_for_a_name(modules):
    named = defaultdict(list)
    for name in modules:
        named[name.rpartition(".")[2]].append(name)
    several = {name: homes for name, homes in named.items() if len(homes) > 1}
    assert {name: homes for name, homes in several.items() if name not in ONE_MEANING} == {}


def test_tests_mirror_the_rooms(modules):
    wrong = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent == ROOT / "tests":  # Of the whole.
            continue
        (folder, *_), text = path.relative_to(ROOT / "tests").parts, path.read_text("utf-8")
        reached = folder == "docs" or f"lately.{folder}" in text or folder == "lately"
        if folder not in {*BELOW, "docs"} or not reached:
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


def test_every_package_is_installed(modules):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    there = {name for name, module in modules.items() if module.path.name == "__init__.py"}
    assert set(settings["packages"]) == there
    assert settings["package-dir"] == {
        "lately": "lately",
        **{f"lately.{name}": name for name in BELOW if name != "lately"},
    }


# The rules themselves, on sources that break each


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"golden/a.py": "from . import b", "golden/b.py": "def f():\n    import lately.golden.a"},
         ["lately.golden.a", "lately.golden.b"]),
        ({"golden/a.py": "from .b import c", "golden/b.py": "import numpy"}, []),
    ],
)  # fmt: skip
def test_circle_is_found(tmp_path, files, expected):
    found = scan(written(tmp_path, files))
    assert circles({name: module.imports for name, module in found.items()}) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("golden/a.py", "from ..hdl import b", ["lately.golden.a -> lately.hdl.b"]),
        ("hdl/a.py", "def f():\n    from lately.sim import b", ["lately.hdl.a -> lately.sim.b"]),
        ("boards/a.py", "import lately.sim.b", ["lately.boards.a -> lately.sim.b"]),
        ("sim/a.py", "from ..host import b", ["lately.sim.a -> lately.host"]),
        ("lately/planner/a.py", "from ..cli import b", ["lately.planner.a -> lately.cli.b"]),
        ("lately/host.py", "from .cli import b", ["lately.host -> lately.cli.b"]),
        ("lately/cli/a.py", "from ..planner import b", []),
    ],
)
def test_arrow_backward_is_found(tmp_path, path, text, expected):
    names = ("hdl/b.py", "sim/b.py", "lately/host.py", "lately/cli/b.py", "lately/planner/b.py")
    found = scan(written(tmp_path, dict.fromkeys(names, "") | {path: text}))
    assert backward(found) == expected


def test_private_name_is_found(tmp_path):
    found = scan(written(tmp_path, {"hdl/a.py": "from .b import _c, __doc__", "hdl/b.py": ""}))
    assert found["lately.hdl.a"].private == ["lately.hdl.a: lately.hdl.b._c"]


def written(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
