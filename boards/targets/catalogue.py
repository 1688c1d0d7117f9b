"""Boards for which bitstreams can be built."""

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, cast

from ...golden.errors import LatelyError, unknown_name
from ...golden.spec import APBBFSpec, FilterSpec
from ...golden.spec.base import Specification
from ...golden.spec.presets import preset
from ..flow.devices import DEVICES, Device

# Files with pin and clock constraints by family, as the platforms of amaranth-boards name them.
PINS_FILE: Mapping[str, str] = {"ecp5": "top.lpf", "ice40": "top.pcf", "gowin": "top.cst"}

# Suffixes of bitstreams by family.
SUFFIX: Mapping[str, str] = {"ecp5": ".bit", "ice40": ".bin", "gowin": ".fs"}


class UnknownBoardError(LatelyError, ValueError):
    """There is no board with this name."""


@dataclass(frozen=True, kw_only=True)
class Board:
    # Name on the command line, and readable description.
    name: str
    description: str
    # Module and class in amaranth-boards, joined by a dot; a leading dot refers to this package.
    platform: str
    device: Device  # device, with the package and pin file of the board
    pll: str  # class name in `lately.boards.flow.pll`
    clock_mhz: float  # clock of the unit
    spec: Specification
    loader: str  # name of the board in openFPGALoader
    link: str  # description of the serial connector
    # LEDs as resources of amaranth-boards: a name, such as "led" or "rgb_led.r", and a number.
    alive: str | None = None
    hit: str | None = None
    fault: str | None = None
    # Two PHYs in the same form: frames from the first leave through the second, without duplicates.
    # Empty for a board with only a serial link.
    rgmii: tuple[str, ...] = ()
    period: int | None = None  # clock cycles per tick, for a filter between two PHYs
    seeds: tuple[int, ...] = (1,)  # placement seeds to try until timing is met
    baud: int = 1_000_000
    reset: str | None = None  # reset button, in the same form
    high: str | None = None  # output, in the same form, that must be high to keep the board on
    pack: tuple[str, ...] = ()  # options for the packer

    @property
    def family(self) -> str:
        return self.device.family

    @property
    def lights(self) -> dict[str, str]:
        every = {"alive": self.alive, "hit": self.hit, "fault": self.fault}
        return {name: pin for name, pin in every.items() if pin is not None}

    @property
    def bitstream(self) -> str:
        return f"{self.name}{SUFFIX[self.family]}"

    def make_platform(self) -> Any:
        # This module does not import Amaranth.
        from .platforms import add_resources

        path, _, name = self.platform.rpartition(".")
        package = "amaranth_boards" if not path.startswith(".") else __package__
        module = importlib.import_module(f".{path.removeprefix('.')}", package)
        platform = getattr(module, name)()
        add_resources(platform, self.name)
        return platform


def _with_pins(name: str, package: str | None = None) -> Device:
    """Return a device with nextpnr options that name the pin file of the board."""
    device = DEVICES[name]
    pins = PINS_FILE[device.family]
    changed = {
        "--lpf-allow-unconstrained": ("--lpf", pins),
        "--pcf-allow-unconstrained": ("--pcf", pins),
        "cst=pins.cst": (f"cst={pins}",),
        "CABGA381": (package or "CABGA381",),
    }
    options = (part for option in device.place_and_route for part in changed.get(option, (option,)))
    # The platform also inserts the pin buffers.
    return replace(device, place_and_route=tuple(options), pins=(), pads="")


def _board(name: str, *, device: str, spec: dict[str, Any], **fields: Any) -> Board:
    # The filter is given by all its fields, or by a preset and changes to some fields.
    if "preset" in spec:
        chosen = cast(APBBFSpec, preset(spec["preset"]))
        chosen = chosen.with_generations(spec.get("generations", chosen.l))
        chosen = replace(chosen, key_bits=spec.get("key_bits", chosen.key_bits))
    fields = {
        field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()
    }
    chosen_spec = chosen if "preset" in spec else FilterSpec.from_dict(spec)
    return Board(name=name, device=_with_pins(*device.split()), spec=chosen_spec, **fields)


_TABLES = tomllib.loads(resources.files(__package__).joinpath("boards.toml").read_text("utf-8"))
BOARDS: Mapping[str, Board] = {
    # A table may inherit fields from a similar board.
    name: _board(name, **(_TABLES.get(fields.pop("like", ""), {}) | fields))
    for name, fields in _TABLES.items()
}


def board(name: str) -> Board:
    if name not in BOARDS:
        raise UnknownBoardError(unknown_name("board", name, BOARDS))
    return BOARDS[name]
