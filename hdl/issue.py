"""Front end of a filter: decides when the ring turns and when an operation must wait."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from ..golden.operations import Operation as GoldenOperation
from .core import Control


class Operation(Enum, shape=3):
    """Operations of a filter; see `lately.golden.Operation`. Other values do nothing."""

    NONE = GoldenOperation.NONE.value
    QUERY = GoldenOperation.QUERY.value
    INSERT = GoldenOperation.INSERT.value
    CHECK_AND_INSERT = GoldenOperation.CHECK_AND_INSERT.value
    SHIFT = GoldenOperation.SHIFT.value
    CLEAR = GoldenOperation.CLEAR.value


class GenerationCounter(wiring.Component):
    """Tells when a generation is full.

    Counts the insertions that are left, in a low digit that is exact in every
    clock and a high one that follows it: the high digit changes once in
    sixteen insertions at most, which leaves time to register its borrow and
    its comparison with zero.

    Parameters
    ----------
    width : int
        Width of the generation length.

    Members
    -------
    generation : In(width)
        Insertions in a generation, at least 1; has to be steady for `LEAD` clocks before a load.
    enable : In(1)
        Whether the operation takes effect in this clock.
    insert, load : In(1)
        The operation: an insertion, and whether it begins a generation.
    full : Out(1)
        Whether no insertion is left.
    """

    LEAD = 3
    DIGIT = 4

    def __init__(self, *, width):
        self._width = max(width, self.DIGIT + 1)
        super().__init__(
            {
                "generation": In(width),
                "enable": In(1),
                "insert": In(1),
                "load": In(1),
                "full": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        low = Signal(self.DIGIT)
        high = Signal(self._width - self.DIGIT)
        high_zero = Signal()
        borrow = Signal()
        fresh, less_one = self._elaborate_lengths(m)
        length = Mux(self.insert, less_one.as_value(), fresh.as_value())
        loaded = data.View(fresh.shape(), length)

        # The high digit moves on by itself; a load overrides it.
        m.d.sync += [borrow.eq(0), high.eq(high - borrow), high_zero.eq(high == 0)]
        with m.If(self.enable & self.load):
            m.d.sync += [
                low.eq(loaded.low),
                high.eq(loaded.high),
                high_zero.eq(loaded.high_zero),
                self.full.eq(loaded.zero),
                borrow.eq(0),
            ]
        with m.Elif(self.enable & self.insert):
            m.d.sync += [
                low.eq(low - 1),
                borrow.eq(low == 0),
                self.full.eq((low == 1) & high_zero),
            ]
        return m

    def _elaborate_lengths(self, m):
        """Return the length, and one less, each with the flags that a load needs."""
        layout = data.StructLayout(
            {"low": self.DIGIT, "high": self._width - self.DIGIT, "high_zero": 1, "zero": 1}
        )
        length = Signal(self._width)
        less_one = Signal(self._width)
        m.d.sync += [length.eq(self.generation), less_one.eq(length - 1)]
        views = []
        for value, name in ((length, "fresh"), (less_one, "less_one")):
            view = Signal(layout, name=name)
            high = value[self.DIGIT :]
            assign = [
                view.low.eq(value),
                view.high.eq(high),
                view.high_zero.eq(high == 0),
                view.zero.eq(value == 0),
            ]
            m.d.sync += assign
            views.append(view)
        return views


class SpareTimer(wiring.Component):
    """Tells how long memory is being cleared: `words` clocks from the one after `start`.

    Members
    -------
    start : In(1)
    busy : Out(1)
    """

    def __init__(self, *, words):
        self._words = words
        super().__init__({"start": In(1), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Counts from the clock after the one that `busy` rises in; below zero it has run out.
        count = Signal(signed(self._words.bit_length() + 1), init=-1)
        started = Signal()
        m.d.sync += [
            started.eq(self.start),
            self.busy.eq(self.start | (self.busy & ((count >= 0) | (started & (self._words > 1))))),
        ]
        with m.If(started):
            m.d.sync += count.eq(self._words - 3)
        with m.Elif(count >= 0):
            m.d.sync += count.eq(count - 1)
        return m


class Issue(wiring.Component):
    """Turns operations into the control flags of the core, one per clock.

    Counts the insertions of the generation, and lets the first insertion of
    the next one carry the shift. Holds a shift back until the spare is clean,
    which takes `clear_words` clocks after the last one: at a generation longer
    than that, never. Holds everything back while a clear runs, and after
    reset, when it clears the memory on its own account.

    Latency `LATENCY` clocks from acceptance on `i` to `control`.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    generation_bits : int
        Width of the generation length.
    clear_words : int
        Clocks that clearing takes.

    Members
    -------
    i : In(stream.Signature({"key", "operation"}))
    generation : In(generation_bits)
        Insertions in a generation, at least 1. Counts from the next shift or clear that is
        accepted `GenerationCounter.LEAD` clocks after a change or later.
    control : Out(Control)
    key : Out(key_bits)
    """

    LATENCY = 2

    def __init__(self, *, key_bits, generation_bits, clear_words):
        self._generation_bits = generation_bits
        self._clear_words = clear_words
        request = data.StructLayout({"key": key_bits, "operation": Operation})
        super().__init__(
            {
                "i": In(stream.Signature(request)),
                "generation": In(generation_bits),
                "control": Out(Control),
                "key": Out(key_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = GenerationCounter(width=self._generation_bits)
        m.submodules.timer = timer = SpareTimer(words=self._clear_words)
        starting = self._elaborate_start(m)
        taken = Signal(Control, name="taken")
        taken_key = Signal.like(self.key, name="taken_key", reset_less=True)
        held = Signal(Control, name="held")
        held_key = Signal.like(self.key, name="held_key", reset_less=True)
        everything = Signal()
        waiting = timer.busy & (everything | held.shift)
        advance = Signal()
        turns = Signal()
        m.d.comb += [
            advance.eq(~(held.valid & waiting)),
            self.i.ready.eq(advance & ~starting.any()),
            turns.eq(taken.shift | (taken.insert & counter.full)),
            counter.generation.eq(self.generation),
            counter.enable.eq(advance),
            counter.insert.eq(taken.insert),
            counter.load.eq(turns | taken.clear | starting[0]),
            self.key.eq(held_key),
            self.control.valid.eq(held.valid & ~waiting),
            self.control.query.eq(held.query & ~waiting),
            self.control.insert.eq(held.insert & ~waiting),
            self.control.shift.eq(held.shift & ~waiting),
            # After reset a clear goes first, for which no result is due.
            self.control.clear.eq((held.clear & ~waiting) | starting[0]),
            timer.start.eq(self.control.shift | self.control.clear),
        ]
        with m.If(timer.start):
            m.d.sync += everything.eq(self.control.clear)
        decoded = self._decode(m)
        with m.If(advance):
            m.d.sync += [
                taken.eq(decoded),
                taken_key.eq(self.i.p.key),
                held.eq(taken),
                held.shift.eq(turns),
                held_key.eq(taken_key),
            ]
        return m

    def _elaborate_start(self, m):
        """Return a shift register whose last bit is the last clock of the start."""
        # The generation length has to arrive first.
        starting = Signal(GenerationCounter.LEAD + 1, init=-1)
        m.d.sync += starting.eq(starting >> 1)
        last = Signal(2)
        m.d.comb += last.eq(Cat(starting[0] & ~starting[1:].any(), starting[1:].any()))
        return last

    def _decode(self, m):
        """Return the flags of the operation that is being accepted, none if there is none."""
        accepted = self.i.valid & self.i.ready
        operation = self.i.p.operation
        flags = Signal(Control)
        check_and_insert = operation == Operation.CHECK_AND_INSERT
        m.d.comb += [
            flags.valid.eq(accepted),
            flags.query.eq(accepted & ((operation == Operation.QUERY) | check_and_insert)),
            flags.insert.eq(accepted & ((operation == Operation.INSERT) | check_and_insert)),
            flags.shift.eq(accepted & (operation == Operation.SHIFT)),
            flags.clear.eq(accepted & (operation == Operation.CLEAR)),
        ]
        return flags
