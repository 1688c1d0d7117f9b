"""Event counters."""

from functools import reduce
from operator import add

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .parameters import require_integer
from .registers import REGISTERS


def count_events(m, unit, events, *, amounts=()):
    """Add an `EventCounter` for each counter port of the unit whose event is in `events`."""
    for register in REGISTERS:
        if register.event not in events or register.name not in unit.signature.members:
            continue
        count = getattr(unit, register.name)
        if not len(count):
            continue
        event = Value.cast(events[register.event])
        kind = {"amount": register.event in amounts, "events": len(event)}
        m.submodules[register.name] = counter = EventCounter(width=len(count), **kind)
        m.d.comb += [counter.event.eq(event), count.eq(counter.count)]


class EventCounter(wiring.Component):
    """Counts the set bits of `event` or, with `amount`, sums up `event`, modulo ``2**width``.

    The carry between digits is registered, so that the width does not limit the clock frequency.
    `count` is exact `latency` cycles after the last event.
    """

    DIGIT = 16

    def __init__(self, *, width, events=1, amount=False):
        require_integer("Width", width, minimum=1)
        require_integer("Events", events, minimum=1)
        self._width = width
        self._amount = amount
        self.latency = 1 + -(-width // self.DIGIT)
        super().__init__({"event": In(events), "count": Out(width)})

    def elaborate(self, platform):
        m = Module()
        bits = len(self.event)
        shape = bits if self._amount else range(bits + 1)
        carry = Signal(shape, name="event_register")
        single = self._amount or bits == 1
        m.d.sync += carry.eq(self.event if single else reduce(add, self.event))
        for low in range(0, self._width, self.DIGIT):
            digit = Signal(min(self.DIGIT, self._width - low), name=f"digit{low}")
            carried = Signal(name=f"carry{low}")
            # The adder supplies the carry.
            m.d.sync += Cat(digit, carried).eq(digit + carry)
            m.d.comb += self.count[low : low + len(digit)].eq(digit)
            carry = carried
        return m
