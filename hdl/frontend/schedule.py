"""Schedule of shifts: generations end by count or by time, once the spare is clean."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import GENERATION_SAMPLE
from ..parameters import require_integer
from ..pipeline import below, registered


class GenerationLength(wiring.Component):
    """Samples the generation length every `PERIOD` cycles, and announces short generations.

    Parameters
    ----------
    width : int
        Bits of a length.
    minimum : int
        Length below which operations enter one at a time.

    Members
    -------
    generation : In(width)
        Insertions in a generation, at least 1.
    length : Out(width)
        Length of a generation that begins now. This is the value of the port between `PERIOD` and
        ``2 * PERIOD`` cycles ago.
    below : Out(1)
        Whether `length` is below `minimum`.
    below_soon : Out(1)
        Whether `length` is below `minimum`, or will be within `PERIOD` cycles.

    Errors: as `require_integer`.
    """

    PERIOD = GENERATION_SAMPLE

    def __init__(self, *, width, minimum):
        require_integer("Width", width, least=1)
        require_integer("Minimum", minimum, least=1)
        self._minimum = minimum
        super().__init__(
            {
                "generation": In(width),
                "length": Out(width),
                "below": Out(1, init=1),
                "below_soon": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        phase = Signal(range(self.PERIOD))
        sample = Signal.like(self.generation)
        short = Signal(init=1)
        m.d.sync += [
            phase.eq(phase + 1),
            short.eq(below(sample, self._minimum)),
            self.below_soon.eq(short | self.below),
        ]
        with m.If(phase == self.PERIOD - 1):
            m.d.sync += [sample.eq(self.generation), self.length.eq(sample), self.below.eq(short)]
        return m


class GenerationCounter(wiring.Component):
    """Counts insertions and signals a full generation; one event per cycle.

    The count runs from minus the length to 0: its sign shows whether insertions are left.

    Parameters
    ----------
    width : int
        Bits of a length.
    goes_on : bool
        Whether a full generation may continue.

    Members
    -------
    length : In(width)
        Insertions of the next generation.
    event : In(1)
        An insertion, or another event, which begins a generation if `full` is high.
    turn : In(1)
        With `goes_on` only: whether the event begins a generation.
    fill : In(1)
        The next event begins a generation without an insertion. Low in the cycle of an event.
    full : Out(1)
        No insertion is left: the next event begins a generation.
    left : Out(signed(width + 1))
        Number of insertions left, negated.

    Errors: as `require_integer`.
    """

    def __init__(self, *, width, goes_on=False):
        require_integer("Width", width, least=1)
        super().__init__(
            {
                "length": In(width),
                "event": In(1),
                "fill": In(1),
                "full": Out(1),
                "left": Out(signed(width + 1)),
            }
            | ({"turn": In(1)} if goes_on else {})
        )

    def elaborate(self, platform):
        m = Module()
        # The event counts in the next generation, unless it only turns the ring.
        m.d.comb += self.full.eq(~self.left[-1])
        start = Cat(~self.length, 1).as_signed()
        if "turn" in self.signature.members:
            counts, turns = self.event & (self.turn | ~self.full), self.turn
            # This decision comes late, and selects one of two sums.
            begin = registered(m, (start + Mux(self.fill, 1, 2))[: len(self.left)], "begin")
            after = Mux(turns, begin.as_signed(), self.left + 1)
        else:
            counts, turns = self.event, self.full
            begins = turns & ~registered(m, self.fill, "filled")
            after = Mux(turns, start, self.left) + Cat(~begins, begins)
        with m.If(counts):
            m.d.sync += self.left.eq(after)
        with m.If(self.fill):
            m.d.sync += self.left.eq(0)
        return m


class SpareTimer(wiring.Component):
    """Signals that the spare is clean, `words` cycles after the last start.

    Parameters
    ----------
    words : int

    Members
    -------
    start : In(1)
    clean : Out(1)
        Low for `words` cycles, from the cycle after `start` or reset.

    Errors: as `require_integer`.
    """

    def __init__(self, *, words):
        require_integer("Words", words, least=1)
        self._words = words
        super().__init__({"start": In(1), "clean": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Remaining cycles, less one.
        left = Signal(signed(self._words.bit_length() + 1), init=self._words - 1)
        m.d.comb += self.clean.eq(left[-1])
        with m.If(self.start):
            m.d.sync += left.eq(self._words - 1)
        with m.Elif(~self.clean):
            m.d.sync += left.eq(left - 1)
        return m


_TIMED = {"old": In(1), "out": In(1), "beyond": Out(1)}


class Schedule(wiring.Component):
    """Ends a full or old generation: the next insertion carries the shift.

    Generations end by count alone if `when_full` is None. Otherwise an old generation continues
    while the oldest segment is within the span. With "overfill" a full generation does the same.

    In generations shorter than `minimum_generation` a shift could find the spare unclean.
    `one_at_a_time` is then high.

    Parameters
    ----------
    generation_bits : int
        Width of the generation length.
    minimum_generation : int
        Shortest generation during which the spare can be cleared.
    clear_words : int
        Cycles of a clear. After this time, `clean` is valid.
    when_full : str, optional
        "shorten" or "overfill" for a window in time.

    Members
    -------
    generation : In(generation_bits)
        Insertions in a generation, at least 1.
    event : In(1)
        An insertion, or an operation that turns the ring after `fill`.
    fill : In(1)
        An operation that turns the ring is waiting.
    clean : In(1)
        Whether the store reports a clean spare.
    old, out : In(1)
        For a window in time only: from a `TimeWindow`.
    beyond : Out(1)
        For a window in time only: the event is an insertion beyond the capacity of its generation.
    full : Out(1)
        The event turns the ring.
    turned : Out(1)
        The event in the previous cycle turned the ring.
    spare_clean : Out(1)
        Whether the spare is clean.
    one_at_a_time : Out(1)
        Whether operations must enter one at a time.

    Errors: as `require_integer`.
    """

    def __init__(self, *, generation_bits, minimum_generation, clear_words, when_full=None):
        require_integer("Generation bits", generation_bits, least=1)
        self._when_full = when_full
        self.minimum_generation = minimum_generation
        self.length = GenerationLength(width=generation_bits, minimum=minimum_generation)
        self.counter = GenerationCounter(width=generation_bits, goes_on=when_full is not None)
        self._timer = SpareTimer(words=clear_words)
        super().__init__(
            {
                "generation": In(generation_bits),
                "event": In(1),
                "fill": In(1),
                "clean": In(1, init=1),
                "full": Out(1),
                "turned": Out(1),
                "spare_clean": Out(1),
                "one_at_a_time": Out(1, init=1),
            }
            | (_TIMED if when_full else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.length = length = self.length
        m.submodules.counter = counter = self.counter
        m.submodules.timer = timer = self._timer
        m.d.comb += [
            length.generation.eq(self.generation),
            counter.length.eq(length.length),
            counter.event.eq(self.event),
            counter.fill.eq(self.fill),
            timer.start.eq(self.turned),
            self.full.eq(counter.full if self._when_full is None else self._elaborate_due(m)),
            self.spare_clean.eq(timer.clean & self.clean),
        ]
        # The current generation, with the length at its start, is too short.
        short = Signal(init=1)
        m.d.sync += [
            self.turned.eq(self.event & self.full),
            self.one_at_a_time.eq(short | length.below | length.below_soon),
        ]
        with m.If(self.event & self.full):
            m.d.sync += short.eq(length.below)
        return m

    def _elaborate_due(self, m):
        """Return whether an event turns the ring, for a window in time."""
        full = self.counter.full
        m.d.comb += [
            self.counter.turn.eq(self.full),
            self.beyond.eq(self.event & full & ~self.full),
        ]
        if self._when_full == "shorten":
            return full | (self.old & ~self.out)
        forced = Signal()
        m.d.sync += forced.eq(self.fill | (forced & ~self.event))
        return forced | ((full | self.old) & ~self.out)
