"""Column of a dictionary: cells, their comparison with a digest, and the writers of the cells."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..memory.protection import CELL_PROTECTIONS, sums
from ..pipeline import Pipeline, delayed, registered
from .cells import (
    GROUP,
    Cell,
    HazardWindow,
    VisitSignature,
    agreeing_pairs,
    distance_within,
    row_of,
)
from .dictionary_figures import (
    BEHIND_ROWS,
    COMPARISON,
    HAZARDS,
    KNOWN,
    MATCH,
    SWEEP_BACKLOG,
    WATCHED,
    WORD,
    WRITE,
)


class Sweep(wiring.Component):
    """Reads one row for each `tick`, and erases an expired cell or repairs an upset cell.

    The sweep uses cycles in which the port is free. If an operation writes the cell after the sweep
    has read it, the sweep does not write. A cell has expired if its insertion is older than the
    window.
    """

    def __init__(self, *, spec, cell):
        self._spec = spec
        row = range(spec.rows)
        inputs = {
            "tick": 1,  # one more row is due
            "number": spec.timestamp_bits,  # number of a recent insertion, modulo 2**T
            "busy": 1,  # an operation writes
            "hold": 1,  # no row may be started
        }
        inputs |= {
            "coming_row": row,  # row of the operation that writes two cycles later, if one writes
            "word": cell,  # word at the port
            # From the `Repair` of the cell that was read.
            "wrong": 1,
            "lost": 1,
        }
        outputs = {
            "row": row,  # row that the sweep reads or writes
            "read": 1,  # the port outputs the word of the row
            "active": 1,  # a row is in progress or being started
            # the sweep writes the row unless the port is busy: it erases the cell, or `repairs` it
            "writes": 1,
            "repairs": 1,
            "upset": 1,  # the cell was upset
        }
        # At least `BEHIND_ROWS`, `SWEEP_BACKLOG`, or twice `SWEEP_BACKLOG` rows are due.
        outputs |= dict.fromkeys(("behind", "late", "overdue"), 1)
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
        )

    def elaborate(self, platform):
        m = Module()
        # Bit k: the row was started k + 1 cycles ago. The last bit waits for the port.
        flight = Signal(CellMemory.LATENCY + 3)
        start, done, ready = Signal(), Signal(), Signal()
        expired, pending = self._elaborate_expired(m), Signal()
        m.d.comb += [
            start.eq(ready & ~self.busy & ~self.hold),
            self.active.eq(start | flight.any()),
            self.read.eq(flight[CellMemory.LATENCY - 1]),
            self.writes.eq(flight[-1] & pending & ~self._elaborate_cancelled(m, start)),
            self.upset.eq(flight[-2] & self.wrong),
            done.eq(flight[-1] & (~self.writes | ~self.busy)),
        ]
        due = Signal(range(4 * SWEEP_BACKLOG))
        m.d.sync += [
            flight.eq(Mux(flight[-1] & ~done, flight, Cat(start, flight))),
            # No row is started while another is in progress.
            ready.eq((due != 0) & ~start & ~flight.any()),
            due.eq(due + self.tick - flight[-2]),
            self.behind.eq(due >= BEHIND_ROWS),
            self.late.eq(due >= SWEEP_BACKLOG),
            self.overdue.eq(due >= 2 * SWEEP_BACKLOG),
        ]
        with m.If(flight[-2]):
            m.d.sync += [
                pending.eq(expired | self.wrong),
                self.repairs.eq(self.wrong & ~expired),
            ]
        with m.If(done):
            m.d.sync += self.row.eq(self.row + Const(1))
        return m

    def _elaborate_expired(self, m):
        cell = self.word
        used = delayed(m, cell.used, 2, "swept_used")
        # Separate registers, to limit the fan-out.
        number = registered(m, self.number, "sweep_number", reset_less=True)
        _, young = distance_within(m, cell.time, number, self._spec.window)
        return used & ~young & ~self.lost

    def _elaborate_cancelled(self, m, start):
        pairs = registered(m, agreeing_pairs(self.coming_row, self.row), "coming")
        # For two cycles after `row` changes, this refers to the old row, but no read is in flight.
        meets, cancelled = registered(m, pairs.all(), "meets"), Signal()
        m.d.sync += cancelled.eq((cancelled | (self.busy & meets)) & ~start)
        return cancelled


class Visitor(wiring.Component):
    """Writes an entry of the stash into a cell, and returns the evicted entry to the stash.

    The stash keeps the entry until this exchange. The exchange takes place only in a cycle in which
    no operation in flight has read the cell or will write it. Otherwise, or if the slot has
    changed, the entry stays in the stash. A cell whose content is unknown because of an upset is
    never evicted.
    """

    def __init__(self, *, spec, cell, terms):
        self._spec = spec
        self._terms = terms
        row = range(spec.rows)
        inputs = {
            "reading_row": row,  # row of the operation that reads two cycles later, if one reads
            "coming_row": row,  # row of the operation that writes two cycles later, if one writes
            "number": spec.timestamp_bits,  # number of a recent insertion, modulo 2**T
        }
        inputs |= {
            "busy": 1,  # an operation writes
            "swept": 1,  # the sweep uses a row
            "behind": 1,  # the sweep is behind
            "word": cell,  # word at the port
            "lost": 1,  # from the `Repair` of the cell that was read
        }
        outputs = {
            "hold": 1,  # the sweep must not start a row
            # the visitor owns the port unless the port is busy, and writes `newcomer` with `done`
            "visits": 1,
            "row": row,
            "newcomer": cell,
            "read": 1,  # the port outputs the word of the row
        }
        super().__init__(
            {"visit": In(VisitSignature(spec=spec))}
            | {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
        )

    def elaborate(self, platform):
        m = Module()
        visit = self.visit
        busy, ended, fails, may = (Signal(name=name) for name in ("here", "ended", "fails", "may"))
        reads, leaves = (
            self._elaborate_meeting(m, name, row)
            for name, row in (("reads", self.reading_row), ("leaves", self.coming_row))
        )
        kept = visit.holds & ~visit.stale
        kept = Cat(kept[low : low + GROUP].any() for low in range(0, len(kept), GROUP))
        spoiled = registered(m, busy, "was_here") & ~registered(m, kept, "kept").any()
        unknown = self._elaborate_eviction(m)
        m.d.comb += [
            visit.closed.eq(busy | self.behind),
            fails.eq(spoiled | (self.hold & (reads | leaves)) | (visit.requests & unknown)),
            visit.done.eq(may & ~reads & ~self.busy & ~visit.pushes),
        ]
        m.d.sync += [
            may.eq(visit.requests & visit.granted & ~fails & ~ended),
            ended.eq(busy & ~ended & (fails | visit.done)),
        ]
        self._elaborate_turn(m, ended)
        with m.If(ended):
            m.d.sync += [busy.eq(0), visit.holds.eq(0)]
        with m.If(visit.arrives):
            m.d.sync += [busy.eq(1), visit.holds.eq(visit.slot & ~visit.stale)]
        self._elaborate_newcomer(m)
        return m

    def _elaborate_meeting(self, m, name, row):
        """Return, two cycles later, whether `row` is the row of the visiting entry."""
        pairs = registered(m, agreeing_pairs(row, self.row), f"{name}_pairs")
        return registered(m, pairs.all(), name)

    def _elaborate_newcomer(self, m):
        bits = self._spec.row_bits
        entry, cell = self.visit.entry, self.newcomer
        low, rest = entry.digest[:bits], entry.digest[bits:]
        with m.If(self.visit.arrives):
            m.d.sync += [
                self.row.eq(row_of(low, rest, self._terms)),
                cell.used.eq(1),
                cell.time.eq(entry.time),
                cell.rest.eq(rest),
            ]
        if "check" in cell.shape().members:
            # Digit parities of the cell as if `used` were 0; the column corrects the parity.
            added = registered(m, sums(Cat(cell.time, cell.rest)), "newcomer_sums")
            m.d.sync += cell.check.eq(~added.xor())

    def _elaborate_turn(self, m, ended):
        """Read the cell, and request the write shortly before the content of the cell is known."""
        flight = Signal(CellMemory.LATENCY + KNOWN - 2)
        begins, begun, known = Signal(), Signal(), Signal()
        came = delayed(m, self.visit.arrives, WATCHED - 1, "came")
        m.d.comb += [
            begins.eq(self.visits & ~begun & ~self.busy),
            self.read.eq(flight[CellMemory.LATENCY - 1]),
        ]
        m.d.sync += [
            self.hold.eq(self.hold | came),
            self.visits.eq(self.visits | (self.hold & ~self.swept)),
            flight.eq(Cat(begins, flight)),
            begun.eq(begun | begins),
            known.eq(known | flight[-1]),
            self.visit.requests.eq(known),
        ]
        with m.If(ended):
            states = (self.hold, self.visits, flight, begun, known, self.visit.requests)
            m.d.sync += [each.eq(0) for each in states]

    def _elaborate_eviction(self, m):
        """Prepare the entry to evict; return whether the content of the cell is unknown."""
        visit, bits = self.visit, self._spec.timestamp_bits
        held = registered(m, self.word, "held_word", reset_less=True, enable=self.read)
        distance = (self.number - held.time)[:bits]
        distance = registered(m, distance, "held_distance", reset_less=True)
        low = row_of(self.row, held.rest, self._terms)
        m.d.sync += [
            visit.evicted.digest.eq(Cat(low, held.rest)),
            visit.evicted_valid.eq(held.used & (distance < self._spec.window + 1)),
        ]
        m.d.comb += visit.evicted.time.eq(held.time)
        unknown = held.used & held.unknown if "unknown" in held.shape().members else 0
        return self.lost | unknown


class Column(wiring.Component):
    """Cells of a column: operations read at one port, and all writes use the other port.

    Operations have priority at the write port, then the `Visitor` if entries move, then the
    `Sweep`. A cell that is written while it is read counts as empty; `Placement` accounts for
    writes by operations.

    With the protection "parity", an upset cell is `doubted`: neither a match nor free. The sweep
    marks the digest of the cell as unknown, and stores the current insertion number. The cell can
    be used again once this number has expired.
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
        inputs = {
            "row": row,  # row of an operation; its cell is read `COMPARISON` cycles later
            # For the operation whose row arrived `WORD_LAG` cycles ago.
            "rest": spec.rest_bits,
            "number": time,
            # whether the operation whose row arrived `WRITE_LAG` - 1 cycles ago writes
            "writes": 1,
        }
        inputs |= {
            "written": cell,  # word that an operation writes in the next cycle
            "clear": 1,  # whether `clear_row` is cleared; same timing as `writes`
            "clear_row": row,
            "tick": 1,  # one more row is due for the sweep
        }
        # `same`, bit k - 1, when the cell is read: the operation k cycles earlier has the same row.
        # `distance`: age of the cell in insertions, `LATENCY` cycles after `row`.
        outputs = {"same": HAZARDS, "distance": time}
        # `LATENCY` cycles after `row`: the cell is a `match` (it holds the digest and has not
        # expired), `free` (it is empty, or expires with the operation), `doubted` (it may hold the
        # digest), or was `upset`. `swept_upset`: the sweep has found an upset cell.
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
        """Connect the write port to one writer; return whether the sweep rewrites a whole cell."""
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
            # A renewed cell has two more bits set, which do not change its parity.
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
