"""Gives out the results of beats in the order of the beats."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..memory.paged import PagedMemory
from ..pipeline import delayed, registered, selected
from ..profile import FAN_IN
from ..queue import ResultQueue
from .credits import Credits


class Collector(wiring.Component):
    """Gives out the results of beats in the order of the beats.

    Looks after beat upon beat, one per cycle, without waiting; where a shard
    has not done its part yet, it comes back to that beat `POLL` cycles later.
    Once it lags behind, it need not come back.

    Parameters
    ----------
    record : BeatRecord
    shards, slots : int
    answer : StructLayout
        Payload of the unit's output.
    verdict_bits, results_latency : int
        Bits of a lane's verdict, and cycles from `read` to `results`.

    Members
    -------
    recorded, record, slot : In
        A beat is to be waited for.
    done : In(8 * shards)
        Entries that each shard has done.
    read : Out(range(slots))
    results : In(shards * lanes * verdict_bits)
    o : Out(stream.Signature(answer))
    """

    DEPTH = 64
    POLL = 14
    UNDER_WAY = 18
    """Beats that may still pass when there are no more credits."""

    def __init__(self, *, record, shards, slots, answer, verdict_bits, results_latency):
        self._record = record
        self._lanes = record["lanes"].shape.length
        self._shards = shards
        self._slots = slots
        self._answer = answer
        self._verdict_bits = verdict_bits
        self._results_latency = results_latency
        # From the cycle in which `done` comes.
        self._selection = (shards - 1).bit_length()
        self.latency = 10 + results_latency + self._selection + ResultQueue.LATENCY_APART
        super().__init__(
            {
                "recorded": In(1),
                "record": In(record),
                "slot": In(range(slots)),
                "done": In(8 * shards),
                "read": Out(range(slots)),
                "results": In(shards * self._lanes * verdict_bits),
                "o": Out(stream.Signature(answer)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.records = records = PagedMemory(depth=self._slots, width=self._record.size)
        m.submodules.queue = queue = ResultQueue(
            depth=self.DEPTH, tag_bits=0, verdict_bits=self._answer.size, apart=True
        )
        m.submodules.credits = credits = Credits(limit=self.DEPTH - self.UNDER_WAY)
        beat = Signal(8)
        m.d.comb += [
            records.write.eq(self.recorded),
            records.write_address.eq(self.slot),
            records.value.eq(self.record),
            records.read_address.eq(beat),
        ]
        passes, passed, record = self._elaborate_check(m, beat, records, credits.available)
        m.d.comb += self.read.eq(passed)
        coming, answer = self._elaborate_answer(m, passes, record)
        m.d.comb += [
            queue.coming.eq(coming),
            queue.verdict.eq(answer),
            credits.spend.eq(passes),
            credits.refund.eq(self.o.valid & self.o.ready),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        return m

    def _elaborate_check(self, m, beat, records, available):
        """Look after beats; return whether one passes, which, and its record."""
        # The ordinal of the newest beat that can be read.
        newest = Signal(8, init=-1)
        with m.If(self.recorded):
            m.d.sync += newest.eq(newest + 1)
        late = records.latency
        reached = self._elaborate_reached(
            m, registered(m, newest, "newest_late"), registered(m, beat, "beat_late"), "there"
        )
        there = delayed(m, reached, late - 1, "there")
        record = Signal(self._record)
        m.d.comb += record.eq(records.word)
        counts = delayed(m, self.done, 2, "counts")
        done = [
            self._elaborate_reached(
                m, counts.word_select(shard, 8), record.required[shard], f"done{shard}"
            )
            for shard in range(self._shards)
        ]
        conditions = Cat(there, *done)
        groups = [conditions[at : at + FAN_IN].all() for at in range(0, len(conditions), FAN_IN)]
        complete = registered(m, registered(m, Cat(groups), "groups").all(), "complete")
        # As late as that.
        cycles = late + 5
        alive = Signal(cycles)
        at_end = delayed(m, beat, cycles, "beat")
        # In the cycle after `failing` the beats behind the one that fails are given up.
        fails = Signal()
        failing = alive[-1] & ~complete & ~fails
        m.d.sync += fails.eq(failing)
        goes = Signal()
        m.d.sync += [
            goes.eq(available & ~failing & ~fails),
            alive.eq(Cat(goes, alive) & ~fails.replicate(cycles)),
        ]
        passes = registered(m, alive[-1] & complete & ~fails, "passes")
        passed = registered(m, at_end, "passed")
        self._elaborate_beat(m, beat, goes, fails, passed)
        return passes, passed, delayed(m, record.lanes.as_value(), 6, "record")

    def _elaborate_reached(self, m, count, goal, name):
        """Return, three cycles late, whether a count modulo 256 has reached a goal near it."""
        pairs = [(count[at : at + 2], goal[at : at + 2]) for at in (0, 2, 4)]
        pairs.append((count[6], goal[6]))
        # Whether the difference borrows from what is above, and whether it passes a borrow on.
        less = registered(m, Cat(own < other for own, other in pairs), f"{name}_less")
        same = registered(m, Cat(own == other for own, other in pairs), f"{name}_same")
        top = delayed(m, count[7] ^ goal[7], 2, f"{name}_top")
        below = registered(m, less[1] | (same[1] & less[0]), f"{name}_below")
        borrows = registered(m, less[3] | (same[3] & less[2]), f"{name}_borrows")
        passes = registered(m, same[3] & same[2], f"{name}_passes")
        return registered(m, ~(top ^ (borrows | (passes & below))), name)

    def _elaborate_beat(self, m, beat, goes, fails, back):
        """Count the beats that are looked after, and go back to one.

        The carry into the high digit is computed ahead: no beat is looked after for two
        cycles after it has gone back.
        """
        low, high = beat[:2], beat[2:]
        next_high = registered(m, (high + 1)[: len(high)], "next_high")
        m.d.sync += low.eq(Mux(fails, back[:2], low + goes))
        with m.If(fails | (goes & low.all())):
            m.d.sync += high.eq(Mux(fails, back[2:], next_high))

    def _elaborate_answer(self, m, passes, record):
        """Return when an answer comes, a cycle ahead, and the answer."""
        lanes = data.View(self._record["lanes"].shape, record)
        # On the way from the shards.
        results = delayed(m, self.results, 2, "results")
        late, cycles = self._results_latency + 2, self._selection
        answer = Signal(self._answer)
        for lane in range(self._lanes):
            kept = data.View(
                lanes[lane].shape(), delayed(m, lanes[lane].as_value(), late, f"kept{lane}_")
            )
            verdicts = [
                results.word_select(shard * self._lanes + lane, self._verdict_bits)
                for shard in range(self._shards)
            ]
            verdict = selected(m, verdicts, kept.number, f"verdict{lane}_")
            kept = data.View(kept.shape(), delayed(m, kept.as_value(), cycles, f"kept_late{lane}_"))
            of_lane = answer.lanes[lane]
            m.d.sync += [
                of_lane.valid.eq(kept.valid),
                of_lane.tag.eq(kept.tag),
                of_lane.seen.eq((kept.asked & verdict[0]) | (kept.known & kept.query)),
                of_lane.age.eq(verdict[1:] & kept.asked.replicate(self._verdict_bits - 1)),
            ]
        return delayed(m, passes, late + cycles, "coming"), answer
