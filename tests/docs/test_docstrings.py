"""Docstrings of the golden models: sources of filters, and shapes of arrays."""

import inspect
import re

import pytest

from lately import golden
from lately.golden.filter import Filter
from papers import models

EXPORTED = [getattr(golden, name) for name in golden.__all__]
EXPORTED += [getattr(models, name) for name in models.__all__]
CLASSES = [value for value in EXPORTED if isinstance(value, type)]
SOURCE = re.compile(
    r"([Ss]ection|[Ee]quation|[Tt]heorem|[Dd]efinition|[Ll]emma|[Pp]roposition)s? "
    r"(\d|[IV]+\b)|Source: "
)
SHAPE = re.compile(r"[Ss]hape|[Bb]roadcast|as (for )?`")


def members(cls):
    """Return the public methods and properties of a class by their names."""
    return {name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize(
    "cls", [kind for kind in CLASSES if issubclass(kind, Filter) and kind.specification.family]
)
def test_filter_has_a_source(cls):
    """A section or an equation of its paper, in its docstring or in a docstring of its methods."""
    texts = [inspect.getdoc(cls), *map(inspect.getdoc, members(cls).values())]
    assert any(SOURCE.search(text or "") for text in texts)


def undescribed(cls):
    """Return the methods that take or return arrays of unknown shapes."""
    functions = {n: f for n, f in members(cls).items() if inspect.isfunction(f)}
    return [
        name
        for name, function in functions.items()
        if re.search("NDArray|ArrayLike", str(inspect.signature(function)))
        and not SHAPE.search(inspect.getdoc(function) or "")
    ]


@pytest.mark.parametrize("cls", CLASSES)
def test_arrays_have_shapes(cls):
    assert undescribed(cls) == []


def test_array_without_a_shape_is_found():
    class Wrong:
        def double(self, keys: "NDArray[np.int64]") -> int:  # noqa: F821
            """Double the keys."""

    assert undescribed(Wrong) == ["double"]
