"""Which module imports which, read from the sources."""

import ast
from dataclasses import dataclass, field
from importlib.util import resolve_name
from pathlib import Path

BELOW = {
    "golden": set(),
    "hdl": {"golden"},
    "sim": {"golden", "hdl"},
    "boards": {"golden", "hdl"},
    "lately": {"golden", "hdl", "sim", "boards"},
    "papers": {"golden", "hdl", "sim", "boards", "lately", "campaigns"},
    "campaigns": {"golden", "hdl", "sim", "boards", "lately", "papers"},
}
"""Rooms that each room may import."""

OUTSIDE = ("lately", "papers", "campaigns")
"""Folders that are packages of their own names; the others are packages in `lately`."""


@dataclass
class Module:
    """A module, and what it imports from the package."""

    path: Path
    imports: set[str] = field(default_factory=set)
    private: list[str] = field(default_factory=list)


def scan(root):
    """Return the modules of the package by their names."""
    modules = {}
    for room in BELOW:
        for path in sorted((root / room).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            parts = parts if room in OUTSIDE else ("lately", *parts)
            modules[".".join(parts).removesuffix(".__init__")] = Module(path)
    for name, module in modules.items():
        read_imports(name, module, modules)
    return modules


def read_imports(name, module, modules):
    package = name if module.path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(module.path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            module.imports |= {defining(alias.name, modules) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = resolve_name(relative, package) if node.level else relative
            for alias in node.names:
                module.imports.add(defining(f"{base}.{alias.name}", modules))
                if base.split(".")[0] in OUTSIDE and is_private(alias.name):
                    module.private.append(f"{name}: {base}.{alias.name}")
    module.imports -= {"", name}


def statements(node):
    """Yield all statements below a node, but not their expressions, which take most of the time."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


def defining(name, modules):
    """Return the module that a dotted name is in; nothing for one of another package."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def is_private(name):
    return name.startswith("_") and not name.endswith("__")
