"""Proofs of whole pipelines: a key is reported until its window ends, also during re-keying."""

from functools import partial
from typing import Any

from amaranth.hdl import Array, Assume, Cat, Module, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden import preset
from ...golden.hash.siphash import SECRET_BITS
from ...golden.spec import APBFSpec, GEBFSpec
from ...hdl.control import Control
from ...hdl.hash.functions import Addresses
from ...hdl.hash.siphash import Secrets, SipHash
from ...hdl.latencies import CONTROL_LAG
from ...hdl.memory.segment import SegmentMemory
from ...hdl.pipeline import delayed
from ...hdl.ring.core import FilterCore, SegmentStore
from ...hdl.ring.profile import RingProfile
from ...hdl.ring.ring import Ring, RingDetector
from .formal import Bounded, Proof
from .harness import Harness, constant, control_rules


class AnyHash(wiring.Component):
    """Hash with arbitrary addresses; those of key 0, the tracked key, are constant."""

    latency = CONTROL_LAG + 1

    def __init__(self, *, spec, **members):
        addresses = Addresses(spec=spec)
        super().__init__(
            {"key": In(spec.key_bits), "addresses": Out(addresses), "tracked": Out(addresses)}
            | members
        )

    def elaborate(self, platform):
        m = Module()
        is_tracked = delayed(m, self.key == 0, self.latency, "was_tracked")
        width = len(self.tracked.as_value())
        m.d.comb += [
            self.tracked.eq(constant(m, width)),
            self.addresses.eq(Mux(is_tracked, self.tracked, AnySeq(width))),
        ]
        return m


