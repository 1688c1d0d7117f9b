"""Finds the innermost layer 3 header, like `inner_layers` of the golden model."""

from enum import IntEnum, auto
from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.encapsulations import (
    BRIDGED,
    ETHER_TYPES,
    MAX_LENGTH,
    MIN_LENGTH,
    MPLS,
    TAG_TYPES,
)
from ...golden.packets.packet_digest import TAG_BITS
from ...golden.packets.packet_layers import (
    EXTENSIONS,
    HEADERS,
    IP4,
    IP6,
    MAX_HEADERS,
    MAX_READ,
    MAX_TAGS,
    NO_NEXT_HEADER,
    UNKNOWN_END,
    Version,
)
from ..latencies import QUEUE_LATENCY
from ..pipeline import delayed, registered
from ..queue import Queue
from .frames import BEAT_BYTES, FrameBeat
from .header_parser import BEGIN_BITS, END_BITS, SHORTEST, TYPE_AT, FrameLayers

# Number of bytes that a step sees: two before the header, such as an EtherType, and 14 of the
# header.
WINDOW = 16

_HALF = 16


class Kind(IntEnum):
    """Kind of a header.

    The kind of a `TYPE` header depends on the EtherType before it; `NONE` ends the search.
    """

    NONE = 0
    TYPE = auto()
    TAG = auto()
    IP4 = auto()
    IP6 = auto()
    MPLS = auto()
    UNTYPED = auto()
    CONTROL = auto()
    EXTENSION = auto()
    AUTHENTICATION = auto()
    FRAGMENT = auto()
    UDP = auto()
    VXLAN = auto()
    GRE = auto()
    GTP = auto()
    GTP_EXTENSION = auto()


class Walk(data.StructLayout):
    """State of the search in a frame.

    The first beat of the frame has the address `base`. A header of kind `kind` begins two bytes
    after position `at`. If `bridged` is set, a control word may precede Ethernet. `limit` bytes can
    be read; the frame has no further bytes if `ended` is set. So far, `count` VLAN `tags` were
    found. The content ends before position `end`.

    Once layer 3 is found, `half` is half its version, `begin` its position, `outer` the number of
    tags before it, and `last` its end. If `lenient` is set, an outer header states this end.
    """

    def __init__(self, base_bits):
        super().__init__(
            {
                "base": base_bits,
                "at": BEGIN_BITS,
                "kind": 4,
                "bridged": 1,
                "limit": BEGIN_BITS,
                "ended": 1,
                "count": range(MAX_TAGS + 1),
                "tags": data.ArrayLayout(TAG_BITS, MAX_TAGS),
                "end": END_BITS,
                "half": 2,
                "begin": BEGIN_BITS,
                "outer": range(MAX_TAGS + 1),
                "last": END_BITS,
                "lenient": 1,
                "malformed": 1,
            }
        )


def begin_walk(base_bits, base, reach):
    """Return the initial state for a frame with `reach` readable bytes, at most `MAX_READ`."""
    ended = reach < MAX_READ
    return changed(
        data.View(Walk(base_bits), Const(0, Walk(base_bits).size)),
        base=base,
        at=TYPE_AT,
        kind=Kind.TYPE,
        limit=reach,
        ended=ended,
        end=Mux(ended, reach, UNKNOWN_END),
    )


def changed(view, **members):
    """Return a copy of a view with new values for some `members`."""
    parts = []
    for name, field in view.shape():
        value = members.get(name, view[name])
        value = Const(value, field.width) if isinstance(value, int) else Cat(value)
        parts.append(Cat(value, Const(0, field.width))[: field.width])
    return data.View(view.shape(), Cat(parts))


