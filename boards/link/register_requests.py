"""Execution of the requests of a board whose registers are at addresses."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ...hdl.bus.register_bank import WORD_ADDRESS_BITS
from ...hdl.bus.register_map import ADDRESS_BITS, WORD_BYTES
from ...hdl.registers import WORD_BITS
from .protocol import NONCE_BYTES, Request, Status
from .sessions import REGISTER_REQUESTS, SessionRequests

_LENGTHS = {Request.READ: 1, Request.WRITE: 1 + WORD_BYTES}
"""Bytes that requests bring."""


class RegisterRequests(SessionRequests):
    """Reads and writes registers on Wishbone, as `lately.boards.link.protocol` has it.

    Parameters
    ----------
    information : Information
        The answer to HELLO.

    Members
    -------
    wb_cyc_o, wb_stb_o, wb_we_o, wb_adr_o, wb_sel_o, wb_dat_o : Out
    wb_dat_i, wb_ack_i, wb_err_i : In
        As those of `lately.hdl.bus.wishbone.Wishbone`, seen from the master.

    The others are those of `SessionRequests`.
    """

    def __init__(self, *, information):
        super().__init__(
            information=information,
            members={
                "wb_cyc_o": Out(1),
                "wb_stb_o": Out(1),
                "wb_we_o": Out(1),
                "wb_adr_o": Out(WORD_ADDRESS_BITS),
                "wb_sel_o": Out(WORD_BYTES),
                "wb_dat_o": Out(WORD_BITS),
                "wb_dat_i": In(WORD_BITS),
                "wb_ack_i": In(1),
                "wb_err_i": In(1),
            },
        )

    def elaborate(self, platform):
        m = Module()
        self._declare_session(
            (Request.HELLO, *REGISTER_REQUESTS), {0, NONCE_BYTES, *_LENGTHS.values()}
        )
        self._elaborate_session(m)
        self._elaborate_session_facts(m)
        m.d.sync += self.write.eq(0)
        with m.FSM(name="requests"):
            self._elaborate_header(m)
            self._elaborate_hello(m)
            self._elaborate_start(m)
            self._elaborate_access(m)
            self._elaborate_reply(m)
        return m

    def _elaborate_start(self, m):
        """Take in address and word."""
        with m.State("START"):
            self._end(m, Status.BAD_TYPE)
            for request, length in _LENGTHS.items():
                with m.If(self._kinds[request]):
                    self._end(m, Status.OK, state="TAKE")
                    with m.If(~self._lengths[length]):
                        self._end(m, Status.BAD_LENGTH)
        self._taken = Signal(ADDRESS_BITS + WORD_BITS)
        with m.State("TAKE"), m.If(self._here):
            m.d.sync += [
                *self._seek(self.address + 1),
                self._left.eq(self._left - 1),
                self._taken.eq(Cat(self._taken[8:], self.byte)),
            ]
            with m.If(self._lengths[0]):
                m.d.sync += self._taken.eq(self._taken)
                m.next = "ADDRESS"

    def _elaborate_access(self, m):
        writes = self._kinds[Request.WRITE]
        address = Mux(writes, self._taken[:ADDRESS_BITS], self._taken[-ADDRESS_BITS:])
        low = ADDRESS_BITS - WORD_ADDRESS_BITS
        word, left = Signal(WORD_BITS), Signal(range(WORD_BYTES))
        m.d.comb += [
            self.wb_stb_o.eq(self.wb_cyc_o),
            self.wb_sel_o.eq(-1),
            self.wb_dat_o.eq(self._taken[ADDRESS_BITS:]),
        ]
        with m.State("ADDRESS"):
            m.d.sync += [self.wb_we_o.eq(writes), self.wb_adr_o.eq(address[low:])]
            with m.If(address[:low].any()):
                self._end(m, Status.BAD_VALUE)
            with m.Else():
                m.d.sync += self.wb_cyc_o.eq(1)
                m.next = "ACCESS"
        with m.State("ACCESS"):
            m.d.sync += [word.eq(self.wb_dat_i), left.eq(WORD_BYTES - 1)]
            with m.If(self.wb_ack_i):
                m.d.sync += self.wb_cyc_o.eq(0)
                m.next = "WORD"
                with m.If(self.wb_we_o):
                    m.next = "REPLY"
            with m.If(self.wb_err_i):
                m.d.sync += self.wb_cyc_o.eq(0)
                self._end(m, Status.BAD_VALUE)
        with m.State("WORD"):
            self._put(m, word[:8])
            m.d.sync += [word.eq(word >> 8), left.eq(left - 1)]
            with m.If(left == 0):
                m.next = "REPLY"
