"""Proofs for dictionaries with moves: exchanges of a column, input stalls, and the guarantee."""

from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from amaranth.hdl import Array, Assume, Cat, Const, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import In

from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...hdl.dictionary.cells import Cell, row_of, selected
from ...hdl.dictionary.column import Column
from ...hdl.dictionary.core import column_terms
from ...hdl.dictionary.dictionary_figures import (
    ANSWER,
    DECISION,
    MATCH,
    MAX_STALL,
    STASH_HAZARDS,
    WORD,
)
from ...hdl.dictionary.profile import rows_latency
from ...hdl.dictionary.stash import Stash
from ...hdl.frontend.front import Gate
from ...hdl.interface import Operation, operation_bits
from ...hdl.latencies import CONTROL_LAG, SPARE_SETTLE
from ...hdl.memory.cells import CellMemory
from ...hdl.pipeline import delayed, registered
from .dictionary import WRITING, ColumnAnswers, ColumnSizes, DictionaryAnswers, digest_core
from .formal import Bounded, Proof
from .harness import Arbitrary, Harness, elaborated, set_free
from .timing import UndefinedCells

TERMS = ((0,),)  # for each row bit, the bits of the rest that are added to it


@dataclass(frozen=True)
class RingColumnSizes(ColumnSizes):
    """Specification of a column with moves, and a stash of one place."""

    digest_bits: int = 2
    stash: int = 1


