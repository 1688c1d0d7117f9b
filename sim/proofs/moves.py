"""Proofs for dictionaries with moves: exchanges with the stash, stalls, and the guarantee."""

from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from amaranth.hdl import Array, Assume, Cat, Const, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnySeq
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
from .harness import Arbitrary, Harness, constant, elaborated, latched, set_free
from .timing import UndefinedCells

TERMS = ((0,),)  # for each row bit, the bits of the rest that are XORed with it


@dataclass(frozen=True)
class RingColumnSizes(ColumnSizes):
    digest_bits: int = 2
    stash: int = 1


class ExchangeAnswers(ColumnAnswers):
    SIZES = RingColumnSizes()
    TERMS = TERMS

    def _inserts(self):
        # Only some operations insert, so that entries are still in the window when they are read.
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
        self.reach("an entry from the stash is found", asked & match & moved)

    def _elaborate_stash(self, m, visit, number):
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
        # A change of a stash slot takes effect two cycles after it is reported.
        self.require(~(visit.done & registered(m, spoiled, "spoiled_before")), ~visit.done | busy)
        self.reach(
            "a stash slot changes while a column holds its entry", spoiled & busy & visit.requests
        )
        return kept

    def _require_exchange(self, m, visit, cell, takes, read, held, distance, since, holds):
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


# This dictionary determines stash sizes and latencies.
SPEC = WindowDictionarySpec(
    key_bits=3, digest_bits=3, window=16, columns=2, rows=2, stash=3, moves=4
)

NUMBERED = rows_latency(SPEC) - 3 - CONTROL_LAG  # cycles from control flags to the number
READ = 3  # cycles from an operation's number until its cells are read
LOST = 3  # cycles from a push until it is known whether it lost an entry
FREED = 6  # cycles until the stash finds a slot that has become free
BEGINS = 6  # minimum cycles from reset to the first push
SWEEP = 55  # maximum stall until the sweep of a column of this size has caught up, in cycles


class AnyCells(Arbitrary, CellMemory):
    pass


class InputStalls(Harness):
    MAX_STALL: int
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
        m.d.sync += late.eq(self._stalls(m, *delayed(m, Cat(acts, insert), NUMBERED, "numbered")))
        limit, stalled, ready = self.MAX_STALL, Signal(range(self.MAX_STALL + 2)), gate.i.ready
        begun = latched(m, ready, "begun")
        closes = delayed(m, late, Gate.LATENCY, "closes")
        m.d.sync += stalled.eq(Mux(begun & ~ready, stalled + (closes & (stalled <= limit)), 0))
        self.require(stalled <= limit)
        self.reach("the longest stall occurs", stalled == limit)


class StallsForStash(InputStalls):
    MAX_STALL = MAX_STALL
    make = staticmethod(partial(Stash, spec=SPEC))

    def _stalls(self, m, acts, insert):
        m.submodules.stash = self._part
        return self._part.crowded


class PushesFindSlots(Harness):
    make = staticmethod(partial(Stash, spec=SPEC))

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
        for cycle in range(FREED):
            idle = idle & registered(m, idle, f"idle{cycle}")
        self.require(~displaces | ~idle.any())
        # A column is never offered an entry that the next push displaces.
        chosen = registered(m, spare, "chosen")
        self.require(spare & offered & chosen & registered(m, chosen, "chosen_before") == 0)
        full = delayed(m, valid.all(), BEGINS, "was_full")
        self.reach("a slot of a full stash becomes free and is used",
                   full & stash.push & (valid & spare == 0) & ~match.any())  # fmt: skip
        self.reach("an entry of a full stash is evicted", displaces & valid.all())


class StallsForSweep(InputStalls):
    MAX_STALL = SWEEP
    OTHERS = True
    PERIOD = ColumnAnswers.PERIOD

    def _stalls(self, m, acts, insert):
        column = Column(spec=RingColumnSizes(), memory=AnyCells, terms=TERMS)
        m.submodules.column = column
        visit = column.visit
        phase, tick, granted = Signal(self.PERIOD, init=1), Signal(), Signal()
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
            phase.eq(Mux(insert, phase.rotate_left(1), phase)),
            tick.eq(insert & phase[-1]),
            # With only one column, an entry may be offered in every other cycle.
            granted.eq(visit.requests & ~granted),
        ]
        self.reach(
            "a column holds an entry while the sweep is far behind", column.overdue & visit.requests
        )
        return (registered(m, column.late, "any_late") & tick) | column.overdue


# One operation moves an entry, the next uses the moved entry, and the last is a query.
OPERATIONS = 3


