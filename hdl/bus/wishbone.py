"""Registers on Wishbone."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers import WORD_BITS
from .register_bank import WORD_ADDRESS_BITS, AccessSignature
from .register_map import WORD_BYTES


class Wishbone(wiring.Component):
    """Wishbone B4 slave for the registers, for classic and pipelined masters.

    STALL is low only in the cycle of a response, so that a pipelined master holds its request like
    a classic master. All outputs are registers, or one gate behind registers. If a master drops
    CYC or STB before the response, the access may still be performed, without a response. An
    access that fails returns ERR.

    Members
    -------
    wb_cyc_i, wb_stb_i, wb_we_i : In(1)
    wb_adr_i : In(6)
        Word address.
    wb_sel_i : In(4)
    wb_dat_i : In(32)
    wb_dat_o : Out(32)
    wb_ack_o, wb_err_o, wb_stall_o : Out(1)
    access : Out(AccessSignature())
    """

    PREFIX = "wb"

    def __init__(self):
        super().__init__(
            {
                "wb_cyc_i": In(1),
                "wb_stb_i": In(1),
                "wb_we_i": In(1),
                "wb_adr_i": In(WORD_ADDRESS_BITS),
                "wb_sel_i": In(WORD_BYTES),
                "wb_dat_i": In(WORD_BITS),
                "wb_dat_o": Out(WORD_BITS),
                "wb_ack_o": Out(1),
                "wb_err_o": Out(1),
                "wb_stall_o": Out(1),
                "access": Out(AccessSignature()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        access = self.access
        asks, answered, starts = Signal(), Signal(), Signal()
        # Whether an access is in progress, and whether its master still waits.
        busy, waits = Signal(), Signal()
        m.d.comb += [
            asks.eq(self.wb_cyc_i & self.wb_stb_i),
            answered.eq(self.wb_ack_o | self.wb_err_o),
            starts.eq(asks & ~busy & ~answered),
            self.wb_stall_o.eq(~answered),
        ]
        m.d.sync += [
            access.write.eq(starts & self.wb_we_i),
            access.read.eq(starts & ~self.wb_we_i),
            waits.eq((waits | starts) & asks & ~access.done),
            self.wb_ack_o.eq(access.done & waits & asks & ~access.error),
            self.wb_err_o.eq(access.done & waits & asks & access.error),
        ]
        with m.If(starts):
            m.d.sync += [
                busy.eq(1),
                access.address.eq(self.wb_adr_i),
                access.data.eq(self.wb_dat_i),
                access.strobe.eq(self.wb_sel_i),
            ]
        with m.If(access.done):
            m.d.sync += [busy.eq(0), self.wb_dat_o.eq(access.word)]
        return m
