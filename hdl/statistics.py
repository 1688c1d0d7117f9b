"""Event counters."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .parameters import require_integer


class EventCounter(wiring.Component):
    """Counts cycles in which `event` is high, modulo ``2**width``.

    The carry between digits is registered, so that a wide counter is as fast as a narrow one:
    `count` is exact `latency` cycles after the last event.

    Parameters
    ----------
    width : int
        Bits of the count, at least 1.

    Raises
    ------
    TypeError
        If the width is not an integer.
    ValueError
        If it is below 1.
    """

    DIGIT = 16

    def __init__(self, *, width):
        require_integer("Width", width, least=1)
        self._width = width
        self.latency = 1 + -(-width // self.DIGIT)
        super().__init__({"event": In(1), "count": Out(width)})

    def elaborate(self, platform):
        m = Module()
        carry = Signal(name="event_register")
        m.d.sync += carry.eq(self.event)
        for low in range(0, self._width, self.DIGIT):
            digit = Signal(min(self.DIGIT, self._width - low), name=f"digit{low}")
            carried = Signal(name=f"carry{low}")
            # The carry is the adder's own.
            m.d.sync += Cat(digit, carried).eq(digit + carry)
            m.d.comb += self.count[low : low + len(digit)].eq(digit)
            carry = carried
        return m
