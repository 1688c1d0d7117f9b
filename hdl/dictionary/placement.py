"""Where operations write: as if each had seen what those before it, still under way, will write."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .column import Column
from .dictionary_figures import DECISION, HAZARDS

READ = Column.LATENCY
"""Clocks from the address of the cells to what they tell."""

GROUP = 5
"""Columns of which the first free one is found in one level of look-up tables."""

NEAR_BITS = HAZARDS.bit_length()
"""Low bits of the numbers of insertions, in which those under way differ."""


class Knowledge(data.StructLayout):
    """What an operation has learned from those before it since it read its cells.

    Parameters
    ----------
    columns : int
    """

    def __init__(self, *, columns):
        super().__init__(
            {
                # Cells that were written, and whether these are free now; all cells once read.
                "written": columns,
                "free": columns,
                # Cell that holds the digest, if that is known.
                "hit": columns,
                "known": 1,
                # Whether an operation under way wrote it, and the number of that.
                "near": 1,
                "time": NEAR_BITS,
            }
        )


class Placement(wiring.Component):
    """Decides for one operation a clock which cell it writes, if any.

    An insertion writes the cell that holds its digest, else the first free one, else it goes to
    the stash; a removal empties the cell that holds its digest.

    An operation is decided `DECISION` clocks after the address of its cells, and writes two
    clocks later. It tells all behind it, up to those that have their address when it writes:
    the memory does not show them what. They put it over what they read, nearest last.

    Parameters
    ----------
    columns : int
    further
        Further members.

    Members
    -------
    same : In(HAZARDS)
        Bit k - 1: whether the operation k clocks ago had the digest of the one that is
        `DECISION` + 1 - k clocks behind its address, and not ahead of it.
    same_rows : In
        The same for the cells in each column.
    match, free : In(columns)
        What the columns tell of the operation `Column.LATENCY` clocks behind its address.
    insert, remove : In(1)
        What the operation does that is decided.
    number : In(NEAR_BITS)
        Its number, the low bits.
    fills, empties : Out(columns)
        Cell that the operation fills, or empties, which was decided the clock before.
    filled : Out(1)
        There is one that it fills.
    acts : Out(1)
        It inserts or removes.
    hit : Out(1)
        A column holds its digest.
    push : Out(1)
        The operation that was decided two clocks before goes to the stash.
    near : Out(1)
        The cell that holds its digest was written by an operation that was under way,
        `near_distance` insertions before.
    near_distance : Out(NEAR_BITS)
    """

    def __init__(self, *, columns, **further):
        self._columns = columns
        super().__init__(
            {
                "same": In(HAZARDS),
                "same_rows": In(data.ArrayLayout(columns, HAZARDS)),
                "match": In(columns),
                "free": In(columns),
                "insert": In(1),
                "remove": In(1),
                "number": In(NEAR_BITS),
                "fills": Out(columns),
                "empties": Out(columns),
                "filled": Out(1),
                "acts": Out(1),
                "hit": Out(1),
                "push": Out(1),
                "near": Out(1),
                "near_distance": Out(NEAR_BITS),
            }
            | further
        )

    def elaborate(self, platform):
        m = Module()
        layout = Knowledge(columns=self._columns)
        inserts, number = Signal(), Signal(NEAR_BITS)
        m.d.sync += [inserts.eq(self.insert), number.eq(self.number)]
        tells = [self.fills, self.empties, self.acts, inserts, number]
        told_before = [registered(m, each, "told_before") for each in tells]
        state = self._told(m, layout.const({}), HAZARDS, told_before)
        for stage in range(DECISION):
            if stage == READ:
                state = self._merged(state)
            told = self._told(m, state, DECISION + 1 - stage, tells)
            state = registered(m, told, f"knowledge{stage + 1}")
        held = registered(m, told.hit.any(), "held")
        told = self._told(m, state, 1, tells)
        time = registered(m, told.time, "near_time")
        m.d.sync += [
            self.push.eq(inserts & ~self.filled),
            self.near.eq(registered(m, told.near, "nearby")),
            self.near_distance.eq(number - time),
        ]
        self._elaborate_decision(m, told, Mux(self.acts & self.same[0], self.filled, held))
        return m

    def _merged(self, state):
        """Put what was read under what was told."""
        return data.View(
            Knowledge(columns=self._columns),
            Cat(
                Const((1 << self._columns) - 1, self._columns),
                (self.free & ~state.written) | state.free,
                Mux(state.known, state.hit, self.match),
                Const(1),
                state.near,
                state.time,
            ),
        )

    def _told(self, m, state, distance, tells):
        """Return what is known with what the operation tells that was `distance` clocks before."""
        fills, empties, acts, inserts, number = tells
        told = Signal(state.shape(), name=f"told{distance}")
        mine = acts & self.same[distance - 1]
        rows = self.same_rows[distance - 1]
        m.d.comb += [
            told.written.eq(state.written | ((fills | empties) & rows)),
            told.free.eq((state.free | (empties & rows)) & ~(fills & rows)),
            told.hit.eq(Mux(mine, fills, state.hit)),
            told.known.eq(state.known | mine),
            told.near.eq(Mux(mine, inserts, state.near)),
            told.time.eq(Mux(mine, number, state.time)),
        ]
        return told

    def _elaborate_decision(self, m, told, hit):
        inserts, removes = (each.replicate(self._columns) for each in (self.insert, self.remove))
        # The digest is held in no column, if not hit, so that no choice is needed at the end.
        placed = (self.insert & ~hit).replicate(self._columns)
        m.d.sync += [
            self.fills.eq((told.hit & inserts) | (self._first(told.free) & placed)),
            self.empties.eq(told.hit & removes),
            self.filled.eq(self.insert & (hit | told.free.any())),
            self.acts.eq(self.insert | self.remove),
            self.hit.eq(hit),
        ]

    def _first(self, free):
        """Return the lowest bit that is set, in groups so that few tables follow each other."""
        before, first = Const(0), []
        for low in range(0, self._columns, GROUP):
            group = free[low : low + GROUP]
            first += [
                bit & ~group[:at].any() & ~before if at else bit & ~before
                for at, bit in enumerate(group)
            ]
            before = before | group.any()
        return Cat(first)
