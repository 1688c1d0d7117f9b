"""Message digest that processes one word per cycle in two lanes of SipHash-1-3."""

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

STATE = data.ArrayLayout(WORD_BITS, 4)  # state of SipHash
_COUNT_BITS = 6  # Width of the word counter; SipHash uses the word count of each lane modulo 32.


class SipRound(wiring.Component):
    """Computes a SipRound (SipHash, section 2.3) in two cycles."""

    LATENCY = 2

    def __init__(self):
        super().__init__(
            {
                "enable": In(1),  # both halves stall while this is low
                "i": In(STATE),
                "o": Out(STATE),  # `LATENCY` enabled cycles later
            }
        )

    def elaborate(self, platform):
        m = Module()
        a, b, c, d = self._half(m, [self.i[n] for n in range(4)], (13, 16), "first")
        a, d, c, b = self._half(m, [a.rotate_left(32), d, c, b], (21, 17), "second")
        m.d.comb += self.o.eq(Cat(a, b, c.rotate_left(32), d))
        return m

    def _half(self, m, words, amounts, name):
        """Compute half a round: add the second word to the first, and the fourth to the third."""
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
        # Sums are registered directly; the XORs after them come before the next addition.
        first, rotated, second, other_rotated = registers
        return first, rotated ^ first, second, other_rotated ^ second


class LaneDigest(wiring.Component):
    """Computes `lately.golden.packets.packet_digest` of messages, at one word per beat.

    The words of a message go alternately to two lanes, which share one `SipRound`. A second
    `SipRound` finishes both lanes while the next message arrives. If a message begins in the cycle
    after `done`, its second word must follow in the next cycle.
    """

    LATENCY = 14

    def __init__(self):
        super().__init__(
            {
                "secret": In(SECRET_BITS),  # constant while there are messages
                "octets": In(WORD_BITS),  # zeros if there is no word
                "counts": In(1),  # `octets` is a word of a message
                "last": In(1),  # the frame ends, with the last word or later
                "closing": In(8 * CLOSING_BYTES),  # with `last`
                "done": In(1),  # with `last` or later, at most once in 8 cycles
                "valid_next": Out(1),  # in the cycle before `digest`
                "digest": Out(WORD_BITS),  # `LATENCY` cycles after `done`
            }
        )

    def elaborate(self, platform):
        m = Module()
        count, opened, single = Signal(_COUNT_BITS), Signal(), Signal()
        comes = self.counts | single
        words = (count + comes)[:_COUNT_BITS]
        m.d.sync += [
            # Both lanes need a word, and a frame of one beat has only one.
            single.eq(self.last & self.counts & ~opened & ~count[0]),
            count.eq(Mux(self.done, 0, words)),
            # Set by the second word; until then the count is 0 or 1.
            opened.eq(~self.done & (opened | (comes & count[0]))),
        ]
        ends = registered(m, self.done, "ends")
        closing = self._keep_closing(m, words)
        # After the last word, one more step pushes out one lane, and a second step the other.
        pushes = ends | registered(m, ends, "ended")
        state, removed = self._elaborate_lanes(m, comes | pushes, ~opened, count[0])
        final = registered(m, closing(ends), "closing", reset_less=True)
        leaving = [state[0] ^ removed, state[1], state[2], state[3] ^ final]
        left = registered(m, Cat(leaving), "left", reset_less=True)
        enters = delayed(m, pushes, 2, "enters")
        lane = self._elaborate_finish(m, enters, left, closing, delayed(m, ends, 3, "removes"))
        before = registered(m, lane, "before", reset_less=True)
        m.d.comb += [
            self.digest.eq(registered(m, lane ^ before, "both", reset_less=True)),
            self.valid_next.eq(delayed(m, ends, self.LATENCY - 2, "ended_before")),
        ]
        return m

    def _keep_closing(self, m, words):
        """Keep the closing of a frame; return a function that makes a lane's closing word.

        The word is valid from `ends` until six cycles later.
        """
        closing, kept = Signal(len(self.closing)), Signal(len(self.closing))
        count = Signal(_COUNT_BITS)
        # The next frame may end while the digest of this one still needs its closing.
        with m.If(self.last):
            m.d.sync += closing.eq(self.closing)
        with m.If(self.done):
            m.d.sync += [kept.eq(Mux(self.last, self.closing, closing)), count.eq(words)]

        def word(first):
            half = Mux(first, count >> 1, (count + 1) >> 1)
            return Cat(kept, Const(CLOSING_BYTES, 3), half[:5])

        return word

    def _elaborate_lanes(self, m, step, opens, lane):
        """Compress the words.

        Returns a lane's state, and the last word, which must still be XORed into the state.
        """
        key = self.secret ^ (lane.replicate(SECRET_BITS) & OTHER_LANE)
        opening = registered(m, opens, "opening", reset_less=True)
        mask = opens.replicate(WORD_BITS)
        added = registered(m, self.octets ^ (self._start(key, 3) & mask), "added", reset_less=True)
        removed = self.octets
        for name in ("last_word", "word_before", "removed"):
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
        """Return word `number` of a lane's initial state."""
        return INITIAL[number] ^ key.word_select(number % 2, WORD_BITS)

    def _elaborate_finish(self, m, enters, left, closing, first):
        """Finish the two lanes, one after the other; return the XOR of their last states."""
        m.submodules.finish = finish = SipRound()
        state = [finish.o[n] for n in range(4)]
        removes = first | registered(m, first, "removes_other")
        again = registered(m, closing(first) & removes.replicate(WORD_BITS), "closing_again",
                           reset_less=True)  # fmt: skip
        final = registered(m, removes, "final").replicate(WORD_BITS) & FINAL
        after = [state[0] ^ again, state[1], state[2] ^ final, state[3]]
        m.d.comb += finish.enable.eq(1)
        for number in range(4):
            entering = left.word_select(number, WORD_BITS)
            m.d.comb += finish.i[number].eq(Mux(enters, entering, after[number]))
        return registered(m, state[0] ^ state[1] ^ state[2] ^ state[3], "finished", reset_less=True)
