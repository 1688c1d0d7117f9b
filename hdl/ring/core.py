"""Core of a ring filter: hashes, a store and a detector."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import CoreSignature, Verdict
from ..hash.key import KeyHash
from ..latencies import CONTROL_LAG
from ..pipeline import Pipeline
from .detector import RingDetector
from .profile import RingProfile
from .separate import SegmentStore


class FilterCore(wiring.Component):
    """Pipeline of a ring: hash, segments and detector.

    See `CoreSignature` for the contract. The component that drives the core must follow the rules
    of `Ring`: at least ``clear_words`` cycles between two shifts, and as many idle cycles after a
    clear. If the store reports `clean`, it must wait for `clean` instead.

    Parameters
    ----------
    hashes : list of Component
        Each with `key`, `addresses`, the same `latency`, and `secret` if keyed. A ring with two
        secrets has two hashes.
    store : Component
        With a `StoreSignature`.
    detector : RingDetector
    clear_cycles : int
        See `CoreSignature`.
    control_lag : int
        Cycles from a key to its control.
    timed : bool
        See `CoreSignature`.

    Members
    -------
    See `CoreSignature`.

    Raises
    ------
    ValueError
        If the latencies of the hashes differ, or the store needs another number of hashes.
    """

    def __init__(
        self, *, hashes, store, detector, clear_cycles, control_lag=CONTROL_LAG, timed=False
    ):
        latencies = sorted({key_hash.latency for key_hash in hashes})
        if len(latencies) != 1:
            raise ValueError(f"Hashes must have one latency, not {latencies}")
        if len(hashes) != store.signature.hashes:
            raise ValueError(f"Hashes must be {store.signature.hashes}, not {len(hashes)}")
        self.hashes = hashes
        self.store = store
        self.detector = detector
        self.clear_cycles = clear_cycles
        self.control_lag = control_lag
        # A fast hash waits for the control.
        self.addresses_latency = max(control_lag, latencies[0])
        """Cycles from a key to its addresses."""
        self.latency = self.addresses_latency + store.latency + detector.latency + timed
        self._timed = timed
        super().__init__(
            CoreSignature(
                key_bits=len(hashes[0].key),
                verdict=Verdict(ages=detector.starts),
                secrets=len(hashes) if "secret" in hashes[0].signature.members else 0,
                events=["shift", *(["upset"] if "upset" in store.signature.members else [])],
                others=({"limit": In(range(detector.starts + 1))} if timed else {})
                | ({"illegal": Out(1)} if "illegal" in store.signature.members else {}),
            )
        )

    def elaborate(self, platform):
        m = Module()
        store, detector = self.store, self.detector
        m.submodules.store = store
        m.submodules.detector = detector
        pipe = Pipeline(m)
        hashing = self.addresses_latency
        key = pipe.enter(self.key, "key", reset_less=True)
        key = key.at(hashing - self.hashes[0].latency)
        control = pipe.enter(self.control, "control", stage=self.control_lag)
        addresses = {}
        for number, key_hash in enumerate(self.hashes):
            m.submodules[f"hash{number}"] = key_hash
            pipe.drive(key_hash, key=key)
            if self.signature.secrets:
                m.d.comb += key_hash.secret.eq(getattr(self, f"secret{number}"))
            name = f"addresses{number}"
            addresses[name] = pipe.enter(key_hash.addresses, name, stage=hashing)
        read = pipe.drive(store, control=control.at(hashing), **addresses) + store.latency
        bits = pipe.enter(store.bits, "bits", stage=read)
        base = pipe.enter(store.base, "base", stage=read)
        query = control["query"].at(read)
        found = pipe.drive(detector, bits=bits, base=base, query=query) + detector.latency
        verdict = pipe.enter(detector.verdict, "verdict", stage=found)
        seen = detector.verdict.seen
        if self._timed:
            seen = self.verdict.seen
            limit = pipe.enter(self.limit, "limit", stage=self.control_lag, reset_less=True)
            verdict = pipe.register("timely", _timely, verdict, limit)
            found += 1
        flags = {name: control[name].at(found) for name in ("valid", "insert", "shift")}
        m.d.comb += [
            self.clean.eq(store.clean),
            self.valid_next.eq(control["valid"].at(found - 1).value),
            self.verdict.as_value().eq(verdict.value),
            self.hit.eq(flags["valid"].value & seen),
            *(getattr(self, name).eq(flag.value) for name, flag in flags.items()),
        ]
        if "upset" in store.signature.members:
            m.d.comb += self.fault.eq(store.upset)
        if "illegal" in store.signature.members:
            m.d.comb += self.illegal.eq(store.illegal)
        pipe.leave(verdict, latency=self.latency)
        return m


def _timely(verdict, limit):
    """Return a verdict without runs that start at the limit or later."""
    seen = verdict.seen & (verdict.age < limit)
    return Cat(seen, verdict.age & seen.replicate(len(verdict.age)))


def ring_core(
    spec,
    *,
    memory="portable",
    hashed=False,
    profile=None,
    control_lag=CONTROL_LAG,
):
    """Return the core of a specification.

    Parameters
    ----------
    spec : FilterSpec
        Filter to build; must pass `RingProfile.check_buildable`.
    memory : str or callable
        Variant of the memories, or a callable that builds a memory.
    hashed : bool
        Whether keys are states that another component has hashed.
    profile : RingProfile, optional
        Figures of the unit that contains the core, if there are several cores.
    control_lag : int
        As for `FilterCore`.

    Returns
    -------
    FilterCore

    Raises
    ------
    SpecificationError
        If the hardware cannot implement the specification.
    ValueError
        If the variant of the memory is unknown.
    """
    if profile is None:
        name = memory if isinstance(memory, str) else "portable"
        profile = RingProfile.of(spec, memory=name)
    profile.check_buildable()
    levels = profile.levels
    hashes = [
        KeyHash(spec=spec, levels=levels, hashed=hashed) for _ in range(2 if spec.rekey else 1)
    ]
    return FilterCore(
        hashes=hashes,
        store=SegmentStore(spec=spec, profile=profile, memory=memory, hashes=len(hashes)),
        detector=RingDetector(
            segments=spec.segments,
            parts=spec.parts,
            run=spec.run,
            starts=spec.window_generations + 1,
            levels=levels,
        ),
        clear_cycles=profile.clear_cycles,
        control_lag=control_lag,
        timed=spec.timed,
    )
