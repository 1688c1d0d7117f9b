"""A unit behind a serial line: the content of a board, except clock, reset and pins."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from ...hdl.build import filter_unit, unit_profile
from ...hdl.bus.controlled import COUNTER_BITS, MARK_BITS, ControlledUnit
from ...hdl.bus.register_bank import WORD_ADDRESS_BITS
from ...hdl.packets.axis_frames import ControlledDeduplicator
from ...hdl.packets.line_deduplicator import LineDeduplicator
from ...hdl.registers import ADDRESSES, WORD_BITS, Block, counters
from ...hdl.statistics import EventCounter
from ...hdl.target_clocks import GMII_HZ
from .bridge import Bridge, BusSignature
from .layout import BASE, BLOCK, TIME_BITS, check_spec
from .operations import OperationPort
from .uart import BaudRate, Receiver, Transmitter

QUEUE = 1024
"""Bytes that may arrive while results are sent, or while the unit accepts no operation."""

TIMEOUT_BITS = 10_000
"""A command that stops for so many bits of the line is dropped: for 10 ms at a million baud."""

_WORDS = 10
"""Width of a word address within the board."""


class Link(wiring.Component):
    """A unit on a Wishbone behind a serial line: base class of `FilterLink` and `FrameLink`."""

    def __init__(self, unit, *, clock_hz, baud, others, timeout_bits=TIMEOUT_BITS):
        self.unit = unit
        self._rate = BaudRate(clock_hz=clock_hz, baud=baud)
        self._clock_hz, self._timeout = clock_hz, timeout_bits * clock_hz // baud
        line = {
            "rx": In(1, init=1),  # from the host; may change at any time
            "tx": Out(1, init=1),
            "busy": Out(1),  # bytes are on their way, or operations are being performed
        }
        super().__init__(line | others)

    def _elaborate_line(self, m, unit, port, events, reset=None):
        """Connect the line with the registers of unit and board, and with a `port` on the bus.

        The `events`, which are counted, get those of the line. A write to a register is a `reset`.
        """
        m.submodules.uart_receiver = receiver = Receiver(rate=self._rate)
        m.submodules.uart_transmitter = transmitter = Transmitter(rate=self._rate)
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=8, depth=QUEUE)
        m.submodules.bridge = bridge = Bridge(timeout=self._timeout)
        wiring.connect(m, bridge.o, transmitter.i)
        bus, registers = bridge.bus, BusSignature().create()
        # The address is stable before an access begins.
        ours, own, ports = Signal(), Signal(), Signal()
        address, above = bus.adr[:_WORDS], bus.adr[_WORDS:]
        within, low = above == BASE >> _WORDS + 2, address[WORD_ADDRESS_BITS:] == 0
        m.d.sync += [
            ours.eq(within & low),
            own.eq(within & ~low),
            ports.eq(above == BLOCK >> _WORDS + 2),
        ]
        missing = ~ours & ~own & ~ports
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            queue.w_data.eq(receiver.data),
            queue.w_en.eq(receiver.valid),
            bridge.i.payload.eq(queue.r_data),
            bridge.i.valid.eq(queue.r_rdy),
            queue.r_en.eq(bridge.i.ready),
            unit.wb_cyc_i.eq(bus.stb & ours),
            unit.wb_stb_i.eq(bus.stb & ours),
            unit.wb_we_i.eq(bus.we),
            unit.wb_adr_i.eq(bus.adr),
            unit.wb_sel_i.eq(-1),
            unit.wb_dat_i.eq(bus.dat_w),
            port.stb.eq(bus.stb & ports),
            registers.stb.eq(bus.stb & own),
            bus.ack.eq(unit.wb_ack_o | port.ack | registers.ack),
            bus.err.eq(unit.wb_err_o | port.err | registers.err | (bus.stb & missing)),
            bus.dat_r.eq(Mux(ours, unit.wb_dat_o, Mux(ports, port.dat_r, registers.dat_r))),
        ]
        for part in (port, registers):
            m.d.comb += [part.adr.eq(address), part.we.eq(bus.we), part.dat_w.eq(bus.dat_w)]
        m.d.sync += self.busy.eq(queue.r_rdy | bridge.busy | ~transmitter.i.ready)
        events |= {"dropped": receiver.valid & ~queue.w_rdy, "error": receiver.error}
        self._elaborate_registers(m, registers, events, reset)

    def _elaborate_registers(self, m, bus, events, reset):
        """Answer accesses to the registers of the board: clock, counters and reset."""
        asked, known = bus.stb & ~bus.ack & ~bus.err, Signal()
        m.d.sync += [bus.ack.eq(asked & known), bus.err.eq(asked & ~known)]
        values = {"clock": Const(self._clock_hz, WORD_BITS)}
        for row in counters(Block.LINE):
            if row.event in events:
                m.submodules[row.name] = counter = EventCounter(width=WORD_BITS)
                m.d.comb += counter.event.eq(events[row.event])
                values[row.name] = counter.count
        with m.Switch(bus.adr):
            for name, value in values.items():
                with m.Case(ADDRESSES[name] // 4):
                    m.d.comb += known.eq(~bus.we)
                    m.d.sync += bus.dat_r.eq(value)
            if reset is not None:
                with m.Case(ADDRESSES["reset"] // 4):
                    m.d.comb += known.eq(bus.we)
                    m.d.sync += reset.eq(asked & bus.we)


class FilterLink(Link):
    """A filter with one lane behind a serial line.

    The unit generates the ticks of a window in time: one per millisecond after reset, or at the
    minimum period of the unit if that is longer, until another period is set. `options` are as for
    `lately.hdl.build.filter_unit`. SpecificationError if hardware or line do not support the
    specification, ValueError if the clock cannot be divided to the baud rate.
    """

    def __init__(
        self, spec, *, clock_hz, baud, version=(0, 0, 0), check=False, timeout_bits=TIMEOUT_BITS,
        **options,
    ):  # fmt: skip
        check_spec(spec)
        least = unit_profile(spec, **options).least_period
        period = max(-(-clock_hz // 1000), least)
        ticks: dict[str, Any] = {"ticks": "period", "period": period, "time_bits": TIME_BITS}
        inner = filter_unit(spec, tag_bits=MARK_BITS, statistics_bits=COUNTER_BITS,
                            self_check=check, **options, **(ticks if least else {}))  # fmt: skip
        unit = ControlledUnit(inner, spec=spec, bus="wishbone", version=version, status_bits=0)
        self._checks = check
        self._port = OperationPort(unit)
        lights = {
            "alive": Out(1),  # toggles about once per second
            "hit": Out(1),  # a key was reported within about the last tenth of a second
            # Bytes were lost or a block was rejected within about the last second, or the unit has
            # found its state illegal since reset.
            "fault": Out(1),
        }
        rates = {"clock_hz": clock_hz, "baud": baud, "timeout_bits": timeout_bits}
        super().__init__(unit, others=lights, **rates)

    def elaborate(self, platform):
        m = Module()
        unit, port = self.unit, self._port
        reset, fault = Signal(), unit.unit.fault if self._checks else Const(0)
        m.d.sync += reset.eq(0)
        m.submodules.unit = ResetInserter(reset)(unit)
        m.submodules.port = ResetInserter(reset | fault)(port)
        wiring.connect(m, port.i, unit.i)
        wiring.connect(m, unit.o, port.o)
        events = {"rejected": port.rejected}
        self._elaborate_line(m, unit, port.bus, events, reset)
        m.submodules.time = time = EventCounter(width=(self._clock_hz - 1).bit_length())
        alarmed, lit = Signal(), {}
        m.d.comb += [time.event.eq(1), self.alive.eq(time.count[-1])]
        # An event shows until a bit of the time has fallen twice.
        for name, event, place in (
            ("hit", unit.o.valid & unit.o.p.seen, 4),
            ("wrong", events["dropped"] | events["error"] | events["rejected"], 1),
        ):
            came, past, fell = (Signal(name=f"{name}_{one}") for one in ("came", "past", "fell"))
            lit[name] = Signal(2, name=f"{name}_lit")
            m.d.sync += [
                came.eq(event),
                past.eq(time.count[-place]),
                fell.eq(past & ~time.count[-place]),
                lit[name].eq(Mux(came, 3, Mux(fell, lit[name] >> 1, lit[name]))),
            ]
        m.d.sync += [alarmed.eq(alarmed | fault), self.fault.eq(lit["wrong"].any() | alarmed)]
        m.d.comb += self.hit.eq(lit["hit"].any())
        return m


class FrameLink(Link):
    """A `Deduplicator` between two Ethernet lines, behind a serial line; see `LineDeduplicator`."""

    def __init__(self, deduplicator, *, baud, version=(0, 0, 0), clock_hz=GMII_HZ):
        inner = ControlledDeduplicator(deduplicator, bus="wishbone", version=version)
        line = LineDeduplicator(inner)
        members = line.signature.members.items()
        self._lines = {name: one for name, one in members if not name.startswith("wb_")}
        super().__init__(line, clock_hz=clock_hz, baud=baud, others=self._lines)

    def elaborate(self, platform):
        m = Module()
        m.submodules.line = line = self.unit
        none = BusSignature().create()
        m.d.comb += none.err.eq(none.stb)
        self._elaborate_line(m, line, none, {})
        for name, member in self._lines.items():
            outer, inner = getattr(self, name), getattr(line, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
