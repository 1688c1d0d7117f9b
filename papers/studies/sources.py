"""Fingerprints of functions: digests of all the sources that determine their results."""

import ast
import hashlib
import importlib.util
import re
import sys
import threading
from collections.abc import Callable
from copy import copy
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

DIVIDED = ("papers", "papers.studies")
"""Packages of whose modules only the definitions count that a function uses.

What measures stands there beside what concludes, and a conclusion changes no measurement.
"""

Part = tuple[str, str]
"""A module and the name of a definition in it, or "" for the whole module."""

# CPython 3.11 counts the depth of a syntax tree for all threads together: two that
# parse at once may get a SystemError.
_PARSING = threading.Lock()


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the source of a function and of all the code that it may run.

    The digest covers the function's module, the modules of this package that
    it imports, and those that they import, without comments and docstrings;
    and the versions of Python and of `LIBRARIES`. Of modules in the packages
    `DIVIDED` it covers the definitions that the function refers to, and those
    that they refer to, instead of the whole module. Several threads may ask at
    once.

    Where a package imports its names lazily, by a function ``__getattr__``, a
    name counts with the module that defines it, as the package's literal
    ``LAZY`` says. What cannot be resolved covers everything below the package:
    a name that is not in ``LAZY``, a package used as a value, a module whose
    name is computed.
    """
    function = _unwrapped(function)
    digest = hashlib.sha256("\0".join(versions()).encode())
    with _PARSING:
        for part in sorted(_closure(_part(function.__module__, function.__name__))):
            digest.update("\0{}\0{}\0".format(*part).encode() + _source(part))
    return digest.hexdigest()


def versions() -> list[str]:
    """Return the versions that count, as ``numpy 2.4.6``."""
    python = f"python {sys.version_info.major}.{sys.version_info.minor}"
    return [python, *(f"{name} {metadata.version(name)}" for name in LIBRARIES)]


@cache
def _closure(start: Part) -> frozenset[Part]:
    found: set[Part] = set()
    waiting = {start}
    while waiting:
        part = waiting.pop()
        found.add(part)
        waiting |= _uses(part) - found
    return frozenset(found)


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function


def _part(module: str, name: str) -> Part:
    """Return a definition of a divided module; else, and if it is not one, the whole module."""
    divided = module.rpartition(".")[0] in DIVIDED and name in _definitions(module)
    return (module, name if divided else "")


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


@cache
def _source(part: Part) -> bytes:
    """Return the code of a part, without comments and docstrings."""
    return "\n".join(map(ast.dump, _statements(part))).encode()


@cache
def _statements(part: Part) -> list[ast.stmt]:
    module, name = part
    if not name:
        return _tree(module).body
    own = [_only(name, node) for node in _tree(module).body if name in _bound(node)]
    # What binds no name may change any definition.
    return own + [node for node in _tree(module).body if not _bound(node)]


@cache
def _definitions(module: str) -> frozenset[str]:
    """Return the names that a module binds."""
    return frozenset(chain.from_iterable(map(_bound, _tree(module).body)))


@cache
def _bound(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return frozenset((statement.name,))
    names: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        # The variables of a comprehension are its own.
        waiting += (n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.comprehension))
    return frozenset(names)


def _only(name: str, statement: ast.stmt) -> ast.stmt:
    """Return a statement; of an import what binds the name."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return statement
    kept = copy(statement)
    kept.names = [
        alias for alias in statement.names if name in (alias.asname, alias.name.split(".")[0])
    ]
    return kept


@cache
def _uses(part: Part) -> frozenset[Part]:
    """Return what a part refers to: definitions beside it, modules that it imports and theirs."""
    module, name = part
    spec = _spec(module)
    assert spec is not None, module
    package = module if spec.submodule_search_locations is not None else spec.parent or ""
    found: set[Part] = set()
    # A lazy package imports for others: each name counts where it is asked for.
    statements = [node for node in _statements(part) if not _lazy_face(node)]
    for node in chain.from_iterable(map(ast.walk, statements)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # Without a name of its own the package at the top is bound.
                found |= _whole(alias.name if alias.asname else alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, package) if node.level else relative
            for alias in node.names:
                found |= _defining(base, alias.name)
        elif isinstance(node, ast.Call):
            found |= _called(node, package)
        elif name and isinstance(node, ast.Name) and node.id in _definitions(module):
            found.add((module, node.id))
    around = (accumulate(name.split(".")[:-1], "{}.{}".format) for name, _ in found)
    parents = ((name, "") for name in chain.from_iterable(around) if _ours(name))
    return frozenset(found.union(parents))


def _called(node: ast.Call, package: str) -> frozenset[Part]:
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


def _defining(base: str, name: str) -> frozenset[Part]:
    """Return the parts that ``from base import name`` makes use of."""
    if not _ours(base):
        return frozenset()
    if name == "*":
        return _whole(base)
    found = {_part(base, name)}
    is_module = _ours(f"{base}.{name}")
    if is_module:
        found |= _whole(f"{base}.{name}")
    if any(_lazy_face(node) for node in _tree(base).body):
        home = _lazy_homes(base).get(name)
        if home is not None:
            found |= {(f"{base}.{home}", ""), *_defining(f"{base}.{home}", name)}
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
def _whole(name: str) -> frozenset[Part]:
    """Return a module; of a package, all that is below it."""
    if not _ours(name):
        return frozenset()
    spec = _spec(name)
    assert spec is not None, name
    below = {(name, "")}
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    for folder in folders:
        # In a checkout the folder of the package lies within one of its folders.
        for path in {*folder.iterdir()} - {*folders}:
            if path.suffix == ".py" and path.stem != "__init__":
                below.add((f"{name}.{path.stem}", ""))
            elif (path / "__init__.py").is_file():
                below |= _whole(f"{name}.{path.name}")
    return frozenset(below)


def _ours(name: str) -> bool:
    """Whether a name is that of a module of the package."""
    return name.split(".")[0] in (PACKAGE, "papers", "campaigns") and _spec(name) is not None


@cache
def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # What comes before the last dot is no package: the name is that of a class or function.
        return None
