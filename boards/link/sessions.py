"""Sessions of a host with a board: each request that comes is answered, once and in order."""

from amaranth.hdl import Array, Cat, Const, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Out

from .frames import REQUESTS, Answer, FrameReceiver
from .protocol import ANSWER, MAX_ANSWER, NONCE_BYTES, VERSION, Request, Status

REGISTER_REQUESTS = (Request.READ, Request.WRITE)
"""Requests of boards whose registers are at addresses."""


class SessionRequests(wiring.Component):
    """What all have in common that perform requests: sessions, and answers that are kept.

    Heirs have a finite state machine, of which the states from START to REPLY are their own. An
    answer is begun once the one before has been sent; its slot may be written from then on.

    Parameters
    ----------
    information : Information
        The answer to HELLO.
    members : mapping
        Further members.

    Members
    -------
    pending, length, byte : In
    address, release : Out
        As those of `FrameReceiver`.
    answer : Out(stream.Signature(Answer))
    write, write_address, write_byte : Out
        As those of `FrameSender`.
    repeated, out_of_order : Out(1)
        High for one cycle for each such request.
    """

    def __init__(self, *, information, members):
        self._information = information
        slots = information.slots
        own = {name: member.flip() for name, member in REQUESTS.items()}
        own |= {
            "answer": Out(stream.Signature(Answer(slots=slots))),
            "write": Out(1),
            "write_address": Out(range(MAX_ANSWER * slots)),
            "write_byte": Out(8),
        }
        super().__init__(own | members | {"repeated": Out(1), "out_of_order": Out(1)})

    def _declare_session(self, requests, lengths):
        """Declare what the states decide on, of some requests, and lengths of what they bring."""
        slots = self._information.slots
        # One cycle more than the byte takes, for the facts that are registered of it.
        self._settled = Signal(FrameReceiver.READ_LATENCY + 1)
        self._here = Signal()
        self._type, self._sequence, self._expected = Signal(8), Signal(8), Signal(8)
        self._distance = Signal(8)
        self._session = Signal()
        # Answers that are held, and how the requests ended.
        self._held = Signal(range(slots + 1))
        self._answers = Signal(
            data.ArrayLayout(data.StructLayout({"status": 4, "length": 8}), slots)
        )
        self._status = Signal(4)
        self._size = Signal(8)
        self._left = Signal(8)
        self._kinds = {request: Signal(name=f"is_{request.name.lower()}") for request in requests}
        self._lengths = {count: Signal(name=f"has_{count}") for count in lengths}
        self._spoken, self._expects, self._holds = Signal(), Signal(), Signal()
        # What begins at 0 with each request.
        self._counted = []

    def _elaborate_session(self, m):
        m.d.comb += self._here.eq(self._settled.all())
        m.d.sync += [
            self._settled.eq(Cat(1, self._settled)),
            self.repeated.eq(0),
            self.out_of_order.eq(0),
        ]

    def _elaborate_session_facts(self, m):
        """Register the facts that states decide on, which are known well before."""
        m.d.sync += [signal.eq(self._type[:4] == kind) for kind, signal in self._kinds.items()]
        m.d.sync += [signal.eq(self._left == count) for count, signal in self._lengths.items()]
        m.d.sync += [
            self._distance.eq(self._expected - self._sequence),
            self._spoken.eq(self._type[4:] == VERSION),
            self._expects.eq(self._distance == 0),
            self._holds.eq(self._distance <= self._held),
        ]

    # Steps that several states take

    def _seek(self, address):
        """Have the byte at an address read; `_here` tells when it has been."""
        return [self.address.eq(address), self._settled.eq(0)]

    def _end(self, m, status, *, state="REPLY"):
        m.d.sync += self._status.eq(status)
        m.next = state

    def _put(self, m, byte):
        """Append a byte to the answer."""
        m.d.sync += [
            self.write.eq(1),
            self.write_byte.eq(byte),
            self.write_address.eq(Cat(self._size[: (MAX_ANSWER - 1).bit_length()], self._slot)),
            self._size.eq(self._size + 1),
        ]

    @property
    def _slot(self):
        return self._sequence[: (self._information.slots - 1).bit_length()]

    # States

    def _elaborate_header(self, m):
        with m.State("IDLE"):
            m.d.sync += [*self._seek(0), self._status.eq(0), self._size.eq(0)]
            m.d.sync += [counted.eq(0) for counted in self._counted]
            with m.If(self.pending):
                m.next = "TYPE"
        with m.State("TYPE"), m.If(self._here):
            m.d.sync += [self._type.eq(self.byte), *self._seek(1)]
            m.next = "SEQUENCE"
        with m.State("SEQUENCE"), m.If(self._here):
            m.d.sync += [self._sequence.eq(self.byte), *self._seek(2)]
            m.d.sync += self._left.eq(self.length - 2)
            m.next = "WAIT"
        with m.State("WAIT"), m.If(self._here & self.answer.ready):
            m.next = "JUDGE"
        with m.State("JUDGE"):
            with m.If(~self._spoken):
                self._end(m, Status.BAD_VERSION, state="SEND")
            with m.Elif(self._kinds[Request.HELLO]):
                m.next = "NONCE"
                with m.If(~self._lengths[NONCE_BYTES]):
                    self._end(m, Status.BAD_LENGTH, state="SEND")
            with m.Elif(~self._session):
                self._end(m, Status.NO_SESSION, state="SEND")
            with m.Elif(self._expects):
                m.next = "START"
            with m.Elif(self._holds):
                m.d.sync += self.repeated.eq(1)
                m.next = "AGAIN"
            with m.Else():
                m.d.sync += self.out_of_order.eq(1)
                self._end(m, Status.OUT_OF_ORDER, state="SEND")

    def _elaborate_hello(self, m):
        information = Array(Const(byte, 8) for byte in self._information.pack())
        size = NONCE_BYTES + len(information)
        at = (self._size - NONCE_BYTES)[: (len(information) - 1).bit_length()]
        with m.State("NONCE"), m.If(self._here):
            self._put(m, self.byte)
            m.d.sync += self._seek(self.address + 1)
            with m.If(self._size == NONCE_BYTES - 1):
                m.next = "INFORMATION"
        with m.State("INFORMATION"):
            self._put(m, information[at])
            with m.If(self._size == size - 1):
                m.d.sync += [self._session.eq(1), self._expected.eq(self._sequence + 1)]
                m.d.sync += self._held.eq(0)
                m.next = "SEND"

    def _elaborate_reply(self, m):
        kept = self._answers[self._slot]
        with m.State("REPLY"):
            m.d.sync += [
                kept.status.eq(self._status),
                kept.length.eq(Mux(self._status == Status.OK.value, self._size, 0)),
                self._expected.eq(self._expected + 1),
            ]
            with m.If(self._held != self._information.slots):
                m.d.sync += self._held.eq(self._held + 1)
            m.next = "AGAIN"
        with m.State("AGAIN"):
            m.d.sync += [self._status.eq(kept.status), self._size.eq(kept.length)]
            m.next = "SEND"
        with m.State("SEND"):
            m.d.comb += [
                self.answer.valid.eq(1),
                self.answer.p.type.eq(ANSWER | VERSION << 4 | self._type[:4]),
                self.answer.p.sequence.eq(self._sequence),
                self.answer.p.status.eq(self._status),
                self.answer.p.slot.eq(self._slot),
                self.answer.p.length.eq(self._size),
            ]
            with m.If(self.answer.ready):
                m.d.comb += self.release.eq(1)
                m.next = "IDLE"


