"""Proofs of input stalls of a ring of columns: the input opens again, for any stash and sweep."""

from functools import partial

from amaranth.hdl import Assume, Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib.wiring import In

from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...hdl.dictionary.cells import selected
from ...hdl.dictionary.column import Column
from ...hdl.dictionary.dictionary_figures import (
    DECISION,
    MAX_STALL,
    STASH_HAZARDS,
    rows_latency,
)
from ...hdl.dictionary.stash import Stash
from ...hdl.frontend.gate import Gate
from ...hdl.interface import Operation, operation_bits
from ...hdl.latencies import CONTROL_LAG, SPARE_SETTLE
from ...hdl.memory.cells import CellMemory
from ...hdl.pipeline import delayed, registered
from .dictionary import WRITING, ColumnAnswers
from .formal import Proof
from .harness import Arbitrary, Harness, set_free
from .ring_exchanges import TERMS, RingColumnSizes

SPEC = WindowDictionarySpec(
    key_bits=3, digest_bits=3, window=16, columns=2, rows=2, stash=3, moves=4
)
"""Dictionary that supplies the sizes of the stash and the latencies."""

NUMBERED = rows_latency(SPEC) - 3 - CONTROL_LAG
"""Cycles from the control of an operation to its number."""

READ = 3  # cycles from the number to the read of its cells
LOST = 3  # cycles from a push until it is known whether an entry was lost
FOUND = 6  # cycles until the stash finds a place that has become free
BEGINS = 6  # minimum cycles from reset to the first push
SWEEP = 55  # cycles of a stall until the sweep of a column has caught up, at this size


class AnyCells(Arbitrary, CellMemory):
    """Memory whose words are arbitrary in every cycle."""


class InputRests(Harness):
    """The gate of a unit, with a core that stalls it; any operations except SHIFT and CLEAR.

    Once the input has opened, each period in which it is closed has at most `MOST` stalls of the
    core.
    """

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
    """A stash with any pushes and removals, at any time."""

    MOST = MAX_STALL
    PART = staticmethod(partial(Stash, spec=SPEC))

    def _rests(self, m, acts, insert):
        m.submodules.stash = self._part
        return self._part.crowded


class PushesFindPlaces(Harness):
    """A stash in which every push finds a place, and which reports each evicted entry."""

    PART = staticmethod(partial(Stash, spec=SPEC))

    def build(self, m):
        m.submodules.stash = stash = self._part
        valid, spare, match = stash.valid, stash.place.candidate, stash.place.match
        exchange, exchanged = stash.exchange, stash.exchange.exchanged
        was_held = registered(m, exchange.held, "was_held")
        offered = registered(m, exchange.place & ~exchange.stale, "offered")
        m.d.comb += [
            Assume((exchanged & (exchanged - 1)) == 0),
            Assume(~(exchange.exchanges & stash.push)),
            Assume(~(stash.clear & stash.push)),
            # A column holds the entry that it was offered, if the entry has not changed since.
            Assume((exchange.held & ~was_held & ~offered) == 0),
            # An evicted entry was in the stash, and held by a column.
            Assume(~exchange.exchanges | ((exchanged & valid & was_held) != 0)),
            # After reset the input opens later.
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
        # No column is offered an entry that the next push displaces.
        chosen = registered(m, spare, "chosen")
        self.require(spare & offered & chosen & registered(m, chosen, "chosen_before") == 0)
        full = delayed(m, valid.all(), BEGINS, "was_full")
        self.reach("a place of a full stash becomes free and is used",
                   full & stash.push & (valid & spare == 0) & ~match.any())  # fmt: skip
        self.reach("an entry of a full stash is evicted", displaces & valid.all())


class RestsForSweep(InputRests):
    """A column with arbitrary cells, any operations, and entries from the stash at any time.

    The sweep rate is the same as for `ColumnAnswers`. There is no other column, so an entry may be
    written every other cycle.
    """

    MOST = SWEEP
    OTHERS = True
    PERIOD = ColumnAnswers.PERIOD

    def __init__(self, *, goal=None):
        super().__init__({}, goal=goal)

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


PROOFS = (
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
"""Proofs of the input stalls of a ring of columns."""
