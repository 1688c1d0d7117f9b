"""Numbers of insertions, and the pass over all rows in a clear."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .dictionary_figures import swept_per_row


class InsertionCount(wiring.Component):
    """Numbers the insertions modulo 2**T, and requests the sweep of a row at a fixed interval.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    insert : In(1)
    number : Out
        Number that the operation has if it is an insertion.
    tick : Out(1)
        One more row is due for the sweep.
    """

    def __init__(self, *, spec):
        self._turn = swept_per_row(spec)
        super().__init__({"insert": In(1), "number": Out(spec.timestamp_bits), "tick": Out(1)})

    def elaborate(self, platform):
        m = Module()
        turn = Signal(self._turn, init=1)
        m.d.sync += self.tick.eq(self.insert & turn[-1])
        with m.If(self.insert):
            m.d.sync += [self.number.eq(self.number + 1), turn.eq(turn.rotate_left(1))]
        return m


class Wipe(wiring.Component):
    """Visits all rows after a clear.

    Parameters
    ----------
    rows : int

    Members
    -------
    announced : In(1)
        A clear has arrived.
    clear : In(1)
        All operations before the clear have been decided.
    clears : Out(1)
        A row is cleared.
    row : Out(range(rows))
    clean : Out(1)
        No clear is pending or in progress.
    """

    def __init__(self, *, rows):
        super().__init__(
            {"announced": In(1), "clear": In(1)}
            | {"clears": Out(1), "row": Out(range(rows)), "clean": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        pending = Signal()
        m.d.sync += pending.eq(self.announced | (pending & ~self.clear))
        m.d.comb += self.clean.eq(~pending & ~self.clears)
        with m.If(self.clears):
            m.d.sync += [self.row.eq(self.row + 1), self.clears.eq(~self.row.all())]
        with m.If(self.clear):
            m.d.sync += [self.row.eq(0), self.clears.eq(1)]
        return m
