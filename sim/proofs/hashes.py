"""Proofs of the hash: for every key, the hardware computes the same as the golden model.

The scalar golden model runs with symbols instead of integers, and its operations on symbols build a
circuit.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, Signal
from amaranth.lib.wiring import In

from ...golden.hash.scalar_hash import ScalarHash
from ...golden.spec.presets import preset
from ...hdl.hash.key import KeyHash
from ...hdl.latencies import hash_latency
from ...hdl.pipeline import delayed
from .formal import Proof, Unrolled
from .harness import Harness


class Symbol:
    """Non-negative integer that a circuit computes."""

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
    """The addresses of any key in any cycle, compared with the addresses of the golden model."""

    def __init__(self, *, spec, goal=None):
        self._spec = spec
        self._hash = KeyHash(spec=spec)
        super().__init__({"key": In(spec.key_bits)}, goal=goal)

    def build(self, m):
        spec = self._spec
        m.submodules.hash = dut = self._hash
        m.d.comb += dut.key.eq(self.key)
        key = Symbol(m, delayed(m, self.key, dut.latency, "key", reset_less=True))
        require_golden(self, spec, dut, delayed(m, Const(1), dut.latency, "begun"), key)


def require_golden(harness, spec, dut, asked, key, *secret):
    """Require the golden model's addresses for a key, while `asked` is high."""
    golden: Any = ScalarHash(
        sizes=spec.index_sizes,
        functions=spec.hash_functions,
        seed=spec.seed,
        key_bits=spec.key_bits,
        hash=spec.hash,
    )
    for function in range(spec.hash_functions):
        indices = golden(key, function, *secret)
        shared, own = indices[: -spec.parts], indices[-spec.parts :]
        for part, index in enumerate(own):
            address = Cat(place.value for place in (index, *shared))
            harness.require(~asked | (dut.addresses[function][part] == address))


_SPECS = {
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

PROOFS = tuple(
    Proof(
        name=f"hash, {name}",
        statement="For every key, the addresses equal the golden model's.",
        design=f"keys to addresses, {name}",
        build=partial(HashIsGolden, spec=spec),
        method=Unrolled(hash_latency(spec.key_bits) + 1),
    )
    for name, spec in _SPECS.items()
)
"""Proofs of the hash."""
