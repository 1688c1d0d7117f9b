"""Proofs for the hashes: the hardware computes the addresses of the golden model.

The scalar golden model is called with symbols instead of integers, so its operations build a
circuit. For SipHash, both circuits add words digit by digit; a separate proof shows that this
addition is correct.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib.wiring import In

from ...golden.hash.scalar_hash import ScalarHash
from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.spec.presets import preset
from ...hdl.hash.functions import KeyHash, hash_latency
from ...hdl.hash.siphash import BOUNDS, SipHash
from ...hdl.pipeline import delayed
from .formal import Proof, Unrolled
from .harness import Harness, constant


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


def sum_of_digits(first, second):
    digits, carry = [], Const(0, 0)
    for low, high in pairwise(BOUNDS):
        first_digit, second_digit = (Cat(carry, word[low:high]) for word in (first, second))
        total = (first_digit + second_digit)[len(carry) :]
        digits.append(total[: high - low])
        carry = total[high - low :]
    return Cat(*digits, carry)


class SumsOfDigits(Harness):
    def __init__(self):
        super().__init__({"first": In(WORD_BITS), "second": In(WORD_BITS)})

    def build(self, m):
        self.require(sum_of_digits(self.first, self.second) == self.first + self.second)


class Word(Symbol):
    def __add__(self, other):
        assert len(self.value) == len(other.value) == WORD_BITS
        return self._with(sum_of_digits(self.value, other.value))


class HashIsGolden(Harness):
    def __init__(self, *, spec):
        self._spec = spec
        self._hash = KeyHash(spec=spec)
        super().__init__({"key": In(spec.key_bits)})

    def build(self, m):
        m.submodules.hash = dut = self._hash
        m.d.comb += dut.key.eq(self.key)
        key = self._key(m, Symbol)
        self._require_golden(delayed(m, Const(1), dut.latency, "begun"), key)

    def _key(self, m, kind):
        return kind(m, delayed(m, self.key, self._hash.latency, "key", reset_less=True))

    def _require_golden(self, asked, key, *secret):
        spec = self._spec
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
                self.require(~asked | (self._hash.addresses[function][part] == address))


class KeyedHashIsGolden(HashIsGolden):
    KEY = 1 + SipHash.SETTLE  # cycle in which the key arrives; the first cycle is 0

    def build(self, m):
        m.submodules.hash = dut = self._hash
        secret = constant(m, SECRET_BITS, "secret")
        first, beyond = self.KEY - SipHash.SETTLE, self.KEY + SipHash.HOLD + 1
        holds = self._since(m, first, "settles") & ~self._since(m, beyond, "ends")
        m.d.comb += [
            dut.key.eq(self.key),
            dut.secret.eq(Mux(holds, secret, AnySeq(SECRET_BITS))),
        ]
        done = self.KEY + dut.latency
        asked = self._since(m, done, "done") & ~self._since(m, done + 1, "gone")
        self._require_golden(asked, self._key(m, Word), Word(m, secret))

    def _since(self, m, clock, name):
        return delayed(m, Const(1), clock, name, reset_less=True)


def clocks(spec):
    return hash_latency(spec.key_bits, spec.hash) + 1


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

_SIPHASH_SPECS = {"preset siphash-default": preset("siphash-default")} | {
    f"keys of {bits} bits": replace(preset("siphash-default"), key_bits=bits)
    for bits in (5, 104, 128)
}

PROOFS = (
    *(
        Proof(
            name=f"hash, {name}",
            statement="For every key, the addresses equal those of the golden model.",
            design=f"H3 hash, {name}",
            build=partial(HashIsGolden, spec=spec),
            method=Unrolled(clocks(spec)),
        )
        for name, spec in _H3_SPECS.items()
    ),
    Proof(
        name="addition by digits",
        statement="Adding two words digit by digit, with each carry added to the next digit, gives "
        "their sum.",
        design=f"words of {WORD_BITS} bits, divided at bits {BOUNDS[1:-1]}",
        build=SumsOfDigits,
        method=Unrolled(1),
    ),
    *(
        Proof(
            name=f"siphash, {name}",
            statement="For every key and secret, the addresses equal those of the golden model, if "
            f"the secret is stable from {SipHash.SETTLE} cycles before the key until "
            f"{SipHash.HOLD} cycles after it. Both designs add digit by digit.",
            design=f"SipHash, {name}",
            build=partial(KeyedHashIsGolden, spec=spec),
            method=Unrolled(KeyedHashIsGolden.KEY + clocks(spec)),
        )
        for name, spec in _SIPHASH_SPECS.items()
    ),
)
