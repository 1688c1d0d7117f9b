"""Core of a window dictionary whose entries move on from column to column, in a ring."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Signal
from amaranth.lib.wiring import Out

from ...golden.hash.functions import offset_terms
from ..pipeline import registered
from .core import DictionaryCore
from .placement import Placement
from .ring_column import RingColumn
from .ring_stash import RingStash, lowest
from .stash import selected


class RingPlacement(Placement):
    """Placement that tells a clock ahead what it pushes, in a register for the columns alone.

    Parameters
    ----------
    columns : int

    Members
    -------
    As those of `Placement`, and:

    pushes : Out(1)
        The operation that was decided the clock before goes to the stash.
    """

    def __init__(self, *, columns):
        super().__init__(columns=columns, pushes=Out(1))

    def _elaborate_decision(self, m, told, hit):
        super()._elaborate_decision(m, told, hit)
        m.d.sync += self.pushes.eq(self.insert & ~hit & ~told.free.any())


class RingCore(DictionaryCore):
    """Pipeline of a window dictionary with moves: as `DictionaryCore`, with fewer columns.

    An operation that finds no cell goes to the stash, and operations go on. In their shadow each
    column exchanges an entry of the stash for the one that its cell holds, which then
    looks for a cell in the next column. The first that meets a free cell stays there.

    The input rests also while little room is left in the stash.

    Parameters
    ----------
    spec : WindowDictionarySpec
    options
        As for `DictionaryCore`.

    Members, errors: as `DictionaryCore`.
    """

    def __init__(self, *, spec, **options):
        self._terms = offset_terms(
            columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
        )
        self.stash = RingStash(spec=spec)
        super().__init__(spec=spec, **options)

    def _column(self, index, **options):
        return RingColumn(spec=self._spec, terms=self._terms[index], **options)

    def _placement(self):
        return RingPlacement(columns=self._spec.columns)

    def _stash(self):
        return self.stash

    def _rests(self, late):
        return late | self.stash.crowded

    def _shortens(self, stash, count):
        return stash.lost & ~(count < stash.lost_distance)

    def _elaborate_columns(self, m, pipe, digest, rows, number, placement, *clear):
        distance = super()._elaborate_columns(m, pipe, digest, rows, number, placement, *clear)
        stash = self.stash
        # The column that may write in the next clock, and another in the clock after that.
        granted, asks = Signal(len(self.columns)), Cat(column.asks for column in self.columns)
        m.d.sync += granted.eq(lowest(asks & ~granted))
        arrivals = stash.offers & ~Cat(column.closed for column in self.columns)
        m.d.comb += [
            stash.held.eq(reduce(or_, [column.holds for column in self.columns])),
            stash.takes.eq(arrivals.any()),
        ]
        for index, (column, row) in enumerate(zip(self.columns, rows, strict=True)):
            m.d.comb += [
                column.reading_row.eq(row.at(self._read - 2).value),
                column.arrives.eq(arrivals[index]),
                column.entry.eq(stash.entry),
                column.place.eq(stash.place),
                column.barred.eq(stash.barred),
                column.pushes.eq(placement.pushes),
                column.granted.eq(granted[index]),
            ]
        self._elaborate_exchange(m, stash, registered(m, granted, "allowed"))
        return distance

    def _elaborate_exchange(self, m, stash, allowed):
        """Put what a column's cell held in the stash, the clock after."""

        def given(values):
            return selected(allowed, list(values))

        columns = self.columns
        m.d.sync += [
            stash.exchanges.eq(Cat(column.done for column in columns).any()),
            # Of the column that was allowed to write, whether it did or not.
            stash.exchanged.eq(given(column.holds for column in columns)),
            stash.comer.as_value().eq(given(column.left.as_value() for column in columns)),
            stash.lives.eq(given(column.lives for column in columns)),
        ]
