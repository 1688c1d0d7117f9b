"""Sources of ticks: a counter, a port with a minimum spacing, or the times of requests."""

from amaranth.hdl import Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import STAMP_LATENCY, TICKS_WAITING
from ..parameters import require_integer


class Prescaler(wiring.Component):
    """Generates a tick every `period` cycles, starting `min_period` cycles after reset."""

    def __init__(self, *, width, min_period):
        require_integer("Width", width, minimum=1)
        require_integer("Shortest period", min_period, minimum=4, maximum=(1 << width) - 1)
        self._min_period = min_period
        # A change of `period` applies from the next tick.
        super().__init__({"period": In(width), "tick": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Cycles to the next tick, minus two.
        left = Signal(signed(len(self.period) + 1), init=self._min_period - 2)
        length = Signal.like(left)
        m.d.sync += [
            length.eq(Mux(self.period < self._min_period, self._min_period, self.period) - 2),
            left.eq(Mux(self.tick, length, left - 1)),
        ]
        m.d.comb += self.tick.eq(left[-1])
        return m


class TickSpacing(wiring.Component):
    """Delays ticks so that they are at least `min_period` cycles apart."""

    def __init__(self, *, min_period):
        require_integer("Shortest period", min_period, minimum=2)
        self._min_period = min_period
        super().__init__(
            {
                "i": In(1),
                "tick": Out(1),  # one cycle after a tick that need not wait
                "tick_lost": Out(1),  # one cycle after a tick that is lost
            }
        )

    def elaborate(self, platform):
        m = Module()
        waiting = Signal(range(TICKS_WAITING + 1))
        # Cycles since the last tick, minus one. The count returns to 0, its reset value: with
        # another number, an iCE40 would split the carry chain.
        count = Signal(range(max(2, self._min_period - 1)))
        ready = Signal(init=1)
        passes = Signal()
        m.d.comb += passes.eq(ready & (self.i | (waiting != 0)))
        m.d.sync += [
            self.tick.eq(passes),
            self.tick_lost.eq(self.i & ~passes & (waiting == TICKS_WAITING)),
            count.eq(Mux(passes, 0, count + 1)),
            ready.eq(~passes & (ready | (count == self._min_period - 2))),
        ]
        with m.If(self.i & ~passes & (waiting != TICKS_WAITING)):
            m.d.sync += waiting.eq(waiting + 1)
        with m.If(~self.i & passes):
            m.d.sync += waiting.eq(waiting - 1)
        return m


class Stamps(wiring.Component):
    """Advances the tick counter to the time of each operation before the operation enters.

    Operations with the same time pass at one per cycle. An operation with a later time waits at
    least `INTERVAL` cycles, until earlier operations have taken effect and the tick counter has
    advanced. An operation with an earlier time gets the current time. Times are compared modulo
    ``2**len(time)``, so a gap must be shorter than half of this range.
    """

    LATENCY = STAMP_LATENCY  # latency of an operation that does not wait, in cycles
    # cycles from an operation to the next one with a later time, if no segment expires
    INTERVAL = 20

    # cycles from the acceptance of an operation to its effect, if the operation does not wait
    SETTLE = 4

    def __init__(self, *, request, span):
        time_bits = Shape.cast(request["time"].shape).width
        require_integer("Span", span, minimum=1, maximum=(1 << time_bits - 1) - 1)
        self._span = span
        self._request = request
        super().__init__(
            {
                "i": In(stream.Signature(request)),
                "o": Out(stream.Signature(request)),
                # Inputs of a `TimeWindow` with `stamped`.
                "tick": Out(1),
                "target": Out(time_bits),
                "far": Out(1),
                "idle": In(1),  # from the `TimeWindow`
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
        """Return the oldest request and two flags that compare the times of requests.

        The first flag is high if the time of this request is later than the current time, and the
        second if it is later by more than the span.
        """
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
