"""Imports one module of the package from a changed source, or notes which functions are called.

Python runs this at the start of each process that has this folder in its PYTHONPATH: in tests, in
what they start, and in simulators. The file of the module stays the original's, so that whoever
reads the source of a module sees that.
"""

import ast
import builtins
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

MUTANT = "LATELY_MUTANT"
"""Environment variable: name of the module, and the file of its changed source."""
CALLS = "LATELY_CALLS"
"""Environment variable: set if calls are to be noted."""

ROOMS = ("lately.golden.", "lately.hdl.")
COMPILED = ("golden/cuckoo/window_loop.py",)
"""Modules whose functions are compiled without a decorator that says so."""
UNNOTED = {"jit", "lru_cache"}
"""Decorators of functions that do not note their calls: compiled, or called by the first test."""
CALLED: set[str] = set()
"""Functions that were called, each as its path and its name, and modules that were imported."""


class ChangedSource(SourceFileLoader):
    """Compiles the changed source; nothing of it is kept on disk."""

    def __init__(self, name: str, path: str, changed: str) -> None:
        super().__init__(name, path)
        self._changed = changed

    def get_code(self, fullname):
        with open(self._changed, "rb") as file:
            return compile(file.read(), self.path, "exec", dont_inherit=True)


class NotedCalls(ast.NodeTransformer):
    """Has each function note that it is called; what is defined in one belongs to it.

    A profiler would do so without a change, but simulators take several times as long below one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._home: tuple[str, ...] = ()
        self._within = False

    def _note(self, name: str) -> ast.stmt:
        return ast.parse(f"_lately_called({f'{self._path}:{name}'!r})").body[0]

    def visit_Module(self, node: ast.Module) -> ast.Module:
        if self._path not in COMPILED:
            self.generic_visit(node)
        node.body.append(self._note("<module>"))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        home, self._home = self._home, (*self._home, node.name) if not self._within else self._home
        self.generic_visit(node)
        self._home = home
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if {ast.unparse(one).partition("(")[0] for one in node.decorator_list} & UNNOTED:
            return node
        before = self._home, self._within
        if not self._within:
            self._home, self._within = (*self._home, node.name), True
        note = ast.copy_location(self._note(".".join(self._home)), node.body[0])
        self.generic_visit(node)
        node.body.insert(ast.get_docstring(node, clean=False) is not None, note)
        self._home, self._within = before
        return node


class NotedSource(SourceFileLoader):
    """Compiles a module with functions that note their calls; nothing of it is kept on disk."""

    def get_code(self, fullname):
        parts = fullname.split(".")[1:]
        name = "/".join([*parts, "__init__"] if self.is_package(fullname) else parts)
        with open(self.path, "rb") as file:
            tree = NotedCalls(f"{name}.py").visit(ast.parse(file.read()))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class NotedModules:
    """Finds the modules that note calls."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if not name.startswith(ROOMS):
            return None
        for finder in others(self):
            spec = finder.find_spec(name, path, target)
            if spec is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = NotedSource(name, spec.origin)
                return spec
        return None


def others(finder: object) -> list[Any]:
    """Return who looks for a module after a finder."""
    return sys.meta_path[sys.meta_path.index(finder) + 1 :]


class ChangedModule:
    """Finds the one module that is changed."""

    def __init__(self, name: str, changed: str) -> None:
        self._name = name
        self._changed = changed

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != self._name:
            return None
        for finder in others(self):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = ChangedSource(name, spec.origin, self._changed)
                return spec
        return None


def install() -> None:
    """Look for what is changed or noted first, if anything is."""
    if CALLS in os.environ:
        vars(builtins)["_lately_called"] = CALLED.add
        sys.meta_path.insert(0, NotedModules())
    if MUTANT in os.environ:
        sys.meta_path.insert(0, ChangedModule(*os.environ[MUTANT].split("=", 1)))


install()
