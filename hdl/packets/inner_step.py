"""A step of the search for the innermost layer 3: it parses one header."""

from enum import IntEnum, auto

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.encapsulations import (
    BRIDGED,
    ETHER_TYPES,
    LEAST_LENGTH,
    MOST_LENGTH,
    MPLS,
    TAG_TYPES,
)
from ...golden.packets.inner_layers import MOST_READ, UNKNOWN_END
from ...golden.packets.packet_digest import TAG_BITS
from ...golden.packets.packet_layers import (
    EXTENSIONS,
    HEADERS,
    IP4,
    IP6,
    MOST_TAGS,
    NO_NEXT_HEADER,
    Version,
)
from ..pipeline import registered
from .header_parser import BEGIN_BITS, END_BITS, SHORTEST, TYPE_AT

WINDOW = 16
"""Bytes that a step sees: an EtherType or the bytes before its header, and 14 bytes of the
header."""

_HALF = 16


class Kind(IntEnum):
    """Kind of a header: the EtherType before a `TYPE` identifies it, and `NONE` ends the search."""

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

    The first beat of the frame has the address `base`. A header of a `kind` begins two bytes after
    position `at`. If `bridged` is set, a control word may precede Ethernet. `limit` bytes can be
    read; the frame has no further bytes if `ended` is set. There are `count` VLAN `tags`. The
    content ends before position `end`.

    Once layer 3 is found, `half` is half its version, `begin` its position, `outer` the number of
    tags before it, and `last` its end. If `lenient` is set, another header states the end.
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
                "count": range(MOST_TAGS + 1),
                "tags": data.ArrayLayout(TAG_BITS, MOST_TAGS),
                "end": END_BITS,
                "half": 2,
                "begin": BEGIN_BITS,
                "outer": range(MOST_TAGS + 1),
                "last": END_BITS,
                "lenient": 1,
                "malformed": 1,
            }
        )


def begin_walk(base_bits, base, reach):
    """Return the first state for a frame with `reach` readable bytes, at most `MOST_READ`."""
    ended = reach < MOST_READ
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
    """Return a view with new values of some `members`."""
    parts = []
    for name, field in view.shape():
        value = members.get(name, view[name])
        value = Const(value, field.width) if isinstance(value, int) else Cat(value)
        parts.append(Cat(value, Const(0, field.width))[: field.width])
    return data.View(view.shape(), Cat(parts))


class InnerStep(wiring.Component):
    """Parses one header of a frame; accepts a frame in each cycle.

    Parameters
    ----------
    width : int
        Bits of a beat.
    beats : int
        Number of stored beats, a power of two.

    Members
    -------
    write, address, word : In
        A beat is written.
    i : In(Walk)
    o : Out(Walk)
        `LATENCY` cycles later.
    """

    LATENCY = 4

    def __init__(self, width, beats):
        self._halves = width // _HALF
        self._base_bits = (beats - 1).bit_length()
        self._banks = max(self._halves, WINDOW // 2)
        self._rows = beats * self._halves // self._banks
        layout = Walk(self._base_bits)
        super().__init__(
            {
                "write": In(1),
                "address": In(self._base_bits),
                "word": In(width),
                "i": In(layout),
                "o": Out(layout),
            }
        )

    def elaborate(self, platform):
        m = Module()
        walk = self.i
        halves, place = self._read(m, walk)
        content = walk.at + 2
        room = registered(m, (walk.end - content)[:END_BITS], "room", reset_less=True)
        left = Signal(signed(BEGIN_BITS + 2), reset_less=True)
        m.d.sync += left.eq(walk.limit - content)
        walk = registered(m, walk, "read", reset_less=True)
        for digit in reversed(range(len(place))):
            halves = Mux(place[digit], halves.rotate_right(_HALF << digit), halves)
        window = Signal(8 * WINDOW)
        m.d.comb += window.eq(halves[: 8 * WINDOW])
        types = registered(m, _ether_kind(_number(window, -2)), "types", reset_less=True)
        enough = {n: registered(m, left >= n, f"enough{n}", reset_less=True) for n in _ENOUGH}
        window = registered(m, window, "window", reset_less=True)
        room, left, walk = (
            registered(m, value, f"seen_{name}", reset_less=True)
            for name, value in (("room", room), ("left", left), ("walk", walk))
        )
        decoded = registered(m, _decode(window, types, enough, walk), "decoded", reset_less=True)
        room, left, walk = (
            registered(m, value, f"decoded_{name}", reset_less=True)
            for name, value in (("room", room), ("left", left), ("walk", walk))
        )
        passed = _pass(decoded, room, left, walk)
        m.d.comb += self.o.eq(registered(m, passed, "passed", reset_less=True))
        return m

    def _read(self, m, walk):
        """Return the halves of the words from a place on, and by how many they are rotated."""
        half_bits, bank_bits = ((n - 1).bit_length() for n in (self._halves, self._banks))
        address = (Cat(Const(0, half_bits), walk.base) + walk.at[1:])[: half_bits + len(walk.base)]
        row, place = address[bank_bits:], address[:bank_bits]
        target = Cat(Const(0, half_bits), self.address)
        found = []
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
                read.addr.eq(row + (place > bank)),
            ]
            found.append(read.data)
        halves = registered(m, Cat(found), "halves", reset_less=True)
        return halves, registered(m, place, "place", reset_less=True)


