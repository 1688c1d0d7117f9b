"""A deduplicator between two lines of Ethernet, with a serial line for its registers."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...hdl.packets.axis_frames import ControlledDeduplicator
from ...hdl.packets.line_deduplicator import LineDeduplicator
from ...hdl.registers import REGISTERS
from ...hdl.target_clocks import GMII_HZ
from .frames import FrameReceiver, FrameSender
from .information import Information, register_mask
from .register_requests import RegisterRequests
from .sessions import connect_line
from .uart import BaudRate, Receiver, Transmitter

SLOTS = 4
"""Requests that may be under way."""


class FrameLink(wiring.Component):
    """Serial line, protocol and deduplicator.

    Parameters
    ----------
    deduplicator : Deduplicator
        As for `LineDeduplicator`.
    baud : int
        Bits in a second on the serial line.
    version : tuple of int
        That of Lately.
    clock_hz : int
        Cycles in a second.

    Members
    -------
    rx : In(1, init=1)
        Serial line from the host; may change at any time.
    tx : Out(1, init=1)
        Serial line to the host.
    busy : Out(1)
        A request waits, or an answer is on its way.
    rx_data, ..., tx_data, ..., alive
        As those of `LineDeduplicator`.

    Raises
    ------
    ValueError
        If the rate cannot be made.
    """

    def __init__(self, deduplicator, *, baud, version, clock_hz=GMII_HZ):
        self._rate = BaudRate(clock_hz=clock_hz, baud=baud)
        inner = ControlledDeduplicator(deduplicator, bus="wishbone", version=version)
        self._line = LineDeduplicator(inner)
        self.registers = inner.registers
        """The words that can be read and written."""
        self.information = Information(
            slots=SLOTS,
            key_bits=deduplicator.spec.key_bits,
            window_generations=0,
            generation=0,
            digest=deduplicator.spec.digest,
            clock_hz=clock_hz,
            keyed=False,
            time_bits=0,
            self_test_cycles=0,
            registers=register_mask(
                one for one in REGISTERS if one.name in inner.registers.registers
            ),
        )
        self._bus = inner.bus_ports
        lines = {
            name: member
            for name, member in self._line.signature.members.items()
            if name not in self._bus
        }
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "busy": Out(1)} | lines)
        self._lines = lines

    def elaborate(self, platform):
        m = Module()
        m.submodules.uart_receiver = receiver = Receiver(rate=self._rate)
        m.submodules.uart_transmitter = transmitter = Transmitter(rate=self._rate)
        m.submodules.frame_receiver = frames = FrameReceiver(slots=SLOTS)
        m.submodules.frame_sender = sender = FrameSender(slots=SLOTS)
        m.submodules.requests = requests = RegisterRequests(information=self.information)
        m.submodules.line = line = self._line
        connect_line(self, m, requests, receiver, transmitter, frames, sender)
        self._elaborate_line(m, line, requests)
        return m

    def _elaborate_line(self, m, line, requests):
        """Connect the ports of the line, and its bus with the requests."""
        for name, member in self._lines.items():
            outer, inner = getattr(self, name), getattr(line, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        for name in self._bus:
            if name == "wb_stall_o":
                continue
            inner, given = getattr(line, name), name.endswith("_i")
            outer = getattr(requests, f"{name[:-1]}{'o' if given else 'i'}")
            m.d.comb += inner.eq(outer) if given else outer.eq(inner)
