"""What decides which frames are kept."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer
from .frames import BEAT_BYTES, FrameBeat

WHEN_FULL = ("wait", "drop")
"""What a frame does for which there is no room: it waits outside, or is discarded."""

FATES = ("errored", "oversize", "no_room")
"""Reasons for which a frame is discarded; the first one that holds is told."""


def beats_of(size):
    """Return the beats of a frame of `size` bytes."""
    return -(-size // BEAT_BYTES)


class FrameRecord(data.StructLayout):
    """Size of a frame that is kept: its `beats`, and the `size` of the last as of `FrameBeat`.

    Parameters
    ----------
    longest : int
        Bytes of a frame at most.
    """

    def __init__(self, longest):
        super().__init__({"beats": range(beats_of(longest) + 1), "size": range(BEAT_BYTES)})


class FrameIntake(wiring.Component):
    """Lets beats through to what digests them, and keeps frames whole or not at all.

    A frame is discarded that comes damaged, or that is longer than allowed. It leaves all the
    same, with its error set. So does, if `when_full` is "drop", a frame for which there is no
    room; of one that begins while `enable` is low nothing leaves. If `when_full` is "wait", both
    wait instead. Nothing is delayed.

    Parameters
    ----------
    longest : int
        Bytes of a frame at most, from 1 on.
    when_full : str
        One of `WHEN_FULL`.

    Members
    -------
    i, o : In(stream.Signature(FrameBeat())), Out(stream.Signature(FrameBeat()))
    enable : In(1)
    room : In(1)
        There are places for the beat that comes and for another frame.
    begins : Out(1)
        The first beat of a frame leaves.
    write : Out(1)
        The beat is to be kept.
    keep, discard : Out(1)
        The frame ends: it is kept with all that was written of it, or none of it is.
    record : Out(FrameRecord(longest))
        With `keep`.
    fates : Out(3)
        With `discard`: a bit of these is high, in the order of `FATES`.

    Raises
    ------
    TypeError, ValueError
        If the length is no integer or below 1, or there is no such rule for full stores.
    """

    def __init__(self, *, longest, when_full="wait"):
        require_integer("Longest frame", longest, least=1)
        if when_full not in WHEN_FULL:
            raise ValueError(f"When full must be {' or '.join(WHEN_FULL)}, not {when_full!r}")
        self._longest = longest
        self._waits = when_full == "wait"
        super().__init__(
            {
                "i": In(stream.Signature(FrameBeat())),
                "o": Out(stream.Signature(FrameBeat())),
                "enable": In(1),
                "room": In(1),
                "begins": Out(1),
                "write": Out(1),
                "keep": Out(1),
                "discard": Out(1),
                "record": Out(FrameRecord(longest)),
                "fates": Out(len(FATES)),
            }
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
            m.d.comb += [
                may.eq(1),
                skips.eq(skipped | closed),
                no_room.eq(lost | ~self.room | skips),
            ]
        errored = beat.last & beat.error
        m.d.comb += [
            self.o.valid.eq(self.i.valid & may & ~skips),
            self.i.ready.eq((self.o.ready | skips) & may),
            transfer.eq(self.i.valid & self.i.ready),
            self.begins.eq(transfer & ~inside & ~skips),
            self.o.p.eq(beat),
            self.o.p.error.eq(beat.last & self.fates.any()),
            self.write.eq(transfer & ~over & ~no_room),
            self.fates[0].eq(errored),
            self.fates[1].eq(over & ~errored),
            self.fates[2].eq(no_room & ~over & ~errored),
            self.keep.eq(transfer & beat.last & ~self.fates.any()),
            self.discard.eq(transfer & beat.last & self.fates.any()),
        ]
        with m.If(transfer):
            m.d.sync += [
                inside.eq(~beat.last),
                lost.eq(no_room & ~beat.last),
                skipped.eq(skips & ~beat.last),
            ]
        return m

    def _elaborate_length(self, m, transfer):
        """Return whether the frame was too long before the beat, and whether it is with it."""
        before, beat = Signal(range(beats_of(self._longest) + 1)), self.i.p
        over_before, over = Signal(), Signal()
        whole, rest = divmod(self._longest, BEAT_BYTES)
        m.d.comb += [
            over.eq(over_before | ((before == whole) & (beat.size >= rest if rest else 1))),
            self.record.beats.eq(before + 1),
            self.record.size.eq(beat.size),
        ]
        with m.If(transfer):
            m.d.sync += [
                over_before.eq(over & ~beat.last),
                before.eq(Mux(beat.last, 0, Mux(over, before, before + 1))),
            ]
        return over_before, over
