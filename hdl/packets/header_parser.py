"""Ethernet header parser: `lately.golden.packets.packet_layers` in hardware."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.packet_digest import TAG_BITS
from ...golden.packets.packet_layers import (
    ETHER_TYPES,
    ETHERNET,
    HEADERS,
    LINK_HEADERS,
    MAX_READ,
    MAX_TAGS,
    NO_NEXT_HEADER,
    TAG_TYPES,
    Version,
)
from ..pipeline import Pipeline
from .frames import BEAT_BYTES, FrameBeat

# number of bytes before layer 3 in an untagged frame, and offset of its EtherType
SHORTEST, TYPE_AT = LINK_HEADERS[ETHERNET]

TAG_BYTES = 4  # number of bytes in a VLAN tag
# number of bytes up to the end of the longest header
LONGEST = SHORTEST + TAG_BYTES * MAX_TAGS + HEADERS[Version.IP6]

BEGIN_BITS = MAX_READ.bit_length()  # width of the offset of an inner packet in a frame
END_BITS = 17  # width of the end offset of layer 3, computed from a header's length field
_NEXT_HEADER = 8
_LAST_READ = TYPE_AT + TAG_BYTES * MAX_TAGS + _NEXT_HEADER
_HEAD_AT = TYPE_AT
_TAG_COUNTS = range(MAX_TAGS + 1)


class FrameLayers(data.StructLayout):
    """Results of parsing the headers of a frame, known before the frame ends."""

    def __init__(self, inner=False):
        super().__init__(
            {
                "half": 2,  # half the IP version, 0 for other frames; high bit: IP
                "count": range(MAX_TAGS + 1),
                "tags": data.ArrayLayout(TAG_BITS, MAX_TAGS),  # VLAN IDs, padded with zeros
                "open": 1,  # layer 3 ends with the frame
                "end": END_BITS,  # offset of the last byte of layer 3, as the header states
                "malformed": 1,
            }
            # `begin`: offset of the inner packet. `lenient`: an outer header states the end of the
            # packet, so a frame that ends earlier is not malformed.
            | ({"begin": BEGIN_BITS, "lenient": 1} if inner else {})
        )

    @staticmethod
    def start(layers):
        """Return the offset of layer 3."""
        if "begin" in dict(layers.shape()):
            return layers.begin
        return SHORTEST + TAG_BYTES * layers.count

    @staticmethod
    def must_end(layers, bounded):
        """Return whether a frame that ends before its layer 3 is malformed."""
        return bounded & ~layers.lenient if "lenient" in dict(layers.shape()) else bounded


class HeaderParser(wiring.Component):
    """Finds layer 3 in Ethernet frames, which arrive at up to one beat per cycle.

    The layers leave `LATENCY` cycles after beat `decisive` of a frame, which contains the end of
    the longest header, or after the last beat of a shorter frame.
    """

    LATENCY = 5

    def __init__(self, width=8 * BEAT_BYTES):
        self._bytes = width // 8
        self.decisive = (LONGEST - 1) // self._bytes
        super().__init__(
            {
                "valid": In(1),
                "beat": In(FrameBeat(width)),
                "layers_valid": Out(1),
                "layers": Out(FrameLayers()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        decided, reach, head = self._collect(m)
        valid = pipe.enter(decided, "decided", stage=1)
        reach = pipe.enter(reach, "reach", stage=1, reset_less=True)
        # With 64-bit beats, the next frame overwrites `head` at least two cycles later.
        steady = pipe.enter(head, "head", stage=None if self._bytes == BEAT_BYTES else 1)
        head = pipe.enter(head, "head", stage=1)
        types = [
            pipe.register(f"type{n}", lambda h, n=n: _types(_number(h, n)), head, reset_less=True)
            for n in _TAG_COUNTS
        ]
        enough = [
            pipe.register(f"enough{n}", lambda r, n=n: _enough(r, n), reach, reset_less=True)
            for n in _TAG_COUNTS
        ]
        chosen = pipe.register("chosen", _choose, steady, *types, *enough, reset_less=True)
        judged = pipe.register("judged", _judge, chosen, reset_less=True)
        layers = pipe.register("layers", _conclude, judged, reset_less=True)
        valid = valid.at(layers.stage)
        pipe.leave(valid, layers, latency=self.LATENCY)
        m.d.comb += [self.layers_valid.eq(valid.value), self.layers.eq(layers.value)]
        return m

    def _collect(self, m):
        """Store header bytes.

        Returns whether parsing can begin, the offset of the last byte, and the stored bytes.
        """
        size, decisive = self._bytes, self.decisive
        with_head = range(TYPE_AT // size, _LAST_READ // size + 1)
        index = Signal(range(decisive + 2))
        head = Signal(data.ArrayLayout(8, size * with_head.stop - _HEAD_AT))
        octets = data.View(data.ArrayLayout(8, size), self.beat.data)
        decided = Signal()
        reach = Signal(range(size * (decisive + 1)))
        last = self.beat.last
        m.d.sync += [
            decided.eq(self.valid & Mux(index == decisive, 1, last & (index < decisive))),
            reach.eq(Cat(self.beat.size | ~last.replicate(len(self.beat.size)), index)),
        ]
        with m.If(self.valid):
            m.d.sync += index.eq(Mux(last, 0, index + (index <= decisive)))
            for number in with_head:
                with m.If(index == number):
                    for byte in range(size):
                        if (offset := size * number + byte - _HEAD_AT) >= 0:
                            m.d.sync += head[offset].eq(octets[byte])
        return decided, reach, head


def _number(head, tags, offset=0):
    """Return the 16-bit number `offset` bytes after the EtherType of a frame with `tags` tags."""
    at = TYPE_AT + TAG_BYTES * tags + offset - _HEAD_AT
    return Cat(head[at + 1], head[at])


def _types(value):
    of_tag = Cat(value == kind for kind in TAG_TYPES).any()
    return Cat(of_tag, *(value == kind for kind in ETHER_TYPES))


def _enough(reach, tags):
    """Return three flags: whether layer 3, an IPv4 header and an IPv6 header fit in the frame."""
    begin = SHORTEST + TAG_BYTES * tags
    return Cat(reach >= begin + header - 1 for header in (0, *HEADERS.values()))


# fields of the layer 3 header, selected by the number of tags
_CHOSEN = data.StructLayout(
    {
        "count": range(MAX_TAGS + 1),
        "tags": data.ArrayLayout(TAG_BITS, MAX_TAGS),
        "type": data.StructLayout({"tag": 1, "ip4": 1, "ip6": 1}),
        "enough": data.StructLayout({"begin": 1, "ip4": 1, "ip6": 1}),
        "first": data.StructLayout({"words": 4, "version": 4}),
        "total": 16,
        "payload": 16,
        "next": 8,
    }
)


def _choose(head, *types_enough):
    types, enough = types_enough[: len(_TAG_COUNTS)], types_enough[len(_TAG_COUNTS) :]
    tagged = [types[n][0] for n in range(MAX_TAGS)]
    count = Mux(~tagged[0], 0, Mux(~tagged[1], 1, Mux(~tagged[2], 2, 3)))
    within = [Cat(tagged[: n + 1]).all() for n in range(MAX_TAGS)]

    def choose(values):
        return _pick(count, values)

    return Cat(
        count,
        *(_number(head, n, 2)[:TAG_BITS] & within[n].replicate(TAG_BITS) for n in range(MAX_TAGS)),
        choose(types),
        choose(enough),
        choose([_number(head, n, 2)[8:] for n in _TAG_COUNTS]),
        choose([_number(head, n, 4) for n in _TAG_COUNTS]),
        choose([_number(head, n, 6) for n in _TAG_COUNTS]),
        choose([_number(head, n, _NEXT_HEADER)[8:] for n in _TAG_COUNTS]),
    )


def _pick(number, values):
    return Mux(
        number[1],
        Mux(number[0], values[3], values[2]),
        Mux(number[0], values[1], values[0]),
    )


# Checks of the layer 3 header. Layer 3 ends `size` bytes after `base`.
_JUDGED = data.StructLayout(
    {
        "count": range(MAX_TAGS + 1),
        "tags": data.ArrayLayout(TAG_BITS, MAX_TAGS),
        "ip4": 1,
        "ip6": 1,
        "right4": 1,
        "right6": 1,
        "fits": 1,
        "short": 1,
        "open": 1,
        "base": LONGEST.bit_length(),
        "size": 16,
    }
)


def _judge(value):
    chosen = data.View(_CHOSEN, value)
    first, total = chosen.first, chosen.total
    open4 = total == 0
    open6 = (chosen.payload == 0) & (chosen.next != NO_NEXT_HEADER)
    six = chosen.type.ip6
    # Selected, because an addition would put another carry chain before the one for the end.
    bases = [SHORTEST + TAG_BYTES * n - 1 for n in _TAG_COUNTS]
    base = _pick(chosen.count, [Mux(six, at + HEADERS[Version.IP6], at) for at in bases])
    shortest = HEADERS[Version.IP4] // 4
    return Cat(
        chosen.count,
        chosen.tags,
        chosen.type.ip4,
        six,
        chosen.enough.ip4 & (first.version == Version.IP4) & (first.words >= shortest),
        chosen.enough.ip6 & (first.version == Version.IP6),
        open4 | total[6:].any() | (total[2:6] >= first.words),
        ~chosen.enough.begin,
        Mux(six, open6, open4),
        base[: LONGEST.bit_length()],
        Mux(six, chosen.payload, total),
    )


def _conclude(value):
    judged = data.View(_JUDGED, value)
    right4 = ~judged.short & judged.ip4 & judged.right4 & judged.fits
    right6 = ~judged.short & judged.ip6 & judged.right6
    right = right4 | right6
    return Cat(
        right6,
        right,
        judged.count,
        judged.tags,
        judged.open,
        (judged.base + judged.size)[:END_BITS],
        judged.short | ((judged.ip4 | judged.ip6) & ~right),
    )
