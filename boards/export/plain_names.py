"""Give modules, ports and wires plain names, so that no identifier is escaped.

Amaranth only numbers a port that carries part of a signal. This module names such a port after
the signal and its bits, as in ``address_13_4``, or after the instance that it drives.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from .modules import RtlilModule, instances

SEPARATOR = "__"
"""Separates module and submodule names; does not occur in names of exports."""

_NUMBERED = re.compile(r"\\port\$\d+\$\d+|\$\d+")
"""Numbered names that Amaranth generates for ports and wires."""

_CONNECT = re.compile(r"connect \\(\S+) (.+)")
"""Matches a wire that is only an alias for some bits: the wire and the bits."""

_BITS = re.compile(r"(\S+) \[(\d+)(?::(\d+))?\]|(\d+)'[01x]*")
"""Matches some bits of a wire, or a constant."""

_COPY = re.compile(r"\$\d+$")
"""Suffix that Amaranth adds to distinguish equal names."""


def plain_lines(modules: list[RtlilModule]) -> Iterator[str]:
    """Yield the lines of a design with plain names; ports of the first module keep their names."""
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
    """Return names for numbered ports and wires, by module.

    A wire is named after a signal that contains it, or else after a submodule port connected to it,
    or else as in the parent, or else as in some module with the same port.
    """
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
    """Return the width of each wire."""
    wires = [line.split() for line in module.lines if line.startswith("  wire ")]
    return {words[-1]: int(words[2]) for words in wires}


def _connections(module: RtlilModule) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield each connection: module and name of the instance, its port, and the wire bits."""
    kind = instance = ""
    for line in module.lines:
        words = line.split()
        if words[0] == "cell":
            kind, instance = words[1], _COPY.sub("", words[2][1:])
        elif line.startswith("    connect ") and len(words) == 4 and words[3][0] == "[":
            yield kind, instance, words[1], words[2], words[3].strip("[]")


def _signal_parts(module: RtlilModule) -> dict[str, str]:
    """Return names for numbered wires that belong to exactly one signal of the module."""
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
    """Return the wires that make up some bits, and how many bits of each; "" for a constant."""
    return [
        (match[1] or "", int(match[4] or int(match[2]) - int(match[3] or match[2]) + 1))
        for match in _BITS.finditer(text)
    ]


def _without_copies(module: RtlilModule, parts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines without wires that are only unread aliases."""
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
    """Return a plain identifier per module; shared modules get no instance numbers."""
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
    """Return the names that a module declares, without copy suffixes, ports first."""
    # Identifiers that begin with a dollar sign are named by yosys.
    declared = [name for name in module.declared if name.startswith("\\") or name in parts]
    ordered = [*module.ports, *sorted(declared, key=lambda name: bool(_COPY.search(name)))]
    return {name: parts.get(name) or _COPY.sub("", name[1:]) for name in ordered}


def _plain_names(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return a unique identifier for each name, close to the wanted name."""
    plain_by_name: dict[str, str] = {}
    taken: set[str] = set()
    for name, text in wanted.items():
        plain = first = _plain(text)
        number = 1
        while plain in taken:
            number += 1
            plain = f"{first}_{number}"
        taken.add(plain)
        plain_by_name[name] = f"\\{plain}"
    return plain_by_name


def _plain(text: str) -> str:
    plain = re.sub(r"\W+", "_", text.replace("$", "_"), flags=re.A).strip("_")
    if not plain or plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain.lower() in keywords() else plain


@cache
def keywords() -> frozenset[str]:
    """Return the keywords of Verilog, SystemVerilog, VHDL and Python, in lower case."""
    text = resources.files(__package__).joinpath("keywords.txt").read_text("utf-8")
    return frozenset(text.lower().split())
