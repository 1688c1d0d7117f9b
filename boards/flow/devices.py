"""Devices that units are placed and routed for."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...golden.errors import LatelyError


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
    place_and_route : tuple of str
        nextpnr program and its options.
    target_mhz : int
        Frequency that nextpnr strives for, above what is reached.
    lut, ff : int
        4-input tables and flip-flops. On iCE40 they share logic cells.
    bram, bram_bits : int
        Block RAMs, and data bits of one.
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
    place_and_route: tuple[str, ...]
    target_mhz: int
    lut: int
    ff: int
    bram: int
    bram_bits: int
    pads: str = ""
    pins: tuple[int, ...] = ()
    caveat: str = ""


MAPPING = "+&scorr;&sweep;&dc2;&dch,-f,-r;&ps;&if,{W},{D},{R},-F,0,-A,0,-v;&mfs"
"""Script of ABC: maps every function at its least depth.

Left to itself ABC saves tables wherever a path is short beside the longest one, which is always a
carry chain; but where routing takes most of a path, each table counts.
"""


def _ecp5(name: str, description: str, size: str, *, grade: int, lut: int, bram: int) -> Device:
    return Device(
        name=name,
        description=description,
        family="ecp5",
        # -abc9 is what new versions of yosys always do. Multiplexers between tables cost more
        # tables and some 4 % of the clock where they were used, and changed nothing elsewhere.
        synthesis=("synth_ecp5", "-abc9", "-nowidelut"),
        place_and_route=(
            "nextpnr-ecp5",
            f"--{size}",
            *("--speed", str(grade)),
            *("--package", "CABGA381"),
            "--lpf-allow-unconstrained",
            # Some 4 % over the default of 10, the median of five seeds; 40 is no better.
            *("--placer-heap-timingweight", "20"),
            # Routes again what is too slow: 3 % for the slowest of the units, nothing for others.
            # On the largest device a run of the largest unit takes many times as long.
            *(() if size == "85k" else ("--tmg-ripup",)),
        ),
        target_mhz=400,
        lut=lut,
        ff=lut,
        bram=bram,
        bram_bits=16384,
    )


def _ice40(
    name: str, description: str, size: str, *, package: str, timing: str, lut: int, bram: int
) -> Device:
    return Device(
        name=name,
        description=description,
        family="ice40",
        synthesis=("synth_ice40", "-abc9", "-device", timing),
        place_and_route=(
            "nextpnr-ice40",
            f"--{size}",
            *("--package", package),
            "--pcf-allow-unconstrained",
        ),
        target_mhz=200,
        lut=lut,
        ff=lut,
        bram=bram,
        bram_bits=4096,
    )


# Of both parts in package QN88, without those that configure them.
_QN88_PINS = (*range(25, 43), *range(53, 58), *range(69, 78), *range(79, 87))


def _gowin(
    name: str, description: str, part: str, *, family: str, clock: int, lut: int, ff: int, bram: int
) -> Device:
    return Device(
        name=name,
        description=description,
        family="gowin",
        # Left to itself the pass gives pads to every module that is kept.
        synthesis=("synth_gowin", "-family", family[:4].lower(), "-noiopads"),
        pads="iopadmap -bits -inpad IBUF O:I -outpad OBUF I:O top",
        place_and_route=(
            "nextpnr-himbaechel-gowin",
            *("--device", part),
            *("--vopt", f"family={family}"),
            *("--vopt", "cst=pins.cst"),
        ),
        target_mhz=500,
        lut=lut,
        ff=ff,
        bram=bram,
        bram_bits=16384,
        pins=(clock, *_QN88_PINS),
        caveat=(
            "nextpnr does not check the second address of a Gowin block RAM, and its authors found "
            "its figures some 20 % above the vendor's: not to be compared with other devices"
        ),
    )


DEVICES: Mapping[str, Device] = {
    device.name: device
    for device in (
        _ecp5("ecp5-25k-6", "Lattice LFE5U-25F, speed grade 6", "25k", grade=6, lut=24288, bram=56),
        _ecp5("ecp5-25k-8", "Lattice LFE5U-25F, speed grade 8", "25k", grade=8, lut=24288, bram=56),
        _ecp5(
            "ecp5-85k-6", "Lattice LFE5U-85F, speed grade 6", "85k", grade=6, lut=83640, bram=208
        ),
        _ice40(
            "ice40-hx8k",
            "Lattice iCE40HX8K",
            "hx8k",
            package="ct256",
            timing="hx",
            lut=7680,
            bram=32,
        ),
        _ice40(
            "ice40-up5k",
            "Lattice iCE40UP5K",
            "up5k",
            package="sg48",
            timing="u",
            lut=5280,
            bram=30,
        ),
        _gowin(
            "gowin-gw1n-9",
            "Gowin GW1NR-LV9QN88PC6/I5",
            "GW1NR-LV9QN88PC6/I5",
            family="GW1N-9C",
            clock=52,
            lut=8640,
            ff=6480,
            bram=26,
        ),
        _gowin(
            "gowin-gw2a-18",
            "Gowin GW2AR-LV18QN88C8/I7",
            "GW2AR-LV18QN88C8/I7",
            family="GW2A-18C",
            clock=4,
            lut=20736,
            ff=15552,
            bram=46,
        ),
    )
}
"""Devices by name."""


def device(name: str) -> Device:
    """Return the device of that name.

    Raises
    ------
    UnknownDeviceError
        If there is none.
    """
    if name not in DEVICES:
        raise UnknownDeviceError(f"device: must be one of {', '.join(DEVICES)}, not {name!r}")
    return DEVICES[name]
