"""Beats of the message of each frame; the message begins at the first byte of a beat."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.packet_digest import LENGTH_BITS, VERSION_BITS
from ...golden.packets.packet_layers import MOST_TAGS
from ..pipeline import Pipeline, registered
from .frame_reader import Slot
from .frames import kept_bytes
from .header_parser import BEGIN_BITS, END_BITS, SHORTEST, TAG_BYTES, FoundLayers
from .message_beats import FIELDS, MUTABLE, FrameFacts, is_plain, is_whole
from .message_words import Closing, closing_parts

BEGINS = tuple(SHORTEST + TAG_BYTES * tags for tags in range(MOST_TAGS + 1))
"""Possible positions of layer 3 in a frame."""

LAST_HIDDEN = BEGINS[-1] + max(place for rows in MUTABLE.values() for place, *_ in rows)
"""Last byte of a message that may be hidden."""


class _Beat(data.StructLayout):
    """A beat of a frame, with facts of the frame and its position in the message.

    Members: `start`, where the message begins in the frame; `places`, where layer 3 begins in the
    message: at 0, at one of `BEGINS`, or nowhere. Further members: `plain`, whether the message is
    the whole frame; `bounded`, whether a header states the end of layer 3. `half`, `malformed` and
    `parts` are facts of the frame; `last` and `error` belong to the beat. An inner layer 3 begins
    at 0 or nowhere, and may be `lenient`.

    A beat of the message, with number `index`, begins in this beat, or later if `before` is set.
    `top` is the position of the frame's last byte in the message. The frame is `low` if it ends
    before the beat of the message begins. `bound` is the end that the header states. If the beat of
    the message contains it, `reached` is set; if the frame also ends there, `shorter`. `near` has a
    bit for each number of a beat that may contain hidden bytes.
    """

    def __init__(self, place_bits, inner):
        hidden = LAST_HIDDEN - BEGINS[-1] if inner else LAST_HIDDEN
        super().__init__(
            {
                "start": BEGIN_BITS if inner else max(BEGINS).bit_length(),
                "places": 1 if inner else 1 + len(BEGINS),
                "plain": 1,
                "bounded": 1,
                "half": VERSION_BITS,
                "malformed": 1,
                "parts": Closing().size - LENGTH_BITS,
                "last": 1,
                "error": 1,
                "before": 1,
                "index": END_BITS - place_bits,
                "low": 1,
                "top": place_bits,
                "bound": END_BITS,
                "reached": 1,
                "shorter": 1,
                "near": (hidden >> place_bits) + 1,
            }
            | ({"lenient": 1} if inner else {})
        )


class AlignedBeats(wiring.Component):
    """Extracts the message of each frame, as `lately.golden.packets.packet_digest.message`.

    A beat of the message consists of the end of a beat of the frame and the start of the next one.
    So each beat of a frame produces a beat of its message, or an empty beat, after the next beat.

    Parameters
    ----------
    width : int
        Bits of a beat, at least 128.
    inner : bool
        Whether layer 3 is the innermost. Then the field ``layer2`` must be low.

    Members
    -------
    slot, layers : In(Slot(width)), In(FoundLayers(inner))
        From a `FrameReader`.
    fields : In(FIELDS)
        Constant while there are frames.
    fill : In(width)
        ORed into `octets` one cycle later; 0 while there are frames.
    octets : Out(width)
        Zero for bytes that are not compared.
    counts : Out(1)
        The octets are a beat of the message.
    last, closing : Out(1), Out(Closing())
        A frame ends, with the last beat of its message or later.
    `told`, `facts` : Out(1), Out(FrameFacts())
        Once per frame, no later than `last`.
    """

    LATENCY = 6

    def __init__(self, width, inner=False):
        self._inner = inner
        self._bytes = width // 8
        self._place_bits = (self._bytes - 1).bit_length()
        super().__init__(
            {
                "slot": In(Slot(width)),
                "layers": In(FoundLayers(inner)),
                "fields": In(FIELDS),
                "fill": In(width),
                "octets": Out(width),
                "counts": Out(1),
                "last": Out(1),
                "closing": Out(Closing()),
                "told": Out(1),
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
        own, next_own = self._choose(pipe, counts, top, held, fields)
        octets = self._merge(m, pipe, valid, slot, plan, own, next_own)
        counts, last = counts.at(self.LATENCY), last.at(self.LATENCY)
        pipe.leave(octets, counts, last, latency=self.LATENCY)
        m.d.comb += [
            self.octets.eq(octets.value),
            self.counts.eq(counts.value),
            self.last.eq(last.value),
        ]
        return m

    def _locate(self, m, pipe, slot, fields):
        """Return each beat with its position."""
        bits = self._place_bits
        number = Signal(END_BITS - bits)
        with m.If(self.slot.valid):
            m.d.sync += number.eq(Mux(self.slot.beat.last, 0, number + 1))
        number = pipe.enter(number, "number", reset_less=True)
        layers = pipe.enter(self.layers, "layers", reset_less=True)

        def plan(layers, fields):
            plain, whole = is_plain(layers, fields), is_whole(layers, fields)
            at = [layers.count == tags for tags in range(len(BEGINS))]
            more = {"lenient": layers.lenient} if self._inner else {}
            return _packed(
                _Beat(bits, self._inner),
                start=Mux(whole, 0, FoundLayers.start(layers)),
                places=Mux(plain, 0, Mux(whole, Cat(0, *at), 1)),
                plain=plain,
                bounded=layers.half[1] & ~layers.open,
                half=layers.half,
                malformed=layers.malformed,
                parts=closing_parts(layers, fields),
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
        """Join each beat with the next one; return facts of the pair, its last byte, and the first.

        Facts: the pair counts; its frame ends; the message ends; the pair contains the header's
        end.
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
            held.bound[: self._place_bits],
            end.top | ~ends.replicate(self._place_bits),
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
        """Output closing and facts of each frame at its end."""
        length, met = Signal(LENGTH_BITS), Signal()
        with m.If(final.value):
            m.d.sync += length.eq(Cat(top.value, held.value.index) + 1)
        m.d.sync += met.eq(~last.value & (met | meets.value))
        met = pipe.enter(met, "met", stage=last.stage)
        facts = pipe.register(
            "facts",
            lambda held, met, meets: Cat(
                held.half,
                held.malformed | (FoundLayers.must_end(held, held.bounded) & ~met & ~meets),
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
            self.told.eq(last.at(facts.stage).value),
            self.facts.eq(facts.value),
        ]

    def _choose(self, pipe, counts, top, held, fields):
        """Return for each half of a byte whether it comes from the held beat or the next one."""

        def chosen(counts, top, held, fields, *, first):
            kept = kept_bytes(top) & counts.replicate(self._bytes)
            shift = held.start[: self._place_bits]
            mine = [shift <= self._bytes - 1 - place for place in range(self._bytes)]
            hidden = _hidden(held, fields, self._bytes)
            return Cat(
                kept[half // 2] & (mine[half // 2] if first else ~mine[half // 2]) & ~hidden[half]
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
            for name, first in (("own", True), ("next", False))
        ]

    def _merge(self, m, pipe, valid, slot, plan, own, next_own):
        """Rotate each beat by the start of its message; return each pair of beats as one beat."""
        octets, plan = slot["data"].at(plan.stage), plan["start"]
        digits = range(1, min(len(plan.value), self._place_bits))
        for low in range(digits.start, digits.stop, 2):

            def rotate(octets, start, places=digits[low - 1 : low + 1]):
                for place in places:
                    octets = Mux(start[place], octets.rotate_right(8 << place), octets)
                return octets

            octets = pipe.register(f"rotated{low}", rotate, octets, plan, reset_less=True)
        octets = octets.at(own.stage)
        enable = valid.at(own.stage).value
        before = registered(m, octets.value, "before", reset_less=True, enable=enable)

        def merge(before, octets, own, next_own, fill):
            return (before & _halves(own)) | (octets & _halves(next_own)) | fill

        before = pipe.enter(before, "before", stage=own.stage)
        fill = pipe.enter(self.fill, "fill", stage=own.stage)
        return pipe.register("octets", merge, before, octets, own, next_own, fill, reset_less=True)


def _packed(base, **members):
    """Return a view of a layout, or of a view, with other values of some members."""
    layout = base if isinstance(base, data.Layout) else base.shape()
    values = []
    for name, field in layout:
        value = members.get(name, 0 if base is layout else base[name])
        values.append(Cat(Value.cast(value), Const(0, field.width))[: field.width])
    return data.View(layout, Cat(values))


def _hidden(beat, fields, size):
    """Return whether each half of a byte changes in transit and is not compared."""
    halves = [[] for _ in range(2 * size)]
    for at, begin in zip(beat.places, (0, *BEGINS), strict=False):
        for six, rows in MUTABLE.items():
            for place, which, field in rows:
                number, byte = divmod(begin + place, size)
                hides = at & (beat.half[0] == six) & beat.near[number]
                for half in which:
                    halves[2 * byte + half].append(hides & ~fields[field] if field else hides)
    return [Cat(conditions).any() for conditions in halves]


def _halves(bits):
    return Cat(bit.replicate(4) for bit in bits)
