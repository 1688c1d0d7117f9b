"""Front ends of units: they accept operations, end generations and drive the control flags."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..interface import Operation, operation_bits
from ..latencies import GENERATION_LEAD, GENERATION_SAMPLE, PAUSE, SPARE_SETTLE
from ..parameters import require_integer
from ..pipeline import below, delayed, registered


class GenerationLength(wiring.Component):
    """Samples the generation length every `PERIOD` cycles, and reports lengths below `minimum`."""

    PERIOD = GENERATION_SAMPLE

    def __init__(self, *, width, minimum):
        require_integer("Width", width, minimum=1)
        require_integer("Minimum", minimum, minimum=1)
        self._minimum = minimum
        super().__init__(
            {
                "generation": In(width),  # insertions in a generation, at least 1
                # length of a generation that begins now. This is the value of the port between
                # `PERIOD` and ``2 * PERIOD`` cycles ago.
                "length": Out(width),
                "below": Out(1, init=1),  # whether `length` is below `minimum`
                # whether `length` is below `minimum`, or will be within `PERIOD` cycles
                "below_soon": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        phase = Signal(range(self.PERIOD))
        sample = Signal.like(self.generation)
        short = Signal(init=1)
        m.d.sync += [
            phase.eq(phase + 1),
            short.eq(below(sample, self._minimum)),
            self.below_soon.eq(short | self.below),
        ]
        with m.If(phase == self.PERIOD - 1):
            m.d.sync += [sample.eq(self.generation), self.length.eq(sample), self.below.eq(short)]
        return m


class GenerationCounter(wiring.Component):
    """Counts insertions and reports when a generation is full; one event per cycle.

    The count runs from minus the length to 0, so that its sign shows whether insertions are left.
    """

    def __init__(self, *, width, goes_on=False):
        require_integer("Width", width, minimum=1)
        super().__init__(
            {
                "length": In(width),  # insertions in the next generation
                # an insertion or another event; begins a generation if `full` is high
                "event": In(1),
                # the next event begins a generation without an insertion. Low in the cycle of an
                # event.
                "fill": In(1),
                "full": Out(1),  # the generation is full: the next event begins a new one
                "left": Out(signed(width + 1)),  # number of insertions left, negated
            }
            # Whether this event begins a generation.
            | ({"turn": In(1)} if goes_on else {})
        )

    def elaborate(self, platform):
        m = Module()
        # The event counts toward the next generation, unless it is not an insertion.
        m.d.comb += self.full.eq(~self.left[-1])
        start = Cat(~self.length, 1).as_signed()
        if "turn" in self.signature.members:
            counts, turns = self.event & (self.turn | ~self.full), self.turn
            # The decision arrives late, so it only selects one of two sums.
            begin = registered(m, (start + Mux(self.fill, 1, 2))[: len(self.left)], "begin")
            after = Mux(turns, begin.as_signed(), self.left + 1)
        else:
            counts, turns = self.event, self.full
            begins = turns & ~registered(m, self.fill, "filled")
            after = Mux(turns, start, self.left) + Cat(~begins, begins)
        with m.If(counts):
            m.d.sync += self.left.eq(after)
        with m.If(self.fill):
            m.d.sync += self.left.eq(0)
        return m


class SpareTimer(wiring.Component):
    """Reports that the spare is clean, `words` cycles after the last pulse of `start`."""

    def __init__(self, *, words):
        require_integer("Words", words, minimum=1)
        self._words = words
        # `clean` is low for `words` cycles, from the cycle after `start` or reset.
        super().__init__({"start": In(1), "clean": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Remaining cycles, minus one.
        left = Signal(signed(self._words.bit_length() + 1), init=self._words - 1)
        m.d.comb += self.clean.eq(left[-1])
        with m.If(self.start):
            m.d.sync += left.eq(self._words - 1)
        with m.Elif(~self.clean):
            m.d.sync += left.eq(left - 1)
        return m


_TIMED = {"old": In(1), "out": In(1), "beyond": Out(1)}


class Schedule(wiring.Component):
    """Ends generations that are full or old: the next insertion carries the shift.

    If `when_full` is None, a generation ends when it is full. If it is "shorten", a generation also
    ends when it is old and the oldest segment is outside the span. If it is "overfill", a full or
    old generation ends only when the oldest segment is outside the span. `one_at_a_time` is high
    during generations shorter than `minimum_generation`, because the spare may not yet be clean at
    the next shift.
    """

    def __init__(self, *, generation_bits, minimum_generation, clear_words, when_full=None):
        require_integer("Generation bits", generation_bits, minimum=1)
        self._when_full = when_full
        self.minimum_generation = minimum_generation
        self.length = GenerationLength(width=generation_bits, minimum=minimum_generation)
        self.counter = GenerationCounter(width=generation_bits, goes_on=when_full is not None)
        self._timer = SpareTimer(words=clear_words)
        super().__init__(
            {
                "generation": In(generation_bits),  # insertions in a generation, at least 1
                "event": In(1),  # an insertion, or a shift or clear after `fill`
                "fill": In(1),  # a shift or clear is waiting
                "clean": In(1, init=1),  # whether the store reports a clean spare
                "full": Out(1),  # the event shifts or clears the ring
                "turned": Out(1),  # the event in the previous cycle shifted or cleared the ring
                "spare_clean": Out(1),  # whether the spare is clean
                "one_at_a_time": Out(1, init=1),  # whether operations must enter one at a time
            }
            | (_TIMED if when_full else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.length = length = self.length
        m.submodules.counter = counter = self.counter
        m.submodules.timer = timer = self._timer
        m.d.comb += [
            length.generation.eq(self.generation),
            counter.length.eq(length.length),
            counter.event.eq(self.event),
            counter.fill.eq(self.fill),
            timer.start.eq(self.turned),
            self.full.eq(counter.full if self._when_full is None else self._elaborate_due(m)),
            self.spare_clean.eq(timer.clean & self.clean),
        ]
        # The current generation is too short, by the length at its start.
        short = Signal(init=1)
        m.d.sync += [
            self.turned.eq(self.event & self.full),
            self.one_at_a_time.eq(short | length.below | length.below_soon),
        ]
        with m.If(self.event & self.full):
            m.d.sync += short.eq(length.below)
        return m

    def _elaborate_due(self, m):
        full = self.counter.full
        m.d.comb += [
            self.counter.turn.eq(self.full),
            self.beyond.eq(self.event & full & ~self.full),
        ]
        if self._when_full == "shorten":
            return full | (self.old & ~self.out)
        forced = Signal()
        m.d.sync += forced.eq(self.fill | (forced & ~self.event))
        return forced | ((full | self.old) & ~self.out)


class Serializer(wiring.Component):
    """Holds operations that must wait, and signals when the gate may open again.

    A SHIFT or CLEAR is held until the spare is clean. After a CLEAR, and after every operation in
    short generations, the gate stays closed until the spare is clean again. After reset, the
    component releases a CLEAR without a result.
    """

    SETTLE = SPARE_SETTLE  # cycles until `clean` reflects earlier operations

    def __init__(self, *, start, check=False):
        require_integer("Start", start, minimum=1)
        self._start = start
        super().__init__(
            {
                # The gate closes. In two consecutive cycles, the second determines the operation.
                "arrive": In(1),
                "accepted": In(1),  # with `arrive`: an operation has just entered
                "operation": In(Operation),  # with `accepted`
                "one_at_a_time": In(1),  # whether operations enter one at a time
                "clean": In(1),  # whether the spare is clean
                "fill": Out(1),  # high while an operation that shifts or clears the ring is held
                # whether the held operation clears. Stable from `fill` to the next arrival.
                "clears": Out(1, init=1),
                "release": Out(1),  # the held operation takes effect, two cycles later
                "result": Out(1),  # with `release`: a result is due
                "turn": Out(1),  # with `release`: the operation shifts or clears the ring
                "open": Out(1),  # pulse: the gate may open
            }
            # A pulse of `open` is pending, or waits for the spare.
            | ({"opens": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        bits = operation_bits(self.operation)
        held = Signal(init=1)
        silent = Signal(init=1)
        turning = Signal(init=1)
        settled = Signal()
        settling = Signal(self.SETTLE)
        starting = Signal(self._start, init=1 << (self._start - 1))
        go = Signal()
        rests = Signal()
        m.d.sync += [
            starting.eq(starting >> 1),
            # A clear, and any held operation in short generations, keeps the gate closed until the
            # spare is clean.
            rests.eq(held & (self.clears | self.one_at_a_time)),
            settling.eq(
                Cat(
                    self.arrive | starting[0] | (go & rests),
                    settling & ~self.arrive.replicate(self.SETTLE),
                )
            ),
            settled.eq((settled | settling[-1]) & ~go),
            # A clear need not wait for the spare, because it restarts the clearing.
            go.eq(settled & (self.clean | (held & self.clears)) & ~go),
            self.release.eq(go & held),
            self.turn.eq(go & held & turning),
            self.result.eq(go & held & ~silent),
            self.open.eq(go & ~rests),
            self.fill.eq(held & turning),
        ]
        if "opens" in self.signature.members:
            m.d.comb += self.opens.eq(starting.any() | settling.any() | settled | go | self.open)
        with m.If(self.arrive):
            m.d.sync += [
                held.eq(self.accepted & bits.alone),
                # SHIFT has neither low bit, and CLEAR has the bit `query`.
                turning.eq(~bits.insert),
                self.clears.eq(bits.query & ~bits.insert),
            ]
        with m.Elif(go):
            m.d.sync += [held.eq(0), silent.eq(0)]
        return m


class Gate(wiring.Component):
    """Accepts operations while there are credits; some operations enter one at a time.

    Accepted operations never stall the pipeline: an operation that may have to wait closes the
    gate, and a `Serializer` holds it. The outputs follow `LATENCY` cycles after the operation
    unless the operation waits.
    """

    LATENCY = 2

    def __init__(self, *, start, check=False):
        self._serializer = Serializer(start=start, check=check)
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "credit": In(1),  # whether operations may be accepted two cycles later
                "one_at_a_time": In(1),  # whether every operation must enter alone
                "clean": In(1),  # whether the spare is clean
                "fill": Out(1),  # high while a held operation shifts or clears the ring
                "valid": Out(1),  # a result is due
                "query": Out(1),
                "insert": Out(1),
                "event": Out(1),  # the operation inserts, or shifts or clears the ring
                "clears": Out(1),
            }
            # In the previous cycle an operation was lost or duplicated, or the gate could not open.
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.serializer = serializer = self._serializer
        accepted, operation, alone, closed = self._elaborate_acceptance(m, serializer.open)
        bits = operation_bits(operation)
        flows = accepted & ~bits.alone
        m.d.sync += [
            self.valid.eq(flows | serializer.result),
            self.query.eq(flows & bits.query),
            self.insert.eq(flows & bits.insert),
            self.event.eq((flows & bits.insert) | serializer.turn),
            self.clears.eq(serializer.turn & serializer.clears),
        ]
        m.d.comb += [
            serializer.arrive.eq(alone),
            serializer.accepted.eq(accepted),
            serializer.operation.eq(operation),
            serializer.one_at_a_time.eq(self.one_at_a_time),
            serializer.clean.eq(self.clean),
            self.fill.eq(serializer.fill),
        ]
        if "illegal" in self.signature.members:
            self._elaborate_check(m, closed, alone)
        return m

    def _elaborate_check(self, m, closed, alone):
        serializer = self._serializer
        # Operations that have entered and not left: at most 2.
        inside = Signal(2)
        m.d.sync += inside.eq(inside + (self.i.valid & self.i.ready) - self.valid)
        # A held operation leaves when the gate opens; no other operation can be inside so soon.
        left = delayed(m, serializer.open, 2, "opened") & inside.any()
        # Otherwise only operations of the last two cycles are inside.
        entered = [self.i.valid & self.i.ready]
        was_closed = [closed]
        for clock in range(self.LATENCY):
            entered.append(registered(m, entered[-1], f"entered{clock}"))
            was_closed.append(registered(m, was_closed[-1], f"was_closed{clock}"))
        late = ~Cat(was_closed).any() & (inside != sum(entered[1:]))
        stuck = closed & ~alone & ~serializer.opens
        m.d.comb += self.illegal.eq(registered(m, Cat(left, late, stuck), "apart").any())

    def _elaborate_acceptance(self, m, reopen):
        """Accept operations; return `accepted`, `operation`, `alone` and `closed`.

        `accepted` is high if `operation` entered in the previous cycle, `alone` is high when the
        gate closes, and `closed` is high while the gate is closed.
        """
        ready = Signal()
        allowed = Signal()
        closed = Signal(init=1)
        accepted = Signal()
        alone = Signal()
        operation = Signal(Operation)
        held = operation_bits(self.i.p).alone
        single = self.one_at_a_time
        m.d.comb += self.i.ready.eq(ready)
        m.d.sync += [
            ready.eq(allowed & ~alone & ~(self.i.valid & ready & held)),
            # One at a time: the gate opens for one cycle, even without an operation.
            allowed.eq(self.credit & ~alone & ~closed & ~(single & (allowed | ready))),
            alone.eq(ready & (single | (self.i.valid & held))),
            closed.eq(alone | (closed & ~reopen)),
            accepted.eq(self.i.valid & ready),
            operation.eq(self.i.p),
        ]
        # When short generations begin, the gate may be open for two cycles. That is soon enough.
        return accepted, operation, alone, closed


class FrontEnd(wiring.Component):
    """Front end of a ring: converts one operation per cycle into control flags of the core.

    The first insertion of a generation carries the shift. A SHIFT waits until the spare is clean. A
    CLEAR closes the gate until the memory is clean. While generations are shorter than
    `minimum_generation`, operations enter one at a time; in longer generations, insertions never
    wait. Operations that do not wait take `LATENCY` cycles from `i` to `control`.
    """

    LATENCY = Gate.LATENCY + 1
    LEAD = GENERATION_LEAD
    PAUSE = PAUSE

    def __init__(
        self,
        *,
        generation_bits,
        minimum_generation,
        clear_words,
        window=None,
        when_full=None,
        check=False,
    ):
        self.clock = self.window = window
        self.schedule = Schedule(
            generation_bits=generation_bits,
            minimum_generation=minimum_generation,
            clear_words=clear_words,
            when_full=when_full,
        )
        self.gate = Gate(start=self.LEAD + 2, check=check)
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "credit": In(1),  # whether operations may be accepted two cycles later
                "clean": In(1, init=1),  # whether the spare is clean
                # insertions in a generation, at least 1. A change applies to generations that begin
                # with an operation accepted at least `LEAD` cycles later.
                "generation": In(generation_bits),
                "adopt": In(1),  # whether a shift or clear activates a pending secret
                "turned": Out(1),  # whether `control` contains a shift or clear
                "control": Out(Control),
            }
            # `TimeWindow.limit`, valid with `control`.
            | ({"limit": Out(len(window.limit))} if window else {})
            # `illegal`: see `Gate`
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = self.gate
        m.submodules.schedule = schedule = self.schedule
        wiring.connect(m, wiring.flipped(self.i), gate.i)
        m.d.comb += [
            gate.credit.eq(self.credit),
            gate.one_at_a_time.eq(schedule.one_at_a_time),
            gate.clean.eq(schedule.spare_clean),
            schedule.generation.eq(self.generation),
            schedule.event.eq(gate.event),
            schedule.fill.eq(gate.fill),
            schedule.clean.eq(self.clean),
            self.turned.eq(schedule.turned),
        ]
        m.d.sync += [
            self.control.valid.eq(gate.valid),
            self.control.query.eq(gate.query),
            self.control.insert.eq(gate.insert),
            self.control.shift.eq(gate.event & schedule.full & ~gate.clears),
            self.control.clear.eq(gate.clears),
            self.control.adopt.eq(self.adopt),
        ]
        if self.window is not None:
            self._elaborate_window(m)
        if "illegal" in self.signature.members:
            m.d.comb += self.illegal.eq(gate.illegal)
        return m

    def _elaborate_window(self, m):
        window, gate, schedule = self.window, self.gate, self.schedule
        m.submodules.window = window
        m.d.comb += [
            window.insert.eq(gate.insert),
            window.turn.eq(gate.event & schedule.full),
            window.clear.eq(gate.clears),
            window.beyond.eq(schedule.beyond),
            window.clean.eq(schedule.spare_clean),
            schedule.old.eq(window.old),
            schedule.out.eq(window.out),
            self.limit.eq(window.limit),
        ]


class PlainFrontEnd(wiring.Component):
    """Front end of a core without generations: a gate and a source of ticks.

    A SHIFT has no effect. After a CLEAR or reset, the gate is closed until the memory is clean.
    """

    LATENCY = Gate.LATENCY + 1

    def __init__(
        self,
        *,
        # source of ticks. It has the ports ``control``, the flags of the core, and ``shift``,
        # whether the flags of the next cycle include a tick. The ports named in ``INPUTS`` are
        # ports of the front end; the unit drives the others.
        clock=None,
        check=False,
    ):
        self.clock = clock
        self.gate = Gate(start=SPARE_SETTLE + 1, check=check)
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "credit": In(1),
                "clean": In(1, init=1),
                "control": Out(Control),
            }
            | {name: Out(len(getattr(clock, name))) for name in getattr(clock, "INPUTS", ())}
            # `illegal`: see `Gate`
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = self.gate
        wiring.connect(m, wiring.flipped(self.i), gate.i)
        m.d.comb += [gate.credit.eq(self.credit), gate.clean.eq(self.clean)]
        m.d.sync += [
            self.control.valid.eq(gate.valid),
            self.control.query.eq(gate.query),
            self.control.insert.eq(gate.insert),
            self.control.clear.eq(gate.clears),
        ]
        if self.clock is not None:
            m.submodules.clock = clock = self.clock
            m.d.comb += clock.control.eq(self.control)
            m.d.comb += [getattr(self, name).eq(getattr(clock, name)) for name in clock.INPUTS]
            m.d.sync += self.control.shift.eq(clock.shift)
        if "illegal" in self.signature.members:
            m.d.comb += self.illegal.eq(gate.illegal)
        return m
