"""Minimum distance between external ticks."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import TICKS_WAITING
from ..parameters import require_integer


class TickSpacing(wiring.Component):
    """Delays a tick until at least `least` cycles after the previous tick.

    Up to `lately.hdl.latencies.TICKS_WAITING` ticks wait; more are lost.

    Parameters
    ----------
    least : int
        Minimum cycles from one tick to the next.

    Members
    -------
    i : In(1)
    tick : Out(1)
        One cycle after a tick that need not wait.
    tick_lost : Out(1)
        One cycle after a tick that is lost.

    Errors: as `require_integer`.
    """

    def __init__(self, *, least):
        require_integer("Shortest period", least, least=2)
        self._least = least
        super().__init__({"i": In(1), "tick": Out(1), "tick_lost": Out(1)})

    def elaborate(self, platform):
        m = Module()
        waiting = Signal(range(TICKS_WAITING + 1))
        # Cycles since the last tick, less one. The count returns to 0, as in a reset. If it
        # returned to another number, an iCE40 would split its carry chain.
        count = Signal(range(max(2, self._least - 1)))
        ready = Signal(init=1)
        passes = Signal()
        m.d.comb += passes.eq(ready & (self.i | (waiting != 0)))
        m.d.sync += [
            self.tick.eq(passes),
            self.tick_lost.eq(self.i & ~passes & (waiting == TICKS_WAITING)),
            count.eq(Mux(passes, 0, count + 1)),
            ready.eq(~passes & (ready | (count == self._least - 2))),
        ]
        with m.If(self.i & ~passes & (waiting != TICKS_WAITING)):
            m.d.sync += waiting.eq(waiting + 1)
        with m.If(~self.i & passes):
            m.d.sync += waiting.eq(waiting - 1)
        return m
