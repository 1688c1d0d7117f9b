"""Time-based window of a ring, which detects expired segments and old generations."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.ring.rotation import RotationPolicy
from ..latencies import STATUS_BITS, TICKS_WAITING
from ..memory.map import STRICT
from ..memory.protection import copy_names, vote
from ..parameters import require_integer, stamp_bits
from ..pipeline import registered


class TimeWindow(wiring.Component):
    """Stores the times of the segments of a time-limited ring, and advances time.

    `lately.golden.RotationPolicy` defines the rules. A segment is *live* while its last insertion
    is at most `span` ticks ago. The `run` youngest segments share the time of the last insertion.
    Every other segment is *settled*: its time no longer changes. All live segments are younger than
    all expired segments, so the number of live segments identifies them.

    A tick takes effect between two operations and uses no cycle. The segments that expire with the
    next tick are found in advance, and the tick waits for this search. An expired segment never
    becomes live again, so times that wrap around during a long gap have no effect. A tick that
    makes a generation old also waits until the spare is clean.
    """

    INPUTS = ("limit",)  # ports that are inputs of the core
    EVENTS = ("shortened", "overfilled")  # outputs that a unit counts
    SETTLE = 5  # cycles from a change until the next expiry is known
    MEMORY = memory.Memory  # type of the memory for the times of settled segments

    def __init__(
        self,
        policy,  # policy with a span; its generation length is not used
        *,
        time_bits=None,  # width of the tick counter, at least the width for comparisons
        stamped=False,  # whether a tick advances time to `target` instead of by one
        report_covered=False,  # whether the port `reported` exists
        copies=1,  # replicas of the times of settled segments; three replicas vote
        # whether these times have a synchronous read port, like a block RAM. Devices without LUT
        # memories need this port; otherwise synthesis would build multiplexers of registers.
        synchronous_read=False,
    ):
        run, generations, span = policy.writes, policy.settled, policy.span
        require_integer("Run", run, minimum=1)
        require_integer("Generations", generations, minimum=1)
        require_integer("Span", span, minimum=1)
        require_integer("Generation span", policy.generation_span, minimum=1 if stamped else 2)
        self._bits = stamp_bits(span)
        require_integer("Time bits", time_bits or self._bits, minimum=self._bits)
        self._run = run
        self._generations = generations
        self._span = span
        self._generation_span = policy.generation_span
        self._stamped = stamped
        self._synchronous = synchronous_read
        depth = 1 << generations.bit_length()
        # memories for the times of the settled segments
        self.times = [self.MEMORY(shape=self._bits, depth=depth, init=[]) for _ in range(copies)]
        time_bits = time_bits or self._bits
        # With a tick: the new time, and whether it is more than `span` ticks away. No operation may
        # be in flight until `idle`.
        ports = {"target": In(time_bits), "far": In(1)} if stamped else {}
        self._reports = report_covered
        if report_covered:
            fields = {
                "status": STATUS_BITS,  # code of a `lately.golden.PoolStatus`
                "time": time_bits,  # tick counter
                # Number of ticks, including the current one, whose keys are all still reported.
                "covered": range(span + 2),
            }
            # For the operation of three cycles ago, before it takes effect. The port `covered` may
            # be one cycle late.
            ports["reported"] = Out(data.StructLayout(fields))
        super().__init__(
            {
                # Advances time; up to `lately.hdl.latencies.TICKS_WAITING` ticks may wait.
                "tick": In(1),
                **ports,
                "idle": Out(1),  # no tick waits
                "insert": In(1),  # the operation inserts
                "turn": In(1),  # the operation shifts or clears the ring
                "clear": In(1),
                "beyond": In(1),  # the insertion exceeds the capacity of its generation
                "clean": In(1),  # whether the spare is clean
                "old": Out(1),  # the generation of this cycle's operation is old
                "out": Out(1),  # the oldest segment of the ring is live
                # Number of live settled segments, plus one, for the operation of the previous
                # cycle; 0 if no segment of the ring is live.
                "limit": Out(range(generations + 2)),
                "status": Out(STATUS_BITS),
                "time": Out(time_bits),
                "covered": Out(range(span + 2), init=span + 1),
                "shortened": Out(1),  # a live segment was retired
                "overfilled": Out(1),  # an insertion exceeded the capacity of its generation
                # A tick was lost in the previous cycle, because too many ticks waited.
                "tick_lost": Out(1),
            }
        )

    @property
    def report(self):
        """Result fields that the window provides. With `report_covered`, they are a cycle later."""
        names = ("status", "time", "covered") if self._reports else ("status", "time")
        source = self.reported if self._reports else self
        return {name: getattr(source, name) for name in names}

    def elaborate(self, platform):
        m = Module()
        # The insertion of the previous cycle takes effect in this cycle, before its tick.
        self._insert = registered(m, self.insert, "insert_before")
        self._turn = registered(m, self.turn & ~self.clear, "turn_before")
        self._clear = registered(m, self.clear, "clear_before")
        self._beyond = registered(m, self.beyond, "beyond_before")
        self._coming = Signal()
        self._tick = registered(m, self._coming, "tick_now")
        self._change = self._turn | self._tick | self._clear
        self._elaborate_times(m)
        self._elaborate_ring(m)
        self._elaborate_scan(m)
        self._elaborate_ticks(m)
        _report(m, self)
        return m

    def _elaborate_times(self, m):
        """Store times; find whether the generation will be old after the next tick."""
        self._now = Signal.like(self.time, name="now")
        self._target = Signal.like(self.time, name="target_time", init=0 if self._stamped else 1)
        self._far = Signal()
        with m.If(self._tick):
            m.d.sync += [self._now.eq(self._target), self._far.eq(0)]
        if self._stamped:
            with m.If(self.tick):
                m.d.sync += [self._target.eq(self.target), self._far.eq(self.far)]
        else:
            with m.If(self._tick):
                m.d.sync += self._target.eq(self._target + 1)
        # Whether the generation has insertions at all, from before this tick, and since this tick.
        self._begun = Signal()
        begun_before = Signal()
        self._inserted = Signal()
        self._last = Signal(self._bits)
        first = Signal(self._bits)
        aimed = self.tick if self._stamped else self._tick
        begun = (self._begun & ~self._turn | self._insert) & ~self._clear
        m.d.sync += [
            self._begun.eq(begun),
            begun_before.eq(Mux(aimed, begun, begun_before & ~(self._turn | self._clear))),
            self._inserted.eq((self._inserted | self._insert) & ~(aimed | self._clear)),
        ]
        with m.If(self._insert):
            m.d.sync += self._last.eq(self._now)
        with m.If(self._insert & (self._turn | ~self._begun)):
            m.d.sync += first.eq(self._now)
        self._ages = begun_before & self._expired(m, "first", first, self._generation_span - 1)

    def _expired(self, m, name, time, limit):
        """Return, two cycles later, whether `time` is more than `limit` ticks before the target."""
        age = registered(m, (self._target - time)[: self._bits], f"{name}_age")
        return registered(m, (age > limit) | self._far, f"{name}_expired")

    def _elaborate_ring(self, m):
        """Count the settled segments that are live, now and after the next tick."""
        self._young = Signal()
        self._settled = Signal(range(self._generations + 1))
        self._remaining = Signal.like(self._settled, name="remaining")
        self._drop = Signal()
        self._known = Signal()
        limit = self._generations
        expired = self._expired(m, "last", self._last, self._span)
        # The last insertion is checked again when its segment settles.
        young_then = self._young & (self._inserted | ~self._known | ~expired)

        def turned(count, young):
            more = Mux(count == limit, limit, count + 1)
            return Mux(self._turn, Mux(young, more, 0), count)

        remaining = turned(self._remaining, young_then)
        with m.If(self._clear):
            m.d.sync += [self._young.eq(0), self._settled.eq(0), self._remaining.eq(0)]
        with m.Else():
            m.d.sync += [
                self._young.eq(self._insert | Mux(self._tick, young_then, self._young)),
                self._settled.eq(Mux(self._tick, remaining, turned(self._settled, self._young))),
                self._remaining.eq(Mux(self._drop, self._remaining - 1, remaining)),
            ]
        m.d.comb += self.limit.eq(Mux(self._young, self._settled + 1, 0))
        # After a shift or clear, nothing uses `out` until the new state of the ring is known.
        passing = self._tick | self._coming
        m.d.sync += self.out.eq(Mux(passing, self._remaining == limit, self._settled == limit))

    def _elaborate_scan(self, m):
        """Check live settled segments, oldest first, until one outlives the next tick."""
        index = Signal(range(self.times[0].depth))
        address = Signal.like(index, name="address")
        answers = []
        for times, number in zip(self.times, copy_names(self.times), strict=True):
            m.submodules[f"times{number}"] = times
            write_port = times.write_port()
            read_port = times.read_port(domain="comb")
            m.d.comb += [
                write_port.en.eq(self._turn),
                write_port.addr.eq(index),
                write_port.data.eq(self._last),
                read_port.addr.eq(address),
            ]
            answer = read_port.data
            if self._synchronous:
                # No word is read while it is written. Synthesis detects this only at a port without
                # a clock, and then omits logic that would return the old word.
                answer = registered(m, answer, f"read_time{number}")
            answers.append(answer)
        with m.If(self._turn):
            m.d.sync += index.eq(index + 1)
        # Either the address or the word is registered.
        asked = m.d.comb if self._synchronous else m.d.sync
        asked += address.eq(index - Mux(self._turn, self._generations, self._remaining))
        self._oldest = vote(answers)
        value = registered(m, self._oldest, "oldest_time")
        expired = self._expired(m, "oldest", value, self._span)
        settling = Signal(self.SETTLE)
        settled = settling[-1]
        some = registered(m, self._remaining != 0, "some")
        drops = settled & expired & some
        m.d.comb += self._drop.eq(drops & ~self._change)
        restart = self._change | drops | (self.tick if self._stamped else 0)
        m.d.sync += [
            settling.eq(Mux(restart, 1, settling << 1)),
            self._known.eq((self._known | settled) & ~restart),
        ]

    def _elaborate_ticks(self, m):
        """Advance time as soon as the next expiry is known and the spare is clean."""
        waiting = Signal(range(TICKS_WAITING + 1))
        ages = Signal()
        # Computed one cycle ahead; only a change can revoke it.
        may = Signal()
        m.d.comb += [
            ages.eq(self._ages & ~self.old),
            self.idle.eq(waiting == 0),
            self._coming.eq(may & ~self._change),
        ]
        with m.If(self.tick & ~self._coming & (waiting != TICKS_WAITING)):
            m.d.sync += waiting.eq(waiting + 1)
        with m.If(~self.tick & self._coming):
            m.d.sync += waiting.eq(waiting - 1)
        ready = ~self.idle & self._known & ~self._change & ~self._coming
        m.d.sync += [
            self.tick_lost.eq(self.tick & ~self._coming & (waiting == TICKS_WAITING)),
            may.eq(ready & (self.clean | ~ages)),
            self.old.eq((self.old | (self._coming & self._ages)) & ~(self.turn | self.clear)),
        ]


def _report(m, window):
    """Drive the outputs that report covered ticks, shortened windows and overfull generations."""
    limit = window._generations
    retired = window._turn & (window._settled == window._generations)
    lost = Signal(window._bits)
    shortened = Signal()
    if window._stamped:
        expired = window._expired(m, "lost", lost, window._span)
    else:
        # The target is the next tick, and `covered` is the age of a tick.
        expired = registered(m, window.covered >= window._span, "lost_expired")
    kept = window._remaining == window._generations
    # Position of the youngest segment with too many keys among the settled segments; below 0
    # while this segment receives insertions.
    overfull = Signal(range(-window._run, limit + 1), init=limit)
    exceeded = window._young & (overfull < window._settled)
    m.d.sync += [
        shortened.eq(
            Mux(retired, ~window._tick | kept, shortened & ~(window._tick & expired))
            & ~window._clear
        ),
        window.status.eq(Mux(shortened, 1, Cat(0, exceeded))),
        window.time.eq(window._now),
        window.covered.eq(Mux(shortened, window._now - lost, window._span + 1)),
    ]
    with m.If(registered(m, retired, "retired")):
        m.d.sync += lost.eq(window._oldest)
    with m.If(window._clear):
        m.d.sync += overfull.eq(limit)
    with m.Elif(window._beyond):
        m.d.sync += overfull.eq(-window._run)
    with m.Elif(window._turn & (overfull != limit)):
        m.d.sync += overfull.eq(overfull + 1)
    m.d.comb += [window.shortened.eq(retired), window.overfilled.eq(window._beyond)]
    if window._reports:
        # Delayed by one cycle, until the loss is known.
        late, now = registered(m, shortened, "late"), window.time
        m.d.sync += [
            window.reported.status.eq(window.status),
            window.reported.time.eq(now),
            window.reported.covered.eq(Mux(late, (now - lost)[: window._bits], window._span + 1)),
        ]


def time_window(profile):
    options = profile.options
    return TimeWindow(
        RotationPolicy.of(profile.spec),
        time_bits=options.time_bits,
        stamped=options.ticks == "time",
        report_covered=options.report_covered,
        copies=profile.votes,
        synchronous_read=profile.memory.removesuffix(STRICT) == "ice40",
    )
