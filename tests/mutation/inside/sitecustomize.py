"""Imports one module of the package from a changed source.

Python runs this at the start of each process that has this folder in its PYTHONPATH: in tests, in
what they start, and in simulators. The file of the module stays the original's, so that whoever
reads the source of a module sees that.
"""

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

MUTANT = "LATELY_MUTANT"
"""Environment variable: name of the module, and the file of its changed source."""


class ChangedSource(SourceFileLoader):
    """Compiles the changed source; nothing of it is kept on disk."""

    def __init__(self, name: str, path: str, changed: str) -> None:
        super().__init__(name, path)
        self._changed = changed

    def get_code(self, fullname):
        with open(self._changed, "rb") as file:
            return compile(file.read(), self.path, "exec", dont_inherit=True)


class ChangedModule:
    """Finds the one module that is changed."""

    def __init__(self, name: str, changed: str) -> None:
        self._name = name
        self._changed = changed

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = ChangedSource(name, spec.origin, self._changed)
                return spec
        return None


def install() -> None:
    """Look for the changed module first, if there is one."""
    if MUTANT in os.environ:
        sys.meta_path.insert(0, ChangedModule(*os.environ[MUTANT].split("=", 1)))


install()
