"""SipHash-1-3 in hardware: `lately.golden.hash.siphash` as a pipeline, one key per cycle."""

from itertools import groupby, pairwise

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import (
    FINAL,
    FINALIZATION_ROUNDS,
    INITIAL,
    SECRET_BITS,
    WORD_BITS,
    length_word,
    message_words,
)
from ..latencies import siphash_latency
from ..parameters import require_integer
from ..pipeline import Pipeline, registered

BOUNDS = (0, 22, 43, 64)
"""Boundaries of digits in a word. An addition takes one cycle per digit."""

STATIC = float("-inf")
"""Cycle of values that are constant while keys are in flight."""


class Arithmetic:
    """Operations on words whose digits become valid in different cycles.

    A word is a list of bits, lowest first. Each bit is a digit and a position in the digit, or the
    constant 0 or 1. Every operation uses each digit as soon as its operands are valid, and
    registers the result.

    Parameters
    ----------
    m : Module
        Gets the registers.
    """

    def __init__(self, m):
        self._m = m
        self._pipe = Pipeline(m)

    def word(self, bits, clock):
        """Return input bits as a word, or as a part of a word.

        Parameters
        ----------
        bits : Value
        clock : int
            Cycle in which the bits are valid.
        """
        stage = None if clock == STATIC else clock
        digit = self._pipe.enter(bits, bits.name, stage=stage, reset_less=True)
        return [(digit, place) for place in range(len(bits))]

    def constant(self, value):
        """Return a constant as a word.

        Parameters
        ----------
        value : int
        """
        return [value >> bit & 1 for bit in range(WORD_BITS)]

    def rotate(self, word, amount):
        """Rotate left.

        Parameters
        ----------
        word : list
        amount : int
            Number of bits.
        """
        return word[-amount:] + word[:-amount]

    def value(self, word, clock):
        """Return the bits of a word, or of part of a word, delayed to a cycle."""
        return Cat(
            Const(bit, 1) if isinstance(bit, int) else bit[0].at(clock).value[bit[1]]
            for bit in word
        )

    def ready(self, word):
        """Return the first cycle in which all bits of a word, or of part of a word, are valid."""
        stages = [bit[0].stage for bit in word if not isinstance(bit, int)]
        return max((stage for stage in stages if stage is not None), default=STATIC)

    def add(self, a, b, name):
        """Add modulo 2**64, with registered carries between digits.

        Parameters
        ----------
        a, b : list
            Words.
        name : str
            Prefix of the registers' names.
        """
        total = []
        carry = []
        for low, high in pairwise(BOUNDS):
            parts = [carry + word[low:high] for word in (a, b)]
            clock = max(self.ready(part) for part in parts)
            # The carry is added twice, so that it leaves the lowest position.
            first, second = (self.value(part, clock) for part in parts)
            digit = self._register((first + second)[len(carry) :], f"{name}_{low}", clock)
            total += digit[: high - low]
            carry = digit[high - low :]
        return total

    def xor(self, *words, name):
        """Return the exclusive or of words.

        Parameters
        ----------
        words : list
        name : str
            Prefix of the registers' names.
        """
        total = []
        columns = [self._column(bits) for bits in zip(*words, strict=True)]
        cuts = [sum(low <= bit for low in BOUNDS) for bit in range(WORD_BITS)]
        numbered = zip(columns, cuts, strict=True)
        for (clock, many, _), run in groupby(
            numbered, lambda pair: (self.ready(pair[0][0]), self._needs_gate(pair[0]), pair[1])
        ):
            run = [column for column, _ in run]
            if not many:
                total += [bits[0] if bits else constant for bits, constant in run]
                continue
            gates = Cat(
                self.value(bits, clock).xor() ^ Const(constant, 1) for bits, constant in run
            )
            total += self._register(gates, f"{name}_{len(total)}", clock)
        return total

    def _column(self, bits):
        """Separate the variable bits of a sum from the sum of the constant bits."""
        constant = sum(bit for bit in bits if isinstance(bit, int)) % 2
        return [bit for bit in bits if not isinstance(bit, int)], constant

    def _needs_gate(self, column):
        bits, constant = column
        return len(bits) > 1 or (len(bits) == 1 and constant == 1)

    def _register(self, value, name, clock):
        return self.word(registered(self._m, value, name, reset_less=True), clock + 1)


