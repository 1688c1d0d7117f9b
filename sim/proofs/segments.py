"""Proofs for the ring and its segment memories."""

from functools import partial

from amaranth.hdl import Assume, Mux, Signal
from amaranth.hdl._ast import AnyConst
from amaranth.lib.wiring import In

from ...hdl.control import Control
from ...hdl.latencies import PROTECTIONS
from ...hdl.memory.protection import Copies
from ...hdl.memory.segment import VARIANTS, PortableSegmentMemory, RegisteredSegmentMemory
from ...hdl.pipeline import delayed
from ...hdl.ring.ring import Ring
from ..toolchain import models
from .formal import Bounded, Proof, Unbounded
from .harness import AnyWord, Harness, Rules, Unreliable, one_lies


class Undefined(AnyWord, PortableSegmentMemory):
    """Memory without an output register; where a word is undefined, it returns an arbitrary one."""


class UndefinedRegistered(AnyWord, RegisteredSegmentMemory):
    """Memory with an output register; where a word is undefined, it returns an arbitrary one."""


class SegmentAnswers(Harness):
    """One arbitrary bit of a segment memory, compared with a flip-flop.

    During a clear no bit is set, and answers are not checked. A bit that was set just before
    another word is cleared is not checked either.
    """

    def __init__(self, *, depth=16, clear_bits=4, shared_bits=0, memory=Undefined):
        self._memory = memory(depth=depth, clear_bits=clear_bits, shared_bits=shared_bits)
        super().__init__(part=self._memory)

    def build(self, m):
        m.submodules.memory = bank = self._memory
        cell = Signal(range(bank.depth))
        known = Signal()
        bit = Signal()
        just_set = Signal()
        m.d.comb += [cell.eq(AnyConst(len(cell))), Assume(~(bank.clear & bank.set))]
        here = bank.address == cell
        m.d.sync += just_set.eq(bank.set & here)
        with m.If(bank.clear & (bank.clear_address == cell // bank.clear_bits)):
            m.d.sync += [bit.eq(0), known.eq(1)]
        with m.Elif(bank.clear & just_set):
            m.d.sync += known.eq(0)
        with m.Elif(bank.set & here):
            m.d.sync += [bit.eq(1), known.eq(1)]
        asked = delayed(m, known & here & ~bank.clear, bank.latency, "asked")
        expected = delayed(m, bit, bank.latency, "expected")
        self.require(~asked | self.right(bank.bit, expected))
        self.reach("a bit that was set is read", asked & bank.bit)
        self.reach("a bit that was cleared is read", asked & ~bank.bit)

    def right(self, bit, expected):
        return bit == expected


class UnreliableSegment(Unreliable, Undefined):
    def _late(self, m, bit):
        return self.answer(super()._late(m, bit))


class OneUnreliable(Copies):
    """Copies of a segment memory, at most one of which returns arbitrary bits."""

    def __init__(self, *, number, **shape):
        copies = [UnreliableSegment(**shape) for _ in range(number)]
        super().__init__(copies, answers=["bit"], latency=copies[0].latency)
        self.depth, self.clear_bits = shape["depth"], shape["clear_bits"]

    def elaborate(self, platform):
        m = super().elaborate(platform)
        one_lies(m, self.copies)
        return m


class SetAnswers(SegmentAnswers):
    """Like `SegmentAnswers`, but allows false positives."""

    def right(self, bit, expected):
        return bit | ~expected


class RingContents(Harness):
    """One arbitrary bit of a given segment, driven by the ring, compared with a flip-flop."""

    def __init__(self, *, segments, run, depth, clear_bits, segment):
        self._segment = segment
        self._segments = segments
        self._run = run
        words = depth // clear_bits
        self._rules = Rules(words=words)
        self._ring = Ring(segments=segments, run=run, clear_words=words)
        self._memory = PortableSegmentMemory(depth=depth, clear_bits=clear_bits)
        self._depth = depth
        super().__init__({"control": In(Control), "address": In(range(depth))})

    def build(self, m):
        m.submodules.rules = rules = self._rules
        m.submodules.ring = ring = self._ring
        m.submodules.memory = bank = self._memory
        control = self.control
        segment = self._segment
        cell = Signal(range(self._depth))
        m.d.comb += [
            cell.eq(AnyConst(len(cell))),
            rules.control.eq(control),
            Assume(rules.kept),
            ring.insert.eq(control.insert),
            ring.shift.eq(control.shift),
            ring.clear.eq(control.clear),
            bank.address.eq(self.address),
            bank.set.eq(ring.set.bit_select(segment, 1)),
            bank.clear.eq(ring.clear_segments.bit_select(segment, 1)),
            bank.clear_address.eq(ring.clear_address),
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

        latency = bank.latency
        asks = control.query & (self.address == cell) & ~position[-1]
        asked = delayed(m, asks, latency, "asked")
        expected = delayed(m, bit, latency, "expected")
        oldest = delayed(m, position[-2], latency, "oldest")
        self.require(~asked | (bank.bit == expected))
        for age, there in (("youngest", ~oldest), ("oldest", oldest)):
            self.reach(f"a set bit is read in the {age}", asked & there & bank.bit)
            self.reach(f"a clear bit is read in the {age}", asked & there & ~bank.bit)


PROOFS = (
    *(
        Proof(
            name=f"segment answers{kind}",
            statement="An access returns the bit after all earlier accesses and clears, whatever "
            "the memory returns during a write of the word.",
            design=f"segment memory, 16 bits, 4 cleared per cycle, portable{kind}",
            build=partial(SegmentAnswers, memory=memory),
        )
        for kind, memory in (("", Undefined), (", output register", UndefinedRegistered))
    ),
    *(
        Proof(
            name=f"segment answers, {variant}, {depth} bits",
            statement="An access answers as in the portable memory, whatever the block RAM "
            "returns if its vendor defines nothing. Two ports never write the same bit in the "
            "same cycle.",
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
            design=f"segment memory, 8 bits, 4 cleared per cycle, {number} copies",
            build=partial(harness, depth=8, memory=partial(OneUnreliable, number=number)),
        )
        for kind, number, harness, statement in (
            (
                "parity",
                PROTECTIONS["parity"],
                SetAnswers,
                "A bit that was set is read as set, for any answers of one copy.",
            ),
            (
                "tmr",
                PROTECTIONS["tmr"],
                SegmentAnswers,
                "An access returns the correct bit, for any answers of one copy.",
            ),
        )
    ),
    *(
        Proof(
            name=f"ring contents, segment {segment}",
            statement="A segment in the ring holds the insertions since it entered the ring, and "
            "no older bit: no bit is stale after a shift.",
            design="ring of 3 and a spare, run 2, 8 bits per segment, 4 cleared per cycle",
            build=partial(RingContents, segments=4, run=2, depth=8, clear_bits=4, segment=segment),
        )
        for segment in range(4)
    ),
)
"""Proofs of segment memories and the ring."""
