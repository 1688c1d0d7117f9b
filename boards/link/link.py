"""A unit behind a serial line: all of a board except clock, reset and pins."""

from amaranth.hdl import Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from ...hdl.build import filter_unit, unit_profile
from ...hdl.bus.controlled import COUNTER_BITS, MARK_BITS, ControlledUnit
from ...hdl.bus.register_bank import WORD_ADDRESS_BITS
from ...hdl.packets.deduplicator import ControlledDeduplicator
from ...hdl.packets.gmii import LineDeduplicator
from ...hdl.registers import ADDRESSES, WORD_BITS, Block, counters
from ...hdl.statistics import EventCounter
from ...hdl.target_clocks import GMII_HZ
from .bridge import Bridge, BusSignature
from .layout import BASE, BLOCK, TIME_BITS, check_spec
from .operations import OperationPort
from .uart import BaudRate, Receiver, Transmitter

QUEUE = 1024
"""Depth of the byte buffer for input while results are sent or the unit is not ready."""

TIMEOUT_BITS = 10_000
"""A command that pauses for this many bit times is dropped: 10 ms at 1 Mbaud."""

_WORDS = 10
"""Width of a word address on the board's bus."""


class Link(wiring.Component):
    """A unit on a Wishbone bus behind a serial line: base class of `FilterLink` and `FrameLink`."""

    def __init__(self, unit, *, clock_hz, baud, others, timeout_bits=TIMEOUT_BITS):
        self.unit = unit
        self._rate = BaudRate(clock_hz=clock_hz, baud=baud)
        self._clock_hz, self._timeout = clock_hz, timeout_bits * clock_hz // baud
        line = {
            "rx": In(1, init=1),  # from the host; may change at any time
            "tx": Out(1, init=1),
            "busy": Out(1),  # bytes are in transit, or operations are in progress
        }
        super().__init__(line | others)

    def _elaborate_line(self, m, unit, port, events, reset=None):
        """Connect the line to the registers of unit and board, and to `port` on the bus.

        Events of the line are added to `events`, which are counted. Writing the register `reset`
        asserts the signal `reset`.
        """
        m.submodules.uart_receiver = receiver = Receiver(rate=self._rate)
        m.submodules.uart_transmitter = transmitter = Transmitter(rate=self._rate)
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=8, depth=QUEUE)
        m.submodules.bridge = bridge = Bridge(timeout=self._timeout)
        wiring.connect(m, queue.r_stream, bridge.i)
        wiring.connect(m, bridge.o, transmitter.i)
        bus, board = bridge.bus, BusSignature().create()
        # The address is stable before an access starts.
        for_unit, for_board, for_port = Signal(), Signal(), Signal()
        address, above = bus.adr[:_WORDS], bus.adr[_WORDS:]
        registers, low = above == BASE >> _WORDS + 2, address[WORD_ADDRESS_BITS:] == 0
        m.d.sync += [
            for_unit.eq(registers & low),
            for_board.eq(registers & ~low),
            for_port.eq(above == BLOCK >> _WORDS + 2),
        ]
        missing = ~for_unit & ~for_board & ~for_port
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            queue.w_data.eq(receiver.data),
            queue.w_en.eq(receiver.valid),
            unit.wb_cyc_i.eq(bus.stb & for_unit),
            unit.wb_stb_i.eq(bus.stb & for_unit),
            unit.wb_we_i.eq(bus.we),
            unit.wb_adr_i.eq(bus.adr),
            unit.wb_sel_i.eq(-1),
            unit.wb_dat_i.eq(bus.dat_w),
            port.stb.eq(bus.stb & for_port),
            board.stb.eq(bus.stb & for_board),
            bus.ack.eq(unit.wb_ack_o | port.ack | board.ack),
            bus.err.eq(unit.wb_err_o | port.err | board.err | (bus.stb & missing)),
            bus.dat_r.eq(Mux(for_unit, unit.wb_dat_o, Mux(for_port, port.dat_r, board.dat_r))),
        ]
        for slave in (port, board):
            m.d.comb += [slave.adr.eq(address), slave.we.eq(bus.we), slave.dat_w.eq(bus.dat_w)]
        m.d.sync += self.busy.eq(queue.r_rdy | bridge.busy | ~transmitter.i.ready)
        # Same checksum as `layout.write_check`. Blocks of operations have a CRC instead.
        check = Signal(WORD_BITS)
        with m.If(bus.we & (bus.ack | bus.err) & ~for_port):
            m.d.sync += check.eq(check.rotate_left(1) ^ bus.adr ^ bus.dat_w)

        # Registers of the board itself.
        values = {"clock": Const(self._clock_hz, WORD_BITS), "write_check": check}
        events |= {"dropped": receiver.valid & ~queue.w_rdy, "error": receiver.error}
        for row in counters(Block.LINE):
            if row.event in events:
                m.submodules[row.name] = counter = EventCounter(width=WORD_BITS)
                m.d.comb += counter.event.eq(events[row.event])
                values[row.name] = counter.count
        begins, exists = board.stb & ~board.ack & ~board.err, Signal()
        m.d.sync += [board.ack.eq(begins & exists), board.err.eq(begins & ~exists)]
        with m.Switch(address):
            for name, value in values.items():
                with m.Case(ADDRESSES[name] // 4):
                    m.d.comb += exists.eq(~bus.we)
                    m.d.sync += board.dat_r.eq(value)
            if reset is not None:
                with m.Case(ADDRESSES["reset"] // 4):
                    m.d.comb += exists.eq(bus.we)
                    m.d.sync += reset.eq(begins & bus.we)


class FilterLink(Link):
    """A one-lane filter behind a serial line.

    For a time window, the unit generates the ticks: after reset one per millisecond, or at the
    unit's minimum period if that is longer, until another period is set. `options` are those of
    `lately.hdl.build.filter_unit`. Raises SpecificationError if hardware or line do not support the
    specification, and BaudError if the clock cannot be divided to the baud rate.
    """

    def __init__(
        self, spec, *, clock_hz, baud, version=(0, 0, 0), timeout_bits=TIMEOUT_BITS, **options
    ):
        check_spec(spec)
        if min_period := unit_profile(spec, **options).min_period:
            period = max(-(-clock_hz // 1000), min_period)
            options |= {"ticks": "period", "period": period, "time_bits": TIME_BITS}
        inner = filter_unit(spec, tag_bits=MARK_BITS, statistics_bits=COUNTER_BITS, **options)
        unit = ControlledUnit(inner, spec=spec, bus="wishbone", version=version, status_bits=0)
        self._checks = options.get("self_check", False)
        self._port = OperationPort(unit)
        lights = {
            "alive": Out(1),  # toggles about once per second
            "hit": Out(1),  # a key was reported within the last 0.1 s, approximately
            # Bytes were lost or a block was rejected within about the last second, or the unit has
            # detected an illegal state since reset.
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
        m.d.comb += [time.event.eq(1), self.alive.eq(time.count[-1])]
        alarmed = Signal()
        m.d.sync += alarmed.eq(alarmed | fault)
        wrong = events["dropped"] | events["error"] | events["rejected"]
        for name, event, bit, always in (
            ("hit", unit.o.valid & unit.o.p.seen, 4, Const(0)),
            ("fault", wrong, 1, alarmed),
        ):
            # An event is shown until a bit of the timer has fallen twice.
            registers = (Signal(name=f"{name}_{part}") for part in ("event", "past", "fell"))
            shown, (came, past, fell) = Signal(2, name=f"{name}_shown"), registers
            m.d.sync += [
                came.eq(event),
                past.eq(time.count[-bit]),
                fell.eq(past & ~time.count[-bit]),
                shown.eq(Mux(came, 3, Mux(fell, shown >> 1, shown))),
                getattr(self, name).eq(shown.any() | always),
            ]
        return m


class FrameLink(Link):
    """A deduplicator between two Ethernet lines, behind a serial line; see `LineDeduplicator`."""

    def __init__(self, deduplicator, *, baud, version=(0, 0, 0), clock_hz=GMII_HZ):
        inner = ControlledDeduplicator(deduplicator, bus="wishbone", version=version)
        line = LineDeduplicator(inner)
        members = line.signature.members.items()
        self._lines = {name: port for name, port in members if not name.startswith("wb_")}
        super().__init__(line, clock_hz=clock_hz, baud=baud, others=self._lines)

    def elaborate(self, platform):
        m = Module()
        m.submodules.line = line = self.unit
        no_port = BusSignature().create()
        m.d.comb += no_port.err.eq(no_port.stb)
        self._elaborate_line(m, line, no_port, {})
        for name, member in self._lines.items():
            outer, inner = getattr(self, name), getattr(line, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
