"""A unit behind a serial line: everything in a bitstream except clock, reset and pins."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import fifo, memory, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from ...golden.spec.base import require
from ...hdl.build import filter_unit, unit_profile
from ...hdl.bus.controlled import COUNTER_BITS, MARK_BITS, ControlledUnit
from ...hdl.bus.register_bank import WORD_ADDRESS_BITS
from ...hdl.packets.deduplicator import ControlledDeduplicator
from ...hdl.packets.gmii import LineDeduplicator
from ...hdl.registers import ADDRESSES, WORD_BITS, Block, counters
from ...hdl.statistics import EventCounter
from ...hdl.target_clocks import GMII_HZ
from . import layout
from .bridge import BUS, BaudRate, Bridge, Receiver, Transmitter

# Depth of the byte buffer for input while results are sent or the unit is not ready.
QUEUE = 1024

# A command that pauses for this many bit times is dropped: 10 ms at 1 Mbaud.
TIMEOUT_BITS = 10_000

_ADDRESS_BITS = 10  # width of a word address on the board's bus
_CRC = catalog.CRC32_ISO_HDLC


def padded(name, value, width):
    """Zero-extend a value to `width` bits; raise SpecificationError if it is wider."""
    rule = f"must have at most {width} bits for a serial link"
    require(len(value) <= width, name, rule, len(value))
    return Cat(value, Const(0, width - len(value)))


class OperationPort(wiring.Component):
    """Performs every block whose trailer is correct; bus accesses wait until results are ready."""

    def __init__(self, unit):
        super().__init__(
            {
                "bus": In(BUS),
                "i": Out(stream.Signature(unit.signature.request)),
                "o": In(stream.Signature(unit.signature.result)),
                "busy": Out(1),
                "rejected": Out(1),  # high for one cycle for each block with a wrong trailer
            }
        )
        result = self.o.p
        fields = {name: getattr(result, name) for name in result.shape().members}
        mark = fields.get("status", fields.get("oldest", Const(0, 0)))
        age = padded("age", fields.get("age", Const(0, 0)), layout.AGE_BITS)
        time = [padded("time", result.time, WORD_BITS)] if "time" in fields else []
        # Same layout as in `layout.unpack_results`.
        self.record = Cat(age, padded("status", mark, layout.STATUS_BITS), result.seen, time)

    def elaborate(self, platform):
        m = Module()
        depth = layout.BLOCK_WORDS
        m.submodules.block = block = memory.Memory(shape=WORD_BITS, depth=depth, init=[])
        write, read = block.write_port(), block.read_port()
        performed, begin = Signal(WORD_BITS), Signal()
        self._elaborate_bus(m, write, performed, begin)
        head, shape, expected = (Signal(WORD_BITS, name=name) for name in ("head", "at", "expect"))
        for number, word in enumerate((head, shape, expected)):
            with m.If(write.en & (write.addr == layout.TRAILER + number)):
                m.d.sync += word.eq(write.data)
        m.submodules.check = check = _CRC(data_width=WORD_BITS).create()
        index, fetched, right = Signal(range(depth)), Signal(), Signal()
        m.d.comb += [
            read.addr.eq(index),
            check.start.eq(begin),
            check.data.eq(read.data),
            check.valid.eq(fetched),
        ]
        m.d.sync += [
            self.rejected.eq(0),
            fetched.eq(0),
            right.eq(check.match_detected & (expected == performed)),
        ]
        with m.FSM(name="block") as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.sync += index.eq(shape)
                with m.If(begin):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [index.eq(index + 1), fetched.eq(1)]
                with m.If(index.all()):
                    m.next = "LAST"
            with m.State("LAST"):
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.sync += [self.rejected.eq(~right), index.eq(shape)]
                m.next = "IDLE"
                with m.If(right):
                    m.next = "FETCH"
            self._elaborate_operations(m, read.data, index, head, shape & layout.MIXED != 0)
        return m

    def _elaborate_operations(self, m, word, index, head, mixed):
        request = self.i.p
        key = Signal(-(-len(request.key) // WORD_BITS) * WORD_BITS)
        # Words of an operation: code and window if `mixed`, then the key.
        last = len(key) // WORD_BITS
        number, pending = Signal(range(last + 1)), Signal(range(layout.BLOCK_WORDS))
        m.d.sync += pending.eq(pending + (self.i.valid & self.i.ready) - self.o.valid)
        with m.State("FETCH"):
            m.next = "TAKE"
            with m.If(index >= layout.TRAILER):
                m.next = "WAIT"
        with m.State("TAKE"):
            m.d.sync += [index.eq(index + 1), number.eq(number + 1)]
            m.next = "FETCH"
            with m.If(mixed & (number == 0)):
                m.d.sync += head.eq(word)
            with m.Else():
                m.d.sync += key.eq(Cat(key, word) >> WORD_BITS)
            with m.If(number == Mux(mixed, last, last - 1)):
                m.next = "OFFER"
        with m.State("OFFER"):
            m.d.comb += self.i.valid.eq(1)
            m.d.sync += number.eq(0)
            with m.If(self.i.ready):
                m.next = "FETCH"
        with m.State("WAIT"):
            m.d.sync += number.eq(0)
            with m.If(pending == 0):
                m.next = "IDLE"
        code, width = head[: layout.CODE_BITS], len(Value.cast(request.operation))
        m.d.comb += [request.operation.eq(Mux(code >> width, 0, code)), request.key.eq(key)]
        for name in {"window", "query_class"} & request.shape().members.keys():
            padded(name, getattr(request, name), layout.WINDOW_BITS)
            m.d.comb += getattr(request, name).eq(head[layout.CODE_BITS :])

    def _elaborate_bus(self, m, write, performed, begin):
        """Let the bus write blocks and read results; the last word of a block asserts `begin`."""
        bus, size = self.bus, len(self.record)
        words = size // WORD_BITS
        depth = layout.BLOCK_WORDS // words
        m.submodules.results = results = memory.Memory(shape=size, depth=depth, init=[])
        put, get = results.write_port(), results.read_port()
        m.submodules.signature = crc = _CRC(data_width=size).create()
        begins = bus.stb & ~bus.ack & ~self.busy
        read = Array(get.data.word_select(number, WORD_BITS) for number in range(words))
        m.d.comb += [
            write.en.eq(begins & bus.we & ~bus.adr[9]),
            write.addr.eq(bus.adr),
            write.data.eq(bus.dat_w),
            begin.eq(write.en & write.addr.all()),
            get.addr.eq(bus.adr[words // 2 :]),
            self.o.ready.eq(1),
            put.en.eq(self.o.valid),
            put.data.eq(self.record),
            crc.start.eq(begin),
            crc.valid.eq(self.o.valid),
            crc.data.eq(self.record),
            bus.dat_r.eq(read[bus.adr[0] if words > 1 else 0]),
        ]
        # Results start two words later.
        for index, value in enumerate((performed, crc.crc)):
            with m.If(bus.adr[:8] == index):
                m.d.comb += bus.dat_r.eq(value)
        m.d.sync += [bus.ack.eq(begins), performed.eq(performed + self.o.valid)]
        m.d.sync += put.addr.eq(Mux(begin, 2 // words, put.addr + put.en))


class Link(wiring.Component):
    """Base class for a unit on a Wishbone bus behind a serial line."""

    def __init__(self, unit, *, clock_hz, baud, others):
        self.unit = unit
        self._rate = BaudRate(clock_hz=clock_hz, baud=baud)
        self._clock_hz, self._timeout = clock_hz, TIMEOUT_BITS * clock_hz // baud
        super().__init__(
            {
                "rx": In(1, init=1),  # from the host; may change at any time
                "tx": Out(1, init=1),
                "busy": Out(1),  # bytes are in transit, or operations are in progress
                **others,
            }
        )

    def _elaborate_line(self, m, unit, port, events, reset=None):
        """Connect the line to `unit`, to `port` and to the board's own registers.

        This method adds the events of the line to `events`, and the registers count all events. A
        write to the reset register asserts `reset`.
        """
        m.submodules.uart_receiver = receiver = Receiver(rate=self._rate)
        m.submodules.uart_transmitter = transmitter = Transmitter(rate=self._rate)
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=8, depth=QUEUE)
        m.submodules.bridge = bridge = Bridge(timeout=self._timeout)
        wiring.connect(m, queue.r_stream, bridge.i)
        wiring.connect(m, bridge.o, transmitter.i)
        bus, board = bridge.bus, BUS.create()
        # The address is stable before an access starts.
        for_unit, for_board, for_port = Signal(), Signal(), Signal()
        address, above = bus.adr[:_ADDRESS_BITS], bus.adr[_ADDRESS_BITS:]
        registers = above == layout.BASE >> _ADDRESS_BITS + 2
        low = address[WORD_ADDRESS_BITS:] == 0
        m.d.sync += [
            for_unit.eq(registers & low),
            for_board.eq(registers & ~low),
            for_port.eq(above == layout.BLOCK >> _ADDRESS_BITS + 2),
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
    """A filter with one lane behind a serial line; `options` are passed on to `filter_unit`."""

    def __init__(self, spec, *, clock_hz, baud, version=(0, 0, 0), **options):
        layout.check_spec(spec)
        if min_period := unit_profile(spec, **options).min_period:
            # One tick per millisecond, until the host sets another period.
            period = max(-(-clock_hz // 1000), min_period)
            options |= {"ticks": "period", "period": period, "time_bits": layout.TIME_BITS}
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
        super().__init__(unit, clock_hz=clock_hz, baud=baud, others=lights)

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
            # An event is shown until a bit of the timer has changed from 1 to 0 twice.
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
    """A deduplicator between two Ethernet links, controlled over a serial port."""

    def __init__(self, deduplicator, *, baud, version=(0, 0, 0), clock_hz=GMII_HZ):
        inner = ControlledDeduplicator(deduplicator, bus="wishbone", version=version)
        line = LineDeduplicator(inner)
        members = line.signature.members.items()
        self._lines = {name: port for name, port in members if not name.startswith("wb_")}
        super().__init__(line, clock_hz=clock_hz, baud=baud, others=self._lines)

    def elaborate(self, platform):
        m = Module()
        m.submodules.line = line = self.unit
        no_port = BUS.create()
        m.d.comb += no_port.err.eq(no_port.stb)
        self._elaborate_line(m, line, no_port, {})
        for name, member in self._lines.items():
            outer, inner = getattr(self, name), getattr(line, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
