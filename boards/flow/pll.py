"""Phase-locked loops, which generate the clocks of units from board oscillators."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from amaranth.hdl import Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io

from ...golden.errors import LatelyError
from .limits import limits_table


class ClockError(LatelyError, ValueError):
    """No PLL of the family can generate the requested clock."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a family's PLL, from the data sheet."""

    # Input, feedback and output divisors.
    reference: range
    feedback: range
    output: range | tuple[int, ...]
    after: bool  # whether feedback comes from after the output divisor, not before it
    # Minimum and maximum frequencies.
    input_mhz: tuple[float, float]
    detector_mhz: tuple[float, float]
    oscillator_mhz: tuple[float, float]
    output_mhz: tuple[float, float]

    @classmethod
    def of(cls, *, after: bool, **values: list[Any]) -> Self:
        """Create the limits from a table of `limits.toml`, where two divisors stand for a range."""
        fields: dict[str, Any] = {
            name: tuple(value) if name.endswith("mhz") or len(value) > 2 else range(*value)
            for name, value in values.items()
        }
        return cls(after=after, **fields)


LIMITS: Mapping[str, Limits] = {
    family: Limits.of(**values) for family, values in limits_table()["pll"].items()
}

# Maximum relative difference between the output clock and the requested clock.
TOLERANCE = Fraction(1, 10)


@dataclass(frozen=True)
class Setting:
    """Divisors of a PLL, and the exact frequencies in Hz that they produce."""

    input_hz: int
    # Divisors, as in `Limits`.
    reference: int
    feedback: int
    output: int
    detector_hz: Fraction
    oscillator_hz: Fraction
    output_hz: Fraction


def find_setting(family: str, *, input_hz: int, wanted_hz: int) -> Setting:
    limits = LIMITS[family]
    _check("oscillator", input_hz, limits.input_mhz, family)
    _check("clock", wanted_hz, limits.output_mhz, family)
    middle = sum(limits.oscillator_mhz) * 10**6 / 2
    # Ties go to the fastest phase detector, for low jitter, then to the oscillator farthest from
    # its limits.
    nearest = min(
        _settings(limits, input_hz),
        key=lambda setting: (
            abs(setting.output_hz - wanted_hz),
            -setting.detector_hz,
            abs(setting.oscillator_hz - middle),
        ),
    )
    if abs(nearest.output_hz - wanted_hz) > TOLERANCE * wanted_hz:
        raise ClockError(
            f"clock: must be close to a clock that a PLL of {family} can generate from "
            f"{input_hz / 1e6:g} MHz, such as {float(nearest.output_hz) / 1e6:g} MHz, "
            f"not {wanted_hz / 1e6:g} MHz"
        )
    return nearest


def _check(name: str, hz: int, limits_mhz: tuple[float, float], family: str) -> None:
    lowest, highest = limits_mhz
    if not lowest <= hz / 1e6 <= highest:
        raise ClockError(
            f"{name}: must be between {lowest:g} and {highest:g} MHz for a PLL of {family}, "
            f"not {hz / 1e6:g} MHz"
        )


def _settings(limits: Limits, input_hz: int) -> Iterator[Setting]:
    for reference in limits.reference:
        detector = Fraction(input_hz, reference)
        if not _within(detector, limits.detector_mhz):
            continue
        for feedback in limits.feedback:
            # The loop locks the feedback to this frequency.
            held = detector * feedback
            for output in limits.output:
                oscillator = held * output if limits.after else held
                made = oscillator / output
                if _within(oscillator, limits.oscillator_mhz) and _within(made, limits.output_mhz):
                    divisors = (reference, feedback, output)
                    yield Setting(input_hz, *divisors, detector, oscillator, made)


def _within(hz: Fraction, limits_mhz: tuple[float, float]) -> bool:
    return limits_mhz[0] * 10**6 <= hz <= limits_mhz[1] * 10**6


class PLL(Elaboratable):
    cell: str

    def __init__(self, *, setting: Setting, pin: io.SingleEndedPort) -> None:
        self._setting = setting
        self._pin = pin
        # The output clock, named separately for constraints.
        self.clk = Signal(attrs={"keep": 1})
        self.locked = Signal()  # whether the output clock is stable; asynchronous

    def elaborate(self, platform: object) -> Module:
        m = Module()
        connections = self._connections(m, self._setting)
        m.submodules.pll = Instance(self.cell, **connections)
        return m

    def _buffered(self, m: Module) -> Signal:
        m.submodules.buffer = buffer = io.Buffer("i", self._pin)
        return buffer.i


