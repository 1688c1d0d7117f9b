"""Devices that units are placed and routed for."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...golden.errors import LatelyError
from ...golden.spec.base import Specification
from ...hdl.family import family_of
from ...hdl.memory.map import STRICT


class UnknownDeviceError(LatelyError, ValueError):
    """A name is not that of a device."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device, in the terms of yosys and nextpnr.

    Attributes
    ----------
    name, description : str
        For the command line, and for people.
    family : str
        "ecp5", "ice40" or "gowin".
    synthesis : tuple of str
        yosys pass and its options.
    mapping : str
        Script of ABC, which makes look-up tables of the logic.
    place_and_route : tuple of str
        nextpnr program and its options.
    lut, ff : int
        4-input tables and flip-flops. On iCE40 they share logic cells.
    bram, bram_bits : int
        Block RAMs, and data bits of one.
    delay_ps : int or None
        Picoseconds of a path without its routing that ABC maps for; by default those of the
        longest path.
    pads : str
        yosys command that gives the top level its pads, if nextpnr does not.
    pins : tuple of int
        Pins for the ports of the top level, the clock first, if nextpnr does
        not choose them.
    caveat : str
        What is to be said wherever the timing is, or nothing.
    """

    name: str
    description: str
    family: str
    synthesis: tuple[str, ...]
    mapping: str
    place_and_route: tuple[str, ...]
    lut: int
    ff: int
    bram: int
    bram_bits: int
    delay_ps: int | None = None
    pads: str = ""
    pins: tuple[int, ...] = ()
    caveat: str = ""


_TABLES = tomllib.loads(Path(__file__).with_name("devices.toml").read_text("utf-8"))


def _device(name: str, *, family: str, **fields: Any) -> Device:
    """Return the device that a table of `devices.toml` describes."""
    shared = {"mapping": _TABLES["mapping"]} | _TABLES["families"][family]
    pins = [pin for start, end in shared.pop("pins", ()) for pin in range(start, end)]
    if pins:
        pins.insert(0, fields["clock"])
    for field, value in shared.items():
        if isinstance(value, list):
            shared[field] = tuple(word.format(**fields) for word in value)
        elif isinstance(value, str) and field != "mapping":
            shared[field] = value.format(**fields)
    own = {field: fields[field] for field in ("lut", "ff", "bram", "mapping") if field in fields}
    return Device(name=name, family=family, pins=tuple(pins), **shared | own)


DEVICES: Mapping[str, Device] = {
    name: _device(name, **fields) for name, fields in _TABLES["devices"].items()
}
"""Devices by name."""

FORMER_NAMES = {"gowin-gw1n-9": "gowin-gw1nr-9c", "gowin-gw2a-18": "gowin-gw2ar-18c"}
"""Earlier names of devices, which are still understood, and their names now."""


def device(name: str) -> Device:
    """Return the device of that name.

    Raises
    ------
    UnknownDeviceError
        If there is none.
    """
    name = FORMER_NAMES.get(name, name)
    if name not in DEVICES:
        raise UnknownDeviceError(f"device: must be one of {', '.join(DEVICES)}, not {name!r}")
    return DEVICES[name]


def own_memory(device: Device, spec: Specification, *, strict: bool = False) -> str:
    """Return the variant of a unit's memories for the block RAMs of a device.

    It is "portable" if the kind of the unit has no variant for the device's family.

    Parameters
    ----------
    device : Device
    spec : Specification
    strict : bool
        Whether the unit uses no bit of a word while another port writes a bit of that word.

    Errors: as `family_of`.
    """
    own = device.family + STRICT * strict
    return own if strict or own in family_of(spec).profile.MEMORIES else "portable"
