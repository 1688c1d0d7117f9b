"""Proofs for lanes: each shard gets its entries and shifts, and results leave in order."""

from functools import partial

from amaranth.hdl import Assume, Cat, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from ...golden.spec import APBBFSpec
from ...hdl.build import family_of
from ...hdl.lanes.beats import BeatRecord, count_bits
from ...hdl.lanes.collector import Collector
from ...hdl.lanes.dispatcher import Dispatcher, Distributor
from ...hdl.lanes.unit import LaneUnit
from ...hdl.pipeline import delayed
from ...hdl.ring.profile import RingProfile
from .formal import Bounded, Induction, Proof
from .harness import Harness, constant, latched, opened, sampled
from .results import ahead, kept_while_waiting, ordinal

_LANES, _SHARDS, _SLOTS, _DEPTH = 2, 3, 4, 4


class SmallDistributor(Distributor):
    PLACES = 10  # so few that they are soon reused


class EntriesOfShards(Harness):
    PATIENCE = 5  # maximum cycles for which a beat waits while all shards are empty

    make = staticmethod(
        partial(SmallDistributor, lanes=_LANES, shards=_SHARDS, slots=_SLOTS, depth=_DEPTH)
    )

    def build(self, m):
        m.submodules.distributor = part = self._part
        inside = Signal(range(part.depth + 1))
        hashed = Signal(range(part.depth + 1))
        m.d.sync += [
            inside.eq(inside + part.arrived - part.left),
            hashed.eq(hashed + part.hashed - part.left),
        ]
        m.d.comb += [
            Assume(~part.hashed | (hashed != part.depth)),
            Assume(~part.arrived | part.hashed | (hashed != inside)),
        ]
        empty = []
        for shard in range(_SHARDS):
            held = Signal(range(2 * part.PLACES), name=f"held{shard}")
            m.d.sync += held.eq(held + part.valid[shard] - part.taken[shard])
            m.d.comb += Assume(~part.taken[shard] | (held != 0))
            # One slot contains the entry that is being split.
            self.require(held < part.PLACES)
            empty.append(held == 0)
            if shard == 0:
                self.reach("a shard is full", held == part.PLACES - 1)
        self._follow(m, 0)
        waits = (inside != 0) & Cat(empty).all() & ~part.left
        self.require_within(m, self.PATIENCE, waits)
        self.reach("all slots for beats are in use", inside == part.depth)

    def _follow(self, m, shard):
        part = self._part
        followed = constant(m, 4, f"tracked{shard}")
        hashed = ordinal(m, part.hashed, 16, f"hashed{shard}")
        beats = ordinal(m, part.arrived, 16, f"beats{shard}")
        came = ordinal(m, part.arrived & part.share.there[shard], 16, f"came{shard}")
        went = ordinal(m, part.valid[shard], 16, f"went{shard}")
        share = part.share
        state = sampled(m, part.hashed & (hashed == followed), part.states[0], f"state{shard}")
        # Whether the followed beat has an entry here, the entry's number, and its content.
        present = Signal(name=f"present{shard}")
        number = Signal.like(came, name=f"number{shard}")
        given = Signal(share.slot.shape().width + 2, name=f"given{shard}")
        with m.If(part.arrived & (beats == followed)):
            m.d.sync += [
                present.eq(share.there[shard]),
                number.eq(came),
                given.eq(_followed_part(share, share["items"][shard])),
            ]
        entry = getattr(part, f"entry{shard}")
        states = getattr(part, f"states{shard}")
        follows = part.valid[shard] & present & (went == number)
        self.require(
            ~part.valid[shard] | (came != went),
            ~follows | (_followed_part(entry, entry["items"]) == given),
            ~(follows & entry["items"][0]) | (states[0] == state),
        )


def _followed_part(entry, items):
    return Cat(items[0], entry.waits, entry.slot)


