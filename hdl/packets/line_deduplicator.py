"""Deduplicator between two lines of gigabit Ethernet."""

from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..statistics import EventCounter
from ..target_clocks import GMII_HZ
from .frame_crossing import FrameCrossing
from .gmii import GmiiReceiver, GmiiTransmitter

RECEIVING = "rx"
"""Clock domain of received data."""


class LineDeduplicator(wiring.Component):
    """Forwards frames from one line to another and drops duplicates.

    Received data has a separate clock, in domain `RECEIVING`; everything else is in ``sync``, at
    `GMII_HZ`. Damaged frames are not forwarded.

    Parameters
    ----------
    deduplicator : Deduplicator or ControlledDeduplicator
        Has streams of 8 bits, and "drop" for frames without room, because a line does not wait.
        Inputs that are not registers keep their values after reset.

    Members
    -------
    rx_data : In(8)
    rx_valid, rx_error : In(1)
        RXD, RX_DV and RX_ER of the first line.
    tx_data : Out(8)
    tx_valid, tx_error : Out(1)
        TXD, TX_EN and TX_ER of the other line.
    alive : Out(1)
        Toggles about once per second, for an LED.
    wb_cyc_i, ...
        Ports of the deduplicator's bus, if it has one.
    """

    def __init__(self, deduplicator):
        self._deduplicator = deduplicator
        members = deduplicator.signature.members
        self._bus = {name: members[name] for name in getattr(deduplicator, "bus_ports", ())}
        super().__init__(
            {
                "rx_data": In(8),
                "rx_valid": In(1),
                "rx_error": In(1),
                "tx_data": Out(8),
                "tx_valid": Out(1),
                "tx_error": Out(1),
                "alive": Out(1),
            }
            | self._bus
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = DomainRenamer(RECEIVING)(GmiiReceiver())
        m.submodules.crossing = crossing = FrameCrossing(domain=RECEIVING)
        m.submodules.deduplicator = deduplicator = self._deduplicator
        m.submodules.transmitter = transmitter = GmiiTransmitter(marks=True)
        m.submodules.time = time = EventCounter(width=(GMII_HZ - 1).bit_length())
        wiring.connect(m, receiver.o, crossing.i)
        wiring.connect(m, crossing.o, deduplicator.i)
        wiring.connect(m, deduplicator.o, transmitter.i)
        m.d.comb += [
            receiver.data.eq(self.rx_data),
            receiver.valid.eq(self.rx_valid),
            receiver.error.eq(self.rx_error),
            self.tx_data.eq(transmitter.data),
            self.tx_valid.eq(transmitter.valid),
            self.tx_error.eq(transmitter.error),
            time.event.eq(1),
            self.alive.eq(time.count[-1]),
        ]
        if not self._bus:
            for name in ("action", "fields", "enable", "period"):
                port = getattr(deduplicator, name)
                m.d.comb += port.eq(port.init)
        for name, member in self._bus.items():
            inner, outer = getattr(deduplicator, name), getattr(self, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
