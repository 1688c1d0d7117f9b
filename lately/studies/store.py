"""Results of points, kept in the user's cache folder for as long as they hold."""

import ast
import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import platformdirs

from ..golden.files import replace_file
from .study import Point, Result, Study

PACKAGE = "lately"
"""Package whose sources count; others count by their version."""

LIBRARIES = ("numpy", "scipy")
"""Libraries on whose versions results depend."""


def cache_directory() -> Path:
    """Return the folder of finished points; LATELY_CACHE overrides the user's cache folder."""
    folder = os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir(PACKAGE)
    return Path(folder) / "reproduction"


@dataclass(frozen=True)
class Task:
    """A point of a study that is to be measured.

    Attributes
    ----------
    study : Study
    point : dict
        One of ``study.points``.
    fingerprint : str
        Of what measures it; see `fingerprint`.
    """

    study: Study
    point: Point
    fingerprint: str

    @property
    def identity(self) -> dict[str, Any]:
        """All that determines the result, as JSON can hold it."""
        return {
            "study": self.study.name,
            "point": plain(self.point),
            "fingerprint": self.fingerprint,
        }


def plain(value: Any) -> Any:
    """Return a value as it comes back from JSON.

    Raises
    ------
    TypeError, ValueError
        If JSON cannot hold it; infinities and what is no number are among that.
    """
    return json.loads(json.dumps(value, allow_nan=False))


class Store:
    """Results in files, one for each point.

    A file that is damaged, or that is of something else, is as if it were not
    there. A result of other sources or versions has another name and is not
    found; nothing deletes it but its owner.

    Parameters
    ----------
    directory : path
        Where they are; made when the first is put there.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)

    def find(self, task: Task) -> Result | None:
        """Return the result of just that point, measured by just these sources, if it is there."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(self.path(task).read_bytes())
            if entry["identity"] == task.identity and isinstance(entry["result"], dict):
                result: Result = entry["result"]
                return result
        return None

    def add(self, task: Task, result: Result) -> None:
        """Keep a result.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = self.path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = {"identity": task.identity, "result": result}
        with replace_file(path) as file:
            file.write(json.dumps(entry, allow_nan=False).encode())

    def path(self, task: Task) -> Path:
        """Return where the result of a point is kept."""
        text = json.dumps(task.identity, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._directory / task.study.name / f"{name}.json"


# Fingerprints

# CPython 3.11 counts the depth of a syntax tree for all threads together: two that
# parse at once may get a SystemError.
_PARSING = threading.Lock()


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the source of a function, and of what it may run.

    That is its module and all modules of this package that it imports, and
    those that they import, comments and docstrings left out; and the versions
    of Python and of `LIBRARIES`. Several threads may ask at once.
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
        waiting |= set(_imports(module)) - found
    return frozenset(found)


class _Undocumented(ast.NodeTransformer):
    """Leaves out docstrings, and what else has no effect."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


@cache
def _tree(name: str) -> ast.AST:
    spec = _spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    tree: ast.AST = _Undocumented().visit(ast.parse(Path(spec.origin).read_bytes()))
    return tree


def _source(name: str) -> bytes:
    """Return what a module does, comments and docstrings left out."""
    return ast.dump(_tree(name)).encode()


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Return the modules of the package that a module imports, and the packages they are in."""
    spec = _spec(name)
    assert spec is not None, name
    package = name if spec.submodule_search_locations is not None else spec.parent
    names: set[str] = set()
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, package) if node.level else relative
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    within = (name for name in names if name.split(".")[0] == PACKAGE)
    parents = {parent for name in within for parent in _with_parents(name)}
    return tuple(sorted(name for name in parents if _spec(name) is not None))


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # What comes before the last dot is no package: the name is that of a class or function.
        return None
