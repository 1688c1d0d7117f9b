"""When the ring turns: generations end by count, and the spare must be clean by then."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer
from ..pipeline import Pipeline, registered
from ..profile import END_EIGHTHS, FAN_IN, WATCHED_GENERATION, ceil_log


class GenerationLength(wiring.Component):
    """Prepares a generation length for `GenerationCounter` to load.

    Parameters
    ----------
    width : int
        Bits of a length.
    minimum : int
        Length below which operations come one at a time.

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

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    LOW_BITS = 3

    LEAD = 6
    """Cycles from `below_early` until the length can be loaded."""

    def __init__(self, *, width, minimum):
        require_integer("Width", width, least=1)
        require_integer("Minimum", minimum, least=1)
        self._width = max(width, self.LOW_BITS + 1)
        self._minimum = minimum
        # A cycle to register, one to compare each group of bits, then two groups at a time.
        self._comparison = 2 + ceil_log(2, -(-self._width // FAN_IN))
        self.latency = self._comparison + self.LEAD
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
        pipe = Pipeline(m)
        length = pipe.enter(self.generation, "generation").at(1)
        below = self._below(pipe, length)
        less_one = self._less_one(pipe, length.at(below.stage - 1))
        whole = pipe.enter(self.whole, "whole", stage=less_one.stage)
        count = pipe.register("count", Mux, whole, length.at(whole.stage), less_one)
        low, high = count[: self.LOW_BITS], count[self.LOW_BITS :]
        groups = pipe.register(
            "high_groups",
            lambda high: Cat(high[at : at + FAN_IN].any() for at in range(0, len(high), FAN_IN)),
            high,
        )
        any_high = pipe.register("any_high", lambda groups: groups.any(), groups)
        outputs = {
            "low": pipe.combine(
                "low", lambda low: Cat(low == at for at in range(1 << self.LOW_BITS)), low
            ).at(self.latency),
            "high_zero": pipe.register("high_zero_out", lambda some: ~some, any_high),
        }
        for number, name in enumerate(("zero", "one")):
            same = pipe.combine(f"low_{name}", lambda low, number=number: low == number, low)
            outputs[name] = pipe.register(
                f"{name}_out", lambda same, some: same & ~some, same, any_high
            )
        pipe.leave(*outputs.values(), latency=self.latency)
        outputs |= {"high": high.at(self.latency + 1), "below_early": below}
        outputs["below"] = below.at(below.stage + self.LEAD)
        m.d.comb += [getattr(self, name).eq(output.value) for name, output in outputs.items()]
        # Of the cycles since `below_early`, in two groups.
        since = [below.at(below.stage + age).value for age in range(self.LEAD)]
        young, old = Signal(), Signal()
        m.d.sync += [young.eq(Cat(since[:FAN_IN]).any()), old.eq(Cat(since[FAN_IN:]).any())]
        m.d.comb += self.below_since.eq(young | old)
        return m

    def _less_one(self, pipe, length):
        """Return a length less one: a digit borrows if all below are zero."""
        digits = range(0, len(length), FAN_IN - 1)
        zero = pipe.register(
            "digits_zero",
            lambda bits: Cat(bits[at : at + FAN_IN - 1] == 0 for at in digits),
            length,
        )
        borrow = pipe.register(
            "borrow", lambda zero: Cat(zero[:number].all() for number in range(len(zero))), zero
        )
        return pipe.register(
            "less_one",
            lambda bits, borrow: Cat(
                (digit - borrow[number])[: len(digit)]
                for number, digit in enumerate(bits[at : at + FAN_IN - 1] for at in digits)
            ),
            length,
            borrow,
        )

    def _below(self, pipe, length):
        """Return whether a length is below the minimum, compared four bits at a time."""
        if self._minimum >> len(length):
            return pipe.enter(Const(1), "below", stage=length.stage).at(self._comparison)
        parts = []
        for at in range(0, len(length), FAN_IN):
            bits = length[at : at + FAN_IN]
            limit = self._minimum >> at & ((1 << len(bits)) - 1)
            parts.append(
                (
                    pipe.register(f"less{at}", lambda bits, limit=limit: bits < limit, bits),
                    pipe.register(f"same{at}", lambda bits, limit=limit: bits == limit, bits),
                )
            )
        none = pipe.enter(Const(0, 1), "none", stage=None)
        while len(parts) > 1:
            if len(parts) % 2:
                parts.append((none, ~none))
            parts = [
                (
                    pipe.register(f"less_{size}", Value.__or__, high_less, high_same & low_less),
                    pipe.register(f"same_{size}", Value.__and__, high_same, low_same),
                )
                for size, ((low_less, low_same), (high_less, high_same)) in enumerate(
                    zip(parts[::2], parts[1::2], strict=True)
                )
            ]
        return parts[0][0]


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

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, high_bits):
        require_integer("High bits", high_bits, least=1)
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

    Parameters
    ----------
    words : int

    Members
    -------
    start : In(1)
    clean : Out(1)
        Low from the clock after `start` on, for `words` clocks and `lag` more.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    DIGIT = 3

    def __init__(self, *, words):
        require_integer("Words", words, least=1)
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


class GenerationEnd(wiring.Component):
    """Tells that the generation is near its end, for a spare that is not clean at a fixed time.

    Parameters
    ----------
    width : int
        Bits of `high`.

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

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    AHEAD = END_EIGHTHS
    MINIMUM = WATCHED_GENERATION
    """Shortest generation of which the end is told."""

    def __init__(self, *, width):
        require_integer("Width", width, least=1)
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


class Schedule(wiring.Component):
    """Ends generations by count: the first insertion after a full one carries the shift.

    Tells when operations must come one at a time, because a shift could find the spare unclean:
    in generations shorter than `minimum_generation`, and with `watches` near the end of one.

    Parameters
    ----------
    generation_bits : int
        Width of the generation length.
    minimum_generation : int
        Shortest generation within which the spare is cleaned in time.
    clear_words : int
        Cycles that clearing takes; after them the spare is as `clean` says.
    watches : bool
        Whether clearing may take longer. `minimum_generation` is then at least
        ``GenerationEnd.MINIMUM``.

    Members
    -------
    generation : In(generation_bits)
        Insertions in a generation, at least 1.
    event : In(1)
        An insertion, or an operation that turns the ring, which came after a `fill`.
    fill : In(1)
        An operation waits that turns the ring.
    clean : In(1)
        Whether the store says that the spare is clean.
    full : Out(1)
        The event turns the ring.
    turned : Out(1)
        The event a cycle ago did.
    spare_clean : Out(1)
        Whether the spare is clean.
    one_at_a_time : Out(1)
        Whether operations must come one at a time.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, generation_bits, minimum_generation, clear_words, watches=False):
        require_integer("Generation bits", generation_bits, least=1)
        if watches:
            minimum_generation = max(minimum_generation, GenerationEnd.MINIMUM)
        self.minimum_generation = minimum_generation
        self.length = GenerationLength(width=generation_bits, minimum=minimum_generation)
        self.counter = GenerationCounter(high_bits=len(self.length.high))
        self._timer = SpareTimer(words=clear_words)
        self._end = GenerationEnd(width=len(self.length.high)) if watches else None
        super().__init__(
            {
                "generation": In(generation_bits),
                "event": In(1),
                "fill": In(1),
                "clean": In(1, init=1),
                "full": Out(1),
                "turned": Out(1),
                "spare_clean": Out(1),
                "one_at_a_time": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.length = length = self.length
        m.submodules.counter = counter = self.counter
        m.submodules.timer = timer = self._timer
        m.d.sync += self.turned.eq(self.event & counter.full)
        m.d.comb += [
            length.generation.eq(self.generation),
            length.whole.eq(self.fill),
            counter.event.eq(self.event),
            counter.fill.eq(self.fill),
            timer.start.eq(self.turned),
            self.full.eq(counter.full),
            self.spare_clean.eq(timer.clean & self.clean),
        ]
        for name in ("low", "high", "high_zero", "zero", "one"):
            m.d.comb += getattr(counter, name).eq(getattr(length, name))
        # The length of the generation that runs was loaded with it.
        current = Signal(init=1)
        below = registered(m, length.below, "below")
        with m.If(self.turned):
            m.d.sync += current.eq(below)
        m.d.sync += self.one_at_a_time.eq(
            current | length.below_since | length.below_early | self._elaborate_end(m)
        )
        return m

    def _elaborate_end(self, m):
        """Return whether the generation ends soon and the spare is not clean."""
        if self._end is None:
            return Const(0, 1)
        m.submodules.end = end = self._end
        m.d.comb += [
            end.high.eq(self.length.high),
            end.turned.eq(self.turned),
            end.event.eq(self.event),
        ]
        return end.near & ~self.spare_clean
