"""Maximum clocks that vendors permit for a device, independent of static timing.

nextpnr only adds up the delays along paths. It checks neither minimum pulse widths nor clock trees
nor PLLs.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import inf
from typing import Any, NamedTuple

from ...golden.errors import LatelyError
from ...hdl.latencies import BLOCK_MODES
from ...hdl.target_clocks import device_class

# Prefix of the names of block RAM limits; the write mode follows it.
PORT = "block RAM port, "

# Write modes of block RAMs; Gowin numbers them in this order.
WRITE_MODES = ("NORMAL", "WRITETHROUGH", "READBEFOREWRITE")


class LimitError(LatelyError, ValueError):
    """The clock is above a vendor's limit."""


@dataclass(frozen=True)
class Limit:
    name: str
    mhz: float
    source: str

    def check(self, clock_mhz: float, device: str) -> None:
        if clock_mhz > self.mhz:
            raise LimitError(
                f"clock: must be at most {self.mhz:g} MHz on {device} "
                f"({self.name}: {self.source}), not {clock_mhz:g} MHz"
            )


# Limit of a device for which no vendor limits are recorded.
UNKNOWN = Limit("none known", inf, "")


class PortLimit(NamedTuple):
    """Write mode and width of a block RAM port; a width of 0 means any width."""

    mode: str
    width: int = 0


@cache
def limits_table() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath("limits.toml").read_text("utf-8")
    return tomllib.loads(text)


def limits(device: str) -> tuple[Limit, ...]:
    table = limits_table().get(device_class(device), {})
    return tuple(Limit(part, entry["mhz"], entry["source"]) for part, entry in table.items())


def lowest_limit(device: str, ports: Iterable[PortLimit]) -> Limit:
    """Return the lowest clock limit of a device on which these block RAM ports are used."""
    named = {limit.name: limit for limit in limits(device)}
    blocks = [limit for name, limit in named.items() if name.startswith(PORT)]
    binding = [limit for name, limit in named.items() if not name.startswith(PORT)]
    for port in ports:
        # A mode that the vendor does not document is assumed to be as slow as the slowest mode.
        slowest = min(blocks, key=lambda limit: limit.mhz, default=UNKNOWN)
        binding.append(named.get(PORT + port.mode, slowest))
    return min(binding, key=lambda limit: limit.mhz, default=UNKNOWN)


def unit_limit(device: str) -> Limit:
    mode = BLOCK_MODES.get(device.partition("-")[0])
    return lowest_limit(device, [PortLimit(mode)] if mode else [])


def undocumented(device: str, ports: Iterable[PortLimit]) -> str:
    """Return a description of the ports whose widths are not documented, or "" if all are."""
    table = limits_table().get(device.partition("-")[0], {}).get("widths", {})
    return "; ".join(
        f"{port.mode} is documented for widths of {', '.join(map(str, table[port.mode]['bits']))} "
        f"({table[port.mode]['source']}), but used with {port.width}"
        for port in sorted(set(ports))
        if port.mode in table and port.width not in (0, *table[port.mode]["bits"])
    )


def block_ports(netlist: Mapping[str, Any]) -> frozenset[PortLimit]:
    return frozenset(
        port
        for module in netlist.values()
        for cell in module["cells"].values()
        for port in _ports(cell["type"], cell.get("parameters", {}))
    )


def _ports(kind: str, parameters: Mapping[str, str]) -> list[PortLimit]:
    if kind in ("DP16KD", "DP8KC"):
        modes = (parameters.get(f"WRITEMODE_{port}", "NORMAL") for port in "AB")
        widths = (_number(parameters, f"DATA_WIDTH_{port}") for port in "AB")
        return [*map(PortLimit, modes, widths)]
    if kind.startswith("SB_RAM40") or kind == "PDPW16KD":
        return [PortLimit("NORMAL")]
    if kind.replace("X9", "") in ("DPB", "SP", "SDPB", "pROM"):
        numbers = [_number(parameters, name) for name in parameters if "WRITE_MODE" in name]
        return [PortLimit(WRITE_MODES[number]) for number in numbers] or [PortLimit("NORMAL")]
    return []


def _number(parameters: Mapping[str, str], name: str) -> int:
    # yosys writes numbers as strings of binary digits.
    return int(parameters.get(name, "0"), 2)
