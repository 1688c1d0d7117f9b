"""A column of a ring: one that entries enter from the column before, and leave for the next."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..pipeline import delayed, registered
from .column import Column, agreeing_pairs
from .dictionary_figures import LATE_ROWS

BEHIND_ROWS = LATE_ROWS // 2
"""Rows by which the sweep of a column may be late until no more entries come there: fewer than
those with which the input would rest."""

WATCHED = 3
"""Clocks from an entry's arrival until operations are compared with its row."""

KNOWN = 3
"""Clocks from what a cell held to its digest, and whether it is of the window."""

EARLIEST = WATCHED + 1 + CellMemory.LATENCY + KNOWN + 2
"""Clocks from an entry's arrival to its exchange, at least: one until the sweep has left the port,
and two in which it asks. An operation that was under way when the entry came has been compared with
its row by then, on leaving, `HAZARDS` clocks after it read."""


class Entry(data.StructLayout):
    """A digest, and the number of the insertion that wrote it.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """

    def __init__(self, *, spec):
        super().__init__({"digest": spec.digest_bits, "time": spec.timestamp_bits})


def moved_row(row, rest, terms):
    """Return a row with what a column adds to it, which takes away what it has added.

    Parameters
    ----------
    row, rest : Value
    terms : sequence
        Of one column, as of `lately.golden.hash.functions.offset_terms`.
    """
    return Cat(reduce(xor, [row[bit], *(rest[term] for term in added)])
               for bit, added in enumerate(terms))  # fmt: skip


