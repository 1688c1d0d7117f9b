"""Structure of the sources: who imports whom, what modules are called, where tests stand."""

import runpy
from functools import cache
from pathlib import Path

import pytest
from import_graph import BELOW, OUTSIDE, scan

ROOT = Path(__file__).parents[1]

APART = ("papers", "campaigns", "lately.sim.bench", "lately.sim.proofs")
"""Packages that nothing imports, each other excepted, and that no wheel holds."""

WITHIN = {
    "captures": set(),
    "replay": {"captures"},
    "planner": set(),
    "dedup": {"captures", "replay", "planner"},
    "lines": {"captures", "dedup"},
    "cli": {"captures", "dedup", "lines", "replay", "planner"},
}
"""Rooms of `lately` itself that each of them may import."""


def room(name):
    """Return the room of a module; that of a module beside the rooms of `lately` is `lately`."""
    first, *rest = name.split(".")
    return rest[0] if first == "lately" and rest and rest[0] in BELOW else first


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
            within = beside and here == "lately" and inside != beside
            if within and beside not in WITHIN.get(inside, set()):
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


def test_nothing_imports_papers_campaigns_benches_or_proofs(modules):
    def apart(name):
        return next((folder for folder in APART if f"{name}.".startswith(f"{folder}.")), "")

    wrong = [
        f"{name} -> {other}"
        for name, module in modules.items()
        for other in sorted(module.imports)
        if apart(other) and not apart(name)
    ]
    assert wrong == []


def test_campaigns_papers_and_pages_point_one_way(modules):
    """Papers use the engine of campaigns; pages use both."""

    def layer(name):
        first, second, *_ = [*name.split("."), ""]
        order = {"campaigns": 1, "papers": 2}
        return 3 if (first, second) == ("campaigns", "pages") else order.get(first, 0)

    wrong = [
        f"{name} -> {other}"
        for name, module in modules.items()
        for other in sorted(module.imports)
        if layer(name) < layer(other)
    ]
    assert wrong == []


def test_folders_point_one_way(modules):
    """Sub-folders of a room, boards among them, import each other without circles."""
    graph = {}
    for name, module in modules.items():
        here = folder(name)
        for other in module.imports:
            there = folder(other)
            if here and there and here != there and room(name) == room(other):
                graph.setdefault(here, set()).add(there)
    assert circles(graph) == []


def folder(name):
    """Return the sub-folder of a room that a module is in; nothing if in none."""
    parts = name.removeprefix("lately.").split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else ""


FLOORS = {
    "golden": 7,
    "hdl": 11,  # the goal is 7
    "hdl/packets": 6,
    "lately/planner": 3,
}
"""Longest chain of imports that is allowed among the files of a folder."""


def floors(modules, folder):
    """Return the longest chain of imports of a folder and below it; packages only pass names on."""
    inside = {
        name: module
        for name, module in modules.items()
        if ROOT / folder in module.path.parents and module.path.stem != "__init__"
    }

    @cache
    def chain(name):
        below = (chain(other) for other in inside[name].imports & inside.keys())
        return (name, *max(below, key=len, default=()))

    return max(map(chain, inside), key=len)


@pytest.mark.parametrize("folder", FLOORS)
def test_floors(modules, folder):
    chain = floors(modules, folder)
    assert len(chain) <= FLOORS[folder], " -> ".join(chain)


def test_tests_mirror_the_rooms(modules):
    wrong = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent == ROOT / "tests":  # Of the whole.
            continue
        (folder, *_), text = path.relative_to(ROOT / "tests").parts, path.read_text("utf-8")
        reached = folder == "docs" or f"lately.{folder}" in text or folder in OUTSIDE
        if folder not in {*BELOW, "docs"} or not reached:
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


def test_no_two_test_modules_have_the_same_name():
    """Folders of tests are no packages: pytest knows modules by their file names."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_every_package_of_the_product_is_installed(modules):
    setup = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")
    there = {name for name, module in modules.items() if module.path.name == "__init__.py"}
    product = {name for name in there if not f"{name}.".startswith(tuple(f"{a}." for a in APART))}
    assert set(setup["packages"]()) == product


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
    modules = scan(written(tmp_path, files))
    assert circles({name: module.imports for name, module in modules.items()}) == expected


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
    modules = scan(written(tmp_path, dict.fromkeys(names, "") | {path: text}))
    assert backward(modules) == expected


def test_private_name_is_found(tmp_path):
    modules = scan(written(tmp_path, {"hdl/a.py": "from .b import _c, __doc__", "hdl/b.py": ""}))
    assert modules["lately.hdl.a"].private == ["lately.hdl.a: lately.hdl.b._c"]


def written(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
