"""A shard: the part of a filter that has a share of the keys, behind a queue."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ..frontend.issue import SpareTimer
from ..hash.functions import Expand
from ..memory.paged import PagedMemory
from ..memory.variants import segment_memory
from ..pipeline import delayed, registered, selected
from ..profile import HardwareProfile
from ..queue import ResultQueue
from ..ring.core import Control, FilterCore


class Turn(Enum, shape=2):
    """What happens to the ring before the operations of a beat."""

    NONE = 0
    SHIFT = 1
    CLEAR = 2


class StateExpand(wiring.Component):
    """Cell indices of a state that was hashed elsewhere: the last step of the hash.

    Latency `latency` clocks, one state per clock.

    Parameters
    ----------
    spec : FilterSpec
    """

    def __init__(self, *, spec):
        self._expand = Expand(sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed)
        self.latency = 1 + self._expand.latency
        super().__init__({"key": In(STATE_BITS)})

    def indices(self, function):
        """Signals of one function's indices, in the order of the sizes."""
        return self._expand.indices(function)

    def elaborate(self, platform):
        m = Module()
        m.submodules.expand = self._expand
        state = Signal(STATE_BITS, reset_less=True)
        m.d.sync += state.eq(self.key)
        m.d.comb += self._expand.state.eq(state)
        return m


class ShardCore(FilterCore):
    """Pipeline of a shard, whose keys are states.

    Parameters
    ----------
    spec : FilterSpec
        Of all shards together.
    memory : str
        As for `FilterCore`.
    """

    def __init__(self, *, spec, memory="portable"):
        profile = HardwareProfile(spec, memory=memory)
        self._ways = profile.address_registers
        super().__init__(spec=profile.shard_spec, memory=memory)

    def _build_hash(self):
        return StateExpand(spec=self._spec)

    def _build_memory(self):
        spec = self._spec
        return segment_memory(
            self._memory, depth=spec.part_bits, clear_bits=spec.clear, ways=self._ways
        )


def steps_layout(lanes):
    """Steps of an entry in their order: `lanes` for the turn, else a lane; and which exist."""
    return data.StructLayout(
        {"codes": data.ArrayLayout(range(lanes + 1), lanes + 1), "more": lanes}
    )


