"""Serial line: 8 data bits, no parity, one stop bit, at any rate that the clock can produce."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import cdc, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.errors import LatelyError

MIN_BAUD, MAX_BAUD = 115_200, 3_000_000
"""Range of baud rates."""

MIN_CYCLES = 8
"""Minimum cycles per bit: an edge is located to one cycle, at most an eighth of a bit."""

TOLERANCE = 0.02
"""Maximum relative error of the baud rate."""


class BaudError(LatelyError, ValueError):
    """The clock cannot be divided to the baud rate."""


class BaudRate:
    """Fractional divider from the clock to the baud rate.

    An accumulator of `width` bits grows by `increment` in every cycle, and a bit starts when it
    overflows. So the length of a bit varies by one cycle, but the average rate, `actual`, is exact.
    Raises BaudError if the rate is out of range or a bit has fewer than `MIN_CYCLES` cycles.
    """

    def __init__(self, *, clock_hz, baud):
        if not MIN_BAUD <= baud <= MAX_BAUD:
            raise BaudError(f"baud: must be {MIN_BAUD} to {MAX_BAUD}, not {baud}")
        if clock_hz < MIN_CYCLES * baud:
            raise BaudError(
                f"clock: must be at least {MIN_CYCLES} x {baud} baud = {MIN_CYCLES * baud} Hz, "
                f"not {clock_hz}"
            )
        # Ten bits more than the increment, so the error is at most one thousandth.
        self.width = (clock_hz // baud).bit_length() + 10
        self.increment = round(baud * (1 << self.width) / clock_hz)
        self.actual = clock_hz * self.increment / (1 << self.width)


class Transmitter(wiring.Component):
    """Sends bytes; accepts the next one after the stop bit."""

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
