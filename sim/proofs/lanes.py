"""Proofs for several lanes: shards get their entries and shifts; beats are answered in order."""

from functools import partial
from typing import ClassVar

from amaranth.hdl import Assume, Cat, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
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
from .harness import Harness, opened, sampled
from .results import ahead, kept_while_waiting, ordinal

_LANES, _SHARDS, _SLOTS, _DEPTH = 2, 3, 4, 4


class SmallDistributor(Distributor):
    """A distributor with few places, so that places are soon reused."""

    PLACES = 10


class Shares(Harness):
    """A distributor: of every 16 beats, one arbitrary beat is followed to each shard."""

    PATIENCE = 5  # maximum cycles for which a beat waits while all shards are empty

    PART = staticmethod(
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
            # One place holds the entry that is being split.
            self.require(held < part.PLACES)
            empty.append(held == 0)
            if shard == 0:
                self.reach("a shard is full", held == part.PLACES - 1)
        self._follow(m, 0)
        idle = Signal(range(self.PATIENCE + 2))
        waits = (inside != 0) & empty[0] & empty[1] & empty[2] & ~part.left
        m.d.sync += idle.eq(Mux(waits, idle + 1, 0))
        self.require(idle <= self.PATIENCE)
        self.reach("all places for beats are in use", inside == part.depth)

    def _follow(self, m, shard):
        """Require that a shard gets exactly the entries of the beats that need it."""
        part = self._part
        followed = Signal(4, name=f"tracked{shard}")
        m.d.comb += followed.eq(AnyConst(len(followed)))
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
    """Return the fields of an entry that are compared: first lane's item, `waits`, and slot."""
    return Cat(items[0], entry.waits, entry.slot)


class Turns(Harness):
    """A dispatcher for two lanes."""

    def __init__(self):
        spec = APBBFSpec(
            k=1, l=1, block_bits=8, hashes_per_block=2, blocks=12, lanes=_LANES, key_bits=8,
            generation=20,
        )  # fmt: skip
        profile = RingProfile.of(spec, tag_bits=1)
        beat = LaneUnit(profile, family_of(spec)).signature.request
        self._dispatcher = Dispatcher(profile=profile, beat=beat, slots=_SLOTS)
        super().__init__(part=self._dispatcher)

    def build(self, m):
        m.submodules.dispatcher = part = self._dispatcher
        share = part.share
        turns = share.shifts.any() | share.turn.as_value().any()
        self.require(~turns | share.there.all(), share.shifts != 0b11)
        self.reach("an insertion turns the ring", part.arrived & share.shifts.any())


_SHARD_PROOFS = (
    Proof(
        name="shares of shards",
        statement="A shard gets the entries of the beats for it, each once and in order, with the "
        "states of their lanes, and never more than it has places. A beat does not wait while all "
        "shards are empty.",
        design="distributor, 3 shards, 4 places for beats, 10 for entries",
        build=Shares,
        method=Bounded(19),
    ),
    Proof(
        name="turns of shards",
        statement="A beat that turns or clears the ring gives every shard an entry, for at most "
        "one lane, so that all shards turn at the same position in the sequence.",
        design="dispatcher, 2 lanes, 3 shards",
        build=Turns,
        method=Induction(24),
    ),
)
"""Proofs of units with several lanes."""


# Initial values of the entry counters, chosen so that they soon wrap or carry.
_STARTS = (-2, 62, 14)

_VERDICT_BITS = 2
_RESULTS_LATENCY = 2


class _OfCollector(Harness):
    """A small collector, whose tags and ages have one bit."""

    SIZES: ClassVar[dict[str, int]] = {}

    def __init__(self):
        answer = {"valid": 1, "tag": 1, "seen": 1, "age": _VERDICT_BITS - 1}
        lanes = data.ArrayLayout(data.StructLayout(answer), _LANES)
        self._collector = type("SizedCollector", (Collector,), self.SIZES)(
            record=BeatRecord(lanes=_LANES, shards=_SHARDS, slots=_SLOTS, tag_bits=1),
            shards=_SHARDS,
            slots=_SLOTS,
            answer=data.StructLayout({"lanes": lanes}),
            verdict_bits=_VERDICT_BITS,
            results_latency=_RESULTS_LATENCY,
        )
        super().__init__(part=self._collector)


class Answers(_OfCollector):
    """A collector: of every ``2 * slots`` beats, one arbitrary beat is followed.

    What is read from a shard is arbitrary, except the finished verdicts of the followed beat, until
    another beat gets its slot.
    """

    PATIENCE = 31  # maximum cycles until a complete answer appears, if `o` is ready

    # Few places, so that a few beats fill them.
    SIZES: ClassVar[dict[str, int]] = {"DEPTH": 16}

    def build(self, m):
        part = self._collector
        m.submodules.collector, inner = opened(part)
        taken = part.o.valid & part.o.ready
        came = ordinal(m, part.recorded, 2 * _SLOTS, "came")
        went = ordinal(m, taken, 2 * _SLOTS, "went")
        under_way = ahead(came, went)
        m.d.comb += [
            Assume(~part.recorded | (under_way != _SLOTS)),
            Assume(~part.recorded | (part.slot == came[: len(part.slot)])),
        ]
        followed = Signal.like(came)
        m.d.comb += followed.eq(AnyConst(len(followed)))
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
        idle = Signal(range(self.PATIENCE + 2))
        waits = first & finished.all() & part.o.ready & ~part.o.valid
        m.d.sync += idle.eq(Mux(waits, idle + 1, 0))
        self.require(
            ~part.o.valid | (under_way != 0),
            ~answers | (present & finished.all()),
            ~answers | (part.o.p.as_value() == expected),
            kept_while_waiting(m, part.o),
            idle <= self.PATIENCE,
        )
        self._require_hits(m, taken, under_way)
        again = Signal()
        with m.If(inner["fails"] & first & reads & ~finished.all()):
            m.d.sync += again.eq(1)
        self.reach("a beat is checked again", answers & again)
        self.reach(
            "all slots are in use when an answer arrives", part.o.valid & (under_way == _SLOTS)
        )
        # The fifth beat gets the slot of the first.
        self.reach("a slot is reused", part.recorded & (came == _SLOTS))
        self.reach("there are no credits", part.o.valid & ~inner["credits.available"])

    def _finished(self, m, shard, comes):
        """Model a shard that finishes entries; return whether it has finished the followed beat."""
        part = self._collector
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
        """Supply the shards' verdicts for the followed beat; return its expected answer."""
        part = self._collector
        answer = []
        for number in range(_LANES):
            coming = part.record.lanes[number]
            m.d.comb += Assume(coming.number < _SHARDS)
            lane = Signal(coming.shape(), name=f"lane{number}")
            with m.If(comes):
                m.d.sync += lane.eq(coming)
            verdict = Signal(_VERDICT_BITS, name=f"verdict{number}")
            m.d.comb += verdict.eq(AnyConst(_VERDICT_BITS))
            for shard in range(_SHARDS):
                read = delayed(m, reads[shard], _RESULTS_LATENCY, f"read{number}_{shard}_")
                result = part.results.word_select(shard * _LANES + number, _VERDICT_BITS)
                holds = read & lane.asked & (lane.number == shard)
                m.d.comb += Assume(~holds | (result == verdict))
            seen = (lane.asked & verdict[0]) | (lane.known & lane.query)
            answer += [lane.valid, lane.tag, seen, lane.asked & verdict[1]]
        return Cat(answer)

    def _require_hits(self, m, taken, under_way):
        """Require that each hit belongs to an answer, and is counted before the answer leaves."""
        part = self._collector
        for lane in range(_LANES):
            hits = ordinal(m, part.hit[lane], 2 * _SLOTS, f"hits{lane}")
            seen = ordinal(m, taken & part.o.p.lanes[lane].seen, 2 * _SLOTS, f"seen{lane}")
            self.require(ahead(hits, seen) <= under_way)


class AnswerPlaces(_OfCollector):
    """A collector never has too many answers in flight; `QueueOrder` proves the assumption."""

    def build(self, m):
        part = self._collector
        m.submodules.collector, inner = opened(part)
        taken = part.o.valid & part.o.ready
        held = Signal(range(2 * part.DEPTH))
        m.d.sync += held.eq(held + inner["passes"] - taken)
        m.d.comb += Assume(~part.o.valid | (held != 0))
        left = inner["credits.left"]
        coming = inner["credits.change"] + inner["credits.refunded"] - inner["credits.spent"]
        self.require(held <= part.DEPTH, left + coming == left.init - held)
        self.reach("all places except the spare are in use", held == part.DEPTH - 1)


PROOFS = (
    *_SHARD_PROOFS,
    Proof(
        name="answers of beats",
        statement="The n-th answer belongs to the n-th beat, with its tags and, for each lane, the "
        "verdict of its shard. It appears after all shards have finished the beat's entries. It "
        f"appears at most {Answers.PATIENCE} cycles after that and the previous answer, if answers "
        "are taken, and stays unchanged until it is taken. Hits are counted once.",
        design="collector, 2 lanes, 3 shards, 4 slots, 16 places for answers",
        build=Answers,
        method=Bounded(35),
    ),
    Proof(
        name="places for answers",
        statement="Answers in flight never exceed the places of the queue, for any beats and any "
        "receiver.",
        design="collector, 2 lanes, 3 shards, 4 slots, 32 places for answers",
        build=AnswerPlaces,
        method=Induction(24),
    ),
)
"""Proofs of collectors."""
