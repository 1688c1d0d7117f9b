"""Proofs of the columns of a ring: entries replace other entries, and none is lost."""

from dataclasses import dataclass

from amaranth.hdl import Assume, Cat, Signal
from amaranth.hdl._ast import AnySeq

from ...hdl.dictionary.cells import row_of
from ...hdl.dictionary.dictionary_figures import MATCH, WORD
from ...hdl.pipeline import delayed, registered
from .dictionary import WRITING, ColumnAnswers, ColumnSizes
from .formal import Bounded, Proof

TERMS = ((0,),)  # bits of the rest that are added to each bit of the row


@dataclass(frozen=True)
class RingColumnSizes(ColumnSizes):
    """Sizes that a column with moves reads from a specification, with a stash of one place."""

    digest_bits: int = 2
    stash: int = 1


class ExchangeAnswers(ColumnAnswers):
    """`ColumnAnswers` for a column of a ring that receives entries of the window from the stash.

    Operations, entries, permissions to write, and changes of the entry's place occur in any
    cycles.
    """

    SIZES = RingColumnSizes()
    TERMS = TERMS

    def _inserts(self):
        # Most do not insert, so that entries are still in the window when they are met.
        return AnySeq(1)

    def _elaborate_reference(self, m, column, cell, read, number, rest, written):
        visit = column.visit
        came = self._elaborate_stash(m, visit, number)
        arrived, newcomer = Signal.like(cell), Signal.like(rest)
        low, high = visit.entry.digest[:1], visit.entry.digest[1:]
        with m.If(visit.arrives):
            m.d.sync += [arrived.eq(row_of(low, high, TERMS)), newcomer.eq(high)]
        takes = visit.done & (arrived == cell)
        held, moved, since, holds = Signal(), Signal(), Signal.like(number), Signal.like(rest)
        writes = self._write & (self._write_row == cell)
        with m.If(writes):
            m.d.sync += [held.eq(column.written.used), moved.eq(0), since.eq(written)]
            m.d.sync += holds.eq(column.written.rest)
        with m.If(takes):
            m.d.sync += [held.eq(1), moved.eq(1), since.eq(came), holds.eq(newcomer)]
        self._require_exchange(m, visit, cell, takes, read, held, (number - since), since, holds)
        distance = Signal.like(number)
        m.d.comb += distance.eq(number - since)
        asked = self._opened & (read == cell) & ~writes
        match = held & (holds == registered(m, rest, "own_rest"))
        match = match & (distance <= self.SIZES.window)
        told = delayed(m, Cat(asked, match, moved, distance), MATCH, "expected")
        asked, match, moved, distance = told[0], told[1], told[2], told[3:]
        self.require(
            ~asked | (column.match == match),
            ~(asked & match) | (column.distance == distance),
        )
        self.reach("a new entry is found", asked & match & moved)

    def _elaborate_stash(self, m, visit, number):
        """Let entries of the window arrive; return the number of the last entry's insertion."""
        came, kept = Signal.like(number), Signal.like(number)
        busy = Signal()
        changed, allows = AnySeq(1), Signal()
        m.d.comb += [
            came.eq(AnySeq(len(came))),
            Assume((number - came)[: len(number)] < self.SIZES.window),
            visit.arrives.eq(AnySeq(1) & ~visit.closed & ~self._write),
            visit.entry.digest.eq(AnySeq(len(visit.entry.digest))),
            visit.entry.time.eq(came),
            visit.place.eq(1),
            visit.stale.eq(changed),
            visit.pushes.eq(AnySeq(1)),
            visit.granted.eq(allows),
        ]
        m.d.sync += allows.eq(AnySeq(1) & ~allows)
        spoiled = Signal()
        with m.If(visit.stale):
            m.d.sync += spoiled.eq(1)
        with m.If(visit.arrives):
            m.d.sync += [kept.eq(came), busy.eq(1), spoiled.eq(visit.stale)]
        # A report about a place applies two cycles later.
        self.require(~(visit.done & registered(m, spoiled, "spoiled_before")), ~visit.done | busy)
        self.reach(
            "a place changes while a column holds its entry", spoiled & busy & visit.requests
        )
        return kept

    def _require_exchange(self, m, visit, cell, takes, read, held, distance, since, holds):
        """Require that the cell held the evicted entry, on which no operation relies."""
        evicted, low = visit.evicted, row_of(cell, holds, TERMS)
        young = held & (distance[: len(since)] <= self.SIZES.window)
        # An operation that writes elsewhere in this cycle has been decided.
        under_way = Signal(WRITING - 1)
        m.d.sync += under_way.eq(Cat(read == cell, under_way))
        same = (evicted.digest == Cat(low, holds)) & (evicted.time == since[: len(evicted.time)])
        self.require(
            ~takes | ~((read == cell) | under_way.any()),
            ~(takes & visit.evicted_valid) | (held & same),
            ~(takes & young) | visit.evicted_valid,
            ~(takes & visit.evicted_valid) | delayed(m, young, WORD + 2, "was_young"),
            ~(visit.done & (self._write | visit.pushes)),
        )
        self.reach("an entry of the window is replaced", takes & young)


PROOFS = (
    Proof(
        name="column of a ring",
        statement="If an entry replaces another, the evicted entry is the content of the cell, "
        "with its time, and is not lost while it is in the window. No operation that has read "
        "the cell is in flight, and the entry's place in the stash has not changed. Operations "
        "find the new entry with its exact distance.",
        design="column of 2 cells, window of 2, timestamps of 5 bits, one place of the stash",
        build=ExchangeAnswers,
        method=Bounded(32),
    ),
)
"""Proofs of the columns of a ring."""
