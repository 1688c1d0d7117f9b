"""Execution of the requests that a board receives: each once, and in order."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS
from ...golden.operations import Operation as GoldenOperation
from ...hdl.interface import Operation
from ...hdl.latencies import PERIOD_BITS
from ...hdl.registers import WORD_BITS, readable
from .frames import REQUESTS, Answer, FrameReceiver
from .protocol import (
    ANSWER,
    MAX_ANSWER,
    NONCE_BYTES,
    VERSION,
    Request,
    Status,
    key_bytes,
    record_bytes,
    verdict_bytes,
)

_VALUE_BYTES = {Request.GENERATION: 4, Request.SECRET: SECRET_BITS // 8, Request.PERIOD: 4}


class Requests(wiring.Component):
    """Performs requests and answers them, as `lately.boards.link.protocol` has it.

    Each request is read twice, so that none of it is performed before all of
    it has been checked. A byte takes a few cycles, fewer than on the line. An
    answer is begun once the one before has been sent; its slot may be written
    from then on.

    Parameters
    ----------
    information : Information
        The answer to HELLO.
    unit : FilterUnit
        For its widths and waits.

    Members
    -------
    pending, length, byte : In
    address, release : Out
        As those of `FrameReceiver`.
    answer : Out(stream.Signature(Answer))
    write, write_address, write_byte : Out
        As those of `FrameSender`.
    i, o
        The unit's streams, but during a self-test.
    number, set_generation, set_period, value : Out
    word : In
        As those of `RegisterFile`.
    secret : Out(stream.Signature(128))
        With siphash only.
    testing : Out(1)
        The unit's streams and its generation length are the self-test's.
    start : Out(1)
    running, failed : In
        As those of `SelfTest`.
    repeated, out_of_order : Out(1)
        High for one cycle for each such request.
    """

    def __init__(self, *, information, unit):
        self._information = information
        self._unit = unit
        slots = information.slots
        self._registers = len(readable(timed=information.timed))
        self._settle = unit.latency + 2 * unit.PAUSE + unit.GENERATION_LEAD + unit.SECRET_LEAD + 64
        members = {name: member.flip() for name, member in REQUESTS.items()}
        members |= {
            "answer": Out(stream.Signature(Answer(slots=slots))),
            "write": Out(1),
            "write_address": Out(range(MAX_ANSWER * slots)),
            "write_byte": Out(8),
            "i": Out(stream.Signature(unit.i.p.shape())),
            "o": In(stream.Signature(unit.o.p.shape())),
            "number": Out(range(self._registers)),
            "word": In(WORD_BITS),
            "set_generation": Out(1),
            "value": Out(WORD_BITS),
            "testing": Out(1),
            "start": Out(1),
            "running": In(1),
            "failed": In(8),
            "repeated": Out(1),
            "out_of_order": Out(1),
        }
        if information.keyed:
            members["secret"] = Out(stream.Signature(SECRET_BITS))
        if information.timed:
            members["set_period"] = Out(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self._declare()
        m.d.comb += self._here.eq(self._settled.all())
        m.d.sync += [
            self._settled.eq(Cat(1, self._settled)),
            self.repeated.eq(0),
            self.out_of_order.eq(0),
        ]
        self._elaborate_facts(m)
        self._elaborate_results(m)
        with m.FSM(name="requests"):
            self._elaborate_header(m)
            self._elaborate_hello(m)
            self._elaborate_start(m)
            self._elaborate_operations(m)
            self._elaborate_settle(m)
            self._elaborate_statistics(m)
            self._elaborate_values(m)
            self._elaborate_self_test(m)
            self._elaborate_reply(m)
        return m

    def _declare(self):
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
        self._position = Signal(range(key_bytes(self._information.key_bits) + 1))
        widest = max(WORD_BITS, len(self.i.p.key))
        widest = max(widest, SECRET_BITS) if self._information.keyed else widest
        self._shifted = Signal(-(-widest // 8) * 8)
        self._code = Signal(Operation)
        self._offered, self._answered = Signal(8), Signal(8)
        self._cycles = Signal(range(self._settle + 2))
        self._word = Signal(WORD_BITS)
        timed = self._information.timed
        self._kinds = {request: Signal(name=f"is_{request.name.lower()}") for request in Request
                       if timed or request is not Request.PERIOD}  # fmt: skip
        self._lengths = {count: Signal(name=f"has_{count}") for count in (0, 4, 16)}
        self._spoken, self._expects, self._holds = Signal(), Signal(), Signal()
        self._at_code, self._at_end = Signal(), Signal()
        self._unknown, self._too_wide = Signal(), Signal()
        self._fits, self._over, self._complete = Signal(), Signal(), Signal()
        self._too_many, self._lasts = Signal(), Signal()

    def _elaborate_facts(self, m):
        """Register the facts that states decide on, which are known well before."""
        last = key_bytes(self._information.key_bits)
        unused = 8 * last - self._information.key_bits
        m.d.comb += self.value.eq(self._shifted[-WORD_BITS:])
        m.d.sync += [signal.eq(self._type[:4] == kind) for kind, signal in self._kinds.items()]
        m.d.sync += [signal.eq(self._left == count) for count, signal in self._lengths.items()]
        m.d.sync += [
            self._distance.eq(self._expected - self._sequence),
            self._spoken.eq(self._type[4:] == VERSION),
            self._expects.eq(self._distance == 0),
            self._holds.eq(self._distance <= self._held),
            self._at_code.eq(self._position == 0),
            self._at_end.eq(self._position == last),
            self._unknown.eq(self.byte > GoldenOperation.CLEAR),
            self._too_wide.eq(self.byte[8 - unused :].any() if unused else 0),
            self._fits.eq(self.value.any() & ~self.value[self._unit.generation_bits :].any()),
            self._over.eq(self._cycles == self._settle),
            self._complete.eq(self._answered == self._offered),
        ]
        if self._information.timed:
            most = self._information.batch_operations * record_bytes(self._information.key_bits)
            least = self._unit.profile.least_period
            m.d.sync += [
                self._too_many.eq(self._left > most),
                self._lasts.eq((self.value >= least) & ~self.value[PERIOD_BITS:].any()),
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
            m.d.sync += [self._offered.eq(0), self._answered.eq(0), self._position.eq(0)]
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
        with m.State("NONCE"), m.If(self._here):
            self._put(m, self.byte)
            m.d.sync += self._seek(self.address + 1)
            with m.If(self._size == NONCE_BYTES - 1):
                m.next = "INFORMATION"
        with m.State("INFORMATION"):
            self._put(m, information[(self._size - NONCE_BYTES)[:5]])
            with m.If(self._size == size - 1):
                m.d.sync += [self._session.eq(1), self._expected.eq(self._sequence + 1)]
                m.d.sync += self._held.eq(0)
                m.next = "SEND"

    def _elaborate_start(self, m):
        keyed = self._information.keyed
        lengths = {Request.STATISTICS: 0, Request.SELF_TEST: 0} | _VALUE_BYTES
        if not self._information.timed:
            del lengths[Request.PERIOD]
        states = {Request.SELF_TEST: "TEST", Request.STATISTICS: "SETTLE"}
        with m.State("START"):
            self._end(m, Status.BAD_TYPE)
            with m.If(self._kinds[Request.OPERATIONS]):
                self._end(m, Status.OK, state="SCAN")
                if self._information.timed:
                    with m.If(self._too_many):
                        self._end(m, Status.BAD_LENGTH)
            for request, length in lengths.items():
                if request is Request.SECRET and not keyed:
                    continue
                with m.If(self._kinds[request]):
                    self._end(m, Status.OK, state=states.get(request, "VALUE"))
                    with m.If(~self._lengths[length]):
                        self._end(m, Status.BAD_LENGTH)

    def _elaborate_operations(self, m):
        none_left = self._lengths[0]
        step = [
            *self._seek(self.address + 1),
            self._left.eq(self._left - 1),
            self._position.eq(Mux(self._at_end, 0, self._position + 1)),
        ]
        with m.State("SCAN"), m.If(self._here):
            m.d.sync += step
            with m.If(none_left):
                m.d.sync += [*self._seek(2), self._left.eq(self.length - 2), self._position.eq(0)]
                m.next = "PERFORM"
                with m.If(~self._at_code):
                    self._end(m, Status.BAD_LENGTH)
            with m.Elif(self._at_code & self._unknown):
                self._end(m, Status.BAD_OPERATION)
            with m.Elif(self._at_end & self._too_wide):
                self._end(m, Status.BAD_KEY)
        with m.State("PERFORM"), m.If(self._here):
            with m.If(none_left):
                m.next = "COLLECT"
            with m.Else():
                m.d.sync += step
                with m.If(self._at_code):
                    m.d.sync += self._code.eq(self.byte[:3])
                with m.Else():
                    m.d.sync += self._shifted.eq(Cat(self._shifted[8:], self.byte))
                with m.If(self._at_end):
                    m.next = "OFFER"
        with m.State("OFFER"):
            m.d.comb += self.i.valid.eq(1)
            with m.If(self.i.ready):
                m.d.sync += self._offered.eq(self._offered + 1)
                m.next = "PERFORM"
                with m.If(self._kinds[Request.SELF_TEST]):
                    m.next = "OFFERED"
        with m.State("OFFERED"):
            m.next = "COLLECT"
        with m.State("COLLECT"), m.If(self._complete):
            m.next = "REPLY"
            with m.If(self._kinds[Request.SELF_TEST]):
                m.d.sync += self._size.eq(0)
                m.next = "TESTED"

    def _elaborate_results(self, m):
        """Append results to the answer as they come."""
        top = len(self._shifted) - 8 * key_bytes(self._information.key_bits)
        m.d.comb += [
            self.i.p.operation.eq(self._code),
            self.i.p.key.eq(self._shifted[top:]),
            self.o.ready.eq(1),
        ]
        came = Signal()
        verdict = Signal(8)
        m.d.sync += [
            came.eq(self.o.valid & ~self.testing),
            verdict.eq(Cat(self.o.p.age, Const(0, 7 - len(self.o.p.age)), self.o.p.seen)),
            self.write.eq(0),
        ]
        with m.If(came):
            self._put(m, verdict)
            if not self._information.timed:
                m.d.sync += self._answered.eq(self._answered + 1)
        if self._information.timed:
            self._elaborate_time(m, came)

    def _elaborate_time(self, m, came):
        """Append time and status to each result; its record takes longer to come than they."""
        left = Signal(range(verdict_bytes(timed=True)))
        rest = Signal(8 * (verdict_bytes(timed=True) - 1))
        with m.If(came):
            m.d.sync += left.eq(verdict_bytes(timed=True) - 1)
        with m.Elif(left != 0):
            self._put(m, rest[:8])
            m.d.sync += [rest.eq(rest >> 8), left.eq(left - 1)]
            with m.If(left == 1):
                m.d.sync += self._answered.eq(self._answered + 1)
        with m.If(self.o.valid & ~self.testing):
            m.d.sync += rest.eq(Cat(self.o.p.time, self.o.p.status))

    def _elaborate_settle(self, m):
        """Wait until operations under way have finished and a setting applies."""
        states = {
            Request.STATISTICS: "SELECT",
            Request.GENERATION: "REPLY",
            Request.SECRET: "SECRET",
            Request.SELF_TEST: "START TEST",
        }
        if self._information.timed:
            states[Request.PERIOD] = "REPLY"
        with m.State("SETTLE"):
            m.d.sync += self._cycles.eq(self._cycles + 1)
            with m.If(self._over):
                m.d.sync += self._cycles.eq(0)
                for request, state in states.items():
                    if state == "SECRET" and not self._information.keyed:
                        continue
                    with m.If(self._kinds[request]):
                        m.next = state

    def _elaborate_statistics(self, m):
        with m.State("SELECT"):
            m.d.sync += self._word.eq(self.word)
            m.next = "WORD"
        with m.State("WORD"):
            self._put(m, self._word[:8])
            m.d.sync += [self._word.eq(self._word >> 8), self._cycles.eq(self._cycles + 1)]
            with m.If(self._cycles == WORD_BITS // 8 - 1):
                m.d.sync += [self._cycles.eq(0), self.number.eq(self.number + 1)]
                m.next = "SELECT"
                with m.If(self.number == self._registers - 1):
                    m.d.sync += self.number.eq(0)
                    m.next = "REPLY"

    def _elaborate_values(self, m):
        with m.State("VALUE"), m.If(self._here):
            with m.If(self._lengths[0]):
                m.next = "TAKE"
            with m.Else():
                m.d.sync += [*self._seek(self.address + 1), self._left.eq(self._left - 1)]
                m.d.sync += self._shifted.eq(Cat(self._shifted[8:], self.byte))
        with m.State("TAKE"):
            m.d.sync += self._cycles.eq(0)
            m.next = "SETTLE"
            with m.If(self._kinds[Request.GENERATION]):
                m.next = "LENGTH"
            if self._information.timed:
                with m.If(self._kinds[Request.PERIOD]):
                    m.next = "PERIOD"
        with m.State("LENGTH"):
            m.next = "SETTLE"
            with m.If(self._fits):
                m.d.comb += self.set_generation.eq(1)
            with m.Else():
                self._end(m, Status.BAD_VALUE)
        if self._information.timed:
            with m.State("PERIOD"):
                m.next = "SETTLE"
                with m.If(self._lasts):
                    m.d.comb += self.set_period.eq(1)
                with m.Else():
                    self._end(m, Status.BAD_VALUE)
        if self._information.keyed:
            m.d.comb += self.secret.payload.eq(self._shifted[-SECRET_BITS:])
            with m.State("SECRET"):
                m.d.comb += self.secret.valid.eq(1)
                m.next = "HEEDED"
                with m.If(~self.secret.ready):
                    self._end(m, Status.BUSY)
            with m.State("HEEDED"):
                m.d.sync += self._cycles.eq(self._cycles + 1)
                with m.If(self._over):
                    m.d.sync += self._cycles.eq(0)
                    m.next = "REPLY"

    def _elaborate_self_test(self, m):
        with m.State("TEST"):
            m.d.sync += self.testing.eq(1)
            m.next = "SETTLE"
        with m.State("START TEST"):
            m.d.comb += self.start.eq(1)
            m.next = "STARTED"
        with m.State("STARTED"):
            m.next = "RUNNING"
        with m.State("RUNNING"), m.If(~self.running):
            m.d.sync += self.testing.eq(0)
            m.next = "TEST OVER"
        with m.State("TEST OVER"):
            # The generation length that was configured counts from a clear on.
            m.d.sync += self._cycles.eq(self._cycles + 1)
            m.d.sync += self._code.eq(Operation.CLEAR)
            with m.If(self._over):
                m.d.sync += self._cycles.eq(0)
                m.next = "OFFER"
        with m.State("TESTED"):
            self._put(m, self.failed)
            m.next = "REPLY"

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
