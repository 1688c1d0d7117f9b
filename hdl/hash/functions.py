"""Keyed hash in hardware: the three steps of `lately.golden.hash.functions`, pipelined."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import (
    STATE_BITS,
    expand_rotations,
    fold_columns,
    index_fields,
    mix_constants,
)
from ..parameters import require_integer
from ..profile import FAN_IN, fold_latency


class Fold(wiring.Component):
    """H3 class: the 64-bit sum over GF(2) of the columns of the key's set bits.

    Latency `latency` clocks, one key per clock. Nothing is reset: what comes
    out is the fold of what went in `latency` clocks ago, whatever happens.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    seed : int
        Selects the columns.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, key_bits, seed):
        require_integer("Key width", key_bits, least=1)
        require_integer("Seed", seed)
        self._columns = fold_columns(key_bits, seed)
        self._initial = mix_constants(seed)[0]
        self.latency = fold_latency(key_bits)
        super().__init__({"key": In(key_bits), "state": Out(STATE_BITS)})

    def elaborate(self, platform):
        m = Module()
        # A column gated by its key bit; sums of four bits take only 15 values per column
        # group, so synthesis shares the first stage between the state bits.
        terms = [
            Mux(self.key[bit], Const(column, STATE_BITS), Const(0, STATE_BITS))
            for bit, column in enumerate(self._columns)
        ]
        for stage in range(self.latency):
            sums = []
            for index in range(0, len(terms), FAN_IN):
                total = Signal(STATE_BITS, name=f"sum{stage}_{index // FAN_IN}", reset_less=True)
                value = terms[index]
                for term in terms[index + 1 : index + FAN_IN]:
                    value = value ^ term
                if stage == self.latency - 1:
                    value = value ^ self._initial
                m.d.sync += total.eq(value)
                sums.append(total)
            terms = sums
        m.d.comb += self.state.eq(terms[0])
        return m


class Mix(wiring.Component):
    """Quadratic Feistel rounds, one per clock; each state bit needs one four-input table.

    Latency `latency` clocks, one state per clock. Nothing is reset.

    Parameters
    ----------
    seed : int
        Selects the constants.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, seed):
        require_integer("Seed", seed)
        self._rounds = mix_constants(seed)[1:]
        self.latency = len(self._rounds)
        super().__init__({"i": In(STATE_BITS), "o": Out(STATE_BITS)})

    def elaborate(self, platform):
        m = Module()
        half = STATE_BITS // 2
        right, left = self.i[:half], self.i[half:]
        for number, constant in enumerate(self._rounds):
            mixed = Signal(half, name=f"mixed{number}", reset_less=True)
            kept = Signal(half, name=f"kept{number}", reset_less=True)
            quadratic = left.rotate_left(1) & left.rotate_left(8)
            m.d.sync += [
                mixed.eq(right ^ quadratic ^ left.rotate_left(2) ^ constant),
                kept.eq(left),
            ]
            right, left = kept, mixed
        m.d.comb += self.o.eq(Cat(right, left))
        return m


class Expand(wiring.Component):
    """Cell indices of every hash function: each bit a sum of three state bits.

    Latency `latency` clocks, one state per clock. Nothing is reset.

    Parameters
    ----------
    sizes : sequence of int
        Ranges of the indices of one function, powers of two.
    functions : int
        Hash functions.
    seed : int
        Selects the rotations.

    Members
    -------
    state : In(64)
    index_F_I : Out(range(sizes[I]))
        Index number I of function number F.

    Raises
    ------
    ValueError
        If a size is not a power of two.
    TypeError
        If a parameter is not an integer.
    """

    def __init__(self, *, sizes, functions, seed):
        require_integer("Functions", functions, least=1)
        require_integer("Seed", seed)
        self._fields = index_fields(sizes)
        for field in self._fields:
            if not field.power_of_two:
                raise ValueError(f"Sizes must be powers of two, not {field.size}")
        self._rotations = expand_rotations(self._fields, functions, seed)
        self.latency = 1
        super().__init__(
            {"state": In(STATE_BITS)}
            | {
                f"index_{function}_{number}": Out(field.bits)
                for function in range(functions)
                for number, field in enumerate(self._fields)
            }
        )

    def indices(self, function):
        """Signals of one function, in the order of the sizes."""
        return [getattr(self, f"index_{function}_{number}") for number in range(len(self._fields))]

    def addresses(self, parts):
        """Addresses of all functions' bits: of each part its own index, then those they share.

        Parameters
        ----------
        parts : int
            Parts of a segment, which the last indices are of.
        """
        addresses = []
        for function in range(len(self._rotations)):
            indices = self.indices(function)
            shared, own = indices[:-parts], indices[-parts:]
            addresses += [Cat(index, *shared) for index in own]
        return Cat(addresses)

    def elaborate(self, platform):
        m = Module()
        for function, words in enumerate(self._rotations):
            for field, index in zip(self._fields, self.indices(function), strict=True):
                high = STATE_BITS - field.offset
                first, second, third = (
                    self.state.rotate_left(amount)[high - field.bits : high]
                    for amount in words[field.word]
                )
                registered = Signal(field.bits, name=f"{index.name}_register", reset_less=True)
                m.d.sync += registered.eq(first ^ second ^ third)
                m.d.comb += index.eq(registered)
        return m
