"""Netlists of components on an ECP5, for tests of what synthesis makes of them."""

import json
import re
import subprocess
from collections import defaultdict
from dataclasses import replace

from amaranth.back import rtlil

from lately.boards.flow.devices import device
from lately.boards.flow.timing_harness import TimingHarness
from lately.boards.flow.tools import Flow, executable

DEVICE = replace(device("ecp5-85k-8"), place_and_route=())

# Cells between registers: a level is a LUT, a memory of LUTs or a carry cell.
LEVELS = {"LUT4", "TRELLIS_DPR16X4", "CCU2C"}
_WRITES = {"WCK", "WRE", "DI", "WAD"}


def mapped(component, folder):
    """Return the netlists that the flow makes of a component, by the path of a module."""
    harness = TimingHarness(component, reset=False)
    text = rtlil.convert(harness, name="top", ports=harness.ports, emit_src=False)
    modules = Flow(folder, DEVICE).synthesise(text)
    return {
        name.removeprefix("top."): Netlist(module)
        for name, module in modules.items()
        if name.startswith("top.unit")
    }


def unmapped(component, folder):
    """Return the netlist of a component before LUTs are mapped."""
    (folder / "top.il").write_text(rtlil.convert(component, name="top", emit_src=False))
    synthesis = " ".join((*DEVICE.synthesis, "-top top -flatten -run begin:map_luts"))
    script = f"read_rtlil top.il; {synthesis}; select top; write_json -selected net.json"
    tool = [executable("yosys"), "-q", "-p", script]
    subprocess.run(tool, cwd=folder, check=True, capture_output=True, timeout=600)
    return Netlist(json.loads((folder / "net.json").read_text())["modules"]["top"])


class Netlist:
    """Cells of a module, and the drivers of its nets."""

    def __init__(self, module):
        self.cells = module["cells"]
        self.names = defaultdict(set)
        for name, net in module["netnames"].items():
            for bit in net["bits"]:
                self.names[bit].add(name)
        self.drivers = {
            bit: cell
            for cell in self.cells.values()
            for pin, bits in cell["connections"].items()
            if cell["port_directions"][pin] == "output"
            for bit in bits
        }
        self._levels = {}

    def registers(self, pattern):
        """Yield the registers one of whose names matches a pattern."""
        for cell in self.cells.values():
            if cell["type"] == "TRELLIS_FF":
                names = self.names[cell["connections"]["Q"][0]]
                if any(re.fullmatch(pattern, name) for name in names):
                    yield cell

    def readers(self, bits):
        """Return each cell and pin that reads one of the bits."""
        return [
            (cell, pin)
            for cell in self.cells.values()
            for pin, connected in cell["connections"].items()
            if cell["port_directions"][pin] == "input"
            for bit in connected
            if bit in bits
        ]

    def cone(self, bit):
        """Yield the cells between registers and a bit."""
        seen, waiting = set(), [bit]
        while waiting:
            cell = self.drivers.get(waiting.pop())
            if cell is None or id(cell) in seen or cell["type"] not in LEVELS:
                continue
            seen.add(id(cell))
            yield cell
            waiting += _inputs(cell)

    def levels(self, bit):
        """Return the levels of logic between registers and a bit."""
        if bit not in self._levels:
            cell = self.drivers.get(bit)
            is_logic = cell is not None and cell["type"] in LEVELS
            before = map(self.levels, _inputs(cell)) if is_logic else ()
            self._levels[bit] = is_logic + max(before, default=0)
        return self._levels[bit]

    def deepest(self, pattern, pins=("DI", "CE", "LSR")):
        """Return the maximum levels before registers whose names match a pattern."""
        depths = [
            self.levels(bit)
            for cell in self.registers(pattern)
            for pin in pins
            for bit in cell["connections"].get(pin, [])
        ]
        assert depths, f"no register matches {pattern}"
        return max(depths)


def _inputs(cell):
    """Return the bits from which a path through a cell may come."""
    return [
        bit
        for pin, bits in cell["connections"].items()
        if cell["port_directions"][pin] == "input" and pin not in _WRITES
        for bit in bits
        if isinstance(bit, int)
    ]
