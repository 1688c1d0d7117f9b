"""Deduplicator of frames with flat ports and a bus, for instances in any hardware language."""

from amaranth.hdl import Module, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..bus.controlled import Controlled
from ..bus.flat import AxisUnit, FlatUnit

PARTS = ("data", "last", "user", "keep", "id", "dest")
"""Fields of a transfer, in the order of their ports."""


class ControlledDeduplicator(Controlled):
    """Deduplicator with a bus that accesses its settings and counters as registers.

    Parameters
    ----------
    unit : Deduplicator
    bus : str
        One of `lately.hdl.bus.controlled.BUSES`.
    version : tuple of int
        Version of Lately.

    Members
    -------
    i, o
        As for the deduplicator.

    For the other members and the errors see `Controlled`.
    """

    ELSEWHERE = ("clear", "order")

    def __init__(self, unit, *, bus, version):
        streams = {name: unit.signature.members[name] for name in ("i", "o")}
        super().__init__(
            unit,
            lambda others: wiring.Signature(streams | others),
            bus=bus,
            spec=unit.spec,
            version=version,
            tag_bits=0,
        )

    def elaborate(self, platform):
        m = Module()
        self._elaborate_bus(m)
        bank = self._bank
        waits = Signal()
        due = self._elaborate_lead(m, bank.control_clear, waits)
        m.d.comb += [self.unit.clear.eq(due), bank.status_order.eq(waits | self.unit.order)]
        with m.If(due):
            m.d.sync += waits.eq(0)
        wiring.connect(m, wiring.flipped(self.i), self.unit.i)
        wiring.connect(m, self.unit.o, wiring.flipped(self.o))
        return m


class AxisFrames(AxisUnit):
    """Deduplicator with an AXI4-Stream input and output of frames.

    TREADY does not depend on TVALID, or on the TREADY of the other stream in the same cycle.

    Parameters
    ----------
    unit : ControlledDeduplicator or Deduplicator

    Members
    -------
    aclk, aresetn : In(1)
    s_axis_tdata, s_axis_tkeep, s_axis_tlast, s_axis_tuser, s_axis_tvalid : In
        A frame; the bad bit of TUSER with TLAST marks a damaged frame. Streams of 8 bits have no
        TKEEP.
    s_axis_tready : Out(1)
        Only if the input has TREADY.
    m_axis_tdata, m_axis_tkeep, m_axis_tlast, m_axis_tuser, m_axis_tvalid : Out
        A frame; the mark bit of TUSER is high for a duplicate if duplicates are marked.
    m_axis_tready : In(1)
    s_axis_tid, s_axis_tdest, m_axis_tid, m_axis_tdest
        Only if they have bits.
    tick, ...
        Other ports, as for the unit.
    """

    def __init__(self, unit):
        # No port has several fields.
        self.requests, self.results = [], []
        self._ready = not unit.signature.members["i"].signature.always_ready
        self._parts, members = {}, {}
        for prefix, payload, there, back in (
            ("s_axis_t", unit.i.p, In, Out), ("m_axis_t", unit.o.p, Out, In)
        ):  # fmt: skip
            widths = {part: len(getattr(payload, part)) for part in self._order(payload)}
            self._parts[prefix] = list(widths)
            members |= {f"{prefix}{part}": there(width) for part, width in widths.items()}
            members |= {f"{prefix}valid": there(1)}
            if self._ready or there is Out:
                members |= {f"{prefix}ready": back(1)}
        FlatUnit.__init__(self, unit, members)

    @staticmethod
    def _order(payload):
        """Return the names of the fields that have ports, in the order of the ports."""
        bits = {name: Shape.cast(shape).width for name, shape in payload.shape().members.items()}
        # Each transfer of one byte is kept.
        return [name for name in PARTS if bits.get(name, 0) > (name == "keep")]

    def _elaborate_streams(self, m):
        unit = self.unit
        m.d.comb += [
            unit.i.p.keep.eq(-1),
            unit.i.valid.eq(self.s_axis_tvalid),
            *([self.s_axis_tready.eq(unit.i.ready)] if self._ready else []),
            self.m_axis_tvalid.eq(unit.o.valid),
            unit.o.ready.eq(self.m_axis_tready),
        ]
        for part in PARTS:
            for prefix, inner, inward in (("s_axis_t", unit.i, True), ("m_axis_t", unit.o, False)):
                if part in self._parts[prefix]:
                    pair = getattr(inner.p, part), getattr(self, f"{prefix}{part}")
                    target, source = pair if inward else reversed(pair)
                    m.d.comb += target.eq(source)
