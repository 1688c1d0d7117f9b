"""Values for the LiteX module template: the LiteX signal that each port connects to."""

import re
from typing import Any

from ...hdl.bus.register_map import ADDRESS_BITS
from .design import NO_BUS, Design, Port
from .interfaces import Label, labels

_BUS_PORT = re.compile(r"(?:s_axil_(aw|ar|[wbr])|avs_|wb_)(\w+?)(?:_[io])?")
"""Matches a bus port: its AXI4-Lite channel, if any, and its signal."""

_SIGNALS = {"wb_dat_i": "dat_w", "wb_dat_o": "dat_r"}
"""Signals whose names in LiteX differ from those of the ports."""

_ABSENT = ("wb_stall_o", "avs_response", "avs_writeresponsevalid")
"""Ports without a LiteX counterpart: LiteX has only classic Wishbone, and no Avalon responses."""


def litex_values(design: Design) -> dict[str, Any]:
    """Return the values for the LiteX module template."""
    component, ports = design.component, {port.name: port for port in design.ports}
    fields = _stream_fields(design)
    streams = {side: [field for field in fields if field.side == side] for side in ("in", "out")}
    connected = _handshakes(ports) | _bus(design)
    for name, (data, valid, ready) in component.side_streams.items():
        connected |= {data: f"self.{name}.data", valid: f"self.{name}.valid",
                      ready: f"self.{name}.ready"}  # fmt: skip
    parts = list(dict.fromkeys(field.port for field in fields))
    return {
        "streams": streams,
        "side_streams": {
            name: ports[names[0]].width for name, names in component.side_streams.items()
        },
        "parts": [ports[name] for name in parts],
        "signals": [
            port
            for name, port in ports.items()
            if name not in (component.CLOCK, component.RESET, *parts, *connected)
        ],
        "connected": connected | {name: name for name in parts},
        "assignments": [_assignment(field) for field in fields],
        "irq": "irq" in ports,
        "size": 1 << ADDRESS_BITS,
        # A LiteX SoC does not accept Avalon-MM slaves.
        "on_bus": design.bus not in (NO_BUS, "avalon-mm"),
    }


def _stream_fields(design: Design) -> list[Label]:
    """Return the fields of both streams."""
    if not design.frames:
        refused = [
            Label("out", "refused", port.name, 0, 1)
            for port in design.ports
            if port.name == "out_refused"
        ]
        return [*labels(design.component), *refused]
    sides = {"s_axis_t": "in", "m_axis_t": "out"}
    return [
        Label(sides[port.name[:8]], port.name[8:], port.name, 0, port.width)
        for port in design.ports
        if port.name[:8] in sides and not port.name.endswith(("valid", "ready"))
    ]


def _handshakes(ports: dict[str, Port]) -> dict[str, str]:
    """Map stream handshake ports to the LiteX signals that they connect to."""
    sides = {"s_axis_t": "sink", "m_axis_t": "source", "in_": "sink", "out_": "source"}
    return {
        f"{prefix}{flag}": f"self.{endpoint}.{flag}"
        for prefix, endpoint in sides.items()
        for flag in ("valid", "ready")
        if f"{prefix}{flag}" in ports
    }


def _bus(design: Design) -> dict[str, str]:
    """Map bus ports to the LiteX bus signals that they connect to."""
    signals = {}
    for port in design.ports:
        if port.name not in getattr(design.unit, "bus_ports", ()):
            continue
        parts = _BUS_PORT.fullmatch(port.name)
        assert parts is not None
        channel, signal = parts[1], _SIGNALS.get(port.name, parts[2])
        bits = f"[:{port.width}]" if signal in ("adr", "address", "addr") else ""
        signals[port.name] = f"self.bus.{channel + '.' if channel else ''}{signal}{bits}"
        if port.name in _ABSENT:
            signals[port.name] = f"Signal({port.width})"
    return signals


def _assignment(label: Label) -> str:
    endpoint = "sink" if label.side == "in" else "source"
    bits = f"{label.port}[{label.offset}:{label.offset + label.width}]"
    field = f"self.{endpoint}.{label.label}"
    return f"{bits}.eq({field})" if label.side == "in" else f"{field}.eq({bits})"
