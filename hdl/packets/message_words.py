"""Words of the message of each frame, for the lanes of its digest."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.packet_digest import (
    COUNT_BITS,
    LENGTH_BITS,
    TAG_BITS,
    VERSION_BITS,
)
from ...golden.packets.packet_layers import MOST_TAGS
from ..pipeline import delayed, registered
from .frame_reader import Slot
from .frames import BEAT_BYTES
from .header_parser import SHORTEST, TAG_BYTES, FoundLayers
from .message_beats import FIELDS, FrameFacts, MessageBeat, MessageBeats

COUNT_WORDS_BITS = 6
"""Bits of the number of words; SipHash uses the number of each lane modulo 32."""


class Closing(data.StructLayout):
    """Last bytes of a digested message, as in `lately.golden.packets.packet_digest.Message`."""

    def __init__(self):
        tags = data.ArrayLayout(TAG_BITS, MOST_TAGS)
        super().__init__(
            {"length": LENGTH_BITS, "half": VERSION_BITS, "count": COUNT_BITS, "tags": tags}
        )


class MessageEnd(data.StructLayout):
    """End of a message in the lanes: `closing`, and `words` in both lanes together, modulo 64."""

    def __init__(self):
        super().__init__({"closing": Closing(), "words": COUNT_WORDS_BITS})


class MessageWord(data.StructLayout):
    """Word of a message: `octets`, `opening` if it is one of the first two, and its `lane`."""

    def __init__(self):
        super().__init__({"octets": 8 * BEAT_BYTES, "opening": 1, "lane": 1})


class MessageWords(wiring.Component):
    """Extracts the message of each frame word by word as the beats arrive.

    The first two words of a message leave in consecutive cycles. `inner` as for `MessageBeats`.

    Members
    -------
    slot, layers, fields
        As for `MessageBeats`.
    valid, word : Out(1), Out(MessageWord())
    ends, end : Out(1), Out(MessageEnd())
        Once per frame, when all its words have left, no later than a word of the next frame. The
        end stays for six more cycles; the next end follows at least eight cycles later.
    told, facts : Out(1), Out(FrameFacts())
        Once per frame, before its end.
    """

    def __init__(self, inner=False):
        self._inner = inner
        super().__init__(
            {
                "slot": In(Slot()),
                "layers": In(FoundLayers(inner)),
                "fields": In(FIELDS),
                "valid": Out(1),
                "word": Out(MessageWord()),
                "ends": Out(1),
                "end": Out(MessageEnd()),
                "told": Out(1),
                "facts": Out(FrameFacts()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.beats = beats = MessageBeats(self._inner)
        done = delayed(m, self.slot.done, MessageBeats.LATENCY + 1, "done")
        m.d.comb += [
            beats.slot.eq(self.slot),
            beats.layers.eq(self.layers),
            beats.fields.eq(self.fields),
            self.told.eq(beats.told),
            self.facts.eq(beats.facts),
        ]
        comes, octets = self._elaborate_octets(m, beats.beat)
        count = Signal(COUNT_WORDS_BITS)
        opened = Signal()
        after = (count + comes)[:COUNT_WORDS_BITS]
        m.d.sync += [
            count.eq(Mux(done, 0, after)),
            # Until there are two, the count is 0 or 1.
            opened.eq(~done & (opened | (comes & count[0]))),
            self.valid.eq(comes),
            self.word.octets.eq(octets),
            self.word.opening.eq(~opened),
            self.word.lane.eq(count[0]),
            self.ends.eq(registered(m, done, "over")),
        ]
        parts = self._elaborate_parts(m)
        with m.If(done):
            m.d.sync += self.end.eq(Cat(beats.length, parts, after))
        return m

    def _elaborate_octets(self, m, beat):
        """Join two beats; return whether a word leaves, and its bytes."""
        # The last word of a frame has no beat after it, and the second of the shortest has no beat.
        before = Signal(MessageBeat(self._inner))
        flush = registered(m, beat.valid & beat.last, "flush")
        single = Signal()
        m.d.sync += single.eq(flush & before.first & before.last)
        with m.If(beat.valid | flush):
            m.d.sync += before.eq(beat)
        comes = (((beat.valid & ~beat.first) | flush) & before.word) | single
        after = beat.octets & ~flush.replicate(len(beat.octets))
        both = Cat(before.octets, after)

        def at(offset):
            return both[8 * offset :][: 8 * BEAT_BYTES]

        if self._inner:
            return comes, Mux(before.whole, at(0), both.bit_select(before.even << 4, len(after)))
        even, odd = SHORTEST % BEAT_BYTES, (SHORTEST + TAG_BYTES) % BEAT_BYTES
        return comes, Mux(before.whole, at(0), Mux(before.even, at(even), at(odd)))

    def _elaborate_parts(self, m):
        """Store the parts of the end, except the length, until the end."""
        parts = Signal(VERSION_BITS + COUNT_BITS + MOST_TAGS * TAG_BITS)
        with m.If(self.slot.done):
            m.d.sync += parts.eq(closing_parts(self.layers, self.fields))
        return parts


def closing_parts(layers, fields):
    """Return the members of `Closing` after the length."""
    packet = layers.half[1] & ~fields.frame
    tags = packet & fields.vlan
    names = Cat(layers.count, layers.tags)
    return Cat(layers.half & packet.replicate(VERSION_BITS), names & tags.replicate(len(names)))