def _octet(window, at):
    """Return a byte of a header."""
    return window.word_select(at + 2, 8)


def _number(window, at):
    """Return two bytes of a header as a number."""
    return Cat(_octet(window, at + 1), _octet(window, at))


def _ether_kind(number):
    """Return the kind of an EtherType."""
    kinds = {IP4: Kind.IP4, IP6: Kind.IP6, MPLS: Kind.MPLS, MPLS + 1: Kind.MPLS}
    return _lookup(number, kinds | dict.fromkeys(TAG_TYPES, Kind.TAG))


def _protocol_kind(number, *, six):
    """Return the kind of a protocol in a packet of IP."""
    kinds = {4: Kind.IP4, 41: Kind.IP6, 17: Kind.UDP, 47: Kind.GRE, 137: Kind.MPLS}
    if six:
        units = {8: Kind.EXTENSION, 4: Kind.AUTHENTICATION, 0: Kind.FRAGMENT}
        kinds |= {protocol: units[unit] for protocol, unit in EXTENSIONS.items()}
    return _lookup(number, kinds)


def _lookup(number, kinds):
    """Return the value of a number, 0 if there is none."""
    result = Const(0, 4)
    for key, kind in kinds.items():
        result = result | ((number == key).replicate(4) & kind)
    return result


_ENOUGH = (0, 1, 2, 3, 4, 5, 6, 8, 14, 20, 40)
"""Bytes of a header that some header must have."""

_DECODED = data.StructLayout(
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
        "alike": 1,
        "fitting": 1,
        "length": 1,
        "content": 16,
    }
)
"""Facts of a header.

The next header has a `kind` and follows after `step` bytes, except Ethernet in content without a
type. A `tag` has a `name`. The header is a correct header of `ip`, of version `six` or four. It
states the `size` of a content that is `bounded`. A frame without IP so far is `malformed`.

The content is `untyped`, or follows a `control` word. It begins with `zeros`. After two addresses
it has a known EtherType (`alike`) or a `length` of its `content`. It is `fitting` if it begins like
IP.
"""


