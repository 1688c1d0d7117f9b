"""Elements of a unit that upsets can hit: flip-flops and memories in its Verilog, by name."""

import json
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from ...hdl.registers import REGISTERS

UPSETS = Path(__file__).with_name("upsets.hpp")
"""Source that drivers include in a model with upsets."""

KINDS = ("memory", "buffer", "register", "counter")
"""Kinds of elements: memories of keys, other memories, flip-flops, and event counters."""

_COUNTERS = {register.name for register in REGISTERS if register.event}
"""Submodules that count events and do not affect the filter."""

_MODULE = re.compile(r"^module \\?(\S+) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"^ +(\\\S+|[^\s\\\[]+)[^=;(]* <= ", re.MULTILINE)
_DECLARED = re.compile(
    r"^(  reg (?:\[(?P<high>\d+):0\] )?(?P<name>\\\S+ |[^\s;\[]+)(?: \[(?P<last>\d+):0\])?)"
    r"(?= =|;)",
    re.MULTILINE,
)
_OPEN = " /*verilator public_flat_rw*/"


@dataclass(frozen=True)
class Element:
    path: tuple[str, ...]  # submodules from the unit to the element, and its own name
    words: int  # 1 for a register
    width: int  # bits of a word
    array: bool  # whether the element is a memory

    @property
    def name(self) -> str:
        """Path of the element below the unit."""
        return ".".join(self.path[1:])

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        # A deduplicator of frames has its filter as a part.
        below = self.path[2:] if self.path[1] == "unit" else self.path[1:]
        held = below[0].partition("$")[0]
        if (held in _COUNTERS and len(below) > 1) or below == ("alarms",):
            return "counter"
        if not self.array:
            return "register"
        # The store of frames is a part of the top, and the store of keys is a part of the core.
        return "memory" if "memory" in self.path or "store" in self.path[2:] else "buffer"

    @property
    def bits(self) -> int:
        return self.words * self.width

    @property
    def member(self) -> str:
        """Name of the member in the compiled model."""
        return "__DOT__".join(re.sub(r"__|[^A-Za-z0-9_]", _escaped, part) for part in self.path)


def _escaped(match: re.Match[str]) -> str:
    """Return Verilator's replacement of a character that C++ names cannot contain."""
    return "___05F" if match[0] == "__" else f"__0{ord(match[0]):02X}"


def elements(verilog: str) -> list[Element]:
    """Return the registers and memories of a unit in Verilog from Amaranth, as declared."""
    return [element for module in _MODULE.finditer(verilog) for element, _ in _elements_of(module)]


def element_macros(verilog: str) -> list[str]:
    """Return the macros that define the elements of a unit for the driver."""
    members = elements(verilog)
    listed = " ".join(f"ELEMENT({number}, {each.member})" for number, each in enumerate(members))
    kept = " ".join(f"STATE({each.member})" for each in members if each.kind != "counter")
    names = json.dumps([astuple(element) for element in members])
    return [f"ELEMENTS {listed}", f"STATES {kept}", f"ELEMENT_NAMES {json.dumps(names)}"]


def named_elements(names: str) -> list[Element]:
    """Return the elements that a compiled model lists in its macro ``ELEMENT_NAMES``."""
    return [Element(tuple(path), *sizes) for path, *sizes in json.loads(names)]


def opened(verilog: str) -> str:
    """Return the Verilog of a unit whose compiled model has all elements as members."""

    def open_module(module: re.Match[str]) -> str:
        text = module[0]
        for _, end in reversed(list(_elements_of(module))):
            text = text[:end] + _OPEN + text[end:]
        return text

    return _MODULE.sub(open_module, verilog)


def _elements_of(module: re.Match[str]) -> Iterator[tuple[Element, int]]:
    """Yield the elements of a module, and the ends of their declarations in its text."""
    assigned = {name.removeprefix("\\") for name in _ASSIGNED.findall(module[0])}
    for match in _DECLARED.finditer(module[0]):
        name = match["name"].strip().removeprefix("\\")
        if name in assigned:
            words, width = (int(match[end] or 0) + 1 for end in ("last", "high"))
            path = (*module[1].split("."), name)
            yield Element(path, words, width, match["last"] is not None), match.end()
