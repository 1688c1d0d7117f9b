"""Units with flat ports, which any hardware description language can connect."""

from typing import NamedTuple

from amaranth.hdl import ClockDomain, Module, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.errors import SpecificationError
from ..interface import fields, operation_bits
from ..pipeline import delayed

BYTE = 8


class Field(NamedTuple):
    port: str
    name: str  # field of `lately.hdl.interface.UnitSignature`
    lane: int
    offset: int  # lowest bit in the port
    width: int
    source: int  # lowest bit in the payload


class FlatUnit(wiring.Component):
    """Base class of units with flat ports."""

    CLOCK = "clk"
    RESET = "rst"
    ACTIVE_LOW = False  # whether the reset is active low

    def __init__(self, unit, members):
        self.unit = unit
        others = {
            name: member
            for name, member in unit.signature.members.items()
            if name not in ("i", "o") and member.is_port
        }
        streams = set(unit.signature.members) - set(others) - {"i", "o"}
        self.side_streams = {}  # ports of each additional stream: data, valid and ready
        for name in sorted(streams):
            ports = self._stream_members(name, getattr(unit, name).payload.shape())
            self.side_streams[name] = list(ports)
            members |= ports
        self._others, self._streams = list(others), sorted(streams)
        super().__init__({self.CLOCK: In(1), self.RESET: In(1)} | members | others)

    def elaborate(self, platform):
        m = Module()
        for port, attributes in self.attributes().items():
            getattr(self, port).attrs.update(attributes)
        domain = ClockDomain("sync")
        m.domains += domain
        reset = getattr(self, self.RESET)
        m.d.comb += [
            domain.clk.eq(getattr(self, self.CLOCK)),
            domain.rst.eq(~reset if self.ACTIVE_LOW else reset),
        ]
        m.submodules.unit = self.unit
        for name in self._others:
            inner, outer = getattr(self.unit, name), getattr(self, name)
            inward = self.unit.signature.members[name].flow is In
            m.d.comb += inner.eq(outer) if inward else outer.eq(inner)
        for name in self._streams:
            self._connect_stream(m, name, getattr(self.unit, name))
        self._elaborate_streams(m)
        return m

    def attributes(self):
        """Return attributes that tell vendor tools which interface each port belongs to."""
        return {}

    def _connected(self, port_fields, payload, *, inward):
        bits = payload.as_value()
        pairs = [
            (
                bits[field.source :][: field.width],
                getattr(self, field.port)[field.offset :][: field.width],
            )
            for field in port_fields
        ]
        return [inner.eq(outer) if inward else outer.eq(inner) for inner, outer in pairs]


