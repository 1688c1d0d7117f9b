"""Execution of the requests that a board receives: each once, and in order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS
from ...hdl.interface import Operation
from ...hdl.latencies import GENERATION_LEAD, PAUSE, PERIOD_BITS, SECRET_LEAD
from ...hdl.registers import WORD_BITS, board_registers
from .information import whole_bytes
from .protocol import Request, Status
from .record_bytes import answer_bytes, is_above, is_bounded, is_unknown
from .sessions import REGISTER_REQUESTS, SessionRequests

_PORTS = {
    "generation": Request.GENERATION,
    "secret": Request.SECRET,
    "tick": Request.PERIOD,
    "table": Request.TABLE,
    "swap": Request.SWAP,
}
"""Ports of units for which there are requests."""

_VALUE_BYTES = {Request.GENERATION: 4, Request.SECRET: SECRET_BITS // 8, Request.PERIOD: 4}


class Requests(SessionRequests):
    """Performs requests and answers them, as `lately.boards.link.protocol` has it.

    Each request is read twice, so that none of it is performed before all of
    it has been checked. A byte takes a few cycles, fewer than on the line.

    Parameters
    ----------
    information : Information
        The answer to HELLO.
    unit : Component
        With a `lately.hdl.interface.UnitSignature`: for its ports and its latency.
    least_period : int
        Shortest period that can be set, if the unit has ticks.

    Members
    -------
    i, o
        The unit's streams, but during a self-test.
    number, set_generation, set_period, value : Out
    word : In
        As those of `RegisterFile`; a setting is there if the unit has it.
    secret : Out(stream.Signature(128))
    table, swap : Out
        If the unit has those ports.
    testing : Out(1)
        The unit's streams and its generation length are the self-test's.
    start : Out(1)
    running, failed : In
        As those of `SelfTest`.

    The others are those of `SessionRequests`.
    """

    def __init__(self, *, information, unit, least_period=0):
        self._unit = unit
        self._least_period = least_period
        ports = unit.signature.members
        self._registers = len(board_registers(ports))
        self._has = {request for port, request in _PORTS.items() if port in ports}
        self._settle = unit.latency + 2 * PAUSE + GENERATION_LEAD + SECRET_LEAD + 64
        members = {
            "i": Out(stream.Signature(unit.i.p.shape())),
            "o": In(stream.Signature(unit.o.p.shape())),
            "number": Out(range(self._registers)),
            "word": In(WORD_BITS),
            **({"set_generation": Out(1)} if Request.GENERATION in self._has else {}),
            "value": Out(WORD_BITS),
            "testing": Out(1),
            "start": Out(1),
            "running": In(1),
            "failed": In(8),
        }
        if Request.SECRET in self._has:
            members["secret"] = Out(stream.Signature(SECRET_BITS))
        if Request.PERIOD in self._has:
            members["set_period"] = Out(1)
        if Request.TABLE in self._has:
            members |= {name: ports[name].flip() for name in ("table", "swap")}
        super().__init__(information=information, members=members)

    def elaborate(self, platform):
        m = Module()
        self._declare()
        self._elaborate_session(m)
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
            if Request.TABLE in self._has:
                self._elaborate_table(m)
            self._elaborate_self_test(m)
            self._elaborate_reply(m)
        return m

    def _declare(self):
        others = {*_PORTS.values(), *REGISTER_REQUESTS} - self._has
        requests = [request for request in Request if request not in others]
        self._declare_session(requests, (0, 4, 16))
        record, entry = self._information.record_bytes, 0
        if Request.TABLE in self._has:
            entry = self._information.table.entry_bytes
        self._position = Signal(range(max(record, entry)))
        # Of records, all but the operation.
        widest = max(WORD_BITS, 8 * (record - 1), 8 * entry)
        widest = max(widest, SECRET_BITS) if Request.SECRET in self._has else widest
        self._shifted = Signal(widest)
        self._code = Signal(len(Value.cast(self.i.p.operation)))
        self._offered, self._answered = Signal(8), Signal(8)
        self._cycles = Signal(range(self._settle + 2))
        self._word = Signal(WORD_BITS)
        self._at_code, self._at_end = Signal(), Signal()
        self._unknown, self._too_wide, self._overflows = Signal(), Signal(), Signal()
        self._fits, self._over, self._complete = Signal(), Signal(), Signal()
        self._too_many, self._lasts = Signal(), Signal()
        self._at_key = Signal() if self._information.asked_bytes else self._at_end
        self._at_window, self._above, self._was_above = Signal(), Signal(), Signal()
        self._counted = [self._offered, self._answered, self._position]

    def _elaborate_facts(self, m):
        """Register the facts that states decide on, which are known well before."""
        key = whole_bytes(self._information.key_bits)
        unused = 8 * key - self._information.key_bits
        end = Const(self._information.record_bytes - 1)
        if Request.TABLE in self._has:
            shape = self._information.table
            end = Mux(self._kinds[Request.TABLE], shape.entry_bytes - 1, end)
            beyond = 8 * shape.entry_bytes - shape.entry_bits
            m.d.sync += self._overflows.eq(self.byte[8 - beyond :].any() if beyond else 0)
        m.d.comb += self.value.eq(self._shifted[-WORD_BITS:])
        self._elaborate_session_facts(m)
        m.d.sync += [
            self._at_code.eq(self._position == 0),
            self._at_end.eq(self._position == end),
            self._unknown.eq(is_unknown(self.byte, self._information)),
            self._too_wide.eq(self.byte[8 - unused :].any() if unused else 0),
        ]
        if Request.GENERATION in self._has:
            bits = len(self._unit.generation)
            m.d.sync += self._fits.eq(self.value.any() & ~self.value[bits:].any())
        m.d.sync += [
            self._over.eq(self._cycles == self._settle),
            self._complete.eq(self._answered == self._offered),
        ]
        if is_bounded(self._information):
            most = self._information.batch_operations * self._information.record_bytes
            m.d.sync += self._too_many.eq(self._left > most)
        if Request.PERIOD in self._has:
            long_enough = self.value >= self._least_period
            m.d.sync += self._lasts.eq(long_enough & ~self.value[PERIOD_BITS:].any())
        if self._information.asked_bytes:
            above = is_above(self.byte, self._was_above, self._position, self._information)
            m.d.sync += [
                self._at_key.eq(self._position == key),
                self._at_window.eq(self._position > key),
                self._above.eq(above),
            ]

    # States

    def _elaborate_start(self, m):
        lengths = {Request.STATISTICS: 0, Request.SELF_TEST: 0}
        lengths |= {request: size for request, size in _VALUE_BYTES.items() if request in self._has}
        states = {Request.SELF_TEST: "TEST", Request.STATISTICS: "SETTLE", Request.SWAP: "SWAP"}
        if Request.SWAP in self._has:
            lengths |= {Request.SWAP: 0}
        with m.State("START"):
            self._end(m, Status.BAD_TYPE)
            with m.If(self._kinds[Request.OPERATIONS]):
                self._end(m, Status.OK, state="SCAN")
                if is_bounded(self._information):
                    with m.If(self._too_many):
                        self._end(m, Status.BAD_LENGTH)
            if Request.TABLE in self._has:
                with m.If(self._kinds[Request.TABLE]):
                    self._end(m, Status.OK, state="SCAN TABLE")
            for request, length in lengths.items():
                with m.If(self._kinds[request]):
                    self._end(m, Status.OK, state=states.get(request, "VALUE"))
                    with m.If(~self._lengths[length]):
                        self._end(m, Status.BAD_LENGTH)

    def _step(self):
        """Go on to the next byte of a record, or of an entry."""
        return [
            *self._seek(self.address + 1),
            self._left.eq(self._left - 1),
            self._position.eq(Mux(self._at_end, 0, self._position + 1)),
        ]

    def _elaborate_scan(self, m, state, wrong, *, follows, beside=()):
        """Read a whole request, and end it with the status of what is wrong, the first first."""
        with m.State(state), m.If(self._here):
            m.d.sync += [*self._step(), *beside]
            with m.If(self._lengths[0]):
                m.d.sync += [*self._seek(2), self._left.eq(self.length - 2), self._position.eq(0)]
                m.next = follows
                with m.If(~self._at_code):
                    self._end(m, Status.BAD_LENGTH)
            for found, status in wrong:
                with m.Elif(found):
                    self._end(m, status)

    def _elaborate_operations(self, m):
        wrong = [
            (self._at_code & self._unknown, Status.BAD_OPERATION),
            (self._at_key & self._too_wide, Status.BAD_KEY),
        ]
        beside = []
        if self._information.asked_bytes:
            beside.append(self._was_above.eq(self._above & self._at_window))
            wrong.append((self._at_end & self._above, Status.BAD_VALUE))
        self._elaborate_scan(m, "SCAN", wrong, follows="PERFORM", beside=beside)
        with m.State("PERFORM"), m.If(self._here):
            with m.If(self._lengths[0]):
                m.next = "COLLECT"
            with m.Else():
                m.d.sync += self._step()
                with m.If(self._at_code):
                    m.d.sync += self._code.eq(self.byte[: len(self._code)])
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
        asked = 8 * self._information.asked_bytes
        end = len(self._shifted) - asked
        m.d.comb += [
            self.i.p.operation.eq(self._code),
            self.i.p.key.eq(self._shifted[end - 8 * whole_bytes(self._information.key_bits) : end]),
            self.o.ready.eq(1),
        ]
        if asked:
            name = "query_class" if Request.TABLE in self._has else "window"
            m.d.comb += getattr(self.i.p, name).eq(self._shifted[end:])
        came = Signal()
        verdict = Signal(8)
        answer = answer_bytes(self.o.p, self._information)
        m.d.sync += [
            came.eq(self.o.valid & ~self.testing),
            verdict.eq(answer[:8]),
            self.write.eq(0),
        ]
        with m.If(came):
            self._put(m, verdict)
            if len(answer) == 8:
                m.d.sync += self._answered.eq(self._answered + 1)
        if len(answer) > 8:
            self._elaborate_rest(m, came, answer[8:])

    def _elaborate_rest(self, m, came, rest):
        """Append the other bytes of each result; its record takes longer to come than they."""
        count = len(rest) // 8
        left = Signal(range(count + 1))
        held = Signal(len(rest), name="rest")
        with m.If(came):
            m.d.sync += left.eq(count)
        with m.Elif(left != 0):
            self._put(m, held[:8])
            m.d.sync += [held.eq(held >> 8), left.eq(left - 1)]
            with m.If(left == 1):
                m.d.sync += self._answered.eq(self._answered + 1)
        with m.If(self.o.valid & ~self.testing):
            m.d.sync += held.eq(rest)

    def _elaborate_settle(self, m):
        """Wait until operations under way have finished and a setting applies."""
        states = {
            Request.STATISTICS: "SELECT",
            Request.GENERATION: "REPLY",
            Request.SECRET: "SECRET",
            Request.SELF_TEST: "START TEST",
            Request.PERIOD: "REPLY",
        }
        states = {request: state for request, state in states.items() if request in self._kinds}
        with m.State("SETTLE"):
            m.d.sync += self._cycles.eq(self._cycles + 1)
            with m.If(self._over):
                m.d.sync += self._cycles.eq(0)
                for request, state in states.items():
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
        settings = {
            Request.GENERATION: ("LENGTH", self._fits, "set_generation"),
            Request.PERIOD: ("PERIOD", self._lasts, "set_period"),
        }
        settings = {request: how for request, how in settings.items() if request in self._has}
        with m.State("VALUE"), m.If(self._here):
            with m.If(self._lengths[0]):
                m.next = "TAKE"
            with m.Else():
                m.d.sync += [*self._seek(self.address + 1), self._left.eq(self._left - 1)]
                m.d.sync += self._shifted.eq(Cat(self._shifted[8:], self.byte))
        with m.State("TAKE"):
            m.d.sync += self._cycles.eq(0)
            m.next = "SETTLE"
            for request, (state, _, _) in settings.items():
                with m.If(self._kinds[request]):
                    m.next = state
        for state, valid, port in settings.values():
            with m.State(state):
                m.next = "SETTLE"
                with m.If(valid):
                    m.d.comb += getattr(self, port).eq(1)
                with m.Else():
                    self._end(m, Status.BAD_VALUE)
        if Request.SECRET in self._has:
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

    def _elaborate_table(self, m):
        """Load entries, and exchange the tables; no operation is under way."""
        shape = self._information.table
        wrong = [(self._at_end & self._overflows, Status.BAD_VALUE)]
        self._elaborate_scan(m, "SCAN TABLE", wrong, follows="ENTRY")
        m.d.comb += self.table.payload.eq(self._shifted[-8 * shape.entry_bytes :])
        with m.State("ENTRY"), m.If(self._here):
            with m.If(self._lengths[0]):
                m.next = "REPLY"
            with m.Else():
                m.d.sync += self._step()
                m.d.sync += self._shifted.eq(Cat(self._shifted[8:], self.byte))
                with m.If(self._at_end):
                    m.next = "LOAD"
        with m.State("LOAD"):
            m.d.comb += self.table.valid.eq(1)
            with m.If(self.table.ready):
                m.next = "ENTRY"
        with m.State("SWAP"):
            m.d.comb += self.swap.eq(1)
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