class ShiftsOfShards(Harness):
    @staticmethod
    def make():
        spec = APBBFSpec(
            k=1, l=1, block_bits=8, hashes_per_block=2, blocks=12, lanes=_LANES, key_bits=8,
            generation=20,
        )  # fmt: skip
        profile = RingProfile.of(spec, tag_bits=1)
        beat = LaneUnit(profile, family_of(spec)).signature.request
        return Dispatcher(profile=profile, beat=beat, slots=_SLOTS)

    def build(self, m):
        m.submodules.dispatcher = part = self._part
        share = part.share
        changes = share.shifts.any() | share.turn.as_value().any()
        self.require(~changes | share.there.all(), share.shifts != 0b11)
        self.reach("an insertion shifts the ring", part.arrived & share.shifts.any())


# Initial values of the entry counters, chosen so that they soon wrap or carry.
_STARTS = (-2, 62, 14)

_VERDICT_BITS = 2
_RESULTS_LATENCY = 2


class SmallCollector(Collector):
    DEPTH = 16  # so few slots that a few beats fill them


def collector(kind):
    answer = {"valid": 1, "tag": 1, "seen": 1, "age": _VERDICT_BITS - 1}
    lanes = data.ArrayLayout(data.StructLayout(answer), _LANES)
    return kind(
        record=BeatRecord(lanes=_LANES, shards=_SHARDS, slots=_SLOTS, tag_bits=1),
        shards=_SHARDS,
        slots=_SLOTS,
        answer=data.StructLayout({"lanes": lanes}),
        verdict_bits=_VERDICT_BITS,
        results_latency=_RESULTS_LATENCY,
    )


class ResultsOfBeats(Harness):
    """Follows one arbitrary beat out of every ``2 * slots`` through a collector.

    For the followed beat, shards return its verdicts once they have finished it; for all other
    beats, they return arbitrary data.
    """

    PATIENCE = 31  # maximum cycles until a complete result appears, if `o` is ready

    make = staticmethod(partial(collector, SmallCollector))

    def build(self, m):
        part = self._part
        m.submodules.collector, inner = opened(part)
        taken = part.o.valid & part.o.ready
        came = ordinal(m, part.recorded, 2 * _SLOTS, "came")
        went = ordinal(m, taken, 2 * _SLOTS, "went")
        under_way = ahead(came, went)
        m.d.comb += [
            Assume(~part.recorded | (under_way != _SLOTS)),
            Assume(~part.recorded | (part.slot == came[: len(part.slot)])),
        ]
        followed = constant(m, came.shape(), "followed")
        # Whether the followed beat holds its slot.
        followed_slot = followed[: len(part.slot)]
        present = sampled(
            m, part.recorded & (part.slot == followed_slot), came == followed, "present"
        )
        comes = part.recorded & (came == followed)
        finished = Cat(self._finished(m, shard, comes) for shard in range(_SHARDS))
        reads = present & (part.read == followed_slot)
        expected = self._expected(m, comes, finished & reads.replicate(_SHARDS))
        first = present & (went == followed)
        answers = part.o.valid & (went == followed)
        waits = first & finished.all() & part.o.ready & ~part.o.valid
        self.require_within(m, self.PATIENCE, waits)
        self.require(
            ~part.o.valid | (under_way != 0),
            ~answers | (present & finished.all()),
            ~answers | (part.o.p.as_value() == expected),
            kept_while_waiting(m, part.o),
        )
        # Each hit belongs to a result, and is counted before the result leaves.
        for lane in range(_LANES):
            hits = ordinal(m, part.hit[lane], 2 * _SLOTS, f"hits{lane}")
            seen = ordinal(m, taken & part.o.p.lanes[lane].seen, 2 * _SLOTS, f"seen{lane}")
            self.require(ahead(hits, seen) <= under_way)
        again = latched(m, inner["fails"] & first & reads & ~finished.all())
        self.reach("a beat is checked again", answers & again)
        self.reach(
            "all slots are in use when a result arrives", part.o.valid & (under_way == _SLOTS)
        )
        # The fifth beat gets the slot of the first.
        self.reach("a slot is reused", part.recorded & (came == _SLOTS))
        self.reach("no credits are left", part.o.valid & ~inner["credits.available"])

    def _finished(self, m, shard, comes):
        part = self._part
        width = count_bits(_SLOTS)
        start = _STARTS[shard] % (1 << width)
        given = Signal(width, name=f"given{shard}", init=start)
        done = Signal(width, name=f"finished{shard}", init=start)
        finishes = Signal(name=f"finishes{shard}")
        more = Signal(name=f"more{shard}")
        required = part.record.required[shard]
        m.d.sync += [given.eq(given + (part.recorded & more)), done.eq(done + finishes)]
        m.d.comb += [
            finishes.eq(AnySeq(1)),
            more.eq(AnySeq(1)),
            Assume(~finishes | (done != given)),
            Assume(~part.recorded | (required == (given + more)[:width])),
            Assume(part.done.word_select(shard, width) == done),
        ]
        goal = sampled(m, comes, required, f"goal{shard}")
        return ~(done - goal)[width - 1]

    def _expected(self, m, comes, reads):
        part = self._part
        answer = []
        for number in range(_LANES):
            coming = part.record.lanes[number]
            m.d.comb += Assume(coming.number < _SHARDS)
            lane = Signal(coming.shape(), name=f"lane{number}")
            with m.If(comes):
                m.d.sync += lane.eq(coming)
            verdict = constant(m, _VERDICT_BITS, f"verdict{number}")
            for shard in range(_SHARDS):
                read = delayed(m, reads[shard], _RESULTS_LATENCY, f"read{number}_{shard}_")
                result = part.results.word_select(shard * _LANES + number, _VERDICT_BITS)
                holds = read & lane.asked & (lane.number == shard)
                m.d.comb += Assume(~holds | (result == verdict))
            seen = (lane.asked & verdict[0]) | (lane.known & lane.query)
            answer += [lane.valid, lane.tag, seen, lane.asked & verdict[1]]
        return Cat(answer)


