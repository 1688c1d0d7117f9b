"""Core of a timing filter: hash, parts, and the oldest of a key's cells."""

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..control import CoreSignature
from ..hash.functions import expand, fold, mix
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS, PAGE_WORDS, VOTES, hash_latency
from ..memory.copies import protected
from ..memory.delay import DelayLine
from ..memory.protection import CELL_PROTECTIONS
from ..memory.variants import cell_memory
from ..pipeline import Pipeline
from .decision_tables import DecidingCore
from .oldest import OldestCell, TimingVerdict
from .part import TimingPart
from .sweep import PortSweep, Visits, VisitSweep
from .ticks import TickCount
from .timing_profile import TimingProfile


class TimingCore(wiring.Component):
    """Core of a timing filter: one operation per cycle, without internal stalls.

    A query with window w reports every key inserted at most w ticks ago. It reports an older key
    only if other insertions wrote all cells of this key within w. No stamp is used again while a
    cell holds it, however long the gap between insertions. The verdicts equal the golden model's,
    whose time is the number of ticks.

    If a tick is a unit of time, ticks arrive at least `TimingProfile.least_period` cycles apart,
    and the core accepts an operation in every cycle. If a tick is a block of insertions, ticks may
    arrive in every cycle. Then the sweep needs cycles without an operation, and the core asserts
    ``stall`` for one in `TimingProfile.rest_interval` cycles.

    Parameters
    ----------
    spec : TimedTimingSpec or PartitionedTimingSpec
        A tick is a period or a block.
    memory : str or type
        Variant of the memories; as for `lately.hdl.memory.variants.cell_memory`.
    levels : int
        See `Pipeline`.
    protect : str
        As for `TimingPart`.

    Members
    -------
    The members of `CoreSignature`, and `window`. The ``shift`` of a control is a tick. It takes
    effect before the operation, and also without an operation.

    window : In(range(window_blocks + 1))
        With the key: window of the query, in ticks.

    Raises
    ------
    SpecificationError
        If the hardware cannot implement the filter; see `TimingProfile.check_sweep`.
    ValueError
        If the memory is unknown.
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
        self.read_latency = self.hash_latency + terms["cells"]
        """Cycles from a key to the ages of its cells."""
        self.latency = self.read_latency + terms["oldest"]
        super().__init__(
            CoreSignature(
                key_bits=spec.key_bits,
                verdict=TimingVerdict(window=window, hashes=spec.hashes),
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
        found = pipe.drive(oldest, **answers, query=control["query"].at(read), window=window)
        verdict = pipe.enter(oldest.verdict, "verdict", stage=found + oldest.latency)
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
        """Let the sweep visit cells in idle cycles, and wipe all cells after a clear."""
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
        """Connect each part to its address, and all parts to the control."""
        spec, visits = self._spec, self.visits
        # A fast hash waits for the control.
        key = pipe.enter(self.key, "key", reset_less=True)
        key = key.at(self.hash_latency - hash_latency(spec.key_bits, levels=self._levels))
        state = mix(pipe, fold(pipe, key, spec.seed), spec.seed).settled()
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
        """Report that an operation or the sweep has found an upset cell."""
        found = Cat(part.upset for part in self.parts)
        renewed = Cat(part.renewed for part in self.parts)
        asked = (control["query"] | control["insert"]).at(self.read_latency - 1).value
        m.d.sync += self.fault.eq(found.any() & asked | renewed.any())

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
    """Return the core of a timing filter, with tables if the filter has classes of queries.

    Parameters
    ----------
    profile : TimingProfile
    """
    spec, memory = profile.spec, profile.memory
    core = TimingCore(spec, memory=memory, levels=profile.levels, protect=profile.protect)
    if not profile.decides:
        return core
    return DecidingCore(
        core=core, spec=spec, classes=spec.classes, bits=spec.phase_bits, memory=memory
    )
