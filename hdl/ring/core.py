"""Core of a ring filter: hash pipelines, segment memories and a detector."""

from functools import partial

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Control, CoreSignature, Verdict
from ..hash.functions import Addresses, KeyHash
from ..latencies import CONTROL_LAG
from ..memory.protection import protected
from ..memory.segment import segment_memory
from ..pipeline import Pipeline
from .ring import Ring, RingDetector


class StoreSignature(wiring.Signature):
    """Ports of a segment store, independent of the layout of its memories.

    A store accepts one operation per cycle; `bits` and `base` are valid `latency` cycles later. A
    query sees all earlier insertions. The component that drives the store must follow the timing
    rules of `Ring` or wait for `clean`.
    """

    def __init__(self, *, spec, latency, hashes=1, upsets=False, checks=False):
        self.latency = latency
        self.hashes = hashes
        addresses = Addresses(spec=spec)
        # `addresses0`: one port for each of `hashes`, valid with `control`
        super().__init__(
            {
                "control": In(Control),
                # bit of part P of segment S at position ``S * parts + P``
                "bits": Out(spec.segments * spec.parts),
                # physical segment that was the youngest at the start of the operation
                "base": Out(range(spec.segments)),
                # whether the spare is clean. Always high if clearing takes a fixed time.
                "clean": Out(1, init=1),
            }
            | {f"addresses{number}": In(addresses) for number in range(hashes)}
            # `upset`, with `upsets`: some cycles after an operation has read a bit whose replicas
            # differ
            | ({"upset": Out(1)} if upsets else {})
            # `illegal`, with `checks`: the masks of the ring are illegal
            | ({"illegal": Out(1)} if checks else {})
        )


