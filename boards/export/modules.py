"""Modules of an RTLIL design. Modules that differ only in names are merged."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MODULE = re.compile(r"^module (\S+)\n(.*?)^end$", re.M | re.S)
_ALIAS = re.compile(r"^connect (\S+) ", re.M)
_PORT = re.compile(r" (?:input|output|inout) \d+ ")
_IDENTIFIER = re.compile(r"[\\$]\S+")
_DECLARED = ("wire", "cell", "process", "memory")

_FIXED = re.compile(r" +(?:attribute|parameter) .*| +(?:cell|connect) \S+")
"""Matches the part of a line whose names refer to other modules."""

_MEMORY = re.compile(r'( +parameter \\MEMID ")\\\\(\S+)"')
"""Matches the name of a memory in a string."""


@dataclass
class RtlilModule:
    """A module in RTLIL, whose identifiers begin with a backslash or a dollar sign."""

    name: str  # name by which instances refer to the module
    lines: list[str]
    path: str  # dotted path of its first instance in the design
    shared: bool = False  # whether it replaces other modules

    @property
    def declared(self) -> list[str]:
        """Identifiers that the module declares, in order."""
        return [line.split()[-1] for line in self.lines if line.split()[0] in _DECLARED]

    @property
    def ports(self) -> list[str]:
        """Identifiers of the module's ports, in order."""
        return [line.split()[-1] for line in self.lines if _PORT.search(line)]

    def renamed(self, names: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of the module with its own identifiers replaced."""
        for line in self.lines:
            if memory := _MEMORY.fullmatch(line):
                name = f"\\{memory[2]}"
                yield f'{memory[1]}\\{names.get(name, name)}"'
                continue
            fixed = _FIXED.match(line)
            start = fixed.end() if fixed else 0
            rest = _IDENTIFIER.sub(lambda match: names.get(match[0], match[0]), line[start:])
            yield line[:start] + rest


def read_modules(text: str) -> list[RtlilModule]:
    """Parse the modules of a design; parents come before their submodules.

    Attributes are omitted, except initial values of registers and, in the top module, attributes of
    ports.
    """
    modules: list[RtlilModule] = []
    for name, body in _MODULE.findall(text):
        modules.append(RtlilModule(name, list(_stripped(body, top=not modules)), name[1:]))
    return modules


def _stripped(body: str, *, top: bool) -> Iterator[str]:
    """Yield the lines of a module, without empty lines and most attributes."""
    aliases = set(_ALIAS.findall(body))
    waiting: list[str] = []
    for line in filter(None, body.splitlines()):
        words = line.split()
        if words[0] == "attribute":
            waiting.append(line)
            continue
        for attribute in waiting:
            name = attribute.split()[1]
            register = name == "\\init" and words[-1] not in aliases
            interface = name.startswith("\\X_INTERFACE") and top and _PORT.search(line)
            if register or interface:
                yield attribute
        waiting.clear()
        yield line


def share(modules: list[RtlilModule]) -> list[RtlilModule]:
    """Merge modules that differ only in names; instances use the remaining module."""
    left: dict[str, RtlilModule] = {}
    stand_ins: dict[str, tuple[str, dict[str, str]]] = {}
    # Bottom-up, so that each parent is compared after its submodules.
    for module in reversed(modules):
        module.lines = list(instances(module.lines, stand_ins))
        numbers = {name: f"\\{number}" for number, name in enumerate(module.declared)}
        stand_in = left.setdefault("\n".join(module.renamed(numbers)), module)
        ports = dict(zip(module.ports, stand_in.ports, strict=True))
        stand_ins[module.name] = stand_in.name, ports
        if stand_in is not module:
            stand_in.path, stand_in.shared = module.path, True
    return list(reversed(left.values()))


def instances(
    lines: list[str], stand_ins: Mapping[str, tuple[str, Mapping[str, str]]]
) -> Iterator[str]:
    """Yield the lines with the module of each instance replaced by its stand-in, if any."""
    ports: Mapping[str, str] = {}
    for line in lines:
        if line.startswith("  cell "):
            _, name, instance = line.split()
            stand_in, ports = stand_ins.get(name, (name, {}))
            yield f"  cell {stand_in} {instance}"
        elif line.startswith("    connect "):
            _, name, value = line.split(maxsplit=2)
            yield f"    connect {ports.get(name, name)} {value}"
        else:
            yield line
