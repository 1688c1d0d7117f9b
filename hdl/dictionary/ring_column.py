"""A column of a ring: one that entries enter from the column before, and leave for the next."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .column import Cell, Column, agreeing_pairs
from .dictionary_figures import HAZARDS

SETTLED = HAZARDS + 3
"""Clocks from an entry's arrival until each operation under way has been compared with its row, or
it is known what that has done to the stash."""

KNOWN = 3
"""Clocks from what a cell held to its digest, and whether it is of the window."""


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
    side : int
        As for `Column`.
    terms : sequence
        Of the column, as of `lately.golden.hash.functions.offset_terms`.

    Members
    -------
    As those of `Column`, and:

    reading_row : In
        Row of the operation that reads two clocks later, if one does.
    arrives : In(1)
        With `entry` and `place`, while not `busy`: an entry comes.
    entry : In(Entry)
    place : In
        Its place of the stash, one bit of those that there are.
    changed : In
        Places of the stash that changed the clock before.
    pushes : In(1)
        An operation goes to the stash in the next clock.
    busy : Out(1)
        An entry is here.
    holds : Out
        Its place, or 0.
    asks : Out(1)
        It may be written if that is `granted`.
    granted : In(1)
    done : Out(1)
        It is written, in place of `left`.
    left : Out(Entry)
    lives : Out(1)
        That is an entry of the window.
    """

    def __init__(self, *, spec, memory, terms, side=0):
        super().__init__(
            spec=spec,
            memory=memory,
            side=side,
            reading_row=In(range(spec.rows)),
            arrives=In(1),
            entry=In(Entry(spec=spec)),
            place=In(spec.stash),
            changed=In(spec.stash),
            pushes=In(1),
            busy=Out(1),
            holds=Out(spec.stash),
            asks=Out(1),
            granted=In(1),
            done=Out(1),
            left=Out(Entry(spec=spec)),
            lives=Out(1),
        )
        self._terms = terms
        self._arrived = Signal(range(spec.rows), reset_less=True)
        self._newcomer = Signal(Cell(spec=spec), reset_less=True)
        # The sweep leaves the port alone from the clock after the cell is read.
        self._visits = Signal()

    def _elaborate_port(self, m, swept, erase):
        memory = self.memory
        m.d.comb += [
            memory.b_address.eq(
                Mux(self.write, self.write_row, Mux(self._sweeping, swept, self._arrived))
            ),
            memory.write.eq(self.write | erase | self.done),
            # Of a cell that is erased the rest does not matter.
            memory.value.eq(
                Cat(
                    Mux(self.write, self.written.used, self.done),
                    Mux(self.write, self.written.as_value(), self._newcomer.as_value())[1:],
                )
            ),
        ]

    def _may_start(self):
        return super()._may_start() & ~self._visits

    def elaborate(self, platform):
        m = super().elaborate(platform)
        met = self._elaborate_meetings(m)
        place = Signal.like(self.place)
        age = Signal(range(SETTLED + 1))
        gone, begins, spoiled = Signal(), Signal(), Signal()
        # Read, and so many clocks later.
        flight = Signal(self.memory.LATENCY + KNOWN - 1)
        known = Signal()
        m.d.comb += [
            self.holds.eq(place & self.busy.replicate(len(place))),
            # Comparisons are of this row from the third clock on.
            gone.eq(spoiled | ((age > 1) & met)),
            begins.eq(self.busy & (age > 1) & ~self._visits & ~self._sweeping & ~self.write),
            self.asks.eq(known & (age == SETTLED)),
            self.done.eq(self.asks & self.granted & ~self.write & ~self.pushes & ~gone),
        ]
        m.d.sync += [
            flight.eq(Cat(begins, flight)),
            known.eq(known | flight[-1]),
            spoiled.eq((self.holds & self.changed).any()),
            self._visits.eq(self._visits | begins),
            age.eq(Mux(age == SETTLED, age, age + 1)),
        ]
        with m.If(~self.busy | gone | self.done):
            m.d.sync += [self.busy.eq(0), self._visits.eq(0), flight.eq(0), known.eq(0)]
        with m.If(self.arrives):
            m.d.sync += [self.busy.eq(1), place.eq(self.place), age.eq(0)]
            self._elaborate_arrival(m)
        self._elaborate_departure(m, flight[self.memory.LATENCY - 1])
        return m

    def _elaborate_arrival(self, m):
        low, rest = self._parts(self.entry.digest)
        m.d.sync += [
            self._arrived.eq(moved_row(low, rest, self._terms)),
            self._newcomer.used.eq(1),
            self._newcomer.time.eq(self.entry.time),
            self._newcomer.rest.eq(rest),
        ]

    def _elaborate_meetings(self, m):
        """Return whether an operation reads the row, or writes it."""
        reads = registered(m, agreeing_pairs(self.reading_row, self._arrived), "reads_pairs")
        writes = registered(m, agreeing_pairs(self.coming_row, self._arrived), "writes_pairs")
        reads = registered(m, reads.all(), "reads")
        return reads | (registered(m, writes.all(), "writes") & self.write)

    def _elaborate_departure(self, m, read):
        """Tell which entry the cell held, and whether it is of the window still."""
        found = Signal(Cell(spec=self._spec), reset_less=True)
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
