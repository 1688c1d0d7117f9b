"""Bridge of a board: performs requests on a bus and on a port of operations."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...hdl.latencies import GENERATION_LEAD
from ...hdl.registers import WORD_BITS
from .frames import Answer, check_slots
from .protocol import (
    ANSWER,
    MAX_ANSWER,
    NONCE_BYTES,
    SAME,
    VERSION,
    WORD_BYTES,
    Request,
    Status,
)

BRIDGE_ADDRESS_BITS = 10
"""Width of a word address behind the bridge."""

_SETTLE = 2 * GENERATION_LEAD
"""Cycles after a WRITE until its settings apply to operations."""


class BusSignature(wiring.Signature):
    """Ports of a Wishbone master, one access at a time; `err` or `ack` ends an access."""

    def __init__(self):
        super().__init__(
            {
                "stb": Out(1),
                "we": Out(1),
                "adr": Out(BRIDGE_ADDRESS_BITS),
                "dat_w": Out(WORD_BITS),
                "dat_r": In(WORD_BITS),
                "ack": In(1),
                "err": In(1),
            }
        )


class Bridge(wiring.Component):
    """Performs each request of a session once, in order, and keeps the last answers.

    A READ of a missing word returns 0. A WRITE ends at the first rejected word.

    Parameters
    ----------
    slots : int
        Requests in flight.
    operations : bool
        Whether the bridge has a port of operations.

    Members
    -------
    request : In(stream.Signature(8))
    ended : In(1)
    release : Out(1)
        As for `FrameReceiver`.
    answer : Out(stream.Signature(Answer))
    write, write_address, write_byte : Out
        As for `FrameSender`.
    repeated, out_of_order : Out(1)
        High for one cycle for each such request.
    bus : Out(BusSignature())
    operations : Out(stream.Signature(8))
        Bytes of operations.
    results : In(stream.Signature(8))
        Bytes of results; always accepted.
    begin : Out(1)
        The next byte of `operations` is the first byte of a record.
    idle : In(1)
        No result is outstanding.

    Errors: ValueError as for `check_slots`.
    """

    def __init__(self, *, slots, operations=True):
        check_slots(slots)
        self._slots = slots
        self._operates = operations
        super().__init__(
            {
                "request": In(stream.Signature(8)),
                "ended": In(1),
                "release": Out(1),
                "answer": Out(stream.Signature(Answer(slots=slots))),
                "write": Out(1),
                "write_address": Out(range(MAX_ANSWER * slots)),
                "write_byte": Out(8),
                "repeated": Out(1),
                "out_of_order": Out(1),
                "bus": Out(BusSignature()),
                "operations": Out(stream.Signature(8)),
                "results": In(stream.Signature(8)),
                "begin": Out(1),
                "idle": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._declare(m)
        m.d.comb += [self.bus.dat_w.eq(self._word), self.results.ready.eq(1)]
        m.d.sync += [self.write.eq(0), self.repeated.eq(0), self.out_of_order.eq(0)]
        with m.FSM(name="bridge"):
            self._elaborate_header(m)
            self._elaborate_hello(m)
            self._elaborate_address(m)
            self._elaborate_access(m)
            if self._operates:
                self._elaborate_operations(m)
            self._elaborate_reply(m)
        with m.If(self.results.valid):
            self._put(m, self.results.payload)
        return m

    def _declare(self, m):
        slots = self._slots
        self._type, self._sequence, self._expected = Signal(8), Signal(8), Signal(8)
        self._distance = Signal(8)
        self._session = Signal()
        # Number of kept answers, and the status of their requests.
        self._held = Signal(range(slots + 1))
        kept = data.StructLayout({"status": 4, "length": 8})
        self._answers = Signal(data.ArrayLayout(kept, slots))
        self._status, self._size = Signal(4), Signal(8)
        self._word, self._place = Signal(WORD_BITS), Signal(range(WORD_BYTES))
        self._address, self._same, self._left = Signal(BRIDGE_ADDRESS_BITS), Signal(), Signal(8)
        self._cycles = Signal(range(_SETTLE))
        # Conditions are registered, because they are known well before their use.
        self._kinds = {one: Signal(name=f"is_{one.name.lower()}") for one in Request}
        self._spoken, self._expects, self._holds = Signal(), Signal(), Signal()
        self._none = Signal()
        m.d.sync += [
            *(signal.eq(self._type[:4] == kind) for kind, signal in self._kinds.items()),
            self._distance.eq(self._expected - self._sequence),
            self._spoken.eq(self._type[4:] == VERSION),
            self._expects.eq(self._distance == 0),
            self._holds.eq(self._distance <= self._held),
            self._none.eq(self._left == 0),
        ]

    # Steps of several states

    def _take(self, m, *assignments):
        """Accept the next byte of the request, together with the assignments."""
        m.d.comb += self.request.ready.eq(1)
        with m.If(self.request.valid):
            m.d.sync += assignments

    def _end(self, m, status, *, state="REPLY"):
        m.d.sync += self._status.eq(status)
        m.next = state

    def _put(self, m, byte):
        """Append a byte to the answer if there is room."""
        with m.If(~self._size[-1]):
            m.d.sync += [
                self.write.eq(1),
                self.write_byte.eq(byte),
                self.write_address.eq(Cat(self._size[: (MAX_ANSWER - 1).bit_length()], self._slot)),
                self._size.eq(self._size + 1),
            ]

    @property
    def _slot(self):
        return self._sequence[: (self._slots - 1).bit_length()]

    # States

    def _elaborate_header(self, m):
        with m.State("IDLE"):
            m.d.sync += [self._status.eq(0), self._size.eq(0), self._place.eq(0)]
            self._take(m, self._type.eq(self.request.payload))
            with m.If(self.request.valid):
                m.next = "SEQUENCE"
        with m.State("SEQUENCE"):
            self._take(m, self._sequence.eq(self.request.payload))
            with m.If(self.request.valid):
                m.next = "WAIT"
        with m.State("WAIT"), m.If((self.request.valid | self.ended) & self.answer.ready):
            m.next = "JUDGE"
        with m.State("JUDGE"):
            with m.If(~self._spoken):
                self._end(m, Status.BAD_VERSION, state="SEND")
            with m.Elif(self._kinds[Request.HELLO]):
                m.next = "NONCE"
            with m.Elif(~self._session):
                self._end(m, Status.NO_SESSION, state="SEND")
            with m.Elif(self._expects):
                self._elaborate_start(m)
            with m.Elif(self._holds):
                m.d.sync += self.repeated.eq(1)
                m.next = "AGAIN"
            with m.Else():
                m.d.sync += self.out_of_order.eq(1)
                self._end(m, Status.OUT_OF_ORDER, state="SEND")

    def _elaborate_start(self, m):
        self._end(m, Status.BAD_TYPE)
        with m.If(self._kinds[Request.READ] | self._kinds[Request.WRITE]):
            self._end(m, Status.OK, state="ADDRESS")
        if self._operates:
            with m.If(self._kinds[Request.OPERATE]):
                m.d.comb += self.begin.eq(1)
                self._end(m, Status.OK, state="OPERATE")

    def _elaborate_hello(self, m):
        """Repeat the nonce and append the number of slots."""
        with m.State("NONCE"):
            m.d.comb += self.request.ready.eq(1)
            with m.If(self.request.valid & (self._size != NONCE_BYTES)):
                self._put(m, self.request.payload)
            with m.If(self.ended):
                self._put(m, self._slots)
                m.d.sync += [self._session.eq(1), self._expected.eq(self._sequence + 1)]
                m.d.sync += self._held.eq(0)
                m.next = "SEND"

    def _elaborate_address(self, m):
        """Accept the address, and the number of words of a READ."""
        address = Cat(self._word[-8:], self.request.payload)
        with m.State("ADDRESS"):
            m.d.sync += self._left.eq(0)
            self._take(m, self._word.eq(Cat(self._word[8:], self.request.payload)))
            with m.If(self.request.valid):
                m.d.sync += self._place.eq(1)
                with m.If(self._place == 1):
                    m.d.sync += [
                        self._place.eq(0),
                        self._address.eq(address),
                        self._same.eq(address[SAME.bit_length() - 1]),
                    ]
                    m.next = "TAKE"
                    with m.If(self._kinds[Request.READ]):
                        m.next = "COUNT"
            with m.If(self.ended):
                m.next = "REPLY"
        with m.State("COUNT"):
            self._take(m, self._left.eq(self.request.payload))
            with m.If(self.request.valid | self.ended):
                m.next = "NEXT"
        with m.State("TAKE"):
            self._take(m, self._word.eq(Cat(self._word[8:], self.request.payload)))
            with m.If(self.request.valid):
                m.d.sync += self._place.eq(self._place + 1)
                with m.If(self._place == WORD_BYTES - 1):
                    m.next = "ACCESS"
            with m.If(self.ended):
                m.d.sync += self._cycles.eq(0)
                m.next = "SETTLE"
        with m.State("SETTLE"):
            m.d.sync += self._cycles.eq(self._cycles + 1)
            with m.If(self._cycles == _SETTLE - 1):
                m.next = "REPLY"

    def _elaborate_access(self, m):
        bus = self.bus
        m.d.comb += [bus.adr.eq(self._address), bus.we.eq(self._kinds[Request.WRITE])]
        step = self._address.eq(self._address + ~self._same)
        with m.State("NEXT"):
            m.next = "MORE"
        with m.State("MORE"):
            m.next = "ACCESS"
            with m.If(self._none | self._size[-1]):
                m.next = "REPLY"
        with m.State("ACCESS"):
            m.d.comb += bus.stb.eq(1)
            with m.If(bus.ack | bus.err):
                m.d.sync += [step, self._left.eq(self._left - 1)]
                m.next = "TAKE"
                with m.If(self._kinds[Request.READ]):
                    m.d.sync += self._word.eq(Mux(bus.err, 0, bus.dat_r))
                    m.next = "WORD"
                with m.Elif(bus.err):
                    self._end(m, Status.BAD_ADDRESS)
        with m.State("WORD"):
            self._put(m, self._word[:8])
            m.d.sync += [self._word.eq(self._word >> 8), self._place.eq(self._place + 1)]
            with m.If(self._place == WORD_BYTES - 1):
                m.next = "MORE"

    def _elaborate_operations(self, m):
        """Pass the bytes of the request on, and wait for the results."""
        with m.State("OPERATE"):
            m.d.comb += [
                self.operations.valid.eq(self.request.valid),
                self.operations.payload.eq(self.request.payload),
                self.request.ready.eq(self.operations.ready),
            ]
            with m.If(self.ended & self.idle):
                m.next = "REPLY"

    def _elaborate_reply(self, m):
        kept = self._answers[self._slot]
        with m.State("REPLY"):
            m.d.sync += [
                kept.status.eq(self._status),
                kept.length.eq(Mux(self._status == Status.OK.value, self._size, 0)),
                self._expected.eq(self._expected + 1),
            ]
            with m.If(self._held != self._slots):
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
