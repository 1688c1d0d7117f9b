"""Proofs for the front end: it shifts the ring only when the spare segment is clean."""

from functools import partial
from typing import Any

from amaranth.hdl import Assume, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib.wiring import In

from ...golden.ring.rotation import RotationPolicy
from ...golden.spec import APBFSpec
from ...hdl.build import family_of, unit_profile
from ...hdl.frontend.front import FrontEnd
from ...hdl.frontend.time_window import TimeWindow
from ...hdl.pipeline import delayed, registered
from ...hdl.ring.ring import Ring
from ...hdl.unit import Unit
from .formal import Proof, Unbounded
from .harness import Harness, constant, control_rules, elaborated


class FrontEndHarness(Harness):
    def front_end(self, *, words, generation_bits=4, **options):
        self._words = words
        return FrontEnd(
            generation_bits=generation_bits,
            minimum_generation=words + 1,
            clear_words=words,
            **options,
        )

    make: Any = front_end

    def build(self, m):
        m.submodules.front = self._part
        m.d.comb += Assume(self._part.generation != 0)
        return self._part


class SpareInTime(FrontEndHarness):
    def build(self, m):
        front = super().build(m)
        m.d.comb += Assume(front.clean)
        self.require(control_rules(m, front.control, self._words)[0])
        soon = Signal(range(self._words + 2))
        with m.If(front.control.shift):
            m.d.sync += soon.eq(self._words + 1)
        with m.Elif(soon != 0):
            m.d.sync += soon.eq(soon - 1)
        self.reach("a shift as soon as the spare is clean", front.control.shift & (soon == 1))
        self.reach("a clear while the spare is swept", front.control.clear & (soon > 1))
        self.reach(
            "a forced shift", front.control.shift & front.control.valid & ~front.control.insert
        )
        return front


# The segments of this filter take longer to clear than any other delay of the front end.
SWEPT = APBFSpec(k=2, l=2, slice_bits=64, clear=4, generation=20)


