"""Register access over AXI4-Lite, Wishbone and Avalon-MM."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers import WORD_BITS
from .register_bank import WORD_ADDRESS_BITS, AccessSignature
from .register_map import ADDRESS_BITS, WORD_BYTES

OKAY, SLVERR = 0, 2  # response codes


class Axi4Lite(wiring.Component):
    """AXI4-Lite subordinate for the registers; pending reads and writes alternate.

    No output depends combinationally on an input: each comes from a register, or from one gate
    behind registers. A failed access returns SLVERR. The two lowest address bits and AxPROT are
    ignored.
    """

    PREFIX = "s_axil"

    INTERFACE = "xilinx.com:interface:aximm:1.0"  # Vivado's name for the interface

    def __init__(self):
        channels = {
            "aw": {"addr": In(ADDRESS_BITS), "prot": In(3)},
            "w": {"data": In(WORD_BITS), "strb": In(WORD_BYTES)},
            "b": {"resp": Out(2)},
            "ar": {"addr": In(ADDRESS_BITS), "prot": In(3)},
            "r": {"data": Out(WORD_BITS), "resp": Out(2)},
        }
        members = {}
        for name, payload in channels.items():
            inward = name in ("aw", "w", "ar")
            parts = payload | {"valid": In(1), "ready": Out(1)}
            if not inward:
                parts |= {"valid": Out(1), "ready": In(1)}
            members |= {f"{self.PREFIX}_{name}{part}": member for part, member in parts.items()}
        super().__init__(members | {"access": Out(AccessSignature())})

    def elaborate(self, platform):
        m = Module()
        access = self.access
        low = ADDRESS_BITS - len(access.address)
        done = {name: Signal(name=f"{name}_done") for name in ("write", "read")}
        to, data, source = (
            self._elaborate_request(m, channel, part, done[name])
            for channel, part, name in (
                ("aw", "addr", "write"), ("w", "data", "write"), ("ar", "addr", "read")
            )
        )  # fmt: skip
        with m.If(self.s_axil_wvalid & self.s_axil_wready):
            m.d.sync += access.strobe.eq(self.s_axil_wstrb)
        busy, writes = Signal(), Signal()
        may = {"write": to.held & data.held & ~self.s_axil_bvalid,
               "read": source.held & ~self.s_axil_rvalid}  # fmt: skip
        m.d.comb += [
            access.data.eq(data.value),
            *(done[name].eq(access.done & (writes == (name == "write"))) for name in done),
        ]
        # A write has priority, except when a read waits behind a previous write.
        starts = {"write": ~busy & may["write"], "read": ~busy & may["read"] & ~may["write"]}
        m.d.sync += [access.write.eq(starts["write"]), access.read.eq(starts["read"])]
        with m.If(Cat(starts.values()).any()):
            m.d.sync += [
                busy.eq(1),
                writes.eq(may["write"]),
                access.address.eq(Mux(may["write"], to.value[low:], source.value[low:])),
            ]
        with m.If(access.done):
            m.d.sync += busy.eq(0)
        response = Mux(access.error, SLVERR, OKAY)
        self._elaborate_response(m, "b", done["write"], resp=response)
        self._elaborate_response(m, "r", done["read"], resp=response, data=access.word)
        return m

    def _port(self, channel, part):
        return getattr(self, f"{self.PREFIX}_{channel}{part}")

    def _elaborate_request(self, m, channel, part, done):
        payload = self._port(channel, part)
        request = _Request(len(payload), channel)
        valid, ready = self._port(channel, "valid"), self._port(channel, "ready")
        m.d.comb += ready.eq(~request.held)
        with m.If(valid & ready):
            m.d.sync += [request.held.eq(1), request.value.eq(payload)]
        with m.If(done):
            m.d.sync += request.held.eq(0)
        return request

    def _elaborate_response(self, m, channel, done, **payload):
        valid = self._port(channel, "valid")
        with m.If(self._port(channel, "ready")):
            m.d.sync += valid.eq(0)
        with m.If(done):
            m.d.sync += valid.eq(1)
            m.d.sync += [self._port(channel, part).eq(value) for part, value in payload.items()]


class _Request:
    def __init__(self, width, channel):
        self.held = Signal(name=f"{channel}_held", init=0)
        self.value = Signal(width, name=f"{channel}_value", reset_less=True)


class Wishbone(wiring.Component):
    """Wishbone B4 slave that gives classic and pipelined masters access to the registers.

    STALL is low only in the cycle of a response, so a pipelined master holds its request like a
    classic master. If the master drops CYC or STB before the response, the access may still be
    performed, without a response. A failed access returns ERR.
    """

    PREFIX = "wb"

    def __init__(self):
        super().__init__(
            {
                "wb_cyc_i": In(1),
                "wb_stb_i": In(1),
                "wb_we_i": In(1),
                "wb_adr_i": In(WORD_ADDRESS_BITS),  # word address
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


OKAY, SLAVEERROR = 0, 2  # response codes


class AvalonMm(wiring.Component):
    """Avalon-MM agent that performs one register access at a time.

    WAITREQUEST is high from the cycle after an access is accepted until its response. If the access
    fails, RESPONSE is SLAVEERROR.
    """

    PREFIX = "avs"

    def __init__(self):
        super().__init__(
            {
                "avs_address": In(WORD_ADDRESS_BITS),  # word address
                "avs_read": In(1),  # never together with `avs_write`
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
