"""Time stamps that requests carry."""

from amaranth.hdl import Module, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import STAMP_LATENCY
from ..parameters import require_integer


class Stamps(wiring.Component):
    """Advances time to the time of each operation before the operation enters.

    Operations with the same time pass at one per cycle, three cycles later. An operation with a
    later time waits until its predecessors have taken effect and time has advanced. It passes
    `INTERVAL` cycles after its predecessor, and `TimeWindow.SETTLE` cycles later for each settled
    segment that expires in between. An operation with an earlier time gets the current time.
    Times are compared modulo ``2**len(time)``, so a gap must be shorter than half of this.

    Parameters
    ----------
    request : StructLayout
        Payload of a request, with ``time``.
    span : int
        Number of ticks for which a key is reported.

    Members
    -------
    i, o : stream.Signature(request)
    tick, target, far : Out
        For a `TimeWindow` with `stamped`.
    idle : In(1)
        From the `TimeWindow`.

    Raises
    ------
    TypeError, ValueError
        As for `require_integer`; the width of times must hold twice the span.
    """

    LATENCY = STAMP_LATENCY
    """Latency of an operation that does not wait, in cycles."""

    INTERVAL = 20
    """Cycles from an operation to the next one with a later time, if no segment expires."""

    SETTLE = 4
    """Cycles from the acceptance of an operation to its effect, if the operation does not wait."""

    def __init__(self, *, request, span):
        time_bits = Shape.cast(request["time"].shape).width
        require_integer("Span", span, least=1, most=(1 << time_bits - 1) - 1)
        self._span = span
        self._request = request
        super().__init__(
            {
                "i": In(stream.Signature(request)),
                "o": Out(stream.Signature(request)),
                "tick": Out(1),
                "target": Out(time_bits),
                "far": Out(1),
                "idle": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        move = Signal()
        head, later, far = self._elaborate_stages(m, move)
        passes = Signal()
        timer = Signal(range(self.SETTLE + 1))
        settled = timer == self.SETTLE
        m.d.comb += [
            self.o.valid.eq(head.valid & (~later | passes)),
            self.o.p.eq(head.request),
            move.eq(~head.valid | (self.o.valid & self.o.ready)),
            self.i.ready.eq(move),
            self.target.eq(head.request.time),
            self.far.eq(far),
        ]
        m.d.sync += timer.eq(timer + ~settled)
        with m.FSM():
            with m.State("FLOW"):
                m.d.sync += timer.eq(0)
                with m.If(head.valid & later):
                    m.next = "SETTLE"
            # A held operation closes the gate, and takes effect before the gate opens again.
            with m.State("SETTLE"), m.If(settled & self.o.ready):
                m.d.sync += timer.eq(0)
                m.next = "DRAIN"
            with m.State("DRAIN"), m.If(settled):
                m.d.comb += self.tick.eq(1)
                m.d.sync += timer.eq(0)
                m.next = "WAIT"
            with m.State("WAIT"), m.If(settled & self.idle):
                m.next = "PASS"
            with m.State("PASS"):
                m.d.comb += passes.eq(1)
                with m.If(self.o.ready):
                    m.next = "FLOW"
        return m

    def _elaborate_stages(self, m, move):
        """Return the first request, whether its time is later, and whether it is far later."""
        stage = data.StructLayout({"valid": 1, "request": self._request})
        first, second, head = (Signal(stage, name=name) for name in ("first", "second", "head"))
        reached = Signal.like(self.target)
        distance = Signal.like(self.target)
        ahead = Signal.like(self.target)
        later = Signal()
        far = Signal()
        m.d.comb += distance.eq(first.request.time - reached)
        with m.If(move):
            m.d.sync += [
                first.valid.eq(self.i.valid),
                first.request.eq(self.i.p),
                second.eq(first),
                ahead.eq(distance),
                head.eq(second),
                later.eq((ahead != 0) & ~ahead[-1]),
                far.eq(ahead > self._span),
            ]
            with m.If(first.valid & ~distance[-1]):
                m.d.sync += reached.eq(first.request.time)
        return head, later, far
