"""Stream fields of an exported unit, and its interfaces for Vivado and Platform Designer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...hdl.bus.flat import BYTE, FlatUnit
from .design import Design, Port

_INFO = re.compile(r"xilinx\.com:(\w+):(\w+):1\.0 (\w+) (\w+)")
"""Library, kind, name and signal of an interface in a port attribute."""


@dataclass
class Interface:
    """Ports that form an interface."""

    name: str
    kind: str  # type in Vivado or Platform Designer
    inward: bool = True  # whether the unit is the slave, or the sink of the stream
    ports: dict[Port, str] = field(default_factory=dict)  # ports and their roles
    library: str = "interface"  # Vivado only
    parameters: dict[str, str] = field(default_factory=dict)  # Vivado only
    properties: dict[str, str | int] = field(default_factory=dict)  # Platform Designer only


def vivado_interfaces(design: Design) -> list[Interface]:
    """Return the interfaces given by the attributes of the Verilog ports."""
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
    """Return the interfaces for Platform Designer: clock, reset, streams, the bus, and conduits."""
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
        interfaces.append(Interface("avs", "avalon", ports=agent, properties=_AGENT))
    if design.wrap == "avalon-st":
        interfaces += _avalon_streams(design, ports)
    agents = [
        interface.name for interface in interfaces if interface.kind in ("axi4lite", "avalon")
    ]
    if agents and "irq" in ports:
        sender = {ports.pop("irq"): "irq"}
        properties: dict[str, str | int] = {"associatedAddressablePoint": agents[0]}
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


_AGENT: dict[str, str | int] = {
    "addressUnits": "WORDS",
    "maximumPendingReadTransactions": 1,
    "maximumPendingWriteTransactions": 1,
}
"""Platform Designer properties of the register bus."""


def _avalon_streams(design: Design, ports: dict[str, Port]) -> Iterator[Interface]:
    """Remove the stream ports from `ports`; yield the streams."""
    for name in ("in", "out", *design.component.side_streams):
        parts = {ports.pop(f"{name}_{part}"): part for part in ("data", "valid", "ready")}
        symbols = next(iter(parts)).width // BYTE
        properties: dict[str, str | int] = {
            "dataBitsPerSymbol": BYTE,
            "symbolsPerBeat": symbols,
            "firstSymbolInHighOrderBits": "false",
            "readyLatency": 0,
        }
        yield Interface(
            name, "avalon_streaming", inward=name != "out", ports=parts, properties=properties
        )


class Label(NamedTuple):
    """A field in a stream."""

    side: str  # "in" or "out"
    label: str  # name, with the lane number if there are several lanes
    port: str
    offset: int  # position of the lowest bit in the port
    width: int
    name: str = ""  # name without the lane number


def labels(component: FlatUnit) -> list[Label]:
    """Return the fields of requests, then those of results."""
    several = getattr(component.unit.signature, "lanes", 1) > 1
    return [
        Label(
            side,
            f"{field.name}{field.lane}" if several and field.name != "alone" else field.name,
            field.port,
            field.offset,
            field.width,
            field.name,
        )
        for side, fields in (("in", component.requests), ("out", component.results))
        for field in fields
    ]
