"""Unit that accepts several keys per cycle: each shard holds a part of the memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring

from ..hash.siphash import Secrets, SipHash
from ..latencies import SECRET_SETTLE
from ..monitors import recovering, watch_credits, watch_way
from ..pipeline import registered
from ..ring.core import ring_core
from ..statistics import count_events
from ..unit import BaseUnit
from .beats import BeatRecord
from .collector import Collector, Credits
from .dispatcher import Dispatcher, Distributor
from .shard import Shard


class LaneUnit(BaseUnit):
    """Unit that accepts several keys per cycle, all for the same window; see `BaseUnit`.

    A beat holds an operation for each lane. Operations take effect beat by beat and lane by lane,
    each as if all earlier operations had finished. Every beat has one result, in order.

    The hash distributes the keys over ``spec.shards`` shards. A shard performs one operation per
    cycle. `i.ready` is low while too many operations wait for one shard, for the end of a clear, or
    for the receiver. An operation needs no shard if an earlier lane of the same beat inserts its
    key, so a stream that repeats one key runs at full rate.

    If nothing waits, a result leaves at least `latency` and fewer than ``latency + poll`` cycles
    after its beat. A `generation` below `minimum_generation` acts like `minimum_generation`.

    A secret applies from the next beat that starts with a CLEAR and is accepted at least
    `SECRET_LEAD` cycles after the secret. Until then, the unit accepts one beat per `SECRET_PACE`
    cycles.
    """

    LAG = 8  # cycles until `i.ready` reflects an acceptance, plus two spare cycles
    # cycles from the acceptance of a secret to the first clear that activates the secret
    SECRET_LEAD = Secrets.LEAD + 2

    # Cycles between two beats while a secret waits; earlier keys need their secret this long.
    SECRET_PACE = 1 << (SECRET_SETTLE + SipHash.HOLD - 1).bit_length()

    def __init__(self, profile, family):
        spec, check, slots = profile.spec, profile.self_check, profile.lane_slots
        self._shards = [
            Shard(
                profile=profile,
                core=ring_core(profile.shard_spec, profile, hashed=True, control_lag=0),
                number=number,
                slots=slots,
            )
            for number in range(spec.shards)
        ]
        secrets = None
        if spec.hash == "siphash":
            secrets = Secrets(pipelines=1, ring_segments=spec.ring_segments)
        super().__init__(profile, family, core=self._shards[0].core, secrets=secrets)
        record = BeatRecord(
            lanes=spec.lanes,
            shards=spec.shards,
            slots=slots,
            tag_bits=profile.options.tag_bits,
        )
        self._dispatcher = Dispatcher(profile=profile, beat=self.signature.request, slots=slots)
        self._distributor = Distributor(
            lanes=spec.lanes,
            shards=spec.shards,
            slots=slots,
            depth=profile.waiting_beats,
            copies=profile.votes,
            check=check,
        )
        self._collector = Collector(
            record=record,
            shards=spec.shards,
            slots=slots,
            answer=self.signature.result,
            verdict_bits=len(self.core.verdict.as_value()),
            results_latency=self._shards[0].latency,
            copies=profile.votes,
            check=check,
        )

    @property
    def poll(self):
        """Number of cycles after which an unfinished beat is checked again."""
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
        self._elaborate_shards(m)
        events = {"valid": dispatcher.performed, "insert": dispatcher.inserted,
                  "shift": dispatcher.shifted, "hit": collector.hit}  # fmt: skip
        if self.profile.protect != "none":
            upset = Cat(registered(m, shard.upset, f"upset{number}")
                        for number, shard in enumerate(self._shards))  # fmt: skip
            events["upset"] = upset.any()
        count_events(m, self, events)
        answered = self.o.valid & self.o.ready
        credits = {
            name: self._elaborate_credits(m, name, limit - 1 - self.LAG, accepted, refund)
            for name, limit, refund in (
                ("under_way", self.profile.lane_slots, answered),
                ("waiting", self.profile.waiting_beats, distributor.left),
            )
        }
        may = [credit.available for credit in credits.values()]
        if self.secrets is not None:
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
        if self.profile.self_check:
            return recovering(m, self, self._elaborate_check(m, accepted, credits))
        return m

    def _elaborate_check(self, m, accepted, credits):
        illegal = [shard.illegal for shard in self._shards]
        illegal += [watch_credits(m, credit, name) for name, credit in credits.items()]
        parts = (self._dispatcher, self._distributor, self._collector)
        illegal += [part.illegal for part in parts]
        illegal.append(watch_way(m, self.i.valid & self.i.ready, accepted, 1, "accepted"))
        return illegal

    def _elaborate_shards(self, m):
        distributor, collector = self._distributor, self._collector
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

    def _elaborate_secrets(self, m):
        """Activate a waiting secret at the next clear; return whether another beat may enter."""
        m.submodules.secrets = secrets = self.secrets
        pace = Signal(range(self.SECRET_PACE))
        m.d.sync += pace.eq(Mux(secrets.waits, pace + 1, 0))
        wiring.connect(m, wiring.flipped(self.secret), secrets.i)
        m.d.comb += [
            # A clear takes effect when it arrives.
            secrets.clears.eq(self._dispatcher.cleared),
            secrets.cleared.eq(self._dispatcher.cleared),
            self._dispatcher.secret.eq(secrets.secret0),
        ]
        return ~secrets.waits | pace.all()

    def _elaborate_credits(self, m, name, limit, spend, refund):
        m.submodules[name] = credits = Credits(limit=limit, check=self.profile.self_check)
        m.d.comb += [credits.spend.eq(spend), credits.refund.eq(refund)]
        return credits
