"""Frame intake, which keeps or discards frames, and the store where they wait for verdicts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.frame_actions import MAX_BYTES, ROOM_LAG, Action
from ..lanes.collector import Credits
from ..memory.cells import cell_memory
from ..parameters import alternatives, require_integer, require_power_of_two
from ..pipeline import delayed
from ..queue import Queue, ResultQueue
from .frames import BEAT_BYTES, ON_OVERFLOW, FrameBeat, MarkedBeat

# Reasons to discard a frame; the first reason that applies is reported.
FATES = ("errored", "oversize", "no_room")


def beats_of(size, width=8 * BEAT_BYTES):
    return -(-8 * size // width)


class FrameRecord(data.StructLayout):
    """Number of beats in a kept frame, and the size of its last beat.

    A frame has at most `longest` bytes, and a beat has `width` bits.
    """

    def __init__(self, longest, width=8 * BEAT_BYTES):
        beats = range(beats_of(longest, width) + 1)
        super().__init__({"beats": beats, "size": range(width // 8)})  # `size` of the last beat


class FrameIntake(wiring.Component):
    """Passes beats to the digest without delay, and stores or discards whole frames.

    A damaged or oversize frame is discarded. The digest still receives the frame, with `error` set.
    If `on_overflow` is "drop", a frame for which there is no room is discarded in the same way, and
    a frame that begins while `enable` is low is dropped without reaching the digest. If
    `on_overflow` is "wait", these frames wait at the input instead.

    If `ready` is false, the input cannot stall: a beat that arrives while `o.ready` is low is lost,
    and its frame is discarded for lack of room. Frames longer than `max_frame` but at most
    `max_kept` bytes are kept, with `passes` set.
    """

    def __init__(
        self, *, max_frame, on_overflow="wait", max_kept=None, ready=True, width=8 * BEAT_BYTES
    ):
        require_integer("Maximum frame length", max_frame, minimum=1, maximum=MAX_BYTES)
        if on_overflow not in ON_OVERFLOW:
            raise ValueError(
                f"on_overflow: must be {alternatives(ON_OVERFLOW)}, not {on_overflow!r}"
            )
        self._max_frame = max_frame
        self._passes = max_kept is not None
        self._max_kept = max_kept if self._passes else max_frame
        self._width = width
        self._waits = on_overflow == "wait"
        self._ready = ready
        beat = FrameBeat(width)
        super().__init__(
            {
                "i": In(stream.Signature(beat, always_ready=not ready)),
                "o": Out(stream.Signature(beat)),
                "enable": In(1),
                "room": In(1),  # the store has room for this beat and another frame
                "begins": Out(1),  # the first beat of a frame leaves
                "write": Out(1),  # the beat must be stored
                # The frame ends: all of its written beats are kept, or all are discarded.
                "keep": Out(1),
                "discard": Out(1),
                "record": Out(FrameRecord(self._max_kept, width)),  # with `keep`
                "fates": Out(len(FATES)),  # with `discard`: the reason, one-hot, as in `FATES`
            }
            # With `keep`: the frame is longer than `max_frame`.
            | ({"passes": Out(1)} if self._max_kept > max_frame else {})
        )

    def elaborate(self, platform):
        m = Module()
        beat, transfer = self.i.p, Signal()
        inside, lost, may, no_room, skips = (Signal() for _ in range(5))
        skipped = Signal()
        over_before, over = self._elaborate_length(m, transfer)
        closed = ~inside & ~self.enable
        if self._waits:
            m.d.comb += may.eq((self.room | over_before) & ~closed)
        else:
            passed_by, without = skipped | closed, lost | ~self.room | skips
            if not self._ready:
                cuts = self._elaborate_cuts(m, inside, skipped)
                passed_by |= ~inside & (self.owed | ~self.o.ready)
                without |= cuts
            m.d.comb += [may.eq(1), skips.eq(passed_by), no_room.eq(without)]
        errored = beat.last & beat.error
        oversize, lacks = (Const(0), no_room | over) if self._passes else (over, no_room & ~over)
        m.d.comb += [
            self.o.valid.eq(self.i.valid & may & ~skips),
            *([self.i.ready.eq((self.o.ready | skips) & may)] if self._ready else []),
            transfer.eq(self.i.valid & self.i.ready),
            self.begins.eq(transfer & ~inside & ~skips),
            self.o.p.eq(beat),
            self.o.p.error.eq(beat.last & self.fates.any()),
            self.write.eq(transfer & ~over & ~no_room),
            self.fates[0].eq(errored),
            self.fates[1].eq(oversize & ~errored),
            self.fates[2].eq(lacks & ~errored),
            self.keep.eq(transfer & beat.last & ~self.fates.any()),
            self.discard.eq(transfer & beat.last & self.fates.any()),
        ]
        if not self._ready:
            with m.If(self.owed):
                m.d.comb += [self.o.valid.eq(1), self.o.p.last.eq(1), self.o.p.error.eq(1)]
            with m.Elif(self.cut):
                m.d.comb += self.o.valid.eq(0)
        with m.If(transfer):
            m.d.sync += [
                inside.eq(~beat.last),
                lost.eq(no_room & ~beat.last),
                skipped.eq(skips & ~beat.last),
            ]
        return m

    def _elaborate_cuts(self, m, inside, skipped):
        """Drop the rest of a frame if `o` rejects a beat; return whether `o` rejects this beat."""
        self.cut, self.owed, cuts = Signal(name="cut"), Signal(name="owed"), Signal()
        m.d.comb += cuts.eq(self.i.valid & inside & ~skipped & ~self.cut & ~self.o.ready)
        with m.If(self.i.valid):
            m.d.sync += self.cut.eq((self.cut | cuts) & ~self.i.p.last)
        m.d.sync += self.owed.eq(cuts | (self.owed & ~self.o.ready))
        return cuts

    def _elaborate_length(self, m, transfer):
        """Return whether the frame was too long before this beat, and whether it is now."""
        beats, beat = range(beats_of(self._max_kept, self._width) + 1), self.i.p
        before = Signal(beats, name="beat")
        over_before, over = Signal(), Signal()

        def ends_after(size):
            whole, rest = divmod(size, self._width // 8)
            return (before == whole) & (beat.size >= rest if rest else 1)

        m.d.comb += [
            over.eq(over_before | ends_after(self._max_kept)),
            self.record.beats.eq(before + 1),
            self.record.size.eq(beat.size),
        ]
        with m.If(transfer):
            m.d.sync += [
                over_before.eq(over & ~beat.last),
                before.eq(Mux(beat.last, 0, Mux(over, before, before + 1))),
            ]
        if self._max_kept > self._max_frame:
            long_before = Signal()
            m.d.comb += self.passes.eq(long_before | ends_after(self._max_frame))
            with m.If(transfer):
                m.d.sync += long_before.eq(self.passes & ~beat.last)
        return over_before, over


class FrameStore(wiring.Component):
    """Circular buffer of beats, in which frames wait for their verdicts.

    Written beats belong to the current frame, until `keep` or `discard` ends it. Each kept frame
    gets one verdict, in order, in the cycle after `keep` or later. The frame then leaves in order,
    or is dropped and frees its beats at once. A word is read at least two cycles after its write,
    so the memory may return any word for a read during a write.
    """

    OUTPUT_DEPTH = 16  # maximum number of beats in flight between ring and output

    def __init__(self, *, size, frames, longest, memory="portable", width=8 * BEAT_BYTES, side=0):
        beat = width // 8
        require_power_of_two("Buffer", size, minimum=4 * beat)
        require_power_of_two("Frames", frames, minimum=ROOM_LAG + 1)
        min_size = beat * (2 * beats_of(longest, width) + ROOM_LAG)
        if size < min_size:
            raise ValueError(
                f"Buffer must be at least {min_size} bytes to hold two frames of {longest} bytes, "
                f"not {size}"
            )
        self._beats = size // beat
        self._frames = frames
        self._beat = MarkedBeat(width, side)
        self.ring = cell_memory(memory, depth=self._beats, width=width + side)
        super().__init__(
            {
                "write": In(1),
                "word": In(width + side),  # data of a beat, and its sideband bits
                # The current frame ends, with or without a write.
                "keep": In(1),
                "discard": In(1),
                "record": In(FrameRecord(longest, width)),  # with `keep`
                # There is room for a beat and for another frame. The current frame counts only
                # from `keep` on.
                "room": Out(1, init=1),
                # Verdict for the oldest frame that has none yet.
                "verdict": In(data.StructLayout({"valid": 1, "seen": 1})),
                "action": In(2),  # `Action` for frames that leave
                "o": Out(stream.Signature(self._beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = self.ring
        waiting = self._elaborate_waiting(m)
        read_address, gone = self._elaborate_leaving(m, waiting)
        self._elaborate_writing(m, read_address, gone)
        return m

    def _elaborate_waiting(self, m):
        """Join kept frames with their verdicts; return the resulting stream."""
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

    def _elaborate_writing(self, m, read_address, gone):
        """Write beats and drive `room`; the beats before `read_address` are free."""
        write_address = Signal(range(2 * self._beats))
        begin = Signal.like(write_address)
        kept = Signal(range(self._frames + 1))
        # Incremented before it is known whether the sum is needed.
        after = (write_address + 1)[: len(write_address)]
        m.d.comb += [
            self.ring.b_address.eq(write_address),
            self.ring.value.eq(self.word),
            # The word at this address is always free, so the block RAMs need no write enable,
            # whose path would limit the clock.
            self.ring.write.eq(1),
        ]
        with m.If(self.write | self.discard):
            m.d.sync += write_address.eq(Mux(self.discard, begin, after))
        with m.If(self.keep):
            m.d.sync += begin.eq(Mux(self.write, after, write_address))
        with m.If(self.keep & ~gone):
            m.d.sync += kept.eq(kept + 1)
        with m.If(gone & ~self.keep):
            m.d.sync += kept.eq(kept - 1)
        taken = (write_address - read_address)[: len(write_address)]
        fits = Signal(init=1)
        m.d.sync += [
            fits.eq(taken < self._beats - ROOM_LAG),
            self.room.eq(fits & (kept <= self._frames - ROOM_LAG)),
        ]

    def _elaborate_leaving(self, m, waiting):
        """Read outgoing frames; return the read address, and whether a frame leaves the queue."""
        read_address = Signal(range(2 * self._beats))
        left = Signal.like(self.record.beats, name="left")
        frame = data.View(self.record.shape(), waiting.p[1:])
        seen, size, mark, drops = waiting.p[0], Signal(len(frame.size)), Signal(), Signal()
        m.submodules.credits = credits = Credits(limit=self.OUTPUT_DEPTH - 4)
        active, reads, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            reads.eq(active & credits.available),
            ends.eq(reads & (left == 1)),
            waiting.ready.eq(~active | ends),
            drops.eq(seen & (self.action == Action.DROP)),
            self.ring.a_address.eq(read_address),
        ]
        gone = waiting.valid & waiting.ready
        with m.If(reads):
            m.d.sync += [read_address.eq(read_address + 1), left.eq(left - 1)]
        with m.If(waiting.ready):
            m.d.sync += [
                active.eq(waiting.valid & ~drops),
                left.eq(frame.beats),
                size.eq(frame.size),
                mark.eq(seen & (self.action == Action.MARK)),
            ]
        with m.If(gone & drops):
            m.d.sync += read_address.eq(read_address + reads + frame.beats)
        self._elaborate_output(m, credits, reads, Cat(size, ends, mark))
        return read_address, gone

    def _elaborate_output(self, m, credits, reads, beside):
        m.submodules.output = output = Queue(self._beat, depth=self.OUTPUT_DEPTH, distributed=True)
        latency = self.ring.LATENCY
        size, last, mark = (
            delayed(m, value, latency, name, reset_less=True)
            for name, value in (("size", beside[:-2]), ("last", beside[-2]), ("mark", beside[-1]))
        )
        beat = output.word
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
        ]
        wiring.connect(m, output.o, wiring.flipped(self.o))
