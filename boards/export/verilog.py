"""Convert a component to readable Verilog, via RTLIL and yosys.

Modules that differ only in names are merged, every module has a comment, no identifier is escaped,
and only the top-level ports have attributes.
"""

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain, count
from typing import Any

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Fragment

from ...hdl.verilog import with_start

# Only classes of this package appear in comments.
PACKAGE = __name__.partition(".")[0]

# Width of comment text in columns, without delimiters.
WIDTH = 96

# Separates module and submodule names; does not occur in names of exports.
SEPARATOR = "__"

_MIN_YOSYS = (0, 40)  # first release that can read Amaranth's output

# Amaranth's own script, plus plain names for unnamed wires.
_SCRIPT = """\
read_rtlil <<rtlil
{}
rtlil
proc -nomux -norom
memory_collect
write_verilog
"""

# A register and its initial value.
_START = re.compile(r"^(  reg (?:signed )?(?:\[\S+\] )?(\S+)) += (\S+);$", re.M)

# Initial contents of memories, and the dummy variable that triggers processes.
_INITIAL = re.compile(
    r" *initial begin\n(?: *\S+\[\d+\] = .*;\n)+ *end\n"
    r"| *reg _start_;\n *initial _start_ .*;\n| *if \(_start_ \) begin end\n"
)
_HEAD = re.compile(r"^module (\w+)", re.M)


def verilog_text(component: Any, name: str, *, initial_values: bool = True) -> str:
    kept = _Kept(component)
    modules = share(read_modules(rtlil.convert(kept, name=name, emit_src=False)))
    comments = _comments(modules, dict(_parts(kept.fragment, name)))
    script = _SCRIPT.format("\n".join(plain_lines(modules)))
    yosys = find_yosys(lambda version: version >= _MIN_YOSYS)
    text = with_start(yosys.run(["-q", "-"], script, ignore_warnings=True))
    text = _HEAD.sub(lambda match: f"{comments.get(match[1], '')}{match[0]}", text)
    if not initial_values:
        return _INITIAL.sub("", _START.sub(r"\1;", text))
    # Verilator warns about registers that are initialised in their declaration and assigned.
    return _START.sub(r"\1;\n  initial \2 = \3;", text)


class _Kept(Elaboratable):
    """Wraps a component, and keeps the fragment that its elaboration returns."""

    def __init__(self, component: Any) -> None:
        self._component = component
        self.fragment: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._component, name)

    def elaborate(self, platform: object) -> Any:
        self.fragment = Fragment.get(self._component, platform)
        return self.fragment


