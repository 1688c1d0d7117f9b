"""Clock domain crossing for frames from a receiver."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import AsyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from .axis_beats import AxisBeat


class FrameCrossing(wiring.Component):
    """Transfers frames from one clock domain to another.

    If there is no room for a transfer, its frame ends as damaged. A frame that begins before this
    end has left is damaged too. There is always room if the clocks differ by no more than Ethernet
    permits, and a transfer is accepted in every cycle.

    Parameters
    ----------
    domain : str
        Clock domain of `i`; the domain of `o` is ``sync``.
    depth : int
        Transfers that can wait, in addition to three that have crossed. Power of two.
    width : int
        Bits of a transfer, as for `AxisBeat`.

    Members
    -------
    i : In(stream.Signature(AxisBeat(width), always_ready=True))
    o : Out(stream.Signature(AxisBeat(width)))
    """

    def __init__(self, *, domain, depth=16, width=8):
        beat = AxisBeat(width)
        self._domain = domain
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(beat, always_ready=True)),
                "o": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = len(self.i.p.as_value())
        fifo = AsyncFIFOBuffered(
            width=width,
            depth=self._depth + 1,
            r_domain="sync",
            w_domain=self._domain,
            exact_depth=True,
        )
        m.submodules.fifo = fifo
        given = self.i.p.shape()(fifo.w_data)
        # The rest of a frame is not accepted, and the end of the accepted part is still due.
        cut, owed = Signal(), Signal()
        m.d.comb += [
            given.eq(self.i.p),
            fifo.w_en.eq((self.i.valid & ~cut) | owed),
        ]
        self._elaborate_leaving(m, fifo)
        with m.If(owed):
            m.d.comb += [given.last.eq(1), given.user.eq(1)]
        with m.If(self.i.valid & (cut | owed | ~fifo.w_rdy)):
            m.d[self._domain] += cut.eq(~self.i.p.last)
        with m.If(owed | (self.i.valid & ~cut)):
            m.d[self._domain] += owed.eq(~fifo.w_rdy)
        return m

    def _elaborate_leaving(self, m, fifo):
        """Offer bytes from a register, and accept them whether `o.ready` is high or not."""
        spare, waits = Signal(len(fifo.r_data)), Signal()
        out = Signal(len(fifo.r_data))
        m.d.comb += [fifo.r_en.eq(~waits), self.o.p.eq(out)]
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [
                self.o.valid.eq(waits | fifo.r_rdy),
                waits.eq(0),
                out.eq(fifo.r_data),
            ]
            with m.If(waits):
                m.d.sync += out.eq(spare)
        with m.Elif(fifo.r_rdy & ~waits):
            m.d.sync += waits.eq(1)
        with m.If(~waits):
            m.d.sync += spare.eq(fifo.r_data)
