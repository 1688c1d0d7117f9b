"""Devices that units are placed and routed for."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..golden.errors import LatelyError


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
        "ecp5" or "ice40".
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
