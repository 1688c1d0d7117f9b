"""Insertion numbers, placement and verdicts of dictionary operations."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import Pipeline, registered
from .cells import lowest
from .dictionary_figures import DECISION, HAZARDS, MATCH, VERDICT, swept_per_row


class InsertionCount(wiring.Component):
    """Numbers the insertions, and requests the sweep of one row at a fixed interval."""

    def __init__(self, *, spec):
        self._turn = swept_per_row(spec)
        super().__init__(
            {
                "insert": In(1),
                # number of the operation if it is an insertion
                "number": Out(spec.timestamp_bits),
                "tick": Out(1),  # one more row is due for the sweep
            }
        )

    def elaborate(self, platform):
        m = Module()
        turn = Signal(self._turn, init=1)
        m.d.sync += self.tick.eq(self.insert & turn[-1])
        with m.If(self.insert):
            m.d.sync += [self.number.eq(self.number + 1), turn.eq(turn.rotate_left(1))]
        return m


class Wipe(wiring.Component):
    """Empties all rows after a clear, one row per cycle."""

    def __init__(self, *, rows):
        super().__init__(
            # `announced`: a clear has arrived. `clear`: all earlier operations are decided.
            {"announced": In(1), "clear": In(1)}
            | {
                "clears": Out(1),  # a row is cleared
                "row": Out(range(rows)),
                "clean": Out(1),  # no clear is pending or in progress
            }
        )

    def elaborate(self, platform):
        m = Module()
        pending = Signal()
        m.d.sync += pending.eq(self.announced | (pending & ~self.clear))
        m.d.comb += self.clean.eq(~pending & ~self.clears)
        with m.If(self.clears):
            m.d.sync += [self.row.eq(self.row + 1), self.clears.eq(~self.row.all())]
        with m.If(self.clear):
            m.d.sync += [self.row.eq(0), self.clears.eq(1)]
        return m


FREE_GROUP = 5  # number of columns among which one level of LUTs finds the first free one
# number of low bits of insertion numbers that distinguish the operations in flight
NEAR_BITS = HAZARDS.bit_length()


class Knowledge(data.StructLayout):
    """State of the cells of an operation, as known from the read and from earlier operations."""

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
    """Selects the cell that an operation writes; one operation per cycle.

    An insertion writes the cell that holds its digest, otherwise the first free cell, otherwise the
    stash. A removal empties the cell that holds its digest. If an operation reads a cell before an
    earlier operation has written it, the decision of the earlier operation replaces the read; the
    latest decision has priority.
    """

    LATENCY = DECISION + 1

    def __init__(self, *, columns):
        self._columns = columns
        super().__init__(
            {
                "insert": In(1),
                "remove": In(1),
                "number": In(NEAR_BITS),  # low bits of the operation's number
                # bit k - 1: whether the operation k cycles earlier had the same digest
                "same": In(HAZARDS),
                # the same for the row in each column
                "same_rows": In(data.ArrayLayout(HAZARDS, columns)),
                # Results of the columns, `MATCH` cycles later.
                "match": In(columns),
                "free": In(columns),
                "hit": Out(1),  # a column holds the digest; `LATENCY` cycles later
                # cell that the operation fills or empties; `LATENCY` cycles later
                "writes": Out(columns),
                "fills": Out(1),  # the operation fills a cell; `LATENCY` cycles later
                "pushes": Out(1),  # the operation goes to the stash; `LATENCY` cycles later
                "acts": Out(1),  # the operation inserts or removes; one cycle after `fills`
                "push": Out(1),  # `pushes` one cycle later
                # An operation in flight wrote the cell that holds the digest, `near_distance`
                # insertions earlier; one cycle after `fills`.
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
        """Combine the results of the read with earlier decisions, which have priority."""
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
        """Update `state` with the decision of the operation `distance` cycles earlier."""
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
        first = lowest(known.free, group=FREE_GROUP)
        m.d.sync += [
            self._fills.eq((known.hit & inserts) | (first & placed)),
            self._empties.eq(known.hit & removes),
            self._acts.eq(insert | remove),
            self.fills.eq(insert & (hit | known.free.any())),
            self.hit.eq(hit),
            self.pushes.eq(insert & ~hit & ~known.free.any()),
        ]


class WindowVerdict(data.StructLayout):
    """Result of a query: ``seen``, ``age`` in insertions (0 if not seen), and ``status``."""

    def __init__(self, *, window):
        super().__init__({"seen": 1, "age": range(window), "status": 1})


class Guarantee(wiring.Component):
    """Tracks the guaranteed window: insertions since the youngest evicted entry was inserted."""

    def __init__(
        self,
        *,
        window,
        bits,  # width of a distance
        # entries are evicted in the order of their insertions, so that each evicted entry is the
        # youngest so far. A comparison would limit the clock frequency.
        ordered,
    ):
        self._window = window
        self._ordered = ordered
        super().__init__(
            {
                "insert": In(1),
                "clear": In(1),
                "lost": In(1),  # the operation evicted an entry
                "lost_distance": In(bits),  # distance of the entry from the operation
                "asked": In(range(window + 1)),  # window of the operation
                # the window of the operation exceeds the guaranteed window; one cycle later
                "short": Out(1),
                # Largest window for which results are exact; two cycles later.
                "guaranteed": Out(range(window + 1), init=window),
            }
        )

    def elaborate(self, platform):
        m = Module()
        window = self._window
        # The count may exceed the window by one until this is detected.
        count = Signal(range(window + 2), init=window)
        whole = Signal(init=1)
        m.d.sync += [
            whole.eq(count >= window),
            self.guaranteed.eq(Mux(whole, window, count)),
            self.short.eq(self.asked > count),
        ]
        with m.If(self.insert & ~whole):
            m.d.sync += count.eq(count + 1)
        with m.If(self.lost & (1 if self._ordered else ~(count < self.lost_distance))):
            m.d.sync += [count.eq(self.lost_distance), whole.eq(0)]
        with m.If(self.clear):
            m.d.sync += [count.eq(window), whole.eq(1)]
        return m


class Verdict(wiring.Component):
    """Computes the verdict of an operation, `LATENCY` cycles later."""

    LATENCY = VERDICT

    def __init__(self, *, spec):
        self._window = window = spec.window
        bits = spec.timestamp_bits
        # `held`: a column holds the digest, inserted `distance` insertions earlier. `stashed`: the
        # stash holds the digest, which may have expired. `lost` and `lost_distance` are one cycle
        # late.
        inputs = dict.fromkeys(("query", "insert", "clear", "held", "stashed", "lost"), 1)
        inputs |= dict.fromkeys(("distance", "stash_distance", "lost_distance"), bits)
        inputs |= {"window": range(window + 1)}
        # Without moves, the stash evicts its oldest entry.
        self.guarantee = Guarantee(window=window, bits=bits, ordered=not spec.moves)
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {
                "verdict": Out(WindowVerdict(window=window)),
                # See `Guarantee`; valid with the verdict.
                "guaranteed": Out(range(window + 1), init=window),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        window = self._window
        names = ("query", "insert", "clear", "held", "stashed")
        query, insert, clear, held, stashed = (
            pipe.enter(getattr(self, name), name) for name in names
        )
        asked, here, other = (
            pipe.enter(getattr(self, name), name, reset_less=True)
            for name in ("window", "distance", "stash_distance")
        )
        distance = pipe.register(
            "any_distance",
            lambda here, other, stashed: Mux(stashed, other, here),
            here, other, stashed, reset_less=True,
        )  # fmt: skip
        # If the stash holds the digest, no column holds it.
        alive = pipe.register("alive", lambda distance: distance <= window, other)
        is_held = pipe.register(
            "is_held", lambda *flags: (flags[0] | flags[1]) & flags[2], held, stashed, query
        )
        is_held = pipe.register(
            "alive_held", lambda is_held, alive, stashed: is_held & (alive | ~stashed),
            is_held, alive, stashed,
        )  # fmt: skip
        within = pipe.register(
            "within", lambda distance, asked: ~(asked < distance), distance, asked
        )
        age = pipe.register(
            "age", lambda distance: (distance - 1)[: len(self.verdict.age)], distance
        )
        short = self._elaborate_guarantee(m, pipe, insert=insert, clear=clear, asked=asked)
        seen = is_held & within
        verdict = pipe.register(
            "verdict",
            lambda seen, age, short, query: Cat(
                seen, age & seen.replicate(len(age)), short & query
            ),
            seen, age, short, query,
        )  # fmt: skip
        m.d.comb += self.verdict.as_value().eq(verdict.value)
        pipe.leave(verdict, latency=self.LATENCY)
        return m

    def _elaborate_guarantee(self, m, pipe, **operation):
        m.submodules.guarantee = guarantee = self.guarantee
        lost, distance = (
            pipe.enter(getattr(self, name), name, stage=1) for name in ("lost", "lost_distance")
        )
        operation = {name: value.at(1) for name, value in operation.items()}
        come = pipe.drive(guarantee, lost=lost, lost_distance=distance, **operation)
        m.d.comb += self.guaranteed.eq(guarantee.guaranteed)
        return pipe.enter(guarantee.short, "short", stage=come + 1)