class InnerStep(wiring.Component):
    """Parses one header per cycle, from a stored copy of the last `beats` beats."""

    LATENCY = 7

    def __init__(self, width, beats):
        self._halves = width // _HALF
        self._base_bits = (beats - 1).bit_length()
        self._banks = max(self._halves, WINDOW // 2)
        self._rows = beats * self._halves // self._banks
        layout = Walk(self._base_bits)
        super().__init__(
            {
                "write": In(1),  # a beat is written
                "address": In(self._base_bits),
                "word": In(width),
                "i": In(layout),
                "o": Out(layout),  # `LATENCY` cycles later
            }
        )

    def elaborate(self, platform):
        m = Module()

        def kept(name, value):
            return registered(m, value, name, reset_less=True)

        halves, start = self._read(m, self.i)
        walk = kept("walk0", self.i)
        content = walk.at + 2
        room = (walk.end - content)[:END_BITS]
        left = Signal(signed(BEGIN_BITS + 2))
        m.d.comb += left.eq(walk.limit - content)
        room, left, walk = kept("room1", room), kept("left1", left), kept("walk1", walk)
        halves = _rotated(halves, start, range(len(start) - len(start) // 2))
        window = kept("window", halves[: 8 * WINDOW])
        types = kept("types", _ether_kind(_number(halves, -2)))
        room, left, walk = kept("room2", room), kept("left2", left), kept("walk2", walk)
        seen = {name: kept(name, value) for name, value in _look(window, types, left, walk).items()}
        window, room = kept("window3", window), kept("room3", room)
        left, walk = kept("left3", left), kept("walk3", walk)
        facts = kept("facts", _decode(window, seen, room, walk))
        room, left, walk = kept("room4", room), kept("left4", left), kept("walk4", walk)
        judged = kept("judged", _judge(facts, room, left, walk))
        facts, walk = kept("facts5", facts), kept("walk5", walk)
        m.d.comb += self.o.eq(kept("passed", _pass(facts, judged, walk)))
        return m

    def _read(self, m, walk):
        """Read the words at a walk's position; return them, partly rotated, and the rotation."""
        half_bits, bank_bits = ((n - 1).bit_length() for n in (self._halves, self._banks))
        address = (Cat(Const(0, half_bits), walk.base) + walk.at[1:])[: half_bits + len(walk.base)]
        row, start = address[bank_bits:], address[:bank_bits]
        behind = registered(m, (row + 1)[: len(row)], "behind", reset_less=True)
        row = registered(m, row, "row", reset_less=True)
        start = registered(m, start, "start", reset_less=True)
        target = Cat(Const(0, half_bits), self.address)
        words_read = []
        for bank in range(self._banks):
            m.submodules[f"bank{bank}"] = words = memory.Memory(
                shape=_HALF, depth=self._rows, init=[], attrs={"ram_style": "distributed"}
            )
            write, read = words.write_port(), words.read_port(domain="comb")
            mine = target[half_bits:bank_bits] == bank // self._halves
            m.d.comb += [
                write.en.eq(self.write & mine),
                write.addr.eq(target[bank_bits:]),
                write.data.eq(self.word.word_select(bank % self._halves, _HALF)),
                read.addr.eq(Mux(start > bank, behind, row)),
            ]
            words_read.append(read.data)
        # Rotated here by the upper bits of the bank number, and by the others in the next cycle.
        upper = range(len(start) - len(start) // 2, len(start))
        halves = registered(m, _rotated(Cat(words_read), start, upper), "halves", reset_less=True)
        return halves, registered(m, start, "start", reset_less=True)


def _rotated(halves, start, digits):
    """Rotate right by the number of 16-bit words that the given bits of `start` represent."""
    for digit in reversed(digits):
        halves = Mux(start[digit], halves.rotate_right(_HALF << digit), halves)
    return halves


def _octet(window, at):
    return window.word_select(at + 2, 8)


def _number(window, at):
    """Return the two header bytes at offset `at` as a number."""
    return Cat(_octet(window, at + 1), _octet(window, at))


def _ether_kind(number):
    kinds = {IP4: Kind.IP4, IP6: Kind.IP6, MPLS: Kind.MPLS, MPLS + 1: Kind.MPLS}
    return _lookup(number, kinds | dict.fromkeys(TAG_TYPES, Kind.TAG))


def _protocol_kind(number, *, six):
    kinds = {4: Kind.IP4, 41: Kind.IP6, 17: Kind.UDP, 47: Kind.GRE, 137: Kind.MPLS}
    if six:
        units = {8: Kind.EXTENSION, 4: Kind.AUTHENTICATION, 0: Kind.FRAGMENT}
        kinds |= {protocol: units[unit] for protocol, unit in EXTENSIONS.items()}
    return _lookup(number, kinds)


def _lookup(number, kinds):
    """Return ``kinds[number]``, or 0 for a number that is not listed."""
    result = Const(0, 4)
    for key, kind in kinds.items():
        result = result | ((number == key).replicate(4) & kind)
    return result


_ENOUGH = (0, 1, 2, 3, 4, 5, 6, 8, 14, 20, 40)  # minimum header lengths that are checked
# Results of decoding a header. The next header has the given `kind` and begins `step` bytes later,
# except for Ethernet in untyped content. `name` is the ID of a VLAN `tag`. `ip`: this is a valid IP
# header, of version 6 if `six`. `bounded`: it states the `size` of its content. `malformed`: it is
# invalid or cut off, and no IP header came before it. The content is `untyped`, or follows a
# `control` word. `zeros`: it begins with two zero bytes. `fitting`: it begins like IP. `like`: it
# begins like Ethernet, with a known EtherType or a length after two addresses.
_FACTS = data.StructLayout(
    {
        "kind": 4,
        "step": 9,
        "tag": 1,
        "name": TAG_BITS,
        "ip": 1,
        "six": 1,
        "bounded": 1,
        "size": END_BITS,
        "malformed": 1,
        "untyped": 1,
        "control": 1,
        "zeros": 1,
        "fitting": 1,
        "like": 1,
    }
)

# Kind and distance of the next header; whether the content fits, and whether it lowers `limit`.
_JUDGED = data.StructLayout({"kind": 4, "step": 9, "fits": 1, "shrinks": 1})


def _look(window, types, left, walk):
    """Decode the values in a window that need only a few LUTs each."""
    kind = Mux(walk.kind == Kind.TYPE, types & (left >= 0).replicate(4), walk.kind)
    high, low, total = _octet(window, 0)[4:], _octet(window, 0)[:4], _number(window, 2)
    behind, number = _number(window, 12), _number(window, 2)
    ports = {4789: Kind.VXLAN, 8472: Kind.VXLAN, 2152: Kind.GTP}
    known = Cat(behind == name for name in sorted(ETHER_TYPES) if name > MAX_LENGTH).any()
    return {
        **{f"has_{entry.name.lower()}": kind == entry for entry in Kind},
        **{f"enough{size}": left >= size for size in _ENOUGH},
        "four": high == 4,
        "six": high == 6,
        "long": low >= HEADERS[Version.IP4] // 4,
        "sound": (total == 0) | total[6:].any() | (total[2:6] >= low),
        "zeros": _number(window, 0) == 0,
        "empty": total == 0,
        "open6": (_number(window, 4) == 0) & (_octet(window, 6) != NO_NEXT_HEADER),
        "entire": (_number(window, 6) & 0x3FFF) == 0,
        "atomic": (number & 0xFFF9) == 0,
        "behind4": _protocol_kind(_octet(window, 9), six=False),
        "behind6": _protocol_kind(_octet(window, 6), six=True),
        "extended": _protocol_kind(_octet(window, 0), six=True),
        "port": _lookup(number, ports),
        "ether": _ether_kind(number),
        "bridged": (number == BRIDGED) | ((number == 0x88BE) & ~_octet(window, 0)[4]),
        "known": known,
        "length": (behind >= MIN_LENGTH) & (behind <= MAX_LENGTH),
        "whole": behind + SHORTEST,
        "total8": total + 8,
        "payload40": _number(window, 4) + HEADERS[Version.IP6],
    }


def _decode(window, seen, room, walk):
    has = {entry: seen[f"has_{entry.name.lower()}"] for entry in Kind}
    enough = {size: seen[f"enough{size}"] for size in _ENOUGH}
    tag = has[Kind.TAG] & (walk.count != MAX_TAGS)
    fitting4 = seen["four"] & seen["long"] & seen["sound"]
    right4 = has[Kind.IP4] & enough[20] & fitting4
    right6 = has[Kind.IP6] & enough[40] & seen["six"]
    # Without its EtherType a header has kind NONE, so `walk.kind` is tested here.
    lacks = ((walk.kind == Kind.TYPE) & ~enough[0]) | (tag & ~enough[4])
    for kind, size in ((Kind.IP4, 20), (Kind.IP6, 40), (Kind.MPLS, 3), (Kind.UNTYPED, 2)):
        lacks = lacks | (has[kind] & ~enough[size])
    wrong = (has[Kind.IP4] & enough[20] & ~right4) | (has[Kind.IP6] & enough[40] & ~right6)
    following, step = _following(window, seen, enough, has, right4, right6, tag)
    six = has[Kind.IP6] | (has[Kind.UNTYPED] & seen["six"])
    four = has[Kind.IP4] | (has[Kind.UNTYPED] & ~seen["six"])
    sizes = (
        (four, _number(window, 2)), (six, seen["payload40"]), (has[Kind.UDP], _number(window, 4)),
        (has[Kind.GTP], seen["total8"]),
    )  # fmt: skip
    size = Const(0, END_BITS)
    for holds, value in sizes:
        size = size | (value & holds.replicate(END_BITS))
    sized = has[Kind.UDP] & _number(window, 4)[3:].any()
    values = {
        "kind": following,
        "step": step,
        "tag": tag & enough[4],
        "name": _number(window, 0)[:TAG_BITS],
        "ip": right4 | right6,
        "six": right6,
        "bounded": (right4 & ~seen["empty"]) | (right6 & ~seen["open6"]) | sized | has[Kind.GTP],
        "size": size,
        "malformed": ~walk.half[1] & (wrong | (lacks & walk.ended)),
        "untyped": has[Kind.UNTYPED] & enough[2],
        "control": has[Kind.CONTROL],
        "zeros": seen["zeros"],
        "fitting": enough[6] & (seen["six"] | fitting4),
        "like": enough[14] & (seen["known"] | (seen["length"] & (seen["whole"] <= room))),
    }
    return data.View(_FACTS, Cat(Cat(values[n])[: f.width] for n, f in _FACTS))


def _following(window, seen, enough, has, right4, right6, tag):
    """Return the kind of the next header, and the number of bytes to it."""
    first, second = _octet(window, 0), _octet(window, 1)
    third, fourth, fifth = (_octet(window, at) for at in (2, 3, 4))
    optional = first[7] + first[5] + first[4]
    bridged, zeros, extended = seen["bridged"], seen["zeros"], seen["extended"]
    half = Mux(seen["four"], Kind.IP4, Mux(seen["six"], Kind.IP6, Kind.NONE))
    plain = ~first[6] & (second[:3] == 0)
    g_pdu = (first[4:] == 3) & (second == 0xFF)
    another = (fourth != 0) & (fifth != 0) & (fifth[6:] == 0)
    rows = (
        (tag & enough[4], Kind.TYPE, 4),
        (right4 & seen["entire"], seen["behind4"], first[:4] << 2),
        (right6, seen["behind6"], HEADERS[Version.IP6]),
        (has[Kind.MPLS] & enough[3], Mux(third[0], Kind.UNTYPED, Kind.MPLS), 4),
        (has[Kind.UNTYPED] & enough[2], Mux(zeros, Kind.CONTROL, half), Mux(zeros, 4, 0)),
        (has[Kind.EXTENSION] & enough[8] & (second[5:] == 0), extended, (second[:5] << 3) + 8),
        (has[Kind.AUTHENTICATION] & enough[8] & (second[6:] == 0), extended,
         (second[:6] << 2) + 8),
        (has[Kind.FRAGMENT] & enough[8] & seen["atomic"], extended, 8),
        (has[Kind.UDP] & enough[6], seen["port"], 8),
        (has[Kind.VXLAN] & enough[1] & first[3], Kind.TYPE, 8 + SHORTEST),
        (has[Kind.GRE] & enough[4] & plain, Mux(bridged, Kind.TYPE, seen["ether"]),
         (optional << 2) + Mux(bridged, 4 + SHORTEST, 4)),
        (has[Kind.GTP] & enough[4] & g_pdu, Mux(first[2], Kind.GTP_EXTENSION, Kind.UNTYPED),
         Mux(~first[2] & first[:2].any(), 12, 8)),
        (has[Kind.GTP_EXTENSION] & enough[4] & (fourth == 0), Kind.UNTYPED, 4),
        (has[Kind.GTP_EXTENSION] & enough[5] & another, Kind.GTP_EXTENSION, fifth[:6] << 2),
    )  # fmt: skip
    kind, step = Const(0, 4), Const(0, 9)
    for holds, following, size in rows:
        kind = kind | (Value.cast(following) & holds.replicate(4))
        step = step | (Value.cast(size) & holds.replicate(9))
    return kind, step


def _judge(facts, room, left, walk):
    """Compute the kind and distance of the next header, and whether the content fits."""
    fits = facts.size <= room
    packet = facts.untyped & (facts.zeros | (facts.fitting & fits))
    ethernet = (facts.untyped & ~packet & facts.like) | (
        facts.control & (facts.like | walk.bridged)
    )
    nearer = facts.control & ~facts.like
    return data.View(
        _JUDGED,
        Cat(
            Mux(ethernet, Kind.TYPE, facts.kind)[:4],
            Mux(ethernet, Mux(nearer, SHORTEST - 4, SHORTEST), facts.step)[:9],
            fits,
            facts.bounded & (facts.size < left),
        ),
    )


def _pass(facts, judged, walk):
    """Return the state of the search after a header."""
    content = walk.at + 2
    at = walk.at + judged.step
    behind = content + facts.size
    end = Mux(facts.bounded & judged.fits, behind[:END_BITS], walk.end)
    is_ip = facts.ip
    return changed(
        walk,
        at=at[:BEGIN_BITS],
        kind=judged.kind & ~at[BEGIN_BITS:].any().replicate(4),
        bridged=facts.like,
        limit=Mux(judged.shrinks, behind[:BEGIN_BITS], walk.limit),
        count=walk.count + facts.tag,
        tags=Cat(
            Mux(facts.tag & (walk.count == n), facts.name, walk.tags[n]) for n in range(MAX_TAGS)
        ),
        end=end,
        half=Mux(is_ip, Cat(facts.six, 1), walk.half),
        begin=Mux(is_ip, content[:BEGIN_BITS], walk.begin),
        outer=Mux(is_ip, walk.count, walk.outer),
        last=Mux(is_ip, end, walk.last),
        lenient=Mux(is_ip, ~facts.bounded, walk.lenient),
        malformed=Mux(is_ip, facts.bounded & ~judged.fits, walk.malformed | facts.malformed),
    )


class InnerParser(wiring.Component):
    """Finds the innermost layer 3 in Ethernet frames, which arrive at up to one beat per cycle.

    The steps form a ring, and each step parses one header. A frame goes around the ring until
    `MAX_HEADERS` steps are done. There is one step per 64 bits of a beat, so frames of 60 bytes
    enter at full rate; shorter frames may wait. Layers leave in the order of the frames. Fewer than
    `beats` beats arrive between the first beat of a frame and its layers.
    """

    def __init__(self, width, *, beats, frames):
        self._width = width
        self._frames = frames
        self._steps = width // (8 * BEAT_BYTES)
        self._turns = MAX_HEADERS // self._steps
        self._size = width // 8
        self.decisive = (MAX_READ - 1) // self._size
        self._cycles = InnerStep.LATENCY * self._steps + 1
        # A frame that goes around the ring once waits only for the queue, so fewer beats suffice.
        once = self.decisive + 1 + QUEUE_LATENCY + self._cycles
        self._beats = beats if self._turns > 1 else min(beats, 1 << (once - 1).bit_length())
        super().__init__(
            {
                "valid": In(1),
                "beat": In(FrameBeat(width)),
                "layers_valid": Out(1),
                "layers": Out(FrameLayers(inner=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        base_bits = (self._beats - 1).bit_length()
        m.submodules.waiting = waiting = Queue(
            base_bits + BEGIN_BITS, depth=self._frames, distributed=True
        )
        steps = [InnerStep(self._width, self._beats) for _ in range(self._steps)]
        self._collect(m, steps, waiting)
        enters, turn = Signal(), Signal(range(self._turns))
        for number, step in enumerate(steps):
            m.submodules[f"step{number}"] = step
        for step, following in pairwise(steps):
            m.d.comb += following.i.eq(step.o)
        ends = steps[-1].o
        valid = delayed(m, enters, self._cycles, "valid")
        turns = delayed(m, turn, self._cycles, "turn", reset_less=True)
        stays = valid & (turns != self._turns - 1)
        start = begin_walk(base_bits, waiting.o.p[:base_bits], waiting.o.p[base_bits:])
        m.d.comb += [
            waiting.o.ready.eq(~stays),
            enters.eq(stays | waiting.o.valid),
            turn.eq(Mux(stays, turns + 1, 0)),
            steps[0].i.eq(registered(m, Mux(stays, ends, start), "walk", reset_less=True)),
            self.layers_valid.eq(registered(m, valid & ~stays, "layers_now")),
            self.layers.eq(registered(m, _result(ends), "final_layers", reset_less=True)),
        ]
        return m

    def _collect(self, m, steps, waiting):
        """Store the beats; queue a frame once all of its bytes that may be read have arrived."""
        address, base = Signal(len(steps[0].address)), Signal(len(steps[0].address))
        index = Signal(range(self.decisive + 2))
        decided, reach = Signal(), Signal(BEGIN_BITS)
        last, size = self.beat.last, self.beat.size
        writes = registered(m, self.valid, "writes")
        target = registered(m, address, "target", reset_less=True)
        word = registered(m, self.beat.data, "word", reset_less=True)
        for step in steps:
            m.d.comb += [step.write.eq(writes), step.address.eq(target), step.word.eq(word)]
        m.d.sync += [
            decided.eq(self.valid & ((index == self.decisive) | (last & (index < self.decisive)))),
            reach.eq(Cat(size | ~last.replicate(len(size)), index) + 1),
        ]
        with m.If(self.valid):
            m.d.sync += [
                address.eq(address + 1),
                index.eq(Mux(last, 0, index + (index <= self.decisive))),
            ]
            with m.If(index == 0):
                m.d.sync += base.eq(address)
        m.d.comb += waiting.valid_next.eq(decided)
        m.d.comb += waiting.word.eq(registered(m, Cat(base, reach), "known", reset_less=True))


def _result(walk):
    values = {
        "half": walk.half,
        "count": walk.outer,
        "tags": Cat(tag & (walk.outer > n).replicate(len(tag)) for n, tag in enumerate(walk.tags)),
        "open": walk.last == UNKNOWN_END,
        "end": (walk.last - 1)[: len(walk.last)],
        "malformed": walk.malformed,
        "begin": walk.begin,
        "lenient": walk.lenient,
    }
    layout = FrameLayers(inner=True)
    return data.View(layout, Cat(values[name] for name, _ in layout))
