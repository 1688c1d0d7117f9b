"""Fingerprints of functions: digests of all the sources that determine their results."""

import ast
import hashlib
import importlib.util
import re
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from importlib import metadata
from importlib.machinery import ModuleSpec
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

PACKAGE = "lately"
"""Package whose sources count; others count by their version."""

LIBRARIES = ("numpy", "scipy")
"""Libraries on whose versions results depend."""

# CPython 3.11 counts the depth of a syntax tree for all threads together: two that
# parse at once may get a SystemError.
_PARSING = threading.Lock()


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the source of a function and of all the code that it may run.

    The digest covers the function's module, the modules of this package that
    it imports, and those that they import, without comments and docstrings;
    and the versions of Python and of `LIBRARIES`. Several threads may ask at
    once.

    Where a package imports its names lazily, by a function ``__getattr__``, a
    name counts with the module that defines it, as the package's literal
    ``LAZY`` says. What cannot be resolved covers everything below the package:
    a name that is not in ``LAZY``, a package used as a value, a module whose
    name is computed.
    """
    while isinstance(function, partial):
        function = function.func
    digest = hashlib.sha256("\0".join(versions()).encode())
    with _PARSING:
        for name in sorted(_closure(function.__module__)):
            digest.update(f"\0{name}\0".encode() + _source(name))
    return digest.hexdigest()


def versions() -> list[str]:
    """Return the versions that count, as ``numpy 2.4.6``."""
    python = f"python {sys.version_info.major}.{sys.version_info.minor}"
    return [python, *(f"{name} {metadata.version(name)}" for name in LIBRARIES)]


@cache
def _closure(name: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = {name}
    while waiting:
        module = waiting.pop()
        found.add(module)
        waiting |= _imports(module) - found
    return frozenset(found)


# One module


class _Undocumented(ast.NodeTransformer):
    """Leaves out docstrings and other expressions without effect."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


@cache
def _tree(name: str) -> ast.Module:
    spec = _spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    return _Undocumented().visit(ast.parse(Path(spec.origin).read_bytes()))


def _source(name: str) -> bytes:
    """Return the code of a module, without comments and docstrings."""
    return ast.dump(_tree(name)).encode()


@cache
def _imports(name: str) -> frozenset[str]:
    """Return the modules of the package that a module imports, and the packages around them."""
    spec = _spec(name)
    assert spec is not None, name
    package = name if spec.submodule_search_locations is not None else spec.parent or ""
    names: set[str] = set()
    # A lazy package imports for others: each name counts where it is asked for.
    statements = [node for node in _tree(name).body if not _lazy_face(node)]
    for node in chain.from_iterable(map(ast.walk, statements)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # Without a name of its own the package at the top is bound.
                names |= _whole(alias.name if alias.asname else alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, package) if node.level else relative
            for alias in node.names:
                names |= _defining(base, alias.name)
        elif isinstance(node, ast.Call):
            names |= _called(node, package)
    parents = (accumulate(name.split("."), "{}.{}".format) for name in names)
    return frozenset(name for name in chain.from_iterable(parents) if _ours(name))


def _called(node: ast.Call, package: str) -> frozenset[str]:
    """Return the modules that a call in a package may import."""
    if ast.unparse(node.func).split(".")[-1] not in ("import_module", "__import__"):
        return frozenset()
    name, *anchor = map(ast.unparse, node.args) if node.args else ("",)
    if isinstance(node.args[0] if node.args else None, ast.Constant) and not anchor:
        return _whole(ast.literal_eval(name))
    # A name within the module's own package, computed or not, is below it.
    own = anchor == ["__package__"] and re.match(r"f?['\"]\.(?!\.)", name)
    return _whole(package if own else PACKAGE)


# Names


def _defining(base: str, name: str) -> frozenset[str]:
    """Return the modules that ``from base import name`` makes use of."""
    if not _ours(base):
        return frozenset()
    if name == "*":
        return _whole(base)
    found = {base}
    is_module = _ours(f"{base}.{name}")
    if is_module:
        found |= _whole(f"{base}.{name}")
    if any(_lazy_face(node) for node in _tree(base).body):
        home = _lazy_homes(base).get(name)
        if home is not None:
            found |= {f"{base}.{home}", *_defining(f"{base}.{home}", name)}
        elif not is_module:
            found |= _whole(base)
    return frozenset(found)


def _lazy_face(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__getattr__"


@cache
def _lazy_homes(name: str) -> dict[str, str]:
    """Return the modules that define the names of a lazy package, as its ``LAZY`` says."""
    for node in _tree(name).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAZY":
            homes = ast.literal_eval(node.value)
            return {name: module for module, names in homes.items() for name in names}
    return {}


@cache
def _whole(name: str) -> frozenset[str]:
    """Return a module; of a package, all that is below it."""
    if not _ours(name):
        return frozenset()
    spec = _spec(name)
    assert spec is not None, name
    below = {name}
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    for folder in folders:
        # In a checkout the folder of the package lies within one of its folders.
        for path in {*folder.iterdir()} - {*folders}:
            if path.suffix == ".py" and path.stem != "__init__":
                below.add(f"{name}.{path.stem}")
            elif (path / "__init__.py").is_file():
                below |= _whole(f"{name}.{path.name}")
    return frozenset(below)


def _ours(name: str) -> bool:
    """Whether a name is that of a module of the package."""
    return name.split(".")[0] == PACKAGE and _spec(name) is not None


@cache
def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # What comes before the last dot is no package: the name is that of a class or function.
        return None
