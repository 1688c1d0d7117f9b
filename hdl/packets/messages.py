"""Extraction of the message of each frame: the bytes that are compared with other frames."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.comparison import (
    HARDWARE_FIELDS,
    IP4_CHECKSUM,
    IP4_TOS,
    IP4_TTL,
    IP6_CLASS,
    IP6_HOP_LIMIT,
)
from ...golden.packets.packet_digest import COUNT_BITS, LENGTH_BITS, TAG_BITS, VERSION_BITS
from ...golden.packets.packet_layers import MAX_TAGS
from ..lanes.collector import Credits
from ..latencies import ACCEPT_LAG
from ..pipeline import Pipeline, delayed, registered
from ..queue import Queue
from .frames import BEAT_BYTES, FrameBeat, kept_bytes
from .header_parser import (
    BEGIN_BITS,
    END_BITS,
    SHORTEST,
    TAG_BYTES,
    FrameLayers,
    HeaderParser,
)
from .inner_parser import InnerParser

# minimum cycles per frame with 64-bit beats: the beats of 60 bytes, or the time of a digest
MIN_SLOTS = 8

BEATS = 32  # number of beats that can wait until their header is parsed and the result is known
INNER_BEATS = 128  # number of beats that can wait until the innermost layer 3 is found
# Maximum number of waiting frames with 64-bit beats; doubled for an innermost layer 3. With wider
# beats, as many frames as beats can wait.
FRAMES = 16

# fields of a digest, in the order of the bits of `lately.golden.packets.comparison.Field`
FIELDS = data.StructLayout({field.name.lower(): 1 for field in HARDWARE_FIELDS})

_LOW, _HIGH, _BOTH = (0,), (1,), (0, 1)
# Header bytes of IPv4 (0) and IPv6 (1) that change in transit: their offset, their halves, and the
# field that includes them.
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

# possible positions of layer 3 in a frame
BEGINS = tuple(SHORTEST + TAG_BYTES * tags for tags in range(MAX_TAGS + 1))

# offset of the last byte in a message that may be excluded from the comparison
LAST_HIDDEN = BEGINS[-1] + max(byte for rows in MUTABLE.values() for byte, *_ in rows)


class Slot(data.StructLayout):
    """One cycle of a frame: the beat that is read, if any, and whether the frame is done."""

    def __init__(self, width=8 * BEAT_BYTES):
        super().__init__(
            {
                "valid": 1,  # `beat` is read
                "beat": FrameBeat(width),
                "first": 1,  # `beat` is the first of its frame
                "done": 1,  # with the last beat, or in slot `MIN_SLOTS` if that is later
            }
        )


class Closing(data.StructLayout):
    """Bytes that end a digested message: see `lately.golden.packets.packet_digest.Message`."""

    def __init__(self):
        tags = data.ArrayLayout(TAG_BITS, MAX_TAGS)
        super().__init__(
            {"length": LENGTH_BITS, "half": VERSION_BITS, "count": COUNT_BITS, "tags": tags}
        )


class FrameFacts(data.StructLayout):
    """IP version and errors of a frame, known at its end."""

    def __init__(self):
        super().__init__({"half": VERSION_BITS, "malformed": 1, "error": 1})  # half the IP version


class FrameReader(wiring.Component):
    """Reads frames once the positions of their layers are known.

    The first nine beats of a frame, or all if there are fewer, are read in consecutive cycles. A
    frame takes at least `MIN_SLOTS` cycles, or one cycle per beat if beats are wider than 64 bits.
    While `go` is high, only frames with fewer than `MIN_SLOTS` 64-bit beats stall the input.
    """

    def __init__(self, width=8 * BEAT_BYTES, *, inner=False):
        self._width = width
        self._layers = FrameLayers(inner)
        self._beats = beats = INNER_BEATS if inner else BEATS
        frames = 2 * FRAMES if inner else FRAMES
        self._min_slots, self._frames = (
            (MIN_SLOTS, frames) if width == 8 * BEAT_BYTES else (1, beats)
        )
        if inner:
            self._parser = InnerParser(width, beats=beats, frames=self._frames)
        else:
            self._parser = HeaderParser(width)
        super().__init__(
            {
                "i": In(stream.Signature(FrameBeat(width))),
                "go": In(1),  # another frame may begin, two cycles later
                "slot": Out(Slot(width)),
                # Layers of the current frame, from its first slot to the first slot of the next.
                "layers": Out(self._layers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beats, layers = self._elaborate_queues(m)
        # Number of past slots of the frame, up to the maximum; and whether there were none.
        index = Signal(range(self._min_slots))
        fresh = Signal(init=1)
        ended = Signal()
        begins, reads, done = Signal(), Signal(), Signal()
        go = registered(m, self.go, "may_begin")
        last = beats.p.last
        late = index == self._min_slots - 1
        m.d.comb += [
            begins.eq(fresh & beats.valid & layers.valid & go),
            reads.eq(beats.valid & Mux(fresh, layers.valid & go, ~ended)),
            done.eq(late & (ended | (reads & last))),
            beats.ready.eq(reads),
            layers.ready.eq(begins),
        ]
        with m.If(done):
            m.d.sync += [index.eq(0), fresh.eq(1), ended.eq(0)]
        with m.Elif(reads | ended):
            m.d.sync += [
                index.eq(index + (index != self._min_slots - 1)),
                fresh.eq(0),
                ended.eq(ended | last),
            ]
        slot = self.slot
        m.d.sync += [
            Cat(slot.valid, slot.first, slot.done).eq(Cat(reads, begins, done)),
            slot.beat.eq(beats.p),
        ]
        with m.If(begins):
            m.d.sync += self.layers.eq(layers.p)
        return m

    def _elaborate_queues(self, m):
        """Store arriving beats; return the streams of beats, and of the layers of each frame."""
        m.submodules.parser = parser = self._parser
        m.submodules.beats = beats = Queue(
            FrameBeat(self._width), depth=self._beats, distributed=True
        )
        m.submodules.layers_queue = layers = Queue(
            self._layers, depth=self._frames, distributed=True
        )
        m.submodules.beat_credits = beat_credits = Credits(limit=self._beats - 1 - ACCEPT_LAG)
        m.submodules.frame_credits = frame_credits = Credits(limit=self._frames - 1 - ACCEPT_LAG)
        taken = Signal()
        first = Signal(init=1)
        with m.If(taken):
            m.d.sync += first.eq(self.i.p.last)
        m.d.comb += [
            self.i.ready.eq(beat_credits.available & frame_credits.available),
            taken.eq(self.i.valid & self.i.ready),
            parser.valid.eq(taken),
            parser.beat.eq(self.i.p),
            beats.valid_next.eq(taken),
            beats.word.eq(registered(m, self.i.p, "beat", reset_less=True)),
            beat_credits.spend.eq(taken),
            beat_credits.refund.eq(beats.o.valid & beats.o.ready),
            layers.valid_next.eq(parser.layers_valid),
            layers.word.eq(registered(m, parser.layers, "layers", reset_less=True)),
            frame_credits.spend.eq(taken & first),
            frame_credits.refund.eq(layers.o.valid & layers.o.ready),
        ]
        return beats.o, layers.o


class _Beat(data.StructLayout):
    """A beat of a frame, the beat's position in the message, and properties of the frame.

    Beat `index` of the message begins in this beat, or in a later beat if `before` is set.
    """

    def __init__(self, byte_bits, inner):
        hidden = LAST_HIDDEN - BEGINS[-1] if inner else LAST_HIDDEN
        super().__init__(
            {
                "start": BEGIN_BITS if inner else max(BEGINS).bit_length(),  # offset of the message
                # One-hot offset of layer 3 in the message: 0, or one of `BEGINS`; 0 if there is no
                # layer 3. An inner layer 3 has only the bit for offset 0.
                "positions": 1 if inner else 1 + len(BEGINS),
                "plain": 1,  # the message is the whole frame
                "bounded": 1,  # a header states the end of layer 3
                "half": VERSION_BITS,
                "malformed": 1,
                "parts": Closing().size - LENGTH_BITS,  # members of `Closing` after the length
                "last": 1,
                "error": 1,
                "before": 1,
                "index": END_BITS - byte_bits,
                "low": 1,  # the frame ends before the beat of the message begins
                "top": byte_bits,  # position of the frame's last byte in the message
                "bound": END_BITS,  # end of layer 3, as the header states
                "reached": 1,  # the beat of the message contains this end
                "shorter": 1,  # the frame ends before this end, if both are in this beat
                "near": (hidden >> byte_bits) + 1,  # one-hot `index`, where bytes may be excluded
            }
            # An outer header states the end of the inner packet.
            | ({"lenient": 1} if inner else {})
        )


class AlignedBeats(wiring.Component):
    """Extracts the message of each frame, like `lately.golden.packets.packet_digest.message`.

    A beat of the message consists of the end of one frame beat and the start of the next one. So
    each frame beat produces a message beat, or an empty one, after the next frame beat arrives. The
    message begins at the first byte of a beat. If `inner` is set, the field ``layer2`` must be low.
    """

    LATENCY = 6

    def __init__(self, width, inner=False):
        self._inner = inner
        self._bytes = width // 8
        self._byte_bits = (self._bytes - 1).bit_length()
        super().__init__(
            {
                "slot": In(Slot(width)),
                "layers": In(FrameLayers(inner)),
                "fields": In(FIELDS),  # constant while there are frames
                # ORed into `octets` one cycle later; 0 while there are frames.
                "fill": In(width),
                "octets": Out(width),  # zeros for bytes that are not compared
                "counts": Out(1),  # `octets` is a beat of the message
                "last": Out(1),  # the frame ends, with the last beat of its message or later
                "closing": Out(Closing()),  # with `last`
                "done": Out(1),  # the slot's `done`; with `last` if it came with the last beat
                "facts_valid": Out(1),  # once per frame, no later than `last`
                "facts": Out(FrameFacts()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        valid = pipe.enter(self.slot.valid, "valid")
        slot = pipe.enter(self.slot.beat, "slot", reset_less=True)
        fields = pipe.enter(self.fields, "fields", stage=None)
        plan, beat = self._locate(m, pipe, slot, fields)
        counts, last, final, meets, top, held = self._pair(m, pipe, valid.at(beat.stage), beat)
        self._conclude(m, pipe, last, final, meets, top, held)
        halves = self._choose(pipe, counts, top, held, fields)
        octets = self._merge(m, pipe, valid, slot, plan, *halves)
        counts, last = counts.at(self.LATENCY), last.at(self.LATENCY)
        pipe.leave(octets, counts, last, latency=self.LATENCY)
        m.d.comb += [
            self.octets.eq(octets.value),
            self.counts.eq(counts.value),
            self.last.eq(last.value),
            # The last beat waits one cycle; other beats wait for the next one.
            self.done.eq(delayed(m, self.slot.done, self.LATENCY + 1, "done")),
        ]
        return m

    def _locate(self, m, pipe, slot, fields):
        """Return two `_Beat` views of each beat: without and with its position in the message."""
        bits = self._byte_bits
        number = Signal(END_BITS - bits)
        with m.If(self.slot.valid):
            m.d.sync += number.eq(Mux(self.slot.beat.last, 0, number + 1))
        number = pipe.enter(number, "number", reset_less=True)
        layers = pipe.enter(self.layers, "layers", reset_less=True)

        def plan(layers, fields):
            is_ip = layers.half[1]
            plain = ~is_ip | fields.frame
            whole = plain | fields.layer2
            packet = is_ip & ~fields.frame
            tags = Cat(layers.count, layers.tags)
            begins = [layers.count == tags for tags in range(len(BEGINS))]
            more = {"lenient": layers.lenient} if self._inner else {}
            return _packed(
                _Beat(bits, self._inner),
                start=Mux(whole, 0, FrameLayers.start(layers)),
                positions=Mux(plain, 0, Mux(whole, Cat(0, *begins), 1)),
                plain=plain,
                bounded=is_ip & ~layers.open,
                half=layers.half,
                malformed=layers.malformed,
                parts=Cat(
                    layers.half & packet.replicate(VERSION_BITS),
                    tags & (packet & fields.vlan).replicate(len(tags)),
                ),
                bound=layers.end,
                **more,
            )

        def locate(beat, number, slot):
            first = beat.start >> bits
            return _packed(
                beat,
                last=slot.last,
                error=slot.error,
                before=number < first,
                index=number - first,
                low=slot.last & (slot.size < beat.start[:bits]),
                top=slot.size - beat.start,
                bound=beat.bound - beat.start,
            )

        def compare(beat):
            return _packed(
                beat,
                reached=~beat.before & (beat.index == beat.bound[bits:]),
                shorter=beat.top < beat.bound[:bits],
                near=Cat(~beat.before & (beat.index == n) for n in range(len(beat.near))),
            )

        planned = pipe.register("plan", plan, layers, fields, reset_less=True)
        beat = pipe.register("located", locate, planned, number, slot, reset_less=True)
        return planned, pipe.register("compared", compare, beat, reset_less=True)

    def _pair(self, m, pipe, valid, beat):
        """Pair each beat with the next beat.

        Returns four flags, the position of the last byte, and the first beat of the pair.
        """
        now, stage = beat.value, beat.stage
        held = registered(m, now, "held", reset_less=True, enable=valid.value)
        waits, past = Signal(), Signal()
        emits, ends, meets, final, counts = (Signal() for _ in range(5))
        end = data.View(now.shape(), Mux(held.last, held.as_value(), now.as_value()))
        m.d.comb += [
            emits.eq(waits & (held.last | valid.value)),
            ends.eq(Mux(held.last, ~held.low, now.last & now.low)),
            meets.eq(held.bounded & held.reached & ~(held.last & held.low)
                     & ~(ends & end.shorter)),
            final.eq(ends | (meets & ~held.plain)),
            counts.eq(emits & ~held.before & ~past),
        ]  # fmt: skip
        m.d.sync += waits.eq(valid.value | (waits & ~emits))
        with m.If(emits):
            m.d.sync += past.eq(~held.last & (past | final))
        top = Mux(
            meets & ~held.plain,
            held.bound[: self._byte_bits],
            end.top | ~ends.replicate(self._byte_bits),
        )
        facts = {
            "counts": counts,
            "ended": emits & held.last,
            "final": counts & final,
            "meets": emits & meets,
        }
        facts = [
            pipe.register(name, lambda value: value, pipe.enter(value, name, stage=stage))
            for name, value in facts.items()
        ]
        values = [
            pipe.register(
                name,
                lambda value: value,
                pipe.enter(value, name, stage=stage),
                reset_less=True,
            )
            for name, value in (("top", top), ("pair", held))
        ]
        return *facts, *values

    def _conclude(self, m, pipe, last, final, meets, top, held):
        length, met = Signal(LENGTH_BITS), Signal()
        with m.If(final.value):
            m.d.sync += length.eq(Cat(top.value, held.value.index) + 1)
        m.d.sync += met.eq(~last.value & (met | meets.value))
        met = pipe.enter(met, "met", stage=last.stage)
        facts = pipe.register(
            "facts",
            lambda held, met, meets: Cat(
                held.half,
                held.malformed | (FrameLayers.must_end(held, held.bounded) & ~met & ~meets),
                held.error,
            ),
            held,
            met,
            meets,
            reset_less=True,
        )
        length = pipe.enter(length, "length", stage=last.stage + 1)
        closing = pipe.register("closing", Cat, length, held["parts"], reset_less=True)
        pipe.leave(closing, latency=self.LATENCY)
        m.d.comb += [
            self.closing.eq(closing.value),
            self.facts_valid.eq(last.at(facts.stage).value),
            self.facts.eq(facts.value),
        ]

    def _choose(self, pipe, counts, top, held, fields):
        """Return masks of the nibbles to take from the held beat and from the next beat."""

        def chosen(counts, top, held, fields, *, first):
            kept = kept_bytes(top) & counts.replicate(self._bytes)
            shift = held.start[: self._byte_bits]
            from_held = [shift <= self._bytes - 1 - byte for byte in range(self._bytes)]
            hidden = _hidden(held, fields, self._bytes)
            return Cat(
                kept[half // 2]
                & (from_held[half // 2] if first else ~from_held[half // 2])
                & ~hidden[half]
                for half in range(2 * self._bytes)
            )

        return [
            pipe.register(
                name,
                lambda *values, first=first: chosen(*values, first=first),
                counts,
                top,
                held,
                fields,
                reset_less=True,
            )
            for name, first in (("from_held", True), ("from_next", False))
        ]

    def _merge(self, m, pipe, valid, slot, plan, from_held, from_next):
        """Rotate each beat by the start of its message; merge each pair into one message beat."""
        octets, plan = slot["data"].at(plan.stage), plan["start"]
        digits = range(1, min(len(plan.value), self._byte_bits))
        for low in range(digits.start, digits.stop, 2):

            def rotate(octets, start, digits=digits[low - 1 : low + 1]):
                for digit in digits:
                    octets = Mux(start[digit], octets.rotate_right(8 << digit), octets)
                return octets

            octets = pipe.register(f"rotated{low}", rotate, octets, plan, reset_less=True)
        octets = octets.at(from_held.stage)
        enable = valid.at(from_held.stage).value
        before = registered(m, octets.value, "before", reset_less=True, enable=enable)

        def merge(before, octets, from_held, from_next, fill):
            return (before & _halves(from_held)) | (octets & _halves(from_next)) | fill

        before = pipe.enter(before, "before", stage=from_held.stage)
        fill = pipe.enter(self.fill, "fill", stage=from_held.stage)
        return pipe.register(
            "octets", merge, before, octets, from_held, from_next, fill, reset_less=True
        )


def _packed(base, **members):
    """Return a view of a layout, or a copy of a view, with the given values for some members."""
    layout = base if isinstance(base, data.Layout) else base.shape()
    values = []
    for name, field in layout:
        value = members.get(name, 0 if base is layout else base[name])
        values.append(Cat(Value.cast(value), Const(0, field.width))[: field.width])
    return data.View(layout, Cat(values))


def _hidden(beat, fields, size):
    """Return, for each nibble, whether it may change in transit and is not compared."""
    halves = [[] for _ in range(2 * size)]
    for is_here, begin in zip(beat.positions, (0, *BEGINS), strict=False):
        for six, rows in MUTABLE.items():
            for offset, which, field in rows:
                number, byte = divmod(begin + offset, size)
                hides = is_here & (beat.half[0] == six) & beat.near[number]
                for half in which:
                    halves[2 * byte + half].append(hides & ~fields[field] if field else hides)
    return [Cat(conditions).any() for conditions in halves]


def _halves(bits):
    return Cat(bit.replicate(4) for bit in bits)
