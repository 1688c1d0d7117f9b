"""Proofs for timing filters: ages, cell memory, sweep, and verdicts from threshold tables."""

from functools import partial
from typing import Any

from amaranth.hdl import Assume, Cat, Const, Module, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ...golden.spec.timestamp import PartitionedTimingSpec
from ...hdl.build import family_of, unit_profile
from ...hdl.control import CoreSignature
from ...hdl.latencies import CONTROL_LAG
from ...hdl.memory.cells import ECP5CellMemory, PortableCellMemory
from ...hdl.pipeline import delayed, registered
from ...hdl.timing.clocks import BlockCount
from ...hdl.timing.core import DecidingCore
from ...hdl.timing.oldest import OldestCell, TimingVerdict
from ...hdl.timing.part import TickCount, TimingPart
from ...hdl.timing.sweep import PortSweep, Visits, VisitSweep
from ...hdl.timing.sweep_rules import BETWEEN, elision_need
from ...hdl.unit import Unit
from ..toolchain import models
from .formal import Bounded, Proof
from .harness import AnyWord, Harness, constant, cycles_since, latched


class UndefinedCells(AnyWord, PortableCellMemory):
    pass


class CellAnswers(Harness):
    """Compares one arbitrary word of a cell memory with a register."""

    make = ECP5CellMemory

    def build(self, m):
        m.submodules.memory = memory = self._part
        followed = constant(m, memory.a_address.shape(), "followed")
        known, word = Signal(), Signal.like(memory.value)
        writes = memory.write & (memory.b_address == followed)
        with m.If(writes):
            m.d.sync += [known.eq(1), word.eq(memory.value)]
        expected = delayed(m, word, memory.LATENCY, "expected")
        for port, address, word_read, free in (
            ("A", memory.a_address, memory.a_word, ~writes),
            ("B", memory.b_address, memory.b_word, ~memory.write),
        ):
            asked = delayed(m, known & (address == followed) & free, memory.LATENCY, f"asked{port}")
            self.require(~asked | (word_read == expected))
            self.reach(f"port {port} reads a word that was written", asked & word_read.any())


class Aged(Harness):
    PROTECT = "none"
    MEMORY: Any = UndefinedCells
    SWEEP: Any = PortSweep
    INTERVAL = 0  # the sweep gets one cycle out of this many; 0 if it has its own port

    def __init__(self):
        cells, stamp_bits, self._limit = 2, 3, 2
        shape = {"cells": cells, "stamp_bits": stamp_bits, "limit": self._limit}
        self._cells = TimingPart(
            **shape, sweep=self.SWEEP, memory=self.MEMORY, protect=self.PROTECT
        )
        self._visits = Visits(cells=cells, interval=self.INTERVAL)
        self._ticks = TickCount(stamp_bits=stamp_bits, limit=self._limit)
        super().__init__()

    def build(self, m):
        m.submodules.part = part = self._cells
        m.submodules.ticks = ticks = self._ticks
        m.submodules.visits = visits = self._visits
        cell = constant(m, part.address.shape(), "cell")
        address = AnySeq(len(cell))
        m.d.comb += [
            part.address.eq(Mux(visits.visit, visits.cell, address)),
            ticks.tick.eq(part.tick),
            *(getattr(part, name).eq(getattr(visits, name)) for name in ("visit", "wipe", "clean")),
        ]
        wiring.connect(m, ticks.stamps, part.stamps)
        ready = latched(m, visits.clean, "ready")
        asks = self._elaborate_operations(m, ready)
        self._elaborate_age(m, asks & ready & (part.address == cell))
        return cell

    def _elaborate_age(self, m, access):
        part, limit = self._cells, self._limit
        age = Signal(range(limit + 1), init=limit)
        present = Mux(part.tick & (age != limit), age + 1, age)
        m.d.sync += age.eq(Mux(part.insert & access, 0, present))
        asked = delayed(m, access, part.LATENCY, "asked")
        expected = delayed(m, Cat(present, present == limit), part.LATENCY, "expected")
        self.require(~asked | (part.expired == expected[-1]))
        self.require(~asked | part.expired | (part.age == expected[:-1]))
        fresh = asked & ~part.expired
        self.reach("a cell was written in this tick", fresh & (part.age == 0))
        self.reach("a cell has the highest age", fresh & (part.age == limit - 1))
        self.reach("a cell has expired", asked & part.expired & latched(m, fresh))