class SpareOfUnitInTime(SpareInTime):
    def make(self, *, spec):
        self._words = -(-spec.part_bits // spec.clear)
        return elaborated(Unit(unit_profile(spec), family_of(spec))).submodules.front


class SpareOfAgesInTime(SpareInTime):
    def make(self, *, when_full):
        window = TimeWindow(
            RotationPolicy(writes=1, settled=2, generation=1, span=3, generation_span=2)
        )
        return self.front_end(words=16, generation_bits=6, window=window, when_full=when_full)

    def build(self, m):
        front = super().build(m)
        m.d.comb += front.window.tick.eq(AnySeq(1))
        aged = front.window.old & ~front.schedule.counter.full
        self.reach(
            "a generation ends by its age", front.control.shift & registered(m, aged, "aged")
        )
        # The tick was admitted two cycles ago, when the spare had just become clean.
        waited = ~delayed(m, front.schedule.spare_clean, 3, "clean_before")
        begins = front.window.old & ~registered(m, front.window.old, "old_before")
        self.reach("a tick waits for the spare", begins & waited)


class NoAlarm(FrontEndHarness):
    def make(self, *, words):
        self._ring = Ring(segments=4, run=2, clear_words=words, check=True)
        return self.front_end(words=words, check=True)

    def build(self, m):
        front = super().build(m)
        m.submodules.ring = ring = self._ring
        control = front.control
        m.d.comb += [getattr(ring, name).eq(control[name]) for name in ("insert", "shift", "clear")]
        self.require(~front.illegal, ~ring.illegal)
        self.reach("a forced shift", control.shift & control.valid & ~control.insert)
        self.reach("a requested clear", control.clear & control.valid)


class ExactCount(FrontEndHarness):
    def build(self, m):
        front = super().build(m)
        control = front.control
        length = constant(m, front.generation.shape(), "length")
        count = Signal(len(length) + 1)
        m.d.comb += [Assume(front.generation == length), Assume(front.clean)]
        after = Signal.like(count)
        cleared = Signal()
        m.d.comb += after.eq(count)
        with m.If(control.clear):
            m.d.comb += after.eq(0)
            m.d.sync += cleared.eq(1)
        with m.Elif(control.shift):
            m.d.comb += after.eq(control.insert)
        with m.Elif(control.insert):
            m.d.comb += after.eq(count + 1)
        m.d.sync += count.eq(after)
        left = Signal.like(count)
        m.d.comb += left.eq(length - after)
        # The counter is 0 if a waiting SHIFT or CLEAR has ended the generation.
        counted = front.schedule.counter.left
        self.require(
            ~cleared | (counted == -left) | (counted == 0),
            after <= length,
            ~(control.insert & ~control.shift) | (count < length),
            ~(control.insert & control.shift) | (count == length),
        )
        self.reach("the longest generation", control.insert & (count == 2 ** len(length) - 1))
        self.reach(
            "a second generation of one insertion",
            control.insert & control.shift & (length == 1) & (count == 1),
        )


class WindowInInsertions(Harness):
    """A window counted in insertions is no longer than the window counted in shifts.

    Generations are assumed to have the lengths that `ExactCount` proves.
    """

    def __init__(self, *, generation, window):
        self._generation = generation
        self._window = window
        super().__init__({"insert": In(1), "shift": In(1), "mark": In(1)})

    def build(self, m):
        generation, window = self._generation, self._window
        count = Signal(range(generation + 1))
        marked = Signal()
        position = Signal.like(count)
        since = Signal(range(window * generation + 2))
        shifts = Signal(range(window + 3))
        # A filter without SHIFT: the ring shifts with the first insertion of each generation.
        m.d.comb += Assume(self.shift == (self.insert & (count == generation)))
        after = Signal.like(count)
        m.d.comb += after.eq(Mux(self.shift, 1, count + self.insert))
        m.d.sync += count.eq(after)
        with m.If(~marked & self.insert & self.mark):
            m.d.sync += [marked.eq(1), position.eq(after)]
        with m.Elif(marked & (since <= window * generation)):
            m.d.sync += [since.eq(since + self.insert), shifts.eq(shifts + self.shift)]
        # A query in this cycle sees all shifts before this cycle.
        inside = marked & (since <= window * generation)
        self.require(~inside | (shifts <= window))
        self.require(~inside | (since + position == shifts * generation + count))
        self.reach("the last insertion of the window", inside & (since == window * generation))


PROOFS = (
    Proof(
        name="spare in time",
        statement="The ring shifts only when its spare is clean, and performs no operation until a "
        "clear is complete, even if the generation length changes at any time.",
        design="front end, 16 words to clear, generation length of 6 bits",
        build=partial(SpareInTime, words=16, generation_bits=6),
    ),
    Proof(
        name="spare in time, unit",
        statement="*Spare in time* also holds with the clearing time and minimum generation "
        "length that a unit passes to its front end.",
        design="front end of an APBF unit, 16 words to clear, any generation length",
        build=partial(SpareOfUnitInTime, spec=SWEPT),
        goals=("a shift as soon as the spare is clean", "a forced shift"),
    ),
    *(
        Proof(
            name=f"spare in time, by age, {when_full}",
            statement="The ring shifts only when its spare is clean, even if ticks end generations "
            "at any time.",
            design="front end with a time-based window, 16 words to clear, a span of 3 ticks",
            build=partial(SpareOfAgesInTime, when_full=when_full),
            method=Unbounded(900),
            goals=("a generation ends by its age", "a tick waits for the spare"),
        )
        for when_full in ("shorten", "overfill")
    ),
    Proof(
        name="no alarm",
        statement="Without an upset, the self-checks of the front end and the ring report no "
        "error: each operation leaves once, the gate opens again, and the spare is clean at each "
        "shift.",
        design="front end and ring of 4 segments, 4 words to clear, any generation length below 16",
        build=partial(NoAlarm, words=4),
    ),
    Proof(
        name="exact count",
        statement="Each generation has as many insertions as its programmed length, unless SHIFT "
        "or CLEAR ends it.",
        design="front end, 2 words to clear, any generation length below 16",
        build=partial(ExactCount, words=2, generation_bits=4),
    ),
    Proof(
        name="window in insertions",
        statement="If every generation has exactly g insertions, at most l shifts occur during the "
        "l g insertions that follow any insertion.",
        design="any control flags with exact generations, l = 3, g = 5",
        build=partial(WindowInInsertions, generation=5, window=3),
    ),
)
