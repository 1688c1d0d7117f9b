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
        load = self.enable & self.load
        borrowing = self.enable & self.insert & ~self.load & (low == 0)
        m.d.sync += [
            borrow.eq(borrowing),
            high.eq(Mux(load, loaded.high, high - borrow)),
            high_zero.eq(Mux(load, loaded.high_zero, high == 0)),
        ]
        with m.If(self.enable & (self.load | self.insert)):
            m.d.sync += [
                low.eq(Mux(self.load, loaded.low, low - 1)),
                self.full.eq(Mux(self.load, loaded.zero, (low == 1) & high_zero)),
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
    more : Out(1)
        Whether the clearing that runs in this clock goes on in the next; does
        not know yet of a `start` in this clock.
    """

    def __init__(self, *, words):
        self._words = words
        super().__init__({"start": In(1), "more": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Loaded a clock after the start; below zero the last clock is at hand.
        count = Signal(signed(self._words.bit_length() + 1), init=-1)
        started = Signal()
        going_on = (count >= 0) | (started & (self._words > 2))
        m.d.sync += [
            started.eq(self.start),
            self.more.eq((self.start & (self._words > 1)) | (self.more & going_on)),
        ]
        with m.If(started):
            m.d.sync += count.eq(max(self._words - 4, -1))
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

    LATENCY = 3

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
        decoded, decoded_key = self._elaborate_decode(m, starting.any())
        # After reset a clear goes first, for which no result is due.
        held = Signal(Control, name="held", init={"clear": 1})
        held_key = Signal.like(self.key, name="held_key", reset_less=True)
        turns = Signal()
        m.d.comb += [
            turns.eq(decoded.shift | (decoded.insert & counter.full)),
            counter.generation.eq(self.generation),
            counter.enable.eq(self._advance),
            counter.insert.eq(decoded.insert),
            counter.load.eq(turns | decoded.clear | starting[0]),
            self.key.eq(held_key),
            self.control.eq(held.as_value() & self._advance.replicate(len(held.as_value()))),
            timer.start.eq(self._advance & (held.shift | held.clear)),
        ]
        with m.If(self._advance):
            m.d.sync += [held.eq(decoded), held.shift.eq(turns), held_key.eq(decoded_key)]
        self._elaborate_wait(m, timer, held, decoded, turns)
        return m

    def _elaborate_start(self, m):
        """Return flags of the start, the first of which is high in its last clock only."""
        # The generation length has to arrive before it can be loaded.
        starting = Signal(GenerationCounter.LEAD + 1, init=-1)
        m.d.sync += starting.eq(starting >> 1)
        return Cat(starting[0] & ~starting[1:].any(), starting[1:].any())

    def _elaborate_decode(self, m, closed):
        """Return flags and key of the operation after next, none if there is none."""
        self._advance = Signal()
        accepted = Signal()
        operation = Signal(Operation)
        key = Signal.like(self.key, name="accepted_key", reset_less=True)
        decoded = Signal(Control, name="decoded")
        decoded_key = Signal.like(self.key, name="decoded_key", reset_less=True)
        m.d.comb += self.i.ready.eq(self._advance & ~closed)
        check_and_insert = operation == Operation.CHECK_AND_INSERT
        with m.If(self._advance):
            m.d.sync += [
                accepted.eq(self.i.valid & ~closed),
                operation.eq(self.i.p.operation),
                key.eq(self.i.p.key),
                decoded.valid.eq(accepted),
                decoded.query.eq(accepted & ((operation == Operation.QUERY) | check_and_insert)),
                decoded.insert.eq(accepted & ((operation == Operation.INSERT) | check_and_insert)),
                decoded.shift.eq(accepted & (operation == Operation.SHIFT)),
                decoded.clear.eq(accepted & (operation == Operation.CLEAR)),
                decoded_key.eq(key),
            ]
        return decoded, decoded_key

    def _elaborate_wait(self, m, timer, held, decoded, turns):
        """Hold the pipeline while the held operation must not be issued."""
        blocked = Signal()
        everything = Signal()
        m.d.comb += self._advance.eq(~blocked)
        with m.If(timer.start):
            m.d.sync += everything.eq(held.clear)
        # Decided a clock ahead: what starts now, and what goes on, blocks the operation that will
        # be held then.
        m.d.sync += blocked.eq(
            (timer.start & (turns | (decoded.valid & held.clear)))
            | (timer.more & (blocked | turns | (decoded.valid & everything)))
        )
