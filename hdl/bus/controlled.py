"""Units whose registers are accessible over a bus."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..interface import Operation, UnitSignature, fields
from ..latencies import GENERATION_LEAD
from ..pipeline import registered
from .buses import AvalonMm, Axi4Lite, Wishbone
from .register_bank import RegisterBank
from .register_map import OVERRUN, register_map

# bus components by name
BUSES = {"axi4-lite": Axi4Lite, "wishbone": Wishbone, "avalon-mm": AvalonMm}

COUNTER_BITS = 64  # counter width in units behind a bus
MARK_BITS = 1  # number of high tag bits that mark operations started through registers
KEPT = ("tick",)  # ports of a unit, other than its streams, that do not become registers


class Controlled(wiring.Component):
    """Base class of components whose registers are accessible over a bus."""

    # register fields, by the name of the unit's port
    FIELDS = {"enable": "control_enable", "clear": "control_clear", "order": "status_order",
              "fault": "faults_fault", "tick_lost": "faults_tick_lost",
              "action": "frames_action", "fields": "frames_fields"}  # fmt: skip

    # ports of the unit that are not connected to the registers of the same name
    ELSEWHERE = ("swap",)

    def __init__(
        self,
        unit,  # its ports become registers, except the streams `i` and `o` and the ports in `KEPT`
        # takes the members of the bus and of `KEPT`; returns the signature of the component
        signature,
        *,
        bus,  # one of `BUSES`
        **map,  # further parameters of `lately.hdl.bus.register_map.register_map`
    ):
        self.unit = unit
        self._front = BUSES[bus]()
        self.registers = register_map(unit, **map)  # `RegisterMap` with the words on the bus
        self._bank = RegisterBank(registers=self.registers)
        self._ports = {
            name: member
            for name, member in self._front.signature.members.items()
            if name != "access"
        }
        self._kept = [name for name in KEPT if name in unit.signature.members]
        others = self._ports | {name: unit.signature.members[name] for name in self._kept}
        irq = {"irq": Out(1)} if "irq" in self._bank.signature.members else {}
        # The bus has ports such as `s_axil_awaddr`, `wb_cyc_i` or `avs_address`.
        super().__init__(signature(others | irq))

    @property
    def bus_ports(self):
        return list(self._ports)

    @property
    def interface(self):
        """Prefix of the bus ports and Vivado's name for the bus, or None if Vivado has no name."""
        name = getattr(self._front, "INTERFACE", None)
        return None if name is None else (self._front.PREFIX, name)

    @property
    def floorplan_groups(self):
        groups = getattr(self.unit, "floorplan_groups", ())
        return [[f"unit.{name}" for name in group] for group in groups]

    def _elaborate_bus(self, m):
        m.submodules.unit = unit = self.unit
        m.submodules.bank = bank = self._bank
        m.submodules.front = front = self._front
        wiring.connect(m, front.access, bank.access)
        for name, member in self._ports.items():
            inner, outer = getattr(front, name), getattr(self, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        m.d.comb += [getattr(unit, name).eq(getattr(self, name)) for name in self._kept]
        if "irq" in self.signature.members:
            m.d.comb += self.irq.eq(bank.irq)
        self._elaborate_registers(m)

    def _elaborate_lead(self, m, given, waits):
        """Delay a command until earlier settings have taken effect; return whether it is due."""
        lead = Signal(range(GENERATION_LEAD))
        with m.If(given):
            m.d.sync += [waits.eq(1), lead.eq(GENERATION_LEAD - 1)]
        with m.If(waits & (lead != 0)):
            m.d.sync += lead.eq(lead - 1)
        return waits & (lead == 0)

    def _elaborate_registers(self, m):
        unit, bank = self.unit, self._bank
        for name, member in unit.signature.members.items():
            if name in ("i", "o", *self._kept, *self.ELSEWHERE):
                continue
            register = getattr(bank, self.FIELDS.get(name, name))
            if not member.is_port:
                taken = getattr(unit, name)
                m.d.comb += [
                    taken.p.eq(register.p),
                    taken.valid.eq(register.valid),
                    register.ready.eq(taken.ready),
                ]
            elif member.flow is In:
                m.d.comb += getattr(unit, name).eq(register)
            else:
                m.d.comb += register.eq(getattr(unit, name))
        members = bank.signature.members
        if "control_swap" in members:
            m.d.comb += unit.swap.eq(bank.control_swap)
        for name in ("secret", "table"):
            if name in members:
                m.d.comb += getattr(bank, f"status_{name}").eq(getattr(bank, name).valid)
        # Counters return to 0 when the unit resets itself.
        afresh = registered(m, unit.fault, "afresh") if "faults_fault" in members else Const(0)
        for name in ("shortened", "overfilled", "lost", "upsets"):
            if f"faults_{name}" in members:
                before = Signal(name=f"{name}_before")
                count = getattr(unit, name)
                m.d.sync += before.eq(count[0])
                m.d.comb += getattr(bank, f"faults_{name}").eq((count[0] != before) & ~afresh)


class ControlledUnit(Controlled):
    """Unit whose settings, counters and secret are registers on a bus.

    A SHIFT or CLEAR that software requests through a register waits until all settings written
    earlier have taken effect. If requests have times, the SHIFT or CLEAR uses the time of the last
    accepted request.
    """

    def __init__(
        self,
        unit,  # with a `UnitSignature`. Its tag must be `MARK_BITS` wider than the tag of requests.
        *,
        spec,
        bus,  # one of `BUSES`
        version,
        status_bits,  # tag width that the registers report, without TLAST
        # whether requests wait for `i.ready`. Otherwise a request while `i.ready` is low is an
        # error.
        waits=True,
    ):
        super().__init__(
            unit,
            lambda others: _outer(unit.signature, others),
            bus=bus,
            spec=spec,
            version=version,
            tag_bits=status_bits,
            others=() if waits else (OVERRUN,),
        )

    @property
    def latency(self):
        return self.unit.latency

    def elaborate(self, platform):
        m = Module()
        unit = self.unit
        self._elaborate_bus(m)
        if "faults_overrun" in self._bank.signature.members:
            m.d.comb += self._bank.faults_overrun.eq(self.i.valid & ~self.i.ready)
        closed, order, code = self._elaborate_orders(m)
        self._elaborate_requests(m, closed, order, code)
        mark = unit.signature.of_lane(unit.o.p, 0).tag[-MARK_BITS:].any()
        m.d.comb += [
            self.o.valid.eq(unit.o.valid & ~mark),
            unit.o.ready.eq(self.o.ready | mark),
            *_copied(unit.o.p, self.o.p),
        ]
        return m

    def _elaborate_orders(self, m):
        """Return whether requests are blocked, whether a command is due, and its operation."""
        unit, bank = self.unit, self._bank
        clears, closed, order = Signal(), Signal(), Signal()
        waits, given = bank.status_order, Signal(name="given")
        shifts = getattr(bank, "control_shift", 0)
        m.d.comb += given.eq(bank.control_clear | shifts)
        with m.If(given):
            # SHIFT and CLEAR together are a CLEAR.
            m.d.sync += clears.eq(bank.control_clear)
        taken = order & unit.i.ready
        m.d.sync += [
            order.eq(self._elaborate_lead(m, given, waits) & ~taken),
            closed.eq(~bank.control_enable | given | (waits & ~taken)),
        ]
        with m.If(taken):
            m.d.sync += waits.eq(0)
        return closed, order, Mux(clears, Operation.CLEAR, Operation.SHIFT)

    def _elaborate_requests(self, m, closed, order, code):
        unit = self.unit
        m.d.comb += [
            self.i.ready.eq(unit.i.ready & ~closed),
            unit.i.valid.eq((self.i.valid & ~closed) | order),
            *_copied(self.i.p, unit.i.p),
        ]
        first = unit.signature.of_lane(unit.i.p, 0)
        operation = unit.i.p.alone if unit.signature.lanes > 1 else first.operation
        with m.If(order):
            m.d.comb += [operation.eq(code), first.tag[-MARK_BITS:].eq(-1)]
            if unit.signature.lanes > 1:
                m.d.comb += [lane.valid.eq(0) for lane in unit.i.p.lanes]
        if "time" in self.signature.request.members:
            last = Signal.like(self.i.p.time, name="last_time")
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += last.eq(self.i.p.time)
            with m.If(order):
                m.d.comb += unit.i.p.time.eq(last)


def _outer(signature, others):
    """Return a signature with the unit's streams and the ports `others`.

    The tags have no mark bits.
    """
    request, result = (
        {name: field.shape for name, field in signature.of_lane(payload, 0) if name != "valid"}
        for payload in (signature.request, signature.result)
    )
    tag = {"tag": request["tag"] - MARK_BITS}
    return UnitSignature(request | tag, result | tag, lanes=signature.lanes, ports=others)


def _copied(source, target):
    targets = {path: (at, width) for path, at, width in fields(target.shape())}
    bits, goal = source.as_value(), target.as_value()
    assignments = []
    for path, low, width in fields(source.shape()):
        at, wide = targets[path]
        assignments.append(goal[at : at + wide].eq(bits[low : low + width]))
    return assignments
