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

DELAY_PS = {"ecp5": 1600}
"""Picoseconds of a path without its routing that ABC maps for, by family of devices."""


def _ecp5(size: str, *, lut: int, bram: int, grades: tuple[int, ...]) -> list[Device]:
    return [
        Device(
            name=f"ecp5-{size}-{grade}",
            description=f"Lattice LFE5U-{size[:2]}F, speed grade {grade}",
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
            ),
            lut=lut,
            ff=lut,
            bram=bram,
            bram_bits=16384,
        )
        for grade in grades
    ]


def _ice40(
    name: str, description: str, *, package: str, timing: str, lut: int, bram: int
) -> Device:
    return Device(
        name=f"ice40-{name}",
        description=description,
        family="ice40",
        synthesis=("synth_ice40", "-abc9", "-device", timing),
        place_and_route=(
            "nextpnr-ice40",
            f"--{name}",
            *("--package", package),
            "--pcf-allow-unconstrained",
        ),
        lut=lut,
        ff=lut,
        bram=bram,
        bram_bits=4096,
    )


# Of both parts in package QN88, without those that configure them.
_QN88_PINS = (*range(25, 43), *range(53, 58), *range(69, 78), *range(79, 87))


def _gowin(
    name: str, part: str, *, family: str, clock: int, lut: int, ff: int, bram: int
) -> Device:
    return Device(
        name=f"gowin-{name.lower()}",
        description=f"Gowin {name}, {part}",
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
        *_ecp5("25k", lut=24288, bram=56, grades=(6, 7, 8)),
        *_ecp5("45k", lut=43848, bram=108, grades=(6, 8)),
        *_ecp5("85k", lut=83640, bram=208, grades=(6, 8)),
        _ice40("hx8k", "Lattice iCE40HX8K", package="ct256", timing="hx", lut=7680, bram=32),
        _ice40("up5k", "Lattice iCE40UP5K", package="sg48", timing="u", lut=5280, bram=30),
        # Only the parts with a C have block RAMs of two full ports.
        _gowin("GW1NR-9C", "GW1NR-LV9QN88PC6/I5", family="GW1N-9C", clock=52,
               lut=8640, ff=6480, bram=26),
        _gowin("GW2AR-18C", "GW2AR-LV18QN88C8/I7", family="GW2A-18C", clock=4,
               lut=20736, ff=15552, bram=46),
    )
}  # fmt: skip
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
