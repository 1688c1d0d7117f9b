"""Text of the page about an exported unit: its guarantees, ports and fields."""

from fractions import Fraction
from typing import Any

from ...golden.durations import time_text
from ...golden.models import model_of
from ...golden.spec.base import Specification
from ...hdl.interface import fields
from ...hdl.latencies import GENERATION_LEAD, PERIOD_BITS, TICKS_WAITING
from ...hdl.packets.frames import ONLY_BAD, Sideband
from ...hdl.registers import REGISTERS
from .design import NO_BUS, Design


def page_values(design: Design) -> dict[str, Any]:
    values: dict[str, Any] = {
        "contract": {name: " ".join(texts) for name, texts in _contract(design).items() if texts},
        "meanings": _frame_meanings(design.frame_options.side) if design.frames else MEANINGS,
    }
    if design.frames:
        return values
    unit = design.component.unit
    condition = "its request"
    if design.waits:
        condition = "the acceptance of its request, or later under back-pressure"
    table = getattr(unit.unit if design.registers else unit, "table", None)
    return values | {
        "operations": [
            f"{operation.name} = {operation.value}"
            for operation in sorted(model_of(design.spec).supported)
        ],
        "latency": f"The result leaves {unit.latency} cycles after {condition}.",
        "entry": [] if table is None else list(fields(table.p.shape())),
        "field_meanings": field_meanings(design.spec),
    }


def _contract(design: Design) -> dict[str, list[str]]:
    component, profile = design.component, design.profile
    level = "low" if component.ACTIVE_LOW else "high"
    request, key, unit = "request", "key", "unit"
    if design.frames:
        request, key, unit = "frame", "frame", "filter"
    return {
        "Reset": [
            f"Hold `{component.RESET}` {level} for at least one rising edge of "
            f"`{component.CLOCK}`.",
            f"The filter accepts its first {request} at most {profile.reset_pause} cycles after "
            "the reset ends.",
            f"Reset empties the filter; {request}s in flight are lost.",
        ],
        "Clear": [
            f"The {unit} accepts the next {request} at most {profile.longest_pause} cycles after "
            "a CLEAR.",
            *([f"A CLEAR by register starts {GENERATION_LEAD} cycles after the write."]
              if design.bus != NO_BUS else []),
        ],
        "Throughput": _throughput(design),
        "Ticks": _ticks(design),
        "Order": _order(design),
        "Window": [
            *profile.promise(key, flags=not design.frames),
            f"Occasionally a new {key} is reported as seen: a false positive.",
        ],
    }  # fmt: skip


def _throughput(design: Design) -> list[str]:
    profile = design.profile
    if design.frames:
        return ["One transfer per cycle for frames of at least 60 bytes, until the buffer is full."]
    requests = f"{profile.lanes} requests" if profile.lanes > 1 else "One request"
    sentences = [f"{requests} per cycle.", *profile.pauses]
    if "time" in design.component.unit.signature.request.members:
        sentences.append("A request with a later time than its predecessor waits until then.")
    closed = (
        "The input also stalls if the receiver does not accept the results."
        if design.waits
        else "A request that arrives while the input is closed is refused."
    )
    return [*sentences, closed]


def _ticks(design: Design) -> list[str]:
    """Return sentences about ticks, or an empty list if the unit has no input for ticks."""
    members, min_period = design.unit.signature.members, design.profile.min_period
    if design.bus != NO_BUS:
        # On the bus, `period` is a register.
        members = {**design.unit.unit.signature.members, **members}
    mhz, sentences = design.clock_mhz, []
    if "tick" in members:
        sign = "`tick_lost`" if design.bus == NO_BUS else "the bit `tick_lost` of `faults`"
        sentences = [
            f"Two ticks must be at least {min_period:,} cycles apart. Up to {TICKS_WAITING} ticks "
            f"that arrive sooner are delayed to that distance; another tick is lost, and {sign} "
            "reports it."
        ]
    elif "period" in members:
        sentences = [
            f"A tick lasts `period` cycles; a value below {min_period:,} counts as {min_period:,}."
        ]
        if design.bus != NO_BUS:
            reset = members["period"].init or (1 << PERIOD_BITS) - 1
            time = f", {time_text(reset / (Fraction(mhz) * 10**6))} at {mhz:g} MHz" if mhz else ""
            sentences.append(f"After reset it lasts {reset:,} cycles{time}.")
    if sentences and design.tick is not None:
        length = f": {design.planned_period:,} cycles at {mhz:g} MHz" if mhz else ""
        sentences.append(f"The filter is planned for ticks of {time_text(design.tick)}{length}.")
    return sentences


