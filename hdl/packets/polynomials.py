"""Digest of messages in beats: `lately.golden.packets.polynomial_digest` in hardware."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import (
    FINAL,
    FINALIZATION_ROUNDS,
    INITIAL,
    SECRET_BITS,
    WORD_BITS,
    length_word,
)
from ...golden.packets.polynomial_digest import EMPTY, FINISH_BITS, KEYS
from ..pipeline import Pipeline, delayed, registered
from .lane_digest import SipRound
from .message_words import Closing
from .polynomial_key import PolynomialKey, table_places

_SUMMED = 6
"""Terms that are added per cycle."""


def _total(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total ^ term
    return total


class Polynomials(wiring.Component):
    """Computes the values of two polynomials from one beat of coefficients per cycle.

    Products are read from tables in distributed memories. Each table has the products of a few bits
    with a power of both keys. A message may follow another without a gap, and beats may arrive in
    any cycle.

    Parameters
    ----------
    width : int
        Bits of a beat.
    table_bits : int
        As for `PolynomialKey`.

    Members
    -------
    octets, counts, last : In(width), In(1), In(1)
        A beat of a message counts; a message ends, with this beat or an earlier one.
    address, writes, value : In
        From `PolynomialKey`. The address of the tables for octets is in all their positions in
        `octets`, one cycle later.
    ends : Out(1)
        `LATENCY` cycles after `last`.
    values : Out(128)
        With `ends`; the first key is in the low bits.
    """

    def __init__(self, width, *, table_bits):
        self._table_bits = table_bits
        self._tables = table_places(table_bits)
        self.powers = width // WORD_BITS
        terms, self.LATENCY = (self.powers - 1) * len(self._tables) + 1, 1
        while terms > 1:
            terms = -(-terms // _SUMMED)
            self.LATENCY += 1
        super().__init__(
            {
                "octets": In(width),
                "counts": In(1),
                "last": In(1),
                "address": In(table_bits),
                "writes": In(self.powers * len(self._tables)),
                "value": In(KEYS * WORD_BITS),
                "ends": Out(1),
                "values": Out(KEYS * WORD_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        words = [self.octets.word_select(n, WORD_BITS) for n in range(self.powers)]
        # The last word has the factor 1.
        terms = [pipe.enter(words[-1].replicate(KEYS), "word", reset_less=True)]
        for power, word in enumerate(reversed(words[:-1])):
            found = self._look_up(m, power, word, None)
            terms += [pipe.enter(one, "product", reset_less=True) for one in found]
        number = 0
        while len(terms) > 1:
            groups = [terms[at : at + _SUMMED] for at in range(0, len(terms), _SUMMED)]
            terms = [
                pipe.register(f"sum{number}_{at}", lambda *v: _total(v), *group, reset_less=True)
                for at, group in enumerate(groups)
            ]
            number += 1
        counts = pipe.enter(self.counts, "counts").at(number).value
        last = pipe.enter(self.last, "last").at(number).value
        before = Signal(KEYS * WORD_BITS)
        address = registered(m, self.address, "address")
        total = _total([terms[0].value, *self._look_up(m, self.powers - 1, before, address)])
        with m.If(last):
            m.d.sync += before.eq(0)
        with m.Elif(counts):
            m.d.sync += before.eq(total)
        with m.If(counts):
            m.d.sync += self.values.eq(total)
        m.d.sync += self.ends.eq(last)
        return m

    def _look_up(self, m, power, values, address):
        """Return products with a power of the keys: of a word with both, or of one word per key.

        The tables are written at `address`, or at the read address.
        """
        found = []
        for at, (low, high) in enumerate(self._tables):
            keys = range(0, len(values), WORD_BITS)
            shape = KEYS * WORD_BITS // len(keys)
            parts = []
            for number, word in enumerate(keys):
                name = f"power{power + 1}_bits{low}" + ("" if len(keys) == 1 else f"_key{number}")
                m.submodules[name] = words = memory.Memory(
                    shape=shape, depth=1 << high - low, init=[], attrs={"ram_style": "distributed"}
                )
                write, read = words.write_port(), words.read_port(domain="comb")
                place = values[word + low : word + high]
                m.d.comb += [
                    read.addr.eq(place),
                    write.addr.eq(place if address is None else address),
                    write.data.eq(self.value[number * shape :][:shape]),
                    write.en.eq(self.writes[power * len(self._tables) + at]),
                ]
                parts.append(read.data)
            found.append(Cat(parts))
        return found


class PolynomialFinish(wiring.Component):
    """SipHash-1-3 of two words and a closing of 7 bytes, one per cycle, with two-cycle rounds.

    Members
    -------
    secret : In(128)
        Secret of a message, in the cycle of the message.
    words, closing : In(128), In(56)
    digest : Out(64)
        `LATENCY` cycles later.
    """

    LATENCY = 2 * (KEYS + 1 + FINALIZATION_ROUNDS) + 1

    def __init__(self):
        super().__init__(
            {
                "secret": In(SECRET_BITS),
                "words": In(KEYS * WORD_BITS),
                "closing": In(Closing().size),
                "digest": Out(WORD_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        state = [INITIAL[n] ^ self.secret.word_select(n % 2, WORD_BITS) for n in range(4)]
        words = [self.words.word_select(n, WORD_BITS) for n in range(KEYS)]
        words.append(Cat(self.closing, Const(length_word(FINISH_BITS) >> len(self.closing), 8)))
        for number in range(len(words) + FINALIZATION_ROUNDS):
            m.submodules[f"round{number}"] = one = SipRound()
            compresses = number < len(words)
            if compresses:
                name = f"word{number}"
                word = delayed(m, words[number], 2 * number, name, reset_less=True)
                state[3] = state[3] ^ word
            m.d.comb += [one.enable.eq(1), one.i.eq(Cat(state))]
            state = [one.o[n] for n in range(4)]
            if compresses:
                state[0] = state[0] ^ delayed(m, word, 2, f"{name}_removed", reset_less=True)
            if number == len(words) - 1:
                state[2] = state[2] ^ FINAL
        m.d.comb += self.digest.eq(registered(m, _total(state), "total", reset_less=True))
        return m


class PolynomialDigest(wiring.Component):
    """Digests messages: `lately.golden.packets.polynomial_digest`.

    Parameters
    ----------
    width : int
        Bits of a beat.
    table_bits : int
        As for `PolynomialKey`.

    Members
    -------
    secret : In(128)
        Constant while there are messages.
    octets, counts, last, closing : In(width), In(1), In(1), In(Closing())
        From `AlignedBeats`.
    fill : Out(width)
        For `AlignedBeats`.
    loading : Out(1)
        As for `PolynomialKey`.
    valid_next : Out(1)
        In the cycle before `digest`.
    digest : Out(64)
        `latency` cycles after `last`.
    """

    def __init__(self, width, *, table_bits):
        self._polynomials = Polynomials(width, table_bits=table_bits)
        # A register before the finish takes one more cycle.
        hashing = PolynomialFinish.LATENCY + 1
        self.latency = self._polynomials.LATENCY + hashing
        self._key = PolynomialKey(
            powers=self._polynomials.powers, table_bits=table_bits, latency=hashing
        )
        super().__init__(
            {
                "secret": In(SECRET_BITS),
                "octets": In(width),
                "counts": In(1),
                "last": In(1),
                "closing": In(Closing()),
                "fill": Out(width),
                "loading": Out(1),
                "valid_next": Out(1),
                "digest": Out(WORD_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.key = key = self._key
        m.submodules.polynomials = polynomials = self._polynomials
        m.submodules.finish = finish = PolynomialFinish()
        for name in ("octets", "counts", "last"):
            m.d.comb += getattr(polynomials, name).eq(getattr(self, name))
        for name in ("address", "writes", "value"):
            m.d.comb += getattr(polynomials, name).eq(getattr(key, name))
        closing = delayed(
            m, self.closing.as_value(), polynomials.LATENCY, "closing", reset_less=True
        )
        taken = Mux(
            key.hashes,
            Cat(key.number, Const(0, KEYS * WORD_BITS - 1), Const(EMPTY, len(closing))),
            Cat(polynomials.values, closing),
        )
        filled = Cat(key.address[: high - low] for low, high in table_places(len(key.address)))
        m.d.comb += [
            key.secret.eq(self.secret),
            key.hashed.eq(finish.digest),
            self.loading.eq(key.loading),
            self.fill.eq(filled.replicate(polynomials.powers)),
            finish.secret.eq(self.secret),
            Cat(finish.words, finish.closing).eq(registered(m, taken, "taken", reset_less=True)),
            self.digest.eq(finish.digest),
            self.valid_next.eq(delayed(m, polynomials.ends, finish.LATENCY, "ended")),
        ]
        return m
