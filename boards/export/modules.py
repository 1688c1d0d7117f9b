"""Verilog of a component as other projects want it: shared modules and plain names.

Amaranth writes one module for each instance. Here, modules that differ in names alone become one
module. No name is an escaped identifier, and only the ports of the top have attributes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil

from .names import keywords

SEPARATOR = "__"
"""Between the name of a module and the name of a module below it; exports have no such names."""

_LEAST_YOSYS = (0, 40)
"""First release of yosys that reads all that Amaranth writes."""

_SCRIPT = """\
read_rtlil <<rtlil
{}
rtlil
proc -nomux -norom
memory_collect
write_verilog
"""
"""Amaranth's own script, except that wires without a name get a plain one."""

_MODULE = re.compile(r"^module (\S+)\n(.*?)^end$", re.M | re.S)
_ALIAS = re.compile(r"^connect (\S+) ", re.M)
_PORT = re.compile(r" (?:input|output|inout) \d+ ")
_IDENTIFIER = re.compile(r"[\\$]\S+")
_DECLARED = ("wire", "cell", "process", "memory")

_FIXED = re.compile(r" +(?:attribute|parameter) .*| +(?:cell|connect) \S+")
"""Parts of lines whose names are not the module's own."""

_MEMORY = re.compile(r'( +parameter \\MEMID ")\\\\(\S+)"')
"""The name of a memory, as a string."""

_NUMBERED = re.compile(r"\\port\$\d+\$\d+")
"""Names of ports in which Amaranth puts numbers of the whole design."""

_START = re.compile(r"^(  reg (?:signed )?(?:\[\S+\] )?(\S+)) += (\S+);$", re.M)
"""A register and its first value."""


_INITIAL = re.compile(
    r" *initial begin\n(?: *\S+\[\d+\] = .*;\n)+ *end\n"
    r"| *reg _start_;\n| *if \(_start_ \) begin end\n"
)
"""First contents of memories, and the variable by which processes run at the start."""

_EVENT = re.compile(r"\\\$auto\$\S+:dump_module\$\d+ +")
"""A variable of yosys, whose only change makes combinational processes run at the start."""


