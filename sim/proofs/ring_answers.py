"""Proof of a dictionary with moves: the guarantee of its core, from any contents."""

from functools import partial, reduce
from operator import or_

from amaranth.hdl import Array, Assume, Cat, Const, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnyConst

from ...hdl.dictionary.cells import Cell, row_of
from ...hdl.dictionary.dictionary_figures import ANSWER, DECISION
from ...hdl.dictionary.digest import column_terms
from ...hdl.pipeline import delayed, registered
from .dictionary import DictionaryAnswers, digest_core
from .formal import Bounded, Proof
from .harness import elaborated
from .timing import UndefinedCells

OPERATIONS = 3
"""Operations: one that changes the place of an entry, one that meets the entry, and a query."""


class Filled(UndefinedCells):
    """Memory with arbitrary initial contents: the signals `first`, one for each word."""

    def __init__(self, *, depth, width):
        super().__init__(depth=depth, width=width)
        self.first = [Signal(width, name=f"first{row}") for row in range(depth)]
        self._unwritten = Signal(depth, init=-1)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [word.eq(AnyConst(len(word))) for word in self.first]
        with m.If(self.write):
            m.d.sync += self._unwritten.bit_select(self.b_address, 1).eq(0)
        return m

    def _read(self, m, read, *writes):
        met = Cat(write.en & (read.addr == write.addr) for write in writes).any()
        first = registered(m, self._unwritten.bit_select(read.addr, 1) & ~met, "reads_first")
        word = registered(m, Array(self.first)[read.addr], "first_word")
        return Mux(first, word, super()._read(m, read, *writes))


def fill(stash):
    """Give a stash arbitrary contents in the second cycle."""
    places, m = elaborated(stash.place), elaborated(stash)
    begun = registered(m, Const(1), "begun")
    # The free places are found after this.
    with places.If(~begun):
        places.d.sync += stash.place.unused.eq(0)
    first = []
    for at, place in enumerate(stash.entries):
        entry = Signal(), Signal.like(place.digest), Signal.like(place.time)
        m.d.comb += [value.eq(AnyConst(len(value))) for value in entry]
        with m.If(~begun):
            m.d.sync += [
                stash.valid[at].eq(entry[0]),
                place.digest.eq(entry[1]),
                place.time.eq(entry[2]),
            ]
        first.append(entry)
    return first


class RingAnswers(DictionaryAnswers):
    """`DictionaryAnswers` for a core with moves, for a few operations in any cycles.

    Initially cells and stash hold any entries, at most one per digest, inserted within twice the
    window. There is no reset, because a clear would have to follow it.
    """

    SIZES = {"columns": 2, "stash": 3, "moves": 4}

    def __init__(self, *, goal=None):
        super().__init__(core=partial(digest_core, memory=Filled), goal=goal, **self.SIZES)
        self._stashed = fill(self._core.stash)

    def _first(self):
        """Return for each cell and place whether it holds an entry, with its digest and time."""
        entries = list(self._stashed)
        for column, terms in zip(self._core.columns, column_terms(self._spec), strict=True):
            for number, word in enumerate(column.memory.first):
                cell, row = Cell(spec=self._spec)(word), Const(number, self._spec.row_bits)
                digest = Cat(row_of(row, cell.rest, terms), cell.rest)
                entries.append((cell.used, digest, cell.time))
        return entries

    def _elaborate_start(self, m, core, comes):
        came = Signal(range(OPERATIONS + 1))
        self._begun = registered(m, Const(1), "begun")
        m.d.sync += came.eq(came + comes)
        m.d.comb += Assume(~ResetSignal())
        return self._begun & (came != OPERATIONS)

    def _elaborate_reference(self, m, core, flags, mine, window):
        super()._elaborate_reference(m, core, flags, mine, window)
        known, ages, entries = [], [], self._first()
        for at, (held, digest, time) in enumerate(entries):
            distance = Signal(len(time), name="first_distance")
            within = (distance != 0) & (distance < 2 * self._window)
            m.d.comb += [distance.eq(-time), Assume(~held | within)]
            twice = [held & other & (digest == same) for other, same, _ in entries[:at]]
            m.d.comb += Assume(~Cat(twice).any())
            known.append(held & (digest == self._own))
            age = Mux(distance > self._window, self._window, distance - 1)
            ages.append(Mux(known[-1], age, 0))
        with m.If(~self._begun):
            m.d.sync += [self._known.eq(Cat(known).any()), self._age.eq(reduce(or_, ages))]
        self._reach_moves(m, core, flags, mine)

    def _reach_moves(self, m, core, flags, mine):
        exchange, moved = core.stash.exchange, Signal()
        moves = exchange.exchanges & exchange.evicted_valid
        m.d.sync += moved.eq(moved | moves)
        asked = delayed(m, flags[1] & mine, core.latency, "asks")
        after = delayed(m, moved, ANSWER - DECISION, "moved_before")
        self.reach("a digest is found after an entry has moved", asked & core.verdict.seen & after)


PROOFS = (
    Proof(
        name="ring of columns, any digest",
        statement="A digest is reported with its exact age if it was inserted within the window of "
        "the query, and never otherwise, for any moves of entries. If it is missed, the status "
        "says so, and an entry was reported as lost.",
        design="core of 2 columns of 2 rows with moves, digests of 3 bits, window of 16, stash "
        f"of 3; {OPERATIONS} operations in any cycles, after any contents",
        build=RingAnswers,
        method=Bounded(32),
    ),
)
"""Proofs of cores with a ring of columns."""
