"""Front end of a filter: decides when the ring turns and when an operation must wait."""

from amaranth.hdl import Module, Signal, signed
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
        Insertions in a generation, at least 1. Read at every shift and clear.
    control : Out(Control)
    key : Out(key_bits)
    """

    LATENCY = 1

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
        operation = self.i.p.operation
        held = Signal(Control)
        held_key = Signal(len(self.key), reset_less=True)
        starting = Signal(init=1)
        blocked = Signal()
        full = Signal()
        turns = Signal()
        issued = Signal()
        m.d.comb += [
            turns.eq(held.shift | (held.insert & full)),
            issued.eq(held.valid & ~blocked),
            self.i.ready.eq(~(held.valid & blocked)),
            self.key.eq(held_key),
            self.control.valid.eq(issued),
            self.control.query.eq(issued & held.query),
            self.control.insert.eq(issued & held.insert),
            self.control.shift.eq(issued & turns),
            # After reset a clear goes first, for which no result is due.
            self.control.clear.eq((issued & held.clear) | starting),
        ]
        check_and_insert = operation == Operation.CHECK_AND_INSERT
        with m.If(self.i.ready):
            m.d.sync += [
                held.valid.eq(self.i.valid),
                held.query.eq((operation == Operation.QUERY) | check_and_insert),
                held.insert.eq((operation == Operation.INSERT) | check_and_insert),
                held.shift.eq(operation == Operation.SHIFT),
                held.clear.eq(operation == Operation.CLEAR),
                held_key.eq(self.i.p.key),
            ]
        m.d.sync += starting.eq(0)
        m.d.comb += blocked.eq(self._elaborate_wait(m, turns))
        m.d.comb += full.eq(self._elaborate_generation(m))
        return m

    def _elaborate_wait(self, m, turns):
        """Return whether the held operation has to wait for memory that is being cleared."""
        # One clock per word; below zero the memory is clean.
        wait = Signal(signed(self._clear_words.bit_length() + 1), init=-1)
        everything = Signal()
        with m.If(self.control.shift | self.control.clear):
            m.d.sync += [wait.eq(self._clear_words - 1), everything.eq(self.control.clear)]
        with m.Elif(wait >= 0):
            m.d.sync += wait.eq(wait - 1)
        return (wait >= 0) & (everything | turns)

    def _elaborate_generation(self, m):
        """Return whether the generation is full, so that an insertion must shift."""
        # Insertions left, less one: below zero the generation is full.
        room = Signal(signed(self._generation_bits + 1))
        with m.If(self.control.shift | self.control.clear):
            m.d.sync += room.eq(self.generation - 1 - self.control.insert)
        with m.Elif(self.control.insert):
            m.d.sync += room.eq(room - 1)
        return room < 0
