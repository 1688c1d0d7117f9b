"""Top level of a board, which connects clock, reset and pins to a link."""

from collections.abc import Callable
from functools import cache, partial
from math import ceil
from typing import Any

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    Signal,
    Value,
)
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from ...hdl.packets.gmii import RECEIVING
from ..flow import pll
from ..flow.pll import Setting
from .catalogue import Board

# Seconds from a stable clock to the end of reset; iCE40 block RAMs need about 3 us.
STARTUP_S = 50e-6

# Delay of received data relative to its clock, in steps of about 25 ps: 2 ns. For transmitted data,
# the PHY delays the clock.
DELAY_TAPS = 80


class Startup(wiring.Component):
    """Holds the domain ``sync`` in reset until `clocks` cycles after the cause has ended."""

    def __init__(self, *, clocks: int) -> None:
        self._clocks = clocks
        super().__init__(
            {
                "cause": In(1),  # asynchronous; effective without a clock
                "reset": Out(1, init=1),  # released synchronously; high after configuration
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.start = ClockDomain(async_reset=True, local=True)
        m.d.comb += ClockSignal("start").eq(ClockSignal("sync"))
        m.submodules.synchronizer = ResetSynchronizer(self.cause, domain="start")
        left = Signal(range(self._clocks + 1), init=self._clocks)
        with m.If(left != 0):
            m.d.start += left.eq(left - 1)
        m.d.start += self.reset.eq(left != 0)
        return m


class RgmiiReceiver(wiring.Component):
    """Receives bytes from a PHY over RGMII 2.0: one nibble per clock edge, low nibble first."""

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
    """Sends bytes to a PHY over RGMII 2.0, with the clock of domain ``sync``."""

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


class BoardTop(Elaboratable):
    """Top level of a board, with a link in the domain ``sync``.

    The link is a `FrameLink` if the board has PHYs, otherwise a `FilterLink`. The PLL generates the
    clock. Configuration, loss of the PLL's lock and the button reset the domain. The reset is
    released synchronously, `STARTUP_S` after its cause has ended.
    """

    def __init__(self, link: wiring.Component, *, board: Board, setting: Setting) -> None:
        self._link = link
        self._board = board
        self._setting = setting

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # A platform provides each resource only once.
        pin = partial(_port, cache(partial(platform.request, dir="-")))
        m.submodules.link = link = self._link
        self._elaborate_clock(m, platform, pin)
        if self._board.rgmii:
            self._elaborate_rgmii(m, *map(pin, self._board.rgmii))
        m.submodules.rx = rx = io.Buffer("i", pin("uart.rx 0"))
        m.submodules.tx = tx = io.Buffer("o", pin("uart.tx 0"))
        m.d.comb += [link.rx.eq(rx.i), tx.o.eq(link.tx)]
        for name, led in self._board.lights.items():
            m.submodules[name] = light = io.Buffer("o", pin(led))
            m.d.comb += light.o.eq(getattr(link, name))
        if self._board.high is not None:
            m.submodules.high = high = io.Buffer("o", pin(self._board.high))
            m.d.comb += high.o.eq(1)
        return m

    def _elaborate_rgmii(self, m: Module, incoming: Any, outgoing: Any) -> None:
        link = self._link
        m.submodules.rx_clk = clock = io.Buffer("i", incoming.rx_clk)
        m.domains += ClockDomain(RECEIVING, reset_less=True)
        m.submodules.rgmii_rx = rx = RgmiiReceiver(incoming, domain=RECEIVING)
        m.submodules.rgmii_tx = tx = RgmiiTransmitter(outgoing)
        m.d.comb += ClockSignal(RECEIVING).eq(clock.i)
        for name in ("data", "valid", "error"):
            m.d.comb += [
                getattr(link, f"rx_{name}").eq(getattr(rx, name)),
                getattr(tx, name).eq(getattr(link, f"tx_{name}")),
            ]

    def _elaborate_clock(self, m: Module, platform: Any, pin: Callable[[str], Any]) -> None:
        oscillator = pin(f"{platform.default_clk} 0")
        loop = getattr(pll, self._board.pll)(setting=self._setting, pin=oscillator)
        m.submodules.pll = loop
        m.domains.sync = sync = ClockDomain()
        platform.add_clock_constraint(loop.clk, float(self._setting.output_hz))
        m.submodules.startup = startup = Startup(clocks=ceil(STARTUP_S * self._setting.output_hz))
        pressed: Value = Const(0)
        if self._board.reset is not None:
            m.submodules.button = button = io.Buffer("i", pin(self._board.reset))
            pressed = button.i
        m.d.comb += [
            sync.clk.eq(loop.clk),
            sync.rst.eq(startup.reset),
            startup.cause.eq(~loop.locked | pressed),
        ]


def _port(request: Callable[[str, int], Any], pin: str) -> Any:
    """Return a resource such as "led 0", or a part of a resource such as "rgb_led.r 0"."""
    path, _, number = pin.partition(" ")
    name, _, part = path.partition(".")
    resource = request(name, int(number))
    return getattr(resource, part) if part else resource
