"""Stores of a ring's segments, with a separate memory for each part."""

from functools import partial

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..hash.key import Addresses
from ..memory.copies import protected
from ..memory.variants import segment_memory
from ..pipeline import Pipeline
from .ring import Ring


class StoreSignature(wiring.Signature):
    """Ports of a store, independent of its memory layout.

    One operation per cycle; `bits` and `base` are valid `latency` cycles later. A query sees all
    earlier insertions. The core must follow the rules of `Ring` or observe `clean`. The inputs
    need not be registered.

    Parameters
    ----------
    spec : FilterSpec
    hashes : int
        Number of hash pipelines in use at the same time.
    latency : int
    upsets : bool
        Whether upsets are detected.
    checks : bool
        Whether the masks of the ring are checked.

    Members
    -------
    control : In(Control)
    addresses0, ... : In(Addresses)
        One for each of `hashes`, with `control`.
    bits : Out(segments * parts)
        Bit of part P of segment S at position ``S * parts + P``.
    base : Out(range(segments))
        Physical segment that was the youngest at the start of the operation.
    clean : Out(1)
        Whether the spare is clean. Always high if clearing takes a fixed time.
    upset : Out(1)
        With `upsets` only: an operation has read a bit whose copies differ. Some cycles after the
        bits.
    illegal : Out(1)
        With `checks` only: the masks of the ring are illegal.
    """

    def __init__(self, *, spec, latency, hashes=1, upsets=False, checks=False):
        self.latency = latency
        self.hashes = hashes
        addresses = Addresses(spec=spec)
        super().__init__(
            {
                "control": In(Control),
                "bits": Out(spec.segments * spec.parts),
                "base": Out(range(spec.segments)),
                "clean": Out(1, init=1),
            }
            | {f"addresses{number}": In(addresses) for number in range(hashes)}
            | ({"upset": Out(1)} if upsets else {})
            | ({"illegal": Out(1)} if checks else {})
        )


class SegmentStore(wiring.Component):
    """Store of a ring, with a separate memory for each part of each segment.

    Parameters
    ----------
    spec : FilterSpec
    profile : RingProfile
        Figures of the unit that contains the store.
    memory : str or callable
        Variant of the segment memories, or a callable that replaces `segment_memory`.
    hashes : int
        1, or 2 if each segment selects one of two hash pipelines: see `Ring`.

    Members
    -------
    See `StoreSignature`.

    Raises
    ------
    ValueError
        If the variant is unknown, or there are more than two hashes.
    """

    def __init__(self, *, spec, profile, memory="portable", hashes=1, ring=Ring):
        if hashes not in (1, 2):
            raise ValueError(f"Hashes must be 1 or 2, not {hashes!r}")
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
        # Two hashes add a register after their selection.
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
            found = pipe.combine(
                "found",
                lambda cleared: Cat(
                    bank.upset & ~cleared[segment]
                    for segment, parts in enumerate(self.memories)
                    for bank in parts
                ),
                cleared,
            )
            m.d.comb += self.upset.eq(told_upset(pipe, found, control).value)
        if "illegal" in self.signature.members:
            m.d.comb += self.illegal.eq(ring.illegal)
        return m

    def _elaborate_address(self, pipe, segment, part):
        """Return the address of a part of a segment, by the hash of the segment."""
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


def told_upset(pipe, found, control):
    """Return whether an operation read a bit whose copies differ.

    Parameters
    ----------
    pipe : Pipeline
    found : Staged
        Flags, one for each pair of copies.
    control : Staged
        `Control` of the operation.
    """
    upset = ~pipe.all_of("upset", ~found)
    asked = (control["query"] | control["insert"]).at(upset.stage)
    return (upset & asked).at(upset.stage + 1)
