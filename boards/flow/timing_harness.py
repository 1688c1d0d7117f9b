"""Harness for timing a unit with arbitrarily many ports on three pins."""

from amaranth.hdl import Cat, ClockDomain, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring

# Shift register stages between two input bits, so that placement need not keep them close.
SPACING = 4

# Maximum length of the shift register; yosys runs out of stack with longer ones.
CHAIN_BITS = 2000


class TimingHarness(Elaboratable):
    """A unit between a shift register and a registered XOR tree.

    Only the unit's own paths are timed, because paths in the harness have at most one 4-input gate,
    and no part of the unit can be optimised away.
    """

    def __init__(self, unit: wiring.Component, *, reset: bool) -> None:
        self.unit = unit
        # The pins.
        self.clk = Signal()
        self.serial_i = Signal()
        self.serial_o = Signal()
        # No reset: registers start from their initial values, as on an ECP5, whose global reset
        # needs no routing.
        self._reset = reset
        self._inputs = _port_bits(unit, wiring.In)
        self._outputs = _port_bits(unit, wiring.Out)
        self.input_bits = len(self._inputs)
        self.output_bits = len(self._outputs)
        if not self.input_bits or not self.output_bits:
            raise ValueError(
                f"unit: must have at least one input bit and one output bit, "
                f"not {self.input_bits} and {self.output_bits}"
            )

    @property
    def ports(self) -> list[Signal]:
        return [self.clk, self.serial_i, self.serial_o]

    def elaborate(self, platform: object) -> Module:
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
            # The second register bridges distance, because the unit's outputs may be far apart.
            level = _register(m, _register(m, folded))
        m.d.comb += self.serial_o.eq(level)
        return m


def _register(m: Module, value: Value) -> Signal:
    register = Signal(len(value), name=f"folded_{len(value)}", reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _port_bits(unit: wiring.Component, flow: wiring.Flow) -> Value:
    """Return all port bits of one direction, except ports tied to constants."""
    return Cat(
        Value.cast(value)
        for _path, member, value in unit.signature.flatten(unit)
        if member.flow == flow and isinstance(Value.cast(value), Signal)
    )
