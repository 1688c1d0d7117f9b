"""Registers of a board: the counters of unit and line, and the settings."""

from amaranth.hdl import Array, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...hdl.latencies import PERIOD_BITS
from ...hdl.registers import WORD_BITS, Holder, board_registers, counters
from ...hdl.statistics import EventCounter


class RegisterFile(wiring.Component):
    """The registers of `lately.hdl.registers`, as far as a board with a unit reads them.

    Parameters
    ----------
    unit : Component
        With a `lately.hdl.interface.UnitSignature`.
    period : int
        Clocks between two ticks after reset, if the unit has the port ``tick``.

    Members
    -------
    number : In(range(len(board_registers(unit.signature.members))))
    word : Out(32)
        The register of that number, in the order of the table.
    set_generation : In(1)
        Take the lowest bits of `value`, which must be at least 1, as `generation`.
    value : In(32)
    generation : Out
        For the unit, if it has that port. Its reset value is that of the specification.
    set_period, period
        With ticks only: the same for the clocks between two of them.
    operations, ... : In
        What the unit counts and tells.
    good, ... : In(1)
        An event of the line, for each of its counters.
    """

    def __init__(self, *, unit, period=0):
        ports = unit.signature.members
        self._readable = board_registers(ports)
        self.held = [one.name for one in self._readable
                     if one.name in ports and one.name != "generation"]  # fmt: skip
        """Registers that the unit holds."""
        members = {
            "number": In(range(len(self._readable))),
            "word": Out(WORD_BITS),
        }
        if "generation" in ports:
            members["set_generation"] = In(1)
        members["value"] = In(WORD_BITS)
        if "generation" in ports:
            port = ports["generation"]
            members["generation"] = Out(port.shape, init=port.init)
        members |= {name: In(ports[name].shape) for name in self.held}
        members |= {register.event: In(1) for register in counters(Holder.LINE)}
        if "tick" in ports:
            members |= {"set_period": In(1), "period": Out(PERIOD_BITS, init=period)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        for name in ("generation", "period"):
            if name in self.signature.members:
                with m.If(getattr(self, f"set_{name}")):
                    m.d.sync += getattr(self, name).eq(self.value)
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
