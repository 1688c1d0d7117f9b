"""Proofs of the hashes: for every key and secret, the hardware computes the golden model's hash.

The scalar golden model runs with symbols instead of integers, and its operations on symbols build a
circuit. For SipHash it adds words digit by digit, like the hardware; a separate proof shows that
these sums are correct, so each adder is compared once.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import In

from ...golden.hash.scalar_hash import ScalarHash
from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.spec.presets import preset
from ...hdl.hash.functions import KeyHash, hash_latency
from ...hdl.hash.siphash import BOUNDS, SipHash, siphash_latency
from ...hdl.pipeline import delayed
from .formal import Proof, Unrolled
from .harness import Harness


class Symbol:
    """Stand-in for a non-negative integer; its operations build a circuit."""

    def __init__(self, m, value):
        self._m = m
        self.value = Signal(len(value))
        m.d.comb += self.value.eq(value)

    def _of(self, other):
        return other.value if isinstance(other, Symbol) else Const(other)

    def _with(self, value):
        return type(self)(self._m, value)

    def __and__(self, other):
        pair = self.value, self._of(other)
        bits = min(map(len, pair))
        return self._with(pair[0][:bits] & pair[1][:bits])

    def __or__(self, other):
        return self._with(self.value | self._of(other))

    def __xor__(self, other):
        return self._with(self.value ^ self._of(other))

    def __add__(self, other):
        return self._with(self.value + self._of(other))

    def __mul__(self, other):
        return self._with(self.value * self._of(other))

    def __lshift__(self, bits):
        return self._with(Cat(Const(0, bits), self.value))

    def __rshift__(self, bits):
        return self._with(self.value[bits:])

    __rand__, __ror__, __rxor__, __radd__, __rmul__ = __and__, __or__, __xor__, __add__, __mul__


class HashIsGolden(Harness):
    """For any key in any cycle, the hash's addresses equal those of the golden model."""

    def __init__(self, *, spec):
        self._spec = spec
        self._hash = KeyHash(spec=spec)
        super().__init__({"key": In(spec.key_bits)})

    def build(self, m):
        spec = self._spec
        m.submodules.hash = dut = self._hash
        m.d.comb += dut.key.eq(self.key)
        key = Symbol(m, delayed(m, self.key, dut.latency, "key", reset_less=True))
        require_golden(self, spec, dut, delayed(m, Const(1), dut.latency, "begun"), key)


def require_golden(harness, spec, dut, asked, key, *secret):
    """Require the golden model's addresses for a key, in the cycles in which `asked` is high."""
    golden: Any = ScalarHash(
        sizes=spec.index_sizes,
        functions=spec.hash_functions,
        seed=spec.seed,
        key_bits=spec.key_bits,
        hash=spec.hash,
    )
    for function in range(spec.hash_functions):
        indices = golden(key, function, *secret)
        shared, part_indices = indices[: -spec.parts], indices[-spec.parts :]
        for part, index in enumerate(part_indices):
            address = Cat(symbol.value for symbol in (index, *shared))
            harness.require(~asked | (dut.addresses[function][part] == address))


_H3_SPECS = {
    f"preset {name}": preset(name)
    for name in (
        "default",
        "large",
        "apbf-default",
        "gebf-default",
        "blocked-gebf-default",
    )
} | {
    f"preset default, keys of {bits} bits": replace(preset("default"), key_bits=bits)
    for bits in (5, 128)
}

_H3_PROOFS = tuple(
    Proof(
        name=f"hash, {name}",
        statement="For every key, the addresses equal the golden model's.",
        design=f"keys to addresses, {name}",
        build=partial(HashIsGolden, spec=spec),
        method=Unrolled(hash_latency(spec.key_bits) + 1),
    )
    for name, spec in _H3_SPECS.items()
)
"""Proofs of the hash."""


GIVEN = 1 + SipHash.SETTLE  # cycle in which the followed key arrives, counted from 0


def sum_of_digits(first, second):
    """Return the sum of two words, computed digit by digit."""
    digits, carry = [], Const(0, 0)
    for low, high in pairwise(BOUNDS):
        first_digit, second_digit = (Cat(carry, word[low:high]) for word in (first, second))
        total = (first_digit + second_digit)[len(carry) :]
        digits.append(total[: high - low])
        carry = total[high - low :]
    return Cat(*digits, carry)


class Word(Symbol):
    """Symbol that adds with `sum_of_digits`."""

    def __add__(self, other):
        assert len(self.value) == len(other.value) == WORD_BITS
        return self._with(sum_of_digits(self.value, other.value))


class SumsOfDigits(Harness):
    """For any two words, the sum computed digit by digit equals that of a single adder."""

    def __init__(self):
        super().__init__({"first": In(WORD_BITS), "second": In(WORD_BITS)})

    def build(self, m):
        self.require(sum_of_digits(self.first, self.second) == self.first + self.second)


class KeyedHashIsGolden(Harness):
    """For a key with a secret, the hash's addresses equal those of the golden model.

    The secret is constant from `SipHash.SETTLE` cycles before the key to `SipHash.HOLD` cycles
    after it, and arbitrary in all other cycles.
    """

    def __init__(self, *, spec):
        self._spec = spec
        self._hash = KeyHash(spec=spec)
        super().__init__({"key": In(spec.key_bits)})

    def build(self, m):
        spec, secret = self._spec, Signal(SECRET_BITS)
        m.submodules.hash = dut = self._hash
        first, beyond = GIVEN - SipHash.SETTLE, GIVEN + SipHash.HOLD + 1
        holds = self._since(m, first, "settles") & ~self._since(m, beyond, "ends")
        m.d.comb += [
            # Through one signal, because each use of AnyConst creates a different value.
            secret.eq(AnyConst(SECRET_BITS)),
            dut.key.eq(self.key),
            dut.secret.eq(Mux(holds, secret, AnySeq(SECRET_BITS))),
        ]
        key = Word(m, delayed(m, self.key, dut.latency, "key", reset_less=True))
        done = GIVEN + dut.latency
        asked = self._since(m, done, "done") & ~self._since(m, done + 1, "gone")
        require_golden(self, spec, dut, asked, key, Word(m, secret))

    def _since(self, m, clock, name):
        return delayed(m, Const(1), clock, name, reset_less=True)


def clocks(spec):
    """Return the number of cycles until the addresses of the followed key are known."""
    return GIVEN + siphash_latency(spec.key_bits) + 1


_SIPHASH_SPECS = {"preset siphash-default": preset("siphash-default")} | {
    f"keys of {bits} bits": replace(preset("siphash-default"), key_bits=bits)
    for bits in (5, 104, 128)
}

PROOFS = (
    *_H3_PROOFS,
    Proof(
        name="sums of digits",
        statement="The sum of two words, added digit by digit with each carry into the next digit, "
        "equals the sum added at once.",
        design=f"words of {WORD_BITS} bits, cut at {BOUNDS[1:-1]}",
        build=SumsOfDigits,
        method=Unrolled(1),
    ),
    *(
        Proof(
            name=f"siphash, {name}",
            statement="For every key and every secret, the addresses equal the golden model's, "
            "with sums by digits. The secret may be arbitrary before it must settle and after it "
            "must be held.",
            design=f"keys and secrets to addresses, {name}",
            build=partial(KeyedHashIsGolden, spec=spec),
            method=Unrolled(clocks(spec)),
        )
        for name, spec in _SIPHASH_SPECS.items()
    ),
)
"""Proofs of SipHash."""
