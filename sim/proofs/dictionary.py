"""Proofs for window dictionaries: the columns, their sweep, and the guarantee of the core."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Assume, Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnySeq

from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...hdl.dictionary.column import Column
from ...hdl.dictionary.core import DictionaryCore, DigestHash
from ...hdl.dictionary.dictionary_figures import COMPARISON, MATCH, WORD
from ...hdl.dictionary.dictionary_figures import WRITE as WRITING
from ...hdl.latencies import CONTROL_LAG
from ...hdl.pipeline import delayed, registered
from .formal import Bounded, Proof
from .harness import Harness, constant, latched
from .timing import UndefinedCells


@dataclass(frozen=True)
class ColumnSizes:
    window: int = 2
    rows: int = 2
    timestamp_bits: int = 5
    rest_bits: int = 1
    row_bits: int = 1

    @property
    def cell_bits(self) -> int:
        return 1 + self.timestamp_bits + self.rest_bits


class ColumnAnswers(Harness):
    """Checks the results for one arbitrary cell of a column against counters that never wrap."""

    PERIOD = 2  # insertions per row of the sweep
    LAG = 4  # cycles until the input stalls after the sweep requests it
    SIZES = ColumnSizes()
    PROTECT = "none"
    MEMORY: Any = UndefinedCells
    TERMS: Any = None  # `terms` of `Column`

    def __init__(self):
        self._cells = Column(
            spec=self.SIZES, memory=self.MEMORY, protect=self.PROTECT, terms=self.TERMS
        )
        # In the previous cycle: whether operations were enabled, whether there was a write (of an
        # entry, or of the initial clear), and its row.
        self._opened = Signal()
        self._write = Signal()
        self._write_row = Signal.like(self._cells.row)
        super().__init__()

    def build(self, m):
        sizes = self.SIZES
        m.submodules.column = column = self._cells
        cell, wiped = constant(m, column.row.shape(), "cell"), Signal(range(sizes.rows + 1))
        ready = wiped == sizes.rows
        # Wide enough that it does not wrap within the bound of the proof.
        total = Signal(8)
        insert, tick = self._elaborate_entry(m, column, ready, total)
        rest = Signal(sizes.rest_bits)
        m.d.comb += [column.row.eq(AnySeq(len(cell))), rest.eq(AnySeq(1))]
        m.d.sync += wiped.eq(Mux(ready, wiped, wiped + 1))
        # An operation gets its number and its rest one cycle after its row.
        read = delayed(m, column.row, COMPARISON, "read")
        number = registered(m, total, "number")
        written = delayed(m, number, WRITING, "written")
        writes, used = AnySeq(1), AnySeq(1)
        write_row = delayed(m, read, WRITING - 1, "write_row_before")
        m.d.sync += [
            self._opened.eq(ready),
            self._write.eq(column.writes | column.clear),
            self._write_row.eq(Mux(ready, write_row, wiped)),
        ]
        m.d.comb += [
            column.tick.eq(tick),
            column.number.eq(delayed(m, number, WORD, "number")),
            column.rest.eq(delayed(m, rest, 1 + WORD, "rest")),
            column.writes.eq(delayed(m, insert, WRITING, "inserted") & writes),
            column.clear.eq(~ready),
            column.clear_row.eq(wiped),
            column.written.used.eq(self._opened & used),
            column.written.time.eq(written),
            column.written.rest.eq(delayed(m, rest, 1 + WRITING, "written_rest")),
        ]
        self._elaborate_reference(m, column, cell, read, number, rest, written)

    def _inserts(self):
        return Const(1)

    def _elaborate_entry(self, m, column, ready, total):
        phase = Signal(self.PERIOD, init=1)
        tick, late = Signal(), Signal()
        insert = ready & self._inserts() & ~delayed(m, late, self.LAG, "rests")
        m.d.sync += [
            total.eq(total + insert),
            phase.eq(Mux(insert, phase.rotate_left(1), phase)),
            tick.eq(insert & phase[-1]),
            late.eq((registered(m, column.late, "any_late") & tick) | column.overdue),
        ]
        return insert, tick

    def _expected(self, m, column, cell, read, number, rest, written):
        window = self.SIZES.window
        held = Signal()
        since = Signal.like(number)
        holds = Signal.like(rest)
        writes = self._write & (self._write_row == cell)
        with m.If(writes):
            m.d.sync += [
                held.eq(column.written.used),
                since.eq(written),
                holds.eq(column.written.rest),
            ]
        distance = Signal.like(number)
        m.d.comb += distance.eq(number - since)
        asked = self._opened & (read == cell) & ~writes
        equal = held & (holds == registered(m, rest, "tracked_rest"))
        match = equal & (distance <= window)
        free = ~held | (distance >= window)
        expected = delayed(m, Cat(asked, match, free, distance), MATCH, "expected")
        return expected[0], expected[1], expected[2], expected[3:]

    def _elaborate_reference(self, m, column, *operation):
        window = self.SIZES.window
        asked, match, free, distance = self._expected(m, column, *operation)
        self.require(
            ~asked | (column.match == match),
            ~asked | (column.free == free),
            ~(asked & match) | (column.distance == distance),
        )
        ends = asked & match & (distance == window)
        beyond = asked & free & (distance >= 1 << self.SIZES.timestamp_bits)
        self.reach("an entry is found at the end of the window", ends)
        self.reach("an entry is too old for its timestamp", beyond)
        self.reach("the input stalls for the sweep", column.overdue)


class Struck(UndefinedCells):
    """Memory in which one arbitrary bit flips once and stays wrong until its next write."""

    def elaborate(self, platform):
        self._row = Signal.like(self.a_address, name="struck_row")
        self._bit, self._wrong = Signal(self._width), Signal()
        m = super().elaborate(platform)
        strikes = Signal()
        m.d.comb += [
            self._row.eq(constant(m, self._row.shape())),
            self._bit.eq(constant(m, self._width)),
            Assume((self._bit != 0) & ((self._bit & (self._bit - 1)) == 0)),
            strikes.eq(AnySeq(1) & ~latched(m, strikes, "done")),
        ]
        written = self.write & (self.b_address == self._row)
        m.d.sync += self._wrong.eq((self._wrong | strikes) & ~written)
        return m

    def _read(self, m, read, *writes):
        wrong = registered(m, self._wrong & (read.addr == self._row), "wrong")
        return super()._read(m, read, *writes) ^ (self._bit & wrong.replicate(self._width))


class UpsetAnswers(ColumnAnswers):
    PROTECT = "parity"
    MEMORY = Struck

    def build(self, m):
        super().build(m)
        written = self._cells.written
        m.d.comb += written.check.eq(~Cat(written.time, written.rest).xor())

    def _elaborate_reference(self, m, column, *operation):
        asked, match, free, distance = self._expected(m, column, *operation)
        self.require(
            ~(asked & match) | column.match | column.doubted,
            ~(asked & column.match) | (match & (column.distance == distance)),
            ~(asked & column.free) | free,
            ~(column.doubted & (column.match | column.free)),
        )
        renewed = latched(m, column.memory.write & ~self._write & column.memory.value[0])
        lost = asked & match & column.doubted & (distance == self.SIZES.window)
        self.reach("a lost entry is doubtful until the end of its window", lost & renewed)


def digest_core(spec, *, memory=UndefinedCells):
    return DictionaryCore(spec=spec, memory=memory, digest=DigestHash(spec=spec, hashed=True))


class DictionaryAnswers(Harness):
    def __init__(self, *, core=digest_core, **sizes):
        values = {"window": 16, "columns": 3, "rows": 2, "digest_bits": 3, "stash": 1} | sizes
        spec = WindowDictionarySpec(key_bits=values["digest_bits"], **values)
        self._spec, self._core, self._window = spec, core(spec), spec.window
        self._followed = Signal.like(self._core.key)
        # Number of insertions after that of the followed digest, up to the window.
        self._known, self._age = Signal(), Signal(range(spec.window + 1))
        super().__init__()

    def build(self, m):
        m.submodules.core = core = self._core
        key, window = Signal.like(core.key), Signal.like(core.window)
        flags = Signal(4)
        opened = self._elaborate_start(m, core, flags[0])
        valid, query, insert, remove = (AnySeq(1) & opened & ~core.stall for _ in range(4))
        m.d.comb += [
            self._followed.eq(constant(m, len(key))),
            key.eq(AnySeq(len(key))),
            window.eq(AnySeq(len(window))),
            Assume(window <= self._window),
            core.key.eq(key),
            # A removal does not insert.
            flags.eq(Cat(valid, valid & query, valid & insert & ~remove, valid & remove)),
        ]
        names = ("valid", "query", "insert")
        later_flags = delayed(m, flags, CONTROL_LAG, "flags")
        m.d.comb += [getattr(core.control, name).eq(flag)
                     for name, flag in zip(names, later_flags, strict=False)]  # fmt: skip
        m.d.comb += [
            core.remove.eq(later_flags[3]),
            core.window.eq(delayed(m, window, CONTROL_LAG, "asked")),
        ]
        self._elaborate_reference(m, core, flags, key == self._followed, window)

    def _elaborate_start(self, m, core, comes):
        begun = registered(m, Const(1), "begun")
        m.d.comb += core.control.clear.eq(~begun)
        return latched(m, registered(m, begun, "later") & core.clean, "opened")

    def _elaborate_reference(self, m, core, flags, mine, window):
        known, age = self._known, self._age
        inserts, removes = flags[2], flags[3]
        with m.If(inserts & (age != self._window)):
            m.d.sync += age.eq(age + 1)
        with m.If(mine & inserts):
            m.d.sync += [known.eq(1), age.eq(0)]
        with m.If(mine & removes):
            m.d.sync += known.eq(0)
        held = flags[1] & mine & known & (age < window)
        expected = delayed(m, Cat(flags[1] & mine, held, age), core.latency, "expected")
        asked, held, age = expected[0], expected[1], expected[2:]
        verdict, lost = core.verdict, latched(m, core.lost, "lost")
        self.require(
            ~(asked & verdict.seen) | (held & (verdict.age == age)),
            ~(asked & held & ~verdict.seen) | verdict.status,
            ~verdict.status | lost | core.lost,
        )
        self.reach("a digest is found", asked & verdict.seen & (verdict.age == 3))
        self.reach("a query misses a lost entry", asked & held & ~verdict.seen)


PROOFS = (
    Proof(
        name="column of a dictionary",
        statement="An operation finds the last entry that was written into its cell, with the "
        "exact distance, until the entry expires. The sweep erases only expired entries, and each "
        "of them before its timestamp repeats. This holds for any data that the memory returns "
        "while two ports use the same word.",
        design="column of 2 cells, window of 2, timestamps of 5 bits",
        build=ColumnAnswers,
        method=Bounded(62),
    ),
    Proof(
        name="column of a dictionary, upset",
        statement="If one bit of a column with parity flips, at any time, an operation still finds "
        "each entry of the window with its exact distance, or the cell is reported as doubtful. "
        "An operation never finds a wrong entry, and an occupied cell is never reported as free.",
        design="column of 2 cells with parity, window of 2, timestamps of 5 bits",
        build=UpsetAnswers,
        method=Bounded(48),
    ),
    Proof(
        name="dictionary, any digest",
        statement="A query reports a digest, with its exact age, only if it was inserted within "
        "the window. If a query misses an inserted digest, its status is set, and the loss of an "
        "entry has been reported.",
        design="core with 3 columns of 2 rows, digests of 3 bits, window of 16, stash of 1 entry",
        build=DictionaryAnswers,
        method=Bounded(48),
    ),
)
