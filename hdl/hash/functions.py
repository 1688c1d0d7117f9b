"""Hash of a key in hardware: the three steps of `lately.golden.hash.functions` as a pipeline.

Each step takes and returns values of a `Pipeline`. The registers have no reset.
"""

from collections import Counter
from functools import cache
from itertools import combinations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import (
    STATE_BITS,
    expand_rotations,
    fold_columns,
    index_fields,
    mix_constants,
)
from ...golden.hash.siphash import SECRET_BITS
from ..latencies import DEFAULT_LEVELS
from ..parameters import require_integer
from ..pipeline import FAN_IN, Draft, Pipeline
from .siphash import SipHash, siphash_latency


def fold(pipe, key, seed):
    """Return the state of a key: the XOR of one 64-bit constant for each set bit (an H3 hash)."""
    columns = fold_columns(len(key), seed)

    def column(bit, key):
        return Mux(key[bit], Const(columns[bit], STATE_BITS), Const(0, STATE_BITS))

    def total(*terms):
        value = terms[0]
        for term in terms[1:]:
            value = value ^ term
        return value

    # Four key bits have only 15 nonzero XORs, so synthesis shares the first step among the bits of
    # the state.
    terms = [
        pipe.step(
            f"sum0_{low // FAN_IN}",
            lambda key, low=low: total(
                *(column(bit, key) for bit in range(low, min(low + FAN_IN, len(key)))),
                *((Const(mix_constants(seed)[0], STATE_BITS),) if low == 0 else ()),
            ),
            key,
            reset_less=True,
        )
        for low in range(0, len(key), FAN_IN)
    ]
    step = 1
    while len(terms) > 1:
        terms = [
            pipe.step(f"sum{step}_{at // FAN_IN}", total, *terms[at : at + FAN_IN], reset_less=True)
            for at in range(0, len(terms), FAN_IN)
        ]
        step += 1
    return terms[0]


def mix(pipe, state, seed):
    """Apply the quadratic Feistel rounds to a state; each bit of a round needs one LUT."""
    half = STATE_BITS // 2
    right, left = state[:half], state[half:]
    for number, constant in enumerate(mix_constants(seed)[1:]):
        mixed = pipe.step(
            f"mixed{number}",
            lambda right, left, constant=constant: (
                right ^ (left.rotate_left(1) & left.rotate_left(8)) ^ left.rotate_left(2) ^ constant
            ),
            right,
            left,
            reset_less=True,
        )
        right, left = left, mixed
    return pipe.combine("state", Cat, right.at(left.stage), left)


def hashed_state(pipe, key, seed):
    return mix(pipe, fold(pipe, key, seed), seed).settled()


@cache
def hash_latency(key_bits, hash="h3", *, levels=DEFAULT_LEVELS):
    """Return the number of cycles from a key to the hash state, without building the pipeline."""
    if hash == "siphash":
        return siphash_latency(key_bits)
    pipe = Pipeline(Draft(), levels=levels)
    return hashed_state(pipe, pipe.enter(Signal(key_bits), "key"), 0).stage


def expand(pipe, state, *, sizes, functions, seed):
    """Return the indices of each hash function; each index bit is an XOR of three state bits."""
    fields = index_fields(sizes)
    for field in fields:
        if not field.power_of_two:
            raise ValueError(f"Sizes must be powers of two, not {field.size}")

    def index(state, amounts, field):
        high = STATE_BITS - field.offset
        first, second, third = (
            state.rotate_left(amount)[high - field.bits : high] for amount in amounts
        )
        return first ^ second ^ third

    return [
        [
            pipe.combine(
                f"index_{function}_{number}",
                lambda state, amounts=words[field.word], field=field: index(state, amounts, field),
                state,
                levels=1,
            )
            for number, field in enumerate(fields)
        ]
        for function, words in enumerate(_shared_first(expand_rotations(fields, functions, seed)))
    ]


def _shared_first(rotations):
    """Order the rotation amounts so that hash functions can share XORs of two state bits."""

    def distance(pair):
        apart = abs(pair[0] - pair[1])
        return min(apart, STATE_BITS - apart)

    common = Counter(
        distance(pair)
        for words in rotations
        for amounts in words
        for pair in combinations(amounts, 2)
    )

    def ordered(amounts):
        pair = max(combinations(amounts, 2), key=lambda pair: common[distance(pair)])
        return *pair, *(amount for amount in amounts if amount not in pair)

    return [[ordered(amounts) for amounts in words] for words in rotations]


class StateHash(wiring.Component):
    """Computes the state of a key with `fold` and `mix` in `latency` cycles; one key per cycle."""

    def __init__(self, *, key_bits, seed, levels=DEFAULT_LEVELS):
        require_integer("Key width", key_bits, minimum=1)
        require_integer("Seed", seed)
        require_integer("Levels", levels, minimum=1)
        self._seed = seed
        self._levels = levels
        self.latency = hash_latency(key_bits, levels=levels)
        super().__init__({"key": In(key_bits), "state": Out(STATE_BITS)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, levels=self._levels)
        state = hashed_state(pipe, pipe.enter(self.key, "key"), self._seed)
        m.d.comb += self.state.eq(state.value)
        pipe.leave(state, latency=self.latency)
        return m


class Addresses(data.ArrayLayout):
    """Addresses of the bits of a key: one for each hash function and each part of a segment."""

    def __init__(self, *, spec):
        address = range(spec.part_bits)
        super().__init__(data.ArrayLayout(address, spec.parts), spec.hash_functions)


class KeyHash(wiring.Component):
    """Computes the addresses of a key with the hash of the specification; one key per cycle.

    The addresses follow `latency` cycles after the key. They are not registered, so that the
    receiver can add logic to the same stage. If `hashed` is true, `key` is already a hash state.
    """

    def __init__(self, *, spec, levels=DEFAULT_LEVELS, hashed=False):
        self._spec = spec
        self._levels = levels
        self._hashed = hashed
        self._keyed = spec.hash == "siphash" and not hashed
        self.latency = 0 if hashed else hash_latency(spec.key_bits, spec.hash, levels=levels)
        super().__init__(
            {
                # the key; 64 bits if it is a state
                "key": In(STATE_BITS if hashed else spec.key_bits),
                "addresses": Out(Addresses(spec=spec)),
            }
            # `secret`: with siphash only, see `SipHash`
            | ({"secret": In(SECRET_BITS)} if self._keyed else {})
        )

    def elaborate(self, platform):
        m = Module()
        spec = self._spec
        pipe = Pipeline(m, levels=self._levels)
        state = self._elaborate_state(m, pipe, pipe.enter(self.key, "key", reset_less=True))
        functions = expand(
            pipe, state, sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed
        )
        addresses = []
        for indices in functions:
            # First the indices that all parts share, then each part's own index.
            shared, separate = indices[: -spec.parts], indices[-spec.parts :]
            addresses += [pipe.combine("address", Cat, index, *shared) for index in separate]
        m.d.comb += self.addresses.eq(Cat(address.value for address in addresses))
        pipe.leave(*addresses, latency=self.latency)
        return m

    def _elaborate_state(self, m, pipe, key):
        if self._hashed:
            return key
        if not self._keyed:
            return hashed_state(pipe, key, self._spec.seed)
        m.submodules.siphash = siphash = SipHash(key_bits=self._spec.key_bits)
        m.d.comb += siphash.secret.eq(self.secret)
        hashed = pipe.drive(siphash, key=key) + siphash.latency
        return pipe.enter(siphash.state, "state", stage=hashed)
