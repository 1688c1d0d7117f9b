"""Sends each shard its share of a beat when all shards have room."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ..latencies import SHARD_PLACES
from ..memory.paged import PagedMemory
from ..monitors import watch_count, watch_way
from ..parameters import require_integer, require_power_of_two
from ..pipeline import Pipeline, registered, successor
from .beats import check_lanes
from .sequencer import Entry


class Share(data.StructLayout):
    """Work of a beat for the shards.

    Members: the fields of `Entry` that all shards have in common, ``items`` of each shard,
    and ``there`` with a bit for each shard that receives an entry.

    Parameters
    ----------
    lanes, shards : int
    slots : int
        Maximum number of beats in flight.
    """

    def __init__(self, *, lanes, shards, slots):
        common = {name: field.shape for name, field in Entry(lanes=lanes, slots=slots)}
        super().__init__(
            common
            | {
                "items": data.ArrayLayout(lanes, shards),
                "there": shards,
            }
        )


class Distributor(wiring.Component):
    """Holds beats until all shards have room, then sends each shard its share.

    One beat per cycle. The distributor does not check for room: the previous component must
    limit the number of beats to `depth`, including beats of which only the states have arrived.

    Parameters
    ----------
    lanes, shards, slots : int
    depth : int
        Beats that it stores, a power of two.
    copies : int
        Copies of each word of a beat, which vote.
    check : bool
        Whether the component checks the counts of beats, and of free places in shards.

    Members
    -------
    hashed : In(1)
        The states of a beat arrive, before the beat or with it.
    states : In(64 * lanes)
    arrived : In(1)
        A beat arrives.
    share : In(Share)
        Work of this beat, by shard.
    taken : In(shards)
        An entry has left the queue of a shard.
    left : Out(1)
        A beat has left.
    valid : Out(shards)
        A shard receives an entry.
    entry0, ... : Out(Entry)
    states0, ... : Out(64 * lanes)
        One of each for each shard.
    illegal : Out(1)
        With `check` only: a count is wrong.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    PLACES = SHARD_PLACES
    """Places in the queue of a shard."""

    def __init__(self, *, lanes, shards, slots, depth, copies=1, check=False):
        check_lanes(lanes)
        require_integer("Shards", shards, least=1)
        require_power_of_two("Slots", slots, least=2)
        self.depth = depth
        self._lanes = lanes
        self._shards = shards
        self._share = Share(lanes=lanes, shards=shards, slots=slots)
        self._entry = Entry(lanes=lanes, slots=slots)
        self._beats, self._states = (
            PagedMemory(
                depth=depth,
                width=width,
                number=number,
                memories=2,
                far=True,
                # Few words, because shards in all corners of the chip pull them apart.
                share=24,
                copies=copies,
            )
            for number, width in enumerate((self._share.size, STATE_BITS * lanes))
        )
        # Entries that may still leave when a shard has no places.
        self._lag = self._beats.latency + 4
        self._checks = check
        super().__init__(
            {
                "hashed": In(1),
                "states": In(STATE_BITS * lanes),
                "arrived": In(1),
                "share": In(self._share),
                "taken": In(shards),
                "left": Out(1),
                "valid": Out(shards),
            }
            | {f"entry{shard}": Out(self._entry) for shard in range(shards)}
            | {f"states{shard}": Out(STATE_BITS * lanes) for shard in range(shards)}
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        self._wrong = []
        m.submodules.beats = beats = self._beats
        m.submodules.states = states = self._states
        room = Signal()
        pops = Signal()
        read = Signal(range(self.depth))
        # Stored beats, less one.
        more = Signal(signed(self.depth.bit_length() + 1), init=-1)
        self._elaborate_memory(m, "beats", beats, self.arrived, self.share, read)
        self._elaborate_memory(m, "states", states, self.hashed, self.states, read)
        m.d.sync += [
            # Whether another beat follows the beat that leaves, if one leaves.
            pops.eq(room & ~more[-1] & (more.any() | ~pops)),
            more.eq(more + self.arrived - pops),
            self.left.eq(pops),
        ]
        with m.If(pops):
            m.d.sync += read.eq(successor(read))
        pipeline = Pipeline(m)
        share = Signal(self._share)
        m.d.comb += share.eq(beats.word)
        arrives = pipeline.enter(pops, "pops").at(beats.latency)
        there = pipeline.combine(
            "there",
            lambda share, pops: share.there & pops.replicate(self._shards),
            pipeline.enter(share, "share", stage=beats.latency),
            arrives,
        )
        credits = []
        for shard in range(self._shards):
            self._elaborate_entry(m, shard, share, there.value[shard])
            credits.append(self._elaborate_credit(m, shard))
        m.d.sync += room.eq(Cat(credits).all())
        if self._checks:
            self._wrong += [
                watch_count(m, read, "read", more=pops),
                watch_count(m, more, "more", more=self.arrived, less=pops),
                watch_way(m, pops, arrives.value, beats.latency, "pops"),
            ]
            m.d.comb += self.illegal.eq(Cat(self._wrong).any())
        return m

    def _elaborate_credit(self, m, shard):
        """Return whether a shard has places for all entries that may be in transit.

        One place is the entry that the shard splits into steps; it has left the queue.
        """
        change = Signal(signed(2), name=f"change{shard}")
        left = Signal(signed(self.PLACES.bit_length() + 1), name=f"left{shard}",
                      init=self.PLACES - 2 - self._lag)  # fmt: skip
        # From a corner of the chip.
        taken = registered(m, self.taken[shard], f"taken{shard}")
        m.d.sync += [
            change.eq(taken - self.valid[shard]),
            left.eq(left + change),
        ]
        if self._checks:
            events = registered(m, Cat(taken, self.valid[shard]), f"events{shard}")
            wrong = watch_count(m, left, f"left{shard}", more=events[0], less=events[1])
            self._wrong.append(wrong)
        return left >= 0

    def _elaborate_memory(self, m, name, memory, comes, value, read):
        """Write arriving values into a memory, word after word."""
        written = Signal(range(self.depth), name=f"{name}_written")
        with m.If(comes):
            m.d.sync += written.eq(successor(written))
        m.d.comb += [
            memory.write.eq(comes),
            memory.write_address.eq(written),
            memory.value.eq(value),
            memory.read_address.eq(read),
        ]
        if self._checks:
            self._wrong.append(watch_count(m, written, f"{name}_written", more=comes))

    def _elaborate_entry(self, m, shard, share, goes):
        """Drive the entry of a shard from separate registers.

        Synthesis cannot share them, because each shard loads them separately.
        """
        here = registered(m, goes, f"here{shard}")
        entry = Signal(self._entry)
        m.d.comb += [
            entry[name].eq(share.items[shard] if name == "items" else share[name])
            for name, _field in self._entry
        ]
        states = [
            registered(m, self._states.word.word_select(lane, STATE_BITS), f"state{shard}_{lane}",
                       reset_less=True, enable=share.items[shard][lane])
            for lane in range(self._lanes)
        ]  # fmt: skip
        m.d.comb += [
            self.valid[shard].eq(here),
            getattr(self, f"entry{shard}").eq(
                registered(m, entry, f"on_way{shard}", reset_less=True, enable=share.there[shard])
            ),
            getattr(self, f"states{shard}").eq(Cat(states)),
        ]
