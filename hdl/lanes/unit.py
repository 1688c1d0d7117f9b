"""Several keys a cycle: one window, whose bits are divided among shards."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ...golden.errors import SpecificationError
from ..interface import UnitSignature
from ..memory.map import floorplan_groups, memory_map
from ..pipeline import registered
from ..profile import DEFAULT_LEVELS, GENERATION_LEAD, LANE_SLOTS, HardwareProfile
from ..registers import Holder, counters
from ..statistics import count_events
from .beats import BeatRecord
from .collector import Collector
from .credits import Credits
from .dispatcher import Dispatcher
from .distributor import Distributor
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
    statistics_bits : int
        Width of the counters, which wrap around. 0 leaves them out.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memory.variants.VARIANTS`.
    levels : int
        Of hashes and detectors, as for `FilterUnit`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`: beats, and an answer for each.
    generation : In(generation_bits)
        Insertions in a generation, as for `FilterUnit`; a length below `minimum_generation` counts
        as that.
    operations, ... : Out(statistics_bits)
        The counters of `lately.hdl.registers` that units hold, as for `FilterUnit`.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification, or it has one lane.
    """

    SLOTS = LANE_SLOTS
    """Beats that may be under way."""

    LAG = 8
    """Cycles from an acceptance until `i.ready` knows of it, and two to spare."""

    GENERATION_LEAD = GENERATION_LEAD
    """Cycles from a change of the generation length to the first operation it applies to."""

    def __init__(
        self, spec, *, tag_bits=8, statistics_bits=32, memory="portable", levels=DEFAULT_LEVELS
    ):
        if spec.lanes == 1:
            raise SpecificationError("lanes: must be 2 or 4 for LaneUnit, not 1")
        self._spec = spec
        self._memory = memory
        self._profile = HardwareProfile(spec, memory=memory, levels=levels)
        self._profile.check_buildable()
        self.generation_bits = spec.generation.bit_length() + 1
        signature = UnitSignature.from_spec(
            spec,
            tag_bits=tag_bits,
            generation_bits=self.generation_bits,
            generation=spec.generation,
            counters={one.name: statistics_bits for one in counters(Holder.UNIT)},
        )
        self._record = BeatRecord(lanes=spec.lanes, shards=spec.shards, tag_bits=tag_bits)
        self._dispatcher = Dispatcher(
            profile=self._profile,
            tag_bits=tag_bits,
            slots=self.SLOTS,
            generation_bits=self.generation_bits,
        )
        self._shards = [
            Shard(profile=self._profile, number=number, slots=self.SLOTS)
            for number in range(spec.shards)
        ]
        self._distributor = Distributor(lanes=spec.lanes, shards=spec.shards, slots=self.SLOTS)
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
    def minimum_generation(self):
        """Shortest length of a generation."""
        return self._profile.minimum_generation

    @property
    def latency(self):
        """Cycles from the acceptance of a beat to its answer on an idle output, at least."""
        return self._profile.latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.dispatcher = dispatcher = self._dispatcher
        m.submodules.distributor = distributor = self._distributor
        m.submodules.collector = collector = self._collector
        accepted = Signal()
        m.d.sync += [accepted.eq(self.i.valid & self.i.ready), dispatcher.beat.eq(self.i.p)]
        m.d.comb += [
            dispatcher.generation.eq(self.generation),
            dispatcher.valid.eq(accepted),
            distributor.arrived.eq(dispatcher.arrived),
            distributor.share.eq(dispatcher.share),
        ]
        for number, shard in enumerate(self._shards):
            m.submodules[f"shard{number}"] = shard
            width = len(shard.results)
            m.d.comb += [
                shard.valid.eq(distributor.valid[number]),
                shard.entry.eq(getattr(distributor, f"entry{number}")),
                shard.states.eq(getattr(distributor, f"states{number}")),
                distributor.taken[number].eq(shard.taken),
                shard.slot.eq(collector.read),
                collector.done.word_select(number, 8).eq(shard.done),
                collector.results.word_select(number, width).eq(shard.results),
            ]
        events = {"valid": dispatcher.performed, "insert": dispatcher.inserted,
                  "shift": dispatcher.shifted, "hit": collector.hit}  # fmt: skip
        count_events(m, self, events)
        answered = self.o.valid & self.o.ready
        credits = [
            self._elaborate_credits(m, name, limit - 1 - self.LAG, accepted, refund)
            for name, limit, refund in (
                ("under_way", self.SLOTS, answered),
                ("waiting", Distributor.DEPTH, distributor.left),
            )
        ]
        m.d.comb += [
            self.i.ready.eq(registered(m, Cat(credits).all(), "ready")),
            collector.recorded.eq(dispatcher.arrived),
            collector.record.eq(dispatcher.record),
            collector.slot.eq(dispatcher.share.slot),
            self.o.valid.eq(collector.o.valid),
            self.o.p.eq(collector.o.p),
            collector.o.ready.eq(self.o.ready),
        ]
        return m

    def _elaborate_credits(self, m, name, limit, spend, refund):
        m.submodules[name] = credits = Credits(limit=limit)
        m.d.comb += [credits.spend.eq(spend), credits.refund.eq(refund)]
        return credits.available
