"""Keyed hash in hardware: the three steps of `lately.golden.hash.functions`, as a pipeline.

Each step takes and returns values of a `Pipeline`. The levels of the pipeline determine the number
of registers. The registers have no reset.
"""

from collections import Counter
from itertools import combinations

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import (
    STATE_BITS,
    expand_rotations,
    fold_columns,
    index_fields,
    mix_constants,
)
from ..latencies import (
    DEFAULT_LEVELS,
    FAN_IN,
    fold_steps,
    hash_latency,
)
from ..parameters import require_integer
from ..pipeline import Pipeline


def fold(pipe, key, seed):
    """Return the state of a key: the 64-bit sum over GF(2) of the columns of its set bits (H3).

    Parameters
    ----------
    pipe : Pipeline
    key : Staged
    seed : int
        Selects the columns.
    """
    columns = fold_columns(len(key), seed)

    def column(bit, key):
        return Mux(key[bit], Const(columns[bit], STATE_BITS), Const(0, STATE_BITS))

    def total(*terms):
        value = terms[0]
        for term in terms[1:]:
            value = value ^ term
        return value

    # The sum of four bits takes only 15 nonzero values per group of columns, so synthesis shares
    # the first step among the bits of the state.
    steps = fold_steps(len(key))
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
    for step in range(1, steps):
        terms = [
            pipe.step(f"sum{step}_{at // FAN_IN}", total, *terms[at : at + FAN_IN], reset_less=True)
            for at in range(0, len(terms), FAN_IN)
        ]
    return terms[0]


def mix(pipe, state, seed):
    """Return a state after the quadratic Feistel rounds, each bit of which needs one LUT.

    Parameters
    ----------
    pipe : Pipeline
    state : Staged
        State as returned by `fold`.
    seed : int
        Selects the constants.
    """
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


def expand(pipe, state, *, sizes, functions, seed):
    """Return the cell indices of every hash function: each bit a sum of three state bits.

    Synthesis shares sums of two bits among functions. The indices are not registered, so that the
    caller can add logic to their stage.

    Parameters
    ----------
    pipe : Pipeline
    state : Staged
    sizes : sequence of int
        Ranges of the indices of one function; powers of two.
    functions : int
        Number of hash functions.
    seed : int
        Selects the rotations.

    Returns
    -------
    list of list of Staged
        The indices of each function, in the order of the sizes.

    Raises
    ------
    ValueError
        If a size is not a power of two.
    """
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
    """Return the rotation amounts, ordered so that synthesis can share the first sum.

    In each group of three, the pair with the commonest distance comes first, because sums of two
    bits at the same distance are often equal in several functions.
    """

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
    """Computes the state of a key with `fold` and `mix`; one key per cycle.

    Latency `latency` cycles.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    seed : int
        Selects the constants.
    levels : int
        See `Pipeline`.

    Members
    -------
    key : In(key_bits)
    state : Out(64)

    Errors: as `require_integer`.
    """

    def __init__(self, *, key_bits, seed, levels=DEFAULT_LEVELS):
        require_integer("Key width", key_bits, least=1)
        require_integer("Seed", seed)
        require_integer("Levels", levels, least=1)
        self._seed = seed
        self._levels = levels
        self.latency = hash_latency(key_bits, levels=levels)
        super().__init__({"key": In(key_bits), "state": Out(STATE_BITS)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, levels=self._levels)
        state = mix(pipe, fold(pipe, pipe.enter(self.key, "key"), self._seed), self._seed)
        state = state.settled()
        m.d.comb += self.state.eq(state.value)
        pipe.leave(state, latency=self.latency)
        return m
