"""The package imports only the modules that are asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lately.golden


def loaded(program):
    """Return the modules of the package that a program leaves loaded."""
    program += "\nimport sys\nprint(*(name for name in sys.modules if name.startswith('lately')))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("program", ["from lately.golden import GEBF", "from lately import GEBF"])
def test_one_family_is_imported_alone(program):
    names = loaded(program)
    assert "lately.golden.ring.rings" in names
    others = ("cuckoo", "timestamp")
    assert not [name for name in names for other in others if f"golden.{other}" in name]


def test_nothing_is_imported_before_it_is_asked_for():
    assert loaded("import lately.golden") == {"lately", "lately.golden"}


def test_submodules_are_found():
    loaded("import lately.golden\nassert lately.golden.analysis.npws(2, 5, 0.5) > 0")


def test_unknown_name():
    with pytest.raises(AttributeError, match=r"^module 'lately.golden' has no attribute 'APFB'$"):
        lately.golden.APFB  # noqa: B018


# With the base of specifications come the modules of all families.
ELSEWHERE = {
    "Specification": "lately.golden.spec.base",
    **dict.fromkeys(("load", "from_bytes"), "lately.golden.filter"),
}


def test_names_come_from_the_modules_that_define_them():
    for module, names in lately.golden.LAZY.items():
        defining = import_module(f"lately.golden.{module}")
        for name in names:
            value = getattr(defining, name)
            assert getattr(lately.golden, name) is value
            home = ELSEWHERE.get(name, defining.__name__)
            assert getattr(value, "__module__", home) == home
    assert set(lately.golden.__all__) <= set(dir(lately.golden))


def test_type_checkers_read_the_same_names():
    stub = Path(lately.golden.__file__).with_suffix(".pyi")
    imported = {}
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name
                imported.setdefault(node.module, set()).add(alias.name)
    assert imported == {module: set(names) for module, names in lately.golden.LAZY.items()}