class TrackedMemory(SegmentMemory):
    """Segment memory in which only one bit is tracked; other bits are read as arbitrary values."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.cell = Signal(range(self.depth))
        self.held = Signal()
        self.now = Signal()

    def before(self, m):
        return self.held

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.now.eq(self.before(m))
        here = self.address == self.cell
        swept = self.clear_address == self.cell[exact_log2(self.clear_bits) :]
        just_set = Signal()
        m.d.sync += [self.held.eq(self.now), just_set.eq(self.set & here)]
        with m.If(self.clear):
            m.d.sync += self.held.eq(Mux(just_set, AnySeq(1), self.now) & ~swept)
        with m.Elif(self.set & here):
            m.d.sync += self.held.eq(1)
        bit = Mux(here & ~self.clear, self.now, AnySeq(1))
        m.d.comb += self.bit.eq(delayed(m, bit, self.latency, "bit"))
        return m


class TrackingCore(FilterCore):
    def __init__(self, *, spec, key_hash=AnyHash, memory=TrackedMemory):
        self._spec = spec
        profile = RingProfile.of(spec)
        hashes = [key_hash(spec=spec) for _ in range(2 if spec.rekey else 1)]
        super().__init__(
            hashes=hashes,
            store=SegmentStore(
                spec=spec, profile=profile, memory=memory, hashes=len(hashes), ring=Ring
            ),
            detector=RingDetector(
                segments=spec.segments,
                parts=spec.parts,
                run=spec.run,
                starts=spec.window_generations + 1,
            ),
            clear_cycles=profile.clear_cycles,
        )

    @property
    def selected(self):
        return self.addresses_latency - self.control_lag

    def elaborate(self, platform):
        m = super().elaborate(platform)
        for segment, memories in enumerate(self.store.memories):
            for part, memory in enumerate(memories):
                m.d.comb += memory.cell.eq(self.cell(m, segment, part))
        return m

    def cell(self, m, segment, part):
        return self.hashes[0].tracked[segment % self._spec.hash_functions][part]


class GuaranteeOfCore(Harness):
    """An inserted key is reported while its age in generations does not exceed the window.

    Control flags are assumed to follow the rules of the ring, as `SpareInTime` proves. With
    `strengthen`, inductive invariants are required as well.
    """

    CORE: Any = TrackingCore

    def __init__(self, *, spec, strengthen=True):
        self._strengthens = strengthen
        self._spec = spec
        self._window = spec.window_generations
        self._core = self.CORE(spec=spec)
        super().__init__({"control": In(Control), "tracked": In(1)})

    def build(self, m):
        m.submodules.core = core = self._core
        control, window, lag = self.control, self._window, CONTROL_LAG
        kept, left = control_rules(m, control, core.clear_cycles)
        m.d.comb += [
            Assume(kept),
            core.control.eq(control),
            core.key.eq(~self.tracked),
        ]
        tracked = delayed(m, self.tracked, lag, "was_tracked")
        known = Signal()
        age = Signal(range(window + 2))
        with m.If(control.clear):
            m.d.sync += known.eq(0)
        with m.Elif(control.insert & tracked):
            m.d.sync += [known.eq(1), age.eq(0)]
        with m.Elif(control.shift & (age <= window)):
            m.d.sync += age.eq(age + 1)
        asks = control.query & tracked & known & (age <= window)
        latency = core.latency - lag
        asked = delayed(m, asks, latency, "asked")
        oldest = delayed(m, age == window, latency, "oldest")
        self.require(~asked | core.verdict.seen)
        self.at_end = asked & oldest
        self.reach("a key at the end of its window is queried", self.at_end)
        if self._strengthens:
            holds = self._strengthen(m, tracked, known, age, asks)
            # The sweep runs when required, and never clears the bits of the key or a bit being set.
            ring = core.store.ring
            written, swept, address = ring.set, ring.clear_segments, ring.clear_address
            late = delayed(m, left, core.selected, "left")
            self.require((late != 0) == swept.any())
            self.require((late == 0) | (address == core.clear_cycles - late))
            # Between a CLEAR and its sweep, an earlier sweep may continue at another address.
            still = delayed(m, holds, core.selected - 1, "still")
            kept = still & delayed(m, still, 1, "kept")
            self.require((swept & (written | kept)) == 0)

    def _strengthen(self, m, tracked, known, age, asks):
        core, control, spec = self._core, self.control, self._spec
        segments, run = spec.segments, spec.run
        # One-hot: the physical segment that is youngest. It moves down by one at a shift.
        youngest = Signal(segments, init=1)
        after = Signal(segments)
        m.d.comb += after.eq(Mux(control.shift, youngest.rotate_right(1), youngest))
        m.d.sync += youngest.eq(after)
        with m.If(control.clear):
            m.d.sync += youngest.eq(1)
        holds = Signal(segments)
        for segment in range(segments):
            written = Cat(after[(segment - position) % segments] for position in range(run)).any()
            spare = after[(segment + 1) % segments]
            m.d.sync += holds[segment].eq(
                ((holds[segment] & ~(control.shift & spare)) | (control.insert & tracked & written))
                & ~control.clear
            )
        logical = [
            Cat(
                youngest[(segment - position) % segments] & holds[segment]
                for segment in range(segments)
            ).any()
            for position in range(spec.ring_segments)
        ]
        for start in range(spec.window_generations + 1):
            self.require(~(known & (age == start)) | Cat(logical[start : start + run]).all())
        asking = delayed(m, tracked, core.selected, "asking")
        positions = delayed(m, youngest, core.selected, "positions")
        for segment in range(segments):
            spare = positions[(segment + 1) % segments]
            memories = core.store.memories[segment]
            reads = Cat(memory.address == memory.cell for memory in memories).all()
            self.require(~asking | spare | reads)
            held = delayed(m, holds[segment], core.selected, f"holds{segment}_")
            self.require(~held | Cat(memory.now for memory in memories).all())
        matched = core.selected + core.store.latency + core.detector.matches_latency
        asked = delayed(m, asks, matched, "awaited")
        then = delayed(m, age, matched, "then")
        for start in range(spec.window_generations + 1):
            matches = core.detector.matches[start : start + run].all()
            self.require(~(asked & (then == start)) | matches)
        return holds


_SPECS = {
    "APBF, k = 3, l = 2, slices of 4 bits": APBFSpec(
        k=3, l=2, slice_bits=4, key_bits=8, clear=2, generation=8
    ),
    "APBF, k = 2, l = 5, slices of 8 bits": APBFSpec(
        k=2, l=5, slice_bits=8, key_bits=8, clear=4, generation=8
    ),
    "preset apbbf-tiny": preset("apbbf-tiny"),
    "preset gebf-tiny": preset("gebf-tiny"),
    "GEBF, r = 8, parts of 8 bits": GEBFSpec(
        window=64, epochs=8, hashes=2, bits=9 * 2 * 8, key_bits=8, clear=4
    ),
    "preset blocked-gebf-tiny": preset("blocked-gebf-tiny"),
}


class AnyKeyedHash(AnyHash):
    """Arbitrary hash with a secret, whose two low bits determine the addresses of key 0.

    The secret must be stable from `SipHash.SETTLE` cycles before the key to `SipHash.HOLD` cycles
    after it; otherwise the addresses are arbitrary.
    """

    latency = SipHash.HOLD + 1

    def __init__(self, *, spec):
        super().__init__(spec=spec, secret=In(SECRET_BITS))

    def elaborate(self, platform):
        m = Module()
        secret = self.secret[:2]
        last = delayed(m, secret, 1, "last")
        # After a reset, clearing takes longer than a secret needs to settle.
        same = Signal(SipHash.SETTLE + SipHash.HOLD, init=-1)
        m.d.sync += same.eq(Cat(secret == last, same))
        steady = delayed(m, self.key == 0, self.latency, "was_tracked") & same.all()
        width = len(self.tracked.as_value())
        choices = [constant(m, width, f"tracked_{number}") for number in range(4)]
        m.d.comb += [
            self.tracked.eq(Array(choices)[last]),
            self.addresses.eq(Mux(steady, self.tracked, AnySeq(width))),
        ]
        return m


class MovingMemory(TrackedMemory):
    """`TrackedMemory` whose tracked bit becomes arbitrary when the address of the bit changes."""

    def before(self, m):
        moved = self.cell != delayed(m, self.cell, 1, "cell")
        return Mux(moved, AnySeq(1), self.held)


class RekeyingCore(TrackingCore):
    def __init__(self, *, spec):
        super().__init__(spec=spec, key_hash=AnyKeyedHash, memory=MovingMemory)

    def cell(self, m, segment, part):
        first, second = (
            key_hash.tracked[segment % self._spec.hash_functions][part] for key_hash in self.hashes
        )
        cell = Mux(self.store.ring.pipelines[segment], second, first)
        return delayed(m, cell, 1, f"cell{segment}_{part}_")


class RekeyingGuarantee(GuaranteeOfCore):
    CORE = RekeyingCore

    def __init__(self, *, spec):
        super().__init__(spec=spec, strengthen=False)
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
        # The secret changed after the key was inserted.
        newer = Signal()
        tracked = delayed(m, self.tracked, CONTROL_LAG, "was_tracked")
        with m.If(control.adopt & control.shift):
            m.d.sync += newer.eq(1)
        with m.If(control.clear | (control.insert & tracked)):
            m.d.sync += newer.eq(0)
        there = delayed(m, newer, core.latency - CONTROL_LAG, "newer")
        self.reach("a key of an older secret is queried", self.at_end & there)


PROOFS = (
    *(
        Proof(
            name=f"guarantee, {name}",
            statement="A query reports an inserted key until l (APBF) or r (GEBF) shifts have "
            "followed its last insertion.",
            design=f"pipeline with an arbitrary hash, {name}; one bit of each memory is tracked",
            build=partial(GuaranteeOfCore, spec=spec),
            smaller=(
                f"pipeline with an arbitrary hash, {name}; one bit of each memory is tracked",
                partial(GuaranteeOfCore, spec=spec, strengthen=False),
            ),
        )
        for name, spec in _SPECS.items()
    ),
    Proof(
        name="guarantee with re-keying",
        statement="A query reports an inserted key until l shifts have followed its last "
        "insertion, even if the secret changes. Two rotations of the ring take 24 cycles.",
        design="two pipelines with arbitrary hashes, and the registers of secrets, APBF, k = 2, "
        "l = 1, slices of 4 bits; one bit of each memory is tracked",
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