class RoomForResults(Harness):
    make = staticmethod(partial(collector, Collector))

    def build(self, m):
        part = self._part
        m.submodules.collector, inner = opened(part)
        taken = part.o.valid & part.o.ready
        held = Signal(range(2 * part.DEPTH))
        m.d.sync += held.eq(held + inner["passes"] - taken)
        # `QueueOrder` proves this.
        m.d.comb += Assume(~part.o.valid | (held != 0))
        left = inner["credits.left"]
        coming = inner["credits.change"] + inner["credits.refunded"] - inner["credits.spent"]
        self.require(held <= part.DEPTH, left + coming == left.init - held)
        self.reach("all slots except the spare are in use", held == part.DEPTH - 1)


PROOFS = (
    Proof(
        name="entries of shards",
        statement="Each shard gets the entries of all beats that need it, each once and in order, "
        "with the hash states of their lanes, and never more entries than it can store. No beat "
        "waits while all shards are empty.",
        design="distributor, 3 shards, room for 4 beats and 10 entries",
        build=EntriesOfShards,
        method=Bounded(19),
    ),
    Proof(
        name="shifts of shards",
        statement="A beat that shifts or clears the ring gives an entry to every shard, for at "
        "most one lane, so all shards shift at the same position in the sequence.",
        design="dispatcher, 2 lanes, 3 shards",
        build=ShiftsOfShards,
        method=Induction(24),
    ),
    Proof(
        name="results of beats",
        statement="The n-th result belongs to the n-th beat. It has the tags of the beat and, for "
        "each lane, the verdict of its shard. If results are accepted, it appears at most "
        f"{ResultsOfBeats.PATIENCE} cycles after the previous result has left and all shards have "
        "finished the beat. It stays unchanged until accepted. Each hit is counted once.",
        design="collector, 2 lanes, 3 shards, 4 slots, room for 16 results",
        build=ResultsOfBeats,
        method=Bounded(35),
    ),
    Proof(
        name="room for results",
        statement="The number of results in flight never exceeds the size of the queue, for any "
        "beats and any receiver.",
        design="collector, 2 lanes, 3 shards, 4 slots, room for 32 results",
        build=RoomForResults,
        method=Induction(24),
    ),
)
