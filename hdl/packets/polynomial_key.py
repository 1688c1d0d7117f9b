"""Tables of the two polynomials for a secret: values and times of their writes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.packets.polynomial_digest import KEYS, MODULUS
from ..pipeline import registered

TABLE_BITS = (4, 5)
"""Supported address bits of a table, for the distributed memories of devices."""


def table_places(table_bits):
    """Return the lowest bit of each table's part of a word, and the bit after its highest.

    Parameters
    ----------
    table_bits : int
        4 or 5.

    Raises
    ------
    ValueError
        If `table_bits` is not supported.
    """
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
    """Loads the tables of products with H, H^2, ... after reset and each change of the secret.

    `PolynomialFinish` computes both keys H. A loop computes H^p * x^i for each bit i. The sum
    of the products that the bits of H select is H^(p+1). The component keeps the products of the
    bits of a table, and writes each sum of them. A load takes 37 cycles per table with 5 address
    bits, and 20 cycles with 4 address bits.

    Parameters
    ----------
    powers : int
        Highest power p.
    table_bits : int
        One of `TABLE_BITS`.
    latency : int
        Cycles from `hashes` to `hashed`.

    Members
    -------
    secret : In(128)
    hashes, number : Out(1), Out(1)
        `PolynomialFinish` hashes this number, 0 and
        `lately.golden.packets.polynomial_digest.EMPTY`.
    hashed : In(64)
    loading : Out(1)
        No message may be digested. High at most `LAG` cycles after a change of the secret.
    address : Out(table_bits)
        Address of all tables, one cycle before a write. 0 unless `loading`.
    writes, value : Out, Out(128)
        A bit for each table, in the order of `table_places` for each power; products with both
        keys, first key low.

    Errors: as for `table_places`.
    """

    LAG = 4

    def __init__(self, *, powers, table_bits, latency):
        self._powers = powers
        self._latency = latency
        self._tables = table_places(table_bits)
        super().__init__(
            {
                "secret": In(SECRET_BITS),
                "hashes": Out(1),
                "number": Out(1),
                "hashed": In(WORD_BITS),
                "loading": Out(1, init=1),
                "address": Out(table_bits),
                "writes": Out(powers * len(self._tables)),
                "value": Out(KEYS * WORD_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = len(self.address)
        phase = Signal(_Phase)
        count = Signal(range(max(self._latency + KEYS, 1 << bits)))
        table, power = Signal(range(len(self._tables))), Signal(range(self._powers))
        last = {_Phase.HASH: self._latency + KEYS - 1, _Phase.WALK: bits - 1,
                _Phase.WRITE: (1 << bits) - 1}  # fmt: skip
        ends, next_power = Signal(), Signal()
        changed = registered(m, self.secret != registered(m, self.secret, "before"), "changed")
        m.d.sync += [count.eq(Mux(ends, 0, count + 1)), self.loading.eq(phase != _Phase.DONE)]
        with m.Switch(phase):
            for one, limit in last.items():
                with m.Case(one):
                    m.d.comb += ends.eq(count == limit)
                    m.d.sync += phase.eq(Mux(ends, _after(one), one))
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
        hashed = (phase == _Phase.HASH) & (count >= self._latency)
        columns = self._elaborate_walk(m, hashed, phase == _Phase.WALK, next_power)
        self._elaborate_writes(m, phase == _Phase.WRITE, columns, count, table, power)
        m.d.comb += [
            self.hashes.eq((phase == _Phase.HASH) & (count < KEYS)),
            self.number.eq(count[0]),
        ]
        return m

    def _elaborate_walk(self, m, hashed, walks, next_power):
        """Walk the products with powers of x; return the products of a table."""
        bits, width = len(self.address), KEYS * WORD_BITS
        walk, total = Signal(width), Signal(width)
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
        """Write each sum of the products of a table."""
        chosen = [bit.replicate(len(column)) & column
                  for bit, column in zip(count, columns, strict=False)]  # fmt: skip
        value = chosen[0]
        for one in chosen[1:]:
            value = value ^ one
        m.d.comb += self.address.eq(count & writes.replicate(len(self.address)))
        m.d.sync += self.value.eq(value)
        m.d.sync += self.writes.eq(Cat(
            writes & (power == exponent) & (table == at) & (count >> high - low == 0)
            for exponent in range(self._powers)
            for at, (low, high) in enumerate(self._tables)
        ))  # fmt: skip


def _after(phase):
    return _Phase.WRITE if phase == _Phase.WALK else _Phase.WALK


def _times_x(word):
    return Cat(0, word[:-1]) ^ (MODULUS & word[-1].replicate(MODULUS.bit_length()))
