"""Several keys a cycle: one window, whose bits are divided among shards."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ...golden.errors import SpecificationError
from ..interface import UnitSignature
from ..memory.map import floorplan_groups, memory_map
from ..pipeline import registered
from ..profile import DEFAULT_LEVELS, FAN_IN, HardwareProfile
from ..queue import ResultQueue
from .beats import BeatRecord
from .collector import Collector
from .credits import Credits
from .dispatcher import Dispatcher
from .shard import Shard


class LaneUnit(wiring.Component):
    """A filter that takes several keys per cycle into one window.

    A beat holds an operation for each lane. Operations take effect beat by
    beat and lane by lane, each as if those before it had finished: the outcome
    is that of the golden model for the same sequence, in every verdict and
    every bit of memory. Every beat gives one answer, in order.

    Keys are spread over ``spec.shards`` shards by their hash; a shard performs
    one operation per cycle. The ring turns in all shards at the same place of
    the order. `i.ready` falls while too many operations wait for one shard,
    while clearing lags behind, and while answers are not taken. An operation
    on a key that an earlier lane of its beat inserts asks no shard; its
    outcome is known. A stream of one key thus flows at full rate.

    Latency `latency` cycles from acceptance to answer, or less than `Collector.POLL`
    more, if nothing waits.

    Parameters
    ----------
    spec : FilterSpec
        What to build; must pass `HardwareProfile.check_buildable`, and have several lanes.
    tag_bits : int
        Width of the tag.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memory.variants.VARIANTS`.
    levels : int
        Of hashes and detectors, as for `FilterUnit`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`: beats, and an answer for each.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification, or it has one lane.
    """

    SLOTS = 128
    """Beats that may be under way."""

    LAG = 8
    """Cycles from an acceptance until `i.ready` knows of it, and two to spare."""

    def __init__(self, spec, *, tag_bits=8, memory="portable", levels=DEFAULT_LEVELS):
        if spec.lanes == 1:
            raise SpecificationError("lanes: must be 2 or 4 for LaneUnit, not 1")
        self._spec = spec
        self._memory = memory
        self._profile = HardwareProfile(spec, memory=memory, levels=levels)
        self._profile.check_buildable()
        signature = UnitSignature.from_spec(spec, tag_bits=tag_bits)
        self._record = BeatRecord(lanes=spec.lanes, shards=spec.shards, tag_bits=tag_bits)
        self._dispatcher = Dispatcher(spec=spec, tag_bits=tag_bits, slots=self.SLOTS, levels=levels)
        self._shards = [
            Shard(profile=self._profile, number=number, slots=self.SLOTS)
            for number in range(spec.shards)
        ]
        self._collector = Collector(
            record=self._record,
            shards=spec.shards,
            slots=self.SLOTS,
            answer=signature.result,
            verdict_bits=len(self._shards[0].core.verdict.as_value()),
            results_latency=self._shards[0].latency,
        )
        super().__init__(signature)

    @property
    def spec(self):
        """What was built."""
        return self._spec

    @property
    def memory_map(self):
        """Memories of the unit, and where each bit lies in them: a `MemoryMap`."""
        return memory_map(self._spec, memory=self._memory)

    @property
    def floorplan_groups(self):
        """Names of the block RAMs of each shard, which belong side by side."""
        return floorplan_groups(self.memory_map.memories)

    @property
    def profile(self):
        """Figures of what was built."""
        return self._profile

    @property
    def latency(self):
        """Cycles from the acceptance of a beat to its answer on an idle output, at least."""
        way_in = self._dispatcher.latency + 1 + Shard.WAY_IN + ResultQueue.LATENCY + 1
        return way_in + self._shards[0].turnaround + self._collector.latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.dispatcher = dispatcher = self._dispatcher
        m.submodules.collector = collector = self._collector
        accepted = Signal()
        m.d.sync += [accepted.eq(self.i.valid & self.i.ready), dispatcher.beat.eq(self.i.p)]
        m.d.comb += dispatcher.valid.eq(accepted)
        credits = [self._elaborate_credits(m, "beats", self.SLOTS - 1 - self.LAG, accepted,
                                        self.o.valid & self.o.ready)]  # fmt: skip
        # An entry comes so long after the acceptance that nobody counts it before.
        limit = Shard.DEPTH - 3 - self.LAG - dispatcher.latency
        for number, shard in enumerate(self._shards):
            m.submodules[f"shard{number}"] = shard
            valid_next = dispatcher.valid_next[number]
            came = registered(m, valid_next, f"came{number}")
            credits.append(self._elaborate_credits(m, f"entries{number}", limit, came, shard.taken))
            width = len(shard.results)
            m.d.comb += [
                shard.valid_next.eq(valid_next),
                shard.entry.eq(getattr(dispatcher, f"entry{number}")),
                shard.states.eq(getattr(dispatcher, f"states{number}")),
                shard.slot.eq(collector.read),
                collector.done.word_select(number, 8).eq(shard.done),
                collector.results.word_select(number, width).eq(shard.results),
            ]
        groups = [Cat(credits[at : at + FAN_IN]).all() for at in range(0, len(credits), FAN_IN)]
        ready = registered(m, registered(m, Cat(groups), "credits").all(), "ready")
        m.d.comb += [
            self.i.ready.eq(ready),
            collector.recorded.eq(dispatcher.recorded),
            collector.record.eq(dispatcher.record),
            collector.slot.eq(dispatcher.slot),
            self.o.valid.eq(collector.o.valid),
            self.o.p.eq(collector.o.p),
            collector.o.ready.eq(self.o.ready),
        ]
        return m

    def _elaborate_credits(self, m, name, limit, spend, refund):
        m.submodules[name] = credits = Credits(limit=limit)
        m.d.comb += [credits.spend.eq(spend), credits.refund.eq(refund)]
        return credits.available
