"""Front ends of units: they convert operations into the control flags of a core."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..interface import Operation
from ..latencies import GENERATION_LEAD, PAUSE, SHIFT_PAUSE, SPARE_SETTLE
from .gate import Gate
from .schedule import Schedule


class FrontEnd(wiring.Component):
    """Front end of a ring: converts one operation per cycle into control flags of the core.

    The front end counts the insertions of the generation. The first insertion of the next
    generation carries the shift. Accepted operations never stall the pipeline. An operation that
    may have to wait closes the gate behind itself and is held aside. These operations wait:

    - a SHIFT, until the spare is clean
    - a CLEAR, after which the gate stays closed until the memory is clear
    - every operation while generations are shorter than `minimum_generation`: operations then
      enter one at a time, each with a clean spare

    In longer generations insertions never wait.

    Latency `LATENCY` cycles from acceptance on `i` to `control`, except for SHIFT and CLEAR. A
    SHIFT closes the input for `SHIFT_PAUSE` cycles if the spare is clean. Otherwise a SHIFT or
    CLEAR closes the input until at most `PAUSE` cycles after the spare is clean.

    Parameters
    ----------
    generation_bits : int
        Width of the generation length.
    minimum_generation : int
        Shortest generation during which the spare can be cleared.
    clear_words : int
        Cycles of a clear. After this time, `clean` is valid.
    window : TimeWindow, optional
        Ends generations by time.
    when_full : str, optional
        As for `Schedule`.
    check : bool
        As for `Gate`.

    Members
    -------
    i : In(stream.Signature(Operation))
    credit : In(1)
        Whether operations may be accepted two cycles later.
    clean : In(1)
        Whether the spare is clean.
    generation : In(generation_bits)
        Insertions in a generation, at least 1. A change applies to generations that begin with an
        operation accepted at least `LEAD` cycles later.
    adopt : In(1)
        Whether a shift or clear adopts a pending secret.
    turned : Out(1)
        Whether `control` contains a shift or clear.
    control : Out(Control)
    limit : Out
        With a `window`: limit of the window, valid with `control`.
    illegal : Out(1)
        As for `Gate`.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    LATENCY = Gate.LATENCY + 1
    LEAD = GENERATION_LEAD
    SHIFT_PAUSE = SHIFT_PAUSE
    PAUSE = PAUSE

    def __init__(
        self,
        *,
        generation_bits,
        minimum_generation,
        clear_words,
        window=None,
        when_full=None,
        check=False,
    ):
        self.clock = self.window = window
        self.schedule = Schedule(
            generation_bits=generation_bits,
            minimum_generation=minimum_generation,
            clear_words=clear_words,
            when_full=when_full,
        )
        self.gate = Gate(start=self.LEAD + 2, check=check)
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "credit": In(1),
                "clean": In(1, init=1),
                "generation": In(generation_bits),
                "adopt": In(1),
                "turned": Out(1),
                "control": Out(Control),
            }
            | ({"limit": Out(len(window.limit))} if window else {})
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = self.gate
        m.submodules.schedule = schedule = self.schedule
        wiring.connect(m, wiring.flipped(self.i), gate.i)
        m.d.comb += [
            gate.credit.eq(self.credit),
            gate.one_at_a_time.eq(schedule.one_at_a_time),
            gate.clean.eq(schedule.spare_clean),
            schedule.generation.eq(self.generation),
            schedule.event.eq(gate.event),
            schedule.fill.eq(gate.fill),
            schedule.clean.eq(self.clean),
            self.turned.eq(schedule.turned),
        ]
        m.d.sync += [
            self.control.valid.eq(gate.valid),
            self.control.query.eq(gate.query),
            self.control.insert.eq(gate.insert),
            self.control.shift.eq(gate.event & schedule.full & ~gate.clears),
            self.control.clear.eq(gate.clears),
            self.control.adopt.eq(self.adopt),
        ]
        if self.window is not None:
            self._elaborate_window(m)
        if "illegal" in self.signature.members:
            m.d.comb += self.illegal.eq(gate.illegal)
        return m

    def _elaborate_window(self, m):
        window, gate, schedule = self.window, self.gate, self.schedule
        m.submodules.window = window
        m.d.comb += [
            window.insert.eq(gate.insert),
            window.turn.eq(gate.event & schedule.full),
            window.clear.eq(gate.clears),
            window.beyond.eq(schedule.beyond),
            window.clean.eq(schedule.spare_clean),
            schedule.old.eq(window.old),
            schedule.out.eq(window.out),
            self.limit.eq(window.limit),
        ]


class PlainFrontEnd(wiring.Component):
    """Front end of a core without generations: a gate and a source of ticks.

    SHIFT does nothing. A CLEAR or reset closes the gate until the memory is clean.

    Parameters
    ----------
    clock : Component, optional
        Source of ticks. It has the ports ``control``, the flags of the core, and ``shift``,
        whether the flags of the next cycle include a tick. The ports named in ``INPUTS`` are ports
        of the front end; the unit drives the others.
    check : bool
        As for `Gate`.

    Members
    -------
    i, credit, clean, control
        As for `FrontEnd`.
    illegal : Out(1)
        As for `Gate`.
    """

    LATENCY = Gate.LATENCY + 1

    def __init__(self, *, clock=None, check=False):
        self.clock = clock
        self.gate = Gate(start=SPARE_SETTLE + 1, check=check)
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "credit": In(1),
                "clean": In(1, init=1),
                "control": Out(Control),
            }
            | {name: Out(len(getattr(clock, name))) for name in getattr(clock, "INPUTS", ())}
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = self.gate
        wiring.connect(m, wiring.flipped(self.i), gate.i)
        m.d.comb += [gate.credit.eq(self.credit), gate.clean.eq(self.clean)]
        m.d.sync += [
            self.control.valid.eq(gate.valid),
            self.control.query.eq(gate.query),
            self.control.insert.eq(gate.insert),
            self.control.clear.eq(gate.clears),
        ]
        if self.clock is not None:
            m.submodules.clock = clock = self.clock
            m.d.comb += clock.control.eq(self.control)
            m.d.comb += [getattr(self, name).eq(getattr(clock, name)) for name in clock.INPUTS]
            m.d.sync += self.control.shift.eq(clock.shift)
        if "illegal" in self.signature.members:
            m.d.comb += self.illegal.eq(gate.illegal)
        return m
