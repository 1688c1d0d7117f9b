"""The reference has every public name, and says what it takes, returns and raises."""

import ast
import builtins
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import EnumMeta
from importlib import import_module
from types import FunctionType
from typing import Any, get_args, get_origin

import numpy as np
import pytest
from docstrings import Docstring, Name, modules, names, with_referred
from numpy.typing import ArrayLike

import lately.golden

PACKAGES = (
    *("", ".cli", ".dedup", ".captures", ".planner", ".replay"),
    *(
        ".golden",
        ".golden.analysis",
        ".golden.baselines",
        ".golden.cuckoo",
        ".golden.hash",
        ".golden.packets",
        ".golden.ring",
    ),
    *(
        ".golden.timestamp",
        ".hdl",
        ".hdl.bus",
        ".hdl.dictionary",
        ".hdl.frontend",
        ".hdl.hash",
        ".hdl.lanes",
    ),
    *(
        ".hdl.memory",
        ".hdl.packets",
        ".hdl.ring",
        ".hdl.timing",
        ".sim",
        ".sim.bench",
        ".sim.proofs",
    ),
    ".sim.replay",
    *(".boards", ".boards.export", ".boards.flow", ".boards.link", ".boards.targets"),
)

# What runs inside a simulator cannot be imported here.
BENCHES = "_bench"

# Of Amaranth's and pytest's interfaces, not of ours.
OTHERS = {"elaborate", "build"}

# Held to a docstring only: the insides of proofs, benches, studies and commands, and twins, which
# take what the models take that they are twins of, one key at a time.
INSIDES = re.compile(
    r"lately\.(cli|replay\.(drawing|svg)|golden\.\w+\.scalar\w*|sim\.(proofs|bench))\b"
)


@pytest.fixture(scope="module")
def public():
    return [name for name in names() if name.path.rpartition(".")[2] not in OTHERS]


@pytest.fixture(scope="module")
def offered(public):
    return [name for name in public if not INSIDES.match(name.module.__name__)]


def test_every_module_is_there():
    shown = {module.__name__ for module in modules()}
    for package in PACKAGES:
        module = import_module(f"lately{package}")
        inside = pkgutil.iter_modules(module.__path__[:1], f"{module.__name__}.")
        wanted = {one.name for one in inside if not one.ispkg and not one.name.endswith(BENCHES)}
        assert wanted - shown == set()


def test_every_exported_name_is_there(public):
    paths = {id(name.value): name.path for name in public}
    values = {name: getattr(lately.golden, name) for name in lately.golden.__all__}
    assert [name for name, value in values.items() if id(value) not in paths] == []


def test_every_name_has_a_docstring(public):
    """The reference leaves out what has none."""
    assert [name.path for name in public if not (name.text or "").strip()] == []


def test_every_parameter_is_described(offered):
    assert [
        f"{name.path}: {parameter}"
        for name in offered
        for parameter, annotation in parameters(name).items()
        if not of_ours(annotation) and not any(mentions(d, parameter) for d in with_referred(name))
    ] == []


def test_every_array_has_a_shape(offered):
    missing = []
    for name in offered:
        docs = with_referred(name)
        for parameter, annotation in parameters(name).items():
            entries = [doc.parameters.get(parameter, doc.text) for doc in docs]
            if is_array(annotation) and not any(map(has_shape, entries)):
                missing.append(f"{name.path}: {parameter}")
        if is_array(result(name)) and not any(has_shape(doc.returns or doc.text) for doc in docs):
            missing.append(f"{name.path}: result")
    assert missing == []


def test_every_error_is_named(offered):
    missing = []
    for name in offered:
        said = {error for doc in with_referred(name) for error in doc.raises}
        for error in raised(name):
            if not said & {base.__name__ for base in error.__mro__[:-3]}:
                missing.append(f"{name.path}: {error.__name__}")
    assert missing == []


SOURCE = re.compile(
    r"([Ss]ection|[Ee]quation|[Tt]heorem|[Dd]efinition|[Ll]emma|[Pp]roposition)s? \d|Source: "
)


def test_every_filter_has_a_source(public):
    """Section or equation of its paper, or the publication, in its docstring or its methods'."""
    kinds = lately.golden.Filter, lately.golden.SlidingFilter
    bases = *kinds, lately.golden.CountedFilter, lately.golden.TimedFilter
    offered = [getattr(lately.golden, name) for name in lately.golden.__all__]
    classes = [cls for cls in offered if isinstance(cls, type) and issubclass(cls, kinds)]
    assert len(classes) > 20
    for cls in {*classes} - {*bases}:
        texts = [name.text or "" for name in public if cls in (name.value, name.owner)]
        assert any(SOURCE.search(text) for text in texts), cls
        assert any(name.value is cls for name in public), cls


# Signatures


