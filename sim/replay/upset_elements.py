"""Elements of a unit that upsets can hit: the registers and memories in its Verilog."""

import json
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from ...hdl.registers import REGISTERS

UPSETS = Path(__file__).with_name("upsets.hpp")  # C++ source for models with upsets

# Kinds of elements: memories for keys, other memories, registers, and event counters.
KINDS = ("memory", "buffer", "register", "counter")

# Submodules that only count events.
_COUNTERS = {register.name for register in REGISTERS if register.event}

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
    path: tuple[str, ...]  # the unit, its submodules down to the element, and the element's name
    words: int  # number of words; 1 for a register
    width: int  # bits per word
    array: bool  # whether the element is a memory

    @property
    def name(self) -> str:
        return ".".join(self.path[1:])

    @property
    def kind(self) -> str:
        # The filter of a frame deduplicator is a submodule.
        below = self.path[2:] if self.path[1] == "unit" else self.path[1:]
        held = below[0].partition("$")[0]
        if (held in _COUNTERS and len(below) > 1) or below == ("alarms",):
            return "counter"
        if not self.array:
            return "register"
        # The frame store is a submodule of the top; the key store is in the core.
        return "memory" if "memory" in self.path or "store" in self.path[2:] else "buffer"

    @property
    def bits(self) -> int:
        return self.words * self.width

    @property
    def member(self) -> str:
        return "__DOT__".join(re.sub(r"__|[^A-Za-z0-9_]", _escaped, part) for part in self.path)


def _escaped(match: re.Match[str]) -> str:
    return "___05F" if match[0] == "__" else f"__0{ord(match[0]):02X}"


def elements(verilog: str) -> list[Element]:
    """Return the registers and memories in Verilog from Amaranth, in the order of declaration."""
    return [element for module in _MODULE.finditer(verilog) for element, _ in _elements_of(module)]


def element_macros(verilog: str) -> list[str]:
    members = elements(verilog)
    listed = " ".join(f"ELEMENT({number}, {each.member})" for number, each in enumerate(members))
    kept = " ".join(f"STATE({each.member})" for each in members if each.kind != "counter")
    names = json.dumps([astuple(element) for element in members])
    return [f"ELEMENTS {listed}", f"STATES {kept}", f"ELEMENT_NAMES {json.dumps(names)}"]


def named_elements(names: str) -> list[Element]:
    return [Element(tuple(path), *sizes) for path, *sizes in json.loads(names)]


def opened(verilog: str) -> str:
    def open_module(module: re.Match[str]) -> str:
        text = module[0]
        for _, end in reversed(list(_elements_of(module))):
            text = text[:end] + _OPEN + text[end:]
        return text

    return _MODULE.sub(open_module, verilog)


def _elements_of(module: re.Match[str]) -> Iterator[tuple[Element, int]]:
    assigned = {name.removeprefix("\\") for name in _ASSIGNED.findall(module[0])}
    for match in _DECLARED.finditer(module[0]):
        name = match["name"].strip().removeprefix("\\")
        if name in assigned:
            words, width = (int(match[end] or 0) + 1 for end in ("last", "high"))
            path = (*module[1].split("."), name)
            yield Element(path, words, width, match["last"] is not None), match.end()
