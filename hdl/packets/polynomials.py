"""Hardware for `lately.golden.packets.polynomial_digest`: one beat of a message per cycle."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import (
    FINAL,
    FINALIZATION_ROUNDS,
    INITIAL,
    SECRET_BITS,
    WORD_BITS,
    length_word,
)
from ...golden.packets.packet_digest import CLOSING_BYTES
from ...golden.packets.polynomial_digest import EMPTY, FINISH_BITS, KEYS, MODULUS
from ..pipeline import FAN_IN, Pipeline, delayed, registered
from .lane_digest import SipRound

# supported table address widths, which match the distributed memories of devices
TABLE_BITS = (4, 5)

_SUMMED = 6  # number of terms that are XORed in one cycle
# number of secret bits per comparator, which takes one cycle and three levels of LUTs
_COMPARED = 16


def xor_tree(terms):
    """Return the XOR of the terms, as a tree, because synthesis does not shorten a chain."""
    while len(terms) > 1:
        terms = [reduce(xor, terms[at : at + FAN_IN]) for at in range(0, len(terms), FAN_IN)]
    return terms[0]


def table_ranges(table_bits):
    """Return the range of word bits that each table covers."""
    if table_bits not in TABLE_BITS:
        raise ValueError(f"Table bits must be 4 or 5, not {table_bits!r}")
    lows = range(0, WORD_BITS, table_bits)
    return [(low, min(low + table_bits, WORD_BITS)) for low in lows]


class _Phase(enum.Enum):
    HASH = 0
    WALK = 1
    WRITE = 2
    DONE = 3


class PolynomialKey(wiring.Component):
    """Loads tables of products with powers of H after reset and whenever the secret changes.

    `PolynomialFinish` computes the two keys H. A loop computes H^p * x^i for each bit i. The XOR of
    the products that the bits of H select is H^(p+1). The component keeps the products for the bits
    of one table, and writes the XOR of every combination. A load takes 37 cycles per table with 5
    address bits, and 20 cycles with 4 address bits.
    """

    LAG = 5

    def __init__(self, *, powers, table_bits, latency):
        self._powers = powers
        self._latency = latency
        self._tables = table_ranges(table_bits)
        super().__init__(
            {
                "secret": In(SECRET_BITS),
                # `PolynomialFinish` hashes `number`, 0 and
                # `lately.golden.packets.polynomial_digest.EMPTY`.
                "hashes": Out(1),
                "number": Out(1),
                "hashed": In(WORD_BITS),
                # No message may be digested. Rises at most `LAG` cycles after a new secret.
                "loading": Out(1, init=1),
                # Address of all tables, one cycle before a write. 0 unless `loading`.
                "address": Out(table_bits),
                # Write enable of each table, in the order of `table_ranges` for each power.
                "writes": Out(powers * len(self._tables)),
                "value": Out(KEYS * WORD_BITS),  # products with both keys, first key low
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = len(self.address)
        phase = Signal(_Phase)
        count = Signal(range(max(self._latency + KEYS, 1 << bits)))
        table = Signal(range(len(self._tables)))
        power = Signal(range(self._powers))
        last = {_Phase.HASH: self._latency + KEYS - 2, _Phase.WALK: bits - 1,
                _Phase.WRITE: (1 << bits) - 1}  # fmt: skip
        ends, next_power = Signal(), Signal()
        # Secrets are compared in two cycles.
        differs = self.secret ^ registered(m, self.secret, "before")
        differs = Cat(differs[at : at + _COMPARED].any() for at in range(0, SECRET_BITS, _COMPARED))
        changed = registered(m, registered(m, differs, "differs").any(), "changed")
        m.d.sync += [count.eq(Mux(ends, 0, count + 1)), self.loading.eq(phase != _Phase.DONE)]
        with m.Switch(phase):
            for active, limit in last.items():
                with m.Case(active):
                    m.d.comb += ends.eq(count == limit)
                    m.d.sync += phase.eq(Mux(ends, _after(active), active))
        with m.If(ends & (phase == _Phase.WRITE)):
            m.d.comb += next_power.eq(table == len(self._tables) - 1)
            m.d.sync += [
                table.eq(Mux(next_power, 0, table + 1)),
                power.eq(power + next_power),
            ]
            with m.If(next_power & (power == self._powers - 1)):
                m.d.sync += phase.eq(_Phase.DONE)
        with m.If(changed):
            m.d.sync += [phase.eq(_Phase.HASH), count.eq(0), table.eq(0), power.eq(0)]
        m.d.comb += [
            self.hashes.eq((phase == _Phase.HASH) & (count < KEYS)),
            self.number.eq(count[0]),
        ]
        # The controls are registered, because each one drives hundreds of registers.
        hashed, walks, next_power, writes, count, table, power = (
            registered(m, Value.cast(value), f"{name}_now")
            for name, value in {
                "hashed": (phase == _Phase.HASH) & (count >= self._latency - 1),
                "walks": phase == _Phase.WALK,
                "next_power": next_power,
                "writes": phase == _Phase.WRITE,
                "count": count,
                "table": table,
                "power": power,
            }.items()
        )
        columns = self._elaborate_walk(m, hashed, walks, next_power)
        self._elaborate_writes(m, writes, columns, count, table, power)
        return m

    def _elaborate_walk(self, m, hashed, walks, next_power):
        """Multiply by x in each step; return the products for the bits of one table."""
        bits, width = len(self.address), KEYS * WORD_BITS
        walk = Signal(width)
        total = Signal(width)
        digits = [Signal(bits * len(self._tables), name=f"digits{n}") for n in range(KEYS)]
        columns = Signal(bits * width)
        words = [walk.word_select(n, WORD_BITS) for n in range(KEYS)]
        with m.If(hashed):
            m.d.sync += [walk.eq(Cat(words[1], self.hashed)), total.eq(0)]
            m.d.sync += [digits[0].eq(digits[1]), digits[1].eq(self.hashed)]
        with m.If(walks):
            chosen = Cat(digit[0].replicate(WORD_BITS) for digit in digits)
            m.d.sync += [
                columns.eq(Cat(columns[width:], walk)),
                walk.eq(Cat(_times_x(word) for word in words)),
                total.eq(total ^ (walk & chosen)),
                *(digit.eq(digit.rotate_right(1)) for digit in digits),
            ]
        with m.If(next_power):
            m.d.sync += [walk.eq(total), total.eq(0)]
        return [columns.word_select(n, width) for n in range(bits)]

    def _elaborate_writes(self, m, writes, columns, count, table, power):
        chosen = [bit.replicate(len(column)) & column
                  for bit, column in zip(count, columns, strict=False)]  # fmt: skip
        m.d.comb += self.address.eq(count & writes.replicate(len(self.address)))
        m.d.sync += self.value.eq(xor_tree(chosen))
        m.d.sync += self.writes.eq(Cat(
            writes & (power == exponent) & (table == number) & (count >> high - low == 0)
            for exponent in range(self._powers)
            for number, (low, high) in enumerate(self._tables)
        ))  # fmt: skip


def _after(phase):
    return _Phase.WRITE if phase == _Phase.WALK else _Phase.WALK


def _times_x(word):
    return Cat(0, word[:-1]) ^ (MODULUS & word[-1].replicate(MODULUS.bit_length()))


class Polynomials(wiring.Component):
    """Evaluates two polynomials, whose coefficients arrive at one beat per cycle.

    Each table is in distributed memory, and holds the products of a few coefficient bits and the
    same power of each key. A message may follow another without a gap, and beats may arrive in any
    cycle.
    """

    def __init__(self, width, *, table_bits):
        self._table_bits = table_bits
        self._tables = table_ranges(table_bits)
        self.powers = width // WORD_BITS
        terms, self.LATENCY = (self.powers - 1) * len(self._tables) + 1, 1
        while terms > 1:
            terms = -(-terms // _SUMMED)
            self.LATENCY += 1
        super().__init__(
            {
                "octets": In(width),
                "counts": In(1),  # `octets` is a beat of a message
                "last": In(1),  # a message ends, with this beat or an earlier one
                # From `PolynomialKey`. Tables that `octets` addresses take the write address from
                # `octets`, one cycle later.
                "address": In(table_bits),
                "writes": In(self.powers * len(self._tables)),
                "value": In(KEYS * WORD_BITS),
                "ends": Out(1),  # `LATENCY` cycles after `last`
                "values": Out(KEYS * WORD_BITS),  # with `ends`, first key low
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        words = [self.octets.word_select(n, WORD_BITS) for n in range(self.powers)]
        # The last word has the factor 1.
        terms = [pipe.enter(words[-1].replicate(KEYS), "word", reset_less=True)]
        for power, word in enumerate(reversed(words[:-1])):
            terms += [
                pipe.enter(product, "product", reset_less=True)
                for product in self._look_up(m, power, word, None)
            ]
        number = 0
        while len(terms) > 1:
            groups = [terms[at : at + _SUMMED] for at in range(0, len(terms), _SUMMED)]
            terms = [
                pipe.register(
                    f"sum{number}_{at}", lambda *values: xor_tree(values), *group, reset_less=True
                )
                for at, group in enumerate(groups)
            ]
            number += 1
        counts = pipe.enter(self.counts, "counts").at(number).value
        last = pipe.enter(self.last, "last").at(number).value
        before = Signal(KEYS * WORD_BITS)
        address = registered(m, self.address, "address")
        # The beat's own sum comes last, so that only products fill the first levels of the tree.
        total = xor_tree([*self._look_up(m, self.powers - 1, before, address), terms[0].value])
        with m.If(last):
            m.d.sync += before.eq(0)
        with m.Elif(counts):
            m.d.sync += before.eq(total)
        with m.If(counts):
            m.d.sync += self.values.eq(total)
        m.d.sync += self.ends.eq(last)
        return m

    def _look_up(self, m, power, values, address):
        """Look up products; if `address` is None, tables are written at the read address."""
        products = []
        for table, (low, high) in enumerate(self._tables):
            keys = range(0, len(values), WORD_BITS)
            shape = KEYS * WORD_BITS // len(keys)
            parts = []
            for number, word in enumerate(keys):
                name = f"power{power + 1}_bits{low}" + ("" if len(keys) == 1 else f"_key{number}")
                m.submodules[name] = words = memory.Memory(
                    shape=shape, depth=1 << high - low, init=[], attrs={"ram_style": "distributed"}
                )
                write, read = words.write_port(), words.read_port(domain="comb")
                address_bits = values[word + low : word + high]
                m.d.comb += [
                    read.addr.eq(address_bits),
                    write.addr.eq(address_bits if address is None else address),
                    write.data.eq(self.value[number * shape :][:shape]),
                    write.en.eq(self.writes[power * len(self._tables) + table]),
                ]
                parts.append(read.data)
            products.append(Cat(parts))
        return products


class PolynomialFinish(wiring.Component):
    """Computes SipHash-1-3 of messages of two words and 7 closing bytes, one message per cycle."""

    LATENCY = 2 * (KEYS + 1 + FINALIZATION_ROUNDS) + 1

    def __init__(self):
        super().__init__(
            {
                "secret": In(SECRET_BITS),  # for the message of the same cycle
                "words": In(KEYS * WORD_BITS),
                "closing": In(8 * CLOSING_BYTES),
                "digest": Out(WORD_BITS),  # `LATENCY` cycles later
            }
        )

    def elaborate(self, platform):
        m = Module()
        state = [INITIAL[n] ^ self.secret.word_select(n % 2, WORD_BITS) for n in range(4)]
        words = [self.words.word_select(n, WORD_BITS) for n in range(KEYS)]
        words.append(Cat(self.closing, Const(length_word(FINISH_BITS) >> len(self.closing), 8)))
        for number in range(len(words) + FINALIZATION_ROUNDS):
            m.submodules[f"round{number}"] = half_rounds = SipRound()
            compresses = number < len(words)
            if compresses:
                name = f"word{number}"
                word = delayed(m, words[number], 2 * number, name, reset_less=True)
                state[3] = state[3] ^ word
            m.d.comb += [half_rounds.enable.eq(1), half_rounds.i.eq(Cat(state))]
            state = [half_rounds.o[n] for n in range(4)]
            if compresses:
                state[0] = state[0] ^ delayed(m, word, 2, f"{name}_removed", reset_less=True)
            if number == len(words) - 1:
                state[2] = state[2] ^ FINAL
        m.d.comb += self.digest.eq(registered(m, xor_tree(state), "total", reset_less=True))
        return m


class PolynomialDigest(wiring.Component):
    """Computes `lately.golden.packets.polynomial_digest`, `latency` cycles after `last`."""

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
                "secret": In(SECRET_BITS),  # constant while there are messages
                "octets": In(width),
                "counts": In(1),
                "last": In(1),
                "closing": In(8 * CLOSING_BYTES),  # with `last`
                "fill": Out(width),  # for `AlignedBeats`
                "loading": Out(1),  # no message may be digested
                "valid_next": Out(1),  # in the cycle before `digest`
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
        closing = delayed(m, self.closing, polynomials.LATENCY, "closing", reset_less=True)
        hashed = Mux(
            key.hashes,
            Cat(key.number, Const(0, KEYS * WORD_BITS - 1), Const(EMPTY, len(closing))),
            Cat(polynomials.values, closing),
        )
        filled = Cat(key.address[: high - low] for low, high in table_ranges(len(key.address)))
        m.d.comb += [
            key.secret.eq(self.secret),
            key.hashed.eq(finish.digest),
            self.loading.eq(key.loading),
            self.fill.eq(filled.replicate(polynomials.powers)),
            finish.secret.eq(self.secret),
            Cat(finish.words, finish.closing).eq(registered(m, hashed, "hashed", reset_less=True)),
            self.digest.eq(finish.digest),
            self.valid_next.eq(delayed(m, polynomials.ends, finish.LATENCY, "ended")),
        ]
        return m
