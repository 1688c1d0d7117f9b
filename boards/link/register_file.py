"""Registers of a board: the counters of unit and line, and the settings."""

from amaranth.hdl import Array, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...hdl.latencies import PERIOD_BITS
from ...hdl.registers import WORD_BITS, Holder, counters, readable
from ...hdl.statistics import EventCounter


class RegisterFile(wiring.Component):
    """The registers of `lately.hdl.registers`, as far as they are read.

    Parameters
    ----------
    unit : FilterUnit
        Whose counters are read and whose generation length is set.
    period : int
        Clocks between two ticks after reset, if the window is one in time.

    Members
    -------
    number : In(range(len(readable(timed=unit.spec.timed))))
    word : Out(32)
        The register of that number, in the order of the table.
    set_generation : In(1)
        Take the lowest bits of `value`, which must be at least 1, as `generation`.
    value : In(32)
    generation : Out
        For the unit. Its reset value is that of the specification.
    set_period, period
        With a window in time only: the same for the clocks between two ticks.
    operations, ... : In
        The unit's counters, and `covered` of a window in time.
    good, ... : In(1)
        An event of the line, for each of its counters.
    """

    def __init__(self, *, unit, period=0):
        self._readable = readable(timed=unit.spec.timed)
        settings = unit.signature.members
        members = {
            "number": In(range(len(self._readable))),
            "word": Out(WORD_BITS),
            "set_generation": In(1),
            "value": In(WORD_BITS),
            "generation": Out(unit.generation_bits, init=settings["generation"].init),
        }
        members |= {register.name: In(WORD_BITS) for register in counters(Holder.UNIT)}
        members |= {register.event: In(1) for register in counters(Holder.LINE)}
        if unit.spec.timed:
            members |= {"set_period": In(1), "period": Out(PERIOD_BITS, init=period)}
            members |= {register.name: In(WORD_BITS) for register in counters(Holder.WINDOW)}
            members["covered"] = In(len(unit.covered))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.set_generation):
            m.d.sync += self.generation.eq(self.value)
        if "period" in self.signature.members:
            with m.If(self.set_period):
                m.d.sync += self.period.eq(self.value)
        words = {register.name: getattr(self, register.name) for register in self._readable
                 if register.holder is not Holder.LINE}  # fmt: skip
        for register in counters(Holder.LINE):
            m.submodules[register.name] = counter = EventCounter(width=register.width)
            m.d.comb += counter.event.eq(getattr(self, register.event))
            words[register.name] = counter.count
        m.d.comb += self.word.eq(
            Array(words[register.name] for register in self._readable)[self.number]
        )
        return m
