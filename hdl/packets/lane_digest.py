"""Digest of messages with one word per cycle, in two lanes of SipHash-1-3."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import (
    FINAL,
    INITIAL,
    SECRET_BITS,
    WORD_BITS,
)
from ...golden.packets.packet_digest import CLOSING_BYTES, OTHER_LANE
from ..pipeline import delayed, registered
from .message_words import MessageEnd, MessageWord

STATE = data.ArrayLayout(WORD_BITS, 4)
"""State of SipHash."""


class SipRound(wiring.Component):
    """SipRound of a state, in two cycles with one addition each (SipHash, section 2.3).

    Members
    -------
    enable : In(1)
        Both halves stall while this is low.
    i, o : In(STATE), Out(STATE)
        The state before the round, and after it, two enabled cycles later.
    """

    LATENCY = 2

    def __init__(self):
        super().__init__({"enable": In(1), "i": In(STATE), "o": Out(STATE)})

    def elaborate(self, platform):
        m = Module()
        a, b, c, d = self._half(m, [self.i[n] for n in range(4)], (13, 16), "first")
        a, d, c, b = self._half(m, [a.rotate_left(32), d, c, b], (21, 17), "second")
        m.d.comb += self.o.eq(Cat(a, b, c.rotate_left(32), d))
        return m

    def _half(self, m, words, amounts, name):
        """Add the second word to the first, and the fourth to the third."""
        values = [
            words[0] + words[1],
            words[1].rotate_left(amounts[0]),
            words[2] + words[3],
            words[3].rotate_left(amounts[1]),
        ]
        registers = [
            Signal(WORD_BITS, name=f"{name}{n}", reset_less=True) for n in range(len(values))
        ]
        with m.If(self.enable):
            m.d.sync += [
                register.eq(value) for register, value in zip(registers, values, strict=True)
            ]
        # The sums are registered here, so that an addition has gates before it and none after it.
        one, turned, other, others = registers
        return one, turned ^ one, other, others ^ other


class LaneDigest(wiring.Component):
    """Digests messages: `lately.golden.packets.packet_digest`.

    The lanes alternate in one pair of half rounds. A second pair finishes them while the next
    message arrives.

    Members
    -------
    secret : In(128)
        Constant while there are messages.
    valid, word, ends, end
        From `MessageWords`.
    valid_next : Out(1)
        In the cycle before `digest`, `LATENCY` - 1 cycles after `ends`.
    digest : Out(64)
    """

    LATENCY = 13

    def __init__(self):
        super().__init__(
            {
                "secret": In(SECRET_BITS),
                "valid": In(1),
                "word": In(MessageWord()),
                "ends": In(1),
                "end": In(MessageEnd()),
                "valid_next": Out(1),
                "digest": Out(WORD_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # A word after the last pushes one lane out, the second after it the other.
        pushes = self.ends | registered(m, self.ends, "ended")
        state, removed = self._elaborate_lanes(m, self.valid | pushes)
        closing = registered(m, self._closing(self.ends), "closing", reset_less=True)
        leaving = [state[0] ^ removed, state[1], state[2], state[3] ^ closing]
        left = registered(m, Cat(leaving), "left", reset_less=True)
        enters = delayed(m, pushes, 2, "enters")
        total = self._elaborate_finish(m, enters, left)
        before = registered(m, total, "one", reset_less=True)
        m.d.comb += [
            self.digest.eq(registered(m, total ^ before, "both", reset_less=True)),
            self.valid_next.eq(delayed(m, self.ends, self.LATENCY - 1, "ended_before")),
        ]
        return m

    def _elaborate_lanes(self, m, step):
        """Compress the words; return the state of a lane, and its last word, not removed yet."""
        word = self.word
        key = self.secret ^ (word.lane.replicate(SECRET_BITS) & OTHER_LANE)
        opening = registered(m, word.opening, "opening", reset_less=True)
        opens = word.opening.replicate(WORD_BITS)
        added = registered(m, word.octets ^ (self._start(key, 3) & opens), "added", reset_less=True)
        removed = word.octets
        for name in ("last", "one_before", "removed"):
            removed = registered(m, removed, name, reset_less=True, enable=step)
        key = registered(m, key, "key", reset_less=True)
        m.submodules.compress = compress = SipRound()
        state = [compress.o[n] for n in range(4)]
        kept = ~opening.replicate(WORD_BITS)
        m.d.comb += [
            compress.enable.eq(registered(m, step, "step")),
            compress.i[0].eq(Mux(opening, self._start(key, 0), state[0] ^ removed)),
            compress.i[1].eq(Mux(opening, self._start(key, 1), state[1])),
            compress.i[2].eq(Mux(opening, self._start(key, 2), state[2])),
            compress.i[3].eq((state[3] & kept) ^ added),
        ]
        return state, removed

    def _start(self, key, number):
        """Return a word of the initial state of a lane."""
        return INITIAL[number] ^ key.word_select(number % 2, WORD_BITS)

    def _elaborate_finish(self, m, enters, left):
        """Finish the two lanes, one after the other; return the sums of their last states."""
        m.submodules.finish = finish = SipRound()
        state = [finish.o[n] for n in range(4)]
        first = delayed(m, self.ends, 3, "removes")
        removes = first | registered(m, first, "removes_other")
        closing = self._closing(first) & removes.replicate(WORD_BITS)
        final = registered(m, removes, "final").replicate(WORD_BITS) & FINAL
        after = [
            state[0] ^ registered(m, closing, "closing_again", reset_less=True),
            state[1],
            state[2] ^ final,
            state[3],
        ]
        m.d.comb += finish.enable.eq(1)
        for number in range(4):
            taken = left.word_select(number, WORD_BITS)
            m.d.comb += finish.i[number].eq(Mux(enters, taken, after[number]))
        return registered(m, state[0] ^ state[1] ^ state[2] ^ state[3], "total", reset_less=True)

    def _closing(self, first):
        """Return the closing word of the lane whose last word came earlier."""
        half = Mux(first, self.end.words >> 1, (self.end.words + 1) >> 1)
        length = Cat(Const(CLOSING_BYTES, 3), half[:5])
        return Cat(self.end.closing, length)
