"""Proof of answers from tables of thresholds: each answer uses one complete table."""

from functools import partial

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ...golden.spec.timestamp import PartitionedTimingSpec
from ...hdl.control import CoreSignature
from ...hdl.latencies import CONTROL_LAG
from ...hdl.pipeline import delayed
from ...hdl.timing.decision_tables import DecidingCore
from ...hdl.timing.oldest import TimingVerdict
from .formal import Proof
from .harness import Harness

_SPEC = PartitionedTimingSpec(window=2, block=2, hashes=1, cells=4)


class AnyCore(wiring.Component):
    """Core of a timing filter with arbitrary verdicts, `latency` cycles after the keys."""

    latency = CONTROL_LAG + 2

    def __init__(self):
        verdict = TimingVerdict(window=_SPEC.window_blocks, hashes=_SPEC.hashes)
        super().__init__(CoreSignature(key_bits=1, verdict=verdict, others={"stall": Out(1)}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.verdict.eq(AnySeq(self.verdict.shape().size))
        return m


class TableAnswers(Harness):
    """One arbitrary entry of both banks, while tables are loaded and swapped at any time.

    An operation between two swaps uses the entry that was loaded before the first swap. Loads while
    the operation is in flight have no effect on it.
    """

    def __init__(self, *, goal=None):
        self._core = AnyCore()
        self._deciding = DecidingCore(core=self._core, spec=_SPEC, classes=2, bits=1)
        super().__init__(part=self._deciding, goal=goal)

    def build(self, m):
        m.submodules.deciding = part = self._deciding
        own = Signal(part.entry)
        m.d.comb += own.eq(AnyConst(part.entry.size))
        known, least = self._elaborate_banks(m, part, own)
        told = part.latency - self._core.latency
        later = partial(delayed, m)
        started = later(Const(1), part.latency, name="started")
        query_class = later(part.query_class == own.query_class, part.latency, name="class")
        phase = later(part.phase == own.phase, part.latency - CONTROL_LAG, name="phase")
        age = later(self._core.verdict.age == own.age, told, name="age")
        query = later(part.control.query, part.latency - CONTROL_LAG, name="query")
        cells = later(self._core.verdict.oldest, told, name="cells")
        own_entry = query_class & phase & age & later(known, part.latency, name="known")
        threshold = later(least, part.latency, name="threshold")
        self.require(~own_entry | (part.verdict.seen == (query & (cells >= threshold))))
        self.require(~started | (part.verdict.oldest == cells))
        self.reach("a query is answered by the second table", self._second & own_entry & query)
        self.reach("a table is loaded while the other answers", own_entry & part.table.valid
                   & part.table.ready)  # fmt: skip

    def _elaborate_banks(self, m, part, own):
        """Return for the operation of this cycle whether its bank has the entry, and the entry."""
        bank, swaps = Signal(), Signal(2)
        known = Signal(2)
        least = [Signal.like(part.table.p.least, name=f"least{number}") for number in range(2)]
        entry = part.table.p
        at = part.entry["least"].offset
        loaded = part.table.valid & part.table.ready
        with m.If(loaded & (entry.as_value()[:at] == own.as_value()[:at])):
            for number in range(2):
                with m.If(bank != number):
                    m.d.sync += [known[number].eq(1), least[number].eq(entry.least)]
        m.d.sync += [
            bank.eq(bank ^ part.swap),
            swaps.eq(Mux(swaps == 3, 3, swaps + part.swap)),
        ]
        self._second = delayed(m, swaps == 2, part.latency, "second")
        return known.bit_select(bank, 1), Mux(bank, least[1], least[0])


PROOFS = (
    Proof(
        name="tables of thresholds",
        statement="Each answer uses the table of the last swap before its operation, for any "
        "loads in between.",
        design="deciding core, 2 classes, a phase of a bit, any verdicts",
        build=TableAnswers,
    ),
)
"""Proofs of answers from tables."""
