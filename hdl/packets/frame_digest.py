"""Digests of Ethernet frames in hardware, equal to those of `lately.golden.packets`."""

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.packets.comparison import DEFAULT_FIELDS, HARDWARE_FIELDS
from ...golden.packets.packet_digest import POLYNOMIAL_WIDTH
from ...golden.packets.packet_layers import Version
from ..lanes.collector import Credits
from ..latencies import ACCEPT_LAG
from ..queue import ResultQueue
from .frames import FrameBeat
from .lane_digest import LaneDigest
from .messages import FIELDS, AlignedBeats, FrameFacts, FrameReader
from .polynomials import PolynomialDigest

RESULTS = 8  # maximum number of results waiting or in progress, with 64-bit beats
WIDE_RESULTS = 64  # maximum number of results waiting or in progress, with wider beats
WIDTHS = (64, 128, 256, 512)  # supported beat widths
MAX_UNDER_WAY = 63  # default maximum number of digests in progress


class DigestedFrame(data.StructLayout):
    def __init__(self):
        super().__init__(
            {
                "digest": WORD_BITS,
                "version": range(max(Version) + 1),  # IP version: 4, 6, or 0 for other frames
                "malformed": 1,  # the headers are inconsistent or longer than the frame
                "error": 1,  # `error` of the last beat
            }
        )


class FrameDigest(wiring.Component):
    """Computes the digests of Ethernet frames: see `lately.golden.packets.packet_digest`.

    Frames arrive without a frame check sequence. Results leave in the order of the frames. While
    there is no back-pressure, frames of at least 60 bytes may follow each other without a gap.
    Shorter frames take as many cycles on average, except with wider beats if `inner` is not set:
    a frame may then begin in each cycle. The fields and the secret must be stable from the first
    beat of a frame to its result.
    """

    def __init__(self, width=64, *, table_bits=5, inner=False):
        if width not in WIDTHS:
            raise ValueError(f"Width must be 64, 128, 256 or 512, not {width!r}")
        self._width = width
        self._inner = inner
        self._wide = width >= POLYNOMIAL_WIDTH
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
        depth, limit = (WIDE_RESULTS, ACCEPT_LAG + 1) if self._wide else (RESULTS, 1)
        m.submodules.reader = reader = FrameReader(self._width, inner=self._inner)
        m.submodules.beats = message = AlignedBeats(self._width, self._inner)
        m.submodules.credits = credits = Credits(limit=depth - limit)
        m.submodules.results = results = ResultQueue(
            depth=depth,
            tag_bits=Shape.cast(FrameFacts()).width,
            verdict_bits=WORD_BITS,
            distributed=True,
        )
        if self._wide:
            m.submodules.polynomials = digest = self._polynomials
            m.d.comb += message.fill.eq(digest.fill)
            may_begin = credits.available & ~digest.loading
        else:
            m.submodules.lanes = digest = LaneDigest()
            m.d.comb += digest.done.eq(message.done)
            may_begin = credits.available
        connect(m, wiring.flipped(self.i), reader.i)
        facts = data.View(FrameFacts(), results.o.p[WORD_BITS:])
        m.d.comb += [
            reader.go.eq(may_begin),
            credits.spend.eq(reader.slot.valid & reader.slot.first),
            credits.refund.eq(self.o.valid & self.o.ready),
            message.slot.eq(reader.slot),
            message.layers.eq(reader.layers),
            message.fields.eq(self.fields),
            *([message.fields.layer2.eq(0)] if self._inner else []),
            digest.secret.eq(self.secret),
            digest.octets.eq(message.octets),
            digest.counts.eq(message.counts),
            digest.last.eq(message.last),
            digest.closing.eq(message.closing),
            results.tag_valid.eq(message.facts_valid),
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
        return m


class DigestSettings(wiring.Component):
    """Keeps the fields and the secret stable from the first beat of a frame to its digest."""

    def __init__(self, max_under_way=MAX_UNDER_WAY):
        self._max_under_way = max_under_way
        super().__init__(
            {
                "fields": In(len(HARDWARE_FIELDS)),
                "secret": In(stream.Signature(SECRET_BITS)),
                "begins": In(1),  # a frame begins
                "ends": In(1),  # a digest is complete
                "open": Out(1, init=1),  # frames may begin
                # Settings in effect.
                "steady_fields": Out(len(HARDWARE_FIELDS), init=DEFAULT_FIELDS.value),
                "steady_secret": Out(SECRET_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        under_way = Signal(range(self._max_under_way + 1))
        m.d.sync += self.open.eq(~(self.secret.valid | (self.fields != self.steady_fields)))
        with m.If(self.begins ^ self.ends):
            m.d.sync += under_way.eq(Mux(self.ends, under_way - 1, under_way + 1))
        with m.If(~self.open & (under_way == 0)):
            m.d.comb += self.secret.ready.eq(1)
            m.d.sync += [self.steady_fields.eq(self.fields), self.open.eq(1)]
            with m.If(self.secret.valid):
                m.d.sync += self.steady_secret.eq(self.secret.payload)
        return m
