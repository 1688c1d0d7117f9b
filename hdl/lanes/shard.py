"""A shard: a queue and the part of a filter that serves a share of the keys."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ..latencies import SHARD_PLACES
from ..memory.paged import PagedMemory
from ..monitors import watch_count, watch_way
from ..parameters import require_power_of_two
from ..pipeline import Pipeline, successor
from ..queue import ResultQueue
from ..ring.core import ring_core
from .beats import count_bits
from .sequencer import Entry, OrderedEntry, RingCommand, Sequencer, ordered_steps


class Shard(wiring.Component):
    """Queue, pipeline and results of a shard.

    A shard accepts an entry in any cycle. The previous component must count the entries: at most
    `DEPTH` fit. Entries take effect in order, and so do the lanes of each entry.

    Parameters
    ----------
    profile : RingProfile
        Profile of the whole unit.
    number : int
        Index of the shard.
    slots : int
        Maximum number of beats in flight.

    Members
    -------
    valid : In(1)
        An entry arrives.
    entry : In(Entry)
    states : In(64 * lanes)
        State of each lane.
    taken : Out(1)
        An entry has left the queue.
    done : Out(count_bits(slots))
        Number of finished entries, modulo a power of two. Their results can be read.
    slot : In
        Slot whose results are read.
    results : Out(lanes * verdict bits)
        For each lane ``seen``, then ``age``, if the shard performed its operation; `latency`
        cycles after `slot`.
    upset : Out(1)
        With protected memories only: as `fault` of a `lately.hdl.control.CoreSignature`.
    illegal : Out(1)
        With self-check only: the state of the ring or queue is illegal, or a count of entries is
        wrong.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    DEPTH = SHARD_PLACES

    WAY_IN = 4
    """Cycles from `valid` until the queue holds the entry."""

    def __init__(self, *, profile, number, slots):
        spec = profile.spec
        if number not in range(spec.shards):
            raise ValueError(f"Number must be below the {spec.shards} shards, not {number!r}")
        require_power_of_two("Slots", slots, least=2)
        self._profile = profile
        self._lanes = spec.lanes
        self._core = ring_core(
            profile.shard_spec,
            memory=profile.memory,
            hashed=True,
            profile=profile,
            control_lag=0,
        )
        self._entry = Entry(lanes=spec.lanes, slots=slots)
        self._ordered = OrderedEntry(self._entry)
        self._verdict_bits = len(self._core.verdict.as_value())
        shape = {"depth": slots, "width": self._verdict_bits}
        # The slot travels from the middle of the chip to all corners.
        where = {"number": number, "memories": spec.shards, "far": True}
        self._memories = [
            PagedMemory(**shape, **where, copies=profile.votes) for _ in range(spec.lanes)
        ]
        self.latency = self._memories[0].latency
        shape = {"depth": self.DEPTH, "width": STATE_BITS, "memories": spec.lanes}
        self._states = [
            PagedMemory(**shape, number=lane, copies=profile.votes) for lane in range(spec.lanes)
        ]
        super().__init__(
            {
                "valid": In(1),
                "entry": In(self._entry),
                "states": In(STATE_BITS * spec.lanes),
                "taken": Out(1),
                "done": Out(count_bits(slots)),
                "slot": In(range(slots)),
                "results": Out(spec.lanes * self._verdict_bits),
            }
            | ({"upset": Out(1)} if profile.protect != "none" else {})
            | ({"illegal": Out(1)} if profile.self_check else {})
        )

    @property
    def core(self):
        """The pipeline."""
        return self._core

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.queue = queue = ResultQueue(
            depth=self.DEPTH,
            tag_bits=0,
            verdict_bits=self._ordered.size,
            apart=self._ordered.size // 2,
            distributed=True,
            copies=self._profile.votes,
            check=self._profile.self_check,
        )
        m.submodules.sequencer = sequencer = Sequencer(
            entry=self._ordered, clear_words=self._profile.clear_cycles
        )
        valid_next, entry = self._elaborate_arrival(m)
        m.d.comb += [
            queue.valid_next.eq(valid_next),
            queue.verdict.eq(entry),
            sequencer.i.valid.eq(queue.o.valid),
            sequencer.i.p.eq(queue.o.p),
            queue.o.ready.eq(sequencer.i.ready),
        ]
        m.d.comb += self.taken.eq(sequencer.takes)
        if "upset" in self.signature.members:
            m.d.comb += self.upset.eq(core.fault)
        self._wrong = [core.illegal, queue.illegal] if self._profile.self_check else []
        pipeline = Pipeline(m, levels=self._profile.levels)
        key = self._elaborate_states(m, pipeline, sequencer)
        control = pipeline.enter(sequencer.control, "control", stage=sequencer.LATENCY)
        m.d.comb += [
            core.key.eq(key.value),
            core.control.eq(control.at(key.stage).value),
        ]
        self._elaborate_results(m, pipeline, sequencer, key.stage + core.latency)
        if self._profile.self_check:
            self._wrong += [
                watch_way(m, self.valid, valid_next, self.WAY_IN - 1, "way_in"),
                watch_count(m, queue.given, "given", more=queue.o.valid & queue.o.ready),
            ]
            m.d.comb += self.illegal.eq(Cat(self._wrong).any())
        return m

    def _elaborate_arrival(self, m):
        """Order the steps of an entry; return when the queue receives it, and the entry."""
        pipeline = Pipeline(m)
        # The path to a corner of the chip takes one cycle.
        first = pipeline.enter(self.entry, "first").at(1)
        wanted = pipeline.register(
            "wanted",
            lambda entry: Cat(entry.items | entry.shifts, entry.turn != RingCommand.NONE),
            first,
        )
        steps = pipeline.enter(ordered_steps(m, wanted.value), "steps", stage=wanted.stage + 1)
        own = Signal(self._entry)
        m.d.comb += [
            own.eq(first.value),
            own.query.eq(first.value.query & first.value.items),
            own.insert.eq(first.value.insert & first.value.items),
        ]
        rest = pipeline.enter(own.as_value(), "rest", stage=first.stage)
        entry = pipeline.register("ordered", lambda steps, rest: Cat(steps, rest), steps, rest)
        pipeline.leave(entry, latency=self.WAY_IN)
        return pipeline.enter(self.valid, "arrived").at(entry.stage - 1).value, entry.value

    def _elaborate_states(self, m, pipeline, sequencer):
        """Store the states of each entry until their turn; return the state of a step."""
        written = Signal(range(self.DEPTH))
        # The clear after reset precedes the first entry.
        read = Signal(range(self.DEPTH), init=self.DEPTH - 1)
        # As enables, whose paths are shorter than paths through a carry.
        with m.If(self.valid):
            m.d.sync += written.eq(successor(written))
        with m.If(sequencer.takes):
            m.d.sync += read.eq(successor(read))
        if self._profile.self_check:
            self._wrong += [
                watch_count(m, written, "states_written", more=self.valid),
                watch_count(m, read, "states_read", more=sequencer.takes),
            ]
        words = []
        for number, states in enumerate(self._states):
            m.submodules[f"states{number}"] = states
            m.d.comb += [
                states.write.eq(self.valid),
                states.write_address.eq(written),
                states.value.eq(self.states.word_select(number, STATE_BITS)),
                states.read_address.eq(read),
            ]
            # The address changes in the cycle after a step.
            stage = 1 + states.latency
            words.append(pipeline.enter(states.word, f"state_of{number}", stage=stage))
        lane = pipeline.enter(sequencer.lane, "lane").at(stage)
        return pipeline.select(words, lane, "state").settled()

    def _elaborate_results(self, m, pipeline, sequencer, stage):
        """Write each verdict to its lane and slot, and count the entries."""
        core = self._core
        slot, lane, last = (
            pipeline.enter(getattr(sequencer, name), name, stage=sequencer.LATENCY)
            for name in ("slot", "of_lane", "last")
        )
        for number, results in enumerate(self._memories):
            m.submodules[f"results{number}"] = results
            m.d.comb += [
                results.write.eq(lane.at(stage).value[number]),
                results.write_address.eq(slot.at(stage).value),
                results.value.eq(core.verdict),
                results.read_address.eq(self.slot),
                self.results.word_select(number, self._verdict_bits).eq(results.word),
            ]
        ends = last.at(stage + 1).value
        with m.If(ends):
            m.d.sync += self.done.eq(self.done + 1)
        if self._profile.self_check:
            self._wrong += [
                watch_count(m, self.done, "done", more=ends),
                watch_way(m, last.value, ends, stage + 1 - last.stage, "last"),
            ]
