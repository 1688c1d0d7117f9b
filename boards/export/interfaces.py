"""Describe the interfaces of an exported unit for Vivado, Platform Designer and LiteX."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...hdl.bus.flat import BYTE, FlatUnit
from ...hdl.bus.register_map import ADDRESS_BITS
from .design import NO_BUS, Design, Port

# Library, kind, name and signal of an interface in a port attribute.
_INFO = re.compile(r"xilinx\.com:(\w+):(\w+):1\.0 (\w+) (\w+)")


@dataclass
class Interface:
    name: str
    kind: str  # type in Vivado or Platform Designer
    inward: bool = True  # whether the unit is the slave, or the sink of the stream
    ports: dict[Port, str] = field(default_factory=dict)  # ports and their roles
    library: str = "interface"  # Vivado only
    parameters: dict[str, str] = field(default_factory=dict)  # Vivado only
    properties: dict[str, str | int] = field(default_factory=dict)  # Platform Designer only


def vivado_interfaces(design: Design) -> list[Interface]:
    ports = {port.name: port for port in design.ports}
    interfaces: dict[str, Interface] = {}
    for port, attributes in design.component.attributes().items():
        info = _INFO.fullmatch(attributes["X_INTERFACE_INFO"])
        assert info is not None
        library, kind, name, part = info.groups()
        interface = interfaces.setdefault(name, Interface(name, kind, library=library))
        interface.ports[ports[port]] = part
        if part == "TVALID":
            interface.inward = ports[port].inward
        for parameter in filter(None, attributes.get("X_INTERFACE_PARAMETER", "").split(", ")):
            parameter, value = parameter.split(" ")
            interface.parameters[parameter] = value
    return list(interfaces.values())


def platform_interfaces(design: Design) -> list[Interface]:
    """Return the interfaces for Platform Designer; other ports become conduits."""
    component = design.component
    ports = {port.name: port for port in design.ports}
    reset = "reset_n" if component.ACTIVE_LOW else "reset"
    interfaces = [
        Interface("clock", "clock", ports={ports.pop(component.CLOCK): "clk"}),
        Interface("reset", "reset", ports={ports.pop(component.RESET): reset}),
    ]
    for interface in vivado_interfaces(design):
        if interface.library == "interface":
            interface.kind = {"axis": "axi4stream", "aximm": "axi4lite"}[interface.kind]
            interface.ports = {
                ports.pop(port.name): part.lower() for port, part in interface.ports.items()
            }
            interfaces.append(interface)
    bus = getattr(design.unit, "bus_ports", ())
    if design.bus == "avalon-mm":
        agent = {ports.pop(name): name.removeprefix("avs_") for name in bus}
        properties: dict[str, str | int] = {
            "addressUnits": "WORDS",
            "maximumPendingReadTransactions": 1,
            "maximumPendingWriteTransactions": 1,
        }
        interfaces.append(Interface("avs", "avalon", ports=agent, properties=properties))
    if design.wrap == "avalon-st":
        interfaces += _avalon_streams(design, ports)
    agents = [
        interface.name for interface in interfaces if interface.kind in ("axi4lite", "avalon")
    ]
    if agents and "irq" in ports:
        sender = {ports.pop("irq"): "irq"}
        properties = {"associatedAddressablePoint": agents[0]}
        interfaces.append(Interface("irq", "interrupt", ports=sender, properties=properties))
    interfaces += [Interface(name, "conduit", ports={port: name}) for name, port in ports.items()]
    for interface in interfaces:
        if interface.kind != "clock":
            interface.properties = {"associatedClock": "clock", **interface.properties}
        if interface.kind not in ("clock", "reset"):
            interface.properties["associatedReset"] = "reset"
    interfaces[0].properties["clockRate"] = 0
    interfaces[1].properties["synchronousEdges"] = "BOTH"
    return interfaces


def _avalon_streams(design: Design, ports: dict[str, Port]) -> Iterator[Interface]:
    """Yield the Avalon-ST interfaces, and remove their ports from `ports`."""
    for name in ("in", "out", *design.component.side_streams):
        parts = {ports.pop(f"{name}_{part}"): part for part in ("data", "valid", "ready")}
        properties: dict[str, str | int] = {
            "dataBitsPerSymbol": BYTE,
            "symbolsPerBeat": next(iter(parts)).width // BYTE,
            "firstSymbolInHighOrderBits": "false",
            "readyLatency": 0,
        }
        yield Interface(
            name, "avalon_streaming", inward=name != "out", ports=parts, properties=properties
        )


class Label(NamedTuple):
    side: str  # "in" or "out"
    label: str  # name, with the lane number if there are several lanes
    port: str
    offset: int  # position of the lowest bit in the port
    width: int
    name: str = ""  # name without the lane number


def labels(component: FlatUnit) -> list[Label]:
    several = getattr(component.unit.signature, "lanes", 1) > 1
    labels = []
    for side, parts in (("in", component.requests), ("out", component.results)):
        for part in parts:
            label = f"{part.name}{part.lane}" if several and part.name != "alone" else part.name
            labels.append(Label(side, label, part.port, part.offset, part.width, part.name))
    return labels


# LiteX

# A bus port: its AXI4-Lite channel or nothing, and its signal.
_BUS_PORT = re.compile(r"(?:s_axil_(aw|ar|[wbr])|avs_|wb_)(\w+?)(?:_[io])?")

# Signals whose names in LiteX differ from those of the ports.
_SIGNALS = {"wb_dat_i": "dat_w", "wb_dat_o": "dat_r"}

# Ports without a LiteX counterpart: LiteX has only classic Wishbone, and no Avalon responses.
_ABSENT = ("wb_stall_o", "avs_response", "avs_writeresponsevalid")


def litex_values(design: Design) -> dict[str, Any]:
    component, ports = design.component, {port.name: port for port in design.ports}
    fields = _stream_fields(design)
    streams = {side: [field for field in fields if field.side == side] for side in ("in", "out")}
    sides = {"s_axis_t": "sink", "m_axis_t": "source", "in_": "sink", "out_": "source"}
    connected = _bus_signals(design) | {
        f"{prefix}{flag}": f"self.{endpoint}.{flag}"
        for prefix, endpoint in sides.items()
        for flag in ("valid", "ready")
        if f"{prefix}{flag}" in ports
    }
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


def _bus_signals(design: Design) -> dict[str, str]:
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
