"""Generator of ticks with a period that is set at run time."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer


class Prescaler(wiring.Component):
    """Generates a tick every `period` cycles, from `least` cycles after reset.

    Parameters
    ----------
    width : int
        Width of a period.
    least : int
        Shortest period; a shorter setting acts as `least`.

    Members
    -------
    period : In(width)
        A change applies from the next tick.
    tick : Out(1)

    Errors: as `require_integer`.
    """

    def __init__(self, *, width, least):
        require_integer("Width", width, least=1)
        require_integer("Shortest period", least, least=4, most=(1 << width) - 1)
        self._least = least
        super().__init__({"period": In(width), "tick": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Cycles to the next tick, less two.
        left = Signal(signed(len(self.period) + 1), init=self._least - 2)
        length = Signal.like(left)
        m.d.sync += [
            length.eq(Mux(self.period < self._least, self._least, self.period) - 2),
            left.eq(Mux(self.tick, length, left - 1)),
        ]
        m.d.comb += self.tick.eq(left[-1])
        return m
