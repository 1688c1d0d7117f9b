"""Core of a window dictionary whose entries move on from column to column, in a ring."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Signal

from ...golden.hash.functions import offset_terms
from ..latencies import DEFAULT_LEVELS
from .core import DictionaryCore
from .ring_column import RingColumn
from .ring_stash import RingStash


class RingCore(DictionaryCore):
    """Pipeline of a window dictionary with moves: as `DictionaryCore`, with fewer columns.

    An operation that finds no cell goes to the stash, and operations go on. In their shadow each
    column exchanges an entry of the stash for the one that its cell holds, which then
    looks for a cell in the next column. The first that meets a free cell stays there.

    The input rests also while little room is left in the stash.

    Parameters, members, errors: as `DictionaryCore`.
    """

    def __init__(self, *, spec, memory="portable", levels=DEFAULT_LEVELS):
        self._terms = offset_terms(
            columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
        )
        self.stash = RingStash(spec=spec)
        super().__init__(spec=spec, memory=memory, levels=levels)

    def _column(self, index, **options):
        return RingColumn(spec=self._spec, terms=self._terms[index], **options)

    def _stash(self):
        return self.stash

    def _rests(self, late):
        return late | self.stash.crowded

    def _shortens(self, stash, count):
        return stash.lost & ~(count < stash.lost_distance)

    def _elaborate_columns(self, m, pipe, digest, rows, number, placement, *clear):
        distance = super()._elaborate_columns(m, pipe, digest, rows, number, placement, *clear)
        stash = self.stash
        inserted = Signal()
        # The column that is granted its write, which another may have next.
        granted, asks = Signal(len(self.columns)), Cat(column.asks for column in self.columns)
        waits = asks & ~granted
        m.d.sync += [
            inserted.eq(placement.insert),
            granted.eq((waits & -waits)[: len(granted)]),
        ]
        arrivals = stash.offers & ~Cat(column.busy for column in self.columns)
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
                column.changed.eq(stash.changed),
                column.pushes.eq(inserted & ~placement.filled),
                column.granted.eq(granted[index]),
            ]
        self._elaborate_exchange(m, stash)
        return distance

    def _elaborate_exchange(self, m, stash):
        """Put what a column's cell held in the stash, the clock after."""

        def given(member):
            values = [getattr(column, member) for column in self.columns]
            values = [
                value if member in ("holds", "lives") else value.as_value() for value in values
            ]
            return reduce(
                or_,
                [
                    value & column.done.replicate(len(value))
                    for value, column in zip(values, self.columns, strict=True)
                ],
            )

        m.d.sync += [
            stash.exchanges.eq(Cat(column.done for column in self.columns).any()),
            stash.exchanged.eq(given("holds")),
            stash.comer.as_value().eq(given("left")),
            stash.lives.eq(given("lives")),
        ]