@dataclass
class RtlilModule:
    """A module in RTLIL, whose identifiers begin with a backslash or a dollar sign.

    Attributes
    ----------
    name : str
        By which instances refer to it.
    lines : list of str
    path : str
        Place of its first instance in the design, with dots.
    shared : bool
        Whether it stands in for other modules.
    """

    name: str
    lines: list[str]
    path: str
    shared: bool = False

    @property
    def own(self) -> list[str]:
        """Identifiers that the module declares, in order."""
        return [line.split()[-1] for line in self.lines if line.split()[0] in _DECLARED]

    @property
    def ports(self) -> list[str]:
        """Identifiers of the ports, in order."""
        return [line.split()[-1] for line in self.lines if _PORT.search(line)]

    def renamed(self, names: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines with the module's own identifiers replaced.

        Parameters
        ----------
        names : mapping of str to str
        """
        for line in self.lines:
            if memory := _MEMORY.fullmatch(line):
                name = f"\\{memory[2]}"
                yield f'{memory[1]}\\{names.get(name, name)}"'
                continue
            fixed = _FIXED.match(line)
            start = fixed.end() if fixed else 0
            rest = _IDENTIFIER.sub(lambda found: names.get(found[0], found[0]), line[start:])
            yield line[:start] + rest


def verilog_text(component: Any, name: str, *, initial_values: bool = True) -> str:
    """Return a component and the modules below it as Verilog-2005.

    Parameters
    ----------
    component : Component
    name : str
        Of the module; the names of the modules below it begin with it.
    initial_values : bool
        Whether registers have first values, and memories first contents.
    """
    modules = share(read_modules(rtlil.convert(component, name=name, emit_src=False)))
    script = _SCRIPT.format("\n".join(plain_lines(modules)))
    yosys = find_yosys(lambda version: version >= _LEAST_YOSYS)
    text = _EVENT.sub("_start_ ", yosys.run(["-q", "-"], script, ignore_warnings=True))
    if not initial_values:
        return _INITIAL.sub("", _START.sub(r"\1;", text))
    # Verilator warns of a declaration with a value if the register is also assigned.
    text = _START.sub(r"\1;\n  initial \2 = \3;", text)
    # A change at once may come before the processes wait for it.
    return text.replace("initial _start_ = 0;", "initial _start_ <= 1'h1;")


def read_modules(text: str) -> list[RtlilModule]:
    """Return the modules of a design, each before the modules below it.

    Attributes are left out, except the first values of registers and, at the top, those of ports.

    Parameters
    ----------
    text : str
        RTLIL as Amaranth writes it.
    """
    found: list[RtlilModule] = []
    for name, body in _MODULE.findall(text):
        found.append(RtlilModule(name, list(_stripped(body, top=not found)), name[1:]))
    return found


def _stripped(body: str, *, top: bool) -> Iterator[str]:
    """Yield the lines of a module without empty ones and without most attributes."""
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
    """Return modules of which no two differ in names alone; instances use the modules left.

    Parameters
    ----------
    modules : list of RtlilModule
        Each before the modules below it.
    """
    left: dict[str, RtlilModule] = {}
    stand_ins: dict[str, tuple[str, dict[str, str]]] = {}
    # From below, so that parents are compared after the modules below them.
    for module in reversed(modules):
        module.lines = list(_instances(module.lines, stand_ins))
        numbers = {name: f"\\{number}" for number, name in enumerate(module.own)}
        stand_in = left.setdefault("\n".join(module.renamed(numbers)), module)
        ports = dict(zip(module.ports, stand_in.ports, strict=True))
        stand_ins[module.name] = stand_in.name, ports
        if stand_in is not module:
            stand_in.path, stand_in.shared = module.path, True
    return list(reversed(left.values()))


def _instances(
    lines: list[str], stand_ins: Mapping[str, tuple[str, Mapping[str, str]]]
) -> Iterator[str]:
    """Yield lines in which instances are of the modules that stand in for theirs."""
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


def plain_lines(modules: list[RtlilModule]) -> Iterator[str]:
    """Yield the lines of a design in which all names are plain identifiers.

    Parameters
    ----------
    modules : list of RtlilModule
        The first is the top, whose ports keep their names.
    """
    kinds = _plain_names(_shown(modules))
    names = {module.name: _plain_names(_locals(module)) for module in modules}
    stand_ins = {name: (kinds[name], names[name]) for name in kinds}
    for module in modules:
        yield f"module {kinds[module.name]}"
        yield from _instances(list(module.renamed(names[module.name])), stand_ins)
        yield "end"


def _shown(modules: list[RtlilModule]) -> dict[str, str]:
    """Return the names of modules as users see them; shared ones have no number of an instance."""
    shown: dict[str, str] = {}
    # Parents first.
    for module in sorted(modules, key=lambda module: module.path.count(".")):
        above, _, last = module.path.rpartition(".")
        if module.shared and above:
            last = re.sub(r"\d+", "", last) or last
        shown[module.path] = f"{shown[above]}{SEPARATOR}{last}" if above else last
    return {module.name: shown[module.path] for module in modules}


def _locals(module: RtlilModule) -> dict[str, str]:
    """Return the names that a module declares as they were given, ports first."""
    ports = {
        name: f"port{number}" if _NUMBERED.fullmatch(name) else name[1:]
        for number, name in enumerate(module.ports)
    }
    # yosys names what begins with a dollar sign.
    return ports | {
        name: name[1:] for name in module.own if name.startswith("\\") and name not in ports
    }


def _plain_names(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return an identifier of its own for each name, the wanted one as far as it is plain."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name, text in wanted.items():
        plain = first = _plain(text)
        while plain in taken:
            plain = f"{first}_{len(taken)}"
        taken.add(plain)
        found[name] = f"\\{plain}"
    return found


def _plain(text: str) -> str:
    plain = re.sub(r"\W+", "_", text.replace("$", "_"), flags=re.A).strip("_")
    if not plain or plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain.lower() in keywords() else plain