class Filled(UndefinedCells):
    def __init__(self, *, depth, width):
        super().__init__(depth=depth, width=width)
        self.first = [Signal(width, name=f"first{row}") for row in range(depth)]
        self._unwritten = Signal(depth, init=-1)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [word.eq(constant(m, len(word))) for word in self.first]
        with m.If(self.write):
            m.d.sync += self._unwritten.bit_select(self.b_address, 1).eq(0)
        return m

    def _read(self, m, read, *writes):
        written = Cat(write.en & (read.addr == write.addr) for write in writes).any()
        first = registered(m, self._unwritten.bit_select(read.addr, 1) & ~written, "reads_first")
        word = registered(m, Array(self.first)[read.addr], "first_word")
        return Mux(first, word, super()._read(m, read, *writes))


def fill(stash):
    """Fill a stash with arbitrary entries in the second cycle, and return the entries."""
    finder, m = elaborated(stash.slot), elaborated(stash)
    begun = registered(m, Const(1), "begun")
    # The search for free slots starts after this.
    with finder.If(~begun):
        finder.d.sync += stash.slot.unused.eq(0)
    first = []
    for at, entry_fields in enumerate(stash.entries):
        fields = stash.valid[at], entry_fields.digest, entry_fields.time
        entry = [constant(m, len(field)) for field in fields]
        with m.If(~begun):
            m.d.sync += [field.eq(value) for field, value in zip(fields, entry, strict=True)]
        first.append(entry)
    return first


class RingAnswers(DictionaryAnswers):
    """Checks a core with moves like `DictionaryAnswers`, for a few operations in arbitrary cycles.

    Initially, cells and stash contain arbitrary entries, at most one for each digest. Their ages
    are below twice the window. There is no reset, because a clear would have to follow it.
    """

    SIZES = {"columns": 2, "stash": 3, "moves": 4}

    def __init__(self):
        super().__init__(core=partial(digest_core, memory=Filled), **self.SIZES)
        self._stashed = fill(self._core.stash)

    def _first(self):
        entries = list(self._stashed)
        for column, terms in zip(self._core.columns, column_terms(self._spec), strict=True):
            for number, word in enumerate(column.memory.first):
                cell, row = Cell(spec=self._spec)(word), Const(number, self._spec.row_bits)
                digest = Cat(row_of(row, cell.rest, terms), cell.rest)
                entries.append((cell.used, digest, cell.time))
        return entries

    def _elaborate_start(self, m, core, comes):
        count = Signal(range(OPERATIONS + 1))
        self._begun = registered(m, Const(1), "begun")
        m.d.sync += count.eq(count + comes)
        m.d.comb += Assume(~ResetSignal())
        return self._begun & (count != OPERATIONS)

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
        exchange = core.stash.exchange
        moved = latched(m, exchange.exchanges & exchange.evicted_valid, "moved")
        asked = delayed(m, flags[1] & mine, core.latency, "asks")
        after = delayed(m, moved, ANSWER - DECISION, "moved_before")
        self.reach("a digest is found after an entry has moved", asked & core.verdict.seen & after)


PROOFS = (
    Proof(
        name="column of a ring",
        statement="When an entry from the stash replaces an entry, the column evicts the content "
        "of the cell, with its time, and never drops an entry of the window. At that time, no "
        "operation that has read the cell is in flight, and the stash slot of the new entry is "
        "unchanged. Operations find the new entry with its exact distance.",
        design="column of 2 cells, window of 2, timestamps of 5 bits, stash with one slot",
        build=ExchangeAnswers,
        method=Bounded(32),
    ),
    Proof(
        name="stalls for the stash of a ring",
        statement="The stash of a ring of columns stalls the input for at most "
        f"{MAX_STALL} consecutive cycles, for any changes of the stash, if there is room for "
        "results.",
        design="gate, and a stash of 3 for 2 columns; any operations except SHIFT and CLEAR",
        build=StallsForStash,
    ),
    Proof(
        name="slots of a ring's stash",
        statement="A push uses exactly one slot of the stash. If it displaces an entry of the "
        "window, the stash reports the loss, and it reports no other. A push displaces no entry "
        f"if another slot has been free for {FREED} cycles.",
        design="stash of 3 for 2 columns; any operations, exchanges and entries held by columns",
        build=PushesFindSlots,
    ),
    Proof(
        name="stalls for the sweep of a ring",
        statement="Whenever the input of a ring of columns is closed, the sweep of a column causes "
        f"at most {SWEEP} of the closed cycles, for any cells, writes, arriving entries and other "
        "reasons to close the input.",
        design="gate, and a column of 2 cells, one row due for every 2 insertions; any operations "
        "except SHIFT and CLEAR",
        build=StallsForSweep,
    ),
    Proof(
        name="ring of columns, any digest",
        statement="A query reports a digest, with its exact age, only if it was inserted within "
        "the window, for any moves of entries. If a query misses an inserted digest, its status is "
        "set, and the loss of an entry has been reported.",
        design="core with 2 columns of 2 rows and moves, digests of 3 bits, window of 16, stash "
        f"of 3 entries; {OPERATIONS} operations in any cycles, after any contents",
        build=RingAnswers,
        method=Bounded(32),
    ),
)
