"""Event counters."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class EventCounter(wiring.Component):
    """Counts clocks in which `event` is high, modulo ``2**width``.

    The carry between digits of eight bits is registered, so that a wide
    counter is as fast as a narrow one: `count` is exact `latency` clocks
    after the last event.

    Parameters
    ----------
    width : int
        Bits of the count.
    """

    DIGIT = 8

    def __init__(self, *, width):
        self._width = width
        self.latency = -(-width // self.DIGIT)
        super().__init__({"event": In(1), "count": Out(width)})

    def elaborate(self, platform):
        m = Module()
        carry = self.event
        for low in range(0, self._width, self.DIGIT):
            digit = Signal(min(self.DIGIT, self._width - low), name=f"digit{low}")
            carried = Signal(name=f"carry{low}")
            with m.If(carry):
                m.d.sync += digit.eq(digit + 1)
            m.d.sync += carried.eq(carry & digit.all())
            m.d.comb += self.count[low : low + len(digit)].eq(digit)
            carry = carried
        return m
