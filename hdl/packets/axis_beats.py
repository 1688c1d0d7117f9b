"""Conversion between AXI4-Streams and the internal beats of frames."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.frame_actions import beat_bytes
from .frame_options import ONLY_BAD, check_width
from .frames import BEAT_BYTES, FrameBeat, kept_bytes


class AxisBeat(data.StructLayout):
    """Transfer of an AXI4-Stream of frames: `data`, `keep`, `last`, `user`, `id` and `dest`.

    TKEEP is contiguous from the lowest byte, and full except in the last transfer. With `last`, the
    bad bit of `user` marks an incoming frame as damaged. The mark bit of an outgoing frame is equal
    in all of its transfers: the frame was seen lately.

    Parameters
    ----------
    width : int
        Bits of `data`: 8, 64, 128, 256 or 512.
    side : Sideband
    leaves : bool
        Whether the transfer is an output.

    Raises
    ------
    ValueError
        If the width is not supported.
    """

    def __init__(self, width, side=ONLY_BAD, *, leaves=False):
        check_width(width)
        beside = side.widths(leaves=leaves)
        super().__init__(
            {"data": width, "keep": width // 8, "last": 1}
            | {name: bits for name, bits in beside.items() if bits or name == "user"}
        )


class MarkedBeat(data.StructLayout):
    """Beat of an outgoing frame.

    Members: `data`, `size` and `last` as in `FrameBeat`; `mark`; and `side`, if there are
    sideband bits.
    """

    def __init__(self, width=8 * BEAT_BYTES, side=0):
        super().__init__(
            {"data": width, "size": range(width // 8), "last": 1, "mark": 1}
            | ({"side": side} if side else {})
        )


class FrameWidener(wiring.Component):
    """Converts the transfers of a stream into beats.

    It accepts one transfer per cycle without back-pressure. Each beat leaves in the cycle after
    the arrival of its last byte. A transfer with an illegal TKEEP marks its frame as damaged.

    Parameters
    ----------
    width, side
        As for `AxisBeat`.
    ready : bool
        Whether `i` supports back-pressure. Otherwise each beat must be accepted at once.

    Members
    -------
    i : In(stream.Signature(AxisBeat(width, side)))
    o : Out(stream.Signature(FrameBeat(width)))
        With 8 bits, beats have 64 bits.
    beside : Out(side.bits)
        Sideband bits of the beat at `o`.

    Errors: as for `AxisBeat`.
    """

    def __init__(self, width, side=ONLY_BAD, *, ready=True):
        self._side = side
        incoming = stream.Signature(AxisBeat(width, side), always_ready=not ready)
        beat = FrameBeat(8 * beat_bytes(width))
        super().__init__(
            {"i": In(incoming), "o": Out(stream.Signature(beat))}
            | ({"beside": Out(side.bits)} if side.bits else {})
        )

    def elaborate(self, platform):
        m = Module()
        transfer, broken, irregular = Signal(), Signal(), Signal()
        if not self.signature.members["i"].signature.always_ready:
            m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        m.d.comb += transfer.eq(self.i.valid & self.i.ready)
        bad = self.i.p.user[self._side.bad] if self._side.user else 0
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(transfer):
            m.d.sync += [
                broken.eq((broken | irregular) & ~self.i.p.last),
                self.o.p.last.eq(self.i.p.last),
                self.o.p.error.eq(self.i.p.last & (broken | irregular | bad)),
            ]
            if self._side.bits:
                others = [getattr(self.i.p, name) for name in ("id", "dest")
                          if getattr(self._side, name)]  # fmt: skip
                user = [self.i.p.user[at] for at in self._side.carried]
                m.d.sync += self.beside.eq(Cat(*user, *others))
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
        keep, size = self.i.p.keep, Signal(range(len(self.i.p.keep)))
        gaps = Cat(keep[at] & ~keep[at - 1] for at in range(1, len(keep)))
        m.d.comb += irregular.eq(~keep[0] | gaps.any() | ~(self.i.p.last | keep.all()))
        if len(keep) == BEAT_BYTES:
            for at in range(1, BEAT_BYTES):
                with m.If(keep[at]):
                    m.d.comb += size.eq(at)
        else:
            # The last kept byte precedes a byte that is not kept; this avoids a long chain of
            # logic.
            ends = keep & ~(keep >> 1)
            m.d.comb += size.eq(Cat(
                Cat(ends[at] for at in range(len(keep)) if at >> place & 1).any()
                for place in range(len(size))
            ))  # fmt: skip
        with m.If(transfer):
            m.d.sync += [
                self.o.p.data.eq(self.i.p.data),
                self.o.p.size.eq(size),
                self.o.valid.eq(1),
            ]
            with m.If(~self.i.p.last):
                m.d.sync += self.o.p.size.eq(len(keep) - 1)


class FrameNarrower(wiring.Component):
    """Converts beats of frames into transfers, one per cycle unless stalled.

    Each transfer carries the mark of its frame.

    Parameters
    ----------
    width, side
        As for `AxisBeat`.

    Members
    -------
    i : In(stream.Signature(MarkedBeat(width, side.bits)))
        With 8 bits, beats have 64 bits.
    o : Out(stream.Signature(AxisBeat(width, side, leaves=True)))

    Errors: as for `AxisBeat`.
    """

    def __init__(self, width, side=ONLY_BAD):
        self._side = side
        beat = MarkedBeat(8 * beat_bytes(width), side.bits)
        leaving = AxisBeat(width, side, leaves=True)
        super().__init__({"i": In(stream.Signature(beat)), "o": Out(stream.Signature(leaving))})

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
            self.o.p.user[self._side.mark].eq(self.i.p.mark),
            *self._beside(self.i.p),
        ]
        return m

    def _beside(self, beat):
        """Return the assignments of the sideband bits."""
        side = self._side
        targets = [self.o.p.user[at] for at in side.carried]
        targets += [getattr(self.o.p, name) for name in ("id", "dest") if getattr(side, name)]
        return [Cat(targets).eq(beat.side)] if targets else []

    def _elaborate_bytes(self, m):
        """Hold a beat until its last byte is accepted."""
        beat = Signal(self.i.p.shape())
        ends = Signal()
        m.d.comb += [
            ends.eq(beat.size == 0),
            self.i.ready.eq(~self.o.valid | (self.o.ready & ends)),
            self.o.p.data.eq(beat.data[:8]),
            self.o.p.keep.eq(1),
            self.o.p.last.eq(beat.last & ends),
            self.o.p.user[self._side.mark].eq(beat.mark),
            *self._beside(beat),
        ]
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), beat.eq(self.i.p)]
        with m.Elif(self.o.ready):
            m.d.sync += [beat.data.eq(beat.data[8:]), beat.size.eq(beat.size - 1)]