class ExchangeAnswers(ColumnAnswers):
    """`ColumnAnswers` for a ring column, which also takes entries of the window from the stash."""

    SIZES = RingColumnSizes()
    TERMS = TERMS

    def _inserts(self):
        # Only some operations insert, so that entries are still in the window when they are met.
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
        match = held & (holds == registered(m, rest, "tracked_rest"))
        match = match & (distance <= self.SIZES.window)
        expected = delayed(m, Cat(asked, match, moved, distance), MATCH, "expected")
        asked, match, moved, distance = expected[0], expected[1], expected[2], expected[3:]
        self.require(
            ~asked | (column.match == match),
            ~(asked & match) | (column.distance == distance),
        )
        self.reach("a new entry is found", asked & match & moved)

    def _elaborate_stash(self, m, visit, number):
        """Offer entries of the window; return the insertion number of the last entry offered."""
        came, kept = Signal.like(number), Signal.like(number)
        busy = Signal()
        changed, allows = AnySeq(1), Signal()
        m.d.comb += [
            came.eq(AnySeq(len(came))),
            Assume((number - came)[: len(number)] < self.SIZES.window),
            visit.arrives.eq(AnySeq(1) & ~visit.closed & ~self._write),
            visit.entry.digest.eq(AnySeq(len(visit.entry.digest))),
            visit.entry.time.eq(came),
            visit.slot.eq(1),
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
        # A change of a place takes effect two cycles after it is reported.
        self.require(~(visit.done & registered(m, spoiled, "spoiled_before")), ~visit.done | busy)
        self.reach(
            "a place changes while a column holds its entry", spoiled & busy & visit.requests
        )
        return kept

    def _require_exchange(self, m, visit, cell, takes, read, held, distance, since, holds):
        """Require that the evicted entry is the cell's content, and no operation still needs it."""
        evicted, low = visit.evicted, row_of(cell, holds, TERMS)
        young = held & (distance[: len(since)] <= self.SIZES.window)
        # Operations that have read the cell, and may still write it.
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


_EXCHANGE_PROOFS = (
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
"""Proofs for the columns of a ring."""


SPEC = WindowDictionarySpec(
    key_bits=3, digest_bits=3, window=16, columns=2, rows=2, stash=3, moves=4
)
"""Dictionary that determines stash sizes and latencies."""

NUMBERED = rows_latency(SPEC) - 3 - CONTROL_LAG
"""Cycles from an operation's control flags to its number."""

READ = 3  # cycles from an operation's number until its cells are read
LOST = 3  # cycles from a push until it is known whether it lost an entry
FOUND = 6  # cycles until the stash finds a freed place
BEGINS = 6  # minimum cycles from reset to the first push
SWEEP = 55  # maximum stall until the sweep of a column of this size has caught up, in cycles


class AnyCells(Arbitrary, CellMemory):
    """Memory whose words are arbitrary in every cycle."""


class InputRests(Harness):
    """A unit's gate and a core that stalls it, for at most `MOST` cycles per closed period."""

    MOST: int

    OTHERS = False  # whether the gate also closes for other reasons, at any time

    def build(self, m):
        m.submodules.gate = gate = Gate(start=SPARE_SETTLE + 1)
        operation = AnySeq(3)
        acts, insert, late = Signal(), Signal(), Signal()
        m.d.comb += [
            Assume(~operation_bits(operation).alone),
            gate.i.valid.eq(AnySeq(1)),
            gate.i.p.eq(Operation(operation)),
            gate.credit.eq(~(late | (AnySeq(1) & self.OTHERS))),
            gate.clean.eq(1),
        ]
        m.d.sync += [acts.eq(gate.valid), insert.eq(gate.insert)]
        m.d.sync += late.eq(self._rests(m, *delayed(m, Cat(acts, insert), NUMBERED, "numbered")))
        begun, rests, ready = Signal(), Signal(range(self.MOST + 2)), gate.i.ready
        closes = delayed(m, late, Gate.LATENCY, "closes")
        m.d.sync += [
            begun.eq(begun | ready),
            rests.eq(Mux(begun & ~ready, rests + (closes & (rests <= self.MOST)), 0)),
        ]
        self.require(rests <= self.MOST)
        self.reach("the longest stall occurs", rests == self.MOST)


class RestsForStash(InputRests):
    """A stash with pushes and removals at any time."""

    MOST = MAX_STALL
    PART = staticmethod(partial(Stash, spec=SPEC))

    def _rests(self, m, acts, insert):
        m.submodules.stash = self._part
        return self._part.crowded


class PushesFindPlaces(Harness):
    """A stash in which every push finds a place, and which reports every lost entry."""

    PART = staticmethod(partial(Stash, spec=SPEC))

    def build(self, m):
        m.submodules.stash = stash = self._part
        valid, spare, match = stash.valid, stash.slot.candidate, stash.slot.match
        exchange, exchanged = stash.exchange, stash.exchange.exchanged
        was_held = registered(m, exchange.held, "was_held")
        offered = registered(m, exchange.slot & ~exchange.stale, "offered")
        m.d.comb += [
            Assume((exchanged & (exchanged - 1)) == 0),
            Assume(~(exchange.exchanges & stash.push)),
            Assume(~(stash.clear & stash.push)),
            # A column holds an entry only if the entry was offered and has not changed since.
            Assume((exchange.held & ~was_held & ~offered) == 0),
            # An exchange takes an entry from the stash that a column held.
            Assume(~exchange.exchanges | ((exchanged & valid & was_held) != 0)),
            # The input is closed for the first cycles after reset.
            Assume(~stash.push | delayed(m, Const(1), BEGINS, "begun")),
        ]
        displaces = stash.push & (valid & spare & ~match).any()
        self.require(spare.any() & ((spare & (spare - 1)) == 0))
        time = selected(spare, [entry.time for entry in stash.entries])
        number = delayed(m, stash.number, STASH_HAZARDS, "performed_number")
        distance = (number - time)[: len(time)]
        lost = delayed(m, displaces & (distance < SPEC.window), LOST, "expected_lost")
        self.require(stash.lost == lost)
        idle = ~(valid | exchange.held | was_held)
        for cycle in range(FOUND):
            idle = idle & registered(m, idle, f"idle{cycle}")
        self.require(~displaces | ~idle.any())
        # A column is never offered an entry that the next push displaces.
        chosen = registered(m, spare, "chosen")
        self.require(spare & offered & chosen & registered(m, chosen, "chosen_before") == 0)
        full = delayed(m, valid.all(), BEGINS, "was_full")
        self.reach("a place of a full stash becomes free and is used",
                   full & stash.push & (valid & spare == 0) & ~match.any())  # fmt: skip
        self.reach("an entry of a full stash is evicted", displaces & valid.all())


class RestsForSweep(InputRests):
    """A column with arbitrary cells, any operations, and entries from the stash at any time.

    Because there is only one column, it may be offered an entry in every other cycle.
    """

    MOST = SWEEP
    OTHERS = True
    PERIOD = ColumnAnswers.PERIOD

    def __init__(self):
        super().__init__()

    def _rests(self, m, acts, insert):
        column = Column(spec=RingColumnSizes(), memory=AnyCells, terms=TERMS)
        m.submodules.column = column
        visit = column.visit
        turn, tick, granted = Signal(self.PERIOD, init=1), Signal(), Signal()
        driven = (column.tick, column.writes, column.clear, visit.arrives, visit.granted,
                  visit.pushes)  # fmt: skip
        set_free(m, column, In, but=driven)
        m.d.comb += [
            column.tick.eq(tick),
            column.writes.eq(delayed(m, acts, READ + WRITING - 1, "acted") & AnySeq(1)),
            visit.pushes.eq(delayed(m, acts, READ + DECISION + 1, "decided") & AnySeq(1)),
            visit.arrives.eq(AnySeq(1) & ~visit.closed),
            visit.granted.eq(granted),
        ]
        m.d.sync += [
            turn.eq(Mux(insert, turn.rotate_left(1), turn)),
            tick.eq(insert & turn[-1]),
            granted.eq(visit.requests & ~granted),
        ]
        self.reach(
            "a column holds an entry while the sweep is far behind", column.overdue & visit.requests
        )
        return (registered(m, column.late, "any_late") & tick) | column.overdue


_STALL_PROOFS = (
    Proof(
        name="stalls for the stash of a ring",
        statement="While its stash stalls the input of a ring, for any changes of the stash, the "
        f"input is closed for at most {MAX_STALL} consecutive cycles, if results have "
        "room.",
        design="gate, and a stash of 3 for 2 columns; any operations but SHIFT and CLEAR",
        build=RestsForStash,
    ),
    Proof(
        name="places of a ring's stash",
        statement="A push goes to exactly one place. The stash reports each entry of the window "
        "that the push displaces there, and no other. A push displaces no entry while another "
        f"place has been free for {FOUND} cycles.",
        design="stash of 3 for 2 columns; any operations, exchanges and places that columns hold",
        build=PushesFindPlaces,
    ),
    Proof(
        name="stalls for the sweep of a ring",
        statement="For any cells of a column, any writes and arriving entries, and any other "
        "reasons for which the input of a ring is closed, the sweep of the column stalls the "
        f"input for at most {SWEEP} of the consecutive cycles for which the input is closed.",
        design="gate, and a column of 2 cells, a row due each 2 insertions; any operations but "
        "SHIFT and CLEAR",
        build=RestsForSweep,
    ),
)
"""Proofs about the input stalls of a ring of columns."""


OPERATIONS = 3
"""Number of operations: one moves an entry, one uses the moved entry, one is a query."""


class Filled(UndefinedCells):
    """Memory with arbitrary initial contents, available as the signals `first`, one per word."""

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
    """Give a stash arbitrary contents in the second cycle, and return these entries."""
    finder, m = elaborated(stash.slot), elaborated(stash)
    begun = registered(m, Const(1), "begun")
    # The search for free places starts after this.
    with finder.If(~begun):
        finder.d.sync += stash.slot.unused.eq(0)
    first = []
    for at, entry_fields in enumerate(stash.entries):
        entry = Signal(), Signal.like(entry_fields.digest), Signal.like(entry_fields.time)
        m.d.comb += [value.eq(AnyConst(len(value))) for value in entry]
        with m.If(~begun):
            m.d.sync += [
                stash.valid[at].eq(entry[0]),
                entry_fields.digest.eq(entry[1]),
                entry_fields.time.eq(entry[2]),
            ]
        first.append(entry)
    return first


class RingAnswers(DictionaryAnswers):
    """`DictionaryAnswers` for a core with moves, for a few operations in arbitrary cycles.

    Initially cells and stash hold arbitrary entries, at most one per digest, inserted within twice
    the window. There is no reset, because a clear would have to follow it.
    """

    SIZES = {"columns": 2, "stash": 3, "moves": 4}

    def __init__(self):
        super().__init__(core=partial(digest_core, memory=Filled), **self.SIZES)
        self._stashed = fill(self._core.stash)

    def _first(self):
        """Return the initial entries of the stash and all cells: whether used, digest, and time."""
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
            known.append(held & (digest == self._followed))
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
    *_EXCHANGE_PROOFS,
    *_STALL_PROOFS,
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
"""Proofs for cores with a ring of columns."""