def connect_line(link, m, requests, receiver, transmitter, frames, sender):
    """Connect a serial line with what performs the requests that come on it.

    Parameters
    ----------
    link : wiring.Component
        Has ``rx``, ``tx`` and ``busy``.
    m : Module
        That of the link.
    requests : SessionRequests
    receiver : Receiver
    transmitter : Transmitter
    frames : FrameReceiver
    sender : FrameSender
    """
    wiring.connect(m, sender.o, transmitter.i)
    wiring.connect(m, requests.answer, sender.i)
    m.d.comb += [
        receiver.rx.eq(link.rx),
        link.tx.eq(transmitter.tx),
        *copied(frames, receiver, "valid", "data", "error"),
        *copied(frames, requests, "address", "release"),
        *copied(requests, frames, "pending", "length", "byte"),
        sender.write.eq(requests.write),
        sender.address.eq(requests.write_address),
        sender.byte.eq(requests.write_byte),
    ]
    m.d.sync += link.busy.eq(frames.pending | ~sender.i.ready | ~transmitter.i.ready)


def copied(to, source, *names):
    """Return the assignments of ports to those of the same names.

    Parameters
    ----------
    to, source : object
        Have the ports.
    names : str
    """
    return [getattr(to, name).eq(getattr(source, name)) for name in names]
