"""Proofs for the ring and its segment memories."""

from functools import partial

from amaranth.hdl import Assume, Mux, Signal
from amaranth.lib.wiring import In

from ...hdl.control import Control
from ...hdl.latencies import PROTECTIONS
from ...hdl.memory.protection import Copies
from ...hdl.memory.segment import VARIANTS, PortableSegmentMemory, RegisteredSegmentMemory
from ...hdl.pipeline import delayed
from ...hdl.ring.ring import Ring
from ..toolchain import models
from .formal import Bounded, Proof, Unbounded
from .harness import AnyWord, Harness, Unreliable, constant, control_rules, make_one_wrong


class Undefined(AnyWord, PortableSegmentMemory):
    pass


class UndefinedRegistered(AnyWord, RegisteredSegmentMemory):
    pass


class SegmentAnswers(Harness):
    """Compares one arbitrary bit of a segment memory with a flip-flop.

    Reads during a clear are not checked, nor is a bit that was set just before another word is
    cleared.
    """

    @staticmethod
    def make(memory=Undefined, depth=16, clear_bits=4, shared_bits=0):
        return memory(depth=depth, clear_bits=clear_bits, shared_bits=shared_bits)

    def build(self, m):
        m.submodules.memory = memory = self._part
        cell = constant(m, range(memory.depth), "cell")
        known, bit, just_set = Signal(), Signal(), Signal()
        m.d.comb += Assume(~(memory.clear & memory.set))
        here = memory.address == cell
        m.d.sync += just_set.eq(memory.set & here)
        with m.If(memory.clear & (memory.clear_address == cell // memory.clear_bits)):
            m.d.sync += [bit.eq(0), known.eq(1)]
        with m.Elif(memory.clear & just_set):
            m.d.sync += known.eq(0)
        with m.Elif(memory.set & here):
            m.d.sync += [bit.eq(1), known.eq(1)]
        asked = delayed(m, known & here & ~memory.clear, memory.latency, "asked")
        expected = delayed(m, bit, memory.latency, "expected")
        self.require(~asked | self.is_correct(memory.bit, expected))
        self.reach("a bit that was set is read", asked & memory.bit)
        self.reach("a bit that was cleared is read", asked & ~memory.bit)

    def is_correct(self, bit, expected):
        return bit == expected


class UnreliableSegment(Unreliable, Undefined):
    def _late(self, m, bit):
        return self.answer(super()._late(m, bit))


class OneUnreliable(Copies):
    """Replicas of a segment memory, at most one of which returns arbitrary bits."""

    def __init__(self, *, number, **shape):
        copies = [UnreliableSegment(**shape) for _ in range(number)]
        super().__init__(copies, answers=["bit"], latency=copies[0].latency)
        self.depth, self.clear_bits = shape["depth"], shape["clear_bits"]

    def elaborate(self, platform):
        m = super().elaborate(platform)
        make_one_wrong(m, self.copies)
        return m


class SetAnswers(SegmentAnswers):
    def is_correct(self, bit, expected):
        return bit | ~expected


class RingContents(Harness):
    """Compares one arbitrary bit of a ring segment with a flip-flop."""

    def __init__(self, *, segments, run, depth, clear_bits, segment):
        self._segment, self._segments, self._run = segment, segments, run
        self._words = depth // clear_bits
        self._ring = Ring(segments=segments, run=run, clear_words=self._words)
        self._memory = PortableSegmentMemory(depth=depth, clear_bits=clear_bits)
        super().__init__({"control": In(Control), "address": In(range(depth))})

    def build(self, m):
        m.submodules.ring = ring = self._ring
        m.submodules.memory = memory = self._memory
        control, segment = self.control, self._segment
        cell = constant(m, range(memory.depth), "cell")
        m.d.comb += [
            Assume(control_rules(m, control, self._words)[0]),
            ring.insert.eq(control.insert),
            ring.shift.eq(control.shift),
            ring.clear.eq(control.clear),
            memory.address.eq(self.address),
            memory.set.eq(ring.set[segment]),
            memory.clear.eq(ring.clear_segments[segment]),
            memory.clear_address.eq(ring.clear_address),
        ]
        bit = Signal()
        # Position of the segment in the ring: 0 is the youngest, the last is the spare.
        position = Signal(self._segments, init=1 << segment)
        after = Mux(control.shift, position.rotate_left(1), position)
        bit_after = bit & ~(control.shift & after[0])
        writes = control.insert & (self.address == cell) & after[: self._run].any()
        m.d.sync += [position.eq(after), bit.eq(bit_after | writes)]
        with m.If(control.clear):
            m.d.sync += [position.eq(position.init), bit.eq(0)]

        asks = control.query & (self.address == cell) & ~position[-1]
        asked = delayed(m, asks, memory.latency, "asked")
        expected = delayed(m, bit, memory.latency, "expected")
        oldest = delayed(m, position[-2], memory.latency, "oldest")
        self.require(~asked | (memory.bit == expected))
        for age, is_of_age in (("youngest", ~oldest), ("oldest", oldest)):
            self.reach(f"a set bit is read in the {age} segment", asked & is_of_age & memory.bit)
            self.reach(f"a clear bit is read in the {age} segment", asked & is_of_age & ~memory.bit)


PROOFS = (
    *(
        Proof(
            name=f"segment answers{kind}",
            statement="An access returns the bit as all earlier accesses and clears left it, "
            "whatever the memory returns while the word is written.",
            design=f"segment memory, 16 bits, 4 cleared per cycle, portable{kind}",
            build=partial(SegmentAnswers, memory=memory),
        )
        for kind, memory in (("", Undefined), (", output register", UndefinedRegistered))
    ),
    *(
        Proof(
            name=f"segment answers, {variant}, {depth} bits",
            statement="An access returns the bit as all earlier accesses and clears left it, "
            "whatever the block RAM returns for reads that its vendor leaves undefined. Two ports "
            "never write the same bit in the same cycle.",
            design=f"segment memory, {depth} bits, {clear_bits} cleared per cycle, "
            + (f"{shared_bits} address bits shared, " if shared_bits else "")
            + variant,
            build=partial(
                SegmentAnswers,
                depth=depth,
                clear_bits=clear_bits,
                shared_bits=shared_bits,
                memory=VARIANTS[variant],
            ),
            method=Bounded(20) if variant.endswith("-strict") else Unbounded(),
            models=models(variant),
        )
        for variant, depth, clear_bits, shared_bits in (
            ("ecp5", 16, 4, 0),
            ("ecp5", 32, 16, 0),
            ("ecp5", 64, 4, 2),
            ("gowin", 16, 4, 0),
            ("gowin", 32, 16, 0),
            ("gowin", 64, 4, 2),
            ("ice40", 16, 16, 0),
            ("ice40", 32, 16, 0),
            ("ice40", 64, 16, 2),
            ("ecp5-strict", 16, 4, 0),
            ("ecp5-strict", 32, 8, 0),
            ("gowin-strict", 16, 4, 0),
            ("gowin-strict", 32, 8, 0),
            ("ice40-strict", 16, 16, 0),
            ("ice40-strict", 32, 16, 0),
        )
    ),
    *(
        Proof(
            name=f"segment answers, {kind}",
            statement=statement,
            design=f"segment memory, 8 bits, 4 cleared per cycle, {PROTECTIONS[kind]} replicas",
            build=partial(
                harness, depth=8, memory=partial(OneUnreliable, number=PROTECTIONS[kind])
            ),
        )
        for kind, harness, statement in (
            (
                "parity",
                SetAnswers,
                "A bit that was set is read as set, even if one replica returns arbitrary bits.",
            ),
            (
                "tmr",
                SegmentAnswers,
                "An access returns the correct bit, even if one replica returns arbitrary bits.",
            ),
        )
    ),
    *(
        Proof(
            name=f"ring contents, segment {segment}",
            statement="A segment in the ring contains exactly the bits that were set since it last "
            "became the youngest segment. No older bit remains after a shift.",
            design="ring of 3 segments and a spare, run 2, 8 bits per segment, 4 cleared per cycle",
            build=partial(RingContents, segments=4, run=2, depth=8, clear_bits=4, segment=segment),
        )
        for segment in range(4)
    ),
)
