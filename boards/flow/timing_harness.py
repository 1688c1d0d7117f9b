"""Surroundings in which a unit of any number of ports is timed with three pins."""

from amaranth.hdl import Cat, ClockDomain, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring

SPACING = 4
"""Registers from one input bit to the next, so that the chain does not hold them together."""

CHAIN_BITS = 2000
"""Registers of the chain at most: yosys runs out of stack on longer ones."""


class TimingHarness(Elaboratable):
    """A unit between a shift register and a registered XOR tree.

    Every input bit of the unit is a register of one shift register, every
    output bit is registered and folded, four at a time with registers after
    each level, into one bit. Thus the paths timed are the unit's own, from
    its neighbours' registers on, and no part of it can be optimised away. The
    harness' own paths have one 4-input gate at most.

    Parameters
    ----------
    unit : wiring.Component
        What is timed, in domain ``sync``. It is submodule ``unit``. Beyond 500 input bits
        there are fewer registers between them.
    reset : bool
        Whether the domain has a reset, from a register. Without, registers
        keep to their initial values, as those of an ECP5 do, whose global
        reset takes no routing.

    Attributes
    ----------
    clk, serial_i, serial_o : Signal
        The pins.
    input_bits, output_bits : int
        Bits of the unit's ports.

    Raises
    ------
    ValueError
        If the unit lacks inputs or outputs.
    """

    def __init__(self, unit: wiring.Component, *, reset: bool) -> None:
        self.unit = unit
        self.clk = Signal()
        self.serial_i = Signal()
        self.serial_o = Signal()
        self._reset = reset
        self._inputs = _port_bits(unit, wiring.In)
        self._outputs = _port_bits(unit, wiring.Out)
        self.input_bits = len(self._inputs)
        self.output_bits = len(self._outputs)
        if not self.input_bits or not self.output_bits:
            raise ValueError(
                f"Unit must have inputs and outputs, "
                f"not {self.input_bits} and {self.output_bits} bits"
            )

    @property
    def ports(self) -> list[Signal]:
        """The pins, for conversion."""
        return [self.clk, self.serial_i, self.serial_o]

    def elaborate(self, platform: object) -> Module:
        """Return the unit with its surroundings."""
        m = Module()
        m.domains.sync = domain = ClockDomain(reset_less=not self._reset)
        m.d.comb += domain.clk.eq(self.clk)
        m.submodules.unit = self.unit

        bits = self.input_bits + self._reset
        spacing = max(1, min(SPACING, CHAIN_BITS // bits))
        chain = Signal(spacing * bits, reset_less=True)
        m.d.sync += chain.eq(Cat(self.serial_i, chain))
        m.d.comb += self._inputs.eq(chain[spacing - 1 :: spacing])
        if self._reset:
            m.d.comb += domain.rst.eq(chain[-1])

        level: Value = _register(m, self._outputs)
        while len(level) > 1:
            folded = Cat(level[i : i + 4].xor() for i in range(0, len(level), 4))
            # The second register is for the way, as the unit's ends may lie far apart.
            level = _register(m, _register(m, folded))
        m.d.comb += self.serial_o.eq(level)
        return m


def _register(m: Module, value: Value) -> Signal:
    register = Signal(len(value), name=f"folded_{len(value)}", reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _port_bits(unit: wiring.Component, flow: wiring.Flow) -> Value:
    """All bits of the ports of one direction; a port tied to a constant has none."""
    return Cat(
        Value.cast(value)
        for _path, member, value in unit.signature.flatten(unit)
        if member.flow == flow and isinstance(Value.cast(value), Signal)
    )
