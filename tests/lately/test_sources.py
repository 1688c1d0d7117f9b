"""Fingerprints: names that packages import lazily, and what cannot be resolved."""

import ast

import pytest

from lately.papers import registry
from lately.studies import sources
from lately.studies.sources import fingerprint


@pytest.fixture
def change(monkeypatch):
    """Return a function that changes a line of a module."""
    source = sources._source

    def changed(module):
        monkeypatch.setattr(sources, "_source", lambda name: source(name) + b"#" * (name == module))

    return changed


def marks():
    return {study.name: fingerprint(study.measure) for study in registry.STUDIES}


@pytest.mark.parametrize(
    ("module", "beginning"),
    [
        ("lately.golden.cuckoo.dictionary", "cuckoo"),
        ("lately.golden.timestamp.inferential", "btbf"),
        ("lately.golden.ring.gebf", "gebf"),
        ("lately.golden.baselines.stable", "gebf"),
        ("lately.golden.ring.time_limited", "time-limited"),
    ],
)
def test_only_studies_that_use_a_module_are_measured_again(change, module, beginning):
    before = marks()
    change(module)
    after = marks()
    changed = {name for name, mark in after.items() if before[name] != mark}
    assert changed
    assert all(name.startswith(beginning) for name in changed)


@pytest.fixture
def imports(tmp_path, monkeypatch):
    """Return a function that gives the modules that a program's imports count for."""
    monkeypatch.syspath_prepend(tmp_path)
    names = iter(range(100))

    def imports(program):
        name = f"program_{tmp_path.name}_{next(names)}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(program)
        return sources._imports(name)

    return imports


def test_lazy_name_counts_with_its_defining_module(imports):
    parents = {"lately", "lately.golden"}
    assert imports("from lately.golden import GEBF") == parents | {
        "lately.golden.ring",
        "lately.golden.ring.gebf",
    }
    assert imports("def f():\n    from lately.golden import preset, errors") >= parents | {
        "lately.golden.spec",
        "lately.golden.errors",
    }


@pytest.mark.parametrize(
    "program",
    [
        "from lately import golden",
        "import lately.golden as models",
        "import lately.golden",
        "from lately.golden import *",
        "from lately.golden import anything_else",
        "import importlib\nimportlib.import_module(input())",
        "from importlib import import_module\nimport_module('.cuckoo', 'lately.golden')",
        "__import__('lately')",
        "from importlib import import_module\nimport_module(*['.cuckoo', 'lately.golden'])",
    ],
)
def test_unresolved_covers_everything(imports, program):
    assert imports(program) >= {
        "lately.golden.cuckoo.dictionary",
        "lately.golden.timestamp.inferential",
        "lately.golden.ring.apbf",
    }


def test_other_packages_do_not_count(imports):
    assert (
        imports("import numpy.linalg\nimport importlib\nimportlib.import_module('json')") == set()
    )


def test_computed_name_covers_the_package_that_it_is_in():
    """One dot and ``__package__``: nothing above can be meant."""
    own = "lately.golden.cuckoo"
    for call, found in [
        ("import_module(f'.{name}', __package__)", own),
        ("importlib.import_module('.sizes', __package__)", own),
        ("import_module(f'..{name}', __package__)", "lately"),
        ("import_module(f'.{name}', package)", "lately"),
        ("import_module(name)", "lately"),
        ("print(name)", None),
    ]:
        node = ast.parse(call, mode="eval").body
        assert sources._called(node, own) == (sources._whole(found) if found else set())
