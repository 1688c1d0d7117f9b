"""Proofs of SipHash: for every key and secret, the hardware computes the golden model's hash.

The golden model runs on symbols and adds words digit by digit, like the hardware. A separate proof
shows that these sums are correct, so each adder is compared once.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import In

from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.spec.presets import preset
from ...hdl.hash.key import KeyHash
from ...hdl.hash.siphash import BOUNDS, SipHash
from ...hdl.latencies import siphash_latency
from ...hdl.pipeline import delayed
from .formal import Proof, Unrolled
from .harness import Harness
from .hashes import Symbol, require_golden

GIVEN = 1 + SipHash.SETTLE  # cycle of the followed key; the first cycle is 0


def sum_of_digits(first, second):
    """Return the sum of two words, added digit by digit."""
    digits, carry = [], Const(0, 0)
    for low, high in pairwise(BOUNDS):
        one, other = (Cat(carry, word[low:high]) for word in (first, second))
        total = (one + other)[len(carry) :]
        digits.append(total[: high - low])
        carry = total[high - low :]
    return Cat(*digits, carry)


class Word(Symbol):
    """Symbol that adds with `sum_of_digits`."""

    def __add__(self, other):
        assert len(self.value) == len(other.value) == WORD_BITS
        return self._with(sum_of_digits(self.value, other.value))


class SumsOfDigits(Harness):
    """Any two words: the sum digit by digit equals the sum of one adder."""

    def __init__(self, *, goal=None):
        super().__init__({"first": In(WORD_BITS), "second": In(WORD_BITS)}, goal=goal)

    def build(self, m):
        self.require(sum_of_digits(self.first, self.second) == self.first + self.second)


class KeyedHashIsGolden(Harness):
    """The addresses of a key under a secret, compared with the addresses of the golden model.

    Other keys precede and follow it. The secret is constant from `SipHash.SETTLE` cycles before
    the key to `SipHash.HOLD` cycles after it, and arbitrary in all other cycles.
    """

    def __init__(self, *, spec, goal=None):
        self._spec = spec
        self._hash = KeyHash(spec=spec)
        super().__init__({"key": In(spec.key_bits)}, goal=goal)

    def build(self, m):
        spec, secret = self._spec, Signal(SECRET_BITS)
        m.submodules.hash = dut = self._hash
        first, beyond = GIVEN - SipHash.SETTLE, GIVEN + SipHash.HOLD + 1
        holds = self._since(m, first, "settles") & ~self._since(m, beyond, "ends")
        m.d.comb += [
            # Each use of an arbitrary value would be a different value.
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
    """Return the cycles until the addresses of the followed key are known."""
    return GIVEN + siphash_latency(spec.key_bits) + 1


_SPECS = {"preset siphash-default": preset("siphash-default")} | {
    f"keys of {bits} bits": replace(preset("siphash-default"), key_bits=bits)
    for bits in (5, 104, 128)
}

PROOFS = (
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
        for name, spec in _SPECS.items()
    ),
)
"""Proofs of SipHash."""
