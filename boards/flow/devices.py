"""FPGAs for which units are synthesised."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...golden.errors import LatelyError, unknown_name
from ...golden.spec.base import Specification
from ...hdl.build import family_of
from ...hdl.latencies import DEFAULT_LEVELS
from ...hdl.memory.map import STRICT
from ...hdl.target_clocks import levels, limit_mhz, target_mhz


class UnknownDeviceError(LatelyError, ValueError):
    """No device has this name."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """An FPGA, with its resources and its options for yosys and nextpnr."""

    # Name on the command line, and readable description.
    name: str
    description: str
    family: str  # name of the family's table in `devices.toml`
    synthesis: tuple[str, ...]  # yosys synthesis command and its options
    mapping: str  # ABC script that maps logic to LUTs
    # Numbers of resources. On iCE40, LUTs and flip-flops share logic cells.
    lut: int
    ff: int
    bram: int
    usram: int = 0  # only on PolarFire
    bram_bits: int  # bits per block RAM without ninth bits
    lut_address_bits: int = 5  # address bits of a LUT memory
    # For "lut", "ff", "bram" and "usram": regular expressions for yosys cells, with the number of
    # resources that each such cell uses.
    cells: Mapping[str, Mapping[str, int]]
    # nextpnr program and its options. If empty, units are counted but not placed.
    place_and_route: tuple[str, ...] = ()
    source: str = ""  # source of the totals
    before: tuple[str, ...] = ()  # yosys commands before synthesis
    # Target delay for ABC in ps, for a path without routing; by default that of the longest path.
    delay_ps: int | None = None
    pads: str = ""  # yosys command that adds pads to the top level, if nextpnr does not
    # Pins for the top-level ports, clock first, if nextpnr does not choose them.
    pins: tuple[str, ...] = ()
    caveat: str = ""  # remark to add to every timing figure, or empty

    @property
    def placed(self) -> bool:
        return bool(self.place_and_route)

    @property
    def figures(self) -> str:
        return "placed" if self.placed else COUNTED

    @property
    def levels(self) -> int:
        return self.levels_at(None)

    def levels_at(self, mhz: float | None) -> int:
        """Return the maximum number of LUT levels at `mhz`, by default at the target clock."""
        return levels(self.name, mhz or target_mhz(self.name)) if self.placed else DEFAULT_LEVELS

    @property
    def limit_mhz(self) -> float | None:
        """Vendor's maximum clock in MHz; None if nextpnr does not support the device."""
        return limit_mhz(self.name) if self.placed else None

    def count(self, kind: str, cell: str) -> int:
        return next((n for name, n in self.cells[kind].items() if re.fullmatch(name, cell)), 0)


COUNTED = "counted, not placed"

TABLES = tomllib.loads(Path(__file__).with_name("devices.toml").read_text("utf-8"))


def _device(name: str, *, family: str, **fields: Any) -> Device:
    shared = {"mapping": TABLES["mapping"]} | TABLES["families"][family]
    shared.setdefault("bram_bits", shared.pop("memory", {}).get("bits"))
    pins = [str(pin) for start, end in shared.pop("pins", ()) for pin in range(start, end)]
    if "clock" in fields:
        pins.insert(0, str(fields["clock"]))
    pins += fields.get("pins", ())
    for field, value in shared.items():
        if isinstance(value, list):
            shared[field] = tuple(word.format(**fields) for word in value)
        elif isinstance(value, str) and field != "mapping":
            shared[field] = value.format(**fields)
    names = ("lut", "ff", "bram", "usram", "mapping", "place_and_route", "source", "description")
    changed = {field: fields[field] for field in names if field in fields}
    return Device(name=name, family=family, pins=tuple(pins), **shared | changed)


DEVICES: Mapping[str, Device] = {
    name: _device(name, **fields) for name, fields in TABLES["devices"].items()
}


def device(name: str) -> Device:
    if name not in DEVICES:
        raise UnknownDeviceError(unknown_name("device", name, DEVICES))
    return DEVICES[name]


def device_memory(device: Device, spec: Specification, *, strict: bool = False) -> str:
    """Return the memory variant for a unit on a device, or 'portable' if there is no variant."""
    variant = device.family + STRICT * strict
    return variant if strict or variant in family_of(spec).profile.MEMORIES else "portable"
