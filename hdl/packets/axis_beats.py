"""Frames between AXI4-Streams of 8 or 64 bits and the beats inside."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .frames import BEAT_BYTES, FrameBeat, kept_bytes

WIDTHS = (8, 64)
"""Bits of the streams outside."""


class AxisBeat(data.StructLayout):
    """Transfer of an AXI4-Stream of frames: its `data`, `keep`, `last` and `user`.

    Bytes are kept from the lowest on, all but in the last transfer. `user` counts with `last`: a
    frame that comes with it is damaged; one that leaves with it was seen lately.

    Parameters
    ----------
    width : int
        Bits of `data`, of `WIDTHS`.

    Raises
    ------
    ValueError
        If there is no such width.
    """

    def __init__(self, width):
        if width not in WIDTHS:
            raise ValueError(f"Width must be {' or '.join(map(str, WIDTHS))}, not {width!r}")
        super().__init__({"data": width, "keep": width // 8, "last": 1, "user": 1})


class MarkedBeat(data.StructLayout):
    """Beat of a frame that leaves: `data`, `size` and `last` as of `FrameBeat`, and `mark`."""

    def __init__(self):
        super().__init__({"data": 8 * BEAT_BYTES, "size": range(BEAT_BYTES), "last": 1, "mark": 1})


class FrameWidener(wiring.Component):
    """Makes beats of the transfers of a stream.

    It takes a transfer in every clock as long as its beats are taken; each beat leaves in the
    clock after its last byte came. A transfer that keeps other bytes than it may damages its frame.

    Parameters
    ----------
    width : int
        As for `AxisBeat`.

    Members
    -------
    i : In(stream.Signature(AxisBeat(width)))
    o : Out(stream.Signature(FrameBeat()))

    Errors: as `AxisBeat`.
    """

    def __init__(self, width):
        super().__init__(
            {"i": In(stream.Signature(AxisBeat(width))), "o": Out(stream.Signature(FrameBeat()))}
        )

    def elaborate(self, platform):
        m = Module()
        transfer, broken, irregular = Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            transfer.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(transfer):
            m.d.sync += [
                broken.eq((broken | irregular) & ~self.i.p.last),
                self.o.p.last.eq(self.i.p.last),
                self.o.p.error.eq(self.i.p.last & (broken | irregular | self.i.p.user)),
            ]
        elaborate = self._elaborate_bytes if len(self.i.p.keep) == 1 else self._elaborate_words
        elaborate(m, transfer, irregular)
        return m

    def _elaborate_bytes(self, m, transfer, irregular):
        m.d.comb += irregular.eq(~self.i.p.keep)
        place = Signal(range(BEAT_BYTES))
        with m.If(transfer):
            m.d.sync += [
                self.o.p.data.word_select(place, 8).eq(self.i.p.data),
                self.o.p.size.eq(place),
                place.eq(place + 1),
                self.o.valid.eq(self.i.p.last | place.all()),
            ]
            with m.If(self.i.p.last):
                m.d.sync += place.eq(0)

    def _elaborate_words(self, m, transfer, irregular):
        keep, size = self.i.p.keep, Signal(range(BEAT_BYTES))
        gaps = Cat(keep[at] & ~keep[at - 1] for at in range(1, BEAT_BYTES))
        m.d.comb += irregular.eq(~keep[0] | gaps.any() | ~(self.i.p.last | keep.all()))
        for at in range(1, BEAT_BYTES):
            with m.If(keep[at]):
                m.d.comb += size.eq(at)
        with m.If(transfer):
            m.d.sync += [
                self.o.p.data.eq(self.i.p.data),
                self.o.p.size.eq(size),
                self.o.valid.eq(1),
            ]
            with m.If(~self.i.p.last):
                m.d.sync += self.o.p.size.eq(BEAT_BYTES - 1)


class FrameNarrower(wiring.Component):
    """Makes transfers of the beats of frames, one in every clock as long as they are taken.

    The mark of a frame comes with each of its transfers.

    Parameters
    ----------
    width : int
        As for `AxisBeat`.

    Members
    -------
    i : In(stream.Signature(MarkedBeat()))
    o : Out(stream.Signature(AxisBeat(width)))

    Errors: as `AxisBeat`.
    """

    def __init__(self, width):
        super().__init__(
            {"i": In(stream.Signature(MarkedBeat())), "o": Out(stream.Signature(AxisBeat(width)))}
        )

    def elaborate(self, platform):
        m = Module()
        if len(self.o.p.keep) == 1:
            self._elaborate_bytes(m)
            return m
        m.d.comb += [
            self.i.ready.eq(self.o.ready),
            self.o.valid.eq(self.i.valid),
            self.o.p.data.eq(self.i.p.data),
            self.o.p.keep.eq(kept_bytes(self.i.p.size)),
            self.o.p.last.eq(self.i.p.last),
            self.o.p.user.eq(self.i.p.mark),
        ]
        return m

    def _elaborate_bytes(self, m):
        """Keep a beat until its last byte is taken."""
        beat = Signal(MarkedBeat())
        ends = Signal()
        m.d.comb += [
            ends.eq(beat.size == 0),
            self.i.ready.eq(~self.o.valid | (self.o.ready & ends)),
            self.o.p.data.eq(beat.data[:8]),
            self.o.p.keep.eq(1),
            self.o.p.last.eq(beat.last & ends),
            self.o.p.user.eq(beat.mark),
        ]
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), beat.eq(self.i.p)]
        with m.Elif(self.o.ready):
            m.d.sync += [beat.data.eq(beat.data[8:]), beat.size.eq(beat.size - 1)]