def _decode(window, types, enough, walk):
    """Return the facts of the header in a window."""
    kind = Mux(walk.kind == Kind.TYPE, types & enough[0].replicate(4), walk.kind)
    has = {one: kind == one for one in Kind}
    four, six, sound = _versions(window)
    tag = has[Kind.TAG] & (walk.count != MOST_TAGS)
    right4 = has[Kind.IP4] & enough[20] & four & sound
    right6 = has[Kind.IP6] & enough[40] & six
    needs = {Kind.IP4: 20, Kind.IP6: 40, Kind.MPLS: 3, Kind.UNTYPED: 2}
    lacks = ((walk.kind == Kind.TYPE) & ~enough[0]) | (tag & ~enough[4])
    for one, least in needs.items():
        lacks = lacks | (has[one] & ~enough[least])
    wrong = (has[Kind.IP4] & enough[20] & ~right4) | (has[Kind.IP6] & enough[40] & ~right6)
    following, step = _following(window, enough, has, right4, right6, tag)
    name, behind = _number(window, 0), _number(window, 12)
    known = Cat(behind == one for one in sorted(ETHER_TYPES) if one > MOST_LENGTH).any()
    values = {
        "kind": following,
        "step": step,
        "tag": tag & enough[4],
        "name": name[:TAG_BITS],
        "ip": right4 | right6,
        "six": right6,
        "malformed": ~walk.half[1] & (wrong | (lacks & walk.ended)),
        "untyped": has[Kind.UNTYPED] & enough[2],
        "control": has[Kind.CONTROL],
        "zeros": name == 0,
        "alike": enough[14] & known,
        "fitting": enough[6] & (six | (four & sound)),
        "length": enough[14] & (behind >= LEAST_LENGTH) & (behind <= MOST_LENGTH),
        "content": behind,
        **_content_size(window, has, right4, right6),
    }
    return data.View(_DECODED, Cat(Cat(values[n])[: f.width] for n, f in _DECODED))


