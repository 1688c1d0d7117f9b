"""Core of a timing filter, and tables of thresholds that decide its results."""

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..control import CoreSignature
from ..hash.functions import expand, hash_latency, hashed_state
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS, PAGE_WORDS, VOTES
from ..memory.cells import CellMemory, cell_memory
from ..memory.paged import DelayLine
from ..memory.protection import CELL_PROTECTIONS, copy_names, protected, vote
from ..parameters import require_integer
from ..pipeline import Pipeline
from .oldest import OldestCell, TimingVerdict
from .part import TickCount, TimingPart
from .sweep import PortSweep, Visits, VisitSweep
from .sweep_rules import DECISION_LATENCY
from .timing_profile import TimingProfile


class Threshold(data.StructLayout):
    """Entry of a table of thresholds: see `lately.golden.DecisionTable.thresholds`."""

    def __init__(self, *, spec, classes, bits):
        super().__init__(
            {
                "phase": bits,
                "age": range(spec.window_blocks + 2),
                "query_class": range(classes),
                "least": range(spec.hashes + 2),
            }
        )


class DecisionTables(wiring.Component):
    """Decides from a threshold table whether a key has enough cells of its age to be reported."""

    LATENCY = DECISION_LATENCY

    def __init__(self, *, entry, memory="portable", copies=1):
        self._entry = entry
        # All fields except the last one, which is the threshold.
        self._at = at = entry["least"].offset
        self._copies = [
            cell_memory(memory, depth=2 << at, width=entry.size - at) for _ in range(copies)
        ]
        super().__init__(
            {
                # an entry of the inactive bank
                "i": In(stream.Signature(entry, always_ready=True)),
                "bank": In(1),  # bank for the operation of this cycle
                # whether the bank was loaded; otherwise any number of cells is enough
                "loaded": In(1),
                "loads": In(1),  # bank that is being loaded
                # entry of the operation; ``least`` is its number of oldest cells
                "where": In(entry),
                "enough": Out(1),  # whether the number of oldest cells is at least the threshold
            }
        )

    def elaborate(self, platform):
        m = Module()
        at, copies = self._at, self._copies
        for thresholds, number in zip(copies, copy_names(copies), strict=True):
            m.submodules[f"thresholds{number}"] = thresholds
            m.d.comb += [
                thresholds.a_address.eq(Cat(self.where.as_value()[:at], self.bank)),
                thresholds.b_address.eq(Cat(self.i.p.as_value()[:at], self.loads)),
                thresholds.write.eq(self.i.valid),
                thresholds.value.eq(self.i.p.least),
            ]
        pipe = Pipeline(m)
        cells = pipe.enter(self.where.least, "cells", reset_less=True)
        loaded = pipe.enter(self.loaded, "loaded", reset_less=True)
        least = vote([thresholds.a_word for thresholds in copies])
        least = pipe.enter(least, "least", stage=CellMemory.LATENCY, reset_less=True)
        enough = pipe.register(
            "enough", lambda loaded, cells, least: ~loaded | (cells >= least), loaded, cells, least
        )
        m.d.comb += self.enough.eq(enough.value)
        pipe.leave(enough, latency=self.LATENCY)
        return m


