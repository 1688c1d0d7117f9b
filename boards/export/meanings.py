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
        "seen": "whether the key was reported",
        "age": "youngest age that the key can have; 0 if it was not reported",
        "oldest": "cells of the key that are as old as its oldest",
        "status": "0 unless the window is shortened (1) or the false-positive rate exceeded (2)",
        "time": "time, in ticks",
        "tick": "a tick, when it is high for a cycle",
        "covered": "ticks, the present one included, of which every key is still reported",
        "in_valid": "a request comes",
        "in_ready": "it is taken",
        "out_valid": "a result leaves",
        "out_ready": "it is taken",
        "out_refused": "the request was not performed",
        "overrun": "a request was refused since reset",
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
    | {register.name: register.meaning for register in REGISTERS}
)
"""Meanings by name."""
