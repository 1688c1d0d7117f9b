"""Tables of thresholds in two banks: one is in use while the other is loaded."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..control import CoreSignature
from ..latencies import CONTROL_LAG, VOTES
from ..memory.cells import CellMemory
from ..memory.copies import copy_names, vote
from ..memory.variants import cell_memory
from ..parameters import require_integer
from ..pipeline import Pipeline
from .timing_profile import DECISION_LATENCY


class Threshold(data.StructLayout):
    """Entry of a table, as in `lately.golden.DecisionTable.thresholds`, with its position.

    Parameters
    ----------
    spec : StampedPartsSpec
    classes : int
        Number of classes of queries.
    bits : int
        Bits of the phase.
    """

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
    """Looks up the minimum number of oldest cells for which a key is reported.

    Latency `LATENCY` cycles.

    Parameters
    ----------
    entry : Threshold
    memory : str
        As for `lately.hdl.memory.variants.cell_memory`.
    copies : int
        Copies of the tables; three copies vote.

    Members
    -------
    i : In(stream.Signature(entry))
        An entry of the inactive bank.
    bank : In(1)
        Bank for the operation of this cycle.
    loaded : In(1)
        Whether the bank was loaded; otherwise every number of cells suffices.
    loads : In(1)
        Bank that is loaded.
    where : In(entry)
        Entry of the operation; ``least`` is its number of oldest cells.
    enough : Out(1)
        Whether the number of oldest cells is at least the threshold.
    """

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
                "i": In(stream.Signature(entry, always_ready=True)),
                "bank": In(1),
                "loaded": In(1),
                "loads": In(1),
                "where": In(entry),
                "enough": Out(1),
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
    """Core of a timing filter that looks up its answers in a table of thresholds.

    Parameters
    ----------
    core : TimingCore
    spec : StampedPartsSpec
        Blocks of insertions must be a power of two.
    classes : int
        Number of classes of queries, at least 1.
    bits : int
        Width of the phase: the high bits of the number of insertions into the block; 0 if a block
        is a tick.
    memory : str
        Memory of the tables, as for `lately.hdl.memory.variants.cell_memory`.

    Members
    -------
    The members of `core` except the window, and:

    query_class : In(range(classes))
        With the key.
    phase : In(bits)
        With the control.
    table : In(stream.Signature(Threshold))
        Entries for the inactive bank. Not ready after a swap until the last earlier operation has
        its answer.
    swap : In(1)
        Operations in later cycles use the other bank. Every key is reported between reset and the
        first swap.

    Errors: as `require_integer`.
    """

    def __init__(self, *, core, spec, classes, bits, memory="portable"):
        require_integer("Classes", classes, least=1)
        require_integer("Phase bits", bits, most=spec.block_units.bit_length() - 1)
        self._core = core
        self._memory = memory
        self.entry = Threshold(spec=spec, classes=classes, bits=bits)
        """Layout of an entry of the table."""
        self.latency = core.latency + DecisionTables.LATENCY
        self._protected = "upset" in core.signature.events
        super().__init__(
            CoreSignature(
                key_bits=spec.key_bits,
                verdict=core.verdict.shape(),
                request={"query_class": range(classes)},
                ports={"table": In(stream.Signature(self.entry)), "swap": In(1)},
                events=["upset"] if self._protected else [],
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
        bank, loaded, told = Signal(), Signal(), core.latency
        swap = pipe.enter(self.swap, "swap").at(CONTROL_LAG)
        m.d.sync += [bank.eq(bank ^ swap.value), loaded.eq(loaded | swap.value)]
        asked = {
            "query_class": pipe.enter(self.query_class, "query_class", reset_less=True),
            "phase": pipe.enter(self.phase, "phase", stage=CONTROL_LAG, reset_less=True),
            "bank": pipe.enter(bank, "bank", stage=CONTROL_LAG),
            "loaded": pipe.enter(loaded, "loaded", stage=CONTROL_LAG),
        }
        query = pipe.enter(self.control.query, "query", stage=CONTROL_LAG)
        verdict = pipe.enter(core.verdict, "verdict", stage=told, reset_less=True)
        where = tables.where
        m.d.comb += [
            core.key.eq(self.key),
            core.control.eq(self.control),
            tables.bank.eq(asked["bank"].at(told).value),
            tables.loaded.eq(asked["loaded"].at(told).value),
            tables.loads.eq(loads),
            where.query_class.eq(asked["query_class"].at(told).value),
            where.phase.eq(asked["phase"].at(told).value),
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
        """Accept entries when no operation in flight needs their bank; return this bank."""
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
