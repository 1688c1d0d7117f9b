"""Registers on Avalon-MM."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers import WORD_BITS
from .register_bank import WORD_ADDRESS_BITS, AccessSignature
from .register_map import WORD_BYTES

OKAY, SLAVEERROR = 0, 2
"""Responses."""


class AvalonMm(wiring.Component):
    """Avalon-MM agent for the registers, with one access at a time.

    WAITREQUEST is high from the cycle after the acceptance of an access until the cycle of its
    response. READDATAVALID marks the response to a read, WRITERESPONSEVALID the response to a
    write. RESPONSE is SLAVEERROR if the access fails. All outputs are registers.

    Members
    -------
    avs_address : In(6)
        Word address.
    avs_read, avs_write : In(1)
        At most one is high.
    avs_byteenable : In(4)
    avs_writedata : In(32)
    avs_readdata : Out(32)
    avs_readdatavalid, avs_writeresponsevalid, avs_waitrequest : Out(1)
    avs_response : Out(2)
    access : Out(AccessSignature())
    """

    PREFIX = "avs"

    def __init__(self):
        super().__init__(
            {
                "avs_address": In(WORD_ADDRESS_BITS),
                "avs_read": In(1),
                "avs_write": In(1),
                "avs_byteenable": In(WORD_BYTES),
                "avs_writedata": In(WORD_BITS),
                "avs_readdata": Out(WORD_BITS),
                "avs_readdatavalid": Out(1),
                "avs_writeresponsevalid": Out(1),
                "avs_response": Out(2),
                "avs_waitrequest": Out(1),
                "access": Out(AccessSignature()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        access = self.access
        starts, writes = Signal(), Signal()
        m.d.comb += starts.eq((self.avs_read | self.avs_write) & ~self.avs_waitrequest)
        m.d.sync += [
            access.read.eq(starts & ~self.avs_write),
            access.write.eq(starts & self.avs_write),
            self.avs_readdatavalid.eq(access.done & ~writes),
            self.avs_writeresponsevalid.eq(access.done & writes),
        ]
        with m.If(starts):
            m.d.sync += [
                self.avs_waitrequest.eq(1),
                writes.eq(self.avs_write),
                access.address.eq(self.avs_address),
                access.data.eq(self.avs_writedata),
                access.strobe.eq(self.avs_byteenable),
            ]
        with m.If(access.done):
            m.d.sync += [
                self.avs_waitrequest.eq(0),
                self.avs_readdata.eq(access.word),
                self.avs_response.eq(Mux(access.error, SLAVEERROR, OKAY)),
            ]
        return m
