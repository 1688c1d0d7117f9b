"""What the ports and fields of an exported unit mean."""

from ...hdl.registers import REGISTERS

MEANINGS = (
    {
        "aclk": "clock",
        "clk": "clock",
        "aresetn": "reset, active low, synchronous to the clock",
        "rst": "reset, synchronous to the clock",
        "key": "key",
        "operation": "operation",
        "alone": "operation that is performed before those of the lanes: SHIFT or CLEAR",
        "valid": "the lane has a request, or a result",
        "tag": "word of the user's, which comes back with the result",
        "last": "TLAST, which comes back with the result",
        "window": "window that the query asks for",
        "query_class": "class of the query, by which the table answers",
        "seen": "whether the key was reported",
        "age": "youngest age that the key can have; 0 if it was not reported",
        "oldest": "cells of the key that are as old as its oldest",
        "status": "0 unless the window is shortened (1) or the false-positive rate exceeded (2)",
        "time": "time, in ticks",
        "tick": "a tick, when it is high for a cycle",
        "covered": "ticks, the present one included, of which every key is still reported",
        "phase": "first digits of the number of insertions into the block",
        "least": "threshold: cells of the oldest age with which a key is reported",
        "swap": "the table that was loaded answers from the next request on",
        "in_valid": "a request comes",
        "in_ready": "it is taken",
        "out_valid": "a result leaves",
        "out_ready": "it is taken",
        "out_refused": "the request was not performed",
        "overrun": "a request was refused since reset",
        "fault": "the unit has found its own state wrong, and resets itself",
        "alarms": "how often it has done so since it was reset from outside",
        "wb_cyc_i": "an access is under way",
        "wb_stb_i": "a request",
        "wb_we_i": "it is a write",
        "wb_adr_i": "address of a word, without the lowest two bits of the byte's",
        "wb_sel_i": "bytes that are written",
        "wb_dat_i": "word to be written",
        "wb_dat_o": "word read",
        "wb_ack_o": "the access is done",
        "wb_err_o": "the access failed",
        "wb_stall_o": "low when a request is answered: a pipelined master holds it until then",
    }
    | {
        f"{side}_axis_{part}": meaning
        for side, stream in (("s", "of requests"), ("m", "of results"))
        for part, meaning in (
            ("tdata", f"fields {stream}, see below"),
            ("tuser", f"fields {stream}, see below"),
            ("tlast", "comes back with the result"),
            ("tvalid", f"handshake {stream}"),
            ("tready", f"handshake {stream}"),
        )
    }
    | {
        f"s_axil_{channel}{flag}": f"handshake of {what}"
        for channel, what in (
            ("aw", "addresses to be written"),
            ("w", "words to be written"),
            ("b", "responses to writes"),
            ("ar", "addresses to be read"),
            ("r", "words that are read"),
        )
        for flag in ("valid", "ready")
    }
    | {
        "s_axil_awaddr": "address of a byte of the word to be written",
        "s_axil_awprot": "not used",
        "s_axil_wdata": "word to be written",
        "s_axil_wstrb": "bytes of it that are written",
        "s_axil_bresp": "OKAY or SLVERR",
        "s_axil_araddr": "address of a byte of the word to be read",
        "s_axil_arprot": "not used",
        "s_axil_rdata": "word that was read",
        "s_axil_rresp": "OKAY or SLVERR",
    }
    | {register.name: register.meaning for register in REGISTERS}
)
"""Meanings by name."""

FRAME_MEANINGS = MEANINGS | {
    "s_axis_tdata": "bytes of a frame, the first in the lowest bits",
    "s_axis_tkeep": "bytes that count: from the lowest on, all but in the last transfer",
    "s_axis_tlast": "the frame ends",
    "s_axis_tuser": "with TLAST: the frame is damaged, and is discarded",
    "s_axis_tvalid": "handshake of frames that come",
    "s_axis_tready": "handshake of frames that come",
    "m_axis_tdata": "bytes of a frame",
    "m_axis_tkeep": "bytes that count",
    "m_axis_tlast": "the frame ends",
    "m_axis_tuser": "the frame was seen lately, if such frames are marked",
    "m_axis_tvalid": "handshake of frames that leave",
    "m_axis_tready": "handshake of frames that leave",
    "s_axis_digest_secret_tdata": "secret of the digest",
    "s_axis_digest_secret_tvalid": "handshake of secrets",
    "s_axis_digest_secret_tready": "handshake of secrets",
    "hits": "frames that were seen lately",
    "enable": "frames are taken",
    "clear": "all frames are forgotten, when it is high for a cycle",
    "order": "a clear is yet to be performed",
    "action": "frames that were seen lately are counted (0), marked (1) or dropped (2)",
    "fields": "bits of what counts besides, from the lowest: TOS, TTL, VLAN, layer 2, whole frame",
}
"""Meanings by name for a deduplicator of frames."""
