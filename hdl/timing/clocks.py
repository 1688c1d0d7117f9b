"""Clocks of timing filters: they generate ticks, each before an operation."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..frontend.tick_spacing import TickSpacing
from .ticks import BlockCount


class TickClock(wiring.Component):
    """Passes external ticks to the core, no closer together than the core allows.

    Parameters
    ----------
    time_bits : int
        Width of the tick counter.
    least : int
        Minimum cycles between two ticks; 0 if the spacing of `tick` is always sufficient.

    Members
    -------
    tick : In(1)
    control : In(Control)
        Flags that enter the core. Their ``shift`` is a tick.
    shift : Out(1)
        Whether the flags of the next cycle contain a tick.
    time : Out(time_bits)
        Ticks so far, modulo a power of two. In the cycle after the flags of an operation, this is
        the time of the operation.
    tick_lost : Out(1)
        As for `TickSpacing`; always low if `least` is 0.

    Errors: as for `TickSpacing`.
    """

    INPUTS = ()
    """Ports that are inputs of the core."""

    EVENTS = ()
    """Outputs that a unit counts."""

    def __init__(self, *, time_bits, least=0):
        self._least = least
        super().__init__(
            {
                "tick": In(1),
                "control": In(Control),
                "shift": Out(1),
                "time": Out(time_bits),
                "tick_lost": Out(1),
            }
        )
        self._spacing = TickSpacing(least=least) if least else None

    @property
    def report(self):
        """Fields of results that the clock provides, in the cycle after the flags."""
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
    """Generates a tick before the first operation after each block of insertions.

    Parameters
    ----------
    block : int
        Insertions per block.
    phase_bits : int
        Width of the phase.

    Members
    -------
    control, shift
        As for `TickClock`.
    phase : Out(phase_bits)
        High bits of the number of insertions into the block, with the flags; only if `phase_bits`
        is not 0.

    Errors: as for `BlockCount`.
    """

    EVENTS = ()
    report = {}

    def __init__(self, *, block, phase_bits=0):
        self._blocks = BlockCount(block=block)
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
    """Return the clock of a timing filter's unit.

    Parameters
    ----------
    profile : TimingProfile
    """
    spec, options = profile.spec, profile.options
    if profile.counted:
        return BlockClock(block=spec.block, phase_bits=spec.phase_bits if profile.decides else 0)
    return TickClock(
        time_bits=options.time_bits or profile.time_bits,
        # A period is never shorter.
        least=profile.least_period if options.ticks == "tick" else 0,
    )