def _constants(value: int, *inputs: str, width: int = 1) -> dict[str, Const]:
    return {f"i_{name}": Const(value, width) for name in inputs}


class ECP5PLL(PLL):
    """PLL of an ECP5: the primitive EHXPLLL, with feedback from its output."""

    cell = "EHXPLLL"

    def _connections(self, m: Module, setting: Setting) -> dict[str, Any]:
        return dict(
            # Loop filter current; the vendor's tool uses this value for all frequencies.
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKI_DIV=setting.reference,
            p_CLKFB_DIV=setting.feedback,
            p_CLKOP_DIV=setting.output,
            p_CLKOP_CPHASE=setting.output - 1,
            i_CLKI=self._buffered(m),
            i_CLKFB=self.clk,
            **_constants(0, "RST", "STDBY", "PHASESEL0", "PHASESEL1"),
            **_constants(1, "PHASEDIR", "PHASESTEP", "PHASELOADREG"),
            **_constants(0, "PLLWAKESYNC", "ENCLKOP"),
            o_CLKOP=self.clk,
            o_LOCK=self.locked,
        )


class ICE40PLL(PLL):
    """PLL of an iCE40 with any net as its input: the primitive SB_PLL40_CORE."""

    cell = "SB_PLL40_CORE"

    def _connections(self, m: Module, setting: Setting) -> dict[str, Any]:
        return dict(
            p_FEEDBACK_PATH="SIMPLE",
            p_PLLOUT_SELECT="GENCLK",
            p_DIVR=Const(setting.reference - 1, 4),
            p_DIVF=Const(setting.feedback - 1, 7),
            p_DIVQ=Const(setting.output.bit_length() - 1, 3),
            p_FILTER_RANGE=Const(filter_range(setting.detector_hz), 3),
            **self._input(m),
            i_RESETB=Const(1),
            i_BYPASS=Const(0),
            o_PLLOUTGLOBAL=self.clk,
            o_LOCK=self.locked,
        )

    def _input(self, m: Module) -> dict[str, object]:
        return {"i_REFERENCECLK": self._buffered(m)}


class ICE40PadPLL(ICE40PLL):
    """PLL of an iCE40 with a dedicated input pin: the primitive SB_PLL40_PAD."""

    cell = "SB_PLL40_PAD"

    def _input(self, m: Module) -> dict[str, object]:
        return {"io_PACKAGEPIN": self._pin.io}


def filter_range(detector_hz: Fraction) -> int:
    bounds = (17, 26, 44, 66, 101)
    return 1 + sum(detector_hz >= bound * 10**6 for bound in bounds)


class GowinPLL(PLL):
    """PLL of a GW1NR-9C: the primitive rPLL, with internal feedback from its output."""

    cell = "rPLL"
    device = "GW1NR-9C"

    def _connections(self, m: Module, setting: Setting) -> dict[str, Any]:
        return dict(
            p_DEVICE=self.device,
            p_FCLKIN=f"{setting.input_hz / 1e6:g}",
            p_IDIV_SEL=setting.reference - 1,
            p_FBDIV_SEL=setting.feedback - 1,
            p_ODIV_SEL=setting.output,
            p_DYN_IDIV_SEL="false",
            p_DYN_FBDIV_SEL="false",
            p_DYN_ODIV_SEL="false",
            p_DYN_DA_EN="false",
            p_DYN_SDIV_SEL=2,
            p_PSDA_SEL="0000",
            p_DUTYDA_SEL="1000",
            p_CLKOUT_FT_DIR=Const(1, 1),
            p_CLKOUTP_FT_DIR=Const(1, 1),
            p_CLKOUT_DLY_STEP=0,
            p_CLKOUTP_DLY_STEP=0,
            p_CLKFB_SEL="internal",
            p_CLKOUT_BYPASS="false",
            p_CLKOUTP_BYPASS="false",
            p_CLKOUTD_BYPASS="false",
            p_CLKOUTD_SRC="CLKOUT",
            p_CLKOUTD3_SRC="CLKOUT",
            i_CLKIN=self._buffered(m),
            **_constants(0, "CLKFB", "RESET", "RESET_P"),
            **_constants(0, "FBDSEL", "IDSEL", "ODSEL", width=6),
            **_constants(0, "PSDA", "DUTYDA", "FDLY", width=4),
            o_CLKOUT=self.clk,
            o_LOCK=self.locked,
        )


class GW2APLL(GowinPLL):
    device = "GW2AR-18C"
