"""Frames of the serial protocol: a receiver with slots for whole frames, and a sender."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from .protocol import ESCAPE, FLAG, INVERTED, MAX_ANSWER, MAX_SLOTS

SLOT_BYTES = 256
"""Maximum bytes of a request, with its CRC."""

CRC = catalog.CRC16_IBM_SDLC
"""CRC of a frame, from the catalogue of CRCs."""

_LINE = {"valid": In(1), "data": In(8), "error": In(1)}
_EVENTS = {"good": Out(1), "bad": Out(1), "dropped": Out(1)}


class Unstuffer(wiring.Component):
    """Separates flags from the bytes of a frame. Latency one cycle.

    Members
    -------
    valid, data, error : In
        As for `uart.Receiver`.
    byte : Out(1)
        `content` is a byte of the frame.
    content : Out(8)
    flag : Out(1)
        The frame ends here, and the next begins.
    broken : Out(1)
        With `flag`: a byte of the frame was damaged, or the last byte was an escape.
    """

    def __init__(self):
        content = {"byte": Out(1), "content": Out(8), "flag": Out(1), "broken": Out(1)}
        super().__init__(_LINE | content)

    def elaborate(self, platform):
        m = Module()
        escaped = Signal()
        damaged = Signal()
        flag, escape = Signal(), Signal()
        m.d.comb += [
            flag.eq(self.valid & (self.data == FLAG)),
            escape.eq(self.valid & (self.data == ESCAPE)),
        ]
        m.d.sync += [
            self.content.eq(self.data ^ Mux(escaped, INVERTED, 0)),
            self.byte.eq(self.valid & ~flag & ~escape),
            self.flag.eq(flag),
            self.broken.eq(damaged | escaped),
        ]
        with m.If(self.valid):
            m.d.sync += escaped.eq(escape)
        with m.If(flag):
            m.d.sync += damaged.eq(0)
        with m.If(self.error | (escape & escaped)):
            m.d.sync += damaged.eq(1)
        return m


class FrameReceiver(wiring.Component):
    """Keeps complete requests until they have been performed.

    A frame is written into the next free slot as it arrives. The slot is occupied only if the
    closing flag arrives and the CRC is correct.

    Parameters
    ----------
    slots : int
        Requests that can wait: a power of two, 2 to `MAX_SLOTS`.

    Members
    -------
    valid, data, error : In
        As for `uart.Receiver`; at most once in four cycles.
    pending : Out(1)
        A request waits.
    o : Out(stream.Signature(8))
        Bytes of the oldest request, without the CRC; one per `READ_LATENCY` + 2 cycles.
    ended : Out(1)
        All bytes of the oldest request have been taken.
    release : In(1)
        Removes the oldest request. Afterwards `o` has the bytes of the next request.
    good, bad, dropped : Out(1)
        High for one cycle per frame: kept; damaged, too long or too short; or dropped because
        all slots were full.

    Raises
    ------
    ValueError
        If the number of slots is invalid.
    """

    READ_LATENCY = 2

    def __init__(self, *, slots):
        check_slots(slots)
        self._slots = slots
        requests = {"pending": Out(1), "o": Out(stream.Signature(8)), "ended": Out(1)}
        super().__init__(_LINE | requests | {"release": In(1)} | _EVENTS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.unstuffer = unstuffer = Unstuffer()
        m.submodules.slots = slots = memory.Memory(shape=8, depth=SLOT_BYTES * self._slots, init=[])
        write, read = slots.write_port(), slots.read_port()
        first, last = Signal(range(self._slots)), Signal(range(self._slots))
        count = Signal(range(self._slots + 1))
        lengths = Signal(data.ArrayLayout(9, self._slots))
        length, taken = Signal(9), Signal(8)
        m.d.comb += [
            unstuffer.valid.eq(self.valid),
            unstuffer.data.eq(self.data),
            unstuffer.error.eq(self.error),
            write.addr.eq(Cat(length[:8], last)),
            write.data.eq(unstuffer.content),
            # Without a free slot, `last` is the slot of the oldest request.
            write.en.eq(unstuffer.byte & ~length[8] & (count != self._slots)),
            read.addr.eq(Cat(taken, first)),
        ]
        self._elaborate_end(m, unstuffer, length, count != self._slots)
        m.d.sync += [
            self.pending.eq((count != 0) & ~self.release),
            count.eq(count + self.good - self.release),
        ]
        with m.If(self.good):
            m.d.sync += [lengths[last].eq(length - 2), last.eq(last + 1)]
        self._elaborate_bytes(m, read, taken, lengths[first])
        with m.If(self.release):
            m.d.sync += first.eq(first + 1)
        return m

    def _elaborate_bytes(self, m, read, taken, length):
        """Send the bytes of the oldest request."""
        settled = Signal(self.READ_LATENCY + 1)
        left, none = Signal(9), Signal()
        m.d.comb += [
            self.o.valid.eq(settled.all() & ~none),
            self.ended.eq(settled.all() & none),
        ]
        m.d.sync += [
            self.o.payload.eq(read.data),
            left.eq(length - taken),
            none.eq(left == 0),
            settled.eq(Cat(self.pending, settled)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [taken.eq(taken + 1), settled.eq(0)]
        with m.If(self.release):
            m.d.sync += [taken.eq(0), settled.eq(0)]

    def _elaborate_end(self, m, unstuffer, length, room):
        """Count the bytes of a frame and check it at its end."""
        m.submodules.crc = crc = CRC().create()
        taken = Signal()
        whole = Signal()
        ends = Signal()
        begins = Signal(init=1)
        overlong = Signal()
        m.d.comb += [
            crc.data.eq(unstuffer.content),
            crc.valid.eq(unstuffer.byte),
            crc.start.eq(begins),
            self.good.eq(ends & whole & taken),
            self.dropped.eq(ends & whole & ~taken),
            self.bad.eq(ends & ~whole),
        ]
        m.d.sync += [
            # Two consecutive flags are the end of one frame and the start of the next.
            ends.eq(unstuffer.flag & ((length != 0) | unstuffer.broken)),
            whole.eq(crc.match_detected & ~unstuffer.broken & ~overlong & (length[2:] != 0)),
        ]
        with m.If(unstuffer.byte):
            m.d.sync += [length.eq(length + 1), begins.eq(0)]
            with m.If(length[8]):
                m.d.sync += [length.eq(length), overlong.eq(1)]
            with m.If(begins):
                m.d.sync += taken.eq(room)
        with m.If(ends | (unstuffer.flag & (length == 0))):
            m.d.sync += [length.eq(0), overlong.eq(0), begins.eq(1)]
        return m


class Stuffer(wiring.Component):
    """Sends bytes; a flag or an escape among them becomes two bytes. Takes several cycles per byte.

    Members
    -------
    i : In(stream.Signature(StructLayout({"data": 8, "plain": 1})))
    o : Out(stream.Signature(8))
    """

    def __init__(self):
        item = data.StructLayout({"data": 8, "plain": 1})
        super().__init__({"i": In(stream.Signature(item)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        byte = Signal(8)
        plain, special, second = Signal(), Signal(), Signal()
        full, known = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(known),
            self.o.payload.eq(byte ^ Mux(second, INVERTED, 0)),
        ]
        m.d.sync += [
            known.eq(full),
            special.eq(~plain & ((byte == FLAG) | (byte == ESCAPE))),
        ]
        with m.If(~full):
            m.d.sync += [byte.eq(self.i.p.data), plain.eq(self.i.p.plain), full.eq(self.i.valid)]
        with m.If(special & ~second):
            m.d.comb += self.o.payload.eq(ESCAPE)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(special & ~second)
            with m.If(second | ~special):
                m.d.sync += [full.eq(0), known.eq(0)]
        return m


class Answer(data.StructLayout):
    """Header of an answer: `type`, `sequence`, `status`, `slot`, `length`."""

    def __init__(self, *, slots):
        header = {"type": 8, "sequence": 8, "status": 8}
        super().__init__(header | {"slot": range(slots), "length": range(MAX_ANSWER + 1)})


class FrameSender(wiring.Component):
    """Holds the payloads of the last answers, and sends answers.

    Parameters
    ----------
    slots : int
        Number of kept answers. Power of two.

    Members
    -------
    i : In(stream.Signature(Answer))
        Answer to send; `ready` is high once the previous answer has been sent. The slot of an
        answer must not be written before `ready` is high again.
    write, address, byte : In
        Writes a byte of a payload; the slot is the high part of the address.
    o : Out(stream.Signature(8))
        Bytes for the line.

    Raises
    ------
    ValueError
        If the number of slots is invalid.
    """

    def __init__(self, *, slots):
        check_slots(slots)
        self._slots = slots
        self._answer = Answer(slots=slots)
        members = {
            "i": In(stream.Signature(self._answer)),
            "write": In(1),
            "address": In(range(MAX_ANSWER * slots)),
            "byte": In(8),
            "o": Out(stream.Signature(8)),
        }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC().create()
        m.submodules.stuffer = stuffer = Stuffer()
        m.submodules.payloads = payloads = memory.Memory(
            shape=8, depth=MAX_ANSWER * self._slots, init=[]
        )
        write, read = payloads.write_port(), payloads.read_port()
        self._held = Signal(self._answer)
        self._position = Signal(range(MAX_ANSWER + 1))
        self._payload = Signal(8)
        self._count = Signal(2)
        item = stuffer.i.p
        done = Signal()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.address),
            write.data.eq(self.byte),
            read.addr.eq(Cat(self._position[:-1], self._held.slot)),
            done.eq(stuffer.i.valid & stuffer.i.ready),
            crc.data.eq(item.data),
        ]
        wiring.connect(m, stuffer.o, wiring.flipped(self.o))
        m.d.sync += self._payload.eq(read.data)
        self._elaborate_frame(m, stuffer, crc, done)
        return m

    def _elaborate_frame(self, m, stuffer, crc, done):
        """Send flag, header, payload, CRC and flag."""
        header = Signal(24)
        count = self._count
        with m.FSM(name="sender"):
            with m.State("IDLE"):
                m.d.comb += [self.i.ready.eq(1), crc.start.eq(1)]
                m.d.sync += [
                    self._held.eq(self.i.p),
                    header.eq(Cat(self.i.p.type, self.i.p.sequence, self.i.p.status)),
                    self._position.eq(0),
                    count.eq(0),
                ]
                with m.If(self.i.valid):
                    m.next = "OPEN"
            with m.State("OPEN"):
                self._send(m, stuffer, FLAG, plain=1)
                with m.If(done):
                    m.next = "HEADER"
            with m.State("HEADER"):
                self._send(m, stuffer, header[:8])
                m.d.comb += crc.valid.eq(done)
                with m.If(done):
                    m.d.sync += [header.eq(header >> 8), count.eq(count + 1)]
                    with m.If(count == 2):
                        m.d.sync += count.eq(0)
                        m.next = "FETCH"
            self._elaborate_payload(m, stuffer, crc, done)
            with m.State("CRC"):
                self._send(m, stuffer, Mux(count[0], crc.crc[8:], crc.crc[:8]))
                with m.If(done):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count[0]):
                        m.next = "CLOSE"
            with m.State("CLOSE"):
                self._send(m, stuffer, FLAG, plain=1)
                with m.If(done):
                    m.next = "IDLE"

    def _elaborate_payload(self, m, stuffer, crc, done):
        position, count = self._position, self._count
        with m.State("FETCH"):
            # Address, memory, register.
            m.d.sync += count.eq(count + 1)
            with m.If(position == self._held.length):
                m.d.sync += count.eq(0)
                m.next = "CRC"
            with m.Elif(count == 2):
                m.d.sync += count.eq(0)
                m.next = "PAYLOAD"
        with m.State("PAYLOAD"):
            self._send(m, stuffer, self._payload)
            m.d.comb += crc.valid.eq(done)
            with m.If(done):
                m.d.sync += position.eq(position + 1)
                m.next = "FETCH"

    def _send(self, m, stuffer, byte, *, plain=0):
        item = stuffer.i.p
        m.d.comb += [stuffer.i.valid.eq(1), item.data.eq(byte), item.plain.eq(plain)]


def check_slots(slots):
    """Raise `ValueError` if the number of slots is not a power of two from 2 to `MAX_SLOTS`."""
    if not isinstance(slots, int) or not 2 <= slots <= MAX_SLOTS or slots & (slots - 1):
        raise ValueError(f"Slots must be a power of two, 2 to {MAX_SLOTS}, not {slots!r}")
