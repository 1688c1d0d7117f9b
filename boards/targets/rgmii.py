"""RGMII 2.0 interface to Ethernet PHYs on ECP5 pins."""

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

DELAY_TAPS = 80
"""Delay of received data against its clock, in steps of about 25 ps: 2 ns. The PHY delays the clock
of transmitted data."""


class RgmiiReceiver(wiring.Component):
    """Receives bytes from a PHY: half a byte per clock edge, low half first."""

    def __init__(self, pins: Any, *, domain: str) -> None:
        self._pins = pins  # pins `rx_data` and `rx_ctl`
        self._domain = domain  # clock domain of the PHY's `rx_clk`
        super().__init__({"data": Out(8), "valid": Out(1), "error": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.data_pins = data = io.Buffer("i", self._pins.rx_data)
        m.submodules.control_pin = control = io.Buffer("i", self._pins.rx_ctl)
        halves = Signal(5), Signal(5)
        for number, pin in enumerate(Cat(data.i, control.i)):
            delayed = Signal(name=f"delayed_{number}")
            m.submodules[f"delay_{number}"] = Instance(
                "DELAYG",
                p_DEL_MODE="SCLK_ALIGNED",
                p_DEL_VALUE=DELAY_TAPS,
                i_A=pin,
                o_Z=delayed,
            )
            m.submodules[f"halves_{number}"] = Instance(
                "IDDRX1F",
                i_D=delayed,
                i_SCLK=ClockSignal(self._domain),
                i_RST=Const(0),
                o_Q0=halves[0][number],
                o_Q1=halves[1][number],
            )
        first, second = halves
        m.d[self._domain] += [
            self.data.eq(Cat(first[:4], second[:4])),
            self.valid.eq(first[4]),
            self.error.eq(first[4] ^ second[4]),
        ]
        return m


class RgmiiTransmitter(wiring.Component):
    """Sends bytes to a PHY, with the clock of domain ``sync``."""

    def __init__(self, pins: Any) -> None:
        self._pins = pins  # pins `tx_data`, `tx_ctl` and `tx_clk`
        super().__init__({"data": In(8), "valid": In(1), "error": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, first, second in (
            ("data", self.data[:4], self.data[4:]),
            ("ctl", self.valid, self.valid ^ self.error),
            ("clk", Const(1, 1), Const(0, 1)),
        ):
            buffer = io.DDRBuffer("o", getattr(self._pins, f"tx_{name}"))
            m.submodules[name] = buffer
            m.d.comb += [buffer.o[0].eq(first), buffer.o[1].eq(second)]
        return m