class PartAnswers(Aged):
    CLOCKS = 11  # minimum cycles between two ticks

    def build(self, m):
        cell = super().build(m)
        # An operation never writes the cell for a second time within one tick.
        memory, stamp = self._cells.memory, registered(m, self._ticks.stamps.stamp, "stamp")
        writes = memory.write & (memory.b_address == cell) & (memory.value == stamp)
        written = Signal()
        before = written & ~delayed(m, self._cells.tick, TickCount.STAMP + 1, "ticked")
        m.d.sync += written.eq(before | writes)
        self.require(~(writes & before))

    def _elaborate_operations(self, m, ready):
        part, last = self._cells, self.CLOCKS - 1
        since = cycles_since(m, part.tick, last, init=last)
        m.d.comb += [
            part.insert.eq(AnySeq(1) & ready),
            part.tick.eq(AnySeq(1) & (since == last)),
        ]
        return Const(1)


class RestAnswers(Aged):
    SWEEP = VisitSweep
    INTERVAL = 3

    def _elaborate_operations(self, m, ready):
        part, interval = self._cells, self.INTERVAL
        m.submodules.blocks = blocks = BlockCount(block=3)
        valid, insert = Signal(), Signal()
        busy = Signal(range(interval))
        m.d.comb += [
            valid.eq(AnySeq(1) & ready & (busy != interval - 1)),
            insert.eq(valid & AnySeq(1)),
            self._visits.free.eq(~valid),
            blocks.insert.eq(insert),
            part.insert.eq(insert),
        ]
        m.d.sync += [busy.eq(Mux(valid, busy + 1, 0)), part.tick.eq(blocks.tick)]
        return valid


