"""Change ECP5 block RAM modes without affecting the function."""

from typing import Any


def use_normal_mode(netlist: dict[str, Any]) -> bool:
    """Set ports that only read or only write to NORMAL mode; return whether any port changed.

    NORMAL mode permits the highest clock. `netlist` maps names to modules of yosys's JSON.

    The modes differ only in what a port reads while it writes. yosys selects READBEFOREWRITE for
    all ports of inferred memories, even if a port only reads or only writes.
    """
    changed = False
    for module in netlist.values():
        cells = module["cells"].values()
        read = {bit for cell in cells for bit in _inputs(cell)}
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


def _inputs(cell: dict[str, Any]) -> list[Any]:
    return [
        bit
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] != "output"
        for bit in bits
    ]
