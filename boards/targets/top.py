"""Top level of a board, around a link: clock, reset and pins."""

from math import ceil
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Module, Signal, Value
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from ...hdl.packets.gmii import RECEIVING
from ..flow import pll
from ..flow.pll import Setting
from .catalogue import Board
from .rgmii import RgmiiReceiver, RgmiiTransmitter

STARTUP_S = 50e-6
"""Seconds from a stable clock to the end of reset; iCE40 block RAMs need about 3 us."""


class Startup(wiring.Component):
    """Resets domain ``sync``; the reset lasts for some cycles after its cause ends."""

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


class BoardTop(Elaboratable):
    """Top level of a board for `platform.build`: a link, or a frame deduplicator.

    The PLL generates the clock of domain ``sync``. Configuration, loss of lock or the button
    resets the domain. The reset is synchronous and ends `STARTUP_S` after its cause. `link` is
    a `lately.boards.link.link.FilterLink`, or on a board with PHYs a `FrameLink`.
    """

    def __init__(self, link: wiring.Component, *, board: Board, setting: Setting) -> None:
        self._link = link
        self._board = board
        self._setting = setting

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pins = _Pins(platform)
        m.submodules.link = self._link
        self._elaborate_clock(m, platform, pins)
        self._elaborate_lines(m, platform, pins)
        for name, pin in self._board.lights.items():
            m.submodules[name] = light = io.Buffer("o", pins.port(pin))
            m.d.comb += light.o.eq(getattr(self._link, name))
        if self._board.high is not None:
            m.submodules.high = high = io.Buffer("o", pins.port(self._board.high))
            m.d.comb += high.o.eq(1)
        return m

    def _elaborate_lines(self, m: Module, platform: Any, pins: "_Pins") -> None:
        if self._board.rgmii:
            self._elaborate_rgmii(m, platform)
        link = self._link
        m.submodules.rx = rx = io.Buffer("i", pins.port("uart.rx 0"))
        m.submodules.tx = tx = io.Buffer("o", pins.port("uart.tx 0"))
        m.d.comb += [link.rx.eq(rx.i), tx.o.eq(link.tx)]

    def _elaborate_rgmii(self, m: Module, platform: Any) -> None:
        """Receive from the first PHY, and send to the second."""
        link, (first, second) = self._link, self._board.rgmii
        incoming, outgoing = (
            platform.request(*_named(resource), dir="-") for resource in (first, second)
        )
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

    def _elaborate_clock(self, m: Module, platform: Any, pins: "_Pins") -> None:
        pin = pins.port(f"{platform.default_clk} 0")
        loop = getattr(pll, self._board.pll)(setting=self._setting, pin=pin)
        m.submodules.pll = loop
        m.domains.sync = sync = ClockDomain()
        platform.add_clock_constraint(loop.clk, float(self._setting.output_hz))
        m.submodules.startup = startup = Startup(clocks=ceil(STARTUP_S * self._setting.output_hz))
        m.d.comb += [
            sync.clk.eq(loop.clk),
            sync.rst.eq(startup.reset),
            startup.cause.eq(~loop.locked | self._elaborate_button(m, pins)),
        ]

    def _elaborate_button(self, m: Module, pins: "_Pins") -> Value:
        if self._board.reset is None:
            return Const(0)
        m.submodules.button = button = io.Buffer("i", pins.port(self._board.reset))
        return button.i


class _Pins:
    """Requests resources from a platform, which provides each resource only once."""

    def __init__(self, platform: Any) -> None:
        self._platform = platform
        self._resources: dict[tuple[str, int], Any] = {}

    def port(self, pin: str) -> io.SingleEndedPort:
        path, number = _named(pin)
        name, _, part = path.partition(".")
        key = (name, number)
        if key not in self._resources:
            self._resources[key] = self._platform.request(*key, dir="-")
        return getattr(self._resources[key], part) if part else self._resources[key]


def _named(pin: str) -> tuple[str, int]:
    """Split a pin description into the name and number of a resource."""
    name, _, number = pin.partition(" ")
    return name, int(number)
