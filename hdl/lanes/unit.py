"""Several keys a cycle: one window, whose bits are divided among shards."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring

from ...golden.errors import SpecificationError
from ...golden.hash.siphash import SECRET_BITS
from ..hash.secrets import Secrets
from ..hash.siphash import SipHash
from ..interface import UnitSignature
from ..latencies import DEFAULT_LEVELS, GENERATION_LEAD, SECRET_SETTLE
from ..memory.map import floorplan_groups, memory_map
from ..monitors import alarm_ports, recovering, watch_credits, watch_way
from ..pipeline import registered
from ..profile import HardwareProfile
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

    Latency `latency` cycles from acceptance to answer, or less than `poll` more, if nothing
    waits.

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
    protect : str
        As for `FilterUnit`.
    check : bool
        Whether the unit watches its own state: the masks of the ring of each shard, that the spare
        is clean when it turns, the places of entries and of answers, the order of beats and that
        they arrive, and what is counted of them. It resets itself where one of these is wrong.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`: beats, and an answer for each.
    generation : In(generation_bits)
        Insertions in a generation, as for `FilterUnit`; a length below `minimum_generation` counts
        as that.
    secret : In(stream.Signature(128))
        With ``hash="siphash"`` only: the secret of the hash, 0 after reset. It applies from the
        next beat on that begins with a CLEAR and is accepted at least `SECRET_LEAD` cycles later,
        or, in place of one that has waited as long, is accepted in the same cycle or later.
        From its acceptance to that of this beat the unit takes a beat in `SECRET_PACE` cycles.
    operations, ... : Out(statistics_bits)
        The counters of `lately.hdl.registers` that units hold, as for `FilterUnit`.
    fault, alarms : Out
        If it watches its state: as for `FilterUnit`.
    upsets : Out(statistics_bits)
        As for `FilterUnit`.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification, or it has one lane.
    """

    LAG = 8
    """Cycles from an acceptance until `i.ready` knows of it, and two to spare."""

    GENERATION_LEAD = GENERATION_LEAD
    """Cycles from a change of the generation length to the first operation it applies to."""

    SECRET_LEAD = Secrets.LEAD + 2
    """Cycles from a secret's acceptance to that of the first clear that brings it in."""

    SECRET_PACE = 1 << (SECRET_SETTLE + SipHash.HOLD - 1).bit_length()
    """Cycles between two beats while a secret waits: keys of the one before need theirs so long."""

    def __init__(
        self,
        spec,
        *,
        tag_bits=8,
        statistics_bits=32,
        memory="portable",
        levels=DEFAULT_LEVELS,
        protect="none",
        check=False,
    ):
        if spec.lanes == 1:
            raise SpecificationError("lanes: must be 2 or 4 for LaneUnit, not 1")
        self._spec = spec
        self._memory = memory
        self._profile = HardwareProfile(
            spec, memory=memory, levels=levels, protect=protect, check=check
        )
        self._profile.check_buildable()
        self.generation_bits = spec.generation.bit_length() + 1
        slots = self._profile.lane_slots
        self._secrets = None
        if spec.hash == "siphash":
            self._secrets = Secrets(pipelines=1, ring_segments=spec.ring_segments)
        held = counters(Holder.UNIT)
        held += counters(Holder.PROTECTION) if protect != "none" else []
        signature = UnitSignature.from_spec(
            spec,
            tag_bits=tag_bits,
            generation_bits=self.generation_bits,
            generation=spec.generation,
            secret_bits=SECRET_BITS if self._secrets else 0,
            counters={one.name: statistics_bits for one in held},
            others=alarm_ports(check),
        )
        self._record = BeatRecord(
            lanes=spec.lanes, shards=spec.shards, slots=slots, tag_bits=tag_bits
        )
        self._dispatcher = Dispatcher(
            profile=self._profile,
            tag_bits=tag_bits,
            slots=slots,
            generation_bits=self.generation_bits,
        )
        self._shards = [
            Shard(profile=self._profile, number=number, slots=slots)
            for number in range(spec.shards)
        ]
        self._distributor = Distributor(
            lanes=spec.lanes,
            shards=spec.shards,
            slots=slots,
            depth=self._profile.beat_places,
            copies=self._profile.votes,
            check=check,
        )
        self._collector = Collector(
            record=self._record,
            shards=spec.shards,
            slots=slots,
            answer=signature.result,
            verdict_bits=len(self._shards[0].core.verdict.as_value()),
            results_latency=self._shards[0].latency,
            copies=self._profile.votes,
            check=check,
        )
        super().__init__(signature)

    @property
    def spec(self):
        """Specification of the unit."""
        return self._spec

    @property
    def memory_map(self):
        """Memories of the unit, and where each bit lies in them: a `MemoryMap`."""
        return memory_map(self._spec, memory=self._memory, protect=self._profile.protect)

    @property
    def floorplan_groups(self):
        """Names of the block RAMs of each shard, which belong side by side."""
        return floorplan_groups(self.memory_map.memories)

    @property
    def profile(self):
        """Figures of the unit: latency, memories, least generation."""
        return self._profile

    @property
    def minimum_generation(self):
        """Shortest length of a generation."""
        return self._profile.minimum_generation

    @property
    def latency(self):
        """Cycles from the acceptance of a beat to its answer on an idle output, at least."""
        return self._profile.latency

    @property
    def poll(self):
        """Cycles within which an answer that is ready is found."""
        return self._collector.poll

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
            distributor.hashed.eq(dispatcher.hashed),
            distributor.states.eq(dispatcher.states),
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
                collector.done.word_select(number, len(shard.done)).eq(shard.done),
                collector.results.word_select(number, width).eq(shard.results),
            ]
        events = {"valid": dispatcher.performed, "insert": dispatcher.inserted,
                  "shift": dispatcher.shifted, "hit": collector.hit}  # fmt: skip
        count_events(m, self, events)
        if self._profile.protect != "none":
            upset = Cat(registered(m, shard.upset, f"upset{number}")
                        for number, shard in enumerate(self._shards)).any()  # fmt: skip
            count_events(m, self, {"upset": upset}, holder=Holder.PROTECTION)
        answered = self.o.valid & self.o.ready
        credits = {
            name: self._elaborate_credits(m, name, limit - 1 - self.LAG, accepted, refund)
            for name, limit, refund in (
                ("under_way", self._profile.lane_slots, answered),
                ("waiting", self._profile.beat_places, distributor.left),
            )
        }
        may = [one.available for one in credits.values()]
        if self._secrets is not None:
            may.append(self._elaborate_secrets(m))
        m.d.comb += [
            self.i.ready.eq(registered(m, Cat(may).all(), "ready")),
            collector.recorded.eq(dispatcher.recorded),
            collector.record.eq(dispatcher.record),
            collector.slot.eq(dispatcher.slot),
            self.o.valid.eq(collector.o.valid),
            self.o.p.eq(collector.o.p),
            collector.o.ready.eq(self.o.ready),
        ]
        if self._profile.check:
            return recovering(m, self, self._elaborate_check(m, accepted, credits))
        return m

    def _elaborate_check(self, m, accepted, credits):
        """Return values by which parts of the unit tell of what is wrong."""
        illegal = [shard.illegal for shard in self._shards]
        illegal += [watch_credits(m, one, name) for name, one in credits.items()]
        parts = (self._dispatcher, self._distributor, self._collector)
        illegal += [part.illegal for part in parts]
        illegal.append(watch_way(m, self.i.valid & self.i.ready, accepted, 1, "accepted"))
        return illegal

    def _elaborate_secrets(self, m):
        """Bring in the secrets with the clears; return whether a beat may come, as to them."""
        m.submodules.secrets = secrets = self._secrets
        pace = Signal(range(self.SECRET_PACE))
        m.d.sync += pace.eq(Mux(secrets.waits, pace + 1, 0))
        wiring.connect(m, wiring.flipped(self.secret), secrets.i)
        m.d.comb += [
            # A clear takes effect as it arrives.
            secrets.clears.eq(self._dispatcher.cleared),
            secrets.cleared.eq(self._dispatcher.cleared),
            self._dispatcher.secret.eq(secrets.secret0),
        ]
        return ~secrets.waits | pace.all()

    def _elaborate_credits(self, m, name, limit, spend, refund):
        m.submodules[name] = credits = Credits(limit=limit, check=self._profile.check)
        m.d.comb += [credits.spend.eq(spend), credits.refund.eq(refund)]
        return credits
