"""Meanings of the ports and fields of an exported unit."""

from ...golden.spec.base import Specification
from ...hdl.packets.frame_options import ONLY_BAD, Sideband
from ...hdl.registers import REGISTERS

MEANINGS = (
    {
        "aclk": "clock",
        "clk": "clock",
        "aresetn": "reset, active low, synchronous to the clock",
        "rst": "reset, synchronous to the clock",
        "tick": "high for one cycle per tick",
        "tick_lost": "high for one cycle after a tick is lost, because too many ticks wait already",
        "irq": "interrupt: high while a bit of `faults` is set whose bit of `irq_mask` is set",
        "swap": "high for one cycle: later requests use the loaded table",
        "in_valid": "a request is offered",
        "in_ready": "the request is accepted",
        "out_valid": "a result is offered",
        "out_ready": "the result is accepted",
        "out_refused": "the request was not performed",
        "overrun": "a request was refused since the last reset",
        "fault": "high for one cycle when the unit detects an illegal state and resets itself",
        "alarms": "number of these resets since the last external reset",
        "avs_address": "word address: the byte address without its two lowest bits",
        "avs_read": "read request",
        "avs_write": "write request",
        "avs_byteenable": "byte enables",
        "avs_writedata": "write data",
        "avs_readdata": "read data",
        "avs_readdatavalid": "the read data are valid",
        "avs_writeresponsevalid": "the write response is valid",
        "avs_response": "OKAY or SLAVEERROR",
        "avs_waitrequest": "an access is in progress: the host must hold its request",
        "in_data": "fields of requests, see below",
        "out_data": "fields of results, see below",
        "wb_cyc_i": "bus cycle",
        "wb_stb_i": "strobe",
        "wb_we_i": "write enable",
        "wb_adr_i": "word address: the byte address without its two lowest bits",
        "wb_sel_i": "byte enables",
        "wb_dat_i": "write data",
        "wb_dat_o": "read data",
        "wb_ack_o": "the access succeeded",
        "wb_err_o": "the access failed",
        "wb_stall_o": "high until the response: a pipelined master holds its request",
    }
    | {
        f"{side}_axis_{part}": meaning
        for side, stream in (("s", "of requests"), ("m", "of results"))
        for part, meaning in (
            ("tdata", f"fields {stream}, see below"),
            ("tuser", f"fields {stream}, see below"),
            ("tlast", "returns with the result"),
            ("tvalid", f"handshake {stream}"),
            ("tready", f"handshake {stream}"),
        )
    }
    | {
        f"s_axil_{channel}{flag}": f"handshake of {what}"
        for channel, what in (
            ("aw", "write addresses"),
            ("w", "write data"),
            ("b", "write responses"),
            ("ar", "read addresses"),
            ("r", "read data"),
        )
        for flag in ("valid", "ready")
    }
    | {
        "s_axil_awaddr": "byte address of the word to write",
        "s_axil_awprot": "not used",
        "s_axil_wdata": "write data",
        "s_axil_wstrb": "byte enables",
        "s_axil_bresp": "OKAY or SLVERR",
        "s_axil_araddr": "byte address of the word to read",
        "s_axil_arprot": "not used",
        "s_axil_rdata": "read data",
        "s_axil_rresp": "OKAY or SLVERR",
    }
    | {register.name: register.meaning for register in REGISTERS}
)
"""Meanings of ports by name."""

_FIELDS = {
    "key": "key",
    "operation": "operation",
    "alone": "operation that takes effect before all lanes: SHIFT or CLEAR",
    "valid": "the lane holds a request or a result",
    "tag": "any value; returns with the result",
    "last": "TLAST; returns with the result",
    "window": "window of the query, in {steps}; a value above {most} counts as {most}",
    "query_class": "class of the query in the table of thresholds",
    "seen": "1 if the key was reported",
    "oldest": "number of the key's cells that have this age",
    "time": "time, in ticks",
    "covered": "number of ticks, including the current one, whose keys are all reported",
    "refused": "1 if the request was not performed",
    "phase": "highest bits of the number of insertions into the block",
    "least": "threshold: number of oldest cells from which a key is reported",
}
"""Meanings of the fields of requests, results and entries of a table, by name."""

_FIELDS_OF_KIND = {
    "ring": {
        "age": "youngest generation to which the key can belong; 0 if the key was not reported",
        "status": "1: the window is shortened, 2: the false-positive rate is exceeded, 0: neither",
    },
    "dictionary": {
        "age": "insertions after the key's own; 0 if the key was not reported",
        "status": "1 if keys of the requested window may be missed",
    },
    "timing": {"age": "age of the key's oldest cell, in {steps}; {above} if it has expired"},
}
"""Meanings that depend on the kind of the filter."""

FRAME_MEANINGS = MEANINGS | {
    "s_axis_tdata": "bytes of a frame, the first in the lowest bits",
    "s_axis_tkeep": "valid bytes, from the lowest; all of them except in the last transfer",
    "s_axis_tlast": "last transfer of the frame",
    "s_axis_tuser": "with TLAST: the frame is damaged and will be discarded",
    "s_axis_tvalid": "handshake of incoming frames",
    "s_axis_tready": "handshake of incoming frames",
    "m_axis_tdata": "bytes of a frame",
    "m_axis_tkeep": "valid bytes",
    "m_axis_tlast": "last transfer of the frame",
    "m_axis_tuser": "the frame was seen lately (`action` = 1)",
    "m_axis_tvalid": "handshake of outgoing frames",
    "m_axis_tready": "handshake of outgoing frames",
    "s_axis_tid": "leaves with the frame",
    "s_axis_tdest": "leaves with the frame",
    "m_axis_tid": "TID of the incoming frame",
    "m_axis_tdest": "TDEST of the incoming frame",
    "s_axis_digest_secret_tdata": "secret of the digest",
    "s_axis_digest_secret_tvalid": "handshake of secrets",
    "s_axis_digest_secret_tready": "handshake of secrets",
    "hits": "frames that were seen lately",
    "enable": "frames are accepted",
    "clear": "high for one cycle: the filter forgets all frames",
    "order": "a clear is pending",
    "action": "frames seen lately are counted (0), marked (1) or dropped (2)",
    "fields": "additional fields to compare, from bit 0: TOS, TTL, VLAN, layer 2, whole frame",
}
"""Meanings by name for a deduplicator of frames."""


def field_meanings(spec: Specification) -> dict[str, str]:
    """Return the meanings of fields of requests, results and entries of a table."""
    if not spec.query_field:
        return _FIELDS | _FIELDS_OF_KIND.get(spec.kind, {})
    steps, most = "insertions", spec.window_blocks
    if spec.timed:
        steps = "ticks"
    elif spec.block_units > 1:
        steps = f"blocks of {spec.block_units:,} insertions"
    return {
        name: meaning.format(steps=steps, most=f"{most:,}", above=f"{most + 1:,}")
        for name, meaning in (_FIELDS | _FIELDS_OF_KIND[spec.kind]).items()
    }


def frame_meanings(side: Sideband) -> dict[str, str]:
    """Return the meanings for a deduplicator whose frames have sideband signals."""
    named = {"s_axis_tuser": side.bad, "m_axis_tuser": side.mark}
    if not side.user or side == ONLY_BAD:
        return FRAME_MEANINGS
    others = "; every other bit leaves with the frame"
    return FRAME_MEANINGS | {
        name: f"bit {bit}{',' if name[0] == 's' else ':'} {FRAME_MEANINGS[name]}{others}"
        for name, bit in named.items()
    }