class SegmentStore(wiring.Component):
    """Segments of a ring; each part of each segment has its own memory."""

    def __init__(
        self,
        *,
        spec,
        profile,  # profile of the unit that contains the store
        # variant of the segment memories, or a callable that replaces `segment_memory`
        memory="portable",
        hashes=1,  # 1, or 2 if each segment selects one of two hash pipelines: see `Ring`
        ring=Ring,
    ):
        if hashes not in (1, 2):
            raise ValueError(f"Number of hashes must be 1 or 2, not {hashes!r}")
        self._spec = spec
        checks = {"check": True} if profile.self_check else {}
        self.ring = ring(
            segments=spec.segments, run=spec.run, clear_words=profile.clear_cycles, **checks
        )
        shape = {
            "depth": spec.part_bits,
            "clear_bits": spec.clear,
            "address_registers": profile.address_registers,
            "shared_bits": (spec.part_bits // spec.index_sizes[-1]).bit_length() - 1,
        }
        build = memory if callable(memory) else partial(segment_memory, memory)
        build = partial(build, **shape)
        self.memories = [
            [protected(build, copies=profile.copies, answers=["bit"]) for _ in range(spec.parts)]
            for _ in range(spec.segments)
        ]
        # With two hashes, a register follows their selection.
        self.latency = (hashes > 1) + self.memories[0][0].latency
        self._upsets = profile.copies > 1
        super().__init__(
            StoreSignature(
                spec=spec,
                latency=self.latency,
                hashes=hashes,
                upsets=self._upsets,
                checks=profile.self_check,
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = self.ring
        pipe = Pipeline(m)
        control = pipe.enter(self.control, "control")
        flags = {name: control[name] for name in ("insert", "shift", "clear")}
        if self.signature.hashes == 2:
            flags["adopt"] = control["adopt"]
        pipe.drive(ring, **flags)
        begun = self.signature.hashes - 1
        written = pipe.enter(ring.set, "set").at(begun)
        clear = pipe.enter(ring.clear_segments, "clear").at(begun)
        clear_address = pipe.enter(ring.clear_address, "clear_address", reset_less=True).at(begun)
        bits = []
        for segment, parts in enumerate(self.memories):
            for part, bank in enumerate(parts):
                m.submodules[f"segment{segment}_part{part}"] = bank
                come = pipe.drive(
                    bank,
                    address=self._elaborate_address(pipe, segment, part),
                    set=written[segment],
                    clear=clear[segment],
                    clear_address=clear_address,
                )
                bits.append(pipe.enter(bank.bit, f"bit{segment}_{part}", stage=come + bank.latency))
        base = pipe.enter(ring.base, "base", reset_less=True).at(pipe.stage(*bits))
        m.d.comb += [self.bits.eq(Cat(bit.value for bit in bits)), self.base.eq(base.value)]
        pipe.leave(base, *bits, latency=self.latency)
        if self._upsets:
            # While a segment is cleared, its bits are undefined.
            cleared = clear.at(base.stage)
            unlike = pipe.combine(
                "upsets",
                lambda cleared: Cat(
                    bank.upset & ~cleared[segment]
                    for segment, parts in enumerate(self.memories)
                    for bank in parts
                ),
                cleared,
            )
            m.d.comb += self.upset.eq(reported_upset(pipe, unlike, control).value)
        if "illegal" in self.signature.members:
            m.d.comb += self.illegal.eq(ring.illegal)
        return m

    def _elaborate_address(self, pipe, segment, part):
        """Return the address in a part of a segment, computed by the hash that the segment uses."""
        function = segment % self._spec.hash_functions
        candidates = [
            pipe.enter(
                getattr(self, f"addresses{number}")[function][part],
                f"address{segment}_{part}_{number}",
                reset_less=True,
            )
            for number in range(self.signature.hashes)
        ]
        if len(candidates) == 1:
            return candidates[0]
        others = pipe.enter(self.ring.pipelines[segment], f"pipeline{segment}")
        return pipe.register(
            f"address{segment}_{part}",
            lambda other, first, second: Mux(other, second, first),
            others,
            *candidates,
            reset_less=True,
        )


def reported_upset(pipe, unlike, control):
    """Return whether an operation has read a bit whose replicas differ."""
    upset = ~pipe.all_of("upset", ~unlike)
    asked = (control["query"] | control["insert"]).at(upset.stage)
    return (upset & asked).at(upset.stage + 1)


class FilterCore(wiring.Component):
    """Pipeline of a ring: hash, segments and detector. See `CoreSignature` for the contract.

    The component that drives the core must follow the rules of `Ring`: it waits at least
    ``clear_words`` cycles between two shifts, and keeps the core idle for as many cycles after a
    clear. If the store reports `clean`, the component must wait for `clean` instead.
    """

    def __init__(
        self,
        *,
        # each with `key`, `addresses`, the same `latency`, and `secret` if keyed. A ring with two
        # secrets has two hashes.
        hashes,
        store,  # with a `StoreSignature`
        detector,
        clear_cycles,  # see `CoreSignature`
        control_lag=CONTROL_LAG,  # cycles from a key to its control
        timed=False,  # whether there is a `limit`, see `CoreSignature`
    ):
        latencies = sorted({key_hash.latency for key_hash in hashes})
        if len(latencies) != 1:
            raise ValueError(f"Hashes must all have the same latency, not {latencies}")
        if len(hashes) != store.signature.hashes:
            raise ValueError(
                f"Number of hashes must be {store.signature.hashes} for this store, "
                f"not {len(hashes)}"
            )
        self.hashes = hashes
        self.store = store
        self.detector = detector
        self.clear_cycles = clear_cycles
        self.control_lag = control_lag
        # cycles from a key to its addresses; a fast hash waits for the control flags
        self.addresses_latency = max(control_lag, latencies[0])
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
        stage = pipe.drive(detector, bits=bits, base=base, query=query) + detector.latency
        verdict = pipe.enter(detector.verdict, "verdict", stage=stage)
        seen = detector.verdict.seen
        if self._timed:
            seen = self.verdict.seen
            limit = pipe.enter(self.limit, "limit", stage=self.control_lag, reset_less=True)
            verdict = pipe.register("timely", _timely, verdict, limit)
            stage += 1
        flags = {name: control[name].at(stage) for name in ("valid", "insert", "shift")}
        m.d.comb += [
            self.clean.eq(store.clean),
            self.valid_next.eq(control["valid"].at(stage - 1).value),
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
    """Return the verdict, changed to "not seen" if the age has reached the limit."""
    seen = verdict.seen & (verdict.age < limit)
    return Cat(seen, verdict.age & seen.replicate(len(verdict.age)))


def ring_core(
    spec,  # specification of the unit, or of one shard
    profile,  # profile of the unit that contains the core
    *,
    hashed=False,  # whether keys are states that another component has hashed
    control_lag=CONTROL_LAG,
):
    """Build the `FilterCore` for a specification and the profile of its unit."""
    levels = profile.levels
    hashes = [
        KeyHash(spec=spec, levels=levels, hashed=hashed) for _ in range(2 if spec.rekey else 1)
    ]
    return FilterCore(
        hashes=hashes,
        store=SegmentStore(spec=spec, profile=profile, memory=profile.memory, hashes=len(hashes)),
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
