"""Front end of a filter: decides when the ring turns and when an operation must wait."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..interface import Operation, operation_bits
from ..profile import (
    END_EIGHTHS,
    FAN_IN,
    GENERATION_LEAD,
    PAUSE,
    SHIFT_PAUSE,
    SPARE_SETTLE,
    WATCHED_GENERATION,
    ceil_log,
)


class GenerationLength(wiring.Component):
    """Prepares a generation length for `GenerationCounter` to load.

    Members
    -------
    generation : In(width)
        Insertions in a generation, at least 1.
    whole : In(1)
        Whether the counter is to load the length, not one less: for a
        generation that begins without an insertion.
    low : Out(8)
        Count to load modulo 8, one-hot.
    high : Out(width - 3)
        Count to load divided by 8, one clock after the rest.
    high_zero, zero, one : Out(1)
        Whether `high` is 0, and the whole count 0 or 1.
    below, below_early : Out(1)
        Whether the length is below `minimum`; early by as many clocks as
        one-at-a-time operation needs to set in before the length can be loaded.
    below_since : Out(1)
        Whether the length of `below`, or any between it and that of `below_early`,
        is below `minimum`: a length may be there for a single clock.
    """

    LOW_BITS = 3

    def __init__(self, *, width, minimum):
        self._width = max(width, self.LOW_BITS + 1)
        self._minimum = minimum
        # A clock to register, one to compare each group of bits, then two groups at a time.
        self._comparison = 2 + ceil_log(2, -(-self._width // FAN_IN))
        self.latency = self._comparison + 6
        """Clocks from `generation` and `whole` to what is loaded."""
        super().__init__(
            {
                "generation": In(width),
                "whole": In(1),
                "low": Out(1 << self.LOW_BITS),
                "high": Out(self._width - self.LOW_BITS),
                "high_zero": Out(1),
                "zero": Out(1),
                "one": Out(1),
                "below": Out(1),
                "below_early": Out(1),
                "below_since": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        length = self._delay(m, self.generation, 1)
        ahead = self._delay(m, length, self._comparison - 2)
        whole = self._delay(m, ahead, 3)
        less_one = self._less_one(m, ahead)
        count = self._delay(m, Mux(self.whole, whole, less_one), 1)
        low = count[: self.LOW_BITS]
        high = count[self.LOW_BITS :]
        groups = [high[at : at + FAN_IN] for at in range(0, len(high), FAN_IN)]
        any_high = self._delay(m, self._delay(m, Cat(g.any() for g in groups), 1).any(), 1)
        one_hot = Cat(low == position for position in range(1 << self.LOW_BITS))
        below = [self._below(m, length)]
        for _ in range(6):
            below.append(self._delay(m, below[-1], 1))
        young, old = Signal(), Signal()
        m.d.sync += [
            young.eq(Cat(below[:4]).any()),
            old.eq(below[4] | below[5]),
            self.zero.eq(self._delay(m, low == 0, 2) & ~any_high),
            self.one.eq(self._delay(m, low == 1, 2) & ~any_high),
            self.high_zero.eq(~any_high),
        ]
        m.d.comb += [
            self.low.eq(self._delay(m, one_hot, 3)),
            self.high.eq(self._delay(m, high, 4)),
            self.below_early.eq(below[0]),
            self.below_since.eq(young | old),
            self.below.eq(below[6]),
        ]
        return m

    def _less_one(self, m, length):
        """Return a length less one, three clocks later: a digit borrows if all below are zero."""
        digits = [length[at : at + FAN_IN - 1] for at in range(0, len(length), FAN_IN - 1)]
        zero = self._delay(m, Cat(digit == 0 for digit in digits), 1)
        borrow = self._delay(m, Cat(zero[:number].all() for number in range(len(digits))), 1)
        late = [self._delay(m, digit, 2) for digit in digits]
        return self._delay(m, Cat((d - b)[: len(d)] for d, b in zip(late, borrow, strict=True)), 1)

    def _below(self, m, length):
        """Return whether a length is below the minimum, compared four bits at a time."""
        if self._minimum >> len(length):
            return self._delay(m, Const(1), self._comparison - 1)
        parts = []
        for at in range(0, len(length), FAN_IN):
            bits = length[at : at + FAN_IN]
            limit = self._minimum >> at & ((1 << len(bits)) - 1)
            parts.append((self._delay(m, bits < limit, 1), self._delay(m, bits == limit, 1)))
        while len(parts) > 1:
            if len(parts) % 2:
                parts.append((Const(0, 1), Const(1, 1)))
            parts = [
                (
                    self._delay(m, high_less | (high_same & low_less), 1),
                    self._delay(m, high_same & low_same, 1),
                )
                for (low_less, low_same), (high_less, high_same) in zip(
                    parts[::2], parts[1::2], strict=True
                )
            ]
        return parts[0][0]

    def _delay(self, m, value, clocks):
        value = Value.cast(value)
        for _ in range(clocks):
            delayed = Signal(len(value))
            m.d.sync += delayed.eq(value)
            value = delayed
        return value


class GenerationCounter(wiring.Component):
    """Tells when a generation is full, one event per clock, one look-up table deep.

    Counts the insertions that are left. The count modulo 8 turns in a one-hot
    ring, so that no bit waits for a carry. What is beyond it changes once in
    eight events at most, and has that long to be counted and compared.

    Parameters
    ----------
    high_bits : int
        Bits of the count beyond its lowest three.

    Members
    -------
    length : In(GenerationLength's outputs)
    event : In(1)
        An insertion, or whatever else begins a generation when `full`.
    fill : In(1)
        Makes the next event begin a generation; not together with an event,
        nor within eight clocks of one.
    full : Out(1)
        Whether no insertion is left: the next event begins a generation.
    left : Out(8)
        Insertions that are left modulo 8, one-hot.
    """

    def __init__(self, *, high_bits):
        self._high_bits = high_bits
        super().__init__(
            {
                "low": In(1 << GenerationLength.LOW_BITS),
                "high": In(high_bits),
                "high_zero": In(1),
                "zero": In(1),
                "one": In(1),
                "event": In(1),
                "fill": In(1),
                "full": Out(1, init=1),
                "left": Out(1 << GenerationLength.LOW_BITS, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = self.left
        high_zero = Signal()
        almost = Signal()
        with m.If(self.event):
            m.d.sync += [
                left.eq(Mux(self.full, self.low, left.rotate_right(1))),
                almost.eq(Mux(self.full, self.one, left[2] & high_zero)),
                self.full.eq(Mux(self.full, self.zero, almost)),
            ]
        with m.If(self.fill):
            m.d.sync += self.full.eq(1)

        turns = self.event & self.full
        last = self._elaborate_high(m, turns, self.event & ~self.full & left[0])
        with m.If(turns):
            m.d.sync += high_zero.eq(self.high_zero)
        with m.Elif(last):
            m.d.sync += high_zero.eq(1)
        return m

    def _elaborate_high(self, m, turns, wraps):
        """Count the wraps of the low digit; return when they are as many as were loaded."""
        turned = Signal()
        wrapped = Signal()
        target = Signal(self._high_bits)
        wraps_seen = Signal(self._high_bits)
        m.d.sync += [turned.eq(turns), wrapped.eq(wraps)]
        with m.If(turned):
            m.d.sync += [target.eq(self.high), wraps_seen.eq(0)]
        with m.Elif(wrapped):
            m.d.sync += wraps_seen.eq(wraps_seen + 1)

        terms = [
            target[at : at + 2] == wraps_seen[at : at + 2] for at in range(0, self._high_bits, 2)
        ]
        stage = 0
        while len(terms) > 1 or stage == 0:
            same = Signal(len(terms), name=f"same{stage}")
            m.d.sync += same.eq(Cat(terms))
            terms = [same[at : at + FAN_IN].all() for at in range(0, len(same), FAN_IN)]
            stage += 1
        equal = Signal()
        # A match counts with the wrap that made it, not when a new target happens to match.
        after_wrap = Signal(stage + 2)
        m.d.sync += [equal.eq(terms[0]), after_wrap.eq(Cat(wrapped, after_wrap))]
        return equal & after_wrap[-1]


class SpareTimer(wiring.Component):
    """Tells whether the spare is clean: `words` clocks after the last start, or a few more.

    Members
    -------
    start : In(1)
    clean : Out(1)
        Low from the clock after `start` on, for `words` clocks and `lag` more.
    """

    DIGIT = 3

    def __init__(self, *, words):
        self._bits = (words - 1).bit_length()
        # Each digit after the first adds the clock of its carry.
        self.lag = -(-self._bits // self.DIGIT)
        super().__init__({"start": In(1), "clean": Out(1)})

    def elaborate(self, platform):
        m = Module()
        carry = 1
        for low in range(0, self._bits, self.DIGIT):
            digit = Signal(min(self.DIGIT, self._bits - low), name=f"digit{low}")
            carried = Signal(name=f"carry{low}")
            m.d.sync += Cat(digit, carried).eq(digit + carry)
            with m.If(self.start):
                m.d.sync += Cat(digit, carried).eq(0)
            carry = carried
        m.d.sync += self.clean.eq((self.clean | carry) & ~self.start)
        return m


class Approach(wiring.Component):
    """Tells that the generation is near its end, for a spare that is not clean at a fixed time.

    Counts in eights, with a prescaler that knows nothing of the lowest digit.

    Members
    -------
    high : In(width)
        Insertions of the generation that begins, less one at most, divided by 8; at least
        ``AHEAD + 1``. With `turned`.
    turned, event : In(1)
        A generation has begun; an insertion, a clock earlier.
    near : Out(1)
        From `lag` clocks at most after the event that leaves ``8 * AHEAD`` to ``8 * AHEAD + 7``
        insertions, until `turned`.
    """

    AHEAD = END_EIGHTHS
    MINIMUM = WATCHED_GENERATION
    """Shortest generation of which the end is told."""

    def __init__(self, *, width):
        self._width = width
        self._digits = range(0, width, FAN_IN)
        self.lag = 4 + len(self._digits)
        # Operations from that of the event to the last before the gate is closed.
        assert self.lag + 3 <= 8 * self.AHEAD
        super().__init__({"high": In(width), "turned": In(1), "event": In(1), "near": Out(1)})

    def elaborate(self, platform):
        m = Module()
        counted = Signal()
        eighths = Signal(3)
        step = Signal()
        stepped = Signal(1 + len(self._digits))
        rest = Signal(self._width)
        same = Signal(len(self._digits))
        m.d.sync += [
            counted.eq(self.event),
            Cat(eighths, step).eq(eighths + counted),
            stepped.eq(Cat(step, stepped)),
            self.near.eq(self.near | (stepped[-1] & same.all())),
        ]
        borrow = step
        for index, low in enumerate(self._digits):
            digit = rest[low : low + FAN_IN]
            borrowed = Signal(name=f"borrowed{low}")
            m.d.sync += [
                Cat(digit, borrowed).eq(digit - borrow),
                same[index].eq(digit == (self.AHEAD >> low & ((1 << FAN_IN) - 1))),
            ]
            with m.If(self.turned):
                m.d.sync += borrowed.eq(0)
            borrow = borrowed
        with m.If(self.turned):
            m.d.sync += [
                eighths.eq(0),
                step.eq(0),
                stepped.eq(0),
                rest.eq(self.high),
                self.near.eq(0),
            ]
        return m


class Held(wiring.Component):
    """Takes in the operations that cannot simply flow, and says when the gate may open again.

    Such an operation comes alone: the gate closes behind it. A SHIFT or
    CLEAR is held until the spare is clean and then released. After a CLEAR,
    and after anything in short generations, the gate stays closed until the
    spare is clean again.

    After reset a CLEAR is released, for which no result is due.

    Parameters
    ----------
    start : int
        Clocks from reset to the first CLEAR.

    Members
    -------
    arrive : In(1)
        The gate closes. In two clocks running, what came in before the second counts.
    accepted, operation : In
        With `arrive`: whether an operation came in last, and which.
    short : In(1)
        Whether operations come one at a time.
    clean : In(1)
        Whether the spare is clean.
    fill : Out(1)
        While an operation is held that turns the ring.
    clears : Out(1)
        Whether it clears. Steady from `fill` to the next arrival.
    release : Out(1)
        The held operation takes effect, two clocks later.
    result : Out(1)
        With `release`: a result is due.
    turn : Out(1)
        With `release`: the operation turns the ring.
    open : Out(1)
        Pulse: the gate may open.
    """

    SETTLE = SPARE_SETTLE
    """Clocks until what went before has had its effect on `clean`."""

    def __init__(self, *, start):
        self._start = start
        super().__init__(
            {
                "arrive": In(1),
                "accepted": In(1),
                "operation": In(Operation),
                "short": In(1),
                "clean": In(1),
                "fill": Out(1),
                "clears": Out(1, init=1),
                "release": Out(1),
                "result": Out(1),
                "turn": Out(1),
                "open": Out(1),
            }
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
            # An operation that clears, and any held one in short generations, rests afterwards
            # until the spare is clean.
            rests.eq(held & (self.clears | self.short)),
            settling.eq(
                Cat(
                    self.arrive | starting[0] | (go & rests),
                    settling & ~self.arrive.replicate(self.SETTLE),
                )
            ),
            settled.eq((settled | settling[-1]) & ~go),
            # A clear need not wait for the spare: it starts anew.
            go.eq(settled & (self.clean | (held & self.clears)) & ~go),
            self.release.eq(go & held),
            self.turn.eq(go & held & turning),
            self.result.eq(go & held & ~silent),
            self.open.eq(go & ~rests),
            self.fill.eq(held & turning),
        ]
        with m.If(self.arrive):
            m.d.sync += [
                held.eq(self.accepted & bits.alone),
                # SHIFT has neither of the lower bits, CLEAR one, and nothing else turns the ring.
                turning.eq(~bits.insert),
                self.clears.eq(bits.query & ~bits.insert),
            ]
        with m.Elif(go):
            m.d.sync += [held.eq(0), silent.eq(0)]
        return m


class Issue(wiring.Component):
    """Turns operations into the control flags of the core, one per clock.

    Counts the insertions of the generation, and lets the first insertion of
    the next one carry the shift. Nothing that was accepted ever stalls: an
    operation that may have to wait closes the gate behind itself and is taken
    out of the way until its time has come. Those are SHIFT, which waits until
    the spare is clean, and CLEAR, after which the gate stays closed until all
    is clear; and every operation while generations are shorter than
    `minimum_generation`, when they are let in one at a time, each with a
    clean spare. At longer generations insertions never wait.

    Latency `LATENCY` clocks from acceptance on `i` to `control`, for all but
    SHIFT and CLEAR. A SHIFT keeps `i.ready` low for `SHIFT_PAUSE` clocks if the
    spare is clean; otherwise, as a CLEAR, until `PAUSE` clocks at most after it is.

    Parameters
    ----------
    generation_bits : int
        Width of the generation length.
    minimum_generation : int
        Shortest generation within which the spare is cleaned in time.
    clear_words : int
        Clocks that clearing takes; after them it is as `clean` says.
    watches : bool
        Whether clearing may take longer. If so, operations come one at a time too where the
        generation ends soon and the spare is not clean, and `minimum_generation` is at least
        ``Approach.MINIMUM``.

    Members
    -------
    i : In(stream.Signature(Operation))
    room : In(1)
        Whether operations may be accepted two clocks from now.
    clean : In(1)
        Whether the spare is clean.
    generation : In(generation_bits)
        Insertions in a generation, at least 1. A generation that begins with an operation which
        is accepted `LEAD` clocks after a change, or later, has the new length.
    adopt : In(1)
        Whether a shift or clear brings in a secret that waits.
    turned : Out(1)
        Whether `control` has a shift or clear.
    control : Out(Control)
    """

    LATENCY = 3
    LEAD = GENERATION_LEAD
    SHIFT_PAUSE = SHIFT_PAUSE
    PAUSE = PAUSE

    def __init__(self, *, generation_bits, minimum_generation, clear_words, watches=False):
        self._watches = watches
        if watches:
            minimum_generation = max(minimum_generation, Approach.MINIMUM)
        self.minimum_generation = minimum_generation
        self._length = GenerationLength(width=generation_bits, minimum=minimum_generation)
        assert self._length.latency - 2 <= self.LEAD
        self._clear_words = clear_words
        self.counter = GenerationCounter(high_bits=len(self._length.high))
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "room": In(1),
                "clean": In(1, init=1),
                "generation": In(generation_bits),
                "adopt": In(1),
                "turned": Out(1),
                "control": Out(Control),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.length = length = self._length
        m.submodules.counter = counter = self.counter
        m.submodules.timer = timer = SpareTimer(words=self._clear_words)
        m.submodules.held = held = Held(start=length.latency + 2)
        event = Signal()
        clean = Signal()
        m.d.comb += clean.eq(timer.clean & self.clean)
        near = self._elaborate_approach(m, length, self.turned, event)
        short = self._elaborate_short(m, length, self.turned, near & ~clean)
        accepted, operation, alone = self._elaborate_gate(m, short, held.open)

        bits = operation_bits(operation)
        flows = accepted & ~bits.alone
        decoded = Signal(Control)
        clears = Signal()
        m.d.sync += [
            self.turned.eq(event & counter.full),
            decoded.valid.eq(flows | held.result),
            decoded.query.eq(flows & bits.query),
            decoded.insert.eq(flows & bits.insert),
            event.eq((flows & bits.insert) | held.turn),
            clears.eq(held.turn & held.clears),
            self.control.valid.eq(decoded.valid),
            self.control.query.eq(decoded.query),
            self.control.insert.eq(decoded.insert),
            self.control.shift.eq(event & counter.full & ~clears),
            self.control.clear.eq(clears),
            self.control.adopt.eq(self.adopt),
        ]
        m.d.comb += [
            length.generation.eq(self.generation),
            length.whole.eq(held.fill),
            counter.low.eq(length.low),
            counter.high.eq(length.high),
            counter.high_zero.eq(length.high_zero),
            counter.zero.eq(length.zero),
            counter.one.eq(length.one),
            counter.event.eq(event),
            counter.fill.eq(held.fill),
            timer.start.eq(self.turned),
            held.arrive.eq(alone),
            held.accepted.eq(accepted),
            held.operation.eq(operation),
            held.short.eq(short),
            held.clean.eq(clean),
        ]
        return m

    def _elaborate_approach(self, m, length, turned, event):
        """Return whether the generation ends soon, if that matters."""
        if not self._watches:
            return Const(0, 1)
        m.submodules.approach = approach = Approach(width=len(length.high))
        m.d.comb += [
            approach.high.eq(length.high),
            approach.turned.eq(turned),
            approach.event.eq(event),
        ]
        return approach.near

    def _elaborate_short(self, m, length, turned, soon):
        """Return whether a shift could come too soon: in this generation, the next, or now."""
        # That of the generation that runs: loaded with its length.
        current = Signal(init=1)
        short = Signal(init=1)
        below = Signal()
        m.d.sync += below.eq(length.below)
        with m.If(turned):
            m.d.sync += current.eq(below)
        m.d.sync += short.eq(current | length.below_since | length.below_early | soon)
        return short

    def _elaborate_gate(self, m, short, reopen):
        """Return what was accepted: whether, which operation, and whether the gate has closed."""
        ready = Signal()
        allowed = Signal()
        closed = Signal(init=1)
        accepted = Signal()
        alone = Signal()
        operation = Signal(Operation)
        held = operation_bits(self.i.p).alone
        m.d.comb += self.i.ready.eq(ready)
        m.d.sync += [
            ready.eq(allowed & ~alone & ~(self.i.valid & ready & held)),
            # In short generations the gate opens for one clock, whether an operation comes or not.
            allowed.eq(self.room & ~alone & ~closed & ~(short & (allowed | ready))),
            alone.eq(ready & (short | (self.i.valid & held))),
            closed.eq(alone | (closed & ~reopen)),
            accepted.eq(self.i.valid & ready),
            operation.eq(self.i.p),
        ]
        # Where short generations begin the gate may be open for two clocks, which is soon enough.
        return accepted, operation, alone
