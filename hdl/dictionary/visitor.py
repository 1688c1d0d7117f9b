"""Exchange of an entry of the stash for the entry of a cell, in parallel with operations."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..memory.protection import sums
from ..pipeline import delayed, registered
from .cells import GROUP, Entry, agreeing_pairs, row_of
from .dictionary_figures import KNOWN, WATCHED


class VisitSignature(wiring.Signature):
    """Ports through which entries of the stash arrive at a column, as seen by the stash.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    arrives : Out(1)
        While not `closed`: the `entry` in a `place` of the stash arrives.
    entry : Out(Entry)
    place : Out
        Place in the stash, one-hot.
    stale : Out
        Places that changed in the previous cycle, or will be displaced.
    pushes : Out(1)
        An operation goes to the stash in the next cycle.
    granted : Out(1)
        The entry may be written in the next cycle; never in two consecutive cycles.
    closed : In(1)
        The column holds an entry, or its sweep is behind.
    holds : In
        Place of the held entry; 0 without an entry, or if the place was stale at the arrival.
    requests : In(1)
        The entry waits for its write.
    done : In(1)
        The entry is written and replaces `evicted`.
    evicted : In(Entry)
    evicted_valid : In(1)
        The evicted entry is within the window.
    """

    def __init__(self, *, spec):
        entry = Entry(spec=spec)
        outputs = {"arrives": 1, "entry": entry, "place": spec.stash, "stale": spec.stash}
        outputs |= {"pushes": 1, "granted": 1}
        inputs = {"closed": 1, "holds": spec.stash, "requests": 1, "done": 1}
        inputs |= {"evicted": entry, "evicted_valid": 1}
        super().__init__(
            {name: Out(shape) for name, shape in outputs.items()}
            | {name: In(shape) for name, shape in inputs.items()}
        )


class Visitor(wiring.Component):
    """Writes an entry of the stash into its cell, and returns the entry of the cell to the stash.

    An entry arrives with its place in the stash, and the stash keeps the entry until the exchange.
    The cell is read, and written some cycles later, while the place takes the evicted entry. In
    this cycle no operation in flight has read the cell or will write it. All digests concerned have
    the same row, so none of these operations searches for them. Otherwise, or if the place has
    changed, the entry stays in the stash. An entry never evicts a cell whose content an upset made
    unknown.

    Parameters
    ----------
    spec : WindowDictionarySpec
    cell : Cell
    terms : sequence
        Terms of the column, as for `lately.hdl.dictionary.cells.row_of`.

    Members
    -------
    visit : In(VisitSignature)
    reading_row : In
        Row of the operation that reads two cycles later, if one reads.
    coming_row : In
        Row of the operation that writes two cycles later, if one writes.
    number : In
        Number of a current insertion, modulo 2**T.
    busy, swept, behind : In(1)
        An operation writes; the sweep uses a row; the sweep is behind.
    word : In(cell)
        Word of the port.
    lost : In(1)
        From the `lately.hdl.memory.protection.Repair` of the cell that was read.
    hold : Out(1)
        The sweep must not start a row.
    visits : Out(1)
        The visitor has the port unless the port is busy, and writes `newcomer` with `done`.
    row : Out
    newcomer : Out(cell)
    read : Out(1)
        The word of the row is at the port.
    """

    def __init__(self, *, spec, cell, terms):
        self._spec = spec
        self._terms = terms
        row = range(spec.rows)
        inputs = {"reading_row": row, "coming_row": row, "number": spec.timestamp_bits}
        inputs |= {"busy": 1, "swept": 1, "behind": 1, "word": cell, "lost": 1}
        outputs = {"hold": 1, "visits": 1, "row": row, "newcomer": cell, "read": 1}
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
            m.d.sync += [busy.eq(1), visit.holds.eq(visit.place & ~visit.stale)]
        self._elaborate_newcomer(m)
        return m

    def _elaborate_meeting(self, m, name, row):
        """Return whether an operation used the row of the entry two cycles ago."""
        pairs = registered(m, agreeing_pairs(row, self.row), f"{name}_pairs")
        return registered(m, pairs.all(), name)

    def _elaborate_newcomer(self, m):
        """Accept the entry that arrives."""
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
            # Sums of the cell while it is empty.
            added = registered(m, sums(Cat(cell.time, cell.rest)), "newcomer_sums")
            m.d.sync += cell.check.eq(~added.xor())

    def _elaborate_turn(self, m, ended):
        """Read the cell, and request its write when its content is about to be known."""
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
        """Find the entry that the cell held; return whether its content is unknown."""
        visit, bits = self.visit, self._spec.timestamp_bits
        found = registered(m, self.word, "found", reset_less=True, enable=self.read)
        distance = (self.number - found.time)[:bits]
        distance = registered(m, distance, "found_distance", reset_less=True)
        low = row_of(self.row, found.rest, self._terms)
        m.d.sync += [
            visit.evicted.digest.eq(Cat(low, found.rest)),
            visit.evicted_valid.eq(found.used & (distance < self._spec.window + 1)),
        ]
        m.d.comb += visit.evicted.time.eq(found.time)
        unknown = found.used & found.unknown if "unknown" in found.shape().members else 0
        return self.lost | unknown
