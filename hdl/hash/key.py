"""Hash of a ring: key in, addresses of its bits out."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ...golden.hash.siphash import SECRET_BITS
from ..latencies import DEFAULT_LEVELS, hash_latency
from ..pipeline import Pipeline
from .functions import expand, fold, mix
from .siphash import SipHash


class Addresses(data.ArrayLayout):
    """Addresses of a key's bits: for each hash function, one address in each part of a segment.

    Parameters
    ----------
    spec : FilterSpec
    """

    def __init__(self, *, spec):
        address = range(spec.part_bits)
        super().__init__(data.ArrayLayout(address, spec.parts), spec.hash_functions)


class KeyHash(wiring.Component):
    """Pipelined hash of the specification: computes the addresses of a key.

    Latency `latency` cycles, one key per cycle. A level of LUTs drives the addresses, not
    registers: the receiving component adds more logic to this stage.

    Parameters
    ----------
    spec : FilterSpec
    levels : int
        See `Pipeline`.
    hashed : bool
        Whether `key` is a state that another component has computed. Then only the addresses are
        computed here.

    Members
    -------
    key : In(key_bits)
        The key; 64 bits if it is a state.
    secret : In(128)
        With siphash only, see `SipHash`.
    addresses : Out(Addresses)
    """

    def __init__(self, *, spec, levels=DEFAULT_LEVELS, hashed=False):
        self._spec = spec
        self._levels = levels
        self._hashed = hashed
        self._keyed = spec.hash == "siphash" and not hashed
        self.latency = 0 if hashed else hash_latency(spec.key_bits, spec.hash, levels=levels)
        super().__init__(
            {
                "key": In(STATE_BITS if hashed else spec.key_bits),
                "addresses": Out(Addresses(spec=spec)),
            }
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
            shared, own = indices[: -spec.parts], indices[-spec.parts :]
            addresses += [pipe.combine("address", Cat, index, *shared) for index in own]
        m.d.comb += self.addresses.eq(Cat(address.value for address in addresses))
        pipe.leave(*addresses, latency=self.latency)
        return m

    def _elaborate_state(self, m, pipe, key):
        if self._hashed:
            return key
        if not self._keyed:
            return mix(pipe, fold(pipe, key, self._spec.seed), self._spec.seed).settled()
        m.submodules.siphash = siphash = SipHash(key_bits=self._spec.key_bits)
        m.d.comb += siphash.secret.eq(self.secret)
        hashed = pipe.drive(siphash, key=key) + siphash.latency
        return pipe.enter(siphash.state, "state", stage=hashed)