def ordered_steps(m, wanted):
    """Return the steps of an entry, as a value of `steps_layout`, a clock later.

    Parameters
    ----------
    m : Module
        Gets the registers between the lanes' steps and that of the turn, which comes first.
    wanted : Value
        A bit for each lane, and the highest for the turn.
    """
    lanes = len(wanted) - 1
    of_lanes = data.StructLayout(
        {"codes": data.ArrayLayout(range(lanes + 1), lanes), "there": lanes}
    )
    table = []
    for flags in range(1 << lanes):
        codes = [lane for lane in range(lanes) if flags >> lane & 1]
        there = (1 << len(codes)) - 1
        codes += [0] * (lanes - len(codes))
        table.append(of_lanes.const({"codes": codes, "there": there}).as_value())
    ordered = data.View(of_lanes, registered(m, Value.cast(Array(table)[wanted[:-1]]), "ordered"))
    codes, turns = ordered.codes.as_value(), registered(m, wanted[-1], "turns")
    first = Const(lanes, len(codes) // lanes)
    return Cat(
        Mux(turns, Cat(first, codes), Cat(codes, Const(0, len(first)))),
        Mux(turns, ordered.there, ordered.there[1:]),
    )


class Entry(data.StructLayout):
    """What a shard has to do for a beat.

    Members: for each lane whether it has an operation here (``items``), and
    its ``query`` and ``insert``; ``shifts``, the lane whose insertion the ring
    turns for, wherever its key belongs; ``turn`` (`Turn`); ``waits``, whether
    there is a shift of either kind; ``slot``, the number of the beat.
    """

    def __init__(self, *, lanes, slots):
        super().__init__(
            {
                "items": lanes,
                "query": lanes,
                "insert": lanes,
                "shifts": lanes,
                "turn": Turn,
                "waits": 1,
                "slot": range(slots),
            }
        )


class OrderedEntry(data.StructLayout):
    """An `Entry`, with its ``steps``, as `steps_layout` has them.

    ``query`` and ``insert`` are those of ``items`` alone.
    """

    def __init__(self, entry):
        lanes = entry["items"].width
        members = {name: field.shape for name, field in entry}
        super().__init__({"steps": steps_layout(lanes)} | members)


class Sequencer(wiring.Component):
    """Takes entries apart: one step per clock.

    An entry in which the ring turns by a shift waits until the spare is clean;
    after a clear everything waits until it is. After reset there is a clear.

    Parameters
    ----------
    entry : StructLayout
        Of the queue.
    clear_words : int
        Clocks that clearing the spare takes.

    Members
    -------
    i : In(stream.Signature(OrderedEntry))
    takes : Out(1)
        The step is the first of another entry.
    lane : Out(range(lanes))
    control : Out(Control)
        Of the step, three clocks after `lane`. All low without one.
    last : Out(1)
        With `control`: the entry is done.
    slot : Out
        With `control`: that of the entry.
    of_lane : Out(lanes)
        With `control`: the lane whose operation it is.
    """

    SETTLE = 6
    """Clocks for which a step waits at least, if it must be known whether the spare is clean."""

    def __init__(self, *, entry, clear_words):
        self._entry = entry
        self._lanes = entry["items"].width
        self._clear_words = clear_words
        super().__init__(
            {
                "i": In(stream.Signature(entry)),
                "takes": Out(1),
                "lane": Out(range(self._lanes)),
                "control": Out(Control),
                "last": Out(1),
                "slot": Out(entry["slot"].shape),
                "of_lane": Out(self._lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.timer = timer = SpareTimer(words=self._clear_words)
        lanes = self._lanes
        codes = [Signal(range(lanes + 1), name=f"code{n}", init=lanes) for n in range(lanes + 1)]
        there = Signal(lanes + 1, init=1)
        entry = Signal(self._entry, init={"turn": Turn.CLEAR})
        first = Signal(init=1)
        blocked = Signal()
        # An entry is taken, or would be: the step is the last of its entry, and goes.
        load = Signal(init=1)
        goes = Signal()
        # Whether the step is a clear, which is always the first of its entry.
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
        # What `~there[1] & ~blocked` is in the next clock.
        more = self.i.valid & (steps.more[0] | self.i.p.waits)
        stays = Mux(blocked, opens & ~there[1], ~clears & ~there[2])
        m.d.sync += load.eq(Mux(load, ~clears & ~more, stays))
        return m

    def _elaborate_step(self, m, entry, code, there, goes, first):
        """Decode the step; return whether it turns the ring, four clocks later."""
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
                (mine & flags.shifts).any() | (turn & (flags.turn == Turn.SHIFT))
            ),
            self.control.clear.eq(turn & (flags.turn == Turn.CLEAR)),
            self.slot.eq(flags.slot),
            self.of_lane.eq(items),
        ]
        turns = Signal()
        m.d.sync += turns.eq(self.control.shift | self.control.clear)
        return turns

    def _elaborate_wait(self, m, timer, blocked, load, clears):
        """Say when the next step must wait: its turn comes when the spare is clean.

        Return whether the wait ends.
        """
        # By then the timer knows of the step before.
        aged = Signal(self.SETTLE)
        opens = Signal()
        m.d.sync += [
            aged.eq(Cat(blocked, aged) & blocked.replicate(self.SETTLE)),
            opens.eq(blocked & aged[-1] & timer.clean & ~opens),
            blocked.eq(clears | (load & self.i.valid & self.i.p.waits) | (blocked & ~opens)),
        ]
        return opens


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
    coming : In(1)
        An entry is in `entry` and `states` in the next clock.
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
        clocks after `slot`.
    """

    DEPTH = 64

    WAY_IN = 5
    """Clocks from `coming` until the queue knows of it."""

    def __init__(self, *, spec, number, slots, memory="portable"):
        self._spec = spec
        self._lanes = spec.lanes
        self._core = ShardCore(spec=spec, memory=memory)
        self._entry = Entry(lanes=spec.lanes, slots=slots)
        self._ordered = OrderedEntry(self._entry)
        self._verdict_bits = 1 + len(self._core.age)
        self._memories = [
            PagedMemory(depth=slots, width=self._verdict_bits, number=number, memories=spec.shards)
            for _ in range(spec.lanes)
        ]
        self.latency = self._memories[0].latency
        self._states = PagedMemory(depth=self.DEPTH, width=STATE_BITS * spec.lanes)
        # To the key, from the step: the address comes a clock after it.
        self._state_latency = 1 + self._states.latency + (spec.lanes - 1).bit_length()
        super().__init__(
            {
                "coming": In(1),
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
        """Clocks from the one in which a step goes until its entry is counted as done."""
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
        arrived = registered(m, self.coming, "arrived")
        coming, entry = self._elaborate_arrival(m, arrived)
        m.d.comb += [
            queue.coming.eq(coming),
            queue.verdict.eq(entry),
            sequencer.i.valid.eq(queue.o.valid),
            sequencer.i.p.eq(queue.o.p),
            queue.o.ready.eq(sequencer.i.ready),
        ]
        m.d.comb += self.taken.eq(sequencer.takes)
        self._elaborate_states(m, sequencer, arrived)
        # The core has its control so much after the key; the sequencer's is three clocks late.
        late = self._state_latency + FilterCore.CONTROL_LAG - 3
        m.d.comb += core.control.eq(delayed(m, sequencer.control, late, "control"))
        self._elaborate_results(m, sequencer, late + core.latency - FilterCore.CONTROL_LAG)
        return m

    def _elaborate_arrival(self, m, arrived):
        """Order the steps of an entry; return when one is coming to the queue, and the entry."""
        # The way to a corner of the chip takes several clocks.
        first = data.View(self._entry, delayed(m, self.entry.as_value(), 2, "first"))
        turns = first.turn != Turn.NONE
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

    def _elaborate_results(self, m, sequencer, clocks):
        """Write each verdict where its lane and slot belong, and count the entries."""
        core = self._core
        slot = delayed(m, sequencer.slot, clocks, "slot")
        lane = delayed(m, sequencer.of_lane, clocks, "of_lane")
        last = delayed(m, sequencer.last, clocks + 1, "last")
        for number, results in enumerate(self._memories):
            m.submodules[f"results{number}"] = results
            m.d.comb += [
                results.write.eq(lane[number]),
                results.write_address.eq(slot),
                results.value.eq(Cat(core.seen, core.age)),
                results.read_address.eq(self.slot),
                self.results.word_select(number, self._verdict_bits).eq(results.word),
            ]
        with m.If(last):
            m.d.sync += self.done.eq(self.done + 1)
