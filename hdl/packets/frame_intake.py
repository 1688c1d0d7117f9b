"""Decides which frames are stored."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.frame_actions import MOST_BYTES
from ..parameters import require_integer
from .frame_options import WHEN_FULL
from .frames import BEAT_BYTES, FrameBeat

FATES = ("errored", "oversize", "no_room")
"""Reasons to discard a frame; the first reason that applies is reported."""


def beats_of(size, width=8 * BEAT_BYTES):
    """Return the number of beats of `width` bits in a frame of `size` bytes."""
    return -(-8 * size // width)


class FrameRecord(data.StructLayout):
    """Size of a kept frame: its number of `beats`, and the `size` of its last `FrameBeat`.

    Parameters
    ----------
    longest : int Maximum bytes of a frame. width : int
        Bits of a beat.
    """

    def __init__(self, longest, width=8 * BEAT_BYTES):
        beats = range(beats_of(longest, width) + 1)
        super().__init__({"beats": beats, "size": range(width // 8)})


class FrameIntake(wiring.Component):
    """Passes beats to the digest, and stores or discards whole frames.

    A damaged frame, or a frame longer than allowed, is discarded. The digest still receives it,
    with `error` set. If `when_full` is "drop", a frame for which there is no room is discarded in
    the same way. A frame that begins while `enable` is low is dropped and not passed on. If
    `when_full` is "wait", both frames wait instead. Beats pass without delay.

    Without `ready`, a beat that arrives while `o.ready` is low is lost, and its frame is discarded
    for lack of room. This frame is not passed on, or it ends with an error in a later cycle.

    Parameters
    ----------
    longest : int
        Maximum bytes of a frame, at least 1.
    when_full : str
        One of `WHEN_FULL`.
    most : int, optional
        Frames above `longest` with at most this number of bytes are kept, with `passes`. For longer
        frames there is no room. By default no frame above `longest` is kept.
    ready : bool
        Whether `i` can wait.
    width : int
        Bits of a beat.

    Members
    -------
    i, o : In(stream.Signature(FrameBeat(width))), Out(stream.Signature(FrameBeat(width)))
    enable : In(1)
    room : In(1)
        There is space for the arriving beat and for another frame.
    begins : Out(1)
        The first beat of a frame leaves.
    write : Out(1)
        The beat must be stored.
    keep, discard : Out(1)
        The frame ends: all of its written beats are kept, or all are discarded.
    passes : Out(1)
        With `keep`: the frame is longer than `longest`.
    record : Out(FrameRecord(most, width))
        With `keep`.
    fates : Out(3)
        With `discard`: one bit is high, in the order of `FATES`.

    Raises
    ------
    TypeError, ValueError
        If the length is not an integer from 1 to `MOST_BYTES`, or the rule is unknown.
    """

    def __init__(self, *, longest, when_full="wait", most=None, ready=True, width=8 * BEAT_BYTES):
        require_integer("Longest frame", longest, minimum=1, maximum=MOST_BYTES)
        if when_full not in WHEN_FULL:
            raise ValueError(f"When full must be {' or '.join(WHEN_FULL)}, not {when_full!r}")
        self._longest = longest
        self._passes = most is not None
        self._most = longest if most is None else most
        self._width = width
        self._waits = when_full == "wait"
        self._ready = ready
        beat = FrameBeat(width)
        super().__init__(
            {
                "i": In(stream.Signature(beat, always_ready=not ready)),
                "o": Out(stream.Signature(beat)),
                "enable": In(1),
                "room": In(1),
                "begins": Out(1),
                "write": Out(1),
                "keep": Out(1),
                "discard": Out(1),
                "record": Out(FrameRecord(self._most, width)),
                "fates": Out(len(FATES)),
            }
            | ({"passes": Out(1)} if self._most > longest else {})
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
        """Drop beats from the first that `o` does not take; return whether a beat is that first.

        The part of the frame that has left gets its end later, which is `owed` until then.
        """
        self.cut, self.owed, cuts = Signal(name="cut"), Signal(name="owed"), Signal()
        m.d.comb += cuts.eq(self.i.valid & inside & ~skipped & ~self.cut & ~self.o.ready)
        with m.If(self.i.valid):
            m.d.sync += self.cut.eq((self.cut | cuts) & ~self.i.p.last)
        m.d.sync += self.owed.eq(cuts | (self.owed & ~self.o.ready))
        return cuts

    def _elaborate_length(self, m, transfer):
        """Return whether the frame was too long before the beat, and whether it is with it."""
        beats, beat = range(beats_of(self._most, self._width) + 1), self.i.p
        before = Signal(beats, name="beat")
        over_before, over = Signal(), Signal()

        def ends_after(size):
            whole, rest = divmod(size, self._width // 8)
            return (before == whole) & (beat.size >= rest if rest else 1)

        m.d.comb += [
            over.eq(over_before | ends_after(self._most)),
            self.record.beats.eq(before + 1),
            self.record.size.eq(beat.size),
        ]
        with m.If(transfer):
            m.d.sync += [
                over_before.eq(over & ~beat.last),
                before.eq(Mux(beat.last, 0, Mux(over, before, before + 1))),
            ]
        if self._most > self._longest:
            long_before = Signal()
            m.d.comb += self.passes.eq(long_before | ends_after(self._longest))
            with m.If(transfer):
                m.d.sync += long_before.eq(self.passes & ~beat.last)
        return over_before, over