def _order(design: Design) -> list[str]:
    if design.frames:
        return ["Frames leave in the order of arrival."]
    lanes = ", lane 0 before lane 1" if design.profile.lanes > 1 else ""
    return [
        f"Requests take effect one after another, in the order of acceptance{lanes}.",
        "A check-and-insert queries the key before it inserts the key.",
        "Results leave in the order of their requests.",
    ]


# Meanings of ports, by name.
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
        f"s_axil_{channel}{flag}": f"handshake of {contents}"
        for channel, contents in (
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
# Meanings of fields in requests, results and table entries, by name.
_FIELDS = {
    "key": "key",
    "operation": "operation",
    "alone": "operation that takes effect before all lanes: SHIFT or CLEAR",
    "valid": "the lane holds a request or a result",
    "tag": "any value; returns with the result",
    "last": "TLAST; returns with the result",
    "window": "window of the query, in {steps}; a value above {longest} counts as {longest}",
    "query_class": "class of the query in the table of thresholds",
    "seen": "1 if the key was reported",
    "oldest": "number of the key's cells that have this age",
    "time": "time, in ticks",
    "covered": "number of ticks, including the current one, whose keys are all reported",
    "refused": "1 if the request was not performed",
    "phase": "highest bits of the number of insertions into the block",
    "least": "threshold: number of oldest cells from which a key is reported",
}
# Further meanings, by kind of filter.
_FIELDS_OF_KIND = {
    "ring": {
        "age": "youngest generation to which the key can belong; 0 if the key was not reported",
        "status": "1: the window is shortened, 2: the false-positive rate is exceeded, 0: neither",
    },
    "dictionary": {
        "age": "insertions since the key was inserted; 0 if the key was not reported",
        "status": "1 if keys in the requested window may be missed",
    },
    "timing": {"age": "age of the key's oldest cell, in {steps}; {above} if it has expired"},
}
# Meanings of ports of a frame deduplicator.
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
    "hits": "duplicate frames",
    "enable": "frames are accepted",
    "clear": "high for one cycle: the filter forgets all frames",
    "order": "a clear is pending",
    "action": "frames seen lately are counted (0), marked (1) or dropped (2)",
    "fields": "additional fields to compare, from bit 0: TOS, TTL, VLAN, layer 2, whole frame",
}


def field_meanings(spec: Specification) -> dict[str, str]:
    if not spec.query_field:
        return _FIELDS | _FIELDS_OF_KIND.get(spec.kind, {})
    steps, longest = "insertions", spec.window_blocks
    if spec.timed:
        steps = "ticks"
    elif spec.block_units > 1:
        steps = f"blocks of {spec.block_units:,} insertions"
    return {
        name: meaning.format(steps=steps, longest=f"{longest:,}", above=f"{longest + 1:,}")
        for name, meaning in (_FIELDS | _FIELDS_OF_KIND[spec.kind]).items()
    }


def _frame_meanings(side: Sideband) -> dict[str, str]:
    named = {"s_axis_tuser": side.bad, "m_axis_tuser": side.mark}
    if not side.user or side == ONLY_BAD:
        return FRAME_MEANINGS
    others = "; every other bit leaves with the frame"
    return FRAME_MEANINGS | {
        name: f"bit {bit}{',' if name[0] == 's' else ':'} {FRAME_MEANINGS[name]}{others}"
        for name, bit in named.items()
    }
