"""Store for frames that wait for the answer of the filter."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.frame_actions import ROOM_LAG, Action
from ..lanes.collector import Credits
from ..memory.cells import cell_memory
from ..parameters import require_power_of_two
from ..pipeline import delayed
from ..queue import ResultQueue
from .axis_beats import MarkedBeat
from .frame_intake import FrameRecord, beats_of
from .frames import BEAT_BYTES


class FrameStore(wiring.Component):
    """Circular buffer of beats, in which frames wait for their verdicts.

    Written beats belong to the current frame, until `keep` or `discard` ends it. Each kept frame
    gets one verdict, in order, in the cycle after `keep` or later. The frame then leaves, or its
    places become free at once. Frames leave in order, and without a gap while there is no
    back-pressure and the next frame has its verdict.

    A word is read at least two cycles after its write, so the memory may return any word for a
    read during a write.

    Parameters
    ----------
    size : int
        Bytes of the ring. Power of two, and enough for two of the longest frames.
    frames : int
        Frames that can wait. Power of two.
    longest : int
        Maximum bytes of a frame.
    memory : str or type
        Variant of the ring, as for `cell_memory`.
    width : int
        Bits of a beat.
    side : int
        Sideband bits of each beat.

    Members
    -------
    write : In(1)
    word : In(width + side)
        Data of a beat, and its sideband bits.
    keep, discard : In(1)
        The current frame ends, with or without a write.
    record : In(FrameRecord(longest, width))
        With `keep`.
    room : Out(1)
        There is a place for a beat, and for a frame. Frames with written beats use no place for a
        frame before `keep`.
    verdict : In(data.StructLayout({"valid": 1, "seen": 1}))
        Verdict of the oldest frame without one.
    action : In(2)
        `lately.golden.packets.frame_actions.Action` for the frames whose turn it is.
    o : Out(stream.Signature(MarkedBeat(width, side)))

    Raises
    ------
    TypeError, ValueError
        If a size is not a power of two, or the ring is too small.
    """

    OUTPUT_PLACES = 16
    """Beats in flight between ring and output."""

    def __init__(self, *, size, frames, longest, memory="portable", width=8 * BEAT_BYTES, side=0):
        beat = width // 8
        require_power_of_two("Buffer", size, minimum=4 * beat)
        require_power_of_two("Frames", frames, minimum=ROOM_LAG + 1)
        least = beat * (2 * beats_of(longest, width) + ROOM_LAG)
        if size < least:
            raise ValueError(
                f"Buffer must be of at least {least} bytes for two frames of {longest}, not {size}"
            )
        self._beats = size // beat
        self._frames = frames
        self._beat = MarkedBeat(width, side)
        self.ring = cell_memory(memory, depth=self._beats, width=width + side)
        super().__init__(
            {
                "write": In(1),
                "word": In(width + side),
                "keep": In(1),
                "discard": In(1),
                "record": In(FrameRecord(longest, width)),
                "room": Out(1, init=1),
                "verdict": In(data.StructLayout({"valid": 1, "seen": 1})),
                "action": In(2),
                "o": Out(stream.Signature(self._beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = self.ring
        waiting = self._elaborate_waiting(m)
        place, gone = self._elaborate_leaving(m, waiting)
        self._elaborate_writing(m, place, gone)
        return m

    def _elaborate_waiting(self, m):
        """Return the stream of frames with verdicts."""
        m.submodules.waiting = queue = ResultQueue(
            depth=self._frames,
            tag_bits=self.record.shape().size,
            verdict_bits=1,
            distributed=True,
        )
        seen = Signal()
        m.d.sync += seen.eq(self.verdict.seen)
        m.d.comb += [
            queue.tag_valid.eq(self.keep),
            queue.tag.eq(self.record),
            queue.valid_next.eq(self.verdict.valid),
            queue.verdict.eq(seen),
        ]
        return queue.o

    def _elaborate_writing(self, m, freed, gone):
        """Write beats, and return whether there is room; beats before `freed` are overwritten."""
        place = Signal(range(2 * self._beats))
        begin = Signal.like(place)
        kept = Signal(range(self._frames + 1))
        # Added before it is known whether to use the sum.
        after = (place + 1)[: len(place)]
        m.d.comb += [
            self.ring.b_address.eq(place),
            self.ring.value.eq(self.word),
            self.ring.write.eq(self.write),
        ]
        with m.If(self.write | self.discard):
            m.d.sync += place.eq(Mux(self.discard, begin, after))
        with m.If(self.keep):
            m.d.sync += begin.eq(Mux(self.write, after, place))
        with m.If(self.keep & ~gone):
            m.d.sync += kept.eq(kept + 1)
        with m.If(gone & ~self.keep):
            m.d.sync += kept.eq(kept - 1)
        taken = (place - freed)[: len(place)]
        fits = Signal(init=1)
        m.d.sync += [
            fits.eq(taken <= self._beats - ROOM_LAG),
            self.room.eq(fits & (kept <= self._frames - ROOM_LAG)),
        ]

    def _elaborate_leaving(self, m, waiting):
        """Read the outgoing frames; return the next beat's place, and when a frame leaves."""
        place = Signal(range(2 * self._beats))
        left = Signal.like(self.record.beats, name="left")
        frame = data.View(self.record.shape(), waiting.p[1:])
        seen, size, mark, drops = waiting.p[0], Signal(len(frame.size)), Signal(), Signal()
        m.submodules.credits = credits = Credits(limit=self.OUTPUT_PLACES - 4)
        active, reads, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            reads.eq(active & credits.available),
            ends.eq(reads & (left == 1)),
            waiting.ready.eq(~active | ends),
            drops.eq(seen & (self.action == Action.DROP)),
            self.ring.a_address.eq(place),
        ]
        gone = waiting.valid & waiting.ready
        with m.If(reads):
            m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
        with m.If(waiting.ready):
            m.d.sync += [
                active.eq(waiting.valid & ~drops),
                left.eq(frame.beats),
                size.eq(frame.size),
                mark.eq(seen & (self.action == Action.MARK)),
            ]
        with m.If(gone & drops):
            m.d.sync += place.eq(place + reads + frame.beats)
        self._elaborate_output(m, credits, reads, Cat(size, ends, mark))
        return place, gone

    def _elaborate_output(self, m, credits, reads, beside):
        """Hold beats, with their marks, until they are accepted."""
        m.submodules.output = output = ResultQueue(
            depth=self.OUTPUT_PLACES,
            tag_bits=0,
            verdict_bits=self.o.p.shape().size,
            distributed=True,
        )
        latency = self.ring.LATENCY
        size, last, mark = (
            delayed(m, value, latency, name, reset_less=True)
            for name, value in (("size", beside[:-2]), ("last", beside[-2]), ("mark", beside[-1]))
        )
        beat = data.View(self._beat, output.verdict)
        word = self.ring.a_word
        m.d.comb += [
            output.valid_next.eq(delayed(m, reads, latency - 1, "reads")),
            beat.data.eq(word[: len(beat.data)]),
            *([beat.side.eq(word[len(beat.data) :])] if len(word) > len(beat.data) else []),
            beat.size.eq(Mux(last, size, (1 << len(size)) - 1)),
            beat.last.eq(last),
            beat.mark.eq(mark),
            credits.spend.eq(reads),
            credits.refund.eq(output.o.valid & output.o.ready),
            self.o.valid.eq(output.o.valid),
            self.o.p.eq(output.o.p),
            output.o.ready.eq(self.o.ready),
        ]
