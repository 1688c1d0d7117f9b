"""Boards that bitstreams are built for."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ...golden.errors import LatelyError
from ...golden.spec import APBBFSpec, FilterSpec, preset
from ..flow.devices import DEVICES, Device

PINS_FILE: Mapping[str, str] = {"ecp5": "top.lpf", "ice40": "top.pcf", "gowin": "top.cst"}
"""Files of pins and clocks by family, as the platforms of amaranth-boards name them."""

SUFFIX: Mapping[str, str] = {"ecp5": ".bit", "ice40": ".bin", "gowin": ".fs"}
"""Of bitstreams, by family."""


class UnknownBoardError(LatelyError, ValueError):
    """A name is not that of a board."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board, and what is built for it if nothing else is asked.

    Attributes
    ----------
    name, description : str
        For the command line, and for people.
    platform : str
        Module and class of amaranth-boards, with a dot between.
    resources : callable or None
        Takes the platform and returns what it lacks.
    device : Device
        With the package and the file of pins of the board.
    pll : str
        Name of the class of `lately.boards.flow.pll`.
    clock_mhz : float
        Clock of the unit.
    baud : int
        Rate of the serial port.
    spec : FilterSpec
        Filter.
    alive, hit, fault : str
        Lights, in the terms of amaranth-boards: the name of the resource, after a dot that of
        its part, if it has several, and the number.
    reset : str or None
        Button, likewise.
    high : str or None
        Output, likewise, that must be high for the board to go on.
    loader : str
        Name that openFPGALoader has for the board.
    link : str
        Where the serial port comes out, for people.
    pack : tuple of str
        Options of the program that makes the bitstream.
    """

    name: str
    description: str
    platform: str
    device: Device
    pll: str
    clock_mhz: float
    baud: int
    spec: FilterSpec
    alive: str
    hit: str
    fault: str
    reset: str | None
    loader: str
    link: str
    resources: Callable[[Any], list[Any]] | None = None
    high: str | None = None
    pack: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """Family of the device."""
        return self.device.family

    @property
    def lights(self) -> tuple[str, str, str]:
        """Pins of alive, hit and fault."""
        return self.alive, self.hit, self.fault

    @property
    def bitstream(self) -> str:
        """Name of the file."""
        return f"{self.name}{SUFFIX[self.family]}"

    def make_platform(self) -> Any:
        """Return a new platform of amaranth-boards with all resources."""
        module, _, name = self.platform.rpartition(".")
        platform = getattr(importlib.import_module(f"amaranth_boards.{module}"), name)()
        if self.resources is not None:
            platform.add_resources(self.resources(platform))
        return platform


def _with_pins(name: str, package: str | None = None) -> Device:
    """Return a device as nextpnr takes it for a board: the platform has the pins."""
    device = DEVICES[name]
    pins = PINS_FILE[device.family]
    changed = {
        "--lpf-allow-unconstrained": ("--lpf", pins),
        "--pcf-allow-unconstrained": ("--pcf", pins),
        "cst=pins.cst": (f"cst={pins}",),
        "CABGA381": (package or "CABGA381",),
    }
    options = (part for option in device.place_and_route for part in changed.get(option, (option,)))
    # The buffers of the pins are the platform's, too.
    return replace(device, place_and_route=tuple(options), pins=(), pads="")


def _shorter(name: str, *, generations: int, key_bits: int = 64) -> FilterSpec:
    """Return a preset with a window of fewer generations, which takes fewer block RAMs."""
    spec = cast(APBBFSpec, preset(name))
    return replace(spec.with_generations(generations), key_bits=key_bits)


def _orangecrab(platform: Any) -> list[Any]:
    from amaranth.build import Attrs
    from amaranth_boards.resources import UARTResource

    # The board has no chip for a serial port: pins 0 and 1 of its edge.
    return [
        UARTResource(
            0, rx="0", tx="1", conn=("io", 0), attrs=Attrs(IO_TYPE="LVCMOS33", PULLMODE="UP")
        )
    ]


def _tang_nano_9k(platform: Any) -> list[Any]:
    from amaranth.build import Attrs, PinsN, Resource

    # As amaranth-boards has it, but held up while nobody presses it.
    attributes = Attrs(IO_TYPE="LVCMOS33", PULL_MODE="UP")
    return [Resource("reset_button", 0, PinsN("4", dir="i"), attributes)]


BOARDS: Mapping[str, Board] = {
    board.name: board
    for board in (
        Board(
            name="ulx3s-85f",
            description="Radiona ULX3S with LFE5U-85F",
            platform="ulx3s.ULX3S_85F_Platform",
            device=_with_pins("ecp5-85k-6"),
            pll="ECP5PLL",
            clock_mhz=100,
            baud=1_000_000,
            spec=preset("default"),
            alive="led 0",
            hit="led 1",
            fault="led 7",
            reset="button_fire 0",
            # Low, it starts the ESP32, which may reconfigure the FPGA.
            high="esp32.gpio0 0",
            loader="ulx3s",
            link="US1, the USB connector of the FTDI chip",
            pack=("--compress",),
        ),
        Board(
            name="orangecrab-25f",
            description="OrangeCrab r0.2 with LFE5U-25F",
            platform="orangecrab_r0_2.OrangeCrabR0_2_25FPlatform",
            resources=_orangecrab,
            device=_with_pins("ecp5-25k-8", "CSFBGA285"),
            pll="ECP5PLL",
            clock_mhz=144,
            baud=1_000_000,
            spec=preset("default"),
            alive="rgb_led.g 0",
            hit="rgb_led.b 0",
            fault="rgb_led.r 0",
            reset="button 0",
            loader="orangeCrab",
            link="pins 0 (to the board) and 1 (from it) of the edge, 3.3 V: needs an adapter",
            # The bootloader reads the flash no faster.
            pack=("--compress", "--freq", "38.8"),
        ),
        Board(
            name="icebreaker",
            description="1BitSquared iCEBreaker with iCE40UP5K",
            platform="icebreaker.ICEBreakerPlatform",
            resources=lambda platform: platform.break_off_pmod,
            device=_with_pins("ice40-up5k"),
            pll="ICE40PadPLL",
            clock_mhz=24,
            baud=1_000_000,
            # With keys of 64 bits 99 % of the logic cells are taken.
            spec=_shorter("small", generations=2, key_bits=32),
            alive="led_g 0",
            hit="led_g 1",
            fault="led_r 0",
            reset="button 0",
            loader="ice40_generic",
            link="the USB connector, second channel of the FTDI chip",
        ),
        Board(
            name="ice40-hx8k-b-evn",
            description="Lattice iCE40-HX8K breakout board",
            platform="ice40_hx8k_b_evn.ICE40HX8KBEVNPlatform",
            device=_with_pins("ice40-hx8k"),
            pll="ICE40PLL",
            clock_mhz=72,
            baud=1_000_000,
            spec=_shorter("small", generations=3),
            alive="led 0",
            hit="led 1",
            fault="led 7",
            reset=None,
            loader="ice40_generic",
            link="the USB connector, second channel of the FTDI chip",
        ),
        Board(
            name="tang-nano-9k",
            description="Sipeed Tang Nano 9K with GW1NR-9C",
            platform="tang_nano_9k.TangNano9kPlatform",
            resources=_tang_nano_9k,
            device=_with_pins("gowin-gw1nr-9c"),
            pll="GowinPLL",
            clock_mhz=54,
            baud=1_000_000,
            spec=_shorter("default", generations=3),
            alive="led 0",
            hit="led 1",
            fault="led 5",
            reset="reset_button 0",
            loader="tangnano9k",
            link="the USB connector, through the BL702",
            pack=("--sspi_as_gpio", "--mspi_as_gpio"),
        ),
    )
}
"""Boards by name."""


def board(name: str) -> Board:
    """Return the board of that name.

    Raises
    ------
    UnknownBoardError
        If there is none.
    """
    if name not in BOARDS:
        raise UnknownBoardError(f"board: must be one of {', '.join(BOARDS)}, not {name!r}")
    return BOARDS[name]
