"""Proofs of several lanes: each shard gets its entries, and all shards turn together."""

from functools import partial

from amaranth.hdl import Assume, Cat, Mux, Signal
from amaranth.hdl._ast import AnyConst

from ...golden.spec import APBBFSpec
from ...hdl.lanes.dispatcher import Dispatcher
from ...hdl.lanes.distributor import Distributor
from ...hdl.lanes.unit import LaneUnit
from ...hdl.ring.profile import RingProfile
from .formal import Bounded, Induction, Proof
from .harness import Harness, sampled
from .results import ordinal

_LANES, _SHARDS, _SLOTS, _DEPTH = 2, 3, 4, 4


class SmallDistributor(Distributor):
    """A distributor with few places, which are soon reused."""

    PLACES = 10


class Shares(Harness):
    """A distributor; an arbitrary beat of every sixteen is followed to an arbitrary shard.

    States arrive while the distributor holds the states of fewer than `depth` beats. A beat arrives
    with its states or later. Shards accept only valid entries.
    """

    PATIENCE = 5  # maximum cycles that a beat waits while all shards are empty

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
            # One place is the entry that is being split.
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
        """Require that the entries of one shard are the entries of the beats for this shard."""
        part = self._part
        own = Signal(4, name=f"own{shard}")
        m.d.comb += own.eq(AnyConst(len(own)))
        hashed = ordinal(m, part.hashed, 16, f"hashed{shard}")
        beats = ordinal(m, part.arrived, 16, f"beats{shard}")
        came = ordinal(m, part.arrived & part.share.there[shard], 16, f"came{shard}")
        went = ordinal(m, part.valid[shard], 16, f"went{shard}")
        share = part.share
        state = sampled(m, part.hashed & (hashed == own), part.states[0], f"state{shard}")
        # Whether the followed beat has an entry, its number, and its content.
        present = Signal(name=f"present{shard}")
        number = Signal.like(came, name=f"number{shard}")
        given = Signal(share.slot.shape().width + 2, name=f"given{shard}")
        with m.If(part.arrived & (beats == own)):
            m.d.sync += [
                present.eq(share.there[shard]),
                number.eq(came),
                given.eq(_told(share, share["items"][shard])),
            ]
        entry = getattr(part, f"entry{shard}")
        states = getattr(part, f"states{shard}")
        follows = part.valid[shard] & present & (went == number)
        self.require(
            ~part.valid[shard] | (came != went),
            ~follows | (_told(entry, entry["items"]) == given),
            ~(follows & entry["items"][0]) | (states[0] == state),
        )


def _told(entry, items):
    """Return the followed part of an entry: its beat, whether it waits, the first lane's item."""
    return Cat(items[0], entry.waits, entry.slot)


class Turns(Harness):
    """A dispatcher of two lanes."""

    def __init__(self, *, goal=None):
        spec = APBBFSpec(
            k=1, l=1, block_bits=8, hashes_per_block=2, blocks=12, lanes=_LANES, key_bits=8,
            generation=20,
        )  # fmt: skip
        profile = RingProfile.of(spec, tag_bits=1)
        beat = LaneUnit(profile).signature.request
        self._dispatcher = Dispatcher(profile=profile, beat=beat, slots=_SLOTS)
        super().__init__(part=self._dispatcher, goal=goal)

    def build(self, m):
        m.submodules.dispatcher = part = self._dispatcher
        share = part.share
        turns = share.shifts.any() | share.turn.as_value().any()
        self.require(~turns | share.there.all(), share.shifts != 0b11)
        self.reach("an insertion turns the ring", part.arrived & share.shifts.any())


PROOFS = (
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
