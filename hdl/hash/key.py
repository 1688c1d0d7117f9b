"""From a key to the addresses of its bits."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS
from .functions import Expand, Fold, Mix
from .siphash import SipHash


class Addresses(data.ArrayLayout):
    """Addresses of a key's bits: for each hash function, one in each part of a segment.

    Parameters
    ----------
    spec : FilterSpec
    """

    def __init__(self, *, spec):
        address = range(spec.part_bits)
        super().__init__(data.ArrayLayout(address, spec.parts), spec.hash_functions)


class KeyHash(wiring.Component):
    """Addresses of a key: the hash of the specification, pipelined.

    Latency `latency` cycles, one key per cycle.

    Parameters
    ----------
    spec : FilterSpec

    Members
    -------
    key : In(key_bits)
    secret : In(128)
        With siphash only, see `SipHash`.
    addresses : Out(Addresses)
    """

    def __init__(self, *, spec):
        self._parts = spec.parts
        self._keyed = spec.hash == "siphash"
        if self._keyed:
            self._siphash = SipHash(key_bits=spec.key_bits)
            steps = [self._siphash]
        else:
            self._fold = Fold(key_bits=spec.key_bits, seed=spec.seed)
            self._mix = Mix(seed=spec.seed)
            steps = [self._fold, self._mix]
        self._expand = Expand(sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed)
        self.latency = sum(step.latency for step in (*steps, self._expand))
        super().__init__(
            {"key": In(spec.key_bits), "addresses": Out(Addresses(spec=spec))}
            | ({"secret": In(SECRET_BITS)} if self._keyed else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.expand = self._expand
        m.d.comb += self.addresses.eq(self._expand.addresses(self._parts))
        if self._keyed:
            m.submodules.siphash = siphash = self._siphash
            m.d.comb += [
                siphash.key.eq(self.key),
                siphash.secret.eq(self.secret),
                self._expand.state.eq(siphash.state),
            ]
        else:
            m.submodules.fold = fold = self._fold
            m.submodules.mix = mix = self._mix
            m.d.comb += [
                fold.key.eq(self.key),
                mix.i.eq(fold.state),
                self._expand.state.eq(mix.o),
            ]
        return m
