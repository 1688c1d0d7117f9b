"""Changes to yosys netlists before placement, for Gowin, ECP5 and Nexus."""

import re
from collections.abc import Iterator
from typing import Any

_REGISTER = re.compile(r"DFFN?[SRPC]?E?")
_TABLE = re.compile(r"LUT[1-3]")
# Cells that may drive a register directly.
_BEFORE_REGISTERS = re.compile(r"LUT4|MUX2_LUT\d|ALU")
_INPUTS = ("I0", "I1", "I2", "I3")


def make_timeable(netlist: dict[str, Any]) -> None:
    """Change the modules of a Gowin netlist so that nextpnr times all paths."""
    # nextpnr has delays only for 4-input LUTs. It omits every path through a smaller LUT, or
    # through a LUT that it inserts in front of a register. So add unused inputs to LUTs, and insert
    # 4-input LUTs in front of registers that lack one.
    for module in netlist.values():
        cells = module["cells"]
        for cell in cells.values():
            if _TABLE.fullmatch(cell["type"]):
                init = cell["parameters"]["INIT"]
                cell["type"] = "LUT4"
                cell["parameters"]["INIT"] = init * (16 // len(init))
                for port in _INPUTS:
                    cell["port_directions"][port] = "input"
                    cell["connections"].setdefault(port, ["0"])
        # Done before LUTs are added, because the loop must visit only the original cells.
        cells |= dict(_tables_before_registers(cells))


def _tables_before_registers(cells: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    bits = (bit for cell in cells.values() for port in cell["connections"].values() for bit in port)
    free = 1 + max((bit for bit in bits if isinstance(bit, int)), default=0)
    ready = {
        bit
        for cell in cells.values()
        if _BEFORE_REGISTERS.fullmatch(cell["type"])
        for port, direction in cell["port_directions"].items()
        if direction == "output"
        for bit in cell["connections"][port]
    }
    for name, cell in cells.items():
        if not _REGISTER.fullmatch(cell["type"]) or cell["connections"]["D"][0] in ready:
            continue
        inputs = {port: ["0"] for port in _INPUTS[:3]} | {"I3": cell["connections"]["D"]}
        cell["connections"]["D"] = [free]
        yield (
            f"{name}_table",
            {
                "hide_name": 0,
                "type": "LUT4",
                "parameters": {"INIT": "1" * 8 + "0" * 8},
                "attributes": {},
                "port_directions": dict.fromkeys(_INPUTS, "input") | {"F": "output"},
                "connections": inputs | {"F": [free]},
            },
        )
        free += 1


def use_normal_mode(netlist: dict[str, Any]) -> bool:
    """Set ECP5 block RAM ports that only read or only write to NORMAL mode.

    Returns whether any mode has changed.
    """
    # NORMAL mode permits the highest clock. The modes differ only in what a port reads while it
    # writes, but yosys selects READBEFOREWRITE for all ports of inferred memories.
    changed = False
    for module in netlist.values():
        cells = module["cells"].values()
        read = {
            bit
            for cell in cells
            for port, bits in cell["connections"].items()
            if cell["port_directions"][port] != "output"
            for bit in bits
        }
        read |= {bit for port in module["ports"].values() for bit in port["bits"]}
        for cell in cells:
            for port in "AB" if cell["type"] == "DP16KD" else "":
                mode = f"WRITEMODE_{port}"
                if cell["parameters"].get(mode, "NORMAL") == "NORMAL":
                    continue
                connections = cell["connections"]
                writes = connections.get(f"WE{port}", ["0"]) != ["0"]
                outputs = (connections.get(f"DO{port}{index}", []) for index in range(18))
                if not (writes and any(bit in read for bits in outputs for bit in bits)):
                    cell["parameters"][mode] = "NORMAL"
                    changed = True
    return changed


def free_carry_inputs(netlist: dict[str, Any]) -> bool:
    """Disconnect constant carry inputs of Nexus carry cells; return whether there were any."""
    # The first cell of a chain ignores its carry input, which may be wired to another chain. ABC9
    # connects the absent input to a constant, and nextpnr then rejects the chain. Only first cells
    # have this INIT1.
    changed = False
    for module in netlist.values():
        cells = module["cells"].values()
        zeros = {bit for cell in cells if cell["type"] == "VLO" for bit in cell["connections"]["Z"]}
        for cell in cells:
            if cell["type"] != "CCU2" or cell["parameters"]["INIT1"] != "0x00AA":
                continue
            carry = cell["connections"]["CIN"]
            if carry and carry[0] in {"0", *zeros}:
                carry.clear()
                changed = True
    return changed
