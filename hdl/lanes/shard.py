"""A shard: the part of a filter that has a share of the keys, behind a queue."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ..hash.functions import Expand
from ..hash.key import Addresses
from ..memory.paged import PagedMemory
from ..pipeline import delayed, registered, selected
from ..profile import CONTROL_LAG, HardwareProfile
from ..queue import ResultQueue
from ..ring.core import ring_core
from .sequencer import Entry, OrderedEntry, RingCommand, Sequencer, ordered_steps


class StateExpand(wiring.Component):
    """Cell indices of a state that was hashed elsewhere: the last step of the hash.

    Latency `latency` cycles, one state per cycle.

    Parameters
    ----------
    spec : FilterSpec

    Members
    -------
    key : In(64)
    addresses : Out(Addresses)
    """

    def __init__(self, *, spec):
        self._parts = spec.parts
        self._expand = Expand(sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed)
        self.latency = 1 + self._expand.latency
        super().__init__({"key": In(STATE_BITS), "addresses": Out(Addresses(spec=spec))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.expand = self._expand
        state = Signal(STATE_BITS, reset_less=True)
        m.d.sync += state.eq(self.key)
        m.d.comb += [
            self._expand.state.eq(state),
            self.addresses.eq(self._expand.addresses(self._parts)),
        ]
        return m


class Shard(wiring.Component):
    """Queue, pipeline and results of a shard.

    Takes entries at any time and trusts its user to count them: at most
    `DEPTH` are in it. Entries take effect in order, the lanes of each in
    theirs.

    Parameters
    ----------
    spec : FilterSpec
        Of all shards together.
    number : int
        Which of them.
    slots : int
        Beats that may be under way.
    memory : str
        Variant of the segment memories.

    Members
    -------
    valid_next : In(1)
        An entry is in `entry` and `states` in the next cycle.
    entry : In(Entry)
    states : In(64 * lanes)
        State of each lane.
    taken : Out(1)
        An entry has left the queue.
    done : Out(8)
        Entries that are done, modulo 256. Their results can be read.
    slot : In
        Slot of which results are read.
    results : Out(lanes * verdict bits)
        Of each lane ``seen``, then ``age``, if its operation was one of the shard's; `latency`
        cycles after `slot`.
    """

    DEPTH = 64

    WAY_IN = 5
    """Cycles from `valid_next` until the queue knows of it."""

    def __init__(self, *, spec, number, slots, memory="portable"):
        if number not in range(spec.shards):
            raise ValueError(f"Number must be below the {spec.shards} shards, not {number!r}")
        # Counts of finished entries are compared modulo 256.
        if slots not in (1 << bits for bits in range(1, 8)):
            raise ValueError(f"Slots must be a power of two up to 128, not {slots!r}")
        self._spec = spec
        self._lanes = spec.lanes
        profile = HardwareProfile(spec, memory=memory)
        self._core = ring_core(
            profile.shard_spec, memory=memory, key_hash=StateExpand, profile=profile
        )
        self._entry = Entry(lanes=spec.lanes, slots=slots)
        self._ordered = OrderedEntry(self._entry)
        self._verdict_bits = len(self._core.verdict.as_value())
        self._memories = [
            PagedMemory(depth=slots, width=self._verdict_bits, number=number, memories=spec.shards)
            for _ in range(spec.lanes)
        ]
        self.latency = self._memories[0].latency
        self._states = PagedMemory(depth=self.DEPTH, width=STATE_BITS * spec.lanes)
        # To the key, from the step: the address comes a cycle after it.
        self._state_latency = 1 + self._states.latency + (spec.lanes - 1).bit_length()
        super().__init__(
            {
                "valid_next": In(1),
                "entry": In(self._entry),
                "states": In(STATE_BITS * spec.lanes),
                "taken": Out(1),
                "done": Out(8),
                "slot": In(range(slots)),
                "results": Out(spec.lanes * self._verdict_bits),
            }
        )

    @property
    def core(self):
        """The pipeline."""
        return self._core

    @property
    def turnaround(self):
        """Cycles from the one in which a step goes until its entry is counted as done."""
        return self._state_latency + self._core.latency + 2

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.queue = queue = ResultQueue(
            depth=self.DEPTH, tag_bits=0, verdict_bits=self._ordered.size, apart=True
        )
        m.submodules.sequencer = sequencer = Sequencer(
            entry=self._ordered, clear_words=HardwareProfile(self._spec).clear_cycles
        )
        arrived = registered(m, self.valid_next, "arrived")
        valid_next, entry = self._elaborate_arrival(m, arrived)
        m.d.comb += [
            queue.coming.eq(valid_next),
            queue.verdict.eq(entry),
            sequencer.i.valid.eq(queue.o.valid),
            sequencer.i.p.eq(queue.o.p),
            queue.o.ready.eq(sequencer.i.ready),
        ]
        m.d.comb += self.taken.eq(sequencer.takes)
        self._elaborate_states(m, sequencer, arrived)
        # The core has its control so much after the key; the sequencer's is three cycles late.
        late = self._state_latency + CONTROL_LAG - 3
        m.d.comb += core.control.eq(delayed(m, sequencer.control, late, "control"))
        self._elaborate_results(m, sequencer, late + core.latency - CONTROL_LAG)
        return m

    def _elaborate_arrival(self, m, arrived):
        """Order the steps of an entry; return when the queue gets it next, and the entry."""
        # The way to a corner of the chip takes several cycles.
        first = data.View(self._entry, delayed(m, self.entry.as_value(), 2, "first"))
        turns = first.turn != RingCommand.NONE
        wanted = registered(m, Cat(first.items | first.shifts, turns), "wanted")
        own = Signal(self._entry)
        m.d.comb += [
            own.eq(first),
            own.query.eq(first.query & first.items),
            own.insert.eq(first.insert & first.items),
        ]
        rest = delayed(m, own.as_value(), 2, "rest")
        entry = Signal(self._ordered)
        m.d.sync += entry.eq(Cat(ordered_steps(m, wanted), rest))
        return delayed(m, arrived, self.WAY_IN - 1, "arrived_late"), entry

    def _elaborate_states(self, m, sequencer, arrived):
        """Keep the states of each entry until their turn."""
        m.submodules.states = states = self._states
        written = self._elaborate_place(m, "written", arrived, 0)
        # The clear after reset comes before the first entry.
        read = self._elaborate_place(m, "read", sequencer.takes, -1)
        m.d.comb += [
            states.write.eq(arrived),
            states.write_address.eq(written),
            states.value.eq(self.states),
            states.read_address.eq(read),
        ]
        lane = delayed(m, sequencer.lane, 1 + states.latency, "lane")
        words = [states.word.word_select(n, STATE_BITS) for n in range(self._lanes)]
        m.d.comb += self._core.key.eq(selected(m, words, lane, "state"))

    def _elaborate_place(self, m, name, step, first):
        """Count through the places, from the `first` one on.

        A counter that is ahead keeps the adder, in whose sums synthesis would find those of the
        addresses' maps, out of their way.
        """
        place = Signal(range(self.DEPTH), name=name, init=first % self.DEPTH)
        ahead = Signal(range(self.DEPTH), name=f"after_{name}", init=(first + 1) % self.DEPTH)
        with m.If(step):
            m.d.sync += [place.eq(ahead), ahead.eq(ahead + 1)]
        return place

    def _elaborate_results(self, m, sequencer, cycles):
        """Write each verdict where its lane and slot belong, and count the entries."""
        core = self._core
        slot = delayed(m, sequencer.slot, cycles, "slot")
        lane = delayed(m, sequencer.of_lane, cycles, "of_lane")
        last = delayed(m, sequencer.last, cycles + 1, "last")
        for number, results in enumerate(self._memories):
            m.submodules[f"results{number}"] = results
            m.d.comb += [
                results.write.eq(lane[number]),
                results.write_address.eq(slot),
                results.value.eq(core.verdict),
                results.read_address.eq(self.slot),
                self.results.word_select(number, self._verdict_bits).eq(results.word),
            ]
        with m.If(last):
            m.d.sync += self.done.eq(self.done + 1)
