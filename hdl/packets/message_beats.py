"""Beats of the message of each frame: without ignored bytes, with their positions."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.comparison import (
    HARDWARE_FIELDS,
    IP4_CHECKSUM,
    IP4_TOS,
    IP4_TTL,
    IP6_CLASS,
    IP6_HOP_LIMIT,
)
from ...golden.packets.packet_digest import LENGTH_BITS, VERSION_BITS
from ..pipeline import Pipeline
from .frame_reader import Slot
from .frames import BEAT_BYTES, kept_bytes
from .header_parser import BEGIN_BITS, END_BITS, SHORTEST, TAG_BYTES, FoundLayers

FIELDS = data.StructLayout({field.name.lower(): 1 for field in HARDWARE_FIELDS})
"""Fields of a digest, in the order of the bits of `lately.golden.packets.comparison.Field`."""

_PLACE_BITS = (BEAT_BYTES - 1).bit_length()
_NEAR = 7
_LOW, _HIGH, _BOTH = (0,), (1,), (0, 1)
MUTABLE = {
    0: (
        (IP4_TOS, _BOTH, "tos"),
        (IP4_TTL, _BOTH, "ttl"),
        (IP4_CHECKSUM, _BOTH, None),
        (IP4_CHECKSUM + 1, _BOTH, None),
    ),
    1: (
        (IP6_CLASS, _LOW, "tos"),
        (IP6_CLASS + 1, _HIGH, "tos"),
        (IP6_HOP_LIMIT, _BOTH, "ttl"),
    ),
}
"""Bytes of IPv4 and IPv6 that change in transit; their halves; the field that includes them."""


class MessageBeat(data.StructLayout):
    """Beat of a frame, or no beat.

    Members: `valid`; `octets`, with zeros for ignored bytes, and without a beat; `first` and `last`
    of the frame; `word`, whether a word of the message begins in this beat. The word begins with
    the first byte if the message is `whole`, which means that it begins with the frame. Otherwise
    the word begins with the third byte, or the seventh if `even`. In inner packets, `even` is the
    number of the half word with which it begins.
    """

    def __init__(self, inner=False):
        flags = ("valid", "first", "last", "word", "whole")
        members = {"octets": 8 * BEAT_BYTES} | dict.fromkeys(flags, 1)
        super().__init__(members | {"even": 2 if inner else 1})


class FrameFacts(data.StructLayout):
    """Facts about a frame at its end: `half` of its IP version, `malformed`, and `error`."""

    def __init__(self):
        super().__init__({"half": VERSION_BITS, "malformed": 1, "error": 1})


class MessageBeats(wiring.Component):
    """Extracts the message of each frame, as `lately.golden.packets.packet_digest.message`.

    Parameters
    ----------
    inner : bool
        Whether layer 3 is the innermost.

    Members
    -------
    slot, layers : In(Slot()), In(FoundLayers(inner))
        From a `FrameReader`.
    fields : In(FIELDS)
        Constant while there are frames.
    beat : Out(MessageBeat(inner))
        `LATENCY` cycles after its slot.
    length : Out(LENGTH_BITS)
        Bytes of the message, modulo 2**16, in the cycle after the last beat.
    told, facts : Out(1), Out(FrameFacts())
        Once per frame, before its last beat.
    """

    LATENCY = 4

    def __init__(self, inner=False):
        self._inner = inner
        super().__init__(
            {
                "slot": In(Slot()),
                "layers": In(FoundLayers(inner)),
                "fields": In(FIELDS),
                "beat": Out(MessageBeat(inner)),
                "length": Out(LENGTH_BITS),
                "told": Out(1),
                "facts": Out(FrameFacts()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        slot = pipe.enter(self.slot, "slot", reset_less=True)
        layers = pipe.enter(self.layers, "layers", reset_less=True)
        fields = pipe.enter(self.fields, "fields", stage=None)
        valid = pipe.enter(self.slot.valid, "valid")
        number, near = self._elaborate_number(m, pipe)
        plain = pipe.register("plain", is_plain, layers, fields, reset_less=True)
        whole = pipe.register("whole", is_whole, layers, fields, reset_less=True)
        if self._inner:
            even = pipe.combine("even", lambda begin: begin[1:_PLACE_BITS], layers["begin"].at(1))
        else:
            even = pipe.combine("even", lambda count: ~count[0], layers["count"].at(1))

        near = pipe.register("near", _near, near, layers, reset_less=True)
        hidden = pipe.register("hidden", _hidden, near, layers, plain, fields, reset_less=True)
        trimmed, top, ending = self._find_end(m, pipe, valid, slot, layers, number, plain)
        mask = pipe.register("mask", _mask, valid, hidden, trimmed, top, reset_less=True)
        began = pipe.register("began", lambda near, whole: whole | near.began, near, whole)
        word = pipe.register("word", _has_word, began, trimmed, top, whole, even, reset_less=True)
        octets = pipe.register("octets", _masked, slot["beat"]["data"], mask, reset_less=True)
        self._elaborate_length(m, pipe, ending, number, top, layers, whole)
        parts = {
            "octets": octets,
            "valid": valid,
            "first": slot["first"],
            "last": slot["beat"]["last"],
            "word": word,
            "whole": whole,
            "even": even,
        }
        for name, part in parts.items():
            m.d.comb += self.beat[name].eq(part.at(self.LATENCY).value)
        return m

    def _elaborate_number(self, m, pipe):
        """Return the number of the beat in its frame, and the same with a small limit."""
        number = Signal(END_BITS - _PLACE_BITS)
        most = (1 << BEGIN_BITS - _PLACE_BITS) - 1 if self._inner else _NEAR
        near = Signal(range(most + 1))
        with m.If(self.slot.valid):
            m.d.sync += [
                number.eq(Mux(self.slot.beat.last, 0, number + 1)),
                near.eq(Mux(self.slot.beat.last, 0, near + (near != most))),
            ]
        return (pipe.enter(value, value.name, reset_less=True) for value in (number, near))

    def _find_end(self, m, pipe, valid, slot, layers, number, plain):
        """Return whether a beat is past the message, its last byte, and if the message ends."""
        size, last = slot["beat"]["size"], slot["beat"]["last"]
        bounded = pipe.register("bounded", _is_bounded, layers, reset_less=True)
        reached = pipe.register("reached", _is_reached, valid, number, layers, reset_less=True)
        shorter = pipe.register("shorter", _is_shorter, size, layers, reset_less=True)
        past = Signal()
        behind, ends = Signal(), Signal()
        first = slot["first"].at(1).value
        m.d.comb += [
            behind.eq(past & ~first),
            ends.eq(reached.value & bounded.value & ~behind),
        ]
        with m.If(valid.at(1).value):
            m.d.sync += past.eq(behind | ends)
        behind, ends = (pipe.enter(value, value.name, stage=1) for value in (behind, ends))
        trimmed = pipe.register("trimmed", lambda b, plain: b & ~plain, behind, plain)
        top = pipe.register(
            "top",
            lambda ends, plain, shorter, layers, size: Mux(
                ends & ~plain & ~shorter, layers.end[:_PLACE_BITS], size
            ),
            ends,
            plain,
            shorter,
            layers,
            size,
            reset_less=True,
        )
        ending = pipe.register(
            "ending",
            lambda v, behind, ends, plain, last: v & Mux(plain, last, ~behind & (last | ends)),
            valid,
            behind,
            ends,
            plain,
            last,
        )
        self._elaborate_facts(m, pipe, valid, slot, layers, bounded, behind, ends & ~shorter.at(1))
        return trimmed, top, ending

    def _elaborate_facts(self, m, pipe, valid, slot, layers, bounded, behind, ends):
        """Output the facts of each frame; its end exists if the beat contains it or is past it."""
        facts = pipe.register(
            "facts",
            lambda layers, bounded, behind, ends, beat: Cat(
                layers.half,
                layers.malformed | (FoundLayers.must_end(layers, bounded) & ~behind & ~ends),
                beat.error,
            ),
            layers,
            bounded,
            behind,
            ends,
            slot["beat"],
            reset_less=True,
        )
        told = pipe.register("told", lambda v, beat: v & beat.last, valid.at(1), slot["beat"])
        m.d.comb += [self.told.eq(told.value), self.facts.eq(facts.value)]

    def _elaborate_length(self, m, pipe, ending, number, top, layers, whole):
        """Count the bytes of the message."""
        start = pipe.register(
            "start",
            lambda layers, whole: Mux(whole, 0, FoundLayers.start(layers)),
            layers,
            whole,
            reset_less=True,
        )
        between = pipe.register(
            "between",
            lambda top, number, start: (Cat(top, number) - start)[:LENGTH_BITS],
            top,
            number,
            start,
            reset_less=True,
        )
        ending, between = ending.at(self.LATENCY), between.at(self.LATENCY)
        with m.If(ending.value):
            m.d.sync += self.length.eq(between.value + 1)


def is_plain(layers, fields):
    """Whether the message is the whole frame."""
    return ~layers.half[1] | fields.frame


def is_whole(layers, fields):
    """Whether the message begins with the frame."""
    return ~layers.half[1] | fields.frame | fields.layer2


def _is_reached(valid, number, layers):
    """Return whether the message ends in a beat of this number."""
    return valid & (number == layers.end[_PLACE_BITS:])


def _is_shorter(size, layers):
    """Return whether a beat ends before the message."""
    return size < layers.end[:_PLACE_BITS]


def _is_bounded(layers):
    return layers.half[1] & ~layers.open


def _has_word(began, trimmed, top, whole, even):
    """Whether the byte with which a word begins belongs to the message."""
    if len(even) > 1:
        offset = Mux(whole, 0, even << 1)
    else:
        odd = (SHORTEST + TAG_BYTES) % BEAT_BYTES
        offset = Mux(whole, 0, Mux(even, SHORTEST % BEAT_BYTES, odd))
    return began & ~trimmed & (top >= offset)


_NEARBY = data.StructLayout({"began": 1, "at": 3})
"""`began` is set from the first beat of layer 3 on; bit n of `at` is set n beats after it."""


def _near(number, layers):
    begin = FoundLayers.start(layers)[_PLACE_BITS:]
    return data.View(_NEARBY, Cat(number >= begin, (number == begin + n for n in range(3))))


def _hidden(near, layers, plain, fields):
    """Return the halves of bytes that change in transit."""
    halves = [[] for _ in range(2 * BEAT_BYTES)]
    if "begin" in dict(layers.shape()):
        begins = {2 * n: layers.begin[1:_PLACE_BITS] == n for n in range(BEAT_BYTES // 2)}
    else:
        begins = {SHORTEST + TAG_BYTES * odd: layers.count[0] == odd for odd in range(2)}
    for begin, holds in begins.items():
        for six, places in MUTABLE.items():
            mine = ~plain & holds & (layers.half[0] == six)
            for place, which, field in places:
                beat, byte = divmod(begin % BEAT_BYTES + place, BEAT_BYTES)
                counts = fields[field] if field else Const(0)
                for half in which:
                    halves[2 * byte + half].append(mine & near.at[beat] & ~counts)
    return Cat(Cat(conditions).any() for conditions in halves)


def _mask(valid, hidden, trimmed, top):
    within = [valid & ~trimmed & kept for kept in kept_bytes(top)]
    return Cat(within[n // 2] & ~hidden[n] for n in range(2 * BEAT_BYTES))


def _masked(octets, mask):
    return octets & Cat(bit.replicate(4) for bit in mask)
