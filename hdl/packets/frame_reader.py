"""Reader of frames: frames wait until their headers are parsed."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..lanes.collector import Credits
from ..latencies import ACCEPT_LAG
from ..pipeline import registered
from ..queue import ResultQueue
from .frames import BEAT_BYTES, FrameBeat
from .header_parser import FoundLayers, HeaderParser
from .inner_parser import InnerParser

LEAST_SLOTS = 8
"""Minimum cycles for each frame of 64-bit beats: its beats of 60 bytes, or a digest."""

BEATS = 32
"""Beats that wait: until a header is parsed, and until the result is known."""

INNER_BEATS = 128
"""Beats that wait until an innermost layer 3 is found."""

FRAMES = 16
"""Frames of 64-bit beats that wait, twice as many for an innermost layer 3; for wider beats, as
many frames as beats."""


class Slot(data.StructLayout):
    """Event of a frame in a cycle.

    Members: `valid`, whether `beat` is read; `first`, whether it is the first beat of its frame;
    and `done`, high with the last beat of a frame, or in slot `LEAST_SLOTS` if that is later.

    Parameters
    ----------
    width : int
        Bits of a beat.
    """

    def __init__(self, width=8 * BEAT_BYTES):
        super().__init__({"valid": 1, "beat": FrameBeat(width), "first": 1, "done": 1})


class FrameReader(wiring.Component):
    """Reads frames once the positions of their layers are known.

    The first nine beats of a frame, or all if there are fewer, are read in consecutive cycles.
    A frame takes at least `LEAST_SLOTS` cycles. Frames with at least this number of beats follow
    each other without a gap. If beats are wider than 64 bits, a frame takes one cycle per beat.

    Parameters
    ----------
    width : int
        Bits of a beat.
    inner : bool
        Whether layer 3 is the innermost.

    Members
    -------
    i : In(stream.Signature(FrameBeat(width)))
        No stalls while each frame has `LEAST_SLOTS` beats, and `go` is high.
    go : In(1)
        Whether another frame may begin, two cycles later.
    slot : Out(Slot(width))
    layers : Out(FoundLayers(inner))
        Layers of the current frame, from its first slot to the first slot of the next frame.
    """

    def __init__(self, width=8 * BEAT_BYTES, *, inner=False):
        self._width = width
        self._layers = FoundLayers(inner)
        self._beats = beats = INNER_BEATS if inner else BEATS
        frames = 2 * FRAMES if inner else FRAMES
        self._least, self._frames = (LEAST_SLOTS, frames) if width == 8 * BEAT_BYTES else (1, beats)
        if inner:
            self._parser = InnerParser(width, beats=beats, frames=self._frames)
        else:
            self._parser = HeaderParser(width)
        super().__init__(
            {
                "i": In(stream.Signature(FrameBeat(width))),
                "go": In(1),
                "slot": Out(Slot(width)),
                "layers": Out(self._layers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beats, found = self._elaborate_queues(m)
        # Past slots of a frame, except the last one; and whether there were none.
        index = Signal(range(self._least))
        fresh = Signal(init=1)
        ended = Signal()
        begins, reads, done = Signal(), Signal(), Signal()
        go = registered(m, self.go, "may_begin")
        beat = data.View(FrameBeat(self._width), beats.p)
        last = beat.last
        late = index == self._least - 1
        m.d.comb += [
            begins.eq(fresh & beats.valid & found.valid & go),
            reads.eq(beats.valid & Mux(fresh, found.valid & go, ~ended)),
            done.eq(late & (ended | (reads & last))),
            beats.ready.eq(reads),
            found.ready.eq(begins),
        ]
        with m.If(done):
            m.d.sync += [index.eq(0), fresh.eq(1), ended.eq(0)]
        with m.Elif(reads | ended):
            m.d.sync += [
                index.eq(index + (index != self._least - 1)),
                fresh.eq(0),
                ended.eq(ended | last),
            ]
        slot = self.slot
        m.d.sync += [
            Cat(slot.valid, slot.first, slot.done).eq(Cat(reads, begins, done)),
            slot.beat.eq(beat),
        ]
        with m.If(begins):
            m.d.sync += self.layers.eq(found.p)
        return m

    def _elaborate_queues(self, m):
        """Store arriving beats; return the streams of beats, and of the layers of each frame."""
        m.submodules.parser = parser = self._parser
        m.submodules.beats = beats = _queue(FrameBeat(self._width), self._beats)
        m.submodules.found = found = _queue(self._layers, self._frames)
        m.submodules.beat_credits = beat_credits = Credits(limit=self._beats - 1 - ACCEPT_LAG)
        m.submodules.frame_credits = frame_credits = Credits(limit=self._frames - 1 - ACCEPT_LAG)
        taken = Signal()
        first = Signal(init=1)
        with m.If(taken):
            m.d.sync += first.eq(self.i.p.last)
        m.d.comb += [
            self.i.ready.eq(beat_credits.available & frame_credits.available),
            taken.eq(self.i.valid & self.i.ready),
            parser.valid.eq(taken),
            parser.beat.eq(self.i.p),
            beats.valid_next.eq(taken),
            beats.verdict.eq(registered(m, Value.cast(self.i.p), "beat", reset_less=True)),
            beat_credits.spend.eq(taken),
            beat_credits.refund.eq(beats.o.valid & beats.o.ready),
            found.valid_next.eq(parser.found_valid),
            found.verdict.eq(registered(m, Value.cast(parser.found), "layers", reset_less=True)),
            frame_credits.spend.eq(taken & first),
            frame_credits.refund.eq(found.o.valid & found.o.ready),
        ]
        return beats.o, found.o


def _queue(layout, depth):
    return ResultQueue(
        depth=depth, tag_bits=0, verdict_bits=Shape.cast(layout).width, distributed=True
    )
