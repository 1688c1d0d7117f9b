"""SipHash-1-3 as a pipeline, and the component that holds the secrets of these pipelines."""

from functools import cache
from itertools import groupby, pairwise

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
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
from ..latencies import SECRET_LEAD
from ..parameters import require_integer
from ..pipeline import Draft, Pipeline, registered

# Bit positions that divide a word into digits. An addition takes one cycle per digit.
BOUNDS = (0, 22, 43, 64)

# marks values that stay constant while keys are in flight, instead of a cycle number
STATIC = float("-inf")


class Arithmetic:
    """Operations on words whose digits become valid in different cycles.

    A word is a list of bits, lowest first. Each bit is the constant 0 or 1, or a pair of a digit
    and a position in the digit. Every operation on a digit starts as soon as the operands are
    valid.
    """

    def __init__(self, m):
        self._m = m
        self._pipe = Pipeline(m)

    def word(self, bits, clock):
        stage = None if clock == STATIC else clock
        digit = self._pipe.enter(bits, bits.name, stage=stage, reset_less=True)
        return [(digit, index) for index in range(len(bits))]

    def constant(self, value):
        return [value >> bit & 1 for bit in range(WORD_BITS)]

    def rotate(self, word, amount):
        return word[-amount:] + word[:-amount]

    def value(self, word, clock):
        """Return the value of a word, or of some of its bits, in the cycle `clock`."""
        return Cat(
            Const(bit, 1) if isinstance(bit, int) else bit[0].at(clock).value[bit[1]]
            for bit in word
        )

    def ready(self, word):
        stages = [bit[0].stage for bit in word if not isinstance(bit, int)]
        return max((stage for stage in stages if stage is not None), default=STATIC)

    def add(self, a, b, name):
        """Return the sum of two words modulo 2**64, with registered carries between digits."""
        total = []
        carry = []
        for low, high in pairwise(BOUNDS):
            parts = [carry + word[low:high] for word in (a, b)]
            clock = max(self.ready(part) for part in parts)
            # The carry is the lowest bit of both operands, so that it carries into the digit.
            first, second = (self.value(part, clock) for part in parts)
            digit = self._register((first + second)[len(carry) :], f"{name}_{low}", clock)
            total += digit[: high - low]
            carry = digit[high - low :]
        return total

    def xor(self, *words, name):
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
        """Split a column of an XOR into its variable bits and the XOR of its constant bits."""
        constant = sum(bit for bit in bits if isinstance(bit, int)) % 2
        return [bit for bit in bits if not isinstance(bit, int)], constant

    def _needs_gate(self, column):
        bits, constant = column
        return len(bits) > 1 or (len(bits) == 1 and constant == 1)

    def _register(self, value, name, clock):
        return self.word(registered(self._m, value, name, reset_less=True), clock + 1)


class SipHash(wiring.Component):
    """Computes the SipHash-1-3 of a key under a secret in `latency` cycles; one key per cycle.

    Terms that depend only on the secret are computed once, not for each key. The secret must
    therefore be stable from `SETTLE` cycles before the first key until `HOLD` cycles after the last
    key that uses it. If a key for another secret enters during this time, its hash is invalid.

    Each addition is split into three digits, one per cycle. A round takes 5 cycles (SipHash,
    section 2.3).
    """

    SETTLE = 2  # cycles from a new secret to the first key that uses it
    HOLD = 6  # cycles for which a secret must stay stable after the last key that uses it

    def __init__(self, *, key_bits):
        require_integer("Key width", key_bits, minimum=1)
        self.latency = siphash_latency(key_bits)
        super().__init__({"key": In(key_bits), "secret": In(SECRET_BITS), "state": Out(WORD_BITS)})

    def elaborate(self, platform):
        m = Module()
        ops = Arithmetic(m)
        result = hashed_words(ops, self.key, self.secret)
        m.d.comb += self.state.eq(ops.value(result, self.latency))
        return m


@cache
def siphash_latency(key_bits):
    """Return the number of cycles from a key to its hash, without building the pipeline."""
    ops = Arithmetic(Draft())
    key, secret = Signal(key_bits, name="key"), Signal(SECRET_BITS, name="secret")
    return ops.ready(hashed_words(ops, key, secret))


def hashed_words(ops, key, secret):
    secret = ops.word(secret, STATIC)
    halves = secret[:WORD_BITS], secret[WORD_BITS:]
    v = [
        ops.xor(halves[number % 2], ops.constant(constant), name=f"initial{number}")
        for number, constant in enumerate(INITIAL)
    ]
    words = _message(ops, key)
    before = v[3]
    v[3] = ops.xor(v[3], words[0], name="added0")
    for number, word in enumerate(words):
        # The first word equals the new v[3] minus the old v[3], so it need not be delayed.
        added = [v[3], before] if number == 0 else [word]
        ahead = words[number + 1] if number + 1 < len(words) else ops.constant(0)
        v = _round(ops, v, ahead, f"compress{number}")
        v[0] = ops.xor(v[0], *added, name=f"removed{number}")
    v[2] = ops.xor(v[2], ops.constant(FINAL), name="final")
    for number in range(FINALIZATION_ROUNDS - 1):
        v = _round(ops, v, ops.constant(0), f"finish{number}")
    # The XOR of the four words after the last round; the first word cancels out.
    _, v1, v2, v3 = _half(ops, v, "last")
    v2 = ops.add(v2, v1, "last_v2b")
    return ops.xor(ops.rotate(v1, 17), v2, ops.rotate(v2, 32), ops.rotate(v3, 21), name="result")