def _parts(fragment: Fragment, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the component of each submodule that this package defines."""
    origins = [
        origin for origin in fragment.origins or () if type(origin).__module__.startswith(PACKAGE)
    ]
    if origins:
        yield path, origins[-1]
    for below, name, _ in fragment.subfragments:
        if name is not None:
            yield from _parts(below, f"{path}.{name}")


def _comments(modules: "list[RtlilModule]", parts: Mapping[str, Any]) -> dict[str, str]:
    names = module_names(modules)
    texts = {}
    for module in modules:
        part = parts.get(re.sub(r"\$\d+", "", module.path))
        if part is not None:
            kind = type(part)
            about = (inspect.getdoc(kind) or "").partition("\n\n")[0]
            latency = getattr(part, "latency", None)
            cycles = f" Latency: {latency} cycle{'s' * (latency != 1)}." if latency else ""
            text = f"{about} Class {kind.__qualname__} of {kind.__module__}.{cycles}"
            lines = textwrap.wrap(text.replace("`", ""), WIDTH)
            texts[names[module.name].removeprefix("\\")] = "".join(f"// {line}\n" for line in lines)
    return texts


# Modules in RTLIL

_MODULE = re.compile(r"^module (\S+)\n(.*?)^end$", re.M | re.S)
_ALIAS = re.compile(r"^connect (\S+) ", re.M)
_PORT = re.compile(r" (?:input|output|inout) \d+ ")
_IDENTIFIER = re.compile(r"[\\$]\S+")
_DECLARED = ("wire", "cell", "process", "memory")

# Part of a line whose names refer to other modules.
_FIXED = re.compile(r" +(?:attribute|parameter) .*| +(?:cell|connect) \S+")

# Name of a memory in a string.
_MEMORY = re.compile(r'( +parameter \\MEMID ")\\\\(\S+)"')


@dataclass
class RtlilModule:
    """A module in RTLIL, whose identifiers begin with a backslash or a dollar sign."""

    name: str  # name by which instances refer to the module
    lines: list[str]
    path: str  # dotted path of its first instance in the design
    shared: bool = False  # whether it replaces other modules

    @property
    def declared(self) -> list[str]:
        return [line.split()[-1] for line in self.lines if line.split()[0] in _DECLARED]

    @property
    def ports(self) -> list[str]:
        return [line.split()[-1] for line in self.lines if _PORT.search(line)]

    def renamed(self, names: Mapping[str, str]) -> Iterator[str]:
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
    return [
        RtlilModule(name, list(_stripped(body, top=not number)), name[1:])
        for number, (name, body) in enumerate(_MODULE.findall(text))
    ]


def _stripped(body: str, *, top: bool) -> Iterator[str]:
    """Yield the lines of a module without its attributes.

    Only the initial values of registers are kept and, in the top module, the interfaces of ports.
    """
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
    """Merge modules that differ only in names, and make instances refer to the remaining module."""
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
    """Yield the lines of a module; its instances refer to the modules and ports in `stand_ins`."""
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


# Plain names

# Names that Amaranth generates for ports and wires that carry part of a signal. Such a port is
# renamed after the signal and its bits, like address_13_4, or after the instance that it drives.
_NUMBERED = re.compile(r"\\port\$\d+\$\d+|\$\d+")

# A wire that is only an alias for some bits: the wire and the bits.
_CONNECT = re.compile(r"connect \\(\S+) (.+)")

# Some bits of a wire, or a constant.
_BITS = re.compile(r"(\S+) \[(\d+)(?::(\d+))?\]|(\d+)'[01x]*")

# Suffix that Amaranth adds to distinguish equal names.
_COPY = re.compile(r"\$\d+$")


def plain_lines(modules: list[RtlilModule]) -> Iterator[str]:
    """Yield the lines of a design after renaming; ports of the first module keep their names."""
    kinds = module_names(modules)
    parts = _part_names(modules)
    for module in modules:
        module.lines = list(_without_copies(module, parts[module.name]))
    names = {module.name: _plain_names(_locals(module, parts[module.name])) for module in modules}
    stand_ins = {name: (kinds[name], names[name]) for name in kinds}
    for module in modules:
        yield f"module {kinds[module.name]}"
        yield from instances(list(module.renamed(names[module.name])), stand_ins)
        yield "end"


def _part_names(modules: list[RtlilModule]) -> dict[str, dict[str, str]]:
    """Return descriptive names for each module's ports and wires that have only numbers."""
    # A wire is named after a signal that contains it, or else after a submodule port connected to
    # it, or else as in the parent, or else as in a module with the same port.
    parts = {module.name: _signal_parts(module) for module in modules}
    ports: dict[str, str] = {}
    for names in parts.values():
        ports = {net: name for net, name in names.items() if net[0] != "$"} | ports
    for module in reversed(modules):
        for kind, instance, port, net, _ in _connections(module):
            if kind in parts and _NUMBERED.fullmatch(net):
                below = parts[kind].get(port) or ports.get(port) or _COPY.sub("", port[1:])
                parts[module.name].setdefault(net, f"{instance}_{below}")
    for module in modules:
        names = parts[module.name]
        widths = _widths(module)
        for kind, _, port, net, bits in _connections(module):
            if kind in parts and _NUMBERED.fullmatch(port):
                high, _, low = bits.partition(":")
                whole = int(high) - int(low or high) + 1 == widths[net]
                name = names.get(net, _COPY.sub("", net[1:]))
                if not whole:
                    name = "_".join([name, high, low][: 2 + bool(low)])
                parts[kind].setdefault(port, name)
        for net in module.ports:
            if _NUMBERED.fullmatch(net):
                names.setdefault(net, ports.get(net, net[1:]))
    return parts


def _widths(module: RtlilModule) -> dict[str, int]:
    wires = [line.split() for line in module.lines if line.startswith("  wire ")]
    return {words[-1]: int(words[2]) for words in wires}


def _connections(module: RtlilModule) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (module, instance, port, wire, bits) for each port connected to bits of a wire."""
    kind = instance = ""
    for line in module.lines:
        words = line.split()
        if words[0] == "cell":
            kind, instance = words[1], _COPY.sub("", words[2][1:])
        elif line.startswith("    connect ") and len(words) == 4 and words[3][0] == "[":
            yield kind, instance, words[1], words[2], words[3].strip("[]")


def _signal_parts(module: RtlilModule) -> dict[str, str]:
    """Name each numbered wire after the signal that it carries, if no other wire gets that name."""
    names: dict[str, str] = {}
    whole = _widths(module)
    aliases = [
        (match[1], _bits(match[2])) for match in map(_CONNECT.fullmatch, module.lines) if match
    ]
    # Prefer names without a copy suffix, then wide signals over their parts.
    aliases.sort(
        key=lambda match: (bool(_COPY.search(match[0])), -sum(width for _, width in match[1]))
    )
    for alias, parts in aliases:
        low = sum(width for _, width in parts)
        for wire, width in parts:
            low -= width
            if _NUMBERED.fullmatch(wire) and width == whole[wire]:
                bits = f"_{low + width - 1}_{low}" if width > 1 else f"_{low}"
                names.setdefault(wire, _COPY.sub("", alias) + ("" if len(parts) == 1 else bits))
    uses = Counter(names.values())
    return {net: name for net, name in names.items() if uses[name] == 1}


def _bits(text: str) -> list[tuple[str, int]]:
    """Return the name and width of each wire in a concatenation; a constant has the name ""."""
    return [
        (match[1] or "", int(match[4] or int(match[2]) - int(match[3] or match[2]) + 1))
        for match in _BITS.finditer(text)
    ]


def _without_copies(module: RtlilModule, parts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a module, omitting wires that are unread aliases of other wires."""
    read: Counter[str] = Counter()
    copies: dict[str, str] = {}
    for line in module.lines:
        read.update(set(re.findall(r"[\\$]\S+", line)))
        if alias := _CONNECT.fullmatch(line):
            copies[f"\\{alias[1]}"] = alias[2].split()[0]
    ports = set(module.ports)
    gone = {
        wire
        for wire, value in copies.items()
        if wire not in ports
        and read[wire] == 2
        and (_COPY.search(wire) or parts.get(value) == wire[1:])
    }
    for line in module.lines:
        words = line.split()
        if not (words[0] == "wire" and words[-1] in gone) and not (
            line.startswith("connect ") and words[1] in gone
        ):
            yield line


def module_names(modules: list[RtlilModule]) -> dict[str, str]:
    """Return a plain identifier for each module; merged modules get no instance numbers."""
    shown: dict[str, str] = {}
    # Parents come first.
    for module in sorted(modules, key=lambda module: module.path.count(".")):
        above, _, last = module.path.rpartition(".")
        last = _COPY.sub("", last)
        if module.shared and above:
            last = re.sub(r"\d+", "", last) or last
        shown[module.path] = f"{shown[above]}{SEPARATOR}{last}" if above else last
    return _plain_names({module.name: shown[module.path] for module in modules})


def _locals(module: RtlilModule, parts: Mapping[str, str]) -> dict[str, str]:
    # Identifiers that begin with a dollar sign are named by yosys.
    declared = [name for name in module.declared if name.startswith("\\") or name in parts]
    ordered = [*module.ports, *sorted(declared, key=lambda name: bool(_COPY.search(name)))]
    return {name: parts.get(name) or _COPY.sub("", name[1:]) for name in ordered}


def _plain_names(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return, for each name, a unique plain identifier that resembles the wanted text."""
    identifiers: dict[str, str] = {}
    for name, text in wanted.items():
        plain = re.sub(r"\W+", "_", text.replace("$", "_"), flags=re.A).strip("_")
        if not plain or plain[0].isdigit():
            plain = f"n{plain}"
        if plain.lower() in keywords():
            plain = f"{plain}_"
        numbered = (f"{plain}_{number}" for number in count(2))
        unused = (choice for choice in chain([plain], numbered) if choice not in identifiers)
        identifiers[next(unused)] = name
    return {name: f"\\{plain}" for plain, name in identifiers.items()}


@cache
def keywords() -> frozenset[str]:
    text = resources.files(__package__).joinpath("keywords.txt").read_text("utf-8")
    return frozenset(text.lower().split())