class DecidingCore(wiring.Component):
    """Core of a timing filter whose verdicts come from a table of thresholds."""

    def __init__(self, *, core, spec, classes, bits, memory="portable"):
        require_integer("Classes", classes, minimum=1)
        require_integer("Phase bits", bits, maximum=spec.block_units.bit_length() - 1)
        self._core = core
        self._memory = memory
        # layout of an entry of the table
        self.entry = Threshold(spec=spec, classes=classes, bits=bits)
        self.latency = core.latency + DecisionTables.LATENCY
        self._protected = "upset" in core.signature.events
        super().__init__(
            CoreSignature(
                key_bits=spec.key_bits,
                verdict=core.verdict.shape(),
                # `query_class`: valid with the key
                request={"query_class": range(classes)},
                # `table`: entries for the inactive bank. Not ready after a swap until the last
                # earlier operation has its answer.
                # `swap`: operations in later cycles use the other bank. Every key is reported
                # between reset and the first swap.
                ports={"table": In(stream.Signature(self.entry)), "swap": In(1)},
                events=["upset"] if self._protected else [],
                # `phase`: valid with the control flags
                others={"phase": In(bits), "stall": Out(1)},
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.tables = tables = DecisionTables(
            entry=self.entry, memory=self._memory, copies=VOTES if self._protected else 1
        )
        pipe = Pipeline(m)
        loads = self._elaborate_load(m, tables)
        bank, loaded = Signal(name="bank"), Signal(name="loaded")
        answered = core.latency
        swap = pipe.enter(self.swap, "swap").at(CONTROL_LAG)
        m.d.sync += [bank.eq(bank ^ swap.value), loaded.eq(loaded | swap.value)]
        asked = {
            "query_class": pipe.enter(self.query_class, "query_class", reset_less=True),
            "phase": pipe.enter(self.phase, "phase", stage=CONTROL_LAG, reset_less=True),
            "bank": pipe.enter(bank, "bank", stage=CONTROL_LAG),
            "loaded": pipe.enter(loaded, "loaded", stage=CONTROL_LAG),
        }
        query = pipe.enter(self.control.query, "query", stage=CONTROL_LAG)
        verdict = pipe.enter(core.verdict, "verdict", stage=answered, reset_less=True)
        where = tables.where
        m.d.comb += [
            core.key.eq(self.key),
            core.control.eq(self.control),
            tables.bank.eq(asked["bank"].at(answered).value),
            tables.loaded.eq(asked["loaded"].at(answered).value),
            tables.loads.eq(loads),
            where.query_class.eq(asked["query_class"].at(answered).value),
            where.phase.eq(asked["phase"].at(answered).value),
            where.age.eq(core.verdict.age),
            where.least.eq(core.verdict.oldest),
            self.clean.eq(core.clean),
            self.stall.eq(core.stall),
        ]
        if self._protected:
            m.d.comb += self.fault.eq(core.fault)
        self._elaborate_answer(m, pipe, tables, verdict, query)
        return m

    def _elaborate_load(self, m, tables):
        """Accept entries while no operation in flight uses the inactive bank; return this bank."""
        loads = Signal(init=1)
        settling = Signal(range(self.latency + 2))
        m.d.comb += [
            self.table.ready.eq((settling == 0) & ~self.swap),
            tables.i.valid.eq(self.table.valid & self.table.ready),
            tables.i.p.eq(self.table.p),
        ]
        m.d.sync += loads.eq(loads ^ self.swap)
        m.d.sync += settling.eq(
            Mux(self.swap, self.latency + 1, Mux(settling == 0, 0, settling - 1))
        )
        return loads

    def _elaborate_answer(self, m, pipe, tables, verdict, query):
        core = self._core
        enough = pipe.enter(tables.enough, "enough", stage=self.latency)
        verdict = verdict.at(self.latency)
        query = query.at(self.latency)
        flags = {name: pipe.enter(getattr(core, name), name, stage=core.latency + lag)
                 for name, lag in (("valid_next", -1), ("valid", 0), ("insert", 0))}  # fmt: skip
        m.d.comb += [
            self.verdict.seen.eq(enough.value & query.value),
            self.verdict.age.eq(verdict.value.age),
            self.verdict.oldest.eq(verdict.value.oldest),
            self.valid_next.eq(flags["valid_next"].at(self.latency - 1).value),
            self.valid.eq(flags["valid"].at(self.latency).value),
            self.insert.eq(flags["insert"].at(self.latency).value),
            self.hit.eq(self.valid & self.verdict.seen),
        ]
        pipe.leave(enough, verdict, query, latency=self.latency)


class TimingCore(wiring.Component):
    """Core of a timing filter: one operation per cycle, without internal stalls.

    A query with window w reports every key that was inserted at most w ticks ago. It reports an
    older key only if other insertions wrote all cells of this key within the last w ticks. A stamp
    is not used again while a cell holds it, however long the gap between insertions is.

    If a tick is a unit of time, ticks must arrive at least `TimingProfile.min_period` cycles apart.
    If a tick is a block of insertions, ticks may arrive in every cycle, and the core asserts
    ``stall`` for one in `TimingProfile.rest_interval` cycles, so that the sweep gets idle cycles.
    """

    def __init__(self, spec, *, memory="portable", levels=DEFAULT_LEVELS, protect="none"):
        self._spec = spec
        self._levels = levels
        self._protected = protect != "none"
        profile = TimingProfile.of(spec, levels=levels, memory=memory, protect=protect)
        profile.check_sweep()
        window = spec.window_blocks
        shape = {"stamp_bits": spec.stamp_bits, "limit": window + 1}
        part = partial(
            TimingPart,
            **shape,
            cells=spec.cells,
            sweep=VisitSweep if profile.counted else PortSweep,
            memory=partial(cell_memory, memory),
            protect=protect,
        )
        self.parts = [part() for _ in range(spec.hashes)]
        self.visits = Visits(cells=spec.cells, interval=profile.rest_interval)
        checks = CELL_PROTECTIONS[protect].check_bits(spec.stamp_bits)
        self.ticks = TickCount(**shape, check_bits=checks)
        self.oldest = OldestCell(window=window, hashes=spec.hashes)
        terms = profile.latency_terms
        self.hash_latency = terms["hash"]
        # cycles from a key to the ages of its cells
        self.read_latency = self.hash_latency + terms["cells"]
        self.latency = self.read_latency + terms["oldest"]
        super().__init__(
            CoreSignature(
                key_bits=spec.key_bits,
                verdict=TimingVerdict(window=window, hashes=spec.hashes),
                # `window`: window of the query in ticks, valid with the key
                request={"window": range(window + 1)},
                events=["upset"] if self._protected else [],
                others={"stall": Out(1)},
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.oldest = oldest = self.oldest
        pipe = Pipeline(m, levels=self._levels)
        control = pipe.enter(self.control, "control", stage=CONTROL_LAG)
        self._elaborate_visits(m, control)
        self._elaborate_parts(m, pipe, control.at(self.hash_latency))
        read = self.read_latency
        answers = {
            name: pipe.enter(
                Cat(getattr(part, port) for part in self.parts),
                name,
                stage=read - 1,
                reset_less=True,
            ).at(read)
            for name, port in (("ages", "age"), ("expired", "expired"))
        }
        window = self._elaborate_window(m, pipe)
        compared = pipe.drive(oldest, **answers, query=control["query"].at(read), window=window)
        verdict = pipe.enter(oldest.verdict, "verdict", stage=compared + oldest.latency)
        valid = control["valid"].at(verdict.stage).value
        m.d.comb += [
            self.verdict.eq(verdict.value),
            self.valid_next.eq(control["valid"].at(verdict.stage - 1).value),
            self.valid.eq(valid),
            self.hit.eq(valid & self.verdict.seen),
            self.insert.eq(control["insert"].at(verdict.stage).value),
        ]
        if self._protected:
            self._elaborate_upset(m, pipe, control)
        pipe.leave(verdict, latency=self.latency)
        return m

    def _elaborate_visits(self, m, control):
        m.submodules.visits = visits = self.visits
        here = control.at(self.hash_latency)
        begun = control["clear"].at(self.hash_latency + 1).value
        clearing = Signal()
        m.d.sync += clearing.eq(control["clear"].value | clearing & ~begun)
        m.d.comb += [
            visits.free.eq(~here["valid"].value),
            visits.clear.eq(here["clear"].value),
            self.stall.eq(visits.late),
            self.clean.eq(visits.clean & ~clearing),
        ]

    def _elaborate_parts(self, m, pipe, control):
        spec, visits = self._spec, self.visits
        # The key waits for the control if the hash is faster.
        key = pipe.enter(self.key, "key", reset_less=True)
        key = key.at(self.hash_latency - hash_latency(spec.key_bits, levels=self._levels))
        state = hashed_state(pipe, key, spec.seed)
        (addresses,) = expand(pipe, state, sizes=spec.index_sizes, functions=1, seed=spec.seed)
        m.submodules.ticks = ticks = self.ticks
        pipe.drive(ticks, tick=control["shift"])
        shared = {name: pipe.enter(getattr(visits, name), name, stage=control.stage)
                  for name in ("visit", "wipe", "cell", "clean")}  # fmt: skip
        cell = shared.pop("cell")
        shared |= {"insert": control["insert"], "tick": control["shift"]}
        for number, (part, address) in enumerate(zip(self.parts, addresses, strict=True)):
            m.submodules[f"part{number}"] = part
            address = pipe.combine("address", Mux, control["valid"], address, cell)
            pipe.drive(part, address=address, **shared)
        wiring.connect(m, ticks.stamps, *(part.stamps for part in self.parts))

    def _elaborate_upset(self, m, pipe, control):
        upsets = Cat(part.upset for part in self.parts)
        renewed = Cat(part.renewed for part in self.parts)
        asked = (control["query"] | control["insert"]).at(self.read_latency - 1).value
        m.d.sync += self.fault.eq(upsets.any() & asked | renewed.any())

    def _elaborate_window(self, m, pipe):
        """Return the window of the query, delayed until the ages are known."""
        window = pipe.enter(self.window, "window", reset_less=True)
        while (cycles := min(self.read_latency - window.stage, PAGE_WORDS + 1)) > 1:
            after = window.stage + cycles
            m.submodules[f"delay{after}"] = delay = protected(
                partial(DelayLine, width=len(window), cycles=cycles),
                copies=VOTES if self._protected else 1,
                answers=["o"],
                latency=cycles,
                registers=0,
            )
            pipe.drive(delay, i=window)
            window = pipe.enter(delay.o, "window", stage=after, reset_less=True)
        return window


def timing_core(profile):
    """Build the core of a timing filter, with tables if the filter has query classes."""
    spec, memory = profile.spec, profile.memory
    core = TimingCore(spec, memory=memory, levels=profile.levels, protect=profile.protect)
    if not profile.decides:
        return core
    return DecidingCore(
        core=core, spec=spec, classes=spec.classes, bits=spec.phase_bits, memory=memory
    )
