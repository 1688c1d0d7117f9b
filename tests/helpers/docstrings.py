"""Public names of the reference and their docstrings, taken apart by Sphinx's own readers."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.pycode import ModuleAnalyzer

API = Path(__file__).parents[2] / "docs" / "api"

CONFIG = Config(
    napoleon_use_param=True,
    napoleon_use_rtype=True,
    napoleon_use_ivar=True,
    napoleon_custom_sections=[("Members", "params_style")],
)
FIELD = re.compile(r":(\w+)(?: ((?:\\.|[^:\\])+))?: ?(.*)")


class Docstring:
    """What a docstring says of parameters, results and errors.

    Attributes
    ----------
    text : str
    parameters : dict of str to str
        Kind and description of each, attributes among them, by its name.
    returns : str
    raises : dict of str to str
        When each is raised, by its name.
    """

    def __init__(self, text: str) -> None:
        self.text = inspect.cleandoc(text)
        self.parameters: dict[str, str] = {}
        self.raises: dict[str, str] = {}
        self.returns = ""
        for kind, names, value in fields(str(NumpyDocstring(self.text, CONFIG))):
            self._take(kind, names.replace("\\", ""), value)

    def _take(self, kind: str, names: str, value: str) -> None:
        if kind in ("returns", "rtype"):
            self.returns += f" {value}"
            return
        section = {"raises": self.raises}.get(kind, self.parameters)
        for name in re.split(r",\s*", names):
            section[name] = f"{section.get(name, '')} {value}"


def fields(text: str) -> list[list[str]]:
    """Fields of a field list, with kind, name and value."""
    found: list[list[str]] = []
    for line in text.splitlines():
        match = FIELD.match(line)
        if match:
            found.append([part or "" for part in match.groups()])
        elif found and (not line or line.startswith(" ")):
            found[-1][2] += f" {line.strip()}"
    return found


@cache
def modules() -> list[ModuleType]:
    """Modules of the reference."""
    pages = "".join(page.read_text("utf-8") for page in sorted(API.glob("*.md")))
    return [import_module(name) for name in re.findall(r"automodule:: (\S+)", pages)]


# Public names


@dataclass(frozen=True)
class Name:
    """A public name of the reference.

    Attributes
    ----------
    path : str
        As "lately.golden.ring.apbf.APBF.age".
    module : module
    owner : type or None
        Class that it is a member of.
    value : object
    text : str or None
        Its docstring, one that is inherited included.
    """

    path: str
    module: ModuleType
    owner: type | None
    value: Any
    text: str | None

    @cached_property
    def doc(self) -> Docstring:
        return Docstring(self.text or "")

    @property
    def function(self) -> FunctionType | None:
        """What runs when it is called, if that is written here."""
        value = self.value
        if isinstance(value, type):
            value = vars(value).get("__init__") or vars(value).get("__new__")
        elif isinstance(value, property):
            value = value.fget
        value = inspect.unwrap(getattr(value, "__func__", value)) if value else None
        # What a decorator made has no file.
        written = isinstance(value, FunctionType) and value.__code__.co_filename[0] != "<"
        return value if written and value.__module__ == self.module.__name__ else None


def names() -> Iterator[Name]:
    """Every public name of the reference: modules, what they define, and its members."""
    for module in modules():
        yield Name(module.__name__, module, None, module, module.__doc__)
        texts = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
        for name in constants(module):
            text = "\n".join(texts.get(("", name), []))
            yield Name(f"{module.__name__}.{name}", module, None, vars(module)[name], text)
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__
            if not own or name.startswith("_") or not callable(value):
                continue
            if isinstance(value, FunctionType | type):
                text = inspect.getdoc(value)
                yield Name(f"{module.__name__}.{name}", module, None, value, text)
            if isinstance(value, type):
                yield from members(module, value)


def constants(module: ModuleType) -> Iterator[str]:
    """Public names that a module assigns to."""
    for node in ast.parse(inspect.getsource(module)).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for leaf in ast.walk(target) if target else ():
                if isinstance(leaf, ast.Name) and not leaf.id.startswith("_"):
                    yield leaf.id


def members(module: ModuleType, owner: type) -> Iterator[Name]:
    """Public methods and properties that a class itself defines."""
    for name, value in vars(owner).items():
        path = f"{module.__name__}.{owner.__qualname__}.{name}"
        if not name.startswith("_") and isinstance(value, MEMBERS):
            yield Name(path, module, owner, value, inspect.getdoc(getattr(owner, name)))


MEMBERS = (FunctionType, property, classmethod, staticmethod, cached_property)


# What one docstring leaves to another

AS = re.compile(r"\b(?:[Aa]s(?: for| of| in)?|[Ss]ee) ((?:`~?[\w.]+`(?:, | and )?)+)")


def with_referred(name: Name) -> list[Docstring]:
    """Docstring of a name, and those that it leaves things to, as "as `insert`" does.

    A class leaves the fields that it inherits to the classes that have them.
    """
    bases = inspect.getmro(name.value)[1:] if isinstance(name.value, type) else ()
    found = {name.path: name}
    for base in bases:
        if base.__module__.startswith("lately."):
            path = f"{base.__module__}.{base.__qualname__}"
            found[path] = Name(path, name.module, None, base, inspect.getdoc(base))
    waiting = list(found.values())
    while waiting:
        one = waiting.pop()
        for several in AS.findall(one.doc.text):
            for target in re.findall(r"`~?([\w.]+)`", several):
                other = resolve(target, one)
                if other is not None and other.path not in found:
                    found[other.path] = other
                    waiting.append(other)
    return [one.doc for one in found.values()] + [described_below(name)]


def described_below(name: Name) -> Docstring:
    """Docstrings of the fields of a class, inherited ones included, each below the field."""
    doc = Docstring("")
    kinds = inspect.getmro(name.value) if isinstance(name.value, type) else ()
    for kind in kinds:
        if kind.__module__.startswith("lately."):
            texts = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
            own = {field: text for (owner, field), text in texts.items() if owner == kind.__name__}
            doc.parameters |= {field: " ".join(text) for field, text in own.items()}
    return doc


def resolve(target: str, name: Name) -> Name | None:
    """Return what a name in backticks means at that place."""
    inherited = name.owner.__mro__[:-1] if name.owner else ()
    for place in (*inherited, name.module, *packages()):
        owner, value = None, place
        for part in target.split("."):
            owner = value if isinstance(value, type) else None
            value = getattr(value, part, None)
        if value is not None and value is not name.value:
            text = inspect.getdoc(value)
            return Name(f"{place.__name__}.{target}", name.module, owner, value, text)
    return None


@cache
def packages() -> list[ModuleType]:
    """Packages that have names by which they are known everywhere."""
    return [module for module in modules() if hasattr(module, "__path__")]
