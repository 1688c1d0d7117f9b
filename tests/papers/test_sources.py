"""Fingerprints: names that packages import lazily, what cannot be resolved, single definitions."""

import ast

import pytest

from papers import registry
from papers.studies import sources
from papers.studies.sources import fingerprint


@pytest.fixture
def change(monkeypatch):
    """Return a function that changes a line of a module, or one of its definitions."""
    source = sources._source

    def changed(module, name=""):
        monkeypatch.setattr(
            sources, "_source", lambda part: source(part) + b"#" * (part == (module, name))
        )

    return changed


def marks():
    return {study.name: fingerprint(study.measure) for study in registry.STUDIES}


@pytest.mark.parametrize(
    ("module", "beginning"),
    [
        ("lately.golden.cuckoo.dictionary", "cuckoo"),
        ("lately.golden.timestamp.inferential", "btbf"),
        # Blocks of the APBF paper are measured as those of a blocked GEBF, too.
        ("lately.golden.ring.gebf", ("gebf", "apbf-blocks")),
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


@pytest.mark.parametrize(
    ("module", "name", "beginning"),
    [
        ("papers.apbf_runs", "stream", ("apbf-figure-7", "apbf-figure-8", "apbf-zipf")),
        ("papers.apbf_accuracy", "_probe", ("apbf-figure-6", "apbf-zigzag")),
        ("papers.real_streams", "distances", ("btbf", "cuckoo-figure")),
        ("papers.gebf_readings", "_on_stream", ("gebf-readings",)),
        # Nobody measures with these.
        ("papers.apbf_accuracy", "conclude", ()),
        ("papers.apbf_runs", "expected_rate", ()),
        ("papers.studies.comparison", "judge", ()),
        ("papers.studies.study", "Verdict", ()),
    ],
)
def test_only_definitions_that_are_used_count(change, module, name, beginning):
    assert name in sources._definitions(module)
    before = marks()
    change(module, name)
    changed = {study for study, mark in marks().items() if before[study] != mark}
    assert all(study.startswith(beginning) for study in changed)
    assert all(any(study.startswith(one) for study in changed) for one in beginning)


def test_conclusions_do_not_count():
    for study in registry.STUDIES:
        measure = sources._unwrapped(study.measure)
        used = sources._closure(sources._part(measure.__module__, measure.__name__))
        found = {module for module, _ in used}
        assert not found & {"papers.studies.comparison", "papers.paper", "lately.intervals"}


@pytest.fixture
def divided(tmp_path, monkeypatch):
    """Return a function that gives the parts that a function of a program uses."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "DIVIDED", ("",))

    def used(program):
        name = f"divided_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(program)
        return {other or "all" for module, other in sources._closure(sources._part(name, "f"))}

    return used


@pytest.mark.parametrize(
    ("program", "used"),
    [
        ("A = 1\nB = A\nC = 2\ndef f(): return B", {"f", "A", "B"}),
        ("def g(): f()\n@g\ndef f(x=A): pass\nA: int = 1\nB = 2", {"f", "g", "A"}),
        ("class A:\n    def g(self): return B\nclass B: pass\nclass f(A): pass", {"f", "A", "B"}),
        ("import os, re\ndef f(): return os", {"f", "os"}),
        ("try:\n    A = 1\nexcept OSError:\n    A = B\nB = C = 2\ndef f(): A", {*"fABC"}),
        ("A = [B for B in range(3)]\nC = A\ndef f(B): return B", {"f"}),
        # What binds no name may have an effect on all that follows.
        ("A = []\nA.append(B)\nB = 1\nC = 2\ndef f(): pass", {"f", "A", "B"}),
        # Not a definition that is found: all counts.
        ("f.g = 1", {"all"}),
    ],
)
def test_definitions_that_a_function_uses(divided, program, used):
    assert divided(program) == used


def test_other_names_of_an_import_do_not_count(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for number, names in enumerate(("a, b", "a, c", "b, c")):
        (tmp_path / f"names_{number}.py").write_text(f"from os import {names}")
    found = [sources._source((f"names_{number}", name)) for number, name in enumerate("aab")]
    assert found[0] == found[1] != found[2]


@pytest.fixture
def imports(tmp_path, monkeypatch):
    """Return a function that gives the modules that a program's imports count for."""
    monkeypatch.syspath_prepend(tmp_path)
    names = iter(range(100))

    def imports(program):
        name = f"program_{tmp_path.name}_{next(names)}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(program)
        return {module for module, _ in sources._uses((name, ""))}

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
