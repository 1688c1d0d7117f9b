"""Clocks of timing filters, which generate the ticks."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..frontend.ticks import TickSpacing
from ..parameters import require_integer


class BlockCount(wiring.Component):
    """Generates a tick at the last insertion of each block."""

    def __init__(self, *, block):
        require_integer("Block", block, minimum=1)
        self._block = block
        super().__init__(
            {
                "insert": In(1),
                "clear": In(1),  # starts a block
                "tick": Out(1),  # in the cycle of the last insertion of a block
                # insertions left in the block after the next one
                "left": Out(range(block), init=block - 1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = self.left
        m.d.comb += self.tick.eq(self.insert & (left == 0))
        with m.If(self.clear | self.tick):
            m.d.sync += left.eq(self._block - 1)
        with m.Elif(self.insert):
            m.d.sync += left.eq(left - 1)
        return m


class TickClock(wiring.Component):
    """Passes external ticks to the core, at least `min_period` cycles apart."""

    INPUTS = ()  # ports that are inputs of the core
    EVENTS = ()  # outputs that a unit counts

    def __init__(self, *, time_bits, min_period=0):
        self._min_period = min_period
        super().__init__(
            {
                "tick": In(1),
                "control": In(Control),  # flags that enter the core. Their ``shift`` is a tick.
                "shift": Out(1),  # whether the flags of the next cycle contain a tick
                # ticks so far, modulo a power of two. In the cycle after the flags of an operation,
                # this is the time of the operation.
                "time": Out(time_bits),
                "tick_lost": Out(1),  # see `TickSpacing`; always low if `min_period` is 0
            }
        )
        self._spacing = TickSpacing(min_period=min_period) if min_period else None

    @property
    def report(self):
        """Return the result fields of the clock, one cycle after the flags of an operation."""
        return {"time": self.time}

    def elaborate(self, platform):
        m = Module()
        tick = self.tick
        if self._spacing is not None:
            m.submodules.spacing = spacing = self._spacing
            m.d.comb += [spacing.i.eq(tick), self.tick_lost.eq(spacing.tick_lost)]
            tick = spacing.tick
        m.d.comb += self.shift.eq(tick)
        m.d.sync += self.time.eq(self.time + self.control.shift)
        return m


class BlockClock(wiring.Component):
    """Generates a tick after each block of insertions, before the next operation."""

    EVENTS = ()
    report = {}

    def __init__(self, *, block, phase_bits=0):
        self._blocks = BlockCount(block=block)
        # `phase`: high bits of the number of insertions in the block, with the flags.
        self.INPUTS = ("phase",) if phase_bits else ()
        super().__init__(
            {"control": In(Control), "shift": Out(1)}
            | {name: Out(phase_bits) for name in self.INPUTS}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.blocks = blocks = self._blocks
        m.d.comb += [
            blocks.insert.eq(self.control.insert),
            blocks.clear.eq(self.control.clear),
            self.shift.eq(blocks.tick),
        ]
        if self.INPUTS:
            m.d.comb += self.phase.eq((~blocks.left)[len(blocks.left) - len(self.phase) :])
        return m


def timing_clock(profile):
    spec, options = profile.spec, profile.options
    if profile.counted:
        return BlockClock(block=spec.block, phase_bits=spec.phase_bits if profile.decides else 0)
    return TickClock(
        time_bits=options.time_bits or profile.time_bits,
        # The prescaler enforces the minimum period itself.
        min_period=profile.min_period if options.ticks == "tick" else 0,
    )
