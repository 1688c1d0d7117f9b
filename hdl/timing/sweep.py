"""Sweep over the cells of a part: restamps those that have expired, in clocks that are free."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .sweep_rules import CELL_CLOCKS
from .ticks import constant_flags, is_at_least


class Sweep(wiring.Component):
    """Takes one cell after the other in hand: reads it, and writes it if expired or wrong.

    A cell takes `CELL_CLOCKS` clocks, and one more for each in which its port is `busy` when it
    is to read or write. It is not written if an operation has inserted into it since it was read.

    After reset and `clear`, all cells are written first, one per clock; `clean` is high once
    that is done.

    Parameters
    ----------
    cells : int
        Power of two.
    limit : int
        Age from which on a cell has expired.
    stamp_bits : int
        Width of an age.
    protect : str
        Of the cells, one of `lately.hdl.latencies.PROTECTIONS`.

    Members
    -------
    busy : In(1)
        The port is taken in this clock.
    age : In(stamp_bits)
        Of the cell that was read `READ` clocks ago.
    wrong : In(1)
        If protected, a clock later: it is to be written as it is wrong.
    inserted : In(range(cells))
        Cell of an operation that writes, or would, `AHEAD` clocks later.
    insert : In(1)
        Whether there is one.
    clear : In(1)
    address : Out(range(cells))
        Cell in hand.
    write : Out(1)
        It is to be written unless the port is busy.
    renew : Out(1)
        If protected, with `write`: it is, as the cell is wrong; with "ecc" only if that has not
        expired.
    read : Out(1)
        With "ecc": the word of the cell in hand is there.
    clean : Out(1)
    """

    CLOCKS = CELL_CLOCKS
    READ = 4
    """Clocks from the clock of a read to the age."""
    WORD = 4
    """Clock of a cell in which its word is there, if there are copies of it."""
    AHEAD = 3
    SETTLE, ASK, DECIDE, NEXT = 0, 1, 8, 9
    """Clocks of a cell at which something happens."""

    def __init__(self, *, cells, limit, stamp_bits, protect="none"):
        self._cells = cells
        self._limit = limit
        self._protected, self._voted = protect != "none", protect == "ecc"
        super().__init__(
            {
                "busy": In(1),
                "age": In(stamp_bits),
                "inserted": In(range(cells)),
                "insert": In(1),
                "clear": In(1),
                "address": Out(range(cells)),
                "write": Out(1),
                "clean": Out(1),
            }
            | ({"wrong": In(1), "renew": Out(1)} if self._protected else {})
            | ({"read": Out(1)} if self._voted else {})
        )

    def elaborate(self, platform):
        m = Module()
        wiping = Signal(init=1)
        # Which clock of the cell in hand it is.
        at = Signal(self.CLOCKS, init=1)
        expired = Signal()
        touched = self._elaborate_touched(m, at)
        past = registered(m, constant_flags(self.age, self._limit), "past")
        with m.If(at[self.DECIDE - 1]):
            m.d.sync += expired.eq(is_at_least(past))
        if self._protected:
            expired |= self._elaborate_renewal(m, at, wiping, is_at_least(past))
        restamps = expired & ~touched
        waits = self.busy & (at[self.ASK] | at[self.DECIDE] & restamps)
        with m.If(~waits):
            m.d.sync += at.eq(at.rotate_left(1))
        m.d.comb += [
            self.write.eq(wiping | at[self.DECIDE] & restamps),
            self.clean.eq(~wiping),
        ]
        # Counted a clock after the decision, which comes late.
        following = Signal(len(self.address) + 1)
        m.d.comb += following.eq(self.address + 1)
        with m.If(wiping | at[self.NEXT]):
            m.d.sync += self.address.eq(following)
        with m.If(wiping):
            m.d.sync += [at.eq(1), wiping.eq(~following[-1])]
        with m.If(self.clear):
            m.d.sync += [wiping.eq(1), self.address.eq(0)]
        return m

    def _elaborate_renewal(self, m, at, wiping, expired):
        """Return whether the cell in hand is written as it is wrong."""
        renews = Signal()
        with m.If(at[self.DECIDE - 1]):
            m.d.sync += renews.eq(self.wrong & ~expired if self._voted else self.wrong)
        m.d.comb += self.renew.eq(renews & ~wiping)
        if self._voted:
            m.d.comb += self.read.eq(at[self.WORD])
        return renews

    def _elaborate_touched(self, m, at):
        """Return whether an operation inserts into the cell between its read and its write."""
        here, there = self.inserted, self.address
        pairs = Cat(here[low : low + 2] == there[low : low + 2] for low in range(0, len(here), 2))
        pairs = registered(m, Cat(self.insert, pairs), "pairs")
        same = registered(m, pairs.all(), "same")
        touched = Signal()
        # In the first clocks, what is known is of the cell before.
        m.d.sync += touched.eq((touched | same) & ~(at[self.SETTLE] | at[self.SETTLE + 1]))
        return touched