class SipHash(wiring.Component):
    """SipHash-1-3 of a key under a secret.

    Latency `latency` cycles, one key per cycle. The pipeline has no reset: its output is always
    the hash of the key `latency` cycles ago.

    Terms that depend only on the secret are computed once, not for each key. So the secret must be
    stable from `SETTLE` cycles before its first key until `HOLD` cycles after its last key. Other
    keys may enter during this time, but their hashes are invalid.

    Every addition is split into three digits, one per cycle, with registered carries. Logic that
    does not depend on a carry is computed earlier. A round takes 5 cycles (SipHash, section 2.3).

    Parameters
    ----------
    key_bits : int
        Width of a key.

    Members
    -------
    key : In(key_bits)
    secret : In(128)
    state : Out(64)

    Errors: as `require_integer`.
    """

    SETTLE = 2
    """Cycles from a new secret to its first key."""

    HOLD = 6
    """Cycles for which the secret must stay stable after its last key."""

    def __init__(self, *, key_bits):
        require_integer("Key width", key_bits, least=1)
        self._key_bits = key_bits
        self.latency = siphash_latency(key_bits)
        super().__init__({"key": In(key_bits), "secret": In(SECRET_BITS), "state": Out(WORD_BITS)})

    def elaborate(self, platform):
        m = Module()
        ops = Arithmetic(m)
        secret = ops.word(self.secret, STATIC)
        halves = secret[:WORD_BITS], secret[WORD_BITS:]
        v = [
            ops.xor(halves[number % 2], ops.constant(constant), name=f"initial{number}")
            for number, constant in enumerate(INITIAL)
        ]
        words = self._message(ops)
        before = v[3]
        v[3] = ops.xor(v[3], words[0], name="added0")
        for number, word in enumerate(words):
            # The first word equals the new v[3] minus the old v[3], so it need not be delayed.
            added = [v[3], before] if number == 0 else [word]
            ahead = words[number + 1] if number + 1 < len(words) else ops.constant(0)
            v = self._round(ops, v, ahead, f"compress{number}")
            v[0] = ops.xor(v[0], *added, name=f"removed{number}")
        v[2] = ops.xor(v[2], ops.constant(FINAL), name="final")
        for number in range(FINALIZATION_ROUNDS - 1):
            v = self._round(ops, v, ops.constant(0), f"finish{number}")
        result = self._last_round(ops, v)
        m.d.comb += self.state.eq(ops.value(result, self.latency))
        return m

    def _message(self, ops):
        """Return the words of the message."""
        words = message_words(self._key_bits)
        bits = ops.word(self.key, 0) + [0] * (words * WORD_BITS - self._key_bits)
        bits[-WORD_BITS:] = [
            bit or constant
            for bit, constant in zip(
                bits[-WORD_BITS:], ops.constant(length_word(self._key_bits)), strict=True
            )
        ]
        return [bits[low : low + WORD_BITS] for low in range(0, len(bits), WORD_BITS)]

    def _half(self, ops, v, name):
        v0 = ops.add(v[0], v[1], f"{name}_v0a")
        v1 = ops.xor(ops.rotate(v[1], 13), v0, name=f"{name}_v1a")
        v2 = ops.add(v[2], v[3], f"{name}_v2a")
        v3 = ops.xor(ops.rotate(v[3], 16), v2, name=f"{name}_v3a")
        return [ops.rotate(v0, 32), v1, v2, v3]

    def _round(self, ops, v, added, name):
        v0, v1, v2, v3 = self._half(ops, v, name)
        v0 = ops.add(v0, v3, f"{name}_v0b")
        v3 = ops.xor(ops.rotate(v3, 21), v0, added, name=f"{name}_v3b")
        v2 = ops.add(v2, v1, f"{name}_v2b")
        v1 = ops.xor(ops.rotate(v1, 17), v2, name=f"{name}_v1b")
        return [v0, v1, ops.rotate(v2, 32), v3]

    def _last_round(self, ops, v):
        """Return the sum of the four words after the last round; the first word cancels out."""
        _, v1, v2, v3 = self._half(ops, v, "last")
        v2 = ops.add(v2, v1, "last_v2b")
        return ops.xor(
            ops.rotate(v1, 17), v2, ops.rotate(v2, 32), ops.rotate(v3, 21), name="result"
        )
