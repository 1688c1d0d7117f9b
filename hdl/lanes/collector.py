"""Collector of the results of all shards, and credits that limit the operations in flight."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..memory.paged import PagedMemory, paged_latency
from ..monitors import watch_count, watch_credits, watch_way
from ..pipeline import FAN_IN, Pipeline, delayed, registered, successor
from ..queue import ResultQueue
from .beats import count_bits


class Credits(wiring.Component):
    """Counts the operations in flight, and reports whether more may enter."""

    def __init__(self, *, limit, check=False):
        if type(limit) is not int or limit < 0:
            raise ValueError(f"Limit must be a non-negative integer, not {limit!r}")
        self._limit = limit
        self._shape = signed(limit.bit_length() + 3)
        super().__init__(
            {
                "spend": In(1),  # an operation enters
                "refund": In(1),  # an operation leaves
                # whether at most `limit` operations were in flight three cycles ago
                "available": Out(1),
            }
            # `limit` minus the operations in flight two cycles ago, with two spare bits.
            | ({"left": Out(self._shape, init=limit)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        change = Signal(signed(2))
        left = Signal(self._shape, init=self._limit)
        m.d.sync += [
            change.eq(registered(m, self.refund, "refunded") - registered(m, self.spend, "spent")),
            left.eq(left + change),
            self.available.eq(left >= 0),
        ]
        if "left" in self.signature.members:
            m.d.comb += self.left.eq(left)
        return m


class Collector(wiring.Component):
    """Collects the results of the shards, and returns the results of beats in order.

    The collector checks one beat per cycle. If a shard has not finished its part of a beat, the
    collector checks the beat again `poll` cycles later.
    """

    DEPTH = 32
    UNDER_WAY = 7  # beats that may pass without credits, in addition to the beats being checked

    def __init__(
        self,
        *,
        record,
        shards,
        slots,
        answer,  # layout of the unit's output payload
        verdict_bits,  # width of a lane's verdict
        results_latency,  # cycles from `read` to `results`
        copies=1,  # copies of each memory word; a vote decides each read
        # whether the component checks the order of beats, the result queue and its free entries
        check=False,
    ):
        self._record = record
        self._lanes = record["lanes"].shape.length
        self._shards = shards
        self._slots = slots
        self._count_bits = count_bits(slots)
        # Cycles from a beat's number until it is known whether the shards have finished the beat.
        self._look = paged_latency(slots, far=True) + 5
        self.poll = self._look + 3  # cycles after which the collector checks a beat again
        self._answer = answer
        self._verdict_bits = verdict_bits
        self._results_latency = results_latency
        self._copies = copies
        self._checks = check
        super().__init__(
            {
                "recorded": In(1),  # a beat starts to wait for its results
                "record": In(record),
                "slot": In(range(slots)),
                # number of entries that each shard has finished
                "done": In(self._count_bits * shards),
                "read": Out(range(slots)),
                "results": In(shards * self._lanes * verdict_bits),
                "o": Out(stream.Signature(answer)),
                # Lanes of a result that report their key, for the counter.
                "hit": Out(self._lanes),
            }
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        self._wrong = []
        m.submodules.records = records = PagedMemory(
            depth=self._slots, width=self._record.size, far=True, copies=self._copies
        )
        m.submodules.queue = queue = ResultQueue(
            depth=self.DEPTH,
            tag_bits=0,
            verdict_bits=self._answer.size,
            distributed=True,
            copies=self._copies,
            check=self._checks,
        )
        m.submodules.credits = credits = Credits(
            limit=self.DEPTH - self._look - self.UNDER_WAY, check=self._checks
        )
        beat = Signal(self._count_bits)
        # Reads see the record one cycle later.
        recorded = registered(m, self.recorded, "came_in")
        m.d.comb += [
            records.write.eq(self.recorded),
            records.write_address.eq(self.slot),
            records.value.eq(self.record),
            records.read_address.eq(beat),
        ]
        pipeline = Pipeline(m)
        passes, record = self._elaborate_check(
            m, pipeline, beat, recorded, records, credits.available
        )
        coming, answer = self._elaborate_answer(m, pipeline, passes, record)
        came = registered(m, coming.value, "came")
        m.d.comb += [
            self.hit.eq(Cat(lane.seen & came for lane in answer.lanes)),
            queue.valid_next.eq(coming.value),
            queue.verdict.eq(answer),
            credits.spend.eq(passes.value),
            credits.refund.eq(self.o.valid & self.o.ready),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        if self._checks:
            self._watch(m, recorded, passes, coming)
        return m

    def _watch(self, m, recorded, passes, coming):
        queue, credits = m.submodules.queue, m.submodules.credits
        self._wrong += [
            queue.illegal,
            watch_count(m, queue.given, "given", more=credits.refund),
            watch_credits(m, credits, "credits"),
            watch_way(m, self.recorded, recorded, 1, "recorded"),
            watch_way(m, passes.value, coming.value, coming.stage - passes.stage, "passes"),
        ]
        m.d.comb += self.illegal.eq(Cat(self._wrong).any())

    def _elaborate_check(self, m, pipeline, beat, recorded, records, available):
        """Return whether a beat passes its check in this cycle, and the lanes of its record."""
        number = pipeline.enter(beat, "beat")
        word = Signal(self._record)
        m.d.comb += word.eq(records.word)
        record = pipeline.enter(word, "record", stage=records.latency)
        complete = self._elaborate_complete(m, pipeline, number, recorded, record)
        pipeline.leave(complete, latency=self._look)
        # `alive` is delayed like `complete`.
        alive = Signal(complete.stage)
        # In the cycle after `failing`, the beats behind the failing beat are abandoned.
        fails = Signal()
        failing = alive[-1] & ~complete.value & ~fails
        m.d.sync += fails.eq(failing)
        goes = Signal()
        m.d.sync += [
            goes.eq(available & ~failing & ~fails),
            alive.eq(Cat(goes, alive) & ~fails.replicate(len(alive))),
        ]
        passes = pipeline.register("passes", lambda flag: alive[-1] & flag & ~fails, complete)
        passed = number.at(passes.stage).value
        m.d.comb += self.read.eq(passed)
        self._elaborate_beat(m, beat, goes, fails, passed)
        if self._checks:
            # Beats are checked in order, whether they pass or not.
            turn = Signal.like(beat)
            m.d.sync += turn.eq(turn + passes.value)
            looked = registered(m, alive[-1] & ~fails, "looked")
            self._wrong.append(registered(m, looked & (passed != turn), "out_of_turn"))
        return passes, pipeline.combine("lanes", lambda record: record.lanes, record)

    def _elaborate_complete(self, m, pipeline, number, recorded, record):
        """Return whether a beat exists and every shard has finished its entry for the beat."""
        # Ordinal of the newest readable beat.
        newest = Signal(self._count_bits, init=-1)
        with m.If(recorded):
            m.d.sync += newest.eq(newest + 1)
        if self._checks:
            self._wrong.append(watch_count(m, newest, "newest", more=recorded))
        there = self._elaborate_reached(
            pipeline, pipeline.enter(newest, "newest").at(1), number.at(1), "there"
        )
        # These counts only grow, so they may be newer than the beat.
        counts = pipeline.enter(delayed(m, self.done, 2, "counts"), "counts", stage=None)
        done = [
            self._elaborate_reached(
                pipeline,
                pipeline.combine(
                    "count",
                    lambda bits, shard=shard: bits.word_select(shard, self._count_bits),
                    counts,
                ),
                pipeline.combine(
                    "required", lambda record, shard=shard: record.required[shard], record
                ),
                f"done{shard}",
            )
            for shard in range(self._shards)
        ]
        groups = pipeline.register(
            "groups",
            lambda *flags: Cat(
                Cat(flags[at : at + FAN_IN]).all() for at in range(0, len(flags), FAN_IN)
            ),
            there, *done,
        )  # fmt: skip
        return pipeline.register("complete", lambda flags: flags.all(), groups)

    def _elaborate_reached(self, pipeline, count, goal, name):
        """Return whether a counter that wraps around has reached `goal`."""
        top_bit = self._count_bits - 1

        def pairs(count, goal):
            yield from (
                (count[at : min(at + 2, top_bit)], goal[at : min(at + 2, top_bit)])
                for at in (0, 2, 4, 6)
            )

        # Whether the low digits of the difference borrow, and whether they propagate a borrow.
        less = pipeline.register(
            f"{name}_less", lambda *both: Cat(reached < other for reached, other in pairs(*both)),
            count, goal,
        )  # fmt: skip
        same = pipeline.register(
            f"{name}_same", lambda *both: Cat(reached == other for reached, other in pairs(*both)),
            count, goal,
        )  # fmt: skip
        top = pipeline.register(
            f"{name}_top", lambda reached, other: reached[top_bit] ^ other[top_bit], count, goal
        )
        below = pipeline.register(f"{name}_below", lambda a, b: a[1] | (b[1] & a[0]), less, same)
        borrows = pipeline.register(
            f"{name}_borrows", lambda a, b: a[3] | (b[3] & a[2]), less, same
        )
        passes = pipeline.register(f"{name}_passes", lambda b: b[3] & b[2], same)
        return pipeline.register(
            name, lambda top, borrows, passes, below: ~(top ^ (borrows | (passes & below))),
            top, borrows, passes, below,
        )  # fmt: skip

    def _elaborate_beat(self, m, beat, goes, fails, back):
        """Advance to the next beat, or go back to a beat that has failed its check.

        No beat is checked in the two cycles after a step back.
        """
        low, high = beat[:2], beat[2:]
        next_high = registered(m, successor(high), "next_high")
        m.d.sync += low.eq(Mux(fails, back[:2], low + goes))
        with m.If(fails | (goes & low.all())):
            m.d.sync += high.eq(Mux(fails, back[2:], next_high))

    def _elaborate_answer(self, m, pipeline, passes, record):
        """Return a flag that is set in the cycle before a valid result, and the result."""
        # The path from the shards takes two cycles.
        stage = passes.stage + self._results_latency
        results = pipeline.enter(self.results, "results", stage=stage).at(stage + 2)
        answer = Signal(self._answer)
        for lane in range(self._lanes):
            kept = pipeline.combine(
                f"kept{lane}", lambda lanes, lane=lane: lanes[lane], record.at(results.stage)
            )
            verdicts = [
                pipeline.combine(
                    f"verdict{shard}_{lane}",
                    lambda bits, at=shard * self._lanes + lane: bits.word_select(
                        at, self._verdict_bits
                    ),
                    results,
                )
                for shard in range(self._shards)
            ]
            chosen = pipeline.select(verdicts, kept["number"], f"verdict{lane}_")
            verdict, kept = chosen.value, kept.at(chosen.stage).value
            of_lane = answer.lanes[lane]
            m.d.sync += [
                of_lane.valid.eq(kept.valid),
                of_lane.tag.eq(kept.tag),
                of_lane.seen.eq((kept.asked & verdict[0]) | (kept.known & kept.query)),
                of_lane.age.eq(verdict[1:] & kept.asked.replicate(self._verdict_bits - 1)),
            ]
        return passes.at(chosen.stage), answer
