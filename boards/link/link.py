"""A unit behind a serial line: the content of a board, except clock, reset and pins."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.spec.base import Specification
from ...hdl.build import filter_unit, unit_profile
from ...hdl.bus.controlled import COUNTER_BITS, MARK_BITS, ControlledUnit
from ...hdl.bus.register_bank import WORD_ADDRESS_BITS
from ...hdl.frontend.prescaler import Prescaler
from ...hdl.interface import fields
from ...hdl.latencies import PERIOD_BITS
from ...hdl.packets.axis_frames import ControlledDeduplicator
from ...hdl.packets.line_deduplicator import LineDeduplicator
from ...hdl.statistics import EventCounter
from ...hdl.target_clocks import GMII_HZ
from .bridge import Bridge
from .frames import FrameReceiver, FrameSender, check_slots
from .information import Information
from .line_registers import LineRegisters, line_addresses
from .operation_port import OperationPort
from .protocol import WORD_BYTES, ProtocolError
from .self_test import SelfTest, plan
from .uart import BaudRate, Receiver, Transmitter

SLOTS = 4
"""Requests in flight."""

TIME_BITS = 30
"""Width of the tick counter."""

MOST_SPAN = (1 << TIME_BITS - 1) - 1
"""Longest span, in ticks."""

_BUS = "wb_"
"""Prefix of the bus port names."""


class Link(wiring.Component):
    """A unit behind a serial line, with the registers of an export on Wishbone.

    Base class of `FilterLink` and `FrameLink`.

    Parameters
    ----------
    unit : Component
        With a bus as for `lately.hdl.bus.wishbone.Wishbone`.
    information : Information
        Description of the board.
    baud : int
        Bits per second on the line.
    lights : dict
        Further members.

    Members
    -------
    rx : In(1, init=1)
        Line from the host; may change at any time.
    tx : Out(1, init=1)
        Line to the host.
    busy : Out(1)
        A request waits, an answer is being sent, or a self-test is running.

    Raises
    ------
    ProtocolError
        If the protocol does not support the unit.
    ValueError
        If the clock cannot be divided to the baud rate.
    """

    def __init__(self, unit, *, information, baud, others):
        check_slots(information.slots)
        self._rate = BaudRate(clock_hz=information.clock_hz, baud=baud)
        self.unit = unit
        self.information = information
        self._rom = information.rom()
        line = {"rx": In(1, init=1), "tx": Out(1, init=1), "busy": Out(1)}
        super().__init__(line | others)

    def _elaborate_line(self, m, unit, *, fault=None, period=0, least_period=0):
        """Connect line, bridge and registers; return bridge, registers and frame receiver.

        A `fault` of the unit ends the session, because results were lost.
        """
        slots, operations = self.information.slots, not self.information.frames
        m.submodules.uart_receiver = receiver = Receiver(rate=self._rate)
        m.submodules.uart_transmitter = transmitter = Transmitter(rate=self._rate)
        m.submodules.frame_receiver = frames = FrameReceiver(slots=slots)
        m.submodules.frame_sender = sender = FrameSender(slots=slots)
        bridge = Bridge(slots=slots, operations=operations)
        m.submodules.bridge = bridge if fault is None else ResetInserter(fault)(bridge)
        m.submodules.registers = registers = LineRegisters(
            addresses=self._line_addresses, rom=self._rom, period=period, least_period=least_period
        )
        wiring.connect(m, sender.o, transmitter.i)
        wiring.connect(m, bridge.answer, sender.i)
        wiring.connect(m, frames.o, bridge.request)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            frames.valid.eq(receiver.valid),
            frames.data.eq(receiver.data),
            frames.error.eq(receiver.error),
            bridge.ended.eq(frames.ended),
            frames.release.eq(bridge.release),
            sender.write.eq(bridge.write),
            sender.address.eq(bridge.write_address),
            sender.byte.eq(bridge.write_byte),
            registers.good.eq(frames.good),
            registers.bad.eq(frames.bad),
            registers.dropped.eq(frames.dropped),
            registers.repeated.eq(bridge.repeated),
            registers.out_of_order.eq(bridge.out_of_order),
            registers.error.eq(receiver.error),
        ]
        m.d.sync += self.busy.eq(
            frames.pending | ~sender.i.ready | ~transmitter.i.ready | registers.testing
        )
        self._elaborate_bus(m, unit, bridge.bus, registers.bus)
        return bridge, registers, frames

    def _elaborate_bus(self, m, unit, bus, line):
        """Connect the bridge to the words of the unit, and to the words above them."""
        above = bus.adr[WORD_ADDRESS_BITS:].any()
        m.d.comb += [
            unit.wb_cyc_i.eq(bus.stb & ~above),
            unit.wb_stb_i.eq(bus.stb & ~above),
            unit.wb_we_i.eq(bus.we),
            unit.wb_adr_i.eq(bus.adr),
            unit.wb_sel_i.eq(-1),
            unit.wb_dat_i.eq(bus.dat_w),
            line.stb.eq(bus.stb & above),
            line.we.eq(bus.we),
            line.adr.eq(bus.adr),
            line.dat_w.eq(bus.dat_w),
            bus.ack.eq(unit.wb_ack_o | line.ack),
            bus.err.eq(unit.wb_err_o | line.err),
            bus.dat_r.eq(Mux(above, line.dat_r, unit.wb_dat_o)),
        ]


def _words(registers):
    """Return the first word address and the width of each register of a unit."""
    return {name: (registers.find(name)[0].address // WORD_BYTES, width)
            for name, width in registers.registers.items()}  # fmt: skip


class FilterLink(Link):
    """A filter behind a serial line, with a self-test.

    The board generates the ticks of a window in time: one per millisecond after reset, or at the
    minimum period of the unit if that is longer, until another period is set.

    Parameters
    ----------
    spec : Specification
        Filter with one lane; must pass `check_buildable` of its `lately.hdl.build.unit_profile`.
    clock_hz : int
        Cycles per second.
    baud : int
        As for `Link`.
    version : tuple of int
        Version of Lately.
    slots : int
        Requests in flight: a power of two, 2 to 16. Each uses 384 bytes of memory.
    check : bool
        As for `self_check` of `UnitOptions`. A session ends when the unit resets itself.
    options
        ``memory``, ``levels`` and ``protect``, as for `lately.hdl.build.filter_unit`.

    Members
    -------
    alive : Out(1)
        Toggles about once per second, for an LED.
    hit : Out(1)
        A key was reported within about the last tenth of a second.
    fault : Out(1)
        The last self-test failed; a frame was damaged or dropped within about the last second; or
        the unit has found its state illegal since reset.

    For the other members and the errors see `Link`.

    Raises
    ------
    SpecificationError
        If the hardware cannot implement the specification.
    """

    def __init__(
        self, spec, *, clock_hz, baud, version=(0, 0, 0), slots=SLOTS, check=False, **options
    ):
        _check_spec(spec)
        self._profile = profile = unit_profile(spec, **options)
        ticks: dict[str, Any] = {"time_bits": TIME_BITS} if profile.least_period else {}
        inner = filter_unit(spec, tag_bits=MARK_BITS, statistics_bits=COUNTER_BITS,
                            self_check=check, **options, **ticks)  # fmt: skip
        unit = ControlledUnit(inner, spec=spec, bus="wishbone", version=version, status_bits=0)
        self._ticks, self._checks = "tick" in unit.signature.members, check
        self._line_addresses = line_addresses(ticks=self._ticks, operations=True)
        self._second = (clock_hz - 1).bit_length()
        self._period = max(-(-clock_hz // 1000), profile.least_period) if self._ticks else 0
        information = Information(
            slots=slots,
            clock_hz=clock_hz,
            spec=spec.to_dict(),
            registers=_words(unit.registers) | self._line_addresses,
            request=_widths(unit.signature.request),
            result=_widths(unit.signature.result),
            longest=_longest(spec, unit.signature.request.members),
            cycles=_test_cycles(plan(spec), profile),
            plan=plan(spec),
        )
        lights = dict.fromkeys(("alive", "hit", "fault"), Out(1))
        super().__init__(unit, information=information, baud=baud, others=lights)

    def elaborate(self, platform):
        m = Module()
        unit, profile = self.unit, self._profile
        fault = unit.unit.fault if self._checks else Const(0)
        bridge, registers, frames = self._elaborate_line(
            m, unit, fault=fault, period=self._period, least_period=profile.least_period
        )
        port = OperationPort(unit, self.information)
        m.submodules.port = ResetInserter(registers.reset | fault)(port)
        m.submodules.self_test = test = SelfTest(
            unit,
            self.information,
            least_period=profile.least_period,
            patience=2 * (profile.longest_pause + profile.reset_pause + profile.latency + 64),
        )
        # A test starts in a unit that was just reset, before any tick.
        m.submodules.unit = ResetInserter(registers.reset | registers.start)(unit)
        wiring.connect(m, bridge.operations, port.operations)
        wiring.connect(m, port.results, bridge.results)
        m.d.comb += [
            port.begin.eq(bridge.begin),
            bridge.idle.eq(port.idle),
            test.start.eq(registers.start),
            registers.testing.eq(test.busy),
            registers.crc.eq(test.crc),
        ]
        self._elaborate_streams(m, unit, port, test)
        if self._ticks:
            self._elaborate_ticks(m, unit, test, registers)
        self._elaborate_lights(m, unit, test, registers, frames.bad | frames.dropped, fault)
        return m

    def _elaborate_streams(self, m, unit, port, test):
        """Connect the unit to the port of operations, or to the self-test."""
        m.d.comb += [
            unit.i.valid.eq(Mux(test.busy, test.i.valid, port.i.valid)),
            unit.i.p.eq(Mux(test.busy, test.i.p.as_value(), port.i.p.as_value())),
            test.i.ready.eq(unit.i.ready & test.busy),
            port.i.ready.eq(unit.i.ready & ~test.busy),
            unit.o.ready.eq(Mux(test.busy, test.o.ready, port.o.ready)),
            test.o.valid.eq(unit.o.valid & test.busy),
            port.o.valid.eq(unit.o.valid & ~test.busy),
            test.o.p.eq(unit.o.p),
            port.o.p.eq(unit.o.p),
        ]

    def _elaborate_ticks(self, m, unit, test, registers):
        """Generate the ticks; during a self-test, use its ticks."""
        m.submodules.prescaler = prescaler = Prescaler(
            width=PERIOD_BITS, least=self._profile.least_period
        )
        m.d.comb += [
            prescaler.period.eq(registers.period),
            unit.tick.eq(Mux(test.busy, test.tick, prescaler.tick)),
        ]

    def _elaborate_lights(self, m, unit, test, registers, wrong, fault):
        """Stretch events so that they are visible."""
        m.submodules.time = time = EventCounter(width=self._second)
        reported, alarmed = Signal(), Signal()
        m.d.comb += [time.event.eq(1), self.alive.eq(time.count[-1])]
        m.d.comb += self.hit.eq(self._stretch(m, "hit", reported, time, 4))
        m.d.sync += [
            reported.eq(unit.o.valid & unit.o.p.seen & ~test.busy),
            alarmed.eq(alarmed | fault),
            self.fault.eq(self._stretch(m, "wrong", wrong, time, 1) | registers.failed | alarmed),
        ]

    def _stretch(self, m, name, event, time, place):
        """Return whether an event occurred in the last one or two periods of a bit of the time."""
        past = Signal(name=f"{name}_past")
        edge = Signal(name=f"{name}_edge")
        lit = Signal(2, name=f"{name}_lit")
        m.d.sync += [past.eq(time.count[-place]), edge.eq(past & ~time.count[-place])]
        with m.If(edge):
            m.d.sync += lit.eq(lit >> 1)
        with m.If(event):
            m.d.sync += lit.eq(3)
        return lit[0]


class FrameLink(Link):
    """A deduplicator between two Ethernet lines, behind a serial line.

    Parameters
    ----------
    deduplicator : Deduplicator
        As for `LineDeduplicator`.
    baud : int
        As for `Link`.
    version : tuple of int
        Version of Lately.
    clock_hz : int
        Cycles per second.

    Members
    -------
    rx_data, ..., tx_data, ..., alive
        As for `LineDeduplicator`.

    For the other members and the errors see `Link`.
    """

    def __init__(self, deduplicator, *, baud, version=(0, 0, 0), clock_hz=GMII_HZ):
        inner = ControlledDeduplicator(deduplicator, bus="wishbone", version=version)
        line = LineDeduplicator(inner)
        self._line_addresses = line_addresses(ticks=False, operations=False)
        information = Information(
            slots=SLOTS,
            clock_hz=clock_hz,
            spec=deduplicator.spec.to_dict(),
            registers=_words(inner.registers) | self._line_addresses,
        )
        members = line.signature.members.items()
        self._lines = {name: one for name, one in members if not name.startswith(_BUS)}
        super().__init__(line, information=information, baud=baud, others=self._lines)

    def elaborate(self, platform):
        m = Module()
        m.submodules.line = line = self.unit
        self._elaborate_line(m, line)
        for name, member in self._lines.items():
            outer, inner = getattr(self, name), getattr(line, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m


def _check_spec(spec: Specification) -> None:
    """Reject a filter that the protocol does not support."""
    for name, most in (("lanes", 1), ("span", MOST_SPAN)):
        value = getattr(spec, name, None) or 0
        if value > most:
            raise ProtocolError(f"{name}: must be at most {most} for a serial link, not {value}")


def _widths(payload):
    """Return the widths of the fields of a payload, by name."""
    return {name: width for name, _, width in fields(payload)}


def _longest(spec, request):
    """Return the longest window, or the highest class, of a query."""
    if "query_class" in request:
        return spec.classes - 1
    return spec.window_blocks if "window" in request else 0


def _test_cycles(plan, profile):
    """Return the approximate maximum cycles of a self-test."""
    rare = (plan.operations >> 6 + plan.clear_bits) + (plan.operations >> 6 + plan.shift_bits) + 8
    ticks = plan.operations >> plan.tick_bits if profile.least_period else 0
    waits = ticks * (profile.least_period + profile.latency + 16)
    return 4 * plan.operations + 2 * waits + 2 * rare * (profile.longest_pause + 64)