class RingColumn(Column):
    """Column in which an entry of the stash may take the place of another.

    The exchange happens behind the operations, in clocks in which none of them writes the column.
    An entry arrives with the place of the stash that keeps it until then. Its cell is
    read, and written some clocks later, while the place takes over what it held: in a clock at
    which no operation that is under way has read that cell or will write it. As
    all digests that are concerned have the same row, that tells also that none asks for them.
    Otherwise, or if the place has changed, the entry stays where it is.

    Parameters
    ----------
    spec : WindowDictionarySpec
    memory : CellMemory
    side, protect
        As for `Column`. With "parity", an entry does not take the place of one that is doubted.
    terms : sequence
        Of the column, as of `lately.golden.hash.functions.offset_terms`.

    Members
    -------
    As those of `Column`, and:

    reading_row : In
        Row of the operation that reads two clocks later, if one does.
    arrives : In(1)
        With `entry` and `place`, while not `closed`: an entry comes.
    entry : In(Entry)
    place : In
        Its place of the stash, one bit of those that there are.
    barred : In
        Places of the stash that changed the clock before, or are about to be given away.
    pushes : In(1)
        An operation goes to the stash in the next clock.
    closed : Out(1)
        An entry is here, or the sweep is behind.
    holds : Out
        Its place; 0 if there is none, or if it was barred when the entry arrived.
    asks : Out(1)
        It is to be written.
    granted : In(1)
        It may be written in the next clock; not in two clocks one after the other.
    done : Out(1)
        It is written, in place of `left`.
    left : Out(Entry)
    lives : Out(1)
        That is an entry of the window.
    """

    def __init__(self, *, spec, memory, terms, side=0, protect="none"):
        super().__init__(
            spec=spec,
            memory=memory,
            side=side,
            protect=protect,
            reading_row=In(range(spec.rows)),
            arrives=In(1),
            entry=In(Entry(spec=spec)),
            place=In(spec.stash),
            barred=In(spec.stash),
            pushes=In(1),
            closed=Out(1),
            holds=Out(spec.stash),
            asks=Out(1),
            granted=In(1),
            done=Out(1),
            left=Out(Entry(spec=spec)),
            lives=Out(1),
        )
        self._terms = terms
        self._arrived = Signal(range(spec.rows), reset_less=True)
        self._newcomer = Signal(self.checks.cell, reset_less=True)
        self._found = Signal(self.checks.cell, reset_less=True, name="found")
        self._busy, self._ended = Signal(), Signal()
        # The sweep begins no row; it has left the port.
        self._wants, self._visits = Signal(), Signal()

    def _elaborate_port(self, m, swept, writes, erase):
        memory, written = self.memory, self.written
        passing = self.checks.from_operation(self.write, writes)
        m.d.comb += [
            memory.b_address.eq(
                Mux(self.write, self.write_row, Mux(self._visits, self._arrived, swept))
            ),
            memory.write.eq(self.write | erase | self.done),
            # Of a cell that is erased, which is none that is visited, the rest does not matter.
            memory.value.eq(
                self.checks.value(
                    Mux(self.write, written.used, self._visits),
                    Mux(passing, written.as_value(), self._newcomer.as_value())[1:],
                    writes & ~self.write,
                )
            ),
        ]

    def _may_start(self):
        return super()._may_start() & ~self._wants

    def elaborate(self, platform):
        m = super().elaborate(platform)
        reads, leaves = self._elaborate_meetings(m)
        fails, may = Signal(), Signal()
        spoiled = self._elaborate_spoiling(m)
        self._elaborate_visit(m, delayed(m, self.arrives, WATCHED - 1, "came"))
        self.checks.elaborate_newcomer(m, self._newcomer)
        behind = registered(m, self._due >= BEHIND_ROWS, "behind")
        m.d.comb += [
            self.closed.eq(self._busy | behind),
            fails.eq(
                self.checks.refused(
                    m, spoiled | (self._wants & (reads | leaves)), self.asks, self._found
                )
            ),
            self.done.eq(may & ~reads & ~self.write & ~self.pushes),
        ]
        m.d.sync += [
            may.eq(self.asks & self.granted & ~fails & ~self._ended),
            self._ended.eq(self._busy & ~self._ended & (fails | self.done)),
        ]
        with m.If(self._ended):
            m.d.sync += [self._busy.eq(0), self.holds.eq(0)]
        with m.If(self.arrives):
            m.d.sync += [self._busy.eq(1), self.holds.eq(self.place & ~self.barred)]
            self._elaborate_arrival(m)
        return m

    def _elaborate_spoiling(self, m):
        """Return whether an entry was here the clock before whose place changed before that."""
        kept = self.holds & ~self.barred
        kept = Cat(kept[low : low + 4].any() for low in range(0, len(kept), 4))
        return registered(m, self._busy, "was_busy") & ~registered(m, kept, "kept").any()

    def _elaborate_visit(self, m, watched):
        """Read the cell, and ask to be written when it is about to be known what it held."""
        # Read, and so many clocks later.
        flight = Signal(self.memory.LATENCY + KNOWN - 2)
        begins, begun, known = Signal(), Signal(), Signal()
        m.d.comb += begins.eq(self._visits & ~begun & ~self.write)
        m.d.sync += [
            self._wants.eq(self._wants | watched),
            self._visits.eq(self._visits | (self._wants & ~self._sweeping)),
            flight.eq(Cat(begins, flight)),
            begun.eq(begun | begins),
            known.eq(known | flight[-1]),
            self.asks.eq(known),
        ]
        with m.If(self._ended):
            m.d.sync += [
                each.eq(0) for each in (self._wants, self._visits, flight, begun, known, self.asks)
            ]
        self._elaborate_departure(m, flight[self.memory.LATENCY - 1])

    def _elaborate_arrival(self, m):
        low, rest = self._parts(self.entry.digest)
        m.d.sync += [
            self._arrived.eq(moved_row(low, rest, self._terms)),
            self._newcomer.used.eq(1),
            self._newcomer.time.eq(self.entry.time),
            self._newcomer.rest.eq(rest),
        ]

    def _elaborate_meetings(self, m):
        """Return whether an operation of the row reads, and whether one writes or could have."""
        meetings = []
        for name, row in (("reads", self.reading_row), ("leaves", self.coming_row)):
            pairs = registered(m, agreeing_pairs(row, self._arrived), f"{name}_pairs")
            meetings.append(registered(m, pairs.all(), name))
        return meetings

    def _elaborate_departure(self, m, read):
        """Tell which entry the cell held, and whether it is of the window still."""
        found = self._found
        with m.If(read):
            m.d.sync += found.eq(self.memory.b_word)
        distance = (self.number - found.time)[: len(found.time)]
        distance = registered(m, distance, "found_distance", reset_less=True)
        low = moved_row(self._arrived, found.rest, self._terms)
        m.d.sync += [
            self.left.digest.eq(Cat(low, found.rest)),
            self.lives.eq(found.used & (distance < self._spec.window + 1)),
        ]
        m.d.comb += self.left.time.eq(found.time)

    def _parts(self, digest):
        """Return the low part of a digest, and the rest."""
        return digest[: self._spec.row_bits], digest[self._spec.row_bits :]
