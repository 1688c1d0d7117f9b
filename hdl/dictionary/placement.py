"""Placement of operations, as if each operation saw the writes of all earlier operations."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import Pipeline, registered
from .cells import lowest
from .dictionary_figures import DECISION, HAZARDS, MATCH

GROUP = 5
"""Columns in which one level of LUTs finds the first free one."""

NEAR_BITS = HAZARDS.bit_length()
"""Low bits of insertion numbers, which distinguish the operations in flight."""


class Knowledge(data.StructLayout):
    """State of an operation's cells, from its read and from earlier operations.

    Parameters
    ----------
    columns : int
    """

    def __init__(self, *, columns):
        super().__init__(
            {
                # Cells that were written, and whether they are free now; after the read, all cells.
                "written": columns,
                "free": columns,
                # Cell that holds the digest, if known.
                "hit": columns,
                "known": 1,
                # Whether an operation in flight wrote that cell, and its number.
                "near": 1,
                "time": NEAR_BITS,
            }
        )


class Placement(wiring.Component):
    """Decides which cell an operation writes, if any; one operation per cycle.

    An insertion writes the cell that holds its digest, otherwise the first free cell, otherwise
    the stash. A removal empties the cell that holds its digest.

    An operation enters in the cycle in which its cells are read. The decision follows `DECISION`
    cycles later, and the write two cycles after the decision. Operations that read before the write
    do not see it. So they receive the decision and merge it into their reads, the nearest decision
    last.

    Parameters
    ----------
    columns : int

    Members
    -------
    insert, remove : In(1)
    number : In(NEAR_BITS)
        Low bits of the operation's number.
    same : In(HAZARDS)
        Bit k - 1: whether the operation k cycles earlier had the same digest.
    same_rows : In
        The same for the row in each column.
    match, free : In(columns)
        Answers of the columns, `MATCH` cycles later.
    hit : Out(1)
        A column holds the digest; `LATENCY` cycles later.
    writes : Out(columns)
        Cell that the operation fills or empties; `LATENCY` cycles later.
    fills, pushes : Out(1)
        The operation fills a cell; it goes to the stash; `LATENCY` cycles later.
    acts, push : Out(1)
        The operation inserts or removes; it goes to the stash; one cycle later.
    near : Out(1)
        An operation in flight wrote the cell that holds the digest, `near_distance` insertions
        earlier; one cycle later.
    near_distance : Out(NEAR_BITS)
    """

    LATENCY = DECISION + 1

    def __init__(self, *, columns):
        self._columns = columns
        super().__init__(
            {
                "insert": In(1),
                "remove": In(1),
                "number": In(NEAR_BITS),
                "same": In(HAZARDS),
                "same_rows": In(data.ArrayLayout(HAZARDS, columns)),
                "match": In(columns),
                "free": In(columns),
                "hit": Out(1),
                "writes": Out(columns),
                "fills": Out(1),
                "pushes": Out(1),
                "acts": Out(1),
                "push": Out(1),
                "near": Out(1),
                "near_distance": Out(NEAR_BITS),
            }
        )
        self._fills, self._empties = (Signal(columns, name=name) for name in ("filled", "emptied"))
        self._acts = Signal(name="decided_acts")

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        insert, remove, number = (
            pipe.enter(getattr(self, name), name).at(DECISION).value
            for name in ("insert", "remove", "number")
        )
        self._same = pipe.enter(self.same, "same", reset_less=True)
        self._same_rows = pipe.enter(self.same_rows, "same_rows", reset_less=True)
        inserts = registered(m, insert, "decided_insert")
        number = registered(m, number, "decided_number")
        reports = [self._fills, self._empties, self._acts, inserts, number]
        reports_before = [registered(m, each, "report_before") for each in reports]
        state = Knowledge(columns=self._columns).const({})
        state = self._informed(m, state, HAZARDS, reports_before)
        for stage in range(DECISION):
            if stage == MATCH:
                state = self._merged(state)
            known = self._informed(m, state, DECISION + 1 - stage, reports)
            state = registered(m, known, f"knowledge{stage + 1}")
        held = registered(m, known.hit.any(), "held")
        known = self._informed(m, state, 1, reports)
        same = self._same.at(DECISION).value[0]
        self._elaborate_decision(m, known, insert, remove, Mux(self._acts & same, self.fills, held))
        # The next operation, if it inserts the same digest, will write the same cell.
        absorbed = (same & insert).replicate(self._columns)
        m.d.comb += self.writes.eq((self._fills & ~absorbed) | self._empties)
        time = registered(m, known.time, "near_time")
        m.d.sync += [
            self.acts.eq(self._acts),
            self.push.eq(self.pushes),
            self.near.eq(registered(m, known.near, "nearby")),
            self.near_distance.eq(number - time),
        ]
        return m

    def _merged(self, state):
        """Combine reads with reports; reports have priority."""
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

    def _informed(self, m, state, distance, reports):
        """Return a state after the report of the operation `distance` cycles earlier."""
        fills, empties, acts, inserts, number = reports
        known = Signal(state.shape(), name=f"informed{distance}")
        stage = max(0, DECISION + 1 - distance)
        mine = acts & self._same.at(stage).value[distance - 1]
        same_rows = self._same_rows.at(stage).value
        rows = Cat(same_rows[column][distance - 1] for column in range(self._columns))
        m.d.comb += [
            known.written.eq(state.written | ((fills | empties) & rows)),
            known.free.eq((state.free | (empties & rows)) & ~(fills & rows)),
            known.hit.eq(Mux(mine, fills, state.hit)),
            known.known.eq(state.known | mine),
            known.near.eq(Mux(mine, inserts, state.near)),
            known.time.eq(Mux(mine, number, state.time)),
        ]
        return known

    def _elaborate_decision(self, m, known, insert, remove, hit):
        inserts, removes = (each.replicate(self._columns) for each in (insert, remove))
        # Without a hit no column holds the digest, so the last step selects nothing.
        placed = (insert & ~hit).replicate(self._columns)
        first = lowest(known.free, group=GROUP)
        m.d.sync += [
            self._fills.eq((known.hit & inserts) | (first & placed)),
            self._empties.eq(known.hit & removes),
            self._acts.eq(insert | remove),
            self.fills.eq(insert & (hit | known.free.any())),
            self.hit.eq(hit),
            self.pushes.eq(insert & ~hit & ~known.free.any()),
        ]