class SweepInTime(Harness):
    def __init__(self, *, cells=2, clocks=8):
        self._sweep = PortSweep(cells=cells, limit=2, stamp_bits=3)
        self._cells, self._clocks = cells, clocks
        self._ticks = -(-elision_need(cells) // (clocks - cells))
        super().__init__()

    def build(self, m):
        m.submodules.sweep = sweep = self._sweep
        followed, expired = constant(m, sweep.address.shape(), "followed"), constant(m, 1)
        here, soon, stamp = sweep.address == followed, sweep.soon, AnySeq(len(sweep.stamp))
        m.d.comb += [
            sweep.clean.eq(1),
            sweep.stamp.eq(stamp),
            # As if the current stamp were 0.
            Assume(~(sweep.read & here) | (((-stamp)[: len(stamp)] >= 2) == expired)),
            soon.insert.eq(AnySeq(1)),
            soon.address.eq(AnySeq(len(soon.address))),
            Assume(~soon.insert | (soon.address != followed)),
        ]
        written = Signal()
        left = registered(m, here, "before") & ~here
        m.d.sync += written.eq(Mux(here, written | sweep.writes.sweeps, 0))
        self.require(~left | (written == expired))
        self.reach("an expired cell is written", left & written)
        # Operations use cycles, but the sweep returns to the cell in time.
        cycle, used = Signal(range(self._clocks)), Signal(range(self._cells + 1))
        tick = cycle == self._clocks - 1
        m.d.comb += sweep.decided.due.eq(AnySeq(1) & (used != self._cells))
        m.d.sync += [
            cycle.eq(Mux(tick, 0, cycle + 1)),
            used.eq(Mux(tick, 0, used + sweep.busy)),
        ]
        since = Signal(range(self._ticks + 2))
        m.d.sync += since.eq(Mux(left, 0, since + (tick & (since <= self._ticks))))
        self.require(since <= self._ticks)
        self.reach("a lap uses half of the ticks", left & (since == self._ticks // 2))


class RestSweepInTime(Harness):
    def make(self):
        self._spec = spec = PartitionedTimingSpec(
            window=32, block=8, hashes=1, cells=2, stamp_bits=3, key_bits=8
        )
        return Unit(unit_profile(spec, tag_bits=1, statistics_bits=1), family_of(spec))

    def build(self, m):
        m.submodules.unit = unit = self._part
        (part,), visits, limit = unit.core.parts, unit.core.visits, self._spec.sweep_blocks
        followed = constant(m, visits.cell.shape(), "followed")
        visit = visits.visit & (visits.cell == followed)
        # From a visit to the cell until `BETWEEN` cycles after the next visit.
        first = Signal(init=1)
        begun = latched(m, (visit | first) & AnySeq(1), "begun")
        again = latched(m, begun & visit, "again")
        left, ticks = Signal(range(BETWEEN + 1), init=BETWEEN), Signal(range(limit + 2))
        m.d.sync += [
            first.eq(0),
            left.eq(left - (again & (left != 0))),
            ticks.eq(ticks + (part.tick & begun & (left != 0) & (ticks <= limit))),
        ]
        self.require(ticks <= limit)
        self.reach("a lap uses all of the ticks", again & (ticks == limit))
        self.reach("the input stalls for the sweep", unit.core.stall)


class OldestOfAll(Harness):
    def make(self, *, window, hashes):
        self._window = window
        return OldestCell(window=window, hashes=hashes)

    def build(self, m):
        m.submodules.oldest = oldest = self._part
        lost = self._window + 1
        m.d.comb += [Assume(age < lost) for age in (*oldest.ages, oldest.window)]
        ages = [
            Mux(oldest.expired[number], lost, oldest.ages[number])
            for number in range(len(oldest.expired))
        ]
        maximum = Signal(range(lost + 1))
        count = Signal(range(len(ages) + 1))
        m.d.comb += count.eq(sum(age == maximum for age in ages))
        largest = ages[0]
        for age in ages[1:]:
            largest = Mux(age > largest, age, largest)
        m.d.comb += maximum.eq(largest)
        seen = oldest.query & (maximum <= oldest.window)
        expected = delayed(m, Cat(seen, maximum, count), oldest.latency, "expected")
        verdict = Cat(oldest.verdict.seen, oldest.verdict.age, oldest.verdict.oldest)
        started = delayed(m, Const(1), oldest.latency, "started")
        self.require(~started | (verdict == expected))
        self.reach(
            "all cells have the same age",
            started & (oldest.verdict.oldest == len(ages)) & verdict[0],
        )
        self.reach("a cell of the key has expired", started & (oldest.verdict.age == lost))


_SPEC = PartitionedTimingSpec(window=2, block=2, hashes=1, cells=4)


class AnyCore(wiring.Component):
    """Stand-in for a timing filter's core: arbitrary verdicts, `latency` cycles after the keys."""

    latency = CONTROL_LAG + 2

    def __init__(self):
        verdict = TimingVerdict(window=_SPEC.window_blocks, hashes=_SPEC.hashes)
        super().__init__(CoreSignature(key_bits=1, verdict=verdict, others={"stall": Out(1)}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.verdict.eq(AnySeq(self.verdict.shape().size))
        return m


class TableAnswers(Harness):
    """Follows one arbitrary entry in both table banks."""

    @staticmethod
    def make():
        return DecidingCore(core=AnyCore(), spec=_SPEC, classes=2, bits=1)

    def build(self, m):
        m.submodules.deciding = part = self._part
        core, followed = part._core, constant(m, part.entry, "followed")
        known, held = self._elaborate_banks(m, part, followed)
        delay = part.latency - core.latency
        later = partial(delayed, m)
        started = later(Const(1), part.latency, name="started")
        query_class = later(part.query_class == followed.query_class, part.latency, name="class")
        phase = later(part.phase == followed.phase, part.latency - CONTROL_LAG, name="phase")
        age = later(core.verdict.age == followed.age, delay, name="age")
        query = later(part.control.query, part.latency - CONTROL_LAG, name="query")
        cells = later(core.verdict.oldest, delay, name="cells")
        followed_entry = query_class & phase & age & later(known, part.latency, name="known")
        threshold = later(held, part.latency, name="threshold")
        self.require(~followed_entry | (part.verdict.seen == (query & (cells >= threshold))))
        self.require(~started | (part.verdict.oldest == cells))
        self.reach("a query uses the second table", self._second & followed_entry & query)
        self.reach("a table is loaded while a query uses the other table",
                   followed_entry & part.table.valid & part.table.ready)  # fmt: skip

    def _elaborate_banks(self, m, part, followed):
        bank, swaps = Signal(), Signal(2)
        known = Signal(2)
        thresholds = [Signal.like(part.table.p.least, name=f"least{number}") for number in range(2)]
        entry = part.table.p
        at = part.entry["least"].offset
        loaded = part.table.valid & part.table.ready
        with m.If(loaded & (entry.as_value()[:at] == followed.as_value()[:at])):
            for number in range(2):
                with m.If(bank != number):
                    m.d.sync += [known[number].eq(1), thresholds[number].eq(entry.least)]
        m.d.sync += [
            bank.eq(bank ^ part.swap),
            swaps.eq(Mux(swaps == 3, 3, swaps + part.swap)),
        ]
        self._second = delayed(m, swaps == 2, part.latency, "second")
        return known.bit_select(bank, 1), Mux(bank, thresholds[1], thresholds[0])


PROOFS = (
    *(
        Proof(
            name=f"cell memory, ecp5, {depth} of {width} bits",
            statement="A read at either port returns the last word that was written, whatever the "
            "block RAM returns for reads that its vendor leaves undefined.",
            design=f"memory of {depth} cells of {width} bits, ecp5",
            build=partial(CellAnswers, depth=depth, width=width),
            models=models("ecp5"),
        )
        for depth, width in ((4, 20), (2, 9))
    ),
    Proof(
        name="ages of cells",
        statement="An operation gets the exact age of its cell, or learns that the cell has "
        "expired. This holds for any timing of operations and sweep, and for any data that the "
        "memory returns while two ports use the same word. Operations write a cell at most once "
        "per tick.",
        design="part of 2 cells of 3 bits, expired from an age of 2, ticks 11 cycles apart",
        build=PartAnswers,
        method=Bounded(40),
    ),
    Proof(
        name="ages of cells, swept in idle cycles",
        statement="An operation gets the exact age of its cell, or learns that the cell has "
        "expired, if the sweep uses only idle cycles, and as few of them as allowed.",
        design="part of 2 cells of 3 bits, expired from an age of 2, a tick per 3 insertions, "
        "at least one idle cycle in 3",
        build=RestAnswers,
        method=Bounded(48),
    ),
    Proof(
        name="sweep in time",
        statement="The sweep returns to each cell within the number of ticks that the "
        "specification allows, and rewrites the cell if it has expired. This holds for any timing "
        "of the writes by operations.",
        design="sweep of 2 cells, 8 cycles per tick, of which operations use 2",
        build=SweepInTime,
    ),
    Proof(
        name="sweep in time, in idle cycles",
        statement="The sweep returns to each cell, and can rewrite it, before the stamp of the "
        "cell repeats, for any operations and any receiver of results. It uses only cycles "
        "without an operation.",
        design="unit with one part of 2 cells of 3 bits, swept in idle cycles, blocks of 8 "
        "insertions, a window of 4 blocks",
        build=RestSweepInTime,
    ),
    *(
        Proof(
            name=f"oldest of {hashes}",
            statement="The verdict has the maximum age of the key's cells, the number of cells "
            "with this age, and whether the age is within the window. Expired cells count as the "
            "oldest.",
            design=f"keys with {hashes} {'cell' if hashes == 1 else 'cells'}, window of {window}",
            build=partial(OldestOfAll, hashes=hashes, window=window),
        )
        for hashes, window in ((1, 9), (3, 70), (4, 20))
    ),
    Proof(
        name="tables of thresholds",
        statement="Each operation uses the table that the last swap before it selected, whatever "
        "is loaded in the meantime.",
        design="deciding core, 2 classes, one phase bit, any verdicts",
        build=TableAnswers,
    ),
)