def _message(ops, key):
    padding = message_words(len(key)) * WORD_BITS - len(key)
    bits = ops.word(key, 0) + [0] * padding
    bits[-WORD_BITS:] = [
        bit or constant
        for bit, constant in zip(
            bits[-WORD_BITS:], ops.constant(length_word(len(key))), strict=True
        )
    ]
    return [bits[low : low + WORD_BITS] for low in range(0, len(bits), WORD_BITS)]


def _half(ops, v, name):
    v0 = ops.add(v[0], v[1], f"{name}_v0a")
    v1 = ops.xor(ops.rotate(v[1], 13), v0, name=f"{name}_v1a")
    v2 = ops.add(v[2], v[3], f"{name}_v2a")
    v3 = ops.xor(ops.rotate(v[3], 16), v2, name=f"{name}_v3a")
    return [ops.rotate(v0, 32), v1, v2, v3]


def _round(ops, v, added, name):
    v0, v1, v2, v3 = _half(ops, v, name)
    v0 = ops.add(v0, v3, f"{name}_v0b")
    v3 = ops.xor(ops.rotate(v3, 21), v0, added, name=f"{name}_v3b")
    v2 = ops.add(v2, v1, f"{name}_v2b")
    v1 = ops.xor(ops.rotate(v1, 17), v2, name=f"{name}_v1b")
    return [v0, v1, ops.rotate(v2, 32), v3]


class Secrets(wiring.Component):
    """Holds the secrets of the hash pipelines, and determines when a new secret becomes active.

    With re-keying, the next shift activates a pending secret in a second pipeline. No further
    secret is accepted until all segments that use the old secret have left the ring. Without
    re-keying, a clear activates the secret that was pending when the clear was accepted.
    """

    # cycles from the acceptance of a secret to the first operation that uses the secret
    LEAD = SECRET_LEAD

    def __init__(self, *, pipelines, ring_segments):
        require_integer("Pipelines", pipelines, minimum=1, maximum=2)
        require_integer("Ring segments", ring_segments, minimum=1)
        self._pipelines = pipelines
        self._ring_segments = ring_segments
        super().__init__(
            {
                # A new secret. Without re-keying, it replaces a pending secret.
                "i": In(stream.Signature(SECRET_BITS)),
                "turned": In(1),  # a shift or clear, which read `adopt` one cycle earlier
                "cleared": In(1),  # a clear, which read `adopt` one cycle earlier
                "waits": Out(1),  # whether a secret is pending
                "adopt": Out(1),  # whether a shift or clear activates a pending secret
            }
            # `clears`: without re-keying only: a clear is accepted; `cleared` follows. A secret
            # accepted in the same cycle as the clear takes effect if `cleared` follows at least
            # `LEAD + 3` cycles later.
            | ({"clears": In(1)} if pipelines == 1 else {})
            | {f"secret{number}": Out(SECRET_BITS) for number in range(pipelines)}
        )

    def elaborate(self, platform):
        m = Module()
        waits = self.waits
        # The secret must reach the pipeline before the first key that uses it.
        known = Signal(self.LEAD + 1)
        adopting = Signal()
        coming_in = Signal()
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.adopt.eq(known[-1]),
            coming_in.eq(adopting & (self.turned if self._pipelines == 2 else self.cleared)),
        ]
        m.d.sync += adopting.eq(self.adopt)
        with m.If(coming_in):
            m.d.sync += [waits.eq(0), known.eq(0)]
        with m.Else():
            m.d.sync += known.eq(known << 1 | waits)
        with m.If(taken):
            m.d.sync += waits.eq(1)
        if self._pipelines == 2:
            self._elaborate_pair(m, taken, waits, coming_in)
        else:
            self._elaborate_single(m, taken, coming_in)
        return m

    def _elaborate_single(self, m, taken, coming_in):
        """Hold the last secret until a clear; accept no secret while a clear is pending."""
        waiting = Signal(SECRET_BITS)
        # One clear in progress, and up to three that wait.
        clears = Signal(range(5))
        m.d.comb += self.i.ready.eq(clears == 0)
        m.d.sync += clears.eq(clears + self.clears - self.cleared)
        with m.If(taken):
            m.d.sync += waiting.eq(self.i.payload)
        with m.If(coming_in):
            m.d.sync += self.secret0.eq(waiting)

    def _elaborate_pair(self, m, taken, waits, coming_in):
        """Load secrets into the idle pipeline; count segments that still need the old secret."""
        current = Signal()
        older = Signal(range(self._ring_segments))
        # For some cycles, keys in flight still use the secret that will be replaced.
        settled = Signal(SipHash.HOLD + 2)
        with m.If(taken):
            m.d.sync += Array([self.secret1, self.secret0])[current].eq(self.i.payload)
        with m.If(coming_in):
            m.d.sync += [current.eq(~current), older.eq(self._ring_segments - 1)]
        with m.Elif(self.turned & (older != 0)):
            m.d.sync += older.eq(older - 1)
        with m.If(self.cleared):
            m.d.sync += older.eq(0)
        free = Signal()
        m.d.comb += free.eq(~waits & ~taken & (older == 0))
        m.d.sync += settled.eq(settled << 1 | free)
        with m.If(~free):
            m.d.sync += settled.eq(0)
        m.d.comb += self.i.ready.eq(settled[-1])
