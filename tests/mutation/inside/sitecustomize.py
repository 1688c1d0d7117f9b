"""Import one module of the package from a changed source.

Python runs this file at the start of each process with this folder in its PYTHONPATH: in tests, in
the processes that tests start, and in simulators. The module keeps the path of the true source, so
that a reader of its source sees the true source.
"""

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

MUTANT = "LATELY_MUTANT"
"""Environment variable: name of the module, and the file of its changed source."""


class ChangedSource(SourceFileLoader):
    """Compile the changed source; keep no bytecode."""

    def __init__(self, name: str, path: str, changed: str) -> None:
        super().__init__(name, path)
        self._changed = changed

    def get_code(self, fullname):
        with open(self._changed, "rb") as file:
            return compile(file.read(), self.path, "exec", dont_inherit=True)


class ChangedModule:
    """Find the one module that is changed."""

    def __init__(self, name: str, changed: str) -> None:
        self._name = name
        self._changed = changed

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = ChangedSource(name, spec.origin, self._changed)
                return spec
        return None


if MUTANT in os.environ:
    sys.meta_path.insert(0, ChangedModule(*os.environ[MUTANT].split("=", 1)))
