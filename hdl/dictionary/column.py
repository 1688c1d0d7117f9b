"""A column of a dictionary: its cells, their comparison with a digest, and writes."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..memory.protection import CELL_PROTECTIONS
from ..pipeline import Pipeline, registered
from .cells import Cell, agreeing_pairs, distance_within
from .dictionary_figures import COMPARISON, HAZARDS, MATCH, WORD, WRITE
from .hazards import HazardWindow
from .sweep import Sweep
from .visitor import Visitor, VisitSignature


class Column(wiring.Component):
    """Cells of a column: one port serves reads of operations; the other port is shared by writers.

    Operations have priority at the write port, then the `Visitor` if entries move, then the
    `Sweep`. If a cell is read in the cycle of its write, the word is undefined and the cell counts
    as empty; `Placement` tracks the writes of operations.

    With "parity" an upset cell is `doubted`: neither a match nor free. The sweep gives it an
    unknown digest and the current number; it is usable again when this entry has expired. With
    "tmr" the memory has three copies, and the sweep rewrites a copy that differs from the others.

    Parameters
    ----------
    spec : WindowDictionarySpec
    memory : callable
        Builds the memory, like the classes of `lately.hdl.memory.cells`.
    terms : sequence, optional
        Terms of the column, as for `lately.hdl.dictionary.cells.row_of`, if entries move.
    side : int
        0 or 1: columns of the same side share registers.
    protect : str
        One of `lately.hdl.latencies.PROTECTIONS`.

    Members
    -------
    row : In
        Row of an operation; its cell is read `COMPARISON` cycles later.
    same : Out(HAZARDS)
        Bit k - 1, when the cell is read: the operation k cycles earlier has the same row.
    rest, number : In
        Rest of the digest, and number modulo 2**T, of the operation whose row arrived `WORD_LAG`
        cycles ago.
    match, free, doubted : Out(1)
        `LATENCY` cycles after `row`: the cell holds the digest and has not expired; the cell is
        empty, or expires with the operation; an upset cell may hold the digest.
    distance : Out
        Number of the operation minus number of the cell; `LATENCY` cycles after `row`.
    upset : Out(1)
        The cell was upset; `LATENCY` cycles after `row`.
    writes : In(1)
        Whether the operation whose row arrived `WRITE_LAG` - 1 cycles ago writes.
    written : In(cell)
        Word that an operation writes in the next cycle.
    clear, clear_row : In
        Whether a row is cleared; timing as for `writes`.
    tick : In(1)
        One more row is due for the sweep.
    late, overdue : Out(1)
        As for `Sweep`.
    swept_upset : Out(1)
        The sweep has found an upset cell.
    visit : In(VisitSignature)
        With moves only.
    """

    LATENCY = COMPARISON + MATCH
    WORD_LAG = COMPARISON + WORD
    WRITE_LAG = COMPARISON + WRITE

    def __init__(self, *, spec, memory, terms=None, side=0, protect="none"):
        self._spec = spec
        self._side = side
        self._protection = CELL_PROTECTIONS[protect]
        cell = Cell(spec=spec, checked=self._protection.checked)
        self.memory = self._protection.memory(memory, depth=spec.rows, width=cell.size)
        self.sweep = Sweep(spec=spec, cell=cell)
        self.visitor = Visitor(spec=spec, cell=cell, terms=terms) if terms is not None else None
        row, time = range(spec.rows), spec.timestamp_bits
        inputs = {"row": row, "rest": spec.rest_bits, "number": time, "writes": 1}
        inputs |= {"written": cell, "clear": 1, "clear_row": row, "tick": 1}
        outputs = {"same": HAZARDS, "distance": time}
        flags = ("match", "free", "doubted", "upset", "late", "overdue", "swept_upset")
        outputs |= dict.fromkeys(flags, 1)
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
            | ({"visit": In(VisitSignature(spec=spec))} if self.visitor else {})
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        m.submodules.memory = memory = self.memory
        m.submodules.sweep = sweep = self.sweep
        m.submodules.hazards = hazards = HazardWindow(bits=self._spec.row_bits, depth=HAZARDS)
        row = pipe.enter(self.row, "row", reset_less=True)
        write = registered(m, self.writes | self.clear, "write")
        coming = hazards.before[HAZARDS - 1]
        write_row = registered(m, coming, "coming_row", reset_less=True)
        write_row = Mux(self.clear, self.clear_row, write_row)
        write_row = registered(m, write_row, "write_row", reset_less=True)
        m.d.comb += [
            hazards.value.eq(self.row),
            self.same.eq(hazards.same),
            memory.a_address.eq(row.at(COMPARISON).value),
            sweep.tick.eq(self.tick),
            sweep.number.eq(self.number),
            sweep.busy.eq(write),
            sweep.coming_row.eq(coming),
            sweep.word.eq(memory.b_word),
            self.late.eq(sweep.late),
            self.overdue.eq(sweep.overdue),
            self.swept_upset.eq(sweep.upset),
        ]
        if self.visitor:
            self._elaborate_visitor(m, write, coming)
        erase = self._elaborate_port(m, write, write_row)
        # The word is undefined, because it is written in the same cycle.
        meets = agreeing_pairs(row.at(COMPARISON - 1).value, sweep.row)
        meets = registered(m, registered(m, meets, "meets_swept").all(), "met_swept")
        swept = registered(m, erase, "erased") & meets
        written = registered(m, write & self.same[HAZARDS - 1], "meets_written")
        self._elaborate_answer(m, registered(m, written | swept, "met"), swept)
        return m

    def _elaborate_visitor(self, m, write, coming):
        m.submodules.visitor = visitor = self.visitor
        wiring.connect(m, wiring.flipped(self.visit), visitor.visit)
        repair = self._protection.repair(m, self.memory, visitor.read)
        m.d.comb += [
            visitor.reading_row.eq(self.row),
            visitor.coming_row.eq(coming),
            visitor.number.eq(self.number),
            visitor.busy.eq(write),
            visitor.swept.eq(self.sweep.active),
            visitor.behind.eq(self.sweep.behind),
            visitor.word.eq(self.memory.b_word),
            visitor.lost.eq(repair.lost),
            self.sweep.hold.eq(visitor.hold),
        ]

    def _elaborate_port(self, m, write, write_row):
        """Give the second port to an operation, the visitor or the sweep.

        Return whether the sweep writes a whole cell.
        """
        memory, sweep, visitor = self.memory, self.sweep, self.visitor
        visits, row = Const(0), sweep.row
        entry, used = self.written, write & self.written.used
        if visitor:
            visits = visitor.visits
            entry = Signal(self.written.shape(), name="entry")
            m.d.comb += entry.eq(Mux(write | ~visits, self.written, visitor.newcomer))
            used = Mux(write, self.written.used, visits)
            row = Mux(visits, visitor.row, row)
        repair = self._protection.repair(m, memory, sweep.read)
        repairs = sweep.repairs & ~write & ~visits
        renews = repairs & repair.lost
        value = Cat(used | renews, entry.time, entry.rest)
        if self._protection.checked:
            # A renewed cell has two more ones, which do not change its parity.
            value = Cat(value, renews, entry.check ^ used)
        sweeps = sweep.writes & ~write
        erase = (sweeps & ~sweep.repairs) | repair.write(m, sweeps & sweep.repairs)
        m.d.comb += [
            sweep.wrong.eq(repair.wrong),
            sweep.lost.eq(repair.lost),
            memory.b_address.eq(Mux(write, write_row, row)),
            memory.write.eq(write | erase | (self.visit.done if visitor else 0)),
            memory.value.eq(repair.value(repairs, value)),
        ]
        return erase

    def _elaborate_answer(self, m, met, swept):
        window, protection = self._spec.window, self._protection
        cell = data.View(self.written.shape(), self.memory.a_word)
        wrong = protection.wrong(m, self.memory, "a") & ~registered(m, met, "met_before")
        # The sweep has renewed the cell in the cycle of its read.
        unknown = registered(m, swept & self.sweep.repairs, "met_renewed")
        if protection.checked:
            unknown = unknown | (cell.used & cell.unknown & ~met)
        unknown = registered(m, unknown, "read_unknown")
        used = registered(m, cell.used & ~met, "used")
        same = registered(m, agreeing_pairs(cell.rest, self.rest), "same_rest", reset_less=True)
        distance, young, younger = distance_within(
            m, cell.time, self.number, window, window - 1, side=self._side
        )
        held = registered(m, used & same.all(), "held")
        still_used = registered(m, used, "still_used")
        m.d.sync += [
            self.upset.eq(wrong),
            self.doubted.eq(protection.lost(wrong) | unknown),
        ]
        m.d.comb += [
            self.distance.eq(distance),
            self.match.eq(held & young & ~self.doubted),
            self.free.eq(~(still_used & younger) & ~self.doubted),
        ]
