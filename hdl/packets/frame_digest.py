"""Digests of Ethernet frames: `lately.golden.packets` in hardware."""

from amaranth.hdl import Module, Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.packets.packet_layers import Version
from ..lanes.collector import Credits
from ..latencies import ACCEPT_LAG
from ..queue import ResultQueue
from .aligned_beats import AlignedBeats
from .frame_reader import FrameReader
from .frames import FrameBeat
from .lane_digest import LaneDigest
from .message_beats import FIELDS, FrameFacts
from .message_words import MessageWords
from .polynomials import PolynomialDigest

RESULTS = 8
"""Results that wait or are due, for frames with beats of 64 bits."""

WIDE_RESULTS = 64
"""Results that wait or are due, for frames with wider beats."""

WIDTHS = (64, 128, 256, 512)
"""Supported widths of a beat."""


class DigestedFrame(data.StructLayout):
    """Digest and facts of a frame.

    Members: `digest`; `version` of IP, 4 or 6, and 0 for others; `malformed`, if the headers are
    inconsistent or longer than the frame; `error`, from the last beat.
    """

    def __init__(self):
        version = range(max(Version) + 1)
        super().__init__({"digest": WORD_BITS, "version": version, "malformed": 1, "error": 1})


class FrameDigest(wiring.Component):
    """Computes digests of Ethernet frames, as `lately.golden.packets.packet_digest`.

    Frames are complete, without their check sequence. Beats of a frame may arrive in any cycle.
    With beats of 64 bits, frames of at least 8 beats may follow each other without a gap while
    there is no back-pressure; shorter frames take 8 cycles each on average. With wider beats, a
    frame may begin in each cycle. The fields and the secret must be stable from the first beat of
    a frame to its result. After reset and after each change of the secret, frames with wider beats
    wait until a `PolynomialKey` is loaded.

    Parameters
    ----------
    width : int
        Bits of a beat, of `WIDTHS`.
    table_bits : int
        As for `PolynomialKey`: 5 for distributed memories with 32 words, 4 for 16 words.
    inner : bool
        Whether layer 3 is the innermost, as golden's `inner_layers`. Then the field
        ``layer2`` has no effect.

    Members
    -------
    i : In(stream.Signature(FrameBeat(width)))
    fields : In(FIELDS)
    secret : In(128)
    o : Out(stream.Signature(DigestedFrame()))
        One per frame, in order.

    Raises
    ------
    ValueError
        If the width or the tables are not supported.
    """

    def __init__(self, width=64, *, table_bits=5, inner=False):
        if width not in WIDTHS:
            raise ValueError(f"Width must be 64, 128, 256 or 512, not {width!r}")
        self._width = width
        self._inner = inner
        self._wide = width > WIDTHS[0]
        self._polynomials = PolynomialDigest(width, table_bits=table_bits) if self._wide else None
        super().__init__(
            {
                "i": In(stream.Signature(FrameBeat(width))),
                "fields": In(FIELDS),
                "secret": In(SECRET_BITS),
                "o": Out(stream.Signature(DigestedFrame())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        results, limit = (WIDE_RESULTS, ACCEPT_LAG + 1) if self._wide else (RESULTS, 1)
        m.submodules.reader = reader = FrameReader(self._width, inner=self._inner)
        if self._wide:
            m.submodules.beats = message = AlignedBeats(self._width, self._inner)
            m.submodules.polynomials = digest = self._polynomials
            shared = "octets", "counts", "last", "closing"
            m.d.comb += message.fill.eq(digest.fill)
        else:
            m.submodules.words = message = MessageWords(self._inner)
            m.submodules.lanes = digest = LaneDigest()
            shared = "valid", "word", "ends", "end"
        m.submodules.credits = credits = Credits(limit=results - limit)
        m.submodules.results = results = ResultQueue(
            depth=results,
            tag_bits=Shape.cast(FrameFacts()).width,
            verdict_bits=WORD_BITS,
            distributed=True,
        )
        facts = data.View(FrameFacts(), results.o.p[WORD_BITS:])
        connect(m, wiring.flipped(self.i), reader.i)
        for name in shared:
            m.d.comb += getattr(digest, name).eq(getattr(message, name))
        m.d.comb += [
            reader.go.eq(credits.available & ~digest.loading if self._wide else credits.available),
            credits.spend.eq(reader.slot.valid & reader.slot.first),
            credits.refund.eq(self.o.valid & self.o.ready),
            message.slot.eq(reader.slot),
            message.layers.eq(reader.layers),
            message.fields.eq(self.fields),
            digest.secret.eq(self.secret),
            results.tag_valid.eq(message.told),
            results.tag.eq(message.facts),
            results.valid_next.eq(digest.valid_next),
            results.verdict.eq(digest.digest),
            self.o.valid.eq(results.o.valid),
            self.o.p.digest.eq(results.o.p),
            self.o.p.version.eq(facts.half << 1),
            self.o.p.malformed.eq(facts.malformed),
            self.o.p.error.eq(facts.error),
            results.o.ready.eq(self.o.ready),
        ]
        if self._inner:
            m.d.comb += message.fields.layer2.eq(0)
        return m
