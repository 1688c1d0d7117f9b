"""What is proven of SipHash: for every key and secret, the hardware computes what golden does.

The golden model, on symbols, adds words digit by digit, as the hardware does; that such sums are
sums is a proof of its own. So no adder is compared with another more than once.
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
from ...hdl.hash.key import KeyHash
from ...hdl.hash.siphash import BOUNDS, SipHash
from ...hdl.latencies import siphash_latency
from ...hdl.pipeline import delayed
from .formal import Proof, Unrolled
from .harness import Harness
from .hashes import Symbol

GIVEN = 1 + SipHash.SETTLE
"""Clock in which the key comes that is followed, the first being 0."""


def sum_of_digits(first, second):
    """Return the sum of two words, added digit by digit.

    Parameters
    ----------
    first, second : Value
        Of `WORD_BITS`.

    Returns
    -------
    Value
        One bit wider.
    """
    digits, carry = [], Const(0, 0)
    for low, high in pairwise(BOUNDS):
        one, other = (Cat(carry, word[low:high]) for word in (first, second))
        total = (one + other)[len(carry) :]
        digits.append(total[: high - low])
        carry = total[high - low :]
    return Cat(*digits, carry)


class Word(Symbol):
    """Symbol whose sums are `sum_of_digits`."""

    def __add__(self, other):
        assert len(self.value) == len(other.value) == WORD_BITS
        return self._with(sum_of_digits(self.value, other.value))


class SumsOfDigits(Harness):
    """Any two words, added digit by digit and at once."""

    def __init__(self, *, total=sum_of_digits, goal=None):
        self._total = total
        super().__init__({"first": In(WORD_BITS), "second": In(WORD_BITS)}, goal=goal)

    def build(self, m):
        self.require(self._total(self.first, self.second) == self.first + self.second)


class KeyedHashIsGolden(Harness):
    """The addresses of a key under a secret, against those that the golden model computes.

    Other keys come before it and after it. The secret has its value from `SipHash.SETTLE` clocks
    before the key to `SipHash.HOLD` clocks after it, and any other in every other clock.
    """

    def __init__(self, *, spec, keyed=KeyHash, goal=None):
        self._spec = spec
        self._hash = keyed(spec=spec)
        super().__init__({"key": In(spec.key_bits)}, goal=goal)

    def build(self, m):
        spec, secret = self._spec, Signal(SECRET_BITS)
        m.submodules.hash = dut = self._hash
        first, beyond = GIVEN - SipHash.SETTLE, GIVEN + SipHash.HOLD + 1
        holds = self._since(m, first, "settles") & ~self._since(m, beyond, "ends")
        m.d.comb += [
            # Each use of such a value would be another one.
            secret.eq(AnyConst(SECRET_BITS)),
            dut.key.eq(self.key),
            dut.secret.eq(Mux(holds, secret, AnySeq(SECRET_BITS))),
        ]
        golden: Any = ScalarHash(
            sizes=spec.index_sizes,
            functions=spec.hash_functions,
            seed=spec.seed,
            key_bits=spec.key_bits,
            hash=spec.hash,
        )
        key = Word(m, delayed(m, self.key, dut.latency, "key", reset_less=True))
        done = GIVEN + dut.latency
        asked = self._since(m, done, "done") & ~self._since(m, done + 1, "gone")
        for function in range(spec.hash_functions):
            indices = golden(key, function, Word(m, secret))
            shared, own = indices[: -spec.parts], indices[-spec.parts :]
            for part, index in enumerate(own):
                address = Cat(place.value for place in (index, *shared))
                self.require(~asked | (dut.addresses[function][part] == address))

    def _since(self, m, clock, name):
        return delayed(m, Const(1), clock, name, reset_less=True)


def clocks(spec):
    """Return the clocks until the addresses of the key that is followed have come.

    Parameters
    ----------
    spec : FilterSpec
    """
    return GIVEN + siphash_latency(spec.key_bits) + 1


_SPECS = {"preset siphash-default": preset("siphash-default")} | {
    f"keys of {bits} bits": replace(preset("siphash-default"), key_bits=bits)
    for bits in (5, 104, 128)
}

PROOFS = (
    Proof(
        name="sums of digits",
        statement="Two words have the same sum added digit by digit, each carry going to the "
        "next digit, as added at once.",
        design=f"words of {WORD_BITS} bits, cut at {BOUNDS[1:-1]}",
        build=SumsOfDigits,
        method=Unrolled(1),
    ),
    *(
        Proof(
            name=f"siphash, {name}",
            statement="For every key and every secret, the addresses are those of the golden "
            "model, whose sums are those of digits; the secret need not be there before it settles "
            "nor after it is held.",
            design=f"keys and secrets to addresses, {name}",
            build=partial(KeyedHashIsGolden, spec=spec),
            method=Unrolled(clocks(spec)),
        )
        for name, spec in _SPECS.items()
    ),
)
"""Of SipHash."""
