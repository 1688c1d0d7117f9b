"""The ring of segments: its position, and clearing of the spare."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer, require_power_of_two
from ..pipeline import registered


class Ring(wiring.Component):
    """Selects the segments that an operation writes, and clears the spare.

    One operation per cycle. `set` and `base` are valid in the cycle of the operation, after LUTs.
    A shift takes effect between the query and the insertion of its operation: `base` is the
    position before the shift, `set` selects the segments after it. From the next cycle, the retired
    segment is cleared for `clear_words` cycles; the next shift may follow one cycle later. A clear
    returns the ring to its first position and clears all segments in the same way; only idle
    cycles may follow for `clear_words` cycles.

    Parameters
    ----------
    segments : int
        Physical segments, including the spare.
    run : int
        Segments that an insertion writes.
    clear_words : int
        Cycles of clearing. Power of two.
    check : bool
        Whether the ring checks its masks, and checks that the spare is clean at each shift.

    Members
    -------
    insert, shift, clear : In(1)
        The operation. `clear` excludes the others.
    set : Out(segments)
        Segments that the operation writes.
    base : Out(range(segments))
        Physical segment that was the youngest at the start of the operation.
    adopt : In(1)
        Whether the new segment, or every segment at a clear, uses the other hash pipeline. Later
        segments use the same pipeline.
    pipelines : Out(segments)
        Segments of the second hash pipeline, after a change by the operation.
    clear_segments : Out(segments)
        Segments that are being cleared in this cycle.
    clear_address : Out(range(clear_words))
    illegal : Out(1)
        With `check` only: in the previous cycle the masks were illegal; or a shift, or an
        insertion after a clear, occurred while its segment was being cleared.

    Errors: as `require_integer`.
    """

    def __init__(self, *, segments, run, clear_words, check=False):
        require_integer("Segments", segments, least=2)
        require_integer("Run", run, least=1, most=segments - 1)
        require_power_of_two("Words to clear", clear_words)
        self._segments = segments
        self._run = run
        self._clear_words = clear_words
        self._checks = check
        super().__init__(
            {
                "insert": In(1),
                "shift": In(1),
                "clear": In(1),
                "adopt": In(1),
                "pipelines": Out(segments),
                "set": Out(segments),
                "base": Out(range(segments)),
                "clear_segments": Out(segments),
                "clear_address": Out(range(clear_words)),
            }
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        segments = self._segments
        # The base counts down: the segment s_0 becomes s_1. The youngest follows the spare.
        write = Signal(segments, init=(1 << self._run) - 1)
        spare = Signal(segments, init=1 << (segments - 1))
        turned = Mux(self.shift, write.rotate_right(1), write)
        youngest = spare.rotate_left(1)
        m.d.comb += [
            self.set.eq(turned & self.insert.replicate(segments)),
            self.base.eq(
                Cat(
                    Cat(youngest[at] for at in range(segments) if at >> bit & 1).any()
                    for bit in range(len(self.base))
                )
            ),
        ]
        m.d.sync += write.eq(turned)
        with m.If(self.shift):
            m.d.sync += spare.eq(spare.rotate_right(1))
        with m.If(self.clear):
            m.d.sync += [write.eq(write.init), spare.eq(spare.init)]
        self._elaborate_pipelines(m, spare)
        early = self._elaborate_clear(m, spare)
        if self._checks:
            masks = illegal_masks(m, write, spare, run=self._run)
            m.d.comb += self.illegal.eq(masks | registered(m, early, "early"))
        return m

    def _elaborate_pipelines(self, m, spare):
        newest = Signal()
        pipelines = Signal(self._segments)
        entering = newest ^ self.adopt
        m.d.comb += self.pipelines.eq(
            Cat(
                Mux(self.clear | (self.shift & spare[segment]), entering, pipelines[segment])
                for segment in range(self._segments)
            )
        )
        m.d.sync += pipelines.eq(self.pipelines)
        with m.If(self.shift | self.clear):
            m.d.sync += newest.eq(entering)

    def _elaborate_clear(self, m, spare):
        """Sweep until the highest bit of the count is set; this bit is not part of the address.

        Return whether an operation arrived that must wait for the end.
        """
        everything = Signal()
        count = Signal(range(2 * self._clear_words), init=self._clear_words)
        running = ~count[-1]
        m.d.comb += [
            self.clear_segments.eq(
                (spare | everything.replicate(self._segments)) & running.replicate(self._segments)
            ),
            self.clear_address.eq(count),
        ]
        # Two digits; the carry between them is known one cycle ahead.
        digit = max(2, len(count) // 2)
        low, high = count[:digit], count[digit:]
        carry = Signal()
        with m.If(self.shift | self.clear):
            m.d.sync += [count.eq(0), carry.eq(0), everything.eq(self.clear)]
        with m.Elif(running):
            m.d.sync += [low.eq(low + 1), carry.eq(low == (1 << digit) - 2)]
            # The path from an enable to the registers is shorter than the path from a sum.
            with m.If(carry):
                m.d.sync += high.eq(high + 1)
        return running & (self.shift | (self.insert & everything))


def illegal_masks(m, mask, spare, *, run):
    """Return whether the mask in the previous cycle was not the `run` segments after the spare.

    The check detects an upset of any single bit of `mask` or `spare`. The result stays set in each
    turn until a clear: if the spare is not one segment, more than `run` segments follow, or none.

    Parameters
    ----------
    m : Module
        Gets the registers.
    mask, spare : Value
        A bit for each segment.
    run : int
    """
    behind = reduce(or_, map(spare.rotate_left, range(1, run + 1)))
    return registered(m, mask ^ behind, "differs").any()
