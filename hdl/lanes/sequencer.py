"""Entries of a shard, and the steps into which they are split."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..frontend.schedule import SpareTimer
from ..latencies import STEP_LATENCY
from ..pipeline import delayed, registered


class RingCommand(Enum, shape=2):
    """Change of the ring before the operations of a beat."""

    NONE = 0
    SHIFT = 1
    CLEAR = 2


def steps_layout(lanes):
    """Return the layout of an entry's steps, in order: a turn (`lanes`) or a lane; and a mask."""
    return data.StructLayout(
        {"codes": data.ArrayLayout(range(lanes + 1), lanes + 1), "more": lanes}
    )


def ordered_steps(m, wanted):
    """Return the steps of an entry, turn first, as a value of `steps_layout`, one cycle later.

    Parameters
    ----------
    m : Module
        Gets the registers.
    wanted : Value
        A bit for each lane; the highest bit is the turn.
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
    """Work of a beat for one shard.

    Members for each lane: whether it has an operation here (``items``), ``query`` and ``insert``.
    Further members: ``shifts``, the lane whose insertion turns the ring, in any shard; ``turn``
    (`RingCommand`); ``waits``, whether there is a shift of either kind; ``slot``, the beat's
    number.
    """

    def __init__(self, *, lanes, slots):
        super().__init__(
            {
                "items": lanes,
                "query": lanes,
                "insert": lanes,
                "shifts": lanes,
                "turn": RingCommand,
                "waits": 1,
                "slot": range(slots),
            }
        )


class OrderedEntry(data.StructLayout):
    """An `Entry` with its ``steps`` as a `steps_layout`.

    ``query`` and ``insert`` are only for ``items``.
    """

    def __init__(self, entry):
        lanes = entry["items"].width
        members = {name: field.shape for name, field in entry}
        super().__init__({"steps": steps_layout(lanes)} | members)


class Sequencer(wiring.Component):
    """Splits entries into steps, one step per cycle.

    An entry with a shift waits until the spare is clean. After a clear or reset every entry waits
    until the memory is clean.

    Parameters
    ----------
    entry : StructLayout
        Layout of an entry of the queue.
    clear_words : int
        Cycles to clear the spare.

    Members
    -------
    i : In(stream.Signature(OrderedEntry))
    takes : Out(1)
        The step is the first step of another entry.
    lane : Out(range(lanes))
    control : Out(Control)
        Flags of the step, `LATENCY` cycles after `lane`. All low without a step.
    last : Out(1)
        With `control`: the entry is complete.
    slot : Out
        With `control`: slot of the entry.
    of_lane : Out(lanes)
        With `control`: lane of the operation, one-hot.
    """

    LATENCY = STEP_LATENCY

    SETTLE = 6
    """Minimum wait of a step that depends on a clean spare, in cycles."""

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
        entry = Signal(self._entry, init={"turn": RingCommand.CLEAR})
        first = Signal(init=1)
        blocked = Signal()
        # An entry is taken, or would be: the step is the last of its entry, and leaves.
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
        # The value of `~there[1] & ~blocked` in the next cycle.
        more = self.i.valid & (steps.more[0] | self.i.p.waits)
        stays = Mux(blocked, opens & ~there[1], ~clears & ~there[2])
        m.d.sync += load.eq(Mux(load, ~clears & ~more, stays))
        return m

    def _elaborate_step(self, m, entry, code, there, goes, first):
        """Decode the step; return, four cycles later, whether it turns the ring."""
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
        """Decide when the next step must wait until the spare is clean.

        Return whether the wait ends.
        """
        # By then the timer reflects the previous step.
        aged = Signal(self.SETTLE)
        opens = Signal()
        m.d.sync += [
            aged.eq(Cat(blocked, aged) & blocked.replicate(self.SETTLE)),
            opens.eq(blocked & aged[-1] & timer.clean & ~opens),
            blocked.eq(clears | (load & self.i.valid & self.i.p.waits) | (blocked & ~opens)),
        ]
        return opens
