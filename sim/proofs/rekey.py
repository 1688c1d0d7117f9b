"""Proofs of re-keying: a new secret makes the hardware forget no key of the window."""

from functools import partial

from amaranth.hdl import Array, Assume, Cat, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import In

from ...golden.hash.siphash import SECRET_BITS
from ...golden.spec import APBFSpec
from ...hdl.hash.secrets import Secrets
from ...hdl.hash.siphash import SipHash
from ...hdl.latencies import CONTROL_LAG
from ...hdl.pipeline import delayed
from .core import AnyHash, GuaranteeOfCore, TrackedMemory, TrackingCore
from .formal import Bounded, Proof


class AnyKeyedHash(AnyHash):
    """Any hash under a secret: the key 0 has the indices of the secret, if the secret is stable.

    The secret must be stable from `SipHash.SETTLE` cycles before the key to `SipHash.HOLD` cycles
    after it. Secrets with the same two low bits have the same indices.
    """

    latency = SipHash.HOLD + 1

    def __init__(self, *, spec):
        super().__init__(spec=spec, secret=In(SECRET_BITS))

    def elaborate(self, platform):
        m = Module()
        secret = self.secret[:2]
        last = delayed(m, secret, 1, "last")
        # After a reset the unit clears for longer than a secret needs to settle.
        same = Signal(SipHash.SETTLE + SipHash.HOLD, init=-1)
        m.d.sync += same.eq(Cat(secret == last, same))
        steady = delayed(m, self.key == 0, self.latency, "own") & same.all()
        width = len(self.own.as_value())
        choices = [Signal(width, name=f"own_{number}") for number in range(4)]
        m.d.comb += [choice.eq(AnyConst(width)) for choice in choices]
        m.d.comb += [
            self.own.eq(Array(choices)[last]),
            self.addresses.eq(Mux(steady, self.own, AnySeq(width))),
        ]
        return m


class MovingMemory(TrackedMemory):
    """One tracked bit of a memory, at an address that changes; after a change it is arbitrary."""

    def find(self, m):
        moved = self.cell != delayed(m, self.cell, 1, "cell")
        return Mux(moved, AnySeq(1), self.held)


class RekeyingCore(TrackingCore):
    """The pipeline of a filter with re-keying, for one key whose cells depend on the secret."""

    def __init__(self, *, spec):
        super().__init__(spec=spec, key_hash=AnyKeyedHash, memory=MovingMemory)

    def cell(self, m, segment, part):
        first, second = (
            key_hash.own[segment % self._spec.hash_functions][part] for key_hash in self.hashes
        )
        cell = Mux(self.store.ring.pipelines[segment], second, first)
        return delayed(m, cell, 1, f"cell{segment}_{part}_")


class RekeyingGuarantee(GuaranteeOfCore):
    """`GuaranteeOfCore` with secrets at any time at which `Secrets` accepts one."""

    CORE = RekeyingCore

    def __init__(self, *, spec, goal=None):
        super().__init__(spec=spec, strengthen=False, goal=goal)
        self._secrets = Secrets(pipelines=2, ring_segments=spec.ring_segments)
        self.secret = Signal(2)
        self.offers = Signal()

    def build(self, m):
        m.submodules.secrets = secrets = self._secrets
        control, core = self.control, self._core
        m.d.comb += [
            self.secret.eq(AnySeq(2)),
            self.offers.eq(AnySeq(1)),
            secrets.i.valid.eq(self.offers),
            secrets.i.payload.eq(self.secret),
            secrets.turned.eq(control.shift | control.clear),
            secrets.cleared.eq(control.clear),
            core.secret0.eq(secrets.secret0),
            core.secret1.eq(secrets.secret1),
            Assume(control.adopt == delayed(m, secrets.adopt, 1, "adopt")),
        ]
        super().build(m)
        # A new secret arrived after the key.
        newer = Signal()
        own = delayed(m, self.own, CONTROL_LAG, "owns")
        with m.If(control.adopt & control.shift):
            m.d.sync += newer.eq(1)
        with m.If(control.clear | (control.insert & own)):
            m.d.sync += newer.eq(0)
        there = delayed(m, newer, core.latency - CONTROL_LAG, "newer")
        self.reach("a key of an older secret is queried", self.at_end & there)


PROOFS = (
    Proof(
        name="guarantee with re-keying",
        statement="A query reports an inserted key during all of the l shifts after its last "
        "insertion, for any new secrets. Two turns of the ring take 24 cycles.",
        design="pipelines without their hash and the secrets, APBF, k = 2, l = 1, slices of 4 "
        "bits; any hash, a bit of each memory tracked",
        build=partial(
            RekeyingGuarantee,
            spec=APBFSpec(
                k=2,
                l=1,
                slice_bits=4,
                key_bits=8,
                clear=2,
                generation=8,
                hash="siphash",
                rekey=True,
            ),
        ),
        method=Bounded(52),
    ),
)
"""Proofs of re-keying."""
