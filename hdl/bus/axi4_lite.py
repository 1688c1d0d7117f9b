"""Registers on AXI4-Lite."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers import WORD_BITS
from .register_bank import AccessSignature
from .register_map import ADDRESS_BITS, WORD_BYTES

OKAY, SLVERR = 0, 2
"""Responses."""


class Axi4Lite(wiring.Component):
    """AXI4-Lite subordinate for the registers.

    Address and data of a write may arrive in any order. One access is performed at a time; pending
    reads and writes alternate. No output depends on an input in the same cycle: all outputs are
    registers, or one gate behind registers. Valid outputs stay stable until they are accepted. An
    access that fails returns SLVERR. The two lowest bits of an address and AxPROT are ignored.

    Members
    -------
    s_axil_awaddr, s_axil_awprot, s_axil_awvalid : In
    s_axil_awready : Out(1)
    s_axil_wdata, s_axil_wstrb, s_axil_wvalid : In
    s_axil_wready : Out(1)
    s_axil_bresp, s_axil_bvalid : Out
    s_axil_bready : In(1)
    s_axil_araddr, s_axil_arprot, s_axil_arvalid : In
    s_axil_arready : Out(1)
    s_axil_rdata, s_axil_rresp, s_axil_rvalid : Out
    s_axil_rready : In(1)
    access : Out(AccessSignature())
    """

    PREFIX = "s_axil"

    INTERFACE = "xilinx.com:interface:aximm:1.0"
    """Vivado's name of the interface."""

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
            members |= {f"{self.PREFIX}_{name}{part}": what for part, what in parts.items()}
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
        """Hold the payload of a channel until the access is done."""
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
        """Hold a response until it is accepted."""
        valid = self._port(channel, "valid")
        with m.If(self._port(channel, "ready")):
            m.d.sync += valid.eq(0)
        with m.If(done):
            m.d.sync += valid.eq(1)
            m.d.sync += [self._port(channel, part).eq(value) for part, value in payload.items()]


class _Request:
    """Payload received on a channel, and whether it is held."""

    def __init__(self, width, channel):
        self.held = Signal(name=f"{channel}_held", init=0)
        self.value = Signal(width, name=f"{channel}_value", reset_less=True)