def _versions(window):
    """Return whether a header is IPv4 or IPv6, and whether the lengths of IPv4 agree."""
    high, low, total = _octet(window, 0)[4:], _octet(window, 0)[:4], _number(window, 2)
    sound = (total == 0) | total[6:].any() | (total[2:6] >= low)
    return high == 4, high == 6, (low >= HEADERS[Version.IP4] // 4) & sound


def _content_size(window, has, right4, right6):
    """Return the bytes to the end that a header gives, and whether it gives an end."""
    total, payload = _number(window, 2), _number(window, 4)
    six = has[Kind.IP6] | (has[Kind.UNTYPED] & (_octet(window, 0)[4:] == 6))
    size = (payload + HEADERS[Version.IP6]) & six.replicate(END_BITS)
    lengths = {
        Kind.IP4: total, Kind.UNTYPED: total, Kind.UDP: payload, Kind.GTP: total + 8,
    }  # fmt: skip
    for one, length in lengths.items():
        size = size | (length & (has[one] & ~six).replicate(END_BITS))
    open6 = (payload == 0) & (_octet(window, 6) != NO_NEXT_HEADER)
    bounded = Cat(
        right4 & (total != 0), right6 & ~open6, has[Kind.UDP] & payload[3:].any(), has[Kind.GTP]
    )
    return {"size": size, "bounded": bounded.any()}


def _following(window, enough, has, right4, right6, tag):
    """Return the kind of the next header, and the bytes to it."""
    byte, two = (lambda at: _octet(window, at)), (lambda at: _number(window, at))
    gtp = byte(0)
    whole = (two(6) & 0x3FFF) == 0
    extension = _protocol_kind(byte(0), six=True)
    ports = {4789: Kind.VXLAN, 8472: Kind.VXLAN, 2152: Kind.GTP}
    optional = byte(0)[7] + byte(0)[5] + byte(0)[4]
    bridged = two(2).matches(BRIDGED) | (two(2).matches(0x88BE) & ~byte(0)[4])
    plain = ~byte(0)[6] & (byte(1)[:3] == 0)
    g_pdu = (gtp[4:] == 3) & (byte(1) == 0xFF)
    half = Mux(byte(0)[4:] == 4, Kind.IP4, Mux(byte(0)[4:] == 6, Kind.IP6, Kind.NONE))
    zeros = two(0) == 0
    rows = (
        (tag & enough[4], Const(Kind.TYPE, 4), 4),
        (right4 & whole, _protocol_kind(byte(9), six=False), byte(0)[:4] << 2),
        (right6, _protocol_kind(byte(6), six=True), HEADERS[Version.IP6]),
        (has[Kind.MPLS] & enough[3], Mux(byte(2)[0], Kind.UNTYPED, Kind.MPLS), 4),
        (has[Kind.UNTYPED] & enough[2], Mux(zeros, Kind.CONTROL, half), Mux(zeros, 4, 0)),
        (has[Kind.EXTENSION] & enough[8] & (byte(1)[5:] == 0), extension, (byte(1)[:5] << 3) + 8),
        (has[Kind.AUTHENTICATION] & enough[8] & (byte(1)[6:] == 0), extension,
         (byte(1)[:6] << 2) + 8),
        (has[Kind.FRAGMENT] & enough[8] & ((two(2) & 0xFFF9) == 0), extension, 8),
        (has[Kind.UDP] & enough[6], _lookup(two(2), ports), 8),
        (has[Kind.VXLAN] & enough[1] & byte(0)[3], Const(Kind.TYPE, 4), 8 + SHORTEST),
        (has[Kind.GRE] & enough[4] & plain, Mux(bridged, Kind.TYPE, _ether_kind(two(2))),
         (optional << 2) + Mux(bridged, 4 + SHORTEST, 4)),
        (has[Kind.GTP] & enough[4] & g_pdu, Mux(gtp[2], Kind.GTP_EXTENSION, Kind.UNTYPED),
         Mux(~gtp[2] & gtp[:2].any(), 12, 8)),
        (has[Kind.GTP_EXTENSION] & enough[4] & (byte(3) == 0), Const(Kind.UNTYPED, 4), 4),
        (has[Kind.GTP_EXTENSION] & enough[5] & (byte(3) != 0) & (byte(4) != 0)
         & (byte(4)[6:] == 0), Const(Kind.GTP_EXTENSION, 4), byte(4)[:6] << 2),
    )  # fmt: skip
    kind, step = Const(0, 4), Const(0, 9)
    for holds, following, size in rows:
        size = Const(size, 9) if isinstance(size, int) else size
        kind = kind | (following & holds.replicate(4))
        step = step | (size & holds.replicate(9))
    return kind, step[:9]


def _pass(facts, room, left, walk):
    """Return the state behind a header."""
    content = walk.at + 2
    fits = facts.size <= room
    like = facts.alike | (facts.length & (facts.content + SHORTEST <= room))
    ip = facts.untyped & facts.fitting & fits
    ethernet = (facts.untyped & ~ip & ~facts.zeros & like) | (facts.control & (like | walk.bridged))
    step = Mux(ethernet, Mux(facts.control & ~like, SHORTEST - 4, SHORTEST), facts.step)
    at = walk.at + step
    cuts = facts.bounded & fits
    end = Mux(cuts, (content + facts.size)[:END_BITS], walk.end)
    shrinks = facts.bounded & (facts.size < left)
    found = facts.ip
    named = Cat(
        Mux(facts.tag & (walk.count == n), facts.name, walk.tags[n]) for n in range(MOST_TAGS)
    )
    return changed(
        walk,
        at=at[:BEGIN_BITS],
        kind=Mux(ethernet, Kind.TYPE, facts.kind) & ~at[BEGIN_BITS:].any().replicate(4),
        bridged=like,
        limit=Mux(shrinks, (content + facts.size)[:BEGIN_BITS], walk.limit),
        count=walk.count + facts.tag,
        tags=named,
        end=end,
        half=Mux(found, Cat(facts.six, 1), walk.half),
        begin=Mux(found, content[:BEGIN_BITS], walk.begin),
        outer=Mux(found, walk.count, walk.outer),
        last=Mux(found, end, walk.last),
        lenient=Mux(found, ~facts.bounded, walk.lenient),
        malformed=Mux(found, facts.bounded & ~fits, walk.malformed | facts.malformed),
    )
