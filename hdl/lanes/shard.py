"""A shard of a unit: a queue, a sequencer and a core that serve some of the keys."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ..control import Control
from ..frontend.front import SpareTimer
from ..latencies import ENTRY_LATENCY, SHARD_CAPACITY, STEP_LATENCY
from ..memory.paged import PagedMemory
from ..monitors import watch_count, watch_way
from ..parameters import require_power_of_two
from ..pipeline import Pipeline, delayed, registered, successor
from ..queue import ResultQueue
from .beats import Entry, OrderedEntry, RingCommand, count_bits, ordered_steps


class Sequencer(wiring.Component):
    """Splits each entry into steps, and issues one step per cycle.

    An entry with a shift waits until the spare is clean. After a clear or reset, every entry waits
    until the memory is clean.
    """

    LATENCY = STEP_LATENCY

    SETTLE = 6  # minimum cycles that a step waits if it depends on a clean spare

    def __init__(self, *, entry, clear_words):
        self._entry = entry
        self._lanes = entry["items"].width
        self._clear_words = clear_words
        super().__init__(
            {
                "i": In(stream.Signature(entry)),
                "takes": Out(1),  # the step is the first step of a new entry
                "lane": Out(range(self._lanes)),
                # flags of the step, `LATENCY` cycles after `lane`. All low without a step.
                "control": Out(Control),
                "last": Out(1),  # with `control`: the entry is complete
                "slot": Out(entry["slot"].shape),  # with `control`: slot of the entry
                "of_lane": Out(self._lanes),  # with `control`: lane of the operation, one-hot
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.timer = timer = SpareTimer(words=self._clear_words)
        lanes = self._lanes
        codes = [Signal(range(lanes + 1), name=f"code{n}", init=lanes) for n in range(lanes + 1)]
        there = Signal(lanes + 1, init=1)
        entry = Signal(self._entry, init={"turn": RingCommand.CLEAR})
        first = Signal(init=1)
        blocked = Signal()
        # The step leaves and is the last step of its entry, so the next entry is loaded.
        load = Signal(init=1)
        goes = Signal()
        # Whether the step is a clear, which is always the first step of its entry.
        clears = Signal(init=1)
        m.d.comb += [
            goes.eq(~blocked),
            self.i.ready.eq(load),
            self.lane.eq(codes[0]),
        ]
        steps = self.i.p.steps
        with m.If(goes):
            for number, code in enumerate(codes):
                later = codes[number + 1] if number < lanes else Const(0)
                m.d.sync += code.eq(Mux(there[1], later, steps.codes[number]))
            arriving = Cat(1, steps.more) & self.i.valid.replicate(lanes + 1)
            m.d.sync += [
                there.eq(Mux(there[1], there[1:], arriving)),
                clears.eq(~there[1] & self.i.valid & self.i.p.turn.as_value()[1]),
            ]
        with m.If(load):
            m.d.sync += [entry.eq(self.i.p), first.eq(0)]
        m.d.sync += self.takes.eq(load & self.i.valid)
        turns = self._elaborate_step(m, entry, codes[0], there, goes, first)
        m.d.comb += timer.start.eq(turns)
        opens = self._elaborate_wait(m, timer, blocked, load, goes & clears)
        # The value of `~there[1] & ~blocked` in the next cycle.
        more = self.i.valid & (steps.more[0] | self.i.p.waits)
        stays = Mux(blocked, opens & ~there[1], ~clears & ~there[2])
        m.d.sync += load.eq(Mux(load, ~clears & ~more, stays))
        return m

    def _elaborate_step(self, m, entry, code, there, goes, first):
        """Decode a step.

        Returns whether the step decoded four cycles earlier shifts or clears the ring.
        """
        lanes = self._lanes
        code = registered(m, code, "code_late")
        acts = registered(m, there[0] & goes, "acts")
        flags = data.View(self._entry, delayed(m, entry.as_value(), 2, "flags"))
        mine = registered(m, Cat((code == lane) & acts for lane in range(lanes)), "mine")
        turn = registered(m, (code == lanes) & acts, "turn")
        done = delayed(m, there[0] & goes & ~there[1] & ~first, 2, "done")
        items = mine & flags.items
        m.d.sync += [
            self.last.eq(done),
            self.control.valid.eq(items.any()),
            self.control.query.eq((mine & flags.query).any()),
            self.control.insert.eq((mine & flags.insert).any()),
            self.control.shift.eq(
                (mine & flags.shifts).any() | (turn & (flags.turn == RingCommand.SHIFT))
            ),
            self.control.clear.eq(turn & (flags.turn == RingCommand.CLEAR)),
            self.slot.eq(flags.slot),
            self.of_lane.eq(items),
        ]
        turns = Signal()
        m.d.sync += turns.eq(self.control.shift | self.control.clear)
        return turns

    def _elaborate_wait(self, m, timer, blocked, load, clears):
        """Hold back steps that need a clean spare; return whether the wait ends."""
        # By then the timer reflects the previous step.
        aged = Signal(self.SETTLE)
        opens = Signal()
        m.d.sync += [
            aged.eq(Cat(blocked, aged) & blocked.replicate(self.SETTLE)),
            opens.eq(blocked & aged[-1] & timer.clean & ~opens),
            blocked.eq(clears | (load & self.i.valid & self.i.p.waits) | (blocked & ~opens)),
        ]
        return opens


class Shard(wiring.Component):
    """Performs the operations on some of the keys, and stores their results.

    A shard accepts an entry in any cycle. There is no overflow check: at most `DEPTH` entries fit
    into the queue. Entries take effect in order, and within an entry the lanes take effect in
    order.
    """

    DEPTH = SHARD_CAPACITY

    WAY_IN = ENTRY_LATENCY  # cycles from `valid` until the queue holds the entry

    def __init__(self, *, profile, core, number, slots):
        spec = profile.spec
        if number not in range(spec.shards):
            raise ValueError(f"Shard number must be below {spec.shards}, not {number!r}")
        require_power_of_two("Slots", slots, minimum=2)
        self._profile = profile
        self._lanes = spec.lanes
        self._core = core
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
                "valid": In(1),  # an entry arrives
                "entry": In(self._entry),
                "states": In(STATE_BITS * spec.lanes),  # state of each lane
                "taken": Out(1),  # an entry has left the queue
                # number of finished entries, modulo a power of two. Their results can be read.
                "done": Out(count_bits(slots)),
                "slot": In(range(slots)),  # slot whose results are read
                # for each lane ``seen``, then ``age``, if the shard performed its operation;
                # `latency` cycles after `slot`
                "results": Out(spec.lanes * self._verdict_bits),
            }
            # See `fault` in `lately.hdl.control.CoreSignature`.
            | ({"upset": Out(1)} if profile.protect != "none" else {})
            # The state of the ring or queue is illegal, or a count of entries is wrong.
            | ({"illegal": Out(1)} if profile.self_check else {})
        )

    @property
    def core(self):
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
        """Order the steps of an entry; return `valid_next` for the queue, and the ordered entry."""
        pipeline = Pipeline(m)
        # The path to a corner of the chip takes one cycle.
        first = pipeline.enter(self.entry, "first").at(1)
        wanted = pipeline.register(
            "wanted",
            lambda entry: Cat(entry.items | entry.shifts, entry.turn != RingCommand.NONE),
            first,
        )
        steps = pipeline.enter(ordered_steps(m, wanted.value), "steps", stage=wanted.stage + 1)
        performed = Signal(self._entry)
        m.d.comb += [
            performed.eq(first.value),
            performed.query.eq(first.value.query & first.value.items),
            performed.insert.eq(first.value.insert & first.value.items),
        ]
        rest = pipeline.enter(performed.as_value(), "rest", stage=first.stage)
        entry = pipeline.register("ordered", lambda steps, rest: Cat(steps, rest), steps, rest)
        pipeline.leave(entry, latency=self.WAY_IN)
        return pipeline.enter(self.valid, "arrived").at(entry.stage - 1).value, entry.value

    def _elaborate_states(self, m, pipeline, sequencer):
        """Store the hash states of the entries; return the state for the current step."""
        written = Signal(range(self.DEPTH))
        # The clear after reset precedes the first entry.
        read = Signal(range(self.DEPTH), init=self.DEPTH - 1)
        # These are enables, because paths through enables are shorter than through a carry.
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
