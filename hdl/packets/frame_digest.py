"""Digests of Ethernet frames: `lately.golden.packets` in hardware."""

from amaranth.hdl import Module, Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...golden.hash.siphash import SECRET_BITS, WORD_BITS
from ...golden.packets.packet_layers import Version
from ..lanes.credits import Credits
from ..queue import ResultQueue
from .frame_reader import FrameReader
from .frames import FrameBeat
from .lane_digest import LaneDigest
from .message_beats import FIELDS, FrameFacts
from .message_words import MessageWords

RESULTS = 8
"""Results that wait, or are to come."""


class DigestedFrame(data.StructLayout):
    """What is told of a frame.

    Its members: `digest`; `version` of IP, 4 or 6, and 0 for others; `malformed`, its headers
    contradict each other, or are longer than the frame; `error`, as it came with the last beat.
    """

    def __init__(self):
        version = range(max(Version) + 1)
        super().__init__({"digest": WORD_BITS, "version": version, "malformed": 1, "error": 1})


class FrameDigest(wiring.Component):
    """Digests Ethernet frames, as `lately.golden.packets.packet_digest`, one after the other.

    A frame is as on the line without its check sequence, and captured whole. Frames of 8 beats
    and more may follow each other without a pause as long as the results are taken; those of
    fewer take 8 clocks each in the long run. The fields and the secret are steady from the first
    beat of a frame to its result.

    Members
    -------
    i : In(stream.Signature(FrameBeat()))
    fields : In(FIELDS)
    secret : In(128)
    o : Out(stream.Signature(DigestedFrame()))
        One for each frame, in their order.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(FrameBeat())),
                "fields": In(FIELDS),
                "secret": In(SECRET_BITS),
                "o": Out(stream.Signature(DigestedFrame())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = FrameReader()
        m.submodules.words = words = MessageWords()
        m.submodules.lanes = lanes = LaneDigest()
        m.submodules.credits = credits = Credits(limit=RESULTS - 1)
        m.submodules.results = results = ResultQueue(
            depth=RESULTS,
            tag_bits=Shape.cast(FrameFacts()).width,
            verdict_bits=WORD_BITS,
            distributed=True,
        )
        facts = data.View(FrameFacts(), results.o.p[WORD_BITS:])
        connect(m, wiring.flipped(self.i), reader.i)
        for name in ("valid", "word", "ends", "end"):
            m.d.comb += getattr(lanes, name).eq(getattr(words, name))
        m.d.comb += [
            reader.go.eq(credits.available),
            credits.spend.eq(reader.slot.valid & reader.slot.first),
            credits.refund.eq(self.o.valid & self.o.ready),
            words.slot.eq(reader.slot),
            words.layers.eq(reader.layers),
            words.fields.eq(self.fields),
            lanes.secret.eq(self.secret),
            results.tag_valid.eq(words.told),
            results.tag.eq(words.facts),
            results.valid_next.eq(lanes.valid_next),
            results.verdict.eq(lanes.digest),
            self.o.valid.eq(results.o.valid),
            self.o.p.digest.eq(results.o.p),
            self.o.p.version.eq(facts.half << 1),
            self.o.p.malformed.eq(facts.malformed),
            self.o.p.error.eq(facts.error),
            results.o.ready.eq(self.o.ready),
        ]
        return m