def payload_fields(payload, port_of, *, padded=()):
    """Assign each payload field to bits of a port; return the fields and the port widths."""
    port_fields, widths, last = [], {}, {}
    for path, source, width in fields(payload):
        *above, name = path.split(".")
        lane = int(above[-1]) if above else 0
        port = port_of(name, lane)
        if port in padded and last.get(port, lane) != lane:
            widths[port] = -(-widths[port] // BYTE) * BYTE
        last[port] = lane
        offset = widths.get(port, 0)
        port_fields.append(Field(port, name, lane, offset, width, source))
        widths[port] = offset + width
    for port in padded:
        widths[port] = -(-widths.get(port, 0) // BYTE) * BYTE
    return port_fields, widths


class AxisUnit(FlatUnit):
    """Unit with an AXI4-Stream input and an AXI4-Stream output.

    Requests enter on ``s_axis``: TDATA holds the keys, each padded to whole bytes, and TUSER the
    other fields. Results leave on ``m_axis``: TUSER holds the tags, and TDATA the other fields,
    each lane padded to whole bytes. With `last`, the highest tag bit is TLAST. Each TREADY is
    independent of TVALID and of the other TREADY in the same cycle.
    """

    CLOCK, RESET, ACTIVE_LOW = "aclk", "aresetn", True

    def __init__(self, unit, *, last=False):
        lanes = unit.signature.lanes
        if last and lanes > 1:
            raise SpecificationError(f"last: TLAST needs one lane; this unit has {lanes}")
        self.requests, taken = _ports("s_axis", unit.signature.request, ("key",), last)
        self.results, given = _ports("m_axis", unit.signature.result, ("tag",), last)
        members = {name: In(width) for name, width in taken.items()}
        members |= {name: Out(width) for name, width in given.items()}
        members |= {"s_axis_tvalid": In(1), "s_axis_tready": Out(1)}
        members |= {"m_axis_tvalid": Out(1), "m_axis_tready": In(1)}
        super().__init__(unit, members)

    def _stream_members(self, name, shape):
        prefix, bits = f"s_axis_{name}", -(-Shape.cast(shape).width // BYTE) * BYTE
        return {f"{prefix}_tdata": In(bits), f"{prefix}_tvalid": In(1), f"{prefix}_tready": Out(1)}

    def _connect_stream(self, m, name, inner):
        prefix = f"s_axis_{name}"
        m.d.comb += [
            inner.payload.eq(getattr(self, f"{prefix}_tdata")),
            inner.valid.eq(getattr(self, f"{prefix}_tvalid")),
            getattr(self, f"{prefix}_tready").eq(inner.ready),
        ]

    def attributes(self):
        members = self.signature.members
        prefixes = ["s_axis", "m_axis", *(f"s_axis_{name}" for name in self._streams)]
        named = {
            f"{prefix}_{part}": {
                "X_INTERFACE_INFO": f"xilinx.com:interface:axis:1.0 {prefix} {part.upper()}"
            }
            for prefix in prefixes
            for part in ("tdata", "tkeep", "tuser", "tlast", "tvalid", "tready", "tid", "tdest")
            if f"{prefix}_{part}" in members
        }
        # A unit behind a bus provides the name of the bus interface.
        if bus := getattr(self.unit, "interface", None):
            prefix, interface = bus
            named |= {
                name: {"X_INTERFACE_INFO": f"{interface} {prefix} {part.upper()}"}
                for name in members
                if (part := name.removeprefix(f"{prefix}_")) != name
            }
            prefixes.append(prefix)
        clock, reset = (f"xilinx.com:signal:{kind}:1.0" for kind in ("clock", "reset"))
        buses = ":".join(prefixes)
        named[self.CLOCK] = {
            "X_INTERFACE_INFO": f"{clock} {self.CLOCK} CLK",
            "X_INTERFACE_PARAMETER": f"ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET {self.RESET}",
        }
        if "irq" in members:
            named["irq"] = {
                "X_INTERFACE_INFO": "xilinx.com:signal:interrupt:1.0 irq INTERRUPT",
                "X_INTERFACE_PARAMETER": "SENSITIVITY LEVEL_HIGH",
            }
        named[self.RESET] = {
            "X_INTERFACE_INFO": f"{reset} {self.RESET} RST",
            "X_INTERFACE_PARAMETER": "POLARITY ACTIVE_LOW",
        }
        return named

    def _elaborate_streams(self, m):
        unit = self.unit
        m.d.comb += [
            unit.i.valid.eq(self.s_axis_tvalid),
            self.s_axis_tready.eq(unit.i.ready),
            self.m_axis_tvalid.eq(unit.o.valid),
            unit.o.ready.eq(self.m_axis_tready),
            *self._connected(self.requests, unit.i.p, inward=True),
            *self._connected(self.results, unit.o.p, inward=False),
        ]


def _ports(prefix, payload, apart, last):
    """Assign payload fields to TDATA and TUSER; fields in `apart` share no port with others."""
    data, user = f"{prefix}_tdata", f"{prefix}_tuser"
    is_key = apart == ("key",)

    def port_of(name, lane):
        return data if (name in apart) == is_key else user

    port_fields, widths = payload_fields(payload, port_of, padded=(data,))
    if last:
        # The bits above the highest bit of the tag move up.
        tag = next(field for field in port_fields if field.name == "tag")
        top = tag.width - 1
        port_fields = [
            field._replace(offset=field.offset - (field.port == user and field.offset > tag.offset))
            for field in port_fields
        ]
        port_fields[port_fields.index(tag)] = tag._replace(width=top)
        port_fields.append(Field(f"{prefix}_tlast", "last", 0, 0, 1, tag.source + top))
        widths[user] -= 1
        widths[f"{prefix}_tlast"] = 1
    return [field for field in port_fields if field.width], widths


class RawUnit(FlatUnit):
    """Unit with a port for each field, and with valid and ready signals for both streams.

    With several lanes, each lane has its own ports, such as ``in0_key``; all lanes share
    ``in_alone``.
    """

    READY = True  # whether the streams have a ready signal
    MORE = {}  # members in addition to the unit's members

    def __init__(self, unit):
        signature = unit.signature
        self.requests, taken = self._fields(signature.request, "in", signature.lanes)
        self.results, given = self._fields(signature.result, "out", signature.lanes)
        members = {name: In(width) for name, width in taken.items() if width}
        members |= {name: Out(width) for name, width in given.items() if width}
        members |= {"in_valid": In(1), "out_valid": Out(1)}
        if self.READY:
            members |= {"in_ready": Out(1), "out_ready": In(1)}
        super().__init__(unit, members | self.MORE)

    @staticmethod
    def _fields(payload, prefix, lanes):

        def port_of(name, lane):
            number = lane if lanes > 1 and name != "alone" else ""
            return f"{prefix}{number}_{name}"

        return payload_fields(payload, port_of)

    def _stream_members(self, name, shape):
        bits = Shape.cast(shape).width
        return {f"{name}_data": In(bits), f"{name}_valid": In(1), f"{name}_ready": Out(1)}

    def _connect_stream(self, m, name, inner):
        m.d.comb += [
            inner.payload.eq(getattr(self, f"{name}_data")),
            inner.valid.eq(getattr(self, f"{name}_valid")),
            getattr(self, f"{name}_ready").eq(inner.ready),
        ]

    def _elaborate_streams(self, m):
        unit = self.unit
        m.d.comb += [
            unit.i.valid.eq(self.in_valid),
            self.in_ready.eq(unit.i.ready),
            self.out_valid.eq(unit.o.valid),
            unit.o.ready.eq(self.out_ready),
            *self._connected(self.requests, unit.i.p, inward=True),
            *self._connected(self.results, unit.o.p, inward=False),
        ]


class AvalonUnit(RawUnit):
    """Unit with an Avalon-ST input and output, ready latency 0 and symbols of one byte.

    One port holds all fields of a stream, each lane padded to whole bytes. The first symbol is in
    the lowest bits.
    """

    @staticmethod
    def _fields(payload, prefix, lanes):
        port = f"{prefix}_data"
        return payload_fields(payload, lambda name, lane: port, padded=(port,))

    def _stream_members(self, name, shape):
        bits = -(-Shape.cast(shape).width // BYTE) * BYTE
        return super()._stream_members(name, bits)


class ExternUnit(RawUnit):
    """Unit with a fixed latency and no ready signals, for match-action pipelines.

    A request is refused if it arrives while the unit's `i.ready` is low, or if the unit resets
    itself before the result leaves. The result then has `out_refused` set, and all other fields are
    0. All fields are also 0 in the result of a SHIFT or CLEAR.
    """

    READY = False
    MORE = {"out_refused": Out(1), "overrun": Out(1)}

    def __init__(self, unit):
        signature = unit.signature
        if signature.lanes > 1:
            raise SpecificationError(
                f"lanes: must be 1 for ports without ready, not {signature.lanes}"
            )
        if "time" in signature.request.members:
            raise SpecificationError(
                "ticks: must be 'tick' or 'period' for ports without ready, not 'time', because "
                "the latency of a request with a later time varies"
            )
        super().__init__(unit)

    @property
    def latency(self):
        return self.unit.latency

    def _elaborate_streams(self, m):
        unit = self.unit
        taken = self.in_valid & unit.i.ready
        # No request enters until a SHIFT or CLEAR has taken effect and returned its result.
        flows = taken & ~operation_bits(unit.i.p.operation).alone
        came = {"asked": self.in_valid, "flows": flows, "refused": self.in_valid & ~unit.i.ready}
        asked, answered, refused = (
            delayed(m, flag, self.latency, name) for name, flag in came.items()
        )
        lost = answered & ~unit.o.valid
        m.d.comb += [
            unit.i.valid.eq(self.in_valid),
            unit.o.ready.eq(1),
            self.out_valid.eq(asked),
            self.out_refused.eq(refused | lost),
            *self._connected(self.requests, unit.i.p, inward=True),
        ]
        with m.If(answered & unit.o.valid):
            m.d.comb += self._connected(self.results, unit.o.p, inward=False)
        with m.If((self.in_valid & ~unit.i.ready) | lost):
            m.d.sync += self.overrun.eq(1)