def parameters(name: Name) -> dict[str, Any]:
    """Annotations of the parameters by name; those of a property and of an enumeration are none."""
    if is_dataclass(name.value):
        return {field.name: field.type for field in fields(name.value) if field.init}
    if name.function is None or isinstance(name.value, property | EnumMeta):
        return {}
    found = inspect.signature(name.function).parameters.values()
    ignored = {"self", "cls", "args", "kwargs"}
    return {p.name: p.annotation for p in found if p.name not in ignored and p.name[0] != "_"}


def result(name: Name) -> Any:
    """Annotation of what is returned."""
    if name.function is None or isinstance(name.value, type):
        return None
    return inspect.signature(name.function).return_annotation


def is_array(annotation: Any) -> bool:
    if annotation is ArrayLike or get_origin(annotation) is np.ndarray:
        return True
    return any(is_array(part) for part in get_args(annotation))


def of_ours(annotation: Any) -> bool:
    """Whether a parameter is of a class that the reference describes itself."""
    if isinstance(annotation, type):
        return annotation.__module__.startswith("lately.")
    return any(of_ours(part) for part in get_args(annotation))


# Docstrings


def mentions(doc: Docstring, parameter: str) -> bool:
    """Whether a parameter has an entry, or is named in the text: a short one in backticks."""
    if parameter in doc.parameters or f"`{parameter}`" in doc.text:
        return True
    word = rf"\b{parameter.rstrip('s').replace('_', '[_ ]')}s?\b"
    return len(parameter) > 3 and re.search(word, doc.text) is not None


def has_shape(text: str) -> bool:
    return re.search(r"\b[Ss]hapes?\b|[Bb]roadcast", text) is not None


# Errors

CHECKS = re.compile("_|require_|check_")
"""Names of what a function may leave the checks of its parameters to."""


def raised(name: Name) -> set[type[Exception]]:
    """Errors that a function raises, or that what it calls to check or to share its work raises.

    What is caught, and what those raise that they call in their turn, is left out.
    """
    if isinstance(name.value, EnumMeta):
        return set()
    owner = name.value if isinstance(name.value, type) else name.owner
    checks = getattr(name.value, "__post_init__", None)
    functions = [function for function in (name.function, checks) if function is not None]
    functions += [called for function in functions for called in calls(function, owner)]
    errors = {error for function in functions for error in raises(function)}
    return errors - {AssertionError, NotImplementedError}


def uncaught(function: Callable[..., Any]) -> Iterator[ast.AST]:
    """Nodes of a function that no handler is around."""
    waiting: list[ast.AST] = [ast.parse(textwrap.dedent(inspect.getsource(function)))]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Try) and node.handlers:
            waiting += [*node.handlers, *node.orelse, *node.finalbody]
        else:
            waiting += ast.iter_child_nodes(node)


def raises(function: FunctionType) -> Iterator[type[Exception]]:
    known = vars(builtins) | function.__globals__
    for node in uncaught(function):
        error = getattr(node, "exc", None) if isinstance(node, ast.Raise) else None
        error = error.func if isinstance(error, ast.Call) else error
        kind = known.get(error.id) if isinstance(error, ast.Name) else None
        if isinstance(kind, type) and issubclass(kind, Exception):
            yield kind


def calls(function: FunctionType, owner: type | None) -> Iterator[FunctionType]:
    """Functions and methods by names of `CHECKS` that a function calls."""
    for node in uncaught(function):
        called: Any = None
        match node:
            case ast.Call(func=ast.Name(id=name)) if CHECKS.match(name):
                called = function.__globals__.get(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
                if owner is not None and CHECKS.match(name):
                    called = inspect.getattr_static(owner, name, None)
        called = inspect.unwrap(getattr(called, "__func__", called)) if called else None
        if isinstance(called, FunctionType) and called.__module__.startswith("lately."):
            yield called


# That the tests can fail


def silent(keys: ArrayLike, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Do something."""
    if count < 0:
        raise ValueError
    return np.asarray(keys) > 0


def spoken(keys: ArrayLike, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Do something.

    Parameters
    ----------
    keys : array_like of int, shape (n,)
    count : int

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    ValueError
        If the count is negative.
    """
    return silent(keys, count)


def leaving(keys: ArrayLike, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Do something else.

    Parameters, errors: as `spoken`.
    """
    if count < 0:
        raise ValueError
    return spoken(keys, count)


def named(function: FunctionType) -> Name:
    return Name(function.__name__, sys.modules[__name__], None, function, function.__doc__)


CHECKED = (
    test_every_parameter_is_described,
    test_every_array_has_a_shape,
    test_every_error_is_named,
)


@pytest.mark.parametrize("test", CHECKED)
def test_what_is_missing_is_found(test):
    test([named(spoken)])
    with pytest.raises(AssertionError):
        test([named(silent)])


def test_what_is_left_to_another_docstring_is_found():
    for test in CHECKED:
        test([named(leaving)])


def test_a_missing_docstring_is_found():
    with pytest.raises(AssertionError):
        test_every_name_has_a_docstring([Name("x", sys.modules[__name__], None, 1, "")])
