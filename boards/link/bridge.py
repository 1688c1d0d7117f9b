"""Serial line of a board, and the bridge from its bytes to a bus.

A line has 8 data bits, no parity and one stop bit. The bridge is compatible with LiteX's UARTBone
and its software.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import cdc, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.errors import LatelyError
from ...hdl.registers import WORD_BITS
from .layout import COMMANDS, READ, WRITE, WRITE_SAME

MIN_BAUD, MAX_BAUD = 115_200, 3_000_000

# Minimum cycles per bit. Edges are located to within one cycle, at most an eighth of a bit.
MIN_CYCLES = 8


class BaudError(LatelyError, ValueError):
    """The clock cannot generate the baud rate."""


class BaudRate:
    """Fractional divider that derives the baud rate from the clock.

    An accumulator of `width` bits grows by `increment` in every cycle, and a bit starts when the
    accumulator overflows. The length of a bit therefore varies by one cycle, but the average rate
    is accurate to one thousandth.
    """

    def __init__(self, *, clock_hz, baud):
        if not MIN_BAUD <= baud <= MAX_BAUD:
            raise BaudError(f"baud: must be between {MIN_BAUD} and {MAX_BAUD}, not {baud}")
        if clock_hz < MIN_CYCLES * baud:
            raise BaudError(
                f"clock: must be at least {MIN_CYCLES * baud} Hz ({MIN_CYCLES} cycles per bit at "
                f"{baud} baud), not {clock_hz} Hz"
            )
        # Ten bits more than the increment, so the error is at most one thousandth.
        self.width = (clock_hz // baud).bit_length() + 10
        self.increment = round(baud * (1 << self.width) / clock_hz)


class Transmitter(wiring.Component):
    """Sends bytes; the next byte is accepted after the stop bit."""

    def __init__(self, *, rate):
        self._rate = rate
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        phase, bit_ends = Signal(self._rate.width), Signal()
        # Start bit, data, stop bit; the marker bit above them shows when all have been sent.
        bits = Signal(10, init=1)
        idle = Signal(init=1)
        m.d.comb += self.i.ready.eq(idle)
        m.d.sync += Cat(phase, bit_ends).eq(phase + self._rate.increment)
        with m.If(idle):
            m.d.sync += [Cat(phase, bit_ends).eq(0), self.tx.eq(1)]
            with m.If(self.i.valid):
                m.d.sync += [bits.eq(Cat(self.i.payload, 1, 1)), idle.eq(0), self.tx.eq(0)]
        with m.Elif(bit_ends):
            m.d.sync += [self.tx.eq(bits[0]), bits.eq(bits >> 1), idle.eq(bits == 1)]
        return m


class Receiver(wiring.Component):
    """Receives bytes; each bit is the majority of three samples around its middle.

    A byte without a stop bit, for example on a line that is held low, is an error. The next byte
    can start once the line has been high.
    """

    def __init__(self, *, rate):
        self._rate = rate
        super().__init__(
            {
                "rx": In(1, init=1),  # may change at any time
                "valid": Out(1),  # high for one cycle for each byte
                "data": Out(8),
                "error": Out(1),  # high for one cycle for each byte without a stop bit
            }
        )

    def elaborate(self, platform):
        m = Module()
        synchronised, line = Signal(init=1), Signal(init=1)
        past = Signal(2, init=3)
        m.submodules.synchroniser = cdc.FFSynchronizer(self.rx, synchronised, init=1)
        m.d.sync += [
            past.eq(Cat(synchronised, past)),
            line.eq((past.all()) | (synchronised & past.any())),
        ]
        width, increment = self._rate.width, self._rate.increment
        phase = Signal(width)
        sample = Signal()
        # Remaining bits to sample; the start bit is shifted out at the bottom.
        left = Signal(range(11))
        bits = Signal(9)
        m.d.sync += [
            Cat(phase, sample).eq(phase + increment),
            self.valid.eq(0),
            self.error.eq(0),
        ]
        with m.FSM(name="receiver"):
            with m.State("IDLE"):
                # Half a bit, less the cycles until the edge is detected.
                m.d.sync += [Cat(phase, sample).eq((1 << width - 1) + 2 * increment), left.eq(9)]
                with m.If(~line):
                    m.next = "BITS"
            with m.State("BITS"), m.If(sample):
                m.d.sync += [bits.eq(Cat(bits[1:], line)), left.eq(left - 1)]
                with m.If((left == 9) & line):
                    m.next = "IDLE"
                with m.If(left == 0):
                    m.d.sync += [self.valid.eq(line), self.error.eq(~line)]
                    m.d.sync += self.data.eq(bits[1:])
                    m.next = "LOW"
                    with m.If(line):
                        m.next = "IDLE"
            with m.State("LOW"), m.If(line):
                m.next = "IDLE"
        return m


BUS = wiring.Signature(
    {
        "stb": Out(1),
        "we": Out(1),
        "adr": Out(32),
        "dat_w": Out(WORD_BITS),
        "dat_r": In(WORD_BITS),
        "ack": In(1),
        "err": In(1),
    }
)
"""Wishbone initiator with one access at a time, which ends with `ack` or `err`."""


class Bridge(wiring.Component):
    """Performs the bus reads and writes that arrive as bytes. A failed read returns all ones.

    A command that pauses for `timeout` cycles is dropped, so the next byte starts a new command.
    """

    def __init__(self, *, timeout):
        self._timeout = timeout
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "bus": Out(BUS),
                "busy": Out(1),  # a command is in progress
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        command, left, word = Signal(8), Signal(8), Signal(WORD_BITS)
        number = Signal(3)  # index of the byte
        idle = Signal(range(self._timeout + 1))
        done, late, step = Signal(), Signal(), Signal()
        last, accepted = left == 1, self.i.valid & self.i.ready
        m.d.comb += [
            done.eq(bus.ack | bus.err),
            bus.dat_w.eq(word),
            self.o.payload.eq(word[-8:]),
        ]
        m.d.sync += [
            late.eq(idle == self._timeout),
            idle.eq(Mux(accepted | done | self.o.valid | ~self.busy, 0, idle + 1)),
        ]
        with m.FSM(name="bridge") as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("HEADER") | (number != 0))
            with m.State("HEADER"):
                self._receive(m, Cat(bus.adr, left, command), number, 6, "DECODE")
                # Resynchronise after a missing or extra byte.
                with m.If((number == 0) & ~self.i.payload.matches(*COMMANDS)):
                    m.d.sync += number.eq(0)
            with m.State("DECODE"):
                m.d.sync += number.eq(0)
                m.next = "READ"
                with m.If(command.matches(WRITE, WRITE_SAME)):
                    m.next = "DATA"
            with m.State("DATA"):
                self._receive(m, word, number, 4, "WRITE")
                with m.If(late):
                    m.next = "HEADER"
            with m.State("WRITE"):
                m.d.comb += [bus.stb.eq(1), bus.we.eq(1), step.eq(done)]
                with m.If(done):
                    m.next = "DATA"
                with m.If((done & last) | late):
                    m.next = "HEADER"
            with m.State("READ"):
                m.d.comb += bus.stb.eq(1)
                with m.If(done):
                    m.d.sync += word.eq(Mux(bus.err, -1, bus.dat_r))
                    m.next = "SEND"
                with m.If(late):
                    m.next = "HEADER"
            with m.State("SEND"):
                m.d.comb += [self.o.valid.eq(1), step.eq(self.o.ready & (number == 3))]
                with m.If(self.o.ready):
                    m.d.sync += [word.eq(word << 8), number.eq(number + 1)]
                with m.If(step):
                    m.next = "READ"
                with m.If(step & last):
                    m.next = "HEADER"
        with m.If(step):
            ascends = command.matches(WRITE, READ)
            m.d.sync += [left.eq(left - 1), number.eq(0), bus.adr.eq(bus.adr + ascends)]
        with m.If(late):
            m.d.sync += number.eq(0)
        return m

    def _receive(self, m, word, number, count, state):
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.i.valid):
            m.d.sync += [word.eq(Cat(self.i.payload, word)), number.eq(number + 1)]
            with m.If(number == count - 1):
                m.next = state
